//! An owner's calls now and then: persist at an interval, compact a range, ask for sizes, look at
//! the store without touching it.

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use support::script::tiny;
use terrace::{Background, Db, Error, IterOptions, KeyspaceOptions, Options, SubLevelReport};
use terrace_storage::{Purpose, RealStorage};
use terrace_tools::inspect;

fn fill(db: &Db, rows: u32, byte: u8) {
    for row in 0..rows {
        db.put(row.to_be_bytes(), [byte; 100]).unwrap();
    }
}

#[test]
fn persist_every_persists_without_being_asked() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        persist_every: Some(Duration::from_millis(2)),
        ..Options::default()
    };
    let db = Db::open(directory.path().join("store"), options.clone()).unwrap();
    db.put(b"key", b"value").unwrap();
    let last = db.statistics().sequences.visible;
    let is_behind = || db.statistics().sequences.persisted < last;
    let patience = (0..2000).take_while(|_| is_behind());
    patience.for_each(|_| std::thread::sleep(Duration::from_millis(5)));
    assert!(!is_behind());
    db.close().unwrap();

    let inline = Options {
        background: Background::Inline,
        ..options.clone()
    };
    let refused = Db::open(directory.path().join("store"), inline).unwrap_err();
    assert!(refused.to_string().contains("persist_every"), "{refused}");
    let memory = tempfile::tempdir_in("/dev/shm");
    if let Ok(memory) = memory {
        let refused = Db::open(memory.path().join("store"), options).unwrap_err();
        assert!(refused.to_string().contains("persist_every"), "{refused}");
    }
}

#[test]
fn compacting_a_range_leaves_one_version_of_each_key_and_the_rest_alone() {
    let options = tiny(Options {
        background: Background::Inline,
        default_keyspace: KeyspaceOptions {
            level1_bytes: 1 << 30,
            ..Options::in_memory().default_keyspace
        },
        ..Options::in_memory()
    });
    let db = Db::open("/store", options).unwrap();
    for byte in 0..3 {
        fill(&db, 300, byte);
    }
    for row in 0..150u32 {
        db.delete(row.to_be_bytes()).unwrap();
    }
    let deleted = &0u32.to_be_bytes()[..]..&150u32.to_be_bytes()[..];
    db.compact_range(deleted.clone()).unwrap();
    assert_eq!(db.approximate_bytes(deleted).unwrap(), 0);
    db.compact_range(..).unwrap();
    let levels = db.levels();
    let tables = levels.keyspaces[0].levels.iter().flatten();
    let entries: u64 = tables
        .flat_map(|sub_level| &sub_level.tables)
        .map(|table| table.entries)
        .sum();
    assert_eq!(entries, 150);
    let merges = db.statistics().merges;
    db.compact_range(..).unwrap();
    assert_eq!(db.statistics().merges, merges, "nothing to be gained");
    assert_eq!(
        db.iter(IterOptions::default()).unwrap().entries().count(),
        150
    );
}

/// A get that finds its record in the lowest level has asked all others in vain.
#[test]
fn tables_above_the_lowest_level_have_the_better_filters() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let options = tiny(Options {
        background: Background::Inline,
        ..Options::default()
    });
    let options = Options {
        default_keyspace: KeyspaceOptions {
            table_bytes: 32 << 10,
            level1_bytes: 64 << 10,
            ..options.default_keyspace
        },
        level0_merge: 4,
        ..options
    };
    let db = Db::open(&store, options).unwrap();
    // In no order, so that no table is moved down as it is.
    let mut keys = (0..9000u32).map(|row| row.wrapping_mul(0x9e37_79b1).to_be_bytes());
    let mut put = |rows| {
        let keys = keys.by_ref().take(rows);
        keys.for_each(|key| db.put(key, [1; 100]).unwrap());
        db.flush().unwrap();
    };
    put(5000);
    while db.levels().keyspaces[0].levels[0].is_empty() {
        put(1);
    }
    let levels = &db.levels().keyspaces[0].levels;
    let deepest = levels.iter().rposition(|level| !level.is_empty()).unwrap();
    assert!(deepest > 1);
    let bits_of = |levels: &[Vec<SubLevelReport>]| {
        let sub_levels = levels.iter().flatten();
        let (mut bytes, mut entries) = (0, 0);
        for table in sub_levels.flat_map(|sub_level| &sub_level.tables) {
            let path = store.join(format!("{}.table", table.number));
            let dump = inspect::dump(&RealStorage, &path).unwrap();
            let filter = dump.items.iter().find(|item| item.kind == "filter");
            bytes += filter.unwrap().length_bytes;
            entries += table.entries;
        }
        bytes as f64 * 8.0 / entries as f64
    };
    let (above, lowest) = levels.split_at(deepest);
    assert!(bits_of(above) > bits_of(lowest) + 2.0);
    assert!(bits_of(&above[..1]) > bits_of(&above[1..]));
    // Of tables of 300 entries a bit for each is the block's frame, and levels that are half as large as
    // the next leave more to chance: tests/absent_keys.rs has usual ones.
    assert!(
        (9.0..12.5).contains(&bits_of(levels)),
        "{}",
        bits_of(levels)
    );
}

