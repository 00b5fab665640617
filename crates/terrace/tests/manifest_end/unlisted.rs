//! Tables that a dropped end may have listed, where their numbers tell less than usual.

use terrace::{Db, Error, Options, WriteBatch, WriteOptions};
use terrace_storage::{CrashSwitch, SimulatedStorage};
use terrace_tools::inspect;
use terrace_tools::repair::{ManifestRepair, repair};

use crate::image::{Image, STORE};
use crate::{
    BOOT, all_are, assert_last_edit, flipped, last_edit, open, repaired, row, rows, verified,
};

fn new_disk() -> SimulatedStorage {
    SimulatedStorage::new(BOOT, CrashSwitch::new())
}

/// Returns options without merges: their edits would be the last ones.
fn options(disk: &SimulatedStorage) -> Options {
    Options {
        level0_merge: 100,
        ..crate::options(disk)
    }
}

/// The files of a load say the number that was the next one when it began.
#[test]
fn a_load_that_writes_overtook_is_kept_and_taken_in() {
    let disk = new_disk();
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put(b"one", b"1").unwrap();
    let mut load = db.ingest().unwrap();
    (0..5).for_each(|number| load.put(row(number), b"value").unwrap());
    // The first of them gets the number that the load's files say.
    db.put(row(3), b"value").unwrap();
    db.put(b"two", b"2").unwrap();
    load.finish().unwrap();
    let image = Image::of(&disk);
    assert_last_edit(&image, "add table");
    let disk = flipped(&image, false).disk(BOOT);
    let db = open(&disk).unwrap();
    let found = db.statistics().recovery;
    assert!(found.manifest_tail.is_some());
    assert_eq!(found.unlisted_tables.len(), 1, "{found:?}");
    assert!(db.get(row(4)).unwrap().is_none());
    db.put(b"three", b"3").unwrap();
    db.close().unwrap();
    let report = repaired(&disk, true);
    assert_eq!(report.tables_taken.len(), 1, "{report:?}");
    let db = open(&disk).unwrap();
    assert_eq!(rows(&db, "default"), all_are(b"value"));
    for (key, value) in [(b"one" as &[u8], b"1"), (b"two", b"2"), (b"three", b"3")] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
}

/// The numbers that were promised are above those that were taken.
#[test]
fn an_accepted_loss_of_the_region_does_not_remove_unlisted_tables() {
    let disk = new_disk();
    let accepting = |disk: &SimulatedStorage| Options {
        region_dir: Some("/fast".into()),
        accept_region_loss: true,
        ..options(disk)
    };
    let db = Db::open(STORE, accepting(&disk)).unwrap();
    db.put(b"one", b"1").unwrap();
    db.flush().unwrap();
    (0..5).for_each(|number| db.put(row(number), b"value").unwrap());
    db.persist().unwrap();
    // An edit that says which writes were persisted.
    db.create_keyspace("other", Default::default()).unwrap();
    db.flush().unwrap();
    let image = Image::of(&disk);
    // The last edit issues an arena, in the region that is lost.
    let (manifest, edit) = last_edit(&image);
    let image = image.with(&manifest, |bytes| bytes.truncate(edit.start));
    assert_last_edit(&image, "add table");
    let damaged = flipped(&image, false);

    let disk = damaged.disk(BOOT);
    let db = Db::open(STORE, accepting(&disk)).unwrap();
    let found = db.statistics().recovery;
    let loss = found.region_loss.unwrap();
    assert_eq!((loss.kept, loss.promised), (1, 6));
    assert_eq!(found.unlisted_tables.len(), 1, "{found:?}");
    assert_eq!(db.statistics().sequences.visible, 6);
    db.close().unwrap();

    for disk in [disk, damaged.disk(BOOT)] {
        let options = Options {
            take_unlisted: true,
            ..accepting(&disk)
        };
        let report = repair(STORE.as_ref(), options, |_, _| {}).unwrap();
        assert_eq!(report.tables_taken.len(), 1, "{report:?}");
        let db = Db::open(STORE, accepting(&disk)).unwrap();
        assert_eq!(rows(&db, "default"), all_are(b"value"));
    }
}

