//! `CURRENT`: one line that names the manifest in use. It is replaced by a rename, so that it
//! names the old manifest or the new one and never half of either.

use std::sync::Arc;

use terrace_storage::{Directory, ErrorKind, File, FileIdentity, OpenMode, OpenOptions, Purpose};
use xxhash_rust::xxh3::xxh3_64;

use super::manifest::{LONGEST_BYTES, manifest_file_name, manifest_number, read_file};
use super::record::{Records, holds_more_than_first};
use crate::{Error, Result};

pub(super) const NAME: &str = "CURRENT";
const TEMPORARY_NAME: &str = "CURRENT.tmp";
const LONGEST_LINE_BYTES: u64 = 256;

fn line(number: u64) -> String {
    let name = manifest_file_name(number);
    format!("{name} {:016x}\n", xxh3_64(name.as_bytes()))
}

/// Returns the number of the manifest in use.
///
/// # Errors
/// [`Error::NoStore`] if there is none and nothing was ever stored here.
pub(super) fn read(directory: &dyn Directory) -> Result<u64> {
    let bytes = match read_file(directory, NAME, LONGEST_LINE_BYTES, Purpose::Manifest) {
        Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => {
            return Err(missing(directory)?);
        }
        read => read?,
    };
    parse(&bytes).ok_or_else(|| {
        Error::corruption(
            &directory.shown(NAME),
            0,
            "it does not name a manifest with the right checksum",
        )
    })
}

/// Reads the number strictly: takes only a line as [`line()`] makes it.
pub(super) fn parse(bytes: &[u8]) -> Option<u64> {
    let text = str::from_utf8(bytes).ok()?;
    let (name, _) = text.split_once(' ')?;
    manifest_number(name).filter(|&number| line(number) == text)
}

/// The file that an owner found or made as `CURRENT`. It stays open, so that no other file gets its
/// identity.
#[derive(Debug)]
pub(super) struct Current {
    identity: FileIdentity,
    _file: Arc<dyn File>,
}

impl Current {
    /// Opens the file that is there.
    pub(super) fn open(directory: &dyn Directory) -> Result<Self> {
        let file = directory.open(NAME, OpenOptions::buffered(OpenMode::Read))?;
        Ok(Current {
            identity: directory.identity_of(NAME)?,
            _file: file,
        })
    }

    /// Returns whether the file is still the one under its name.
    ///
    /// # Errors
    /// The directory cannot be asked.
    pub(super) fn is_in_place(&self, directory: &dyn Directory) -> Result<bool> {
        match directory.identity_of(NAME) {
            Ok(found) => Ok(found == self.identity),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// A way in which [`switch`] failed.
pub(super) enum SwitchError {
    /// `CURRENT` is as it was.
    Unchanged(Error),
    /// It is unknown which manifest the next open will find.
    Unknown(Error),
}

/// Makes `CURRENT` name a manifest, durably. The first one of a store replaces none: a
/// process that made one meanwhile owns the directory.
pub(super) fn switch(
    directory: &dyn Directory,
    number: u64,
    is_first: bool,
) -> std::result::Result<Current, SwitchError> {
    let current = write_temporary(directory, number)?;
    let renamed = if is_first {
        directory.rename_new(TEMPORARY_NAME, NAME)
    } else {
        directory.rename(TEMPORARY_NAME, NAME)
    };
    if let Err(error) = renamed {
        // A rename may report an error and yet have happened; only the name can tell.
        return Err(match read(directory) {
            Ok(named) if named != number => SwitchError::Unchanged(error.into()),
            Err(Error::NoStore { .. }) => SwitchError::Unchanged(error.into()),
            _ => SwitchError::Unknown(error.into()),
        });
    }
    directory
        .sync()
        .map_err(|error| SwitchError::Unknown(error.into()))?;
    Ok(current)
}

fn write_temporary(
    directory: &dyn Directory,
    number: u64,
) -> std::result::Result<Current, SwitchError> {
    let unchanged = |error: terrace_storage::Error| SwitchError::Unchanged(error.into());
    match directory.remove(TEMPORARY_NAME) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unchanged(error)),
        _ => {}
    }
    let file = directory
        .open(TEMPORARY_NAME, OpenOptions::buffered(OpenMode::CreateNew))
        .map_err(unchanged)?;
    file.write_at(line(number).as_bytes(), 0, Purpose::Manifest)
        .map_err(unchanged)?;
    let identity = directory.identity_of(TEMPORARY_NAME).map_err(unchanged)?;
    file.sync(Purpose::Manifest)
        .map_err(|error| SwitchError::Unknown(error.into()))?;
    Ok(Current {
        identity,
        _file: file,
    })
}

/// Returns the error of a directory without `CURRENT`: no store yet, or a damaged one.
fn missing(directory: &dyn Directory) -> Result<Error> {
    let no_store = |detail: &str| Error::NoStore {
        path: directory.path().to_path_buf(),
        detail: detail.to_owned(),
    };
    let entries = directory.list()?;
    let mut creation_interrupted = false;
    let mut foreign = false;
    let others = entries.iter().filter(|entry| !entry.is_of_file_system());
    for entry in others {
        let name = entry.name.as_str();
        let leftover = match manifest_number(name) {
            Some(1) => holds_one_edit_at_most(directory, name)?,
            Some(_) => false,
            None => !name.starts_with("arena-") && !name.ends_with(".table"),
        };
        if !leftover {
            return Ok(Error::corruption(
                &directory.shown(NAME),
                0,
                format!("the file is missing, but {name} of a store is there"),
            ));
        }
        creation_interrupted |= manifest_number(name).is_some();
        foreign |= !matches!(name, "LOCK" | TEMPORARY_NAME) && manifest_number(name).is_none();
    }
    Ok(no_store(if creation_interrupted {
        "its creation was interrupted before anything was stored; create it again"
    } else if foreign {
        "the directory holds other files; name an empty one to create a store"
    } else {
        "the directory is empty; create a store first"
    }))
}

/// Returns whether the first manifest can be the remains of an interrupted creation. An open store
/// first records an arena. So an edit behind the first means that there was a store, even where the
/// first edit or the header is damaged.
///
/// # Errors
/// [`Error::Unsupported`] for a manifest of another version, of which nothing is known.
fn holds_one_edit_at_most(directory: &dyn Directory, name: &str) -> Result<bool> {
    let bytes = read_file(directory, name, LONGEST_BYTES, Purpose::Manifest)?;
    match Records::new(&directory.shown(name), &bytes, 1) {
        Err(error @ Error::Unsupported { .. }) => Err(error),
        _ => Ok(!holds_more_than_first(&bytes, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_line_is_taken() {
        let good = line(5);
        assert!(good.starts_with("MANIFEST-000005 ") && good.len() == 33);
        assert_eq!(parse(good.as_bytes()), Some(5));
        assert_eq!(parse(line(12_345_678).as_bytes()), Some(12_345_678));
        for cut in 0..good.len() {
            assert_eq!(parse(&good.as_bytes()[..cut]), None);
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&bytes), None, "bit {bit}");
        }
        assert_eq!(parse(format!("{good}x").as_bytes()), None);
    }
}
