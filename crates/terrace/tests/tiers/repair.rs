//! Repair of stores whose tables lie in several tiers.

use std::path::{Path, PathBuf};

use terrace::{Db, Error, Options};
use terrace_storage::{OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};
use terrace_tools::repair::repair;

use super::{
    SLOW, STORE, check, disk, fill, flip, options, table_bytes, with_level_tiers, with_three,
};

fn three(disk: &SimulatedStorage) -> Options {
    let names = &["fast", "slow"];
    with_level_tiers(with_three(options(disk), 1 << 20, 1 << 20), names)
}

fn filled(disk: &SimulatedStorage) {
    let db = Db::open(STORE, three(disk)).unwrap();
    fill(&db, 0..300);
    db.close().unwrap();
    assert!(table_bytes(disk, SLOW) > 0);
}

/// Returns the name of the first table in the slow tier.
fn a_slow_table(disk: &SimulatedStorage) -> String {
    let names = disk.list(Path::new(SLOW)).unwrap().into_iter();
    let mut names = names.map(|entry| entry.name);
    names.find(|name| name.ends_with(".table")).unwrap()
}

/// Returns the path of a table in the slow tier, and that of a copy in the store's own directory.
fn slow_table_and_copy(disk: &SimulatedStorage) -> (PathBuf, PathBuf) {
    let name = a_slow_table(disk);
    (Path::new(SLOW).join(&name), Path::new(STORE).join(&name))
}

/// Copies one of so many parts of a file, the first.
fn copy_part(disk: &SimulatedStorage, from: &Path, to: &Path, part: u64) {
    let source = disk
        .open(from, OpenOptions::buffered(OpenMode::Read))
        .unwrap();
    let bytes = (source.length_bytes().unwrap() / part) as usize;
    let bytes = source.read_vec_at(bytes, 0, Purpose::Other).unwrap();
    let copy = OpenOptions::buffered(OpenMode::CreateNew);
    let copy = disk.open(to, copy).unwrap();
    copy.write_at(&bytes, 0, Purpose::Other).unwrap();
}

fn lose_manifest(disk: &SimulatedStorage) {
    for entry in disk.list(Path::new(STORE)).unwrap() {
        if entry.name.starts_with("MANIFEST") || entry.name == "CURRENT" {
            disk.remove(&Path::new(STORE).join(&entry.name)).unwrap();
        }
    }
}

#[test]
fn a_store_without_damage_stays_as_it_is() {
    let disk = disk();
    filled(&disk);
    let report = repair(Path::new(STORE), options(&disk), |_, _| {}).unwrap();
    assert!(!report.is_changed(), "{report:?}");
    check(&Db::open(STORE, options(&disk)).unwrap(), 0..300);
}

#[test]
fn a_damaged_table_of_another_tier_is_kept_aside_there_and_its_rest_is_taken() {
    let disk = disk();
    filled(&disk);
    flip(&disk, &Path::new(SLOW).join(a_slow_table(&disk)), 300);
    let report = repair(Path::new(STORE), options(&disk), |_, _| {}).unwrap();
    assert_eq!(report.damaged.len(), 1);
    let kept = report.damaged[0].kept_as.clone().unwrap();
    assert_eq!(kept.parent(), Some(Path::new(SLOW)));
    let db = Db::open(STORE, options(&disk)).unwrap();
    assert!(db.verify(|_, _| ()).unwrap().problems.is_empty());
    let there = (0..300).filter(|number| {
        let found = db.get(format!("key-{number:05}")).unwrap();
        found.is_some_and(|found| found[..] == super::value(*number))
    });
    assert!(there.count() > 250);
}

#[test]
fn a_lost_manifest_is_made_again_with_the_tiers_that_the_options_name() {
    let disk = disk();
    filled(&disk);
    lose_manifest(&disk);
    let report = repair(Path::new(STORE), three(&disk), |_, _| {}).unwrap();
    assert!(report.is_changed());
    let db = Db::open(STORE, options(&disk)).unwrap();
    check(&db, 0..300);
    assert_eq!(db.tiers().len(), 3);
    db.close().unwrap();
    // Its tiers are its own still.
    check(&Db::open(STORE, three(&disk)).unwrap(), 0..300);
}

#[test]
fn a_missing_tier_keeps_a_repair_from_dropping_its_tables() {
    let disk = disk();
    filled(&disk);
    for entry in disk.list(Path::new(SLOW)).unwrap() {
        disk.remove(&Path::new(SLOW).join(&entry.name)).unwrap();
    }
    for accept_tier_loss in [false, true] {
        let options = Options {
            accept_tier_loss,
            ..options(&disk)
        };
        let error = repair(Path::new(STORE), options, |_, _| {}).unwrap_err();
        assert!(matches!(error, Error::TierLost { .. }), "{error}");
    }
}

