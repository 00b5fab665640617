//! Repair: what is damaged is named and kept aside, everything else is there again, and a repair
//! that is cut short at any step can be run again.
//!
//! `TERRACE_REPAIR_ROUNDS` sets how many stores are damaged at random.

mod image;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Image, STORE};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::machine::{Machine, Method};
use support::model::{Change, Content, Model, State};
use support::script::{Operation, Run, Script, tiny};
use terrace::{
    Background, Db, Error, IterOptions, KeyspaceId, KeyspaceOptions, ManifestRepair, Options,
    RepairReport, inspect, repair,
};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, OpenMode, OpenOptions,
    Purpose, SimulatedStorage, Storage,
};

const BOOT: u64 = 1;

fn options(disk: &SimulatedStorage) -> Options {
    tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        ..Options::default()
    })
}

fn repaired(disk: &SimulatedStorage) -> RepairReport {
    let report = repair(STORE.as_ref(), options(disk), |_, _| {}).unwrap();
    let verified = inspect::verify(STORE.as_ref(), options(disk), |_, _| {}).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    report
}

/// What a store holds, by the numbers of its keyspaces.
fn contents(db: &Db) -> State {
    let mut state = State::new();
    for keyspace in db.keyspaces() {
        let entries = keyspace.iter(IterOptions::default()).unwrap().entries();
        let content: Content = entries.collect::<Result<_, _>>().unwrap();
        if !content.is_empty() {
            state.insert(keyspace.id().number(), content);
        }
    }
    state
}

fn open(disk: &SimulatedStorage) -> Db {
    let options = Options {
        create_if_missing: false,
        ..options(disk)
    };
    let db = Db::open(STORE, options).unwrap();
    terrace::internal::check_ages(&db).unwrap();
    db
}

fn is_manifest(name: &str) -> bool {
    name == "CURRENT" || name.starts_with("MANIFEST")
}

/// A store after a script, as its process left it when it was killed.
struct Scripted {
    image: Image,
    state: State,
    /// Every value that a key ever had.
    ever: BTreeMap<(u32, Vec<u8>), BTreeSet<Vec<u8>>>,
}

impl Scripted {
    fn new(seed: u64, operations: usize, deletes: bool) -> Self {
        let machine = Machine::new(Method::Written, seed);
        let options = machine.options();
        let mut run = Run::new(Model::default());
        run.open(options.clone()).unwrap();
        let mut script = Script::new(seed, true);
        let mut ever: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for _ in 0..operations {
            let mut operation = script.next();
            match &mut operation {
                Operation::HoldFlushes => continue,
                Operation::Write { writes, .. } if !deletes => {
                    writes.retain(|(_, _, change)| matches!(change, Change::Put(_)));
                }
                _ => {}
            }
            run.apply(operation, &options).unwrap();
            for (keyspace, content) in &run.model.state {
                for (key, value) in content {
                    let values = ever.entry((*keyspace, key.clone())).or_default();
                    values.insert(value.clone());
                }
            }
        }
        run.db().persist().unwrap();
        Scripted {
            image: Image::of(&machine.storage),
            state: run.model.state.clone(),
            ever,
        }
    }

    /// Asserts that every key has its value, and no key has one that it never had. With `lenient`
    /// keys that were deleted may be back.
    fn check(&self, db: &Db, lenient: bool) {
        let mut found = contents(db);
        if lenient {
            for (keyspace, content) in &mut found {
                let expected = self.state.get(keyspace);
                content.retain(|key, value| {
                    let is_back = expected.is_none_or(|expected| !expected.contains_key(key));
                    let values = self.ever.get(&(*keyspace, key.clone()));
                    assert!(
                        values.is_some_and(|values| values.contains(value)),
                        "{key:?}"
                    );
                    !is_back
                });
            }
            found.retain(|_, content| !content.is_empty());
        }
        support::model::assert_same(&found, &self.state);
    }

