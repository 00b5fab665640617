//! Arenas of other stores, of copies and of newer releases: none of their writes is taken, they prove
//! nothing about the store, and none of their bytes is lost.

use std::path::Path;
use std::sync::Arc;

use crate::image::{Image, STORE};
use crate::specimen::{
    BOOT, is_manifest, of_default, open, options, repaired, tables, written_once,
};
use crate::support::model::Content;
use terrace::internal::Randomness;
use terrace::{Db, Error, Options};
use terrace_region::{Frame, Front, Header, HeaderState, Region, WrittenOptions};
use terrace_storage::{CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};
use terrace_tools::inspect;
use terrace_tools::repair::{ManifestRepair, RepairOptions, RepairReport, repair_with};

const OTHER: u128 = 0xfeed;
const ARENA_BYTES: u64 = 16 << 10;

/// Returns an arena of another store, with synced writes of the key `theirs`.
pub fn foreign(slot: u64, generation: u64) -> Vec<u8> {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let directory = Path::new(STORE);
    disk.create_directory(directory).unwrap();
    let region = Region::written(
        Arc::new(disk.clone()),
        directory,
        OTHER.to_le_bytes(),
        ARENA_BYTES,
        WrittenOptions::default(),
    );
    let region = region.unwrap();
    let arena = loop {
        let free = region.reserve(ARENA_BYTES).unwrap();
        if free.number() == slot {
            break region.activate(free, generation).unwrap();
        }
    };
    for first_sequence in 10_000..12_000 {
        let frame = Frame {
            first_sequence,
            record_count: 1,
            persisted_until: first_sequence - 1,
            payload: &[&[1, 1, 6, 1], b"theirs", b"x"],
        };
        if arena.append(&frame).is_err() {
            break;
        }
    }
    let name = format!("arena-{slot}");
    Image::of(&disk).files.remove(&name).unwrap()
}

pub fn header(image: &Image, name: &str) -> Header {
    match Header::decode(&image.files[name]) {
        HeaderState::Intact(header) => header,
        other => panic!("{name}: {other:?}"),
    }
}

pub fn arenas(image: &Image) -> Vec<String> {
    image.names(|name| name.starts_with("arena-") && !name.contains(".damaged"))
}

/// Returns the arena that holds frames, and the spare.
pub fn active_and_spare(image: &Image) -> (String, String) {
    let mut live: Vec<_> = arenas(image)
        .into_iter()
        .map(|name| (header(image, &name).generation, name))
        .collect();
    live.sort();
    let spare = live.pop().unwrap().1;
    (live.pop().unwrap().1, spare)
}

pub fn own_number(image: &Image) -> u128 {
    u128::from_le_bytes(header(image, &active_and_spare(image).0).store)
}

pub fn repaired_as(disk: &SimulatedStorage, store: u128) -> RepairReport {
    let decisions = RepairOptions { store: Some(store) };
    repair_with(STORE.as_ref(), options(disk), decisions, |_, _| {}).unwrap()
}

/// Repairs again, and asserts that nothing changes, byte by byte.
pub fn assert_settled(disk: &SimulatedStorage) {
    let before = Image::of(disk);
    let again = repaired(disk);
    assert!(!again.is_changed(), "{again:?}");
    assert!(Image::of(disk) == before, "a second repair changed a file");
}

fn assert_kept(after: &Image, report: &RepairReport, name: &str, bytes: &[u8]) {
    let left = report.left.iter().find(|left| left.file.ends_with(name));
    let left = left.unwrap_or_else(|| panic!("{name} is not named: {report:?}"));
    let kept = left.kept_as.as_ref().expect("kept under another name");
    let kept = kept.file_name().unwrap().to_str().unwrap();
    assert!(kept.contains(".damaged"), "{kept}");
    assert!(after.files[kept] == *bytes, "{kept} has other bytes");
}