/// The new manifest listed no table of the tier, and said nothing of it. When the tier was back, an opening
/// removed its tables.
#[test]
fn a_repair_without_a_tier_and_a_whole_manifest_tells_of_its_tables() {
    let disk = disk();
    filled(&disk);
    let slow = disk.list(Path::new(SLOW)).unwrap().into_iter();
    let slow: Vec<String> = slow.map(|entry| entry.name).collect();
    let tables = slow.iter().filter(|name| name.ends_with(".table")).count();
    disk.create_directory(Path::new("/away")).unwrap();
    let carry = |from: &str, to: &str| {
        for name in &slow {
            let (from, to) = (Path::new(from).join(name), Path::new(to).join(name));
            copy_part(&disk, &from, &to, 1);
            disk.remove(&from).unwrap();
        }
    };
    carry(SLOW, "/away");
    let mut names = disk.list(Path::new(STORE)).unwrap();
    names.retain(|entry| entry.name.starts_with("MANIFEST"));
    let manifest = names.last().unwrap();
    let middle = manifest.length_bytes / 2;
    flip(&disk, &Path::new(STORE).join(&manifest.name), middle);
    let with = |accept_tier_loss| Options {
        accept_tier_loss,
        ..options(&disk)
    };
    let error = repair(Path::new(STORE), with(false), |_, _| {}).unwrap_err();
    assert!(matches!(error, Error::TierLost { .. }), "{error}");
    let report = repair(Path::new(STORE), with(true), |_, _| {}).unwrap();
    let is_lost = |error: &Error| matches!(error, Error::TierLost { .. });
    let lost = report.damaged.iter().filter(|table| is_lost(&table.error));
    assert!((1..=tables).contains(&lost.count()), "{report:?}");
    assert!(report.may_resurrect());
    // Options that still name it make no new one.
    let named = Options {
        accept_tier_loss: false,
        ..three(&disk)
    };
    let report = repair(Path::new(STORE), named, |_, _| {}).unwrap();
    assert!(!report.is_changed(), "{report:?}");
    assert!(disk.list(Path::new(SLOW)).unwrap().is_empty());
    // The tier is the store's no more, and its files stay.
    carry("/away", SLOW);
    let db = Db::open(STORE, options(&disk)).unwrap();
    assert!(
        db.tiers().iter().all(|tier| tier.name != "slow"),
        "{:?}",
        db.tiers()
    );
    db.close().unwrap();
    let left = disk.list(Path::new(SLOW)).unwrap().into_iter();
    let left: Vec<String> = left.map(|entry| entry.name).collect();
    assert_eq!(left, slow);
    let error = Db::open(STORE, three(&disk)).unwrap_err();
    assert!(matches!(error, Error::WrongTier { .. }), "{error}");
}

/// A crash amid a migration leaves a part of a copy. The part passed for the table, as the first one found.
#[test]
fn a_part_of_a_copy_does_not_hide_the_table() {
    let disk = disk();
    filled(&disk);
    let (table, part) = slow_table_and_copy(&disk);
    copy_part(&disk, &table, &part, 2);
    lose_manifest(&disk);
    let report = repair(Path::new(STORE), three(&disk), |_, _| {}).unwrap();
    assert!(report.damaged.is_empty(), "{report:?}");
    let db = Db::open(STORE, options(&disk)).unwrap();
    check(&db, 0..300);
}

#[test]
fn a_damaged_table_is_read_where_it_is_listed() {
    let disk = disk();
    filled(&disk);
    let (table, part) = slow_table_and_copy(&disk);
    copy_part(&disk, &table, &part, 50);
    flip(&disk, &table, 300);
    let report = repair(Path::new(STORE), options(&disk), |_, _| {}).unwrap();
    assert_eq!(report.damaged.len(), 1);
    assert!(report.damaged[0].entries_kept > 0, "{report:?}");
    let kept = report.damaged[0].kept_as.clone().unwrap();
    assert_eq!(kept.parent(), Some(Path::new(SLOW)));
}

/// A crash behind a migration's edit leaves the old file, and it may be the last whole one.
#[test]
fn the_rest_of_a_damaged_table_is_read_from_a_whole_copy() {
    let disk = disk();
    filled(&disk);
    let (table, copy) = slow_table_and_copy(&disk);
    copy_part(&disk, &table, &copy, 1);
    flip(&disk, &table, 300);
    let report = repair(Path::new(STORE), options(&disk), |_, _| {}).unwrap();
    assert_eq!(report.damaged.len(), 1);
    check(&Db::open(STORE, options(&disk)).unwrap(), 0..300);
}
