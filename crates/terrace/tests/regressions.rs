//! One small run for each rule that a crash would punish the engine for breaking. The patches in
//! `mutants/` break the rules; these tests notice.

mod support;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use support::machine::{Machine, Method};
use support::script::with_read_buffer;
use terrace::{
    Background, Compression, Db, Durability, Error, KeyspaceOptions, Options, ReadBufferOptions,
    ReadOptions, Result, WriteBatch, WriteOptions, internal,
};
use terrace_storage::{CrashKind, Fault};

/// Large enough that a power cut keeps some frames of an arena and drops others before them.
const FRAME_BYTES: usize = 4000;

fn open(options: Options) -> Result<Db> {
    Db::open("/store", options)
}

fn key(number: usize) -> Vec<u8> {
    format!("key-{number:03}").into_bytes()
}

/// Returns a value that names its write.
fn value(number: usize, length_bytes: usize) -> Vec<u8> {
    let text = format!("{number:08}").into_bytes();
    text.into_iter().cycle().take(length_bytes).collect()
}

fn get(db: &Db, key: &[u8]) -> Option<Vec<u8>> {
    db.get(key).unwrap().map(|value| value.to_vec())
}

/// Returns the write whose value a key has.
fn writer(db: &Db, key: &[u8]) -> Option<usize> {
    let found = get(db, key)?;
    let number = str::from_utf8(&found[..8]).unwrap().parse().unwrap();
    assert!(
        found == value(number, found.len()),
        "the value of {number} is damaged"
    );
    Some(number)
}

/// Returns how many of the writes `0..count` are there. Asserts that they are the first, unchanged.
fn prefix(db: &Db, count: usize, context: &str) -> usize {
    let found: Vec<_> = (0..count)
        .filter_map(|number| writer(db, &key(number)))
        .collect();
    let there = found.len();
    assert!(found.iter().copied().eq(0..there), "{context}: {found:?}");
    there
}

/// Runs `work` on copies of a machine that freeze at each of its steps in turn, `tries` times each:
/// the operation at which they freeze may take place in part. `work` counts the writes that were
/// acknowledged; `check` gets the step, the frozen machine and that count.
fn at_every_step(
    base: &Machine,
    tries: u64,
    work: impl Fn(&Machine, &Cell<usize>) -> Result<()>,
    mut check: impl FnMut(u64, &Machine, usize),
) {
    let whole = base.copy(0);
    work(&whole, &Cell::new(0)).unwrap();
    for (step, seed) in (0..whole.steps()).flat_map(|step| (0..tries).map(move |seed| (step, seed)))
    {
        let machine = base.copy(step << 8 | seed);
        machine.freeze_at(step);
        let acknowledged = Cell::new(0);
        let _ = work(&machine, &acknowledged);
        check(step, &machine, acknowledged.get());
    }
}

/// A recovered arena is never appended to, and a generation is never issued twice. Either would
/// join new frames to old ones that were dropped: those lie behind the gap, whole and of the right
/// generation and number.
#[test]
fn frames_that_a_power_cut_dropped_never_come_back() {
    let options = |machine: &Machine| Options {
        arena_bytes: 64 << 10,
        ..machine.options()
    };
    let mut dropped = 0;
    for seed in 0..64 {
        let context = format!("seed {seed}");
        let machine = Machine::new(Method::Written, seed);
        let db = open(options(&machine)).unwrap();
        for number in 0..6 {
            db.put(key(number), value(number, FRAME_BYTES)).unwrap();
        }
        let machine = machine.crash(CrashKind::PowerCut, seed);
        drop(db);

        let db = open(options(&machine)).unwrap();
        let kept = prefix(&db, 6, &context);
        dropped += usize::from(db.statistics().recovery.dropped.is_some());
        // As long as the frames that were lost, so that each ends where one of those begins.
        for number in 0..6 {
            let new = format!("new-{number:03}");
            db.put(new.as_bytes(), value(number, FRAME_BYTES)).unwrap();
            let machine = machine.crash(CrashKind::Kill, seed);
            let db = open(options(&machine)).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(prefix(&db, 6, &context), kept, "{context}");
            assert_eq!(writer(&db, new.as_bytes()), Some(number), "{context}");
        }
    }
    assert!(dropped > 8, "only {dropped} power cuts left a gap");
}