/// Case: an arena file of another store lies in the directory.
#[test]
fn repair_takes_no_writes_of_a_foreign_arena_and_keeps_own_synced_ones() {
    let (image, content) = written_once();
    let next = header(&image, &active_and_spare(&image).1).generation + 1;
    for (slot, generation) in [(9, next + 100), (9, 1), (3, next + 1)] {
        let name = format!("arena-{slot}");
        let theirs = foreign(slot, generation);
        let mut image = image.clone();
        image.files.insert(name.clone(), theirs.clone());
        let disk = image.disk(BOOT);
        // It proves nothing: the store opens, and says so.
        let verified = inspect::verify(STORE.as_ref(), options(&disk), |_, _| {}).unwrap();
        assert!(verified.problems.is_empty(), "{:?}", verified.problems);
        let file = Path::new(STORE).join(&name);
        assert_eq!(verified.recovery.foreign_files, [file.as_path()]);
        let report = repaired(&disk);
        assert!(report.is_changed() && !report.may_resurrect(), "{report:?}");
        assert!(matches!(report.manifest, ManifestRepair::Kept));
        assert_kept(&Image::of(&disk), &report, &name, &theirs);
        let why = report.left[0].error.to_string();
        assert!(why.contains(&format!("{OTHER:032x}")), "{why}");
        assert_settled(&disk);
        assert_eq!(of_default(&open(&disk)), content);
    }
}

