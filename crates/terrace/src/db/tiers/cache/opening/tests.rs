use std::path::Path;

use terrace_storage::{Access, CrashSwitch, SimulatedStorage, Storage};

use super::*;

const CACHE_BYTES: u64 = 256 << 10;

const OWNER: Owner = Owner {
    store_id: 1,
    tier_id: 2,
};

fn opening<'a>(blocks: &'a Arc<BlockCache>, listed: &'a BTreeSet<u64>) -> Opening<'a> {
    Opening {
        writes: Writes::Inline,
        direct: false,
        polled: false,
        usual_block_bytes: 1000,
        blocks,
        listed,
    }
}

#[test]
fn a_file_of_another_kind_stays() {
    let storage = SimulatedStorage::new(1, CrashSwitch::new());
    storage.create_directory(Path::new("/t")).unwrap();
    let directory = storage.directory(Path::new("/t"), Access::Owner).unwrap();
    let (blocks, listed) = (Arc::new(BlockCache::new(1 << 20, false)), BTreeSet::new());
    let opening = opening(&blocks, &listed);
    let is_there = || !storage.list(Path::new("/t")).unwrap().is_empty();
    let file = opening.file(&*directory, OpenMode::CreateNew).unwrap();
    for begin in ["notes of mine", "TerrCat", "x"] {
        file.truncate(0).unwrap();
        file.write_at(begin.as_bytes(), 0, Purpose::Other).unwrap();
        assert!(opening.open(&*directory, OWNER, CACHE_BYTES).is_none());
        remove_file(&*directory);
        assert!(is_there(), "{begin}");
    }
    directory.remove(CACHE).unwrap();
    // A crash may leave a cache file without its header, or with a part of it.
    for begin in ["", "\0\0\0", "Terr", "TerrCach?"] {
        let file = opening.file(&*directory, OpenMode::CreateNew).unwrap();
        file.write_at(begin.as_bytes(), 0, Purpose::Other).unwrap();
        let cache = opening.open(&*directory, OWNER, CACHE_BYTES);
        assert!(cache.is_some(), "{begin:?}");
        remove_file(&*directory);
        assert!(!is_there());
    }
}

/// The name is free when the opening looks, and taken when it makes the file.
#[test]
fn a_file_of_another_kind_that_comes_meanwhile_stays() {
    let storage = SimulatedStorage::new(1, CrashSwitch::new());
    storage.create_directory(Path::new("/t")).unwrap();
    let directory = storage.directory(Path::new("/t"), Access::Owner).unwrap();
    let (blocks, listed) = (Arc::new(BlockCache::new(1 << 20, false)), BTreeSet::new());
    let opening = opening(&blocks, &listed);
    let made = || opening.make(&*directory, OWNER, Geometry::of(CACHE_BYTES));
    let is_there = || !storage.list(Path::new("/t")).unwrap().is_empty();
    let file = opening.file(&*directory, OpenMode::CreateNew).unwrap();
    file.write_at(b"notes of mine", 0, Purpose::Other).unwrap();
    assert!(made().is_none());
    assert!(is_there(), "another's file was removed");
    file.write_at(&[0; 13], 0, Purpose::Other).unwrap();
    assert!(made().is_none());
    assert!(!is_there(), "a cache file without its header stays");
}