#[test]
fn a_generation_is_never_issued_twice() {
    let mut machine = Machine::new(Method::Written, 1);
    let mut last = 0;
    for round in 0..4 {
        let db = open(machine.options()).unwrap();
        for number in 0..9 {
            db.put(key(number), value(number, FRAME_BYTES)).unwrap();
            let generation = db.statistics().arenas.active_generation;
            assert!(
                generation >= last,
                "round {round}: {generation} after {last}"
            );
            last = generation;
        }
        last += 1;
        machine = machine.crash(CrashKind::Kill, round);
    }
}

/// Fills two arenas that cannot be flushed and begins a third. Returns the number of writes.
fn write_to_three_arenas(machine: &Machine, db: &Db) -> usize {
    machine.flushes().fail_from(0, Fault::NoSpace);
    let mut count = 0;
    while db.statistics().arenas.sealed < 2 {
        db.put(key(count), value(count, FRAME_BYTES)).unwrap();
        count += 1;
    }
    count
}

#[test]
fn a_synced_write_persists_the_older_arenas_too() {
    for seed in 0..16 {
        let machine = Machine::new(Method::Written, seed);
        let db = open(machine.options()).unwrap();
        let count = write_to_three_arenas(&machine, &db);
        let mut batch = WriteBatch::new();
        batch.put(b"synced", b"").unwrap();
        db.write(batch, WriteOptions::with_sync(true)).unwrap();
        let machine = machine.crash(CrashKind::PowerCut, seed);
        drop(db);

        let context = format!("seed {seed}");
        let db = open(machine.options()).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(prefix(&db, count, &context), count, "{context}");
        assert!(get(&db, b"synced").is_some(), "{context}");
    }
}

#[test]
fn what_a_power_cut_leaves_of_several_arenas_is_a_prefix() {
    let mut cut_short = 0;
    for seed in 0..32 {
        let machine = Machine::new(Method::Written, seed);
        let db = open(machine.options()).unwrap();
        let count = write_to_three_arenas(&machine, &db);
        let machine = machine.crash(CrashKind::PowerCut, seed);
        drop(db);

        let context = format!("seed {seed}");
        let db = open(machine.options()).unwrap_or_else(|error| panic!("{context}: {error}"));
        cut_short += usize::from(prefix(&db, count, &context) < count);
    }
    assert!(cut_short > 8, "only {cut_short} power cuts lost something");
}

/// A younger arena's tables raise the number from which recovery takes frames, and they lie above
/// an older one's.
#[test]
fn flushes_are_installed_from_the_oldest_arena_on() {
    let options = |machine: &Machine| Options {
        level0_merge: 100,
        ..machine.options()
    };
    let work = |machine: &Machine, acknowledged: &Cell<usize>| -> Result<()> {
        let db = open(options(machine))?;
        machine.flushes().fail_from(0, Fault::NoSpace);
        while db.statistics().arenas.sealed < 2 {
            db.put(b"key", value(acknowledged.get() + 1, FRAME_BYTES))?;
            acknowledged.set(acknowledged.get() + 1);
        }
        machine.flushes().heal();
        db.flush()
    };
    at_every_step(
        &Machine::new(Method::Written, 1),
        1,
        work,
        |step, machine, acknowledged| {
            let machine = machine.crash(CrashKind::Kill, step);
            let db = open(options(&machine)).unwrap_or_else(|error| panic!("at {step}: {error}"));
            let found = writer(&db, b"key").unwrap_or(0);
            let context = format!("at {step}: {acknowledged} acknowledged, {found} found");
            assert!(
                (acknowledged..=acknowledged + 1).contains(&found),
                "{context}"
            );
            internal::check_ages(&db).unwrap_or_else(|wrong| panic!("at {step}: {wrong}"));
        },
    );
}

/// Until the edit that lists the tables is durable the arena holds the only copy; remains of the
/// killed flush's tables are in the way of nothing.
#[test]
fn a_flush_killed_at_any_step_is_made_good_by_the_next_opening() {
    // The second write has an arena of its own, whose slot is removed when it is recycled.
    let writes = [("small", 100), ("large", 20_000), ("after", 100)];
    let work = |machine: &Machine, acknowledged: &Cell<usize>| -> Result<()> {
        let db = open(machine.options())?;
        for (key, length_bytes) in writes {
            db.put(key.as_bytes(), value(length_bytes, length_bytes))?;
            acknowledged.set(acknowledged.get() + 1);
        }
        db.flush()
    };
    for method in [Method::Written, Method::Dax] {
        at_every_step(
            &Machine::new(method, 1),
            6,
            work,
            |step, machine, acknowledged| {
                let context = format!("{method:?} at {step}");
                let machine = machine.crash(CrashKind::Kill, step);
                let db =
                    open(machine.options()).unwrap_or_else(|error| panic!("{context}: {error}"));
                for &(key, length_bytes) in &writes[..acknowledged] {
                    let found = get(&db, key.as_bytes());
                    let expected = Some(value(length_bytes, length_bytes));
                    assert!(found == expected, "{context}: {key}");
                }
            },
        );
    }
}

