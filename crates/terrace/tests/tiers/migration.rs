//! Tables that move: failures of every operation, a compaction that takes the table, and readers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace::{Background, Db, Error, EventKind, KeyspaceOptions, Options, TierOptions};
use terrace_storage::{
    Clock, DirectoryLayer, FailingStorage, Fault, FaultFilter, FaultPlan, File, FileCall,
    FileLayer, LayeredFile, LayeredStorage, Operation, Purpose, SimulatedStorage, Storage,
};

use super::support::gated::{Opened, gated};
use super::support::script::Calendar;
use super::support::within::{wait_until, within};
use super::{MIDDLE, SLOW, STORE, check, disk, fill, flip, options, table_bytes, with_level_tiers};

/// Returns the options with a slow tier that all levels ask for.
fn with_slow(options: Options) -> Options {
    let options = Options {
        tiers: vec![TierOptions::new("slow", SLOW)],
        ..options
    };
    with_level_tiers(options, &["slow"])
}

/// Returns the same options, and a plan that holds the writes of migrations.
fn gated_slow(disk: &SimulatedStorage, background: Background) -> (Options, FaultPlan) {
    let (storage, gate) = gated(disk, Purpose::Migration);
    let options = Options {
        storage,
        background,
        ..with_slow(options(disk))
    };
    (options, gate)
}

/// Makes a store with all tables in its slow tier.
fn filled(disk: &SimulatedStorage) {
    let db = Db::open(STORE, with_slow(options(disk))).unwrap();
    fill(&db, 0..150);
    assert_eq!(table_bytes(disk, STORE), 0);
    db.close().unwrap();
}

/// Checks that all tables are in the store's directory, and the books against the disk.
fn check_moved(db: &Db, disk: &SimulatedStorage) {
    let tiers = db.tiers();
    assert_eq!(tiers[1].tables, 0, "{tiers:?}");
    for tier in tiers {
        let on_disk = table_bytes(disk, tier.path.to_str().unwrap());
        let listed: u64 = tier.level_bytes.iter().sum();
        assert_eq!(on_disk, listed, "no orphan is left: {tier:?}");
        assert_eq!(
            (on_disk, 0),
            (tier.files_bytes, tier.reserved_bytes),
            "{tier:?}"
        );
    }
    check(db, 0..150);
}

#[test]
fn any_operation_of_a_migration_may_fail_and_is_done_again() {
    let files = [
        Operation::Open,
        Operation::Write,
        Operation::Sync,
        Operation::Remove,
    ];
    let filters = [
        FaultFilter::everything().purpose(Purpose::Migration),
        FaultFilter::everything()
            .path_contains(".table")
            .operations(&files),
        FaultFilter::everything().operations(&[Operation::SyncDirectory]),
    ];
    for (number, filter) in filters.into_iter().enumerate() {
        let can_poison = number == 2;
        for fault in [Fault::Io, Fault::NoSpace] {
            let (mut at, mut ended) = (0, false);
            while !ended {
                let disk = disk();
                filled(&disk);
                let plan = FaultPlan::new(filter.clone());
                let failing = FailingStorage::new(Arc::new(disk.clone()), plan.clone());
                let options = Options {
                    storage: Arc::new(failing),
                    ..with_slow(options(&disk))
                };
                let db = Db::open(STORE, options).unwrap();
                plan.fail_at(plan.count() + at, fault);
                db.drain_tier("slow").unwrap();
                let is_poisoned = || db.statistics().poisoned.is_some();
                while !is_poisoned() && db.wait_for_migration().unwrap_or(true) {}
                ended = plan.failures() == 0;
                plan.heal();
                check(&db, 0..150);
                if is_poisoned() {
                    // A fresh manifest was made, and its name may not be durable.
                    assert!(can_poison, "at {at}: {:?}", db.statistics().poisoned);
                    let _ = db.close();
                    let db = Db::open(STORE, self::options(&disk)).unwrap();
                    check_moved(&db, &disk);
                    at += 1;
                    continue;
                }
                while db.wait_for_migration().unwrap() {}
                assert_eq!(db.tiers()[1].tables, 0, "at {at}");
                check(&db, 0..150);
                db.close().unwrap();
                // A file that could not be removed was an orphan.
                let db = Db::open(STORE, self::options(&disk)).unwrap();
                check_moved(&db, &disk);
                at += 1;
            }
            assert!(at > 2, "{at} operations only");
        }
    }
}