#[test]
fn a_store_leaves_a_foreign_arena_alone_and_takes_other_slots() {
    let (image, _) = written_once();
    let theirs = foreign(3, 1 << 40);
    let mut image = image;
    image.files.insert("arena-3".to_owned(), theirs.clone());
    let disk = image.disk(BOOT);
    let db = open(&disk);
    for number in 0..2000u32 {
        db.put(number.to_be_bytes(), [7; 60]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    // Nor does a move of the arenas to another directory remove it.
    let moved = Options {
        region_dir: Some("/fast".into()),
        ..options(&disk)
    };
    Db::open(STORE, moved).unwrap().close().unwrap();
    let after = Image::of(&disk);
    assert_eq!(arenas(&after), ["arena-3"]);
    assert!(after.files["arena-3"] == theirs);
}

/// Case: the file of a live arena is another store's. Opening says "run repair", and repair goes on.
#[test]
fn a_live_arena_of_another_store_is_refused_by_name_and_repaired() {
    let (image, content) = written_once();
    let (active, spare) = active_and_spare(&image);
    let (listed, next) = (
        header(&image, &active).generation,
        header(&image, &spare).generation + 1,
    );
    for name in [active, spare] {
        let slot = header(&image, &name).slot;
        for generation in [1, listed - 1, listed + 1, next + 9] {
            let theirs = foreign(slot, generation);
            let replaced = image.with(&name, |bytes| bytes.clone_from(&theirs));
            let disk = replaced.disk(BOOT);
            let refused = Db::open(STORE, options(&disk)).unwrap_err();
            let Error::Corruption { file, .. } = &refused else {
                panic!("{refused:?}");
            };
            assert!(file.ends_with(&name), "{refused}");
            let text = refused.to_string();
            assert!(text.contains("belongs to another store"), "{text}");
            assert!(text.contains("terrace repair"), "{text}");
            let report = repaired(&disk);
            assert!(!report.may_resurrect(), "it is a state of before");
            assert_kept(&Image::of(&disk), &report, &name, &theirs);
            assert_settled(&disk);
            let db = open(&disk);
            let found = of_default(&db);
            assert!(found.len() >= 551, "{}", found.len());
            assert!(found.iter().all(|(key, value)| content[key] == *value));
            db.put(b"~new", b"value").unwrap();
            db.close().unwrap();
            assert_eq!(of_default(&open(&disk)).len(), found.len() + 1);
        }
    }
}

/// Returns a plain copy of the store that was opened and written to.
pub fn copy_opened(image: &Image, seed: u64) -> (SimulatedStorage, Image) {
    let disk = image.disk(BOOT);
    let seeded = Options {
        randomness: Randomness::seeded(seed),
        ..options(&disk)
    };
    let db = Db::open(STORE, seeded).unwrap();
    for number in 0..20u8 {
        db.put([number], [seed as u8; 40]).unwrap();
    }
    db.persist().unwrap();
    std::mem::forget(db);
    let image = Image::of(&disk);
    (image.disk(BOOT), image)
}

#[test]
fn plain_copies_that_are_opened_separately_issue_different_generations() {
    let (image, _) = written_once();
    let generations = |seed| {
        let (_, image) = copy_opened(&image, seed);
        let (active, spare) = active_and_spare(&image);
        [active, spare].map(|name| header(&image, &name).generation)
    };
    let ones = generations(1);
    assert_eq!(ones, generations(1), "a seeded run repeats");
    let others = generations(2);
    assert!(ones.iter().all(|one| !others.contains(one)));
    // The bits are in the manifest, through its rewrites, too.
    let (disk, image) = copy_opened(&image, 1);
    let manifest = image.names(|name| name.starts_with("MANIFEST")).pop();
    let manifest = Path::new(STORE).join(manifest.unwrap());
    let dump = inspect::dump(&disk, &manifest).unwrap();
    let has_bits = |text: &str| text.lines().any(|line| line.starts_with("opening "));
    assert!(dump.items.iter().any(|item| has_bits(&item.text)));
}

/// The live arena's file is that of a plain copy, of a generation below or above the one listed.
#[test]
fn an_arena_of_a_copy_is_never_taken_for_one_that_is_empty() {
    let (image, _) = written_once();
    let (_, one) = copy_opened(&image, 1);
    for seed in 2..7 {
        let (_, other) = copy_opened(&image, seed);
        // In one direction the generation is the lower one, in the other the higher one.
        for (own, copy) in [(&one, &other), (&other, &one)] {
            let (active, spare) = active_and_spare(own);
            refuse_and_repair(own, copy, &active);
            refuse_and_repair(own, copy, &spare);
        }
    }
}

/// Puts a copy's file in the place of a live arena.
fn refuse_and_repair(own: &Image, copy: &Image, name: &str) {
    let content = of_default(&open(&own.disk(BOOT)));
    let theirs = &copy.files[name];
    let disk = own.with(name, |bytes| bytes.clone_from(theirs)).disk(BOOT);
    let refused = match Db::open(STORE, options(&disk)) {
        Err(refused) => refused,
        // A spare in a slot whose header a power cut might take back: nothing was in it.
        Ok(db) => {
            let generation = |image| header(image, name).generation;
            assert!(name == active_and_spare(own).1 && generation(copy) < generation(own));
            assert_eq!(of_default(&db), content);
            return;
        }
    };
    assert!(matches!(&refused, Error::Corruption { file, .. } if file.ends_with(name)));
    let text = refused.to_string();
    assert!(text.contains("copy of this store"), "{text}");
    assert!(text.contains("terrace repair"), "{text}");
    let report = repaired(&disk);
    assert!(report.is_changed());
    let after = Image::of(&disk);
    let is_kept = after.files.values().any(|bytes| bytes == theirs);
    assert!(is_kept, "{report:?}");
    assert_settled(&disk);
    let found = of_default(&open(&disk));
    let is_own = |(key, value): (&Vec<u8>, &Vec<u8>)| content.get(key) == Some(value);
    if matches!(report.manifest, ManifestRepair::Kept) {
        assert!(found.iter().all(is_own));
    }
}

/// The arena of a plain copy in a slot that the store does not use: its numbers are those of other
/// writes, so it is no proof that the manifest lost its end.
#[test]
fn an_arena_of_a_copy_with_numbers_given_here_does_not_displace_synced_writes() {
    let (image, _) = written_once();
    let (_, own_image) = copy_opened(&image, 1);
    let content = of_default(&open(&own_image.disk(BOOT)));
    let (_, spare) = active_and_spare(&own_image);
    let next = header(&own_image, &spare).generation + 1;
    let mut above = 0;
    for seed in 2..12 {
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
        std::mem::forget(db);
        let copy = Image::of(&disk);
        let (active, _) = active_and_spare(&copy);
        let theirs = moved_to_slot(&copy.files[&active], 3);
        if header(&copy, &active).generation >= next {
            above += 1;
        }
        let mut mixed = own_image.clone();
        mixed.files.insert("arena-3".to_owned(), theirs);
        let disk = mixed.disk(BOOT);
        let report = repaired(&disk);
        assert!(
            matches!(report.manifest, ManifestRepair::Kept),
            "{report:?}"
        );
        assert_settled(&disk);
        assert_eq!(of_default(&open(&disk)), content);
    }
    assert!(above > 2, "{above}");
}

/// Returns the same arena as if it had been written in another slot.
pub fn moved_to_slot(arena: &[u8], slot: u64) -> Vec<u8> {
    let mut bytes = arena.to_vec();
    bytes[56..64].copy_from_slice(&slot.to_le_bytes());
    let covered = [&bytes[..16], &bytes[24..80]].concat();
    let sum = xxhash_rust::xxh3::xxh3_64(&covered);
    bytes[16..24].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(Header::decode(&bytes), HeaderState::Intact(_)));
    bytes
}

#[test]
fn arenas_of_several_stores_stay_aside_until_one_is_chosen() {
    let (image, content) = written_once();
    let own = own_number(&image);
    let theirs = foreign(9, 1 << 40);
    let mut mixed = image.clone();
    mixed.files.retain(|name, _| !is_manifest(name));
    mixed.files.insert("arena-9".to_owned(), theirs.clone());
    let chosen_at_once = mixed.disk(BOOT);
    repaired_as(&chosen_at_once, own);
    assert_eq!(of_default(&open(&chosen_at_once)), content);

    let disk = mixed.disk(BOOT);
    let report = repaired(&disk);
    assert_eq!(report.writes_from_arenas, 0);
    let after = Image::of(&disk);
    assert_eq!(arenas(&after), [""; 0]);
    for name in arenas(&mixed) {
        assert_kept(&after, &report, &name, &mixed.files[&name]);
    }
    let text = format!("{:?}", report.left);
    assert!(text.contains(&format!("{own:032x}")) && text.contains(&format!("{OTHER:032x}")));
    assert_settled(&disk);

    // The choice may follow: own arenas get their names back, and their writes are taken.
    let report = repaired_as(&disk, own);
    assert_eq!(report.writes_from_arenas, 49, "{report:?}");
    assert_settled(&disk);
    let after = Image::of(&disk);
    assert!(after.files["arena-9.damaged"] == theirs);
    assert_eq!(of_default(&open(&disk)), content);

    let others = mixed.disk(BOOT);
    repaired_as(&others, OTHER);
    assert_settled(&others);
    let found = of_default(&open(&others));
    assert_eq!(
        found.get(&b"theirs"[..]).map(Vec::as_slice),
        Some(&b"x"[..])
    );
}

#[test]
fn own_arenas_are_not_given_up_for_another_stores() {
    let (image, content) = written_once();
    let disk = image.disk(BOOT);
    let decisions = RepairOptions { store: Some(OTHER) };
    let refused = repair_with(STORE.as_ref(), options(&disk), decisions, |_, _| {});
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("flush and close"), "{text}");
    assert_eq!(of_default(&open(&disk)), content);
}

