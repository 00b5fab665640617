//! The way in which arenas take new writes.

use std::fmt;
use std::str::FromStr;

/// The way in which arenas in files take new writes. All methods write the same bytes, so a store
/// may be opened with another one than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum PersistMethod {
    /// The method that suits file system and durability: `Mapped` where that may be, `Written` for
    /// a `PowerSafe` store on a disk and elsewhere.
    #[default]
    Auto,
    /// One `pwrite` for each commit group; one fdatasync persists. On any file system.
    Written,
    /// Stores into the mapped file: no system call for a write, one fdatasync persists. On ext4, xfs
    /// and tmpfs; elsewhere opening is an error with advice.
    Mapped,
    /// Stores into persistent memory; writing cache lines back persists. On ext4 and xfs mounted
    /// with `-o dax=always`; elsewhere opening is an error with advice.
    Dax,
}

impl fmt::Display for PersistMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PersistMethod::Auto => "auto",
            PersistMethod::Written => "written",
            PersistMethod::Mapped => "mapped",
            PersistMethod::Dax => "dax",
        })
    }
}

impl FromStr for PersistMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        use PersistMethod::{Auto, Dax, Mapped, Written};
        let found = [Auto, Written, Mapped, Dax]
            .into_iter()
            .find(|method| method.to_string() == text);
        found.ok_or_else(|| {
            format!("there is no persist method {text:?}; use auto, written, mapped or dax")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_by_its_name() {
        for method in ["auto", "written", "mapped", "dax"] {
            assert_eq!(method.parse::<PersistMethod>().unwrap().to_string(), method);
        }
        let error = "mmap".parse::<PersistMethod>().unwrap_err();
        assert!(
            error.contains("use auto, written, mapped or dax"),
            "{error}"
        );
    }
}
