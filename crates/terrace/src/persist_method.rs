//! The region that a persist method opens, and the method that suits a file system.

use std::sync::Arc;

use terrace_region::{DaxOptions, MappedOptions, Region, WrittenOptions};
use terrace_storage::{Directory, FileSystem, Storage};

use crate::options::{Durability, PersistMethod};

/// Returns the method that `Auto` means on a file system: never `Auto`. Measured; see
/// docs/decisions/persist-methods.md.
///
/// A store into a mapping is the cheapest write by far. But each sync costs it the page tables'
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
}