/// A flush removes an arena of another size than usual. Its edit is gone: the arena is no lost one.
#[test]
fn an_arena_that_a_dropped_flush_removed_is_no_lost_region() {
    let disk = new_disk();
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put(b"one", b"1").unwrap();
    db.flush().unwrap();
    let mut batch = WriteBatch::new();
    (0..5).for_each(|number| batch.put(row(number), [number; 9 << 10]).unwrap());
    db.write(batch, WriteOptions::default()).unwrap();
    db.flush().unwrap();
    let image = Image::of(&disk);
    assert_last_edit(&image, "add table");
    let disk = flipped(&image, false).disk(BOOT);
    for accepts in [false, true] {
        let options = Options {
            accept_region_loss: accepts,
            read_only: accepts,
            ..options(&disk)
        };
        match Db::open(STORE, options) {
            Err(Error::Corruption { detail, .. }) if !accepts => {
                assert!(detail.contains("dropped"), "{detail}");
            }
            Ok(db) if accepts => {
                assert_eq!(db.statistics().recovery.unlisted_tables.len(), 1);
            }
            other => panic!("{other:?}"),
        }
    }
    let report = repaired(&disk, false);
    assert!(
        matches!(report.manifest, ManifestRepair::Rebuilt(_)),
        "{report:?}"
    );
    let db = open(&disk).unwrap();
    for number in 0..5 {
        let value = db.get(row(number)).unwrap();
        assert_eq!(value.as_deref(), Some(&[number; 9 << 10][..]));
    }
}

/// Returns a store with a table `.unlisted` of 60 rows, and its name.
fn with_kept_table() -> (Image, String) {
    let disk = new_disk();
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put(b"one", b"1").unwrap();
    db.flush().unwrap();
    let mut load = db.ingest().unwrap();
    (0..60u8).for_each(|number| load.put([number], [number; 40]).unwrap());
    load.finish().unwrap();
    let disk = flipped(&Image::of(&disk), false).disk(BOOT);
    open(&disk).unwrap().close().unwrap();
    let image = Image::of(&disk);
    let kept = image.names(|name| name.ends_with(".unlisted"));
    let [kept] = kept.as_slice() else {
        panic!("{kept:?}")
    };
    let kept = kept.clone();
    (image, kept)
}

fn count(disk: &SimulatedStorage) -> usize {
    let db = open(disk).unwrap();
    (0..60u8)
        .filter(|&number| db.get([number]).unwrap().is_some())
        .count()
}

#[test]
fn a_damaged_block_of_an_unlisted_table_is_told_and_the_file_kept() {
    let (image, kept) = with_kept_table();
    let damaged = image.with(&kept, |bytes| bytes[40] ^= 1);
    let disk = damaged.disk(BOOT);
    let report = repaired(&disk, true);
    let [told] = report.damaged.as_slice() else {
        panic!("{report:?}")
    };
    let aside = format!("{kept}.damaged");
    assert!(told.kept_as.as_ref().unwrap().ends_with(&aside));
    assert_eq!(report.tables_taken, [""; 0]);
    let found = count(&disk);
    assert!((50..60).contains(&found), "{found}");
    assert_eq!((told.entries_kept, told.entries), (found as u64, Some(60)));
    let after = Image::of(&disk);
    assert_eq!(after.files[&aside], damaged.files[&kept]);
    assert!(!after.files.contains_key(&kept));
    // Not taken in twice: rows that were deleted since would be back.
    assert!(!repaired(&disk, true).is_changed());
    assert_eq!(Image::of(&disk), after);
}

#[test]
fn an_unlisted_table_that_cannot_be_read_at_all_is_named_and_left() {
    let (image, kept) = with_kept_table();
    // Its trailer.
    let damaged = image.with(&kept, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let disk = damaged.disk(BOOT);
    for take_unlisted in [false, true] {
        let report = repaired(&disk, take_unlisted);
        assert!(!report.is_changed(), "{report:?}");
        let [left] = report.left.as_slice() else {
            panic!("{report:?}")
        };
        assert!(left.file.ends_with(&kept) && left.kept_as.is_none());
        assert_eq!(Image::of(&disk), damaged);
    }
    assert_eq!(count(&disk), 0);
    let options = options(&disk);
    assert!(inspect::verify(STORE.as_ref(), options, |_, _| {}).is_ok());
    assert!(verified(&disk).problems.is_empty());
}
