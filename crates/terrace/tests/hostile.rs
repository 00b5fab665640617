//! Forged stores: good checksums over bytes that no store writes.

mod image;
mod support;

use std::sync::Arc;

use image::{Image, STORE};
use terrace::{
    Background, Compression, Db, Error, IterOptions, KeyspaceOptions, Options, internal,
};
use terrace_storage::{CrashSwitch, SimulatedStorage};

fn options(disk: &SimulatedStorage) -> Options {
    support::script::tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        default_keyspace: KeyspaceOptions {
            compression: vec![Compression::None],
            ..KeyspaceOptions::default()
        },
        level0_merge: 100,
        ..Options::default()
    })
}

fn key(number: u32) -> [u8; 7] {
    let mut key = *b"key-...";
    key[4..].copy_from_slice(format!("{number:03}").as_bytes());
    key
}

/// Returns a closed store of two tables: keys, and above them a deleted range that iterators seek
/// past.
fn closed_store() -> Image {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    for number in 0..60 {
        db.put(key(number), [7; 40]).unwrap();
    }
    db.flush().unwrap();
    for number in 8..56 {
        db.delete_range(key(number), key(number + 1)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    Image::of(&disk)
}

fn walk(db: &Db, backwards: bool) -> Result<(), Error> {
    let mut entries = db.iter(IterOptions::default())?.entries();
    for _ in 0..1000 {
        let entry = match backwards {
            false => entries.next(),
            true => entries.next_back(),
        };
        match entry {
            None => return Ok(()),
            Some(entry) => drop(entry?),
        }
    }
    panic!("the walk does not end");
}

/// Lowers the first key of an index block by one.
fn lower_first_key(contents: &mut [u8]) {
    let last = 2 + contents[1] as usize - 8;
    contents[last] -= 1;
}

#[test]
fn a_reverse_scan_past_a_deleted_range_ends_whatever_the_index_says() {
    let mut image = closed_store();
    let mut forged = 0;
    for (name, bytes) in &mut image.files {
        if name.ends_with(".table") {
            internal::forge_blocks(bytes, "top index", lower_first_key).unwrap();
            forged += 1;
        }
    }
    assert!(forged >= 1);
    for backwards in [false, true] {
        let disk = image.disk(1);
        let db = Db::open(STORE, options(&disk)).unwrap();
        let error = walk(&db, backwards).unwrap_err().to_string();
        assert!(
            error.contains(".table") && error.contains("at byte"),
            "{error}"
        );
    }
}

/// The sequence number from which on versions lie on top of a store, which no table may claim for its own.
const ON_TOP: u64 = (1 << 56) - 1 - u32::MAX as u64;

#[test]
fn a_version_with_a_number_above_all_writes_is_shown_to_nobody() {
    let mut image = closed_store();
    let put = 1;
    let tag = (4_u64 << 8 | put).to_le_bytes();
    let mut forged = 0;
    for (name, bytes) in &mut image.files {
        let raise = |contents: &mut [u8]| {
            let place = contents.windows(tag.len()).position(|bytes| bytes == tag);
            if let Some(place) = place {
                contents[place..place + tag.len()]
                    .copy_from_slice(&(ON_TOP << 8 | put).to_le_bytes());
                forged += 1;
            }
        };
        if name.ends_with(".table") {
            internal::forge_blocks(bytes, "data", raise).unwrap();
        }
    }
    assert_eq!(forged, 1);
    let disk = image.disk(1);
    let db = Db::open(STORE, options(&disk)).unwrap();
    assert!(db.get(key(3)).unwrap().is_none());
    let iterator = db.iter(IterOptions::default()).unwrap();
    let mut keys = Vec::new();
    for entry in iterator.entries() {
        keys.push(entry.unwrap().0.to_vec());
    }
    assert!(!keys.contains(&key(3).to_vec()));
    assert_eq!(keys.len(), 11);
    let iterator = db.iter(IterOptions::default()).unwrap();
    assert_eq!(iterator.entries().rev().count(), 11);
}