/// After a kill the last edit may be in the page cache only. The opening that reads it there
/// removes the inputs of its merge, and a power cut must not bring back a manifest that lists them.
#[test]
fn a_power_cut_after_a_kill_finds_every_table_that_its_manifest_lists() {
    const FLUSHES: usize = 4;
    let options = |machine: &Machine| Options {
        level0_merge: FLUSHES,
        ..machine.options()
    };
    let flush = |db: &Db, number: usize| {
        let mut batch = WriteBatch::new();
        batch.put(key(number), value(number, 100))?;
        batch.put(b"in every table", b"")?;
        db.write(batch, WriteOptions::default())?;
        db.flush()
    };
    let base = Machine::new(Method::Written, 1);
    let db = open(options(&base)).unwrap();
    (0..FLUSHES - 1).for_each(|number| flush(&db, number).unwrap());
    db.close().unwrap();
    drop(db);
    // The last flush, and the merge that it starts.
    let work = |machine: &Machine, _: &Cell<usize>| flush(&open(options(machine))?, FLUSHES - 1);
    let mut merges = 0;
    at_every_step(&base, 1, work, |first, machine, _| {
        let killed = machine.crash(CrashKind::Kill, first);
        let reopen = |machine: &Machine, _: &Cell<usize>| open(options(machine)).map(drop);
        at_every_step(&killed, 1, reopen, |second, machine, _| {
            let context = format!("at {first}, then {second}");
            for seed in 0..8 {
                let seed = first << 16 | second << 8 | seed;
                let machine = machine.crash(CrashKind::PowerCut, seed);
                let opened = open(options(&machine));
                let db = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(prefix(&db, FLUSHES, &context) >= FLUSHES - 1, "{context}");
                let levels = &db.levels().keyspaces[0].levels;
                merges += usize::from(levels[0].is_empty() && levels[1].len() == 1);
            }
        });
    });
    assert!(merges > 0, "nothing was merged");
}

/// Returns options by which flushed tables go to the deepest levels at once.
fn deep(machine: &Machine, level0_merge: usize) -> Options {
    let base = with_read_buffer(0, machine.options());
    Options {
        level0_merge,
        default_keyspace: KeyspaceOptions {
            level1_bytes: 1 << 10,
            ..base.default_keyspace
        },
        // Answers must come from the tables, not from elsewhere.
        ..base
    }
}

#[test]
fn a_tombstone_stays_above_an_older_sub_level() {
    let machine = Machine::new(Method::Written, 1);
    // A table of tombstones would be merged with the value at once.
    let options = Options {
        tombstone_percent: 0,
        ..deep(&machine, 2)
    };
    let db = open(options).unwrap();
    for number in 0..2 {
        db.put(b"key", value(number, FRAME_BYTES)).unwrap();
        db.flush().unwrap();
    }
    let levels = db.statistics().levels;
    let depth = levels.iter().position(|level| level.tables > 0);
    assert!(depth > Some(1), "the value is in level {depth:?}");
    db.delete(b"key").unwrap();
    db.flush().unwrap();
    assert_eq!(writer(&db, b"key"), None, "flushed");
    // Something that overlaps the tombstone's table, or that would be moved and not merged.
    let merges = db.statistics().merges;
    db.put(b"key", b"").unwrap();
    db.delete(b"key").unwrap();
    db.flush().unwrap();
    assert!(db.statistics().merges > merges, "nothing was merged");
    assert_eq!(writer(&db, b"key"), None, "merged");
}

#[test]
fn sub_levels_1_and_3_are_not_merged_without_2() {
    let machine = Machine::new(Method::Written, 1);
    let db = open(deep(&machine, 3)).unwrap();
    for number in 1..=3 {
        db.put(b"key", value(number, FRAME_BYTES)).unwrap();
        db.flush().unwrap();
    }
    db.compact().unwrap();
    assert!(db.statistics().merges > 0, "nothing was merged");
    assert_eq!(writer(&db, b"key"), Some(3));
    internal::check_ages(&db).unwrap();
}

