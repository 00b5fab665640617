//! The end of the manifest: damage, the remains of a power cut, and which tables are
//! kept although no edit lists them.

#[path = "../image/mod.rs"]
mod image;
#[path = "../support/mod.rs"]
mod support;
mod unlisted;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use image::{Image, STORE};
use support::machine::{Machine, Method};
use support::script::tiny;
use terrace::{Background, Db, Durability, Error, KeyspaceOptions, Options};
use terrace_storage::{CrashKind, CrashSwitch, SimulatedStorage};
use terrace_tools::inspect;
use terrace_tools::repair::{ManifestRepair, RepairReport, repair};

const BOOT: u64 = 1;
/// Bytes of the mark behind each edit.
const MARK_BYTES: usize = 32;

fn options(disk: &SimulatedStorage) -> Options {
    tiny(Options {
        storage: Arc::new(disk.clone()),
        durability: Some(Durability::PowerSafe),
        background: Background::Inline,
        ..Options::default()
    })
}

fn open(disk: &SimulatedStorage) -> terrace::Result<Db> {
    let options = Options {
        create_if_missing: false,
        ..options(disk)
    };
    Db::open(STORE, options)
}

fn repaired(disk: &SimulatedStorage, take_unlisted: bool) -> RepairReport {
    let options = Options {
        take_unlisted,
        ..options(disk)
    };
    let report = repair(STORE.as_ref(), options, |_, _| {}).unwrap();
    assert!(verified(disk).problems.is_empty());
    report
}

fn verified(disk: &SimulatedStorage) -> inspect::VerifyReport {
    inspect::verify(STORE.as_ref(), options(disk), |_, _| {}).unwrap()
}

fn row(number: u8) -> [u8; 2] {
    [b'k', b'0' + number]
}

/// Returns the values of the five rows in a keyspace.
fn rows(db: &Db, keyspace: &str) -> Vec<Option<Vec<u8>>> {
    let keyspace = db.keyspace(keyspace).unwrap();
    let get = |number| keyspace.get(row(number)).unwrap();
    (0..5).map(|n| get(n).map(|value| value.to_vec())).collect()
}

fn all_are(value: &[u8]) -> Vec<Option<Vec<u8>>> {
    vec![Some(value.to_vec()); 5]
}

/// Returns the name of the manifest, and the place of its last edit.
fn last_edit(image: &Image) -> (String, Range<usize>) {
    let name = image.names(|name| name.starts_with("MANIFEST-")).remove(0);
    let bytes = &image.files[&name];
    let (mut next, mut last) = (32, 32..32);
    while let Some(length) = bytes.get(next + 8..next + 12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let end = next + 16 + length.next_multiple_of(8);
        last = next..end;
        next = end + MARK_BYTES;
    }
    (name, last)
}

/// Returns the store with one bit of its last edit flipped. `is_marked` leaves the mark there.
fn flipped(image: &Image, is_marked: bool) -> Image {
    let (name, edit) = last_edit(image);
    image.with(&name, |bytes| {
        bytes[edit.start + 18] ^= 1;
        if !is_marked {
            bytes.truncate(edit.end);
        }
    })
}

/// Returns the store with half an edit behind its last one.
fn torn(image: &Image) -> Image {
    let (name, edit) = last_edit(image);
    image.with(&name, |bytes| {
        bytes.extend_from_within(edit.start..edit.end - 8)
    })
}

fn assert_last_edit(image: &Image, says: &str) {
    let disk = image.disk(BOOT);
    let manifest = Path::new(STORE).join(last_edit(image).0);
    let dump = inspect::dump(&disk, &manifest).unwrap();
    let mut edits = dump.items.iter().filter(|item| item.kind == "edit");
    let text = &edits.next_back().unwrap().text;
    assert!(text.contains(says), "{text}");
}

/// Returns a killed store whose last edit made the keyspace "precious"; its rows are persisted.
fn with_keyspace(has_rows: bool) -> Image {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put(b"one", b"1").unwrap();
    let precious = db
        .create_keyspace("precious", KeyspaceOptions::default())
        .unwrap();
    if has_rows {
        (0..5).for_each(|number| precious.put(row(number), b"value").unwrap());
    }
    db.persist().unwrap();
    let image = Image::of(&disk);
    assert_last_edit(&image, "create keyspace 2");
    image
}

/// Returns a killed store whose last edit installed a bulk load of the rows.
fn with_load() -> Image {
    with_load_and(|_| ())
}

/// Returns the same, after more writes.
fn with_load_and(write: impl FnOnce(&Db)) -> Image {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put(b"one", b"1").unwrap();
    db.flush().unwrap();
    let mut load = db.ingest().unwrap();
    (0..5).for_each(|number| load.put(row(number), b"value").unwrap());
    load.finish().unwrap();
    write(&db);
    let image = Image::of(&disk);
    assert_last_edit(&image, "add table");
    image
}

