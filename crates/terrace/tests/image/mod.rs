//! The files of a store as plain bytes, to be damaged and put on a fresh simulated disk.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;

use terrace_storage::{CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};

/// Directory of a store on its simulated disk.
pub const STORE: &str = "/store";

/// Directories of further tiers, for stores that have some.
pub const TIERS: [&str; 2] = ["/middle", "/slow"];

/// Every file of a store but its locks. A file in the directory of a tier has its whole path as its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Image {
    /// Returns the files that are on a disk now.
    pub fn of(disk: &dyn Storage) -> Image {
        let mut files = BTreeMap::new();
        for entry in disk.list(Path::new(STORE)).unwrap() {
            if entry.name != "LOCK" {
                files.insert(entry.name.clone(), read(disk, &entry.name));
            }
        }
        for tier in TIERS {
            for entry in disk.list(Path::new(tier)).unwrap_or_default() {
                if entry.name != "LOCK" {
                    let name = format!("{tier}/{}", entry.name);
                    files.insert(name.clone(), read(disk, &name));
                }
            }
        }
        Image { files }
    }

    /// Returns a disk that holds the files. Two disks with one number of a boot have the same boot
    /// id: their files survived the death of a process, and not that of the machine.
    pub fn disk(&self, boot: u64) -> SimulatedStorage {
        let disk = SimulatedStorage::new(boot, CrashSwitch::new());
        let tiers = TIERS.into_iter().filter(|tier| self.has_tier(tier));
        let directories: Vec<&Path> = [STORE].into_iter().chain(tiers).map(Path::new).collect();
        for directory in &directories {
            disk.create_directory(directory).unwrap();
        }
        for (name, bytes) in &self.files {
            let path = Path::new(STORE).join(name);
            let file = disk
                .open(&path, OpenOptions::buffered(OpenMode::CreateNew))
                .unwrap();
            file.write_at(bytes, 0, Purpose::Other).unwrap();
            file.sync(Purpose::Other).unwrap();
        }
        for directory in directories {
            disk.sync_directory(directory).unwrap();
        }
        disk
    }

    /// Returns whether a file lies in the directory of a tier.
    fn has_tier(&self, tier: &str) -> bool {
        let mut names = self.files.keys();
        names.any(|name| Path::new(name).starts_with(tier))
    }

    /// Returns the image with one file changed.
    pub fn with(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Image {
        let mut image = self.clone();
        change(image.files.get_mut(name).unwrap());
        image
    }

    /// Returns the image without a file.
    pub fn without(&self, name: &str) -> Image {
        let mut image = self.clone();
        image.files.remove(name).unwrap();
        image
    }

    /// Returns the names that begin or end as given.
    pub fn names(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        self.files
            .keys()
            .filter(|name| is_wanted(name))
            .cloned()
            .collect()
    }
}

fn read(disk: &dyn Storage, name: &str) -> Vec<u8> {
    let path = Path::new(STORE).join(name);
    let file = disk
        .open(&path, OpenOptions::buffered(OpenMode::Read))
        .unwrap();
    let mut bytes = vec![0; file.length_bytes().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0, Purpose::Other).unwrap();
    bytes
}
