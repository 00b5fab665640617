//! The files of a store as plain bytes, to be damaged and put on a fresh simulated disk.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;

use terrace_storage::{CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};

/// Directory of a store on its simulated disk.
pub const STORE: &str = "/store";

/// Every file of a store but its lock.
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
        Image { files }
    }

    /// Returns a disk that holds the files. Two disks with one number of a boot have the same boot
    /// id: their files survived the death of a process, and not that of the machine.
    pub fn disk(&self, boot: u64) -> SimulatedStorage {
        let disk = SimulatedStorage::new(boot, CrashSwitch::new());
        disk.create_directory(Path::new(STORE)).unwrap();
        for (name, bytes) in &self.files {
            let path = Path::new(STORE).join(name);
            let file = disk
                .open(&path, OpenOptions::buffered(OpenMode::CreateNew))
                .unwrap();
            file.write_at(bytes, 0, Purpose::Other).unwrap();
            file.sync(Purpose::Other).unwrap();
        }
        disk.sync_directory(Path::new(STORE)).unwrap();
        disk
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