/// The index has all that a reader's number covers: a snapshot finds the batch that it ends with.
#[test]
fn a_number_is_visible_only_when_its_batch_is_in_the_index() {
    const BATCHES: usize = 200;
    /// Many, so that the index is being filled most of the time.
    const RECORDS: usize = 2000;
    let options = Options {
        durability: Some(Durability::Volatile),
        arena_bytes: 16 << 20,
        background: Background::Inline,
        storage: Machine::new(Method::Volatile, 1).options().storage,
        ..Options::default()
    };
    let db = open(options).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let last_key = (RECORDS as u32).to_be_bytes();
            while !done.load(Ordering::Acquire) {
                let snapshot = db.snapshot();
                let found = db.get_at(&snapshot, last_key).unwrap();
                let batch =
                    found.map_or(0, |value| u64::from_be_bytes((*value).try_into().unwrap()));
                assert_eq!(snapshot.sequence(), batch * RECORDS as u64);
            }
        });
        for number in 1..=BATCHES as u64 {
            let mut batch = WriteBatch::new();
            for record in 1..=RECORDS as u32 {
                batch
                    .put(record.to_be_bytes(), number.to_be_bytes())
                    .unwrap();
            }
            db.write(batch, WriteOptions::default()).unwrap();
        }
        done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

/// Dropping a keyspace writes no records: only the floor tells the read buffer.
#[test]
fn a_dropped_keyspace_is_gone_from_the_read_buffer_too() {
    let machine = Machine::new(Method::Written, 1);
    let db = open(machine.options()).unwrap();
    let keyspace = db
        .create_keyspace("short-lived", KeyspaceOptions::default())
        .unwrap();
    keyspace.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    for _ in 0..3 {
        assert_eq!(
            keyspace.get(b"key").unwrap().as_deref(),
            Some(&b"value"[..])
        );
    }
    let buffer = db.statistics().read_buffer.unwrap();
    assert_eq!((buffer.hits, buffer.fills_taken), (2, 1));
    db.drop_keyspace("short-lived").unwrap();
    let error = keyspace.get(b"key").unwrap_err();
    assert!(matches!(error, Error::NoKeyspace { .. }), "{error}");
}

/// With memory for every block the read buffer took half of it for copies; gets were half as fast.
#[test]
fn the_read_buffer_wakes_when_the_tables_outgrow_the_cache() {
    let machine = Machine::new(Method::Written, 1);
    let base = machine.options();
    let options = Options {
        read_buffer: ReadBufferOptions::default(),
        constants: terrace::Constants {
            while_blocks_fit: false,
            ..machine.options().constants
        },
        default_keyspace: KeyspaceOptions {
            compression: vec![Compression::None],
            ..base.default_keyspace
        },
        ..base
    };
    let db = open(options.clone()).unwrap();
    let put_and_read = |db: &Db, keys: std::ops::Range<u32>| {
        for key in keys {
            db.put(key.to_be_bytes(), [7; 200]).unwrap();
        }
        db.flush().unwrap();
        (0..3).for_each(|_| drop(db.get(0u32.to_be_bytes()).unwrap().unwrap()));
        db.statistics().read_buffer.unwrap().fills_taken
    };
    assert_eq!(put_and_read(&db, 0..100), 0, "20 KB of 64 KB");
    assert!(put_and_read(&db, 100..600) > 0, "120 KB");
    db.close().unwrap();
    let db = open(options).unwrap();
    assert!(put_and_read(&db, 0..1) > 0, "as it was opened");
}

/// Reads that check the tables again must not be answered from elsewhere, and reads that are to
/// leave no trace leave none.
#[test]
fn reads_that_verify_or_fill_nothing_pass_by_the_read_buffer() {
    let machine = Machine::new(Method::Written, 1);
    let db = open(machine.options()).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    let unfilled = ReadOptions {
        fill_cache: false,
        ..ReadOptions::default()
    };
    let verified = ReadOptions {
        verify: true,
        ..ReadOptions::default()
    };
    let counts = || {
        let buffer = db.statistics().read_buffer.unwrap();
        (buffer.fills_taken, buffer.hits)
    };
    for _ in 0..3 {
        db.get_with(b"key", &unfilled).unwrap().unwrap();
    }
    assert_eq!(counts(), (0, 0));
    for _ in 0..3 {
        db.get(b"key").unwrap().unwrap();
    }
    assert_eq!(counts(), (1, 2));
    for _ in 0..3 {
        db.get_with(b"key", &verified).unwrap().unwrap();
    }
    assert_eq!(counts(), (1, 2));
}