#[test]
fn a_drain_takes_the_reserve_where_nothing_else_is_left() {
    let disk = disk();
    filled(&disk);
    let table_bytes = table_bytes(&disk, SLOW);
    // Flushes keep their room: a drain does not take the last bytes.
    let capacity_bytes = table_bytes + 4 * options(&disk).arena_bytes;
    let store = TierOptions {
        capacity_bytes: Some(capacity_bytes),
        reserve_bytes: capacity_bytes - 1,
        ..TierOptions::of_store("store")
    };
    let options = Options {
        tiers: vec![store, TierOptions::new("slow", SLOW)],
        ..with_level_tiers(options(&disk), &["slow"])
    };
    let db = Db::open(STORE, options).unwrap();
    assert!(db.tiers()[1].tables > 1);
    assert!(db.tiers()[0].room_bytes <= 1, "{:?}", db.tiers());
    db.drain_tier("slow").unwrap();
    while db.wait_for_migration().unwrap() {}
    check_moved(&db, &disk);
    let left_bytes = capacity_bytes - self::table_bytes(&disk, STORE);
    assert!(
        left_bytes >= self::options(&disk).arena_bytes,
        "{left_bytes}"
    );
}

#[test]
fn a_drain_leaves_the_room_of_flushes() {
    let disk = disk();
    filled(&disk);
    let capacity_bytes = table_bytes(&disk, SLOW);
    let store = TierOptions {
        capacity_bytes: Some(capacity_bytes),
        reserve_bytes: capacity_bytes - 1,
        ..TierOptions::of_store("store")
    };
    let options = Options {
        tiers: vec![store, TierOptions::new("slow", SLOW)],
        ..with_level_tiers(options(&disk), &["slow"])
    };
    let db = Db::open(STORE, options).unwrap();
    db.drain_tier("slow").unwrap();
    while db.wait_for_migration().unwrap() {}
    assert!(db.tiers()[1].tables > 0);
    let left_bytes = capacity_bytes - table_bytes(&disk, STORE);
    assert!(
        left_bytes >= self::options(&disk).arena_bytes,
        "{left_bytes}"
    );
}

#[test]
fn a_compaction_that_takes_a_moving_table_ends_its_move() {
    let disk = disk();
    filled(&disk);
    let (options, gate) = gated_slow(&disk, Background::Threads);
    let _opened = Opened(&gate);
    let db = Db::open(STORE, options).unwrap();
    db.drain_tier("slow").unwrap();
    while gate.held() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Its outputs go elsewhere by themselves.
    db.compact_range(..).unwrap();
    gate.heal();
    while db.wait_for_migration().unwrap() {}
    let moved = db.events().into_iter();
    let moved = moved.filter(|event| matches!(event.kind, EventKind::TableMigrated { .. }));
    assert_eq!(moved.count(), 0);
    db.close().unwrap();
    let db = Db::open(STORE, self::options(&disk)).unwrap();
    check_moved(&db, &disk);
}

