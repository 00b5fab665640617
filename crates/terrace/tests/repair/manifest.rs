//! The manifest: kept while it is sound, replaced where it is not.

use std::path::Path;

use crate::image::{Image, STORE};
use crate::specimen::{BOOT, Scripted, is_manifest, of_default, open, options, repaired, tables};
use terrace::{Db, Error, KeyspaceOptions};
use terrace_storage::{CrashSwitch, SimulatedStorage, Storage};
use terrace_tools::repair::{ManifestRepair, repair};

#[test]
fn a_sound_store_is_left_as_it_is() {
    for is_closed in [false, true] {
        let disk = Scripted::new(3, 300, true).image.disk(BOOT);
        if is_closed {
            open(&disk).close().unwrap();
        }
        let before = Image::of(&disk);
        let report = repaired(&disk);
        assert!(!report.is_changed() && !report.may_resurrect());
        assert!(matches!(report.manifest, ManifestRepair::Kept));
        assert_eq!(Image::of(&disk), before);
    }
}

#[test]
fn a_store_without_its_manifest_is_whole_again() {
    for seed in 0..12 {
        for deletes in [false, true] {
            let scripted = Scripted::new(seed, 250, deletes);
            let mut images = vec![scripted.without_manifest()];
            let manifests = scripted.image.names(|name| name.starts_with("MANIFEST"));
            let manifest = manifests.last().unwrap();
            images.push(scripted.image.without("CURRENT"));
            images.push(scripted.image.without(manifest));
            let bytes = &scripted.image.files[manifest];
            let end = bytes.len();
            for cut in [0, 1, 40, in_edit(bytes, end / 4), in_edit(bytes, end / 2)] {
                // A cut in the middle of an edit would pass for a write that was cut short.
                images.push(scripted.image.with(manifest, |bytes| bytes[cut] ^= 0x10));
            }
            for (number, image) in images.into_iter().enumerate() {
                let disk = image.disk(BOOT);
                let report = repaired(&disk);
                assert!(report.is_changed() && report.may_resurrect(), "{number}");
                let db = open(&disk);
                scripted.check(&db, deletes);
                // It is a store like any other.
                db.put(b"~new", b"value").unwrap();
                db.flush().unwrap();
                db.compact_range(..).unwrap();
                assert_eq!(db.get(b"~new").unwrap().as_deref(), Some(&b"value"[..]));
                db.delete(b"~new").unwrap();
                scripted.check(&db, deletes);
            }
        }
    }
}

/// Returns a place in the last edit that begins at or before `at`. Nothing is lost with a mark.
fn in_edit(manifest: &[u8], at: usize) -> usize {
    let (mut next, mut found) = (32, 32);
    while next <= at {
        found = next;
        let length = u32::from_le_bytes(manifest[next + 8..next + 12].try_into().unwrap());
        next += 16 + length.next_multiple_of(8) as usize + 32;
    }
    found + 16
}

#[test]
fn names_of_keyspaces_are_taken_from_what_is_left_of_the_manifest() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    for name in ["cities", "rivers", "lakes"] {
        let keyspace = db
            .create_keyspace(name, KeyspaceOptions::default())
            .unwrap();
        keyspace.put(b"name", name.as_bytes()).unwrap();
    }
    db.flush().unwrap();
    let lakes = db.keyspace("lakes").unwrap();
    lakes.put(b"in an arena", b"yes").unwrap();
    db.rename_keyspace("rivers", "streams").unwrap();
    drop((db, lakes));
    let image = Image::of(&disk);
    let names = |disk: &SimulatedStorage| {
        let db = open(disk);
        let lakes = db.keyspaces().pop().unwrap();
        assert!(lakes.contains_key(b"in an arena").unwrap());
        let keyspaces = db.keyspaces().into_iter().map(|one| one.name());
        keyspaces.collect::<Vec<_>>()
    };
    let disk = image.without("CURRENT").disk(BOOT);
    assert!(repaired(&disk).named.is_empty());
    assert_eq!(names(&disk), ["default", "cities", "streams", "lakes"]);
    let mut bare = image;
    bare.files.retain(|name, _| !is_manifest(name));
    let disk = bare.disk(BOOT);
    let named = repaired(&disk).named;
    assert_eq!(named, ["recovered-2", "recovered-3", "recovered-4"]);
    assert_eq!(names(&disk)[1..], named);
    let db = open(&disk);
    for (given, name) in named.iter().zip(["cities", "streams", "lakes"]) {
        db.rename_keyspace(given, name).unwrap();
    }
    drop(db);
    assert_eq!(names(&disk), ["default", "cities", "streams", "lakes"]);
}