#[test]
fn an_arena_of_a_newer_release_keeps_its_name() {
    let (image, content) = written_once();
    let (active, _) = active_and_spare(&image);
    let newer = Front {
        magic: *b"TERARENA",
        version: 3,
    };
    let newer = [&newer.encode()[..], &[9; 8176]].concat();
    // Listed: refused by its name. Not listed: left alone.
    let listed = image.with(&active, |bytes| bytes.clone_from(&newer));
    let disk = listed.disk(BOOT);
    let refused = Db::open(STORE, options(&disk)).unwrap_err();
    assert!(matches!(&refused, Error::Unsupported { file, .. } if file.ends_with(&active)));
    let report = repaired(&disk);
    assert!(report.is_changed());
    let left = report.left.iter().find(|left| left.is_newer()).unwrap();
    assert!(left.file.ends_with(&active));
    // The newer release takes the slot again, since no edit names it any more.
    let copy = format!("{active}.damaged");
    assert!(left.kept_as.as_ref().unwrap().ends_with(&copy));
    assert!(Image::of(&disk).files[&copy] == newer);
    assert_settled(&disk);
    let found = of_default(&open(&disk));
    assert!(found.len() >= 551);
    assert!(found.iter().all(|(key, value)| content[key] == *value));
    assert!(Image::of(&disk).files[&active] == newer);

    let mut unlisted = image.clone();
    unlisted.files.insert("arena-7".to_owned(), newer.clone());
    for is_bare in [false, true] {
        let mut image = unlisted.clone();
        image.files.retain(|name, _| !is_bare || !is_manifest(name));
        let disk = image.disk(BOOT);
        let report = repaired(&disk);
        assert_eq!(report.is_changed(), is_bare);
        assert!(report.left.iter().any(|left| left.is_newer()));
        assert_settled(&disk);
        assert_eq!(of_default(&open(&disk)), content);
        let after = Image::of(&disk);
        assert!(after.files["arena-7"] == newer);
        assert_eq!(after.files.contains_key("arena-7.damaged"), is_bare);
    }
}

