//! Arenas that a repair does not take at first, and obstacles in their way.

use std::path::Path;

use terrace::internal::Randomness;
use terrace::{Db, Options};
use terrace_storage::{CrashKind, CrashSwitch, SimulatedStorage, Storage};
use terrace_tools::repair::{ManifestRepair, RepairOptions, repair, repair_with};

use crate::foreign::{
    active_and_spare, arenas, assert_settled, copy_opened, foreign, header, moved_to_slot,
    own_number, repaired_as,
};
use crate::image::{Image, STORE};
use crate::specimen::{
    BOOT, is_manifest, of_default, open, options, repaired, tables, written_once,
};

/// An earlier repair put the arenas aside, and the new store took their names.
#[test]
fn chosen_arenas_get_their_names_back_from_those_of_a_store_that_a_repair_made() {
    let (image, mut content) = written_once();
    let own = own_number(&image);
    let mut mixed = image.clone();
    mixed.files.retain(|name, _| !is_manifest(name));
    mixed
        .files
        .insert("arena-9".to_owned(), foreign(9, 1 << 40));
    let disk = mixed.disk(BOOT);
    repaired(&disk);
    let db = open(&disk);
    db.put(b"meanwhile", b"yes").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    content.insert(b"meanwhile".to_vec(), b"yes".to_vec());
    let in_the_way = Image::of(&disk);
    let name = active_and_spare(&image).0;
    assert!(in_the_way.files.contains_key(&name), "{name} is taken");

    let report = repaired_as(&disk, own);
    assert_eq!(report.writes_from_arenas, 49, "{report:?}");
    assert_settled(&disk);
    assert_eq!(of_default(&open(&disk)), content);
}

/// No store gets arenas back that its own manifest would call unused.
#[test]
fn arenas_of_the_store_itself_stay_aside_while_its_manifest_is_whole() {
    let (image, content) = written_once();
    let (active, _) = active_and_spare(&image);
    let own = own_number(&image);
    let aside = format!("{active}.damaged");
    let mut closed = {
        let disk = image.disk(BOOT);
        open(&disk).close().unwrap();
        Image::of(&disk)
    };
    closed.files.remove(&active);
    closed
        .files
        .insert(aside.clone(), image.files[&active].clone());
    let disk = closed.disk(BOOT);
    let report = repaired_as(&disk, own);
    assert!(!report.is_changed(), "{report:?}");
    assert!(report.left.iter().any(|left| left.file.ends_with(&aside)));
    assert_eq!(of_default(&open(&disk)), content);
    assert!(Image::of(&disk).files[&aside] == image.files[&active]);
    // Nor are they touched where the choice is refused.
    let mut killed = image.clone();
    killed
        .files
        .insert("arena-7.damaged".to_owned(), foreign(7, 3));
    let disk = killed.disk(BOOT);
    let decisions = RepairOptions {
        store: Some(0xfeed),
    };
    assert!(repair_with(STORE.as_ref(), options(&disk), decisions, |_, _| {}).is_err());
    assert!(Image::of(&disk) == killed);
}

/// Returns a killed store, an arena of a copy of it beside, and a manifest that lost its end.
fn with_copy_and_doubtful_manifest() -> (Image, Vec<u8>) {
    let (image, _) = written_once();
    let (_, own) = copy_opened(&image, 1);
    let next = header(&own, &active_and_spare(&own).1).generation + 1;
    let theirs = (2..12).find_map(|seed| {
        let disk = image.disk(BOOT);
        let seeded = Options {
            randomness: Randomness::seeded(seed),
            ..options(&disk)
        };
        let db = Db::open(STORE, seeded).unwrap();
        for number in 0..8u8 {
            db.put([number], [200; 40]).unwrap();
            if number < 5 {
                db.flush().unwrap();
            }
        }
        drop(db);
        let copy = Image::of(&disk);
        let (active, _) = active_and_spare(&copy);
        let is_above = header(&copy, &active).generation >= next;
        is_above.then(|| moved_to_slot(&copy.files[&active], 3))
    });
    let theirs = theirs.unwrap();
    let mut mixed = own;
    mixed.files.insert("arena-3".to_owned(), theirs.clone());
    let table = tables(&mixed).remove(0);
    let bytes = mixed.files.remove(&table).unwrap();
    mixed.files.insert("900.table".to_owned(), bytes);
    (mixed, theirs)
}

