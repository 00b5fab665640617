//! Tables in memory, for tests that need to see and change every byte.

use std::path::Path;

use terrace_storage::{CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};

/// Makes an empty disk with the directory that the tests use.
pub(super) fn memory() -> SimulatedStorage {
    let storage = SimulatedStorage::new(1, CrashSwitch::new());
    storage.create_directory(Path::new("/t")).unwrap();
    storage
}

/// Whole files.
pub(super) trait Files {
    fn bytes(&self, path: &str) -> Vec<u8>;
    fn put(&self, path: &str, bytes: Vec<u8>);
}

impl Files for SimulatedStorage {
    fn bytes(&self, path: &str) -> Vec<u8> {
        let file = self
            .open(path.as_ref(), OpenOptions::buffered(OpenMode::Read))
            .unwrap();
        let mut bytes = vec![0; file.length_bytes().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0, Purpose::Other).unwrap();
        bytes
    }

    fn put(&self, path: &str, bytes: Vec<u8>) {
        // It may be the first of its name.
        let _ = self.remove(path.as_ref());
        let file = self
            .open(path.as_ref(), OpenOptions::buffered(OpenMode::CreateNew))
            .unwrap();
        file.append(&bytes, Purpose::Other).unwrap();
    }
}