/// The manifest and `REGION` are both gone or damaged: the arenas say whose they are.
#[test]
fn without_manifest_and_region_file_the_arenas_tell_the_stores_number() {
    for is_gone in [false, true] {
        let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
        let options = Options {
            region_dir: Some("/fast".into()),
            ..options(&disk)
        };
        let db = Db::open(STORE, options.clone()).unwrap();
        db.put(b"flushed", b"1").unwrap();
        db.flush().unwrap();
        db.put(b"in an arena", b"2").unwrap();
        drop(db);
        for name in Image::of(&disk).names(is_manifest) {
            disk.remove(&Path::new(STORE).join(name)).unwrap();
        }
        let file = Path::new("/fast/REGION");
        if is_gone {
            disk.remove(file).unwrap();
        } else {
            let write = OpenOptions::buffered(OpenMode::ReadWrite);
            let file = disk.open(file, write).unwrap();
            file.write_at(b"x", 30, Purpose::Other).unwrap();
        }
        let repaired =
            || terrace_tools::repair::repair(STORE.as_ref(), options.clone(), |_, _| {}).unwrap();
        let report = repaired();
        assert_eq!(report.writes_from_arenas, 1);
        assert!(report.region_damage.is_some());
        assert!(!repaired().is_changed());
        let db = Db::open(STORE, options.clone()).unwrap();
        let expected: Content = [
            (b"flushed".to_vec(), b"1".to_vec()),
            (b"in an arena".to_vec(), b"2".to_vec()),
        ]
        .into();
        assert_eq!(of_default(&db), expected);
    }
}

/// Cut short at any step, with a foreign arena among the own ones.
#[test]
fn a_repair_of_foreign_arenas_cut_short_loses_none_of_their_bytes() {
    use terrace_storage::CrashKind;
    let (image, _) = written_once();
    let (active, _) = active_and_spare(&image);
    let slot = header(&image, &active).slot;
    let (listed, unlisted) = (foreign(slot, 5), foreign(9, 6));
    let mut mixed = image.with(&active, |bytes| bytes.clone_from(&listed));
    mixed.files.insert("arena-9".to_owned(), unlisted.clone());
    let whole = mixed.disk(BOOT);
    repaired(&whole);
    let expected = of_default(&open(&whole));
    for kind in [CrashKind::Kill, CrashKind::PowerCut] {
        for step in 0.. {
            let switch = CrashSwitch::new();
            let disk = mixed
                .disk(BOOT)
                .crash(CrashKind::Kill, step, switch.clone());
            switch.freeze_at(step);
            let _ = terrace_tools::repair::repair(STORE.as_ref(), options(&disk), |_, _| {});
            let is_over = !switch.is_frozen();
            let disk = disk.crash(kind, step, CrashSwitch::new());
            repaired(&disk);
            let after = Image::of(&disk);
            for bytes in [&listed, &unlisted] {
                assert!(
                    after.files.values().any(|kept| kept == bytes),
                    "{kind:?} {step}"
                );
            }
            assert_settled(&disk);
            assert_eq!(of_default(&open(&disk)), expected, "{kind:?} {step}");
            if is_over {
                assert!(step > 5 && !tables(&after).is_empty());
                break;
            }
        }
    }
}