/// Ranges are compacted beside writers and merges of the store's own.
#[test]
fn ranges_are_compacted_under_load() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2u8 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..4 {
                    for row in 0..400u32 {
                        let key = [&[thread][..], &row.to_be_bytes()].concat();
                        db.put(&key, [round; 100]).unwrap();
                    }
                }
            });
            scope.spawn(move || {
                for round in 0..12u32 {
                    let from = [&[thread][..], &(round * 30).to_be_bytes()].concat();
                    db.compact_range(&from[..]..).unwrap();
                }
            });
        }
    });
    for entry in db.iter(IterOptions::default()).unwrap().entries() {
        assert_eq!(entry.unwrap().1, [3; 100]);
    }
    terrace::internal::check_ages(&db).unwrap();
    assert_eq!(db.statistics().step_failures, 0);
}

#[test]
fn sizes_of_ranges_add_up() {
    let db = Db::open("/store", Options::in_memory()).unwrap();
    fill(&db, 1000, 1);
    assert_eq!(db.approximate_bytes(..).unwrap(), 0, "not flushed yet");
    fill(&db, 20_000, 1);
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let whole = db.approximate_bytes(..).unwrap();
    let key = |row: u32| row.to_be_bytes();
    let (a, b) = (key(5_000), key(15_000));
    let parts = [
        db.approximate_bytes(..&a[..]).unwrap(),
        db.approximate_bytes(&a[..]..&b[..]).unwrap(),
        db.approximate_bytes(&b[..]..).unwrap(),
    ];
    let near = |part: u64, share: u64| part.abs_diff(whole * share / 4) < whole / 20;
    assert!(
        near(parts[0], 1) && near(parts[1], 2) && near(parts[2], 1),
        "{parts:?} of {whole}"
    );
    let one = db.approximate_bytes(&a[..]..=&a[..]).unwrap();
    assert!(one > 0 && one < whole / 100, "{one}");
}

#[test]
fn an_open_store_is_verified_where_it_stands() {
    use std::os::unix::fs::FileExt;
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let db = Db::open(&store, tiny(Options::default())).unwrap();
    fill(&db, 1000, 1);
    db.flush().unwrap();
    db.compact().unwrap();
    let report = db.verify(|_, _| ()).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.entries, 1000);
    // Damage below blocks that are in memory already.
    assert!(db.get(7u32.to_be_bytes()).unwrap().is_some());
    let levels = db.levels();
    let tables = levels.keyspaces[0].levels.iter().flatten();
    let damaged = tables
        .flat_map(|sub_level| &sub_level.tables)
        .next()
        .unwrap();
    let file = store.join(format!("{}.table", damaged.number));
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    // In the first block, behind the header of 16 bytes: it holds the smallest key, and is short if
    // its level is compressed.
    file.write_all_at(&[0x5a; 8], 20).unwrap();
    let report = db.verify(|_, _| ()).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    let key = &damaged.smallest;
    let verified = terrace::ReadOptions {
        verify: true,
        ..terrace::ReadOptions::default()
    };
    let found = db.get_with(key, &verified);
    assert!(matches!(found, Err(Error::Corruption { .. })), "{found:?}");
}

/// Of a store on a disk, with nothing in the page cache.
#[test]
fn many_keys_are_read_as_of_one_moment_wherever_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    fill(&db, 3000, 1);
    db.flush().unwrap();
    db.compact().unwrap();
    for file in std::fs::read_dir(directory.path().join("store")).unwrap() {
        // Obsolete ones are being removed.
        if let Ok(file) = std::fs::File::open(file.unwrap().path()) {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }
    fill(&db, 100, 2);
    db.delete(5u32.to_be_bytes()).unwrap();
    let keys: Vec<[u8; 4]> = (0..6000u32)
        .map(|row| (row * 7 % 6000).to_be_bytes())
        .collect();
    let values = db
        .multi_get(&keys, &terrace::ReadOptions::default())
        .unwrap();
    for (key, value) in keys.iter().zip(&values) {
        let expected = match u32::from_be_bytes(*key) {
            5 | 3000.. => None,
            row => Some(if row < 100 { 2 } else { 1 }),
        };
        assert_eq!(value.as_ref().map(|value| value[0]), expected);
    }
    let none: &[&[u8]] = &[];
    assert!(
        db.multi_get(none, &terrace::ReadOptions::default())
            .unwrap()
            .is_empty()
    );
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for byte in 3..40 {
                let mut batch = terrace::WriteBatch::new();
                for row in 0..100u32 {
                    batch.put(row.to_be_bytes(), [byte; 100]).unwrap();
                }
                db.write(batch, terrace::WriteOptions::default()).unwrap();
            }
        });
        while !writer.is_finished() {
            let keys: Vec<[u8; 4]> = (10..90u32).map(u32::to_be_bytes).collect();
            let values = db
                .multi_get(&keys, &terrace::ReadOptions::default())
                .unwrap();
            let bytes: Vec<u8> = values
                .iter()
                .map(|value| value.as_ref().unwrap()[0])
                .collect();
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
        }
    });
}