    fn without_manifest(&self) -> Image {
        let mut image = self.image.clone();
        image.files.retain(|name, _| !is_manifest(name));
        image
    }
}

/// Tables and unflushed frames, every key written once: what is lost can be told.
fn written_once() -> (Image, Content) {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    let mut content = Content::new();
    for number in 0..600u32 {
        let key = (number * 7919 % 600).to_be_bytes().to_vec();
        db.put(&key, &number.to_le_bytes().repeat(12)).unwrap();
        content.insert(key, number.to_le_bytes().repeat(12));
        if number == 550 {
            db.flush().unwrap();
            db.compact().unwrap();
        }
    }
    db.persist().unwrap();
    (Image::of(&disk), content)
}

fn tables(image: &Image) -> Vec<String> {
    image.names(|name| name.ends_with(".table"))
}

fn of_default(db: &Db) -> Content {
    contents(db)
        .remove(&KeyspaceId::DEFAULT.number())
        .unwrap_or_default()
}

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
            let end = scripted.image.files[manifest].len();
            for cut in [0, 1, 40, end / 4, end / 2] {
                // A cut in the middle of a record would pass for a torn tail.
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
    drop((db, lakes));
    let image = Image::of(&disk);
    let names = |disk: &SimulatedStorage| {
        let db = open(disk);
        let lakes = db.keyspaces().pop().unwrap();
        assert!(lakes.contains_key(b"in an arena").unwrap());
        let keyspaces = db.keyspaces().into_iter().map(|one| one.name().to_owned());
        keyspaces.collect::<Vec<_>>()
    };
    let disk = image.without("CURRENT").disk(BOOT);
    assert!(repaired(&disk).named.is_empty());
    assert_eq!(names(&disk), ["default", "cities", "rivers", "lakes"]);
    let mut bare = image;
    bare.files.retain(|name, _| !is_manifest(name));
    let disk = bare.disk(BOOT);
    let named = repaired(&disk).named;
    assert_eq!(named, ["recovered-2", "recovered-3", "recovered-4"]);
    assert_eq!(names(&disk)[1..], named);
}

/// One block of 256 bytes is damaged: the others of the table are not lost with it.
#[test]
fn of_a_damaged_table_only_the_damaged_blocks_are_lost() {
    let (image, content) = written_once();
    for name in tables(&image) {
        for with_manifest in [true, false] {
            let mut damaged = image.with(&name, |bytes| bytes[40] ^= 1);
            if !with_manifest {
                damaged.files.retain(|name, _| !is_manifest(name));
            }
            let disk = damaged.disk(BOOT);
            assert!(Db::open(STORE, options(&disk)).is_ok() == with_manifest);
            let report = repaired(&disk);
            let [table] = &report.damaged[..] else {
                panic!("{report:?}")
            };
            assert!(report.may_resurrect() && table.entries_kept > 0);
            let aside = PathBuf::from(format!("{STORE}/{name}.damaged"));
            assert_eq!(table.kept_as.as_deref(), Some(aside.as_path()));
            assert_eq!(
                Image::of(&disk).files[&format!("{name}.damaged")],
                damaged.files[&name]
            );
            let found = of_default(&open(&disk));
            let lost = content.len() - found.len();
            assert!((1..=5).contains(&lost), "{lost}");
            assert!(found.iter().all(|(key, value)| content[key] == *value));
            if let Some(entries) = table.entries {
                assert_eq!(entries - table.entries_kept, lost as u64);
            }
        }
    }
}

