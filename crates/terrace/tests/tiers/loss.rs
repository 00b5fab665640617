//! A tier that is missing: nothing old shows in its place, and the rest serves.

use std::path::Path;

use terrace::{Db, Error, IterOptions, Options, TierOptions};
use terrace_storage::{Access, CrashKind, CrashSwitch, SimulatedStorage, Storage};

use super::{SLOW, STORE, disk, fill, options, with_level_tiers};

fn two(disk: &SimulatedStorage) -> Options {
    let options = Options {
        tiers: vec![TierOptions::new("slow", SLOW)],
        ..options(disk)
    };
    with_level_tiers(options, &["store", "slow"])
}

fn accepting(disk: &SimulatedStorage) -> Options {
    Options {
        accept_tier_loss: true,
        ..two(disk)
    }
}

/// Returns a store whose keys are in the slow tier, and the disk without that tier's files.
fn without_slow(db: Db, disk: &SimulatedStorage) -> SimulatedStorage {
    db.close().unwrap();
    drop(db);
    let disk = disk.crash(CrashKind::Kill, 0, CrashSwitch::new());
    let slow = disk.directory(Path::new(SLOW), Access::Owner).unwrap();
    for entry in slow.list().unwrap() {
        slow.remove(&entry.name).unwrap();
    }
    disk
}

#[test]
fn reads_that_need_a_lost_file_fail_and_never_answer_with_an_older_version() {
    let first = disk();
    let db = Db::open(STORE, two(&first)).unwrap();
    fill(&db, 0..300);
    let disk = without_slow(db, &first);
    let refused = Db::open(STORE, two(&disk)).unwrap_err();
    assert!(matches!(refused, Error::TierLost { .. }), "{refused}");

    let db = Db::open(STORE, accepting(&disk)).unwrap();
    assert_eq!(db.tiers()[1].state, "lost");
    let error = db.get("key-00007").unwrap_err();
    assert!(matches!(error, Error::TierLost { .. }), "{error}");
    let mut iterator = db.iter(IterOptions::default()).unwrap();
    assert!(iterator.seek_to_first().is_err());
    drop(iterator);
    // Keys that are written now are read: the newest version is at hand.
    db.put("key-00007", "new").unwrap();
    db.put("other", "new").unwrap();
    assert_eq!(db.get("key-00007").unwrap().as_deref(), Some(&b"new"[..]));
    db.flush().unwrap();
    assert_eq!(db.get("key-00007").unwrap().as_deref(), Some(&b"new"[..]));
    // A deleted key stays deleted: no compaction drops its tombstone over the lost file.
    db.delete("key-00008").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(db.get("key-00008").unwrap(), None);
    assert_eq!(db.get("zzz").unwrap(), None, "behind all lost tables");
    let problems = db.verify(|_, _| ()).unwrap().problems;
    assert!(!problems.is_empty());
    db.close().unwrap();

    // The loss is recorded, and an opening without consent says so again.
    let again = Db::open(STORE, options(&disk)).unwrap_err();
    assert!(matches!(again, Error::TierLost { .. }), "{again}");
}

/// Compactions keep away from lost tables, so sub-levels pile up above them.
#[test]
fn writers_go_on_over_lost_tables() {
    let first = disk();
    let db = Db::open(STORE, two(&first)).unwrap();
    fill(&db, 0..300);
    let disk = without_slow(db, &first);
    let mut options = accepting(&disk);
    options.level0_slowdown = 4;
    let db = Db::open(STORE, options).unwrap();
    for number in 0..2000 {
        db.put(format!("key-{number:05}"), super::value(number))
            .unwrap();
    }
    super::check(&db, 0..2000);
    // No job takes a lost table, and fails.
    db.compact().unwrap();
    assert_eq!(db.statistics().step_failures, 0);
}

#[test]
fn a_directory_that_cannot_be_the_tiers_is_a_loss_too() {
    let first = disk();
    let db = Db::open(STORE, two(&first)).unwrap();
    fill(&db, 0..300);
    let disk = without_slow(db, &first);
    let mode = terrace_storage::OpenOptions::buffered(terrace_storage::OpenMode::CreateNew);
    disk.open(&Path::new(SLOW).join("letter"), mode).unwrap();
    let refused = Db::open(STORE, options(&disk)).unwrap_err();
    assert!(matches!(refused, Error::TierLost { .. }), "{refused}");
    assert!(refused.to_string().contains("letter"), "{refused}");
    let named = Db::open(STORE, two(&disk)).unwrap_err();
    assert!(matches!(named, Error::WrongTier { .. }), "{named}");
    let db = Db::open(STORE, accepting(&disk)).unwrap();
    assert_eq!(db.tiers()[1].state, "lost");
}

#[test]
fn a_tier_that_comes_back_serves_again() {
    let first = disk();
    let db = Db::open(STORE, two(&first)).unwrap();
    fill(&db, 0..300);
    db.close().unwrap();
    drop(db);
    let hidden = first.crash(CrashKind::Kill, 0, CrashSwitch::new());
    let slow = hidden.directory(Path::new(SLOW), Access::Owner).unwrap();
    hidden.create_directory(Path::new("/hidden")).unwrap();
    let aside = hidden
        .directory(Path::new("/hidden"), Access::Owner)
        .unwrap();
    let names: Vec<String> = slow.list().unwrap().into_iter().map(|e| e.name).collect();
    for name in &names {
        slow.link(name, &*aside, name).unwrap();
        slow.remove(name).unwrap();
    }
    let db = Db::open(STORE, accepting(&hidden)).unwrap();
    db.put("key-00007", "new").unwrap();
    db.delete("key-00008").unwrap();
    for number in 1000..1400u32 {
        db.put(format!("key-{number:05}"), super::value(number))
            .unwrap();
    }
    db.flush().unwrap();
    let _ = db.compact();
    assert!(db.drain_tier("slow").is_err());
    db.close().unwrap();
    drop(db);
    for name in &names {
        aside.link(name, &*slow, name).unwrap();
    }
    let db = Db::open(STORE, two(&hidden)).unwrap();
    assert_eq!(db.tiers()[1].state, "open");
    assert_eq!(db.get("key-00007").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(db.get("key-00008").unwrap(), None);
    super::check(&db, 9..300);
    super::check(&db, 1000..1400);
    db.compact().unwrap();
    assert!(db.verify(|_, _| ()).unwrap().problems.is_empty());
}

#[test]
fn a_lost_tier_is_given_up_with_its_tables() {
    let first = disk();
    let db = Db::open(STORE, two(&first)).unwrap();
    fill(&db, 0..300);
    assert!(matches!(
        db.give_up_tier("slow"),
        Err(Error::InvalidArgument(_))
    ));
    let disk = without_slow(db, &first);
    let db = Db::open(STORE, accepting(&disk)).unwrap();
    db.put("key-00007", "new").unwrap();
    assert!(db.give_up_tier("slow").unwrap() > 0);
    assert_eq!(db.tiers().len(), 1);
    assert_eq!(db.get("key-00005").unwrap(), None);
    assert_eq!(db.get("key-00007").unwrap().as_deref(), Some(&b"new"[..]));
    fill(&db, 0..300);
    db.close().unwrap();
    let db = Db::open(STORE, options(&disk)).unwrap();
    super::check(&db, 0..300);
    // The directory that was given up comes back, with tables of its own.
    let given_up = db.add_tier(&TierOptions::new("again", SLOW));
    assert!(given_up.is_ok(), "it is empty here: {given_up:?}");
    assert!(db.verify(|_, _| ()).unwrap().problems.is_empty());
}