/// Returns every file with its times and contents.
fn image(directory: &Path) -> BTreeMap<String, (i64, i64, i64, i64, Vec<u8>)> {
    let files = std::fs::read_dir(directory).unwrap();
    let mut image: BTreeMap<_, _> = files
        .map(|file| {
            let file = file.unwrap();
            let metadata = file.metadata().unwrap();
            let times = (
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
                std::fs::read(file.path()).unwrap(),
            );
            (file.file_name().into_string().unwrap(), times)
        })
        .collect();
    let own = std::fs::metadata(directory).unwrap();
    let times = (
        own.mtime(),
        own.mtime_nsec(),
        own.ctime(),
        own.ctime_nsec(),
        Vec::new(),
    );
    image.insert(".".to_owned(), times);
    image
}

fn read_only(path: &Path, options: &Options) -> terrace::Result<Db> {
    let options = Options {
        read_only: true,
        ..options.clone()
    };
    Db::open(path, options)
}

/// Of a store that was closed, and of one whose process died with unflushed writes.
#[test]
fn reading_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = tiny(Options {
        background: Background::Inline,
        ..Options::default()
    });
    let (closed, crashed) = (
        directory.path().join("closed"),
        directory.path().join("crashed"),
    );
    let db = Db::open(&closed, options.clone()).unwrap();
    fill(&db, 700, 3);
    let is_owned = read_only(&closed, &options).unwrap_err();
    assert!(matches!(is_owned, Error::Busy { .. }), "{is_owned}");
    // A copy of a live store is the state after a crash, but for the lock.
    db.compact().unwrap();
    db.put(b"unflushed", b"value").unwrap();
    std::fs::create_dir(&crashed).unwrap();
    for file in std::fs::read_dir(&closed).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), crashed.join(file.file_name())).unwrap();
    }
    db.close().unwrap();

    for path in [&closed, &crashed] {
        let before = image(path);
        let one = read_only(path, &options).unwrap();
        let another = read_only(path, &options).unwrap();
        for db in [&one, &another] {
            assert_eq!(
                db.get(b"unflushed").unwrap().as_deref(),
                Some(&b"value"[..])
            );
            let rows = db.iter(IterOptions::default()).unwrap().entries();
            assert_eq!(rows.map(Result::unwrap).count(), 701);
            let refused = db.put(b"key", b"value").unwrap_err();
            assert!(refused.to_string().contains("read-only"), "{refused}");
            assert!(db.compact_range(..).is_err() && db.flush().is_err());
            assert!(db.checkpoint(directory.path().join("copy")).is_err());
            assert!(db.compare_and_set(b"key", None, Some(b"value")).is_err());
            assert!(db.drop_keyspace("default").is_err());
        }
        one.close().unwrap();
        drop(another);
        assert!(image(path) == before, "{} was touched", path.display());
    }
}

/// One row in `LARGE` or `SMALL` gets another version in level 0: more than a fourth of level 1, or
/// next to nothing.
const LARGE: u32 = 3;
const SMALL: u32 = 1000;

/// Gives one row in `one_in`, over all of them, another version.
fn overwrite(db: &Db, one_in: u32) {
    for row in (0..20_000u32).step_by(one_in as usize) {
        db.put(row.to_be_bytes(), [2; 100]).unwrap();
    }
    db.flush().unwrap();
}

/// Returns the value that a row then has.
fn newest(row: u32, one_in: u32) -> [u8; 100] {
    [if row.is_multiple_of(one_in) { 2 } else { 1 }; 100]
}