#[test]
fn a_table_that_is_missing_or_no_table_takes_only_its_own_keys_with_it() {
    let (image, content) = written_once();
    let names = tables(&image);
    assert!(names.len() > 3);
    let mut lost_in_all = 0;
    for name in &names {
        let garbage = image.with(name, |bytes| {
            bytes.iter_mut().for_each(|byte| *byte ^= 0x55)
        });
        for damaged in [image.without(name), garbage] {
            let disk = damaged.disk(BOOT);
            let report = repaired(&disk);
            assert_eq!(
                (report.damaged.len(), report.damaged[0].entries_kept),
                (1, 0)
            );
            let found = of_default(&open(&disk));
            assert!(found.iter().all(|(key, value)| content[key] == *value));
            lost_in_all += content.len() - found.len();
        }
    }
    // 551 are in tables, which are taken away one by one, each twice.
    assert_eq!(lost_in_all, 2 * 551);
}

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

/// Dies at every step. What is left is repaired, and nothing is lost by an attempt to open it before.
#[test]
fn a_repair_cut_short_at_any_step_is_taken_up_again() {
    let scripted = Scripted::new(8, 260, false);
    let (once, _) = written_once();
    let table = tables(&once).pop().unwrap();
    let arena = once.names(|name| name.starts_with("arena-")).pop().unwrap();
    let bare = scripted.without_manifest();
    let damaged_table = once.with(&table, |bytes| bytes[40] ^= 1);
    let damaged_arena = once.with(&arena, |bytes| bytes[4096 + 200] ^= 1);
    let complete = |image: &Image| {
        let disk = image.disk(BOOT);
        repaired(&disk);
        contents(&open(&disk))
    };
    let without_another = damaged_table.without(&tables(&once)[0]);
    let lost = |image: Image| {
        let mut image = image;
        image.files.remove("CURRENT").unwrap();
        image
    };
    let manifest = scripted
        .image
        .names(|name| name.starts_with("MANIFEST"))
        .pop()
        .unwrap();
    let no_current = lost(scripted.image.clone());
    let all_of_it = lost(damaged_table.clone());
    let images = [
        (bare, vec![]),
        (damaged_table, vec![table.clone()]),
        (without_another, vec![table.clone()]),
        (damaged_arena, vec![arena]),
        (no_current, vec![manifest]),
        (all_of_it, vec![table]),
    ];
    for (image, damaged) in images {
        let expected = complete(&image);
        for kind in [CrashKind::Kill, CrashKind::PowerCut] {
            let mut steps = 0;
            for step in 0.. {
                let switch = CrashSwitch::new();
                let disk = image
                    .disk(BOOT)
                    .crash(CrashKind::Kill, step, switch.clone());
                switch.freeze_at(step);
                let done = repair(STORE.as_ref(), options(&disk), |_, _| {});
                let is_over = !switch.is_frozen();
                let disk = disk.crash(kind, step, CrashSwitch::new());
                let opened = Db::open(STORE, options(&disk)).and_then(|db| db.close());
                if is_over {
                    done.unwrap();
                    opened.unwrap();
                    steps = step;
                } else {
                    repaired(&disk);
                }
                println!("{kind:?} {step}");
                support::model::assert_same(&contents(&open(&disk)), &expected);
                let after = Image::of(&disk);
                let left = after.names(|name| name.ends_with(".new"));
                assert!(left.is_empty(), "{left:?}");
                let is_kept = |file: &String| {
                    let kept = after.names(|name| name.starts_with(&format!("{file}.damaged")));
                    kept.iter()
                        .any(|name| after.files[name] == image.files[file])
                };
                // After a power cut a damaged frame is a torn tail, and no damage.
                let is_told =
                    |file: &&String| kind == CrashKind::Kill || !file.starts_with("arena-");
                assert!(
                    damaged.iter().filter(is_told).all(is_kept),
                    "{kind:?} {step}"
                );
                if is_over {
                    break;
                }
            }
            assert!(steps > 5, "{steps}");
        }
    }
}

