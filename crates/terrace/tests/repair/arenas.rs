//! Damaged arenas, and those that lie elsewhere.

use std::collections::BTreeSet;
use std::path::Path;

use crate::image::{Image, STORE};
use crate::specimen::{BOOT, is_manifest, of_default, open, options, repaired, written_once};
use terrace::{Db, Error, Options};
use terrace_storage::{CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};
use terrace_tools::repair::repair;

#[test]
fn writes_up_to_the_damage_in_an_arena_are_kept() {
    let (image, content) = written_once();
    let in_tables = 551;
    let arena = image.names(|name| {
        name.starts_with("arena-") && image.files[name].iter().any(|byte| *byte != 0)
    });
    let arena = arena.last().unwrap();
    let used = image.files[arena].len();
    let mut kept = BTreeSet::new();
    for offset in (4096..used).step_by(64) {
        let damaged = image.with(arena, |bytes| bytes[offset + 20] ^= 1);
        let disk = damaged.disk(BOOT);
        let opened = Db::open(STORE, options(&disk));
        if opened.is_ok() {
            continue;
        }
        let report = repaired(&disk);
        assert!(report.arena_damage.is_some() && report.is_changed());
        assert!(!report.may_resurrect(), "it is a state of before");
        let found = of_default(&open(&disk));
        assert_eq!(found.len() as u64, in_tables + report.writes_from_arenas);
        assert!(found.iter().all(|(key, value)| content[key] == *value));
        let (first, last) = report.dropped.expect("frames behind the damage");
        assert_eq!((first - 1, last), (found.len() as u64 + 1, 600));
        assert!(
            Image::of(&disk)
                .files
                .contains_key(&format!("{arena}.damaged"))
        );
        kept.insert(report.writes_from_arenas);
    }
    assert!(kept.len() > 20, "{kept:?}");
}

/// Returns options with the arenas in a directory of their own.
fn in_region(disk: &SimulatedStorage, region: &str) -> Options {
    Options {
        region_dir: Some(region.into()),
        ..options(disk)
    }
}

#[test]
fn arenas_in_a_region_directory_are_found() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let options = in_region(&disk, "/fast");
    let db = Db::open(STORE, options.clone()).unwrap();
    db.put(b"flushed", b"1").unwrap();
    db.flush().unwrap();
    db.put(b"in an arena", b"2").unwrap();
    drop(db);
    for name in Image::of(&disk).names(is_manifest) {
        disk.remove(&Path::new(STORE).join(name)).unwrap();
    }
    let report = repair(STORE.as_ref(), options.clone(), |_, _| {}).unwrap();
    assert_eq!(report.writes_from_arenas, 1);
    let db = Db::open(STORE, options).unwrap();
    assert_eq!(db.get(b"flushed").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get(b"in an arena").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_region_directory_that_does_not_know_whose_it_is_is_told() {
    for is_gone in [false, true] {
        let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
        let options = in_region(&disk, "/fast");
        let db = Db::open(STORE, options.clone()).unwrap();
        db.put(b"in an arena", b"2").unwrap();
        drop(db);
        let file = Path::new("/fast/REGION");
        if is_gone {
            disk.remove(file).unwrap();
        } else {
            let file = disk
                .open(file, OpenOptions::buffered(OpenMode::ReadWrite))
                .unwrap();
            file.write_at(b"x", 30, Purpose::Other).unwrap();
        }
        assert!(matches!(
            Db::open(STORE, options.clone()),
            Err(Error::Corruption { .. })
        ));
        let report = repair(STORE.as_ref(), options.clone(), |_, _| {}).unwrap();
        assert!(report.is_changed() && report.region_damage.is_some());
        assert!(!report.may_resurrect());
        let db = Db::open(STORE, options.clone()).unwrap();
        assert_eq!(db.get(b"in an arena").unwrap().as_deref(), Some(&b"2"[..]));
        db.close().unwrap();
        let report = repair(STORE.as_ref(), options, |_, _| {}).unwrap();
        assert!(!report.is_changed());
    }
    // Another store's arenas are not taken for this one's.
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let with_region = |store: &str, region: &str| {
        let options = in_region(&disk, region);
        let db = Db::open(store, options.clone()).unwrap();
        db.put(b"key", b"value").unwrap();
        drop(db);
        options
    };
    with_region("/other", "/fast");
    with_region(STORE, "/own");
    disk.remove(Path::new("/fast/REGION")).unwrap();
    let wrong = in_region(&disk, "/fast");
    let refused = repair(STORE.as_ref(), wrong, |_, _| {});
    assert!(
        matches!(refused, Err(Error::Corruption { .. })),
        "{refused:?}"
    );
}

#[test]
fn an_arena_of_an_impossible_size_is_kept_aside() {
    let (image, content) = written_once();
    let arena = image
        .names(|name| name.starts_with("arena-"))
        .pop()
        .unwrap();
    let damaged = image.with(&arena, |bytes| bytes.truncate(bytes.len() - 100));
    for is_bare in [false, true] {
        let mut damaged = damaged.clone();
        damaged
            .files
            .retain(|name, _| !is_bare || !is_manifest(name));
        let disk = damaged.disk(BOOT);
        let report = repaired(&disk);
        assert!(report.arena_damage.is_some());
        let after = Image::of(&disk);
        assert_eq!(
            after.files[&format!("{arena}.damaged")],
            damaged.files[&arena]
        );
        let found = of_default(&open(&disk));
        assert!(found.iter().all(|(key, value)| content[key] == *value));
        assert!(found.len() >= 551);
    }
}

#[test]
fn arenas_that_had_moved_are_found_where_they_are_now() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put(b"flushed", b"1").unwrap();
    db.close().unwrap();
    let before = Image::of(&disk);
    let moved = in_region(&disk, "/fast");
    let db = Db::open(STORE, moved.clone()).unwrap();
    db.put(b"in the new home", b"2").unwrap();
    drop(db);
    // The manifest of before the move.
    for (name, bytes) in before.files.iter().filter(|(name, _)| is_manifest(name)) {
        let path = Path::new(STORE).join(name);
        let _ = disk.remove(&path);
        let new = OpenOptions::buffered(OpenMode::CreateNew);
        let file = disk.open(&path, new).unwrap();
        file.write_at(bytes, 0, Purpose::Other).unwrap();
    }
    assert!(Db::open(STORE, moved.clone()).is_err());
    repair(STORE.as_ref(), moved.clone(), |_, _| {}).unwrap();
    let db = Db::open(STORE, moved).unwrap();
    assert_eq!(db.get(b"flushed").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(
        db.get(b"in the new home").unwrap().as_deref(),
        Some(&b"2"[..])
    );
}
