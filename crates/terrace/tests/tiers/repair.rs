//! Repair of stores whose tables lie in several tiers.

use std::path::Path;

use terrace::{Db, Error, Options};
use terrace_storage::{OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};
use terrace_tools::repair::repair;

use super::{SLOW, STORE, check, disk, fill, options, table_bytes, with_level_tiers, with_three};

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
    let names = disk.list(Path::new(SLOW)).unwrap().into_iter();
    let name = names
        .map(|entry| entry.name)
        .find(|name| name.ends_with(".table"));
    let path = Path::new(SLOW).join(name.unwrap());
    let file = disk
        .open(&path, OpenOptions::buffered(OpenMode::ReadWrite))
        .unwrap();
    let byte = file.read_vec_at(1, 300, Purpose::Other).unwrap()[0];
    file.write_at(&[byte ^ 1], 300, Purpose::Other).unwrap();
    drop(file);
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
    for entry in disk.list(Path::new(STORE)).unwrap() {
        if entry.name.starts_with("MANIFEST") || entry.name == "CURRENT" {
            disk.remove(&Path::new(STORE).join(&entry.name)).unwrap();
        }
    }
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
