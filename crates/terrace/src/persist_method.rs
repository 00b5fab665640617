//! How new writes reach what survives: the choice of a persist method, and the region it opens.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terrace_region::{DaxOptions, MappedOptions, Region, WrittenOptions};
use terrace_storage::{Directory, FileSystem, Storage};

use crate::options::Durability;

/// How arenas in files take new writes. All methods write the same bytes, so a store may be opened
/// with another one than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PersistMethod {
    /// The one that suits file system and durability: `Mapped` where that may be, `Written` for a
    /// `PowerSafe` store on a disk and elsewhere.
    #[default]
    Auto,
    /// One `pwrite` for each commit group; one fdatasync persists. On any file system.
    Written,
    /// Stores into the mapped file: no system call for a write, one fdatasync persists. On ext4, xfs
    /// and tmpfs; elsewhere opening is an error that says what to do.
    Mapped,
    /// Stores into persistent memory; writing cache lines back persists. On ext4 and xfs mounted
    /// with `-o dax=always`; elsewhere opening is an error that says what to do.
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

/// What `Auto` means for a store on a file system: never `Auto`. Measured; see *Persist methods* in
/// ARCHITECTURE.md.
///
/// A store into a mapping is the cheapest write by far, but each sync costs it the page tables'
/// write permissions and a fault for the next write: where every write is synced, and only there,
/// a `pwrite` is cheaper. A sync in memory costs neither.
pub(crate) fn default_method(file_system: &FileSystem, durability: Durability) -> PersistMethod {
    let syncs_each_write = durability == Durability::PowerSafe && file_system.survives_power_cut;
    let can_map = file_system.overwrites_in_place && file_system.has_descriptors;
    if can_map && !syncs_each_write {
        PersistMethod::Mapped
    } else {
        PersistMethod::Written
    }
}

impl PersistMethod {
    /// Opens the region of files in a directory.
    pub(crate) fn open(
        self,
        storage: &dyn Storage,
        directory: Arc<dyn Directory>,
        store: [u8; 16],
        arena_bytes: u64,
        durability: Durability,
        emulate_power_safety: bool,
    ) -> terrace_region::Result<Region> {
        let method = match self {
            PersistMethod::Auto => default_method(&directory.file_system()?, durability),
            method => method,
        };
        let device = match method {
            PersistMethod::Auto | PersistMethod::Written => {
                let options = WrittenOptions {
                    emulate_power_safety,
                    ..WrittenOptions::default()
                };
                Region::written_device(storage, directory, options)
            }
            PersistMethod::Mapped => {
                let options = MappedOptions {
                    emulate_power_safety,
                };
                Region::mapped_device(storage, directory, options)
            }
            PersistMethod::Dax => {
                let options = DaxOptions {
                    emulate_power_safety,
                };
                Region::dax_device(storage, directory, options)
            }
        };
        Region::open(device?, store, arena_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_method_suits_file_system_and_durability() {
        use Durability::{CrashSafe, PowerSafe};
        use PersistMethod::{Mapped, Written};
        for (name, overwrites_in_place, durability, expected) in [
            ("ext4", true, CrashSafe, Mapped),
            ("ext4", true, PowerSafe, Written),
            ("tmpfs", true, CrashSafe, Mapped),
            ("tmpfs", true, PowerSafe, Mapped),
            ("overlay", false, CrashSafe, Written),
            ("overlay", false, PowerSafe, Written),
        ] {
            let mut file_system = FileSystem {
                name: name.to_owned(),
                overwrites_in_place,
                survives_power_cut: name != "tmpfs",
                has_descriptors: true,
            };
            let method = default_method(&file_system, durability);
            assert_eq!(method, expected, "{durability} on {name}");
            file_system.has_descriptors = false;
            assert_eq!(default_method(&file_system, durability), Written);
        }
    }

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
