//! A flush takes the tiny tables of level 0 along: a store that is opened for one write again and
//! again has few tables, none of them written too often, and loses nothing by it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{Background, Db, Durability, IterOptions, KeyspaceOptions, Options, Purpose};
use terrace_storage::{CrashKind, CrashSwitch, SimulatedStorage, Storage};

fn tables(db: &Db) -> usize {
    let keyspaces = db.levels().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let sub_levels = levels.flat_map(|level| level.iter());
    sub_levels.map(|sub_level| sub_level.tables.len()).sum()
}

/// Returns options without threads, so that no merge has a part in the results.
fn options() -> Options {
    Options {
        background: Background::Inline,
        level0_merge: 1000,
        level0_slowdown: 2000,
        ..Options::default()
    }
}

#[test]
fn forty_openings_leave_at_most_four_tables() {
    let directory = tempfile::tempdir().unwrap();
    for opening in 0..40_u32 {
        let db = Db::open(directory.path(), options()).unwrap();
        db.put(opening.to_be_bytes(), b"value").unwrap();
        let other = db
            .keyspace("other")
            .or_else(|_| db.create_keyspace("other", KeyspaceOptions::default()));
        other.unwrap().put(opening.to_be_bytes(), b"value").unwrap();
        db.close().unwrap();
    }
    let db = Db::open(directory.path(), options()).unwrap();
    assert!(tables(&db) <= 4, "{}", tables(&db));
    for opening in 0..40_u32 {
        assert!(db.get(opening.to_be_bytes()).unwrap().is_some());
    }
}

/// A flush writes old tables once more only while they have at most a MiB.
#[test]
fn an_opening_writes_little_of_what_it_did_not_recover() {
    const VALUE_BYTES: usize = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let mut most = 0;
    for opening in 0..60_u64 {
        let db = Db::open(directory.path(), options()).unwrap();
        let written = db.statistics().io.of(Purpose::Flush).written_bytes;
        most = most.max(written);
        assert!(
            written <= (1 << 20) + VALUE_BYTES as u64 + 20_000,
            "{opening}: {written}"
        );
        db.put(opening.to_be_bytes(), vec![opening as u8; VALUE_BYTES])
            .unwrap();
        db.close().unwrap();
    }
    assert!(most > 1 << 19, "tables of some size go along, too: {most}");
    let db = Db::open(directory.path(), options()).unwrap();
    assert!((3..=8).contains(&tables(&db)), "{} of 6 MB", tables(&db));
}

/// The rules of any merge hold: versions that a snapshot sees stay, ranges hide older rows, and
/// nothing is left of deleted rows.
#[test]
fn snapshots_deletes_and_ranges_pass_through_tables_that_go_along() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        // No merge begins for tombstones.
        tombstone_percent: 0,
        ..options()
    };
    let db = Db::open(directory.path(), options).unwrap();
    let flushed = |number: u32| {
        db.put(number.to_be_bytes(), b"old").unwrap();
        db.flush().unwrap();
    };
    (0..8).for_each(flushed);
    assert_eq!(tables(&db), 1);
    let snapshot = db.snapshot();
    db.put(1_u32.to_be_bytes(), b"new").unwrap();
    db.delete(2_u32.to_be_bytes()).unwrap();
    db.flush().unwrap();
    db.delete_range(4_u32.to_be_bytes(), 6_u32.to_be_bytes())
        .unwrap();
    db.flush().unwrap();
    db.put(5_u32.to_be_bytes(), b"again").unwrap();
    db.flush().unwrap();
    assert_eq!(tables(&db), 1);
    let seen = |number: u32| {
        db.get(number.to_be_bytes())
            .unwrap()
            .map(|value| value.to_vec())
    };
    let before = |number: u32| {
        let found = db.get_at(&snapshot, number.to_be_bytes()).unwrap();
        found.map(|value| value.to_vec())
    };
    for number in 0..8 {
        assert_eq!(before(number).as_deref(), Some(&b"old"[..]), "{number}");
        let now: Option<&[u8]> = match number {
            1 => Some(b"new"),
            5 => Some(b"again"),
            2 | 4 => None,
            _ => Some(b"old"),
        };
        assert_eq!(seen(number).as_deref(), now, "{number}");
    }
    drop(snapshot);
    for number in 0..8_u32 {
        db.delete(number.to_be_bytes()).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(tables(&db), 0, "nothing older lies below");
    flushed(1);
    db.delete_range(b"", [0xff; 5]).unwrap();
    db.flush().unwrap();
    assert_eq!(tables(&db), 0, "a range hides all");
    assert!(db.first().unwrap().is_none());
}

/// A flush does not depend on tables that it only takes along.
#[test]
fn a_damaged_tiny_table_stays_and_the_flush_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    db.put(b"a", [1; 500]).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let files = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|file| file.unwrap().path());
    let table = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "table"));
    let table = table.unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    // In the data block.
    bytes[100] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    db.put(b"b", b"value").unwrap();
    db.flush().unwrap();
    assert_eq!(tables(&db), 2);
    assert!(db.get(b"b").unwrap().is_some());
    assert!(db.get(b"a").is_err());
}