#[test]
fn what_is_no_store_or_in_use_is_refused_and_left_alone() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let refused = |disk: &SimulatedStorage| repair(STORE.as_ref(), options(disk), |_, _| {});
    assert!(matches!(refused(&disk), Err(Error::NoStore { .. })));
    disk.create_directory(Path::new(STORE)).unwrap();
    assert!(matches!(refused(&disk), Err(Error::NoStore { .. })));
    assert!(disk.list(Path::new(STORE)).unwrap().is_empty());
    let _db = Db::open(STORE, options(&disk)).unwrap();
    assert!(matches!(refused(&disk), Err(Error::Busy { .. })));
}

/// The edit of a merge is lost: its inputs are gone, its outputs are not listed.
#[test]
fn a_merge_that_the_manifest_does_not_know_is_found() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    for round in 0..3u8 {
        for number in 0..60u8 {
            db.put([number], [round; 40]).unwrap();
        }
        db.flush().unwrap();
    }
    let before = Image::of(&disk);
    db.compact_range(..).unwrap();
    drop(db);
    let mut image = Image::of(&disk);
    assert_ne!(tables(&image), tables(&before));
    image.files.retain(|name, _| !is_manifest(name));
    let manifests = before.files.iter().filter(|(name, _)| is_manifest(name));
    image
        .files
        .extend(manifests.map(|(name, bytes)| (name.clone(), bytes.clone())));
    let disk = image.disk(BOOT);
    assert!(Db::open(STORE, options(&disk)).is_err());
    let report = repaired(&disk);
    assert!(matches!(report.manifest, ManifestRepair::Rebuilt(_)));
    let found = of_default(&open(&disk));
    assert_eq!(found.len(), 60);
    assert!(found.values().all(|value| *value == [2; 40]));
}

#[test]
fn a_bulk_load_is_above_what_was_there_and_below_what_came() {
    for is_bare in [false, true] {
        let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
        let db = Db::open(STORE, options(&disk)).unwrap();
        let write = |from: u8, value: u8| {
            (from..60).for_each(|number| db.put([number], [value; 40]).unwrap());
            db.flush().unwrap();
        };
        write(0, 1);
        let mut load = db.ingest().unwrap();
        (0..60u8).for_each(|number| load.put([number], [2; 40]).unwrap());
        load.finish().unwrap();
        write(30, 3);
        drop(db);
        let mut image = Image::of(&disk);
        let lost = |name: &str| {
            if is_bare {
                is_manifest(name)
            } else {
                name == "CURRENT"
            }
        };
        image.files.retain(|name, _| !lost(name));
        // With a table of each in turn damaged, the others keep their order.
        let damaged = tables(&image).into_iter().map(Some);
        for damaged in damaged.chain([None]) {
            let image = match &damaged {
                Some(table) => image.with(table, |bytes| bytes[40] ^= 1),
                None => image.clone(),
            };
            let disk = image.disk(BOOT);
            repaired(&disk);
            let found = of_default(&open(&disk));
            assert!(found.len() >= if damaged.is_some() { 54 } else { 60 });
            let right = |number: u8| [if number < 30 { 2 } else { 3 }; 40];
            let wrong = found.iter().filter(|(key, value)| **value != right(key[0]));
            assert!(wrong.count() <= if damaged.is_some() { 6 } else { 0 });
        }
    }
}