#[test]
fn a_table_does_not_go_back_for_an_hour() {
    let disk = disk();
    let calendar = Arc::new(Calendar::default());
    let options = Options {
        tiers: vec![TierOptions::new("slow", SLOW)],
        ..options(&disk)
    };
    let db = terrace::internal::open_on(Path::new(STORE), options, calendar.clone()).unwrap();
    let in_tier = |name: &str| KeyspaceOptions {
        level_tiers: vec![name.to_owned()],
        ..KeyspaceOptions::default()
    };
    let keyspace = db.create_keyspace("other", in_tier("slow")).unwrap();
    keyspace.put("key", "value").unwrap();
    db.flush().unwrap();
    let tiers = || {
        while db.wait_for_migration().unwrap() {}
        db.tiers()
            .iter()
            .map(|tier| tier.tables)
            .collect::<Vec<_>>()
    };
    assert_eq!(tiers(), [0, 1]);
    keyspace.set_options(in_tier("store")).unwrap();
    assert_eq!(tiers(), [1, 0]);
    keyspace.set_options(in_tier("slow")).unwrap();
    assert_eq!(tiers(), [1, 0], "it has just come from there");
    let explained = db.placed_tables(&keyspace).unwrap();
    let reason = &explained[0].reason;
    assert!(reason.contains("moved within the hour"), "{reason}");
    for _ in 0..3600 {
        calendar.unix_seconds();
    }
    assert_eq!(tiers(), [0, 1]);
    assert_eq!(db.statistics().migrations, 2);
}

/// A clock on which each look takes a millisecond, and which adds up the sleeps.
#[derive(Debug, Default)]
struct Ticking {
    looks: AtomicU64,
    slept_ns: AtomicU64,
}