fn is_refused(image: &Image) -> SimulatedStorage {
    let disk = image.disk(BOOT);
    assert!(matches!(open(&disk), Err(Error::Corruption { .. })));
    assert!(!verified(&disk).problems.is_empty());
    assert_eq!(
        Image::of(&disk),
        *image,
        "a refused opening changes nothing"
    );
    disk
}

#[test]
fn a_damaged_last_edit_with_its_mark_is_corruption_whatever_edit_it_is() {
    for (image, keyspace) in [
        (with_keyspace(true), "recovered-2"),
        (with_load(), "default"),
    ] {
        let disk = is_refused(&flipped(&image, true));
        let report = repaired(&disk, false);
        assert!(matches!(report.manifest, ManifestRepair::Rebuilt(_)));
        let db = open(&disk).unwrap();
        assert_eq!(rows(&db, keyspace), all_are(b"value"));
        assert_eq!(db.get(b"one").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_frame_of_a_keyspace_never_issued_proves_that_an_edit_is_missing() {
    let disk = is_refused(&flipped(&with_keyspace(true), false));
    let report = repaired(&disk, false);
    assert!(matches!(report.manifest, ManifestRepair::Rebuilt(_)));
    assert_eq!(
        rows(&open(&disk).unwrap(), "recovered-2"),
        all_are(b"value")
    );
    // Without a frame nothing proves it, and the end is dropped and reported.
    let disk = flipped(&with_keyspace(false), false).disk(BOOT);
    let tail = verified(&disk).recovery.manifest_tail.unwrap();
    assert!(tail.to_string().contains("could not be read"), "{tail}");
    let db = open(&disk).unwrap();
    assert!(db.keyspace("precious").is_err());
    assert_eq!(db.statistics().recovery.manifest_tail, Some(tail));
}

#[test]
fn a_table_that_a_dropped_end_may_have_listed_is_kept_and_taken_in_again() {
    let image = flipped(&with_load(), false);
    let disk = image.disk(BOOT);
    let found = verified(&disk).recovery;
    let [name] = found.unlisted_tables.as_slice() else {
        panic!("{found:?}");
    };
    let kept = format!("{name}.unlisted");
    let report = repaired(&disk, false);
    assert!(!report.is_changed() && report.manifest_tail.is_some());
    assert_eq!(report.unlisted_tables, std::slice::from_ref(name));
    assert_eq!(Image::of(&disk), image);

    let db = open(&disk).unwrap();
    assert_eq!(
        db.statistics().recovery.unlisted_tables,
        std::slice::from_ref(&kept)
    );
    assert_eq!(rows(&db, "default"), vec![None; 5]);
    // Later writes are newer than the table's entries.
    db.put(row(3), b"newer").unwrap();
    db.close().unwrap();
    let db = open(&disk).unwrap();
    db.put(row(4), b"newer").unwrap();
    db.close().unwrap();
    let found = verified(&disk).recovery;
    assert_eq!(
        (found.manifest_tail, found.unlisted_tables),
        (None, vec![kept.clone()])
    );
    assert_eq!(Image::of(&disk).files[&kept], image.files[name]);

    let report = repaired(&disk, true);
    assert!(matches!(report.manifest, ManifestRepair::Extended));
    assert_eq!(report.tables_taken, [kept]);
    let db = open(&disk).unwrap();
    let mut expected = all_are(b"value");
    expected[3..].fill(Some(b"newer".to_vec()));
    assert_eq!(rows(&db, "default"), expected);
    assert_eq!(db.get(b"one").unwrap().as_deref(), Some(&b"1"[..]));
    db.close().unwrap();
    let before = Image::of(&disk);
    assert!(!repaired(&disk, true).is_changed());
    assert_eq!(Image::of(&disk), before);
    assert!(before.files.contains_key(&format!("{name}.taken")));
}

#[test]
fn a_table_is_taken_in_before_any_opening_too() {
    let disk = flipped(&with_load(), false).disk(BOOT);
    let report = repaired(&disk, true);
    assert_eq!(report.tables_taken.len(), 1);
    assert_eq!(rows(&open(&disk).unwrap(), "default"), all_are(b"value"));
}

/// Where something else is damaged as well, the dropped end explains it.
#[test]
fn a_repair_takes_all_tables_where_the_dropped_end_explains_the_damage() {
    let image = with_load();
    let listed = image.names(|name| name.ends_with(".table")).remove(0);
    let last = image.files[&listed].len() - 1;
    let damaged = flipped(&image, false).with(&listed, |bytes| bytes[last] ^= 1);
    // The frames written after the load do not follow those before it.
    let written = with_load_and(|db| {
        db.put(b"after", b"2").unwrap();
        db.persist().unwrap();
    });
    for (image, key) in [(damaged, &b"k0"[..]), (flipped(&written, false), b"after")] {
        let disk = image.disk(BOOT);
        let report = repaired(&disk, false);
        let ManifestRepair::Rebuilt(why) = report.manifest else {
            panic!("{report:?}");
        };
        assert!(why.to_string().contains("its end"), "{why}");
        let db = open(&disk).unwrap();
        assert_eq!(rows(&db, "default"), all_are(b"value"));
        assert!(db.get(key).unwrap().is_some());
    }
}

#[test]
fn an_unlisted_table_whose_writes_an_arena_has_is_removed() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    (0..5).for_each(|number| db.put(row(number), b"value").unwrap());
    let mut before = Image::of(&disk);
    db.flush().unwrap();
    let after = Image::of(&disk);
    drop(db);
    let table = after.names(|name| name.ends_with(".table")).remove(0);
    before
        .files
        .insert(table.clone(), after.files[&table].clone());
    let disk = torn(&before).disk(BOOT);
    let db = open(&disk).unwrap();
    let found = db.statistics().recovery;
    assert!(found.manifest_tail.unwrap().is_incomplete);
    assert_eq!(found.unlisted_tables, [""; 0]);
    assert_eq!(rows(&db, "default"), all_are(b"value"));
    drop(db);
    assert!(
        Image::of(&disk)
            .names(|name| name.contains("unlisted"))
            .is_empty()
    );
}

#[test]
fn without_a_dropped_end_orphans_are_removed() {
    let image = with_load();
    let table = image.names(|name| name.ends_with(".table")).pop().unwrap();
    let orphan = "900.table".to_owned();
    // The manifest of before the load, and a table that it does not list.
    let mut orphaned = image.clone();
    let (name, edit) = last_edit(&image);
    orphaned.files.insert(orphan, image.files[&table].clone());
    orphaned.files.remove(&table);
    let disk = orphaned
        .with(&name, |bytes| bytes.truncate(edit.start))
        .disk(BOOT);
    let db = open(&disk).unwrap();
    assert_eq!(db.statistics().recovery.unlisted_tables, [""; 0]);
    drop(db);
    assert!(!Image::of(&disk).files.contains_key("900.table"));
}

type Work = fn(&Db) -> terrace::Result<()>;

/// Returns the calls that write a table and then an edit.
fn works() -> [(&'static str, Work); 3] {
    [
        ("flush", |db| {
            (0..5).try_for_each(|number| db.put(row(number), b"value"))?;
            db.flush()
        }),
        ("merge", |db| db.compact_range(..)),
        ("load", |db| {
            let mut load = db.ingest()?;
            (0..5).try_for_each(|number| load.put(row(number), b"value"))?;
            load.finish()
        }),
    ]
}

/// Each power cut between a table's sync and the manifest's leaves a whole table that no edit lists.
#[test]
fn a_power_cut_between_the_syncs_of_table_and_manifest_never_keeps_a_store_from_opening() {
    let base = Machine::new(Method::Written, 1);
    let db = Db::open(STORE, base.options()).unwrap();
    for round in 0..3u8 {
        (0..60).for_each(|number| db.put([number], [round; 40]).unwrap());
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let listed = |machine: &Machine| {
        let db = Db::open(
            STORE,
            Options {
                read_only: true,
                ..machine.options()
            },
        );
        let levels = db.unwrap().levels();
        let keyspaces = levels.keyspaces.iter();
        let levels = keyspaces.flat_map(|keyspace| keyspace.levels.iter().flatten());
        levels.map(|level| level.tables.len()).sum::<usize>()
    };
    let files = |machine: &Machine| {
        let image = Image::of(&machine.storage);
        image.names(|name| name.ends_with(".table")).len()
    };
    let (mut cuts, mut torn, mut seed) = (0, 0, 0);
    while cuts < 1_000 {
        for (name, work) in works() {
            let run =
                |machine: &Machine| Db::open(STORE, machine.options()).and_then(|db| work(&db));
            let whole = base.copy(0);
            run(&whole).unwrap();
            for step in 0..whole.steps() {
                seed += 1;
                let machine = base.copy(seed);
                machine.freeze_at(step);
                let _ = run(&machine);
                let killed = machine.crash(CrashKind::Kill, seed);
                if files(&killed) <= listed(&killed) {
                    continue;
                }
                cuts += 1;
                let machine = machine.crash(CrashKind::PowerCut, seed);
                let opened = Db::open(STORE, machine.options());
                let db = opened.unwrap_or_else(|error| panic!("{name} at {step}: {error}"));
                torn += usize::from(db.statistics().recovery.manifest_tail.is_some());
                for number in 5..60 {
                    let value = db.get([number]).unwrap();
                    assert_eq!(value.as_deref(), Some(&[2; 40][..]), "{name} at {step}");
                }
            }
        }
    }
    assert!(torn > 0, "no power cut left a part of an edit");
}
