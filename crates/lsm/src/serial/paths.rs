//! Paths in reports: as text, and in hexadecimal beside it where they are not UTF-8.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{from_hex, to_hex};

/// Returns the text of a path, without bytes that are not UTF-8.
fn lossy(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

pub(crate) fn hex_of(path: impl AsRef<Path>) -> String {
    to_hex(path.as_ref().as_os_str().as_bytes())
}

pub(crate) fn path_of_hex<E: de::Error>(hex: &str) -> Result<PathBuf, E> {
    let bytes = from_hex(hex).ok_or_else(|| E::custom("a path is not in hexadecimal"))?;
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// The field `region_dir`, and `region_dir_hex` where it is needed.
pub mod region_dir {
    use super::{
        Deserialize, Deserializer, PathBuf, Serialize, Serializer, hex_of, lossy, path_of_hex,
    };

    #[derive(Serialize, Deserialize)]
    struct Form {
        #[serde(default)]
        region_dir: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        region_dir_hex: Option<String>,
    }

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        let inexact = path.as_ref().filter(|path| path.to_str().is_none());
        Form {
            region_dir: path.as_ref().map(lossy),
            region_dir_hex: inexact.map(hex_of),
        }
        .serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let form = Form::deserialize(from)?;
        match form.region_dir_hex {
            Some(hex) => path_of_hex(&hex).map(Some),
            None => Ok(form.region_dir.map(PathBuf::from)),
        }
    }
}

/// The field `path`, and `path_hex` where it is needed.
pub mod path {
    use super::{
        Deserialize, Deserializer, Path, PathBuf, Serialize, Serializer, hex_of, lossy, path_of_hex,
    };

    #[derive(Serialize, Deserialize)]
    struct Form {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_hex: Option<String>,
    }

    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let is_exact = path.to_str().is_some();
        Form {
            path: lossy(path),
            path_hex: (!is_exact).then(|| hex_of(path)),
        }
        .serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let form = Form::deserialize(from)?;
        match form.path_hex {
            Some(hex) => path_of_hex(&hex),
            None => Ok(PathBuf::from(form.path)),
        }
    }
}

/// The list `foreign_files`, and `foreign_files_hex` with all of them where one needs it.
pub mod foreign_files {
    use super::{
        Deserialize, Deserializer, PathBuf, Serialize, Serializer, hex_of, lossy, path_of_hex,
    };

    #[derive(Serialize, Deserialize)]
    struct Form {
        #[serde(default)]
        foreign_files: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        foreign_files_hex: Vec<String>,
    }

    pub fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        let is_exact = paths.iter().all(|path| path.to_str().is_some());
        let inexact = paths.iter().filter(|_| !is_exact);
        Form {
            foreign_files: paths.iter().map(lossy).collect(),
            foreign_files_hex: inexact.map(hex_of).collect(),
        }
        .serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        let form = Form::deserialize(from)?;
        match &*form.foreign_files_hex {
            [] => Ok(form.foreign_files.into_iter().map(PathBuf::from).collect()),
            hex => hex.iter().map(|hex| path_of_hex(hex)).collect(),
        }
    }
}

/// A path of an option: text, or `{ hex = "..." }`.
pub mod option {
    use std::fmt;

    use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};

    use super::{
        Deserialize, Deserializer, PathBuf, Serialize, Serializer, de, hex_of, path_of_hex,
    };

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Hex {
        hex: String,
    }

    struct Written;

    impl<'de> Visitor<'de> for Written {
        type Value = PathBuf;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a path, or { hex = \"...\" } for one that is not UTF-8")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<PathBuf, E> {
            Ok(PathBuf::from(text))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PathBuf, A::Error> {
            let written = Hex::deserialize(MapAccessDeserializer::new(map))?;
            path_of_hex(&written.hex)
        }
    }

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        let Some(path) = path else {
            return to.serialize_none();
        };
        match path.to_str() {
            Some(text) => to.serialize_some(text),
            None => to.serialize_some(&Hex { hex: hex_of(path) }),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        from.deserialize_any(Written).map(Some)
    }
}