/// Every file operation fails once; the next repair succeeds.
#[test]
fn a_repair_that_failed_is_run_again() {
    let scripted = Scripted::new(8, 260, false);
    let bare = scripted.without_manifest();
    let (once, _) = written_once();
    let table = tables(&once).pop().unwrap();
    let damaged_table = once.with(&table, |bytes| bytes[40] ^= 1);
    let arena = once.names(|name| name.starts_with("arena-")).pop().unwrap();
    let damaged_arena = once.with(&arena, |bytes| bytes[4096 + 200] ^= 1);
    for image in [bare, damaged_table, damaged_arena] {
        let whole = image.disk(BOOT);
        repaired(&whole);
        let expected = contents(&open(&whole));
        let mut failures = 0;
        for fault in [Fault::Io, Fault::NoSpace] {
            for at in 0.. {
                let disk = image.disk(BOOT);
                let plan = FaultPlan::new(FaultFilter::everything());
                let failing = FailingStorage::new(Arc::new(disk.clone()), plan.clone());
                plan.fail_at(at, fault);
                let options = Options {
                    storage: Arc::new(failing),
                    ..options(&disk)
                };
                let done = repair(STORE.as_ref(), options, |_, _| {});
                if plan.failures() == 0 {
                    done.unwrap();
                    break;
                }
                failures += usize::from(done.is_err());
                repaired(&disk);
                println!("{fault:?} {at} {done:?}");
                support::model::assert_same(&contents(&open(&disk)), &expected);
            }
        }
        assert!(failures > 20, "{failures}");
    }
}

#[test]
fn whatever_is_damaged_a_repair_gives_a_store_or_an_error() {
    let rounds = support::scale("TERRACE_REPAIR_ROUNDS", 300);
    let scripted: Vec<_> = (20..24)
        .map(|seed| Scripted::new(seed, 200, true))
        .collect();
    let (mut stores, mut errors) = (0, 0);
    for round in 0..rounds {
        let mut random = SmallRng::seed_from_u64(round);
        let scripted = &scripted[round as usize % scripted.len()];
        let mut image = scripted.image.clone();
        for _ in 0..random.random_range(1..6) {
            damage(&mut image, &mut random);
        }
        let holds_writes = |name: &str| name.ends_with(".table") || name.starts_with("arena-");
        let changed = scripted.image.names(|name| {
            holds_writes(name) && image.files.get(name) != scripted.image.files.get(name)
        });
        let disk = image.disk(BOOT);
        match repair(STORE.as_ref(), options(&disk), |_, _| {}) {
            Ok(_) => {
                let verified = inspect::verify(STORE.as_ref(), options(&disk), |_, _| {}).unwrap();
                assert!(
                    verified.problems.is_empty(),
                    "{round}: {:?}",
                    verified.problems
                );
                if changed.is_empty() {
                    scripted.check(&open(&disk), true);
                }
                for (keyspace, content) in contents(&open(&disk)) {
                    for (key, value) in content {
                        let values = scripted.ever.get(&(keyspace, key.clone()));
                        assert!(
                            values.is_some_and(|values| values.contains(&value)),
                            "{key:?}"
                        );
                    }
                }
                stores += 1;
            }
            Err(
                error @ (Error::Unsupported { .. }
                | Error::NoStore { .. }
                | Error::RegionLost { .. }),
            ) => {
                assert!(!error.to_string().is_empty());
                errors += 1;
            }
            Err(error) => panic!("{round}: {error}"),
        }
    }
    assert!(stores > errors, "{stores} stores, {errors} errors");
}

fn damage(image: &mut Image, random: &mut SmallRng) {
    let names: Vec<String> = image.files.keys().cloned().collect();
    let Some(name) = names.get(random.random_range(0..names.len().max(1))) else {
        return;
    };
    let bytes = image.files.get_mut(name).unwrap();
    let at = random.random_range(0..bytes.len().max(1));
    match random.random_range(0..6) {
        0 => {
            image.files.remove(name);
        }
        1 => bytes.truncate(at),
        2 => {
            let end = (at + 600).min(bytes.len());
            bytes[at..end].fill(0);
        }
        3 => bytes.extend([0xa5; 100]),
        _ if bytes.is_empty() => {}
        _ => {
            let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
            bytes[at % used.max(1)] ^= 1 << random.random_range(0..8);
        }
    }
}