/// Returns a store with one sub-level in level 0, over some 2 MB in level 1.
fn store_with_level_0(path: &Path, options: Options, one_in: u32) -> Db {
    let base = tiny(options);
    let options = Options {
        background: Background::Inline,
        // A small sub-level stays one of its own: arenas of 1 MiB take no table of level 0 along.
        arena_bytes: if one_in == SMALL { 1 << 20 } else { 2 << 20 },
        level0_merge: 4,
        default_keyspace: KeyspaceOptions {
            level1_bytes: 1 << 30,
            ..base.default_keyspace
        },
        constants: terrace::Constants {
            pinned_bytes: Some(1 << 30),
            ..terrace::Constants::default()
        },
        ..base
    };
    let db = Db::open(path, options).unwrap();
    fill(&db, 20_000, 1);
    db.compact_range(..).unwrap();
    overwrite(&db, one_in);
    assert_eq!(level0(&db), 1);
    db
}

fn level0(db: &Db) -> usize {
    db.levels().keyspaces[0].levels[0].len()
}

fn scan(db: &Db, number: u32, one_in: u32) {
    let row = number % 100;
    let mut rows = db.iter(IterOptions::default()).unwrap();
    rows.seek(row.to_be_bytes()).unwrap();
    assert_eq!(rows.value(), newest(row, one_in));
    // Its steps are not probes.
    (0..10).for_each(|_| rows.next().unwrap());
}

/// Level 0 has fewer sub-levels than start a merge. Scans ask each of them; gets do not.
#[test]
fn scans_have_level_0_merged_when_they_have_paid_for_it_and_gets_do_not() {
    let db = store_with_level_0(Path::new("/store"), Options::in_memory(), LARGE);
    for row in 0..10_000u32 {
        assert!(db.get((row % 100).to_be_bytes()).unwrap().is_some());
    }
    assert_eq!(level0(&db), 1);
    for _ in 0..2 {
        let levels = db.levels();
        let tables = levels.keyspaces[0].levels.iter().flatten();
        let tables = tables.flat_map(|sub_level| &sub_level.tables);
        let merged_bytes: u64 = tables.map(|table| table.size_bytes).sum();
        assert!(merged_bytes > 2 << 20);
        // A probe is worth 4 KiB, and the sum paid is looked at with each 1 MiB.
        let wanted = merged_bytes.div_ceil(1 << 20) as u32 * 256;
        let scans = (1..5000).find(|number| {
            scan(&db, *number, LARGE);
            level0(&db) == 0
        });
        assert_eq!(scans, Some(wanted));
        // No scan probes an empty level 0. The sum paid before is spent.
        (0..5000).for_each(|number| scan(&db, number, LARGE));
        overwrite(&db, LARGE);
        assert_eq!(level0(&db), 1);
    }
}

/// Each probe of a small sub-level costs as much as one of a large one; but a merge of it would
/// rewrite all of level 1.
#[test]
fn scans_have_small_sub_levels_made_one_and_the_last_one_left() {
    let db = store_with_level_0(Path::new("/store"), Options::in_memory(), SMALL);
    let written = |db: &Db| db.statistics().io.of(Purpose::Compaction).written_bytes;
    let scans = |db: &Db| (0..5000).for_each(|number| scan(db, number, SMALL));
    let before_bytes = written(&db);
    for _ in 0..2 {
        // The sum that they pay for the one is put by for nothing else.
        scans(&db);
        assert_eq!(level0(&db), 1);
        overwrite(&db, SMALL);
        assert_eq!(level0(&db), 2);
        scans(&db);
        assert_eq!(level0(&db), 1);
    }
    assert!(written(&db) - before_bytes < 20_000);
}

/// A merge takes nothing from an iterator that stays with its first view.
#[test]
fn an_old_iterator_pays_for_no_merge() {
    let db = store_with_level_0(Path::new("/store"), Options::in_memory(), LARGE);
    let mut old = db.iter(IterOptions::default()).unwrap();
    old.seek_to_first().unwrap();
    fill(&db, 20, 3);
    db.flush().unwrap();
    assert_eq!(level0(&db), 2);
    for row in 0..10_000u32 {
        old.seek((row % 20).to_be_bytes()).unwrap();
        assert_eq!(old.value(), newest(row % 20, LARGE));
    }
    assert_eq!(level0(&db), 2);
}

#[test]
fn scans_of_a_store_opened_to_be_read_merge_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let options = Options::default();
    store_with_level_0(&path, options.clone(), LARGE)
        .close()
        .unwrap();
    let options = Options {
        background: Background::Inline,
        read_only: true,
        ..tiny(options)
    };
    let files = || {
        let entries = std::fs::read_dir(&path).unwrap();
        let mut files: Vec<(std::ffi::OsString, u64)> = entries
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().ino()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let db = Db::open(&path, options).unwrap();
    (0..5000).for_each(|number| scan(&db, number, LARGE));
    assert_eq!(level0(&db), 1);
    assert_eq!(db.statistics().step_failures, 0);
    assert_eq!(files(), before);
}