#[test]
fn an_arena_of_a_copy_is_kept_although_the_repair_dies_behind_its_commit() {
    let (mixed, theirs) = with_copy_and_doubtful_manifest();
    let whole = mixed.disk(BOOT);
    let report = repaired(&whole);
    assert!(matches!(report.manifest, ManifestRepair::Rebuilt(_)));
    for step in 0.. {
        let switch = CrashSwitch::new();
        let disk = mixed
            .disk(BOOT)
            .crash(CrashKind::Kill, step, switch.clone());
        switch.freeze_at(step);
        let _ = repair(STORE.as_ref(), options(&disk), |_, _| {});
        let is_over = !switch.is_frozen();
        let disk = disk.crash(CrashKind::Kill, step, CrashSwitch::new());
        // Some openings refuse. None uses the arena before its bytes are elsewhere.
        if let Ok(db) = Db::open(STORE, options(&disk)) {
            for number in 0..200u8 {
                db.put([number], [7; 200]).unwrap();
            }
            db.flush().unwrap();
        }
        let after = Image::of(&disk);
        let is_kept = after.files.values().any(|bytes| *bytes == theirs);
        assert!(is_kept, "{step}");
        if is_over {
            break;
        }
    }
}

/// The manifest lost its end, and an arena that is left in it is gone.
#[test]
fn a_missing_arena_does_not_end_the_search_for_evidence() {
    let (image, content) = written_once();
    let (_, later) = copy_opened(&image, 1);
    let (active, _) = active_and_spare(&later);
    let mut old = image.clone();
    for (name, bytes) in &later.files {
        if name.ends_with(".table") {
            old.files.insert(name.clone(), bytes.clone());
        }
    }
    let moved = moved_to_slot(&later.files[&active], 9);
    old.files.insert("arena-9".to_owned(), moved);
    for name in arenas(&image) {
        old.files.remove(&name);
    }
    let disk = old.disk(BOOT);
    let report = repaired(&disk);
    assert!(
        matches!(report.manifest, ManifestRepair::Rebuilt(_)),
        "{report:?}"
    );
    let found = of_default(&open(&disk));
    assert!(content.keys().all(|key| found.contains_key(key)));
    assert_eq!(found[&[19u8][..]], [1; 40]);
}

fn in_region(disk: &SimulatedStorage, region: &str) -> Options {
    Options {
        region_dir: Some(region.into()),
        ..options(disk)
    }
}

#[test]
fn the_former_home_of_the_arenas_is_no_damage() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    for (region, key) in [("/one", b"1"), ("/two", b"2")] {
        let db = Db::open(STORE, in_region(&disk, region)).unwrap();
        db.put(key, b"value").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }
    let before = Image::of(&disk);
    let former = in_region(&disk, "/one");
    let report = repair(STORE.as_ref(), former, |_, _| {}).unwrap();
    assert!(!report.is_changed(), "{report:?}");
    assert!(Image::of(&disk) == before);
    let db = Db::open(STORE, in_region(&disk, "/two")).unwrap();
    assert_eq!(of_default(&db).len(), 2);
}

#[test]
fn a_directory_with_an_arenas_name_takes_no_slot_and_is_not_removed() {
    let (image, mut content) = written_once();
    let disk = image.disk(BOOT);
    let db = open(&disk);
    db.close().unwrap();
    // The number that the next slot would get.
    let directory = Path::new(STORE).join("arena-3");
    disk.create_directory(&directory).unwrap();
    for moves in [false, true] {
        let options = match moves {
            false => options(&disk),
            true => in_region(&disk, "/fast"),
        };
        let db = Db::open(STORE, options).unwrap();
        assert_eq!(of_default(&db), content);
        assert_eq!(
            db.statistics().recovery.foreign_files,
            [directory.as_path()]
        );
        // It needs an arena of its own.
        db.put(b"large", [7; 20 << 10]).unwrap();
        content.insert(b"large".to_vec(), vec![7; 20 << 10]);
        db.flush().unwrap();
        db.close().unwrap();
    }
    assert!(disk.list(&directory).unwrap().is_empty());
}
