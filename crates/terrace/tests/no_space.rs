//! A disk that fills up, in simulation, at every point of a script and by every amount.
//!
//! The disk shrinks to the used space plus a slack, which decides where in an operation space ends:
//! in the arena, the tables, the manifest or the recovery. Writers may get `NoSpace` when there is
//! nowhere left to write; reads go on, and nothing acknowledged is lost. Once space returns the
//! store goes on by itself, without being reopened.
//!
//! `TERRACE_SPACE_STRIDE` sets the bytes between two slacks (3,000 by default).

mod image;
mod support;

use std::path::Path;
use std::sync::Arc;

use image::STORE;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::model::{Content, Model, State, assert_same, read_all};
use support::script::{KEYSPACES, Operation, Script, tiny};
use terrace::{
    Background, CompactionPolicy, Db, Error, KeyspaceId, KeyspaceOptions, Options, WriteOptions,
    internal,
};
use terrace_storage::{CrashKind, CrashSwitch, SimulatedStorage, Storage};

const CAPACITY_BYTES: u64 = 1 << 30;
/// More than a flush and a merge at the sizes of [`tiny`] take at a time.
const LARGEST_SLACK_BYTES: u64 = 60 << 10;

fn options(disk: &SimulatedStorage) -> Options {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    tiny(Options {
        storage,
        background: Background::Inline,
        ..Options::default()
    })
}

fn slacks() -> impl Iterator<Item = u64> {
    let stride = support::scale("TERRACE_SPACE_STRIDE", 3_000).max(1);
    (0..=LARGEST_SLACK_BYTES).step_by(stride as usize)
}

fn used_bytes(disk: &SimulatedStorage) -> u64 {
    CAPACITY_BYTES - disk.free_space_bytes(Path::new(STORE)).unwrap()
}