fn disk_options(disk: &SimulatedStorage) -> Options {
    Options {
        storage: Arc::new(disk.clone()),
        durability: Some(Durability::PowerSafe),
        level0_merge: 3,
        constants: terrace::Constants {
            manifest_bytes: 2 << 10,
            ..terrace::Constants::default()
        },
        ..options()
    }
}

/// The acknowledged state: the value of each key, none if it was deleted last. The write under way is
/// `unsure`.
struct Expected {
    rows: BTreeMap<u8, Option<u32>>,
    unsure: Option<(u8, Option<u32>)>,
}

/// Writes, flushes and opens again until the disk dies or `steps` are done.
fn live(disk: &SimulatedStorage, expected: &mut Expected, seed: u32, steps: u32) -> bool {
    let mut number = seed;
    let mut random = move || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        number >> 8
    };
    for _ in 0..steps {
        let Ok(db) = Db::open(Path::new("/store"), disk_options(disk)) else {
            return false;
        };
        for key in 0..16 {
            let found = db.get([key]).unwrap();
            let found = found.map(|value| u32::from_be_bytes(value[..4].try_into().unwrap()));
            let sure = expected.rows.get(&key).copied().flatten();
            let unsure = expected.unsure.filter(|(unsure, _)| *unsure == key);
            let is_unsure = unsure.is_some_and(|(_, value)| found == value);
            assert!(
                found == sure || is_unsure,
                "key {key}: {found:?} for {sure:?}, {unsure:?}"
            );
            expected.rows.insert(key, found);
        }
        expected.unsure = None;
        let entries = db.iter(IterOptions::default()).unwrap().entries();
        let count = entries.map(Result::unwrap).count();
        assert_eq!(count, expected.rows.values().flatten().count());
        for _ in 0..3 {
            let (key, value) = ((random() % 16) as u8, random());
            let value = (value % 4 > 0).then_some(value);
            let written = match value {
                Some(value) => db.put([key], [&value.to_be_bytes()[..], &[0; 300]].concat()),
                None => db.delete([key]),
            };
            if written.is_err() {
                expected.unsure = Some((key, value));
                return false;
            }
            expected.rows.insert(key, value);
            if random() % 2 == 0 && db.flush().is_err() {
                return false;
            }
        }
        if random() % 2 == 0 && db.close().is_err() {
            return false;
        }
    }
    true
}

#[test]
fn crashes_while_tables_go_along_lose_nothing() {
    const IMAGES: u64 = 150;
    let begun = || Expected {
        rows: BTreeMap::new(),
        unsure: None,
    };
    let total = {
        let switch = CrashSwitch::new();
        let disk = SimulatedStorage::new(1, switch.clone());
        disk.create_directory(Path::new("/store")).unwrap();
        assert!(live(&disk, &mut begun(), 7, 6));
        switch.count()
    };
    for image in 0..IMAGES {
        let kind = [CrashKind::PowerCut, CrashKind::Kill][image as usize % 2];
        let switch = CrashSwitch::new();
        let disk = SimulatedStorage::new(image, switch.clone());
        disk.create_directory(Path::new("/store")).unwrap();
        switch.freeze_at(3 + image * total / IMAGES);
        let mut expected = begun();
        live(&disk, &mut expected, 7, 6);
        let disk = disk.crash(kind, image, CrashSwitch::new());
        assert!(live(&disk, &mut expected, image as u32, 3), "image {image}");
    }
}

/// The bytes that go along are bounded over all keyspaces of a flush.
#[test]
fn a_flush_of_many_keyspaces_writes_no_multiple_of_its_own_bytes() {
    const KEYSPACES: u32 = 64;
    const ROUNDS: u32 = 20;
    let base = options();
    let options = Options {
        arena_bytes: 4 << 20,
        default_keyspace: KeyspaceOptions {
            compression: vec![terrace::Compression::None],
            ..base.default_keyspace
        },
        ..base
    };
    let db = Db::open(
        "/store",
        Options {
            storage: Options::in_memory().storage,
            ..options
        },
    );
    let db = db.unwrap();
    let keyspaces: Vec<_> = (0..KEYSPACES)
        .map(|number| db.create_keyspace(&number.to_string(), KeyspaceOptions::default()))
        .collect::<terrace::Result<_>>()
        .unwrap();
    let mut user_bytes = 0;
    for round in 0..ROUNDS {
        for keyspace in &keyspaces {
            for row in 0..8_u32 {
                let key = [round.to_be_bytes(), row.to_be_bytes()].concat();
                keyspace.put(&key, [7; 1000]).unwrap();
                user_bytes += 1008;
            }
        }
        db.flush().unwrap();
    }
    let written = db.statistics().io.of(Purpose::Flush).written_bytes;
    // Its own bytes, half as much of old tables, and the indexes and sketches of small tables.
    assert!(written < 3 * user_bytes, "{written} for {user_bytes}");
    for keyspace in &keyspaces {
        let rows = keyspace.iter(IterOptions::default()).unwrap().entries();
        assert_eq!(rows.map(Result::unwrap).count() as u32, 8 * ROUNDS);
    }
}