#[test]
fn arenas_in_a_region_directory_are_found() {
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
        let options = Options {
            region_dir: Some("/fast".into()),
            ..options(&disk)
        };
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
        let options = Options {
            region_dir: Some(region.into()),
            ..options(&disk)
        };
        let db = Db::open(store, options.clone()).unwrap();
        db.put(b"key", b"value").unwrap();
        drop(db);
        options
    };
    with_region("/other", "/fast");
    with_region(STORE, "/own");
    disk.remove(Path::new("/fast/REGION")).unwrap();
    let wrong = Options {
        region_dir: Some("/fast".into()),
        ..options(&disk)
    };
    let refused = repair(STORE.as_ref(), wrong, |_, _| {});
    assert!(
        matches!(refused, Err(Error::Corruption { .. })),
        "{refused:?}"
    );
}

#[test]
fn what_is_no_store_or_in_use_or_newer_is_refused_and_left_alone() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let refused = |disk: &SimulatedStorage| repair(STORE.as_ref(), options(disk), |_, _| {});
    assert!(matches!(refused(&disk), Err(Error::NoStore { .. })));
    disk.create_directory(Path::new(STORE)).unwrap();
    assert!(matches!(refused(&disk), Err(Error::NoStore { .. })));
    assert!(disk.list(Path::new(STORE)).unwrap().is_empty());
    let db = Db::open(STORE, options(&disk)).unwrap();
    assert!(matches!(refused(&disk), Err(Error::Busy { .. })));
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let image = Image::of(&disk);
    let table = tables(&image).pop().unwrap();
    // The version in the header of a table.
    let newer = image.with(&table, |bytes| bytes[8] = 200);
    let disk = newer.disk(BOOT);
    assert!(matches!(refused(&disk), Err(Error::Unsupported { .. })));
    assert_eq!(Image::of(&disk), newer);
}

/// No arena holds anything, and no other table tells the seed of the hashes or a higher number.
#[test]
fn the_only_table_is_read_although_a_block_is_damaged() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    for number in 0..60u8 {
        db.put(&[number], &[number; 40]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let mut image = Image::of(&disk);
    image.files.retain(|name, _| name.ends_with(".table"));
    let [table] = &tables(&image)[..] else {
        panic!("{:?}", tables(&image))
    };
    let dump = inspect::dump(&disk, &Path::new(STORE).join(table)).unwrap();
    let filter = dump
        .items
        .iter()
        .find(|item| item.kind == "filter")
        .unwrap();
    // In a data block, and in the filter, which is not needed.
    for (offset, least) in [(40, 54), (filter.offset as usize + 4, 60)] {
        let disk = image.with(table, |bytes| bytes[offset] ^= 1).disk(BOOT);
        let report = repaired(&disk);
        assert!(
            report.damaged[0].entries_kept >= least,
            "{offset}: {report:?}"
        );
        let db = open(&disk);
        let found = of_default(&db);
        assert!(found.len() >= least as usize);
        // A new write is newer than what was read.
        for key in found.keys() {
            db.put(key, b"new").unwrap();
        }
        assert!(of_default(&db).values().all(|value| value == b"new"));
    }
}

/// The edit of a merge is lost: its inputs are gone, its outputs are not listed.
#[test]
fn a_merge_that_the_manifest_does_not_know_is_found() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    for round in 0..3u8 {
        for number in 0..60u8 {
            db.put(&[number], &[round; 40]).unwrap();
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
            (from..60).for_each(|number| db.put(&[number], &[value; 40]).unwrap());
            db.flush().unwrap();
        };
        write(0, 1);
        let mut load = db.ingest().unwrap();
        (0..60u8).for_each(|number| load.put(&[number], &[2; 40]).unwrap());
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
    let moved = Options {
        region_dir: Some("/fast".into()),
        ..options(&disk)
    };
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