impl Clock for Ticking {
    fn now_ns(&self) -> u64 {
        1_000_000 * self.looks.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep(&self, time: Duration) {
        let time_ns = time.as_nanos() as u64;
        self.slept_ns.fetch_add(time_ns, Ordering::Relaxed);
    }
}

#[test]
fn a_thread_that_migrates_pauses_unless_others_wait_for_the_room() {
    let slept_ms = |background, drains: bool| {
        let disk = disk();
        filled(&disk);
        let options = Options {
            background,
            ..with_slow(options(&disk))
        };
        let options = match drains {
            true => options,
            false => with_level_tiers(options, &["store"]),
        };
        let clock = Arc::new(Ticking::default());
        let path = Path::new(STORE);
        let db = terrace::internal::open_on(path, options, clock.clone()).unwrap();
        if drains {
            db.drain_tier("slow").unwrap();
        }
        while db.wait_for_migration().unwrap() {}
        assert_eq!(db.tiers()[1].tables, 0);
        assert!(db.statistics().migrations > 0);
        clock.slept_ns.load(Ordering::Relaxed) / 1_000_000
    };
    // Each file is one part here, and its check is less.
    let moved = slept_ms(Background::Threads, false);
    assert!((1..=20).contains(&moved), "{moved} ms for a few tables");
    assert_eq!(slept_ms(Background::Threads, true), 0);
    assert_eq!(slept_ms(Background::Inline, false), 0);
}

/// A file of the same name may be there still: of a reader, or on its way out.
#[test]
fn a_table_that_goes_back_spares_the_file_that_a_reader_has() {
    let disk = disk();
    let options = Options {
        tiers: vec![TierOptions::new("slow", SLOW)],
        ..options(&disk)
    };
    let db = Db::open(STORE, options).unwrap();
    let in_tier = |name: &str| KeyspaceOptions {
        level_tiers: vec![name.to_owned()],
        ..KeyspaceOptions::default()
    };
    let keyspace = db.create_keyspace("other", in_tier("store")).unwrap();
    keyspace.put("key", "value").unwrap();
    db.flush().unwrap();
    let mut iterator = keyspace.iter(terrace::IterOptions::default()).unwrap();
    iterator.seek_to_first().unwrap();
    keyspace.set_options(in_tier("slow")).unwrap();
    while db.wait_for_migration().unwrap() {}
    assert_eq!(db.tiers()[1].tables, 1);
    // It is to go back at once, and the file that the iterator reads is there.
    db.drain_tier("slow").unwrap();
    let refused = db.wait_for_migration().unwrap_err();
    assert!(matches!(refused, Error::Io(_)), "{refused}");
    assert_eq!(iterator.value(), b"value");
    assert!(table_bytes(&disk, STORE) > 0 && table_bytes(&disk, SLOW) > 0);
    drop(iterator);
    // The old file goes with its reader, and only then the new one comes.
    db.put("other", "value").unwrap();
    db.flush().unwrap();
    while db.wait_for_migration().unwrap() {}
    assert_eq!(db.tiers()[1].tables, 0);
    assert_eq!(keyspace.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    db.close().unwrap();
    let db = Db::open(STORE, self::options(&disk)).unwrap();
    let keyspace = db.keyspace("other").unwrap();
    assert_eq!(keyspace.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn readers_keep_the_old_file_until_they_are_done() {
    let disk = disk();
    filled(&disk);
    let db = Db::open(STORE, with_slow(options(&disk))).unwrap();
    let mut iterator = db.iter(terrace::IterOptions::default()).unwrap();
    iterator.seek_to_first().unwrap();
    db.drain_tier("slow").unwrap();
    while db.wait_for_migration().unwrap() {}
    assert_eq!(db.tiers()[1].tables, 0);
    assert!(table_bytes(&disk, SLOW) > 0, "the iterator has them");
    let refused = db.remove_tier("slow").unwrap_err();
    assert!(refused.to_string().contains("drain it"), "{refused}");
    let mut seen = 0;
    while iterator.valid() {
        seen += 1;
        iterator.next().unwrap();
    }
    assert_eq!(seen, 150);
    drop(iterator);
    db.remove_tier("slow").unwrap();
    assert_eq!(table_bytes(&disk, SLOW), 0);
    check(&db, 0..150);
}

#[test]
fn a_damaged_table_is_not_copied() {
    let disk = disk();
    filled(&disk);
    let names = disk.list(Path::new(SLOW)).unwrap().into_iter();
    let name = names
        .map(|entry| entry.name)
        .find(|name| name.ends_with(".table"));
    let path = Path::new(SLOW).join(name.unwrap());
    flip(&disk, &path, 300);
    let db = Db::open(STORE, with_slow(options(&disk))).unwrap();
    db.drain_tier("slow").unwrap();
    let statistics = db.statistics();
    assert_eq!(statistics.step_failures, 1);
    let error = statistics.last_error.unwrap();
    // The copy is gone again, so the table is named.
    assert!(
        matches!(&error, Error::Corruption { file, .. } if *file == path),
        "{error}"
    );
    assert_eq!(table_bytes(&disk, STORE), db.tiers()[0].files_bytes);
    // It keeps no other table from moving.
    while db.wait_for_migration().unwrap() {}
    assert_eq!(db.tiers()[1].tables, 1);
    let problems = db.verify(|_, _| ()).unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
}

/// A device that changes a byte of some copies.
#[derive(Clone, Debug)]
struct Spoils {
    disk: SimulatedStorage,
    path: PathBuf,
    left: Arc<AtomicU64>,
}

impl DirectoryLayer for Spoils {
    type Call = ();

    fn begin(&self, _: Operation, _: &Path, _: &[&str]) -> terrace_storage::Result<()> {
        Ok(())
    }

    fn wrap(&self, file: Arc<dyn File>, directory: &Path, name: &str) -> Arc<dyn File> {
        let path = directory.join(name);
        let layer = Spoils {
            path,
            ..self.clone()
        };
        Arc::new(LayeredFile::new(file, layer))
    }
}

impl FileLayer for Spoils {
    type Call = ();

    fn begin(&self, _: FileCall) -> terrace_storage::Result<()> {
        Ok(())
    }

    fn succeeded(&self, call: FileCall) {
        let is_copied = matches!(call, FileCall::Write { purpose: Purpose::Migration, bytes, .. } if bytes > 300);
        if is_copied && self.left.load(Ordering::Relaxed) > 0 {
            self.left.fetch_sub(1, Ordering::Relaxed);
            flip(&self.disk, &self.path, 300);
        }
    }
}

/// Returns options with the slow tier on a device that spoils so many copies, and the number that is left.
fn spoiling(disk: &SimulatedStorage, copies: u64) -> (Options, Arc<AtomicU64>) {
    let left = Arc::new(AtomicU64::new(copies));
    let layer = Spoils {
        disk: disk.clone(),
        path: PathBuf::new(),
        left: Arc::clone(&left),
    };
    let options = Options {
        storage: Arc::new(LayeredStorage::within(Arc::new(disk.clone()), layer)),
        ..with_slow(options(disk))
    };
    (options, left)
}

/// The table passed for damaged, and a drain never ended.
#[test]
fn a_copy_that_came_out_damaged_is_made_again() {
    let disk = disk();
    filled(&disk);
    let (options, _) = spoiling(&disk, 1);
    let db = Db::open(STORE, options).unwrap();
    db.drain_tier("slow").unwrap();
    let statistics = db.statistics();
    assert_eq!(statistics.step_failures, 1);
    let error = statistics.last_error.unwrap();
    assert!(error.to_string().contains("came out damaged"), "{error}");
    while db.wait_for_migration().unwrap() {}
    check_moved(&db, &disk);
}

#[test]
fn copies_that_always_come_out_damaged_end() {
    let disk = disk();
    filled(&disk);
    let tables = disk.list(Path::new(SLOW)).unwrap();
    let tables = tables
        .iter()
        .filter(|entry| entry.name.ends_with(".table"))
        .count();
    let (options, spoils) = spoiling(&disk, u64::MAX);
    let db = Db::open(STORE, options).unwrap();
    db.drain_tier("slow").unwrap();
    let failures = (0..100)
        .take_while(|_| db.wait_for_migration().is_err())
        .count();
    assert_eq!(failures + 1, 3 * tables);
    assert!(!db.wait_for_migration().unwrap());
    check(&db, 0..150);
    // Another word of the operator is another chance.
    spoils.store(0, Ordering::Relaxed);
    db.drain_tier("slow").unwrap();
    while db.wait_for_migration().unwrap() {}
    check_moved(&db, &disk);
}

/// The first keyspace with anything to move came first, however urgent the others were.
#[test]
fn a_drained_tier_goes_before_moves_of_other_keyspaces() {
    let disk = disk();
    filled(&disk);
    let (storage, gate) = gated(&disk, Purpose::Migration);
    let _opened = Opened(&gate);
    let options = Options {
        storage,
        background: Background::Threads,
        tiers: vec![
            TierOptions::new("slow", SLOW),
            TierOptions::new("middle", MIDDLE),
        ],
        ..with_level_tiers(options(&disk), &["store"])
    };
    let db = Db::open(STORE, options).unwrap();
    wait_until("a table moves", || gate.held() > 0);
    assert!(db.tiers()[1].tables > 1);
    let in_middle = KeyspaceOptions {
        level_tiers: vec!["middle".to_owned()],
        ..KeyspaceOptions::default()
    };
    let other = db.create_keyspace("other", in_middle).unwrap();
    other.put("key", "value").unwrap();
    db.flush().unwrap();
    db.drain_tier("middle").unwrap();
    gate.heal();
    while db.wait_for_migration().unwrap() {}
    let moved = db
        .events()
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::TableMigrated { from, .. } => Some(from),
            _ => None,
        });
    let moved: Vec<String> = moved.collect();
    assert!(moved.len() > 2, "{moved:?}");
    assert_eq!(moved[..2], ["slow", "middle"], "{moved:?}");
}

/// The deletion waited for the migration, which waits for deletions itself.
#[test]
fn a_deletion_without_threads_does_not_wait_for_a_migration() {
    let disk = disk();
    filled(&disk);
    let (options, gate) = gated_slow(&disk, Background::Inline);
    let _opened = Opened(&gate);
    let db = Db::open(STORE, options).unwrap();
    let other = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    other.put("key", "value").unwrap();
    db.flush().unwrap();
    drop(other);
    let mover = db.clone();
    let mover = std::thread::spawn(move || mover.drain_tier("slow"));
    wait_until("a table moves", || gate.held() > 0);
    let dropper = db.clone();
    within("the drop of a keyspace", move || {
        dropper.drop_keyspace("other").unwrap()
    });
    gate.heal();
    mover.join().unwrap().unwrap();
    while db.wait_for_migration().unwrap() {}
    check_moved(&db, &disk);
}
