//! Tables say which table they are: one of another store, or of a checkpoint that was written to,
//! does not pass for the one that the manifest lists under the same number.

mod image;
mod support;

use std::path::Path;
use std::sync::Arc;

use image::{Image, STORE};
use support::script::tiny;
use terrace::internal::Randomness;
use terrace::{Background, Db, Error, Options, Result};
use terrace_storage::{CrashSwitch, SimulatedStorage, Storage};
use terrace_tools::inspect;
use terrace_tools::repair::repair;

const COPY: &str = "/copy";

fn options(disk: &SimulatedStorage) -> Options {
    let options = tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        ..Options::default()
    });
    // Nothing is merged that no test asks for.
    Options {
        level0_merge: 100,
        ..options
    }
}

fn write(path: &str, disk: &SimulatedStorage, value: &[u8]) {
    let db = Db::open(path, options(disk)).unwrap();
    // Tables that overlap are merged and not moved.
    db.put(b"base", b"1").unwrap();
    db.put(b"key", value).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

/// Returns a store and a checkpoint of it, each with one table more: the same number, the same key,
/// values of the same length.
fn siblings() -> SimulatedStorage {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put(b"base", b"1").unwrap();
    db.flush().unwrap();
    db.checkpoint(COPY).unwrap();
    db.close().unwrap();
    write(STORE, &disk, b"value of the store");
    write(COPY, &disk, b"value of the other");
    disk
}

fn tables(disk: &SimulatedStorage, directory: &str) -> Vec<String> {
    let entries = disk.list(Path::new(directory)).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".table")).collect();
    names.sort();
    names
}

/// Returns the store with the last table of the checkpoint in the place of its own.
fn mistaken() -> (SimulatedStorage, String) {
    let disk = siblings();
    let name = tables(&disk, STORE).pop().unwrap();
    assert_eq!(tables(&disk, COPY).pop().as_ref(), Some(&name));
    let file = Path::new(STORE).join(&name);
    disk.remove(&file).unwrap();
    disk.link(&Path::new(COPY).join(&name), &file).unwrap();
    (disk, name)
}

fn is_mistaken(error: &Error, name: &str) -> bool {
    match error {
        Error::Corruption { file, detail, .. } => {
            file.ends_with(name) && detail.contains("another table lies under this name")
        }
        _ => false,
    }
}

#[track_caller]
fn refused<T>(result: Result<T>, name: &str) {
    let error = result.err().expect("another table was taken");
    assert!(is_mistaken(&error, name), "{error}");
}

#[test]
fn a_table_of_a_checkpoint_does_not_pass_for_the_stores_own() {
    let (disk, name) = mistaken();
    let db = Db::open(STORE, options(&disk)).unwrap();
    refused(db.get(b"key"), &name);
    let scanned: Result<Vec<_>> = db
        .iter(Default::default())
        .and_then(|all| all.entries().collect());
    refused(scanned, &name);
    refused(db.compact_range(..), &name);
    refused(db.checkpoint("/another"), &name);
    db.close().unwrap();
    let report = inspect::verify(STORE.as_ref(), options(&disk), |_, _| {}).unwrap();
    assert_eq!(report.problems.len(), 1);
    assert!(is_mistaken(&report.problems[0].error, &name));
}

#[test]
fn repair_takes_nothing_of_another_table_and_keeps_it_aside() {
    for with_manifest in [true, false] {
        let (disk, name) = mistaken();
        if !with_manifest {
            disk.remove(&Path::new(STORE).join("CURRENT")).unwrap();
        }
        let report = repair(STORE.as_ref(), options(&disk), |_, _| {}).unwrap();
        assert_eq!(report.damaged.len(), 1);
        assert!(is_mistaken(&report.damaged[0].error, &name));
        assert_eq!(report.damaged[0].entries_kept, 0);
        assert!(
            Image::of(&disk)
                .files
                .contains_key(&format!("{name}.damaged"))
        );
        let report = inspect::verify(STORE.as_ref(), options(&disk), |_, _| {}).unwrap();
        assert!(report.problems.is_empty());
        let db = Db::open(STORE, options(&disk)).unwrap();
        assert!(db.get(b"key").unwrap().is_none());
        assert_eq!(db.get(b"base").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

/// The store reads on from the table that it holds open, under whose name another lies.
#[test]
fn a_checkpoint_does_not_take_another_table_for_an_open_one() {
    let disk = siblings();
    let db = Db::open(STORE, options(&disk)).unwrap();
    assert!(db.get(b"key").unwrap().is_some());
    let name = tables(&disk, STORE).pop().unwrap();
    let file = Path::new(STORE).join(&name);
    disk.remove(&file).unwrap();
    disk.link(&Path::new(COPY).join(&name), &file).unwrap();
    assert!(db.get(b"key").unwrap().is_some());
    refused(db.checkpoint("/another"), &name);
}

#[test]
fn tables_that_a_checkpoint_shares_are_valid_in_both() {
    let disk = siblings();
    for (directory, value) in [
        (STORE, b"value of the store"),
        (COPY, b"value of the other"),
    ] {
        let db = Db::open(directory, options(&disk)).unwrap();
        assert_eq!(db.get(b"base").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&value[..]));
        db.close().unwrap();
        let report = inspect::verify(directory.as_ref(), options(&disk), |_, _| {}).unwrap();
        assert!(report.problems.is_empty());
    }
}

#[test]
fn runs_with_a_seed_write_the_same_tables_and_others_do_not() {
    let run = |randomness: Randomness| {
        let disk = SimulatedStorage::new(1, CrashSwitch::new());
        let options = Options {
            randomness,
            ..options(&disk)
        };
        for round in 0..3u8 {
            let db = Db::open(STORE, options.clone()).unwrap();
            (0..60u8).for_each(|key| db.put([key], [round; 40]).unwrap());
            db.flush().unwrap();
            db.close().unwrap();
        }
        let mut image = Image::of(&disk);
        image.files.retain(|name, _| name.ends_with(".table"));
        image
    };
    let seeded = run(Randomness::seeded(1));
    assert!(seeded.files.len() > 1);
    assert_eq!(seeded, run(Randomness::seeded(1)));
    assert_ne!(seeded, run(Randomness::seeded(2)));
    assert_ne!(run(Randomness::from_os()), run(Randomness::from_os()));
}