/// Returns a store with some content, and its model.
fn used_store(seed: u64) -> (SimulatedStorage, Db, Model, Script) {
    let disk = SimulatedStorage::new(seed, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    internal::create_second(&db).unwrap();
    let mut model = Model::default();
    let mut script = Script::new(seed, false);
    for _ in 0..80 {
        let Operation::Write { writes, .. } = script.write() else {
            unreachable!()
        };
        db.write(model.batch(writes), WriteOptions::default())
            .unwrap();
    }
    (disk, db, model, script)
}

fn check(db: &Db, expected: &State) {
    assert_same(&read_all(db, &KEYSPACES, None).unwrap(), expected);
}

/// Writes batches until one is refused, or `most` were taken. Returns the refusal, if any.
fn write_until_refused(
    db: &Db,
    model: &mut Model,
    script: &mut Script,
    most: u64,
) -> Option<Error> {
    for _ in 0..most {
        let Operation::Write { writes, .. } = script.write() else {
            unreachable!()
        };
        let mut tried = model.clone();
        match db.write(tried.batch(writes), WriteOptions::default()) {
            Ok(()) => *model = tried,
            Err(error) => return Some(error),
        }
    }
    None
}

#[test]
fn a_store_on_a_full_disk_loses_nothing_and_goes_on_when_space_returns() {
    let mut refused = 0;
    for (seed, slack_bytes) in (0..).zip(slacks()) {
        let (disk, db, mut model, mut script) = used_store(seed);
        disk.set_capacity_bytes(used_bytes(&disk) + slack_bytes);
        let refusal = write_until_refused(&db, &mut model, &mut script, 300);
        let context = format!("slack {slack_bytes}: {refusal:?}");
        if let Some(error) = &refusal {
            refused += 1;
            assert!(error.is_no_space(), "{context}");
            assert!(error.to_string().contains(STORE), "{context}");
            let statistics = db.statistics();
            assert!(statistics.poisoned.is_none(), "{context}");
            // A batch with an arena of its own fails by itself, all others wait for the flush.
            let is_oversized = matches!(error, Error::NoSpace { needed_bytes, .. }
                if *needed_bytes > options(&disk).arena_bytes);
            if !is_oversized {
                assert!(statistics.step_failures > 0, "{context}");
                let last_error = statistics.last_error.as_ref();
                assert!(last_error.is_some_and(Error::is_no_space), "{context}");
            }
        }
        check(&db, &model.state);
        // A smaller batch may still find room; every acknowledged one counts.
        let _ = write_until_refused(&db, &mut model, &mut script, 10);
        check(&db, &model.state);

        // A store that dies on a full disk has everything at its next opening as well.
        let survivor = disk.crash(CrashKind::Kill, seed, CrashSwitch::new());
        survivor.set_capacity_bytes(CAPACITY_BYTES);
        check(&Db::open(STORE, options(&survivor)).unwrap(), &model.state);

        disk.set_capacity_bytes(CAPACITY_BYTES);
        let refusal = write_until_refused(&db, &mut model, &mut script, 100);
        assert!(
            refusal.is_none(),
            "slack {slack_bytes}, space is back: {refusal:?}"
        );
        db.flush().unwrap();
        db.compact().unwrap();
        check(&db, &model.state);
        db.close().unwrap();
        let db = Db::open(STORE, options(&disk)).unwrap();
        check(&db, &model.state);
        internal::check_ages(&db).unwrap();
    }
    assert!(refused > 0, "no disk was full");
}

/// The explicit operations, each on its own full disk.
#[test]
fn flush_compact_and_close_on_a_full_disk_fail_alone() {
    type Action = fn(&Db) -> terrace::Result<()>;
    let actions: [(&str, Action); 4] = [
        ("flush", Db::flush),
        ("compact", |db| db.flush().and_then(|()| db.compact())),
        ("close", Db::close),
        ("persist", Db::persist),
    ];
    let mut failed = 0;
    for (name, action) in actions {
        for (seed, slack_bytes) in (0..).zip(slacks()) {
            let (disk, db, mut model, mut script) = used_store(seed);
            disk.set_capacity_bytes(used_bytes(&disk) + slack_bytes);
            let result = action(&db);
            let context = format!("{name}, slack {slack_bytes}: {result:?}");
            if let Err(error) = result {
                failed += 1;
                assert!(error.is_no_space(), "{context}");
            }
            disk.set_capacity_bytes(CAPACITY_BYTES);
            if name == "close" {
                drop(db);
                check(
                    &Db::open(STORE, options(&disk)).expect(&context),
                    &model.state,
                );
                continue;
            }
            check(&db, &model.state);
            action(&db).expect(&context);
            assert!(
                write_until_refused(&db, &mut model, &mut script, 20).is_none(),
                "{context}"
            );
            check(&db, &model.state);
        }
    }
    assert!(failed > 0, "no disk was full");
}

#[test]
fn opening_on_a_full_disk_says_what_is_needed_and_a_reader_still_opens() {
    let mut refused = 0;
    for (seed, slack_bytes) in (0..).zip(slacks()) {
        let (disk, db, model, _) = used_store(seed);
        let crashed = disk.crash(CrashKind::Kill, seed, CrashSwitch::new());
        drop(db);
        crashed.set_capacity_bytes(used_bytes(&crashed) + slack_bytes);
        match Db::open(STORE, options(&crashed)) {
            Ok(db) => check(&db, &model.state),
            Err(Error::NoSpace { needed_bytes, path }) => {
                refused += 1;
                assert!(
                    needed_bytes > 0 && path.starts_with(STORE),
                    "slack {slack_bytes}"
                );
                let read_only = Options {
                    read_only: true,
                    ..options(&crashed)
                };
                check(&Db::open(STORE, read_only).unwrap(), &model.state);
            }
            Err(error) => panic!("slack {slack_bytes}: {error:?}"),
        }
        crashed.set_capacity_bytes(CAPACITY_BYTES);
        check(&Db::open(STORE, options(&crashed)).unwrap(), &model.state);
    }
    assert!(refused > 0, "no disk was full");
}

#[test]
fn a_store_that_cannot_be_created_for_want_of_space_leaves_nothing_in_the_way() {
    let mut refused = 0;
    for slack_bytes in slacks() {
        let disk = SimulatedStorage::new(1, CrashSwitch::new());
        disk.create_directory(Path::new(STORE)).unwrap();
        disk.set_capacity_bytes(slack_bytes);
        match Db::open(STORE, options(&disk)) {
            // The mark of the clean close may find no space; nothing is lost without it.
            Ok(db) => drop(db),
            Err(error) => {
                refused += 1;
                assert!(error.is_no_space(), "slack {slack_bytes}: {error:?}");
            }
        }
        disk.set_capacity_bytes(CAPACITY_BYTES);
        let db = Db::open(STORE, options(&disk)).unwrap();
        internal::create_second(&db).unwrap();
        db.put(b"key", b"value").unwrap();
        let content = Content::from([(b"key".to_vec(), b"value".to_vec())]);
        check(&db, &State::from([(KeyspaceId::DEFAULT.number(), content)]));
    }
    assert!(refused > 0, "no disk was full");
}

/// Many small versions of a few keys go and large ones stay: by their number hardly anything is written.
#[test]
fn a_merge_that_writes_more_than_was_predicted_is_given_up_and_goes_on_later() {
    let mut in_the_middle = 0;
    for slack_bytes in (0..=LARGEST_SLACK_BYTES).step_by(4_000) {
        let disk = SimulatedStorage::new(3, CrashSwitch::new());
        let options = |compaction_policy| {
            let base = options(&disk);
            Options {
                compaction_policy,
                default_keyspace: KeyspaceOptions {
                    table_bytes: 64 << 10,
                    level_ratio: 12,
                    ..base.default_keyspace
                },
                level0_merge: 2,
                constants: terrace::Constants {
                    slice_bytes: 1 << 20,
                    ..terrace::Constants::default()
                },
                ..base
            }
        };
        let db = Db::open(STORE, options(CompactionPolicy::Tiered)).unwrap();
        internal::create_second(&db).unwrap();
        let mut content = Content::default();
        let mut random = SmallRng::seed_from_u64(4);
        for round in 0..8u8 {
            for number in 0..80u8 {
                let (key, value) = (vec![b's', number], vec![round; 8]);
                db.put(&key, &value).unwrap();
                content.insert(key, value);
            }
            // Not to be compressed.
            let value = (0..4_000).map(|_| random.random()).collect::<Vec<u8>>();
            let key = vec![b'l', round];
            db.put(&key, &value).unwrap();
            content.insert(key, value);
            db.flush().unwrap();
        }
        db.compact().unwrap();
        db.close().unwrap();
        drop(db);
        // Nothing is merged before the disk is full.
        let resting = Options {
            dedup_threshold: 100.0,
            ..options(CompactionPolicy::Dedup)
        };
        drop(Db::open(STORE, resting).unwrap());
        disk.set_capacity_bytes(used_bytes(&disk) + slack_bytes);
        let expected = State::from([(KeyspaceId::DEFAULT.number(), content)]);
        let Ok(db) = Db::open(STORE, options(CompactionPolicy::Dedup)) else {
            continue;
        };
        match db.compact() {
            Ok(()) => {}
            // Not begun.
            Err(Error::NoSpace { .. }) => {}
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                in_the_middle += 1;
            }
        }
        check(&db, &expected);
        assert!(db.statistics().poisoned.is_none());
        disk.set_capacity_bytes(CAPACITY_BYTES);
        db.compact().unwrap();
        assert!(db.statistics().merges > 0, "slack {slack_bytes}");
        check(&db, &expected);
        internal::check_ages(&db).unwrap();
    }
    assert!(in_the_middle > 0);
}
