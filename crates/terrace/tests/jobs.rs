//! Merges in slices: several at a time, installed one by one, kept by a crash or a close.

mod support;

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use support::gated::gated;
use terrace::{
    Background, Compaction, CompactionPolicy, Db, Event, EventKind, EventListener, KeyspaceOptions,
    Options,
};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation, Purpose,
    SimulatedStorage, Storage,
};

const STORE: &str = "/store";
const ROWS: u32 = 400;

/// Sends every event to the test.
#[derive(Debug)]
struct Events(Mutex<Sender<Event>>);

impl EventListener for Events {
    fn event(&self, event: &Event) {
        // The test may have heard enough.
        let _ = self.0.lock().unwrap().send(event.clone());
    }
}

fn listener() -> (Arc<dyn EventListener>, Receiver<Event>) {
    let (sender, receiver) = channel();
    (Arc::new(Events(Mutex::new(sender))), receiver)
}

/// Waits for an event. A store that never sends it ends the test with a message.
fn wait_for(events: &Receiver<Event>, what: &str, mut is_it: impl FnMut(&Event) -> bool) -> Event {
    loop {
        let event = events.recv_timeout(Duration::from_secs(60));
        let event = event.unwrap_or_else(|_| panic!("waited in vain until {what}"));
        if is_it(&event) {
            return event;
        }
    }
}

fn options(storage: Arc<dyn Storage>) -> Options {
    Options {
        storage,
        arena_bytes: 64 << 10,
        default_keyspace: KeyspaceOptions {
            block_bytes: 512,
            table_bytes: 8 << 10,
            level1_bytes: 1 << 20,
            ..KeyspaceOptions::default()
        },
        compaction_threads: 2,
        level0_merge: 2,
        background: Background::Inline,
        constants: terrace::Constants {
            slice_bytes: 8 << 10,
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

fn key(row: u32) -> Vec<u8> {
    format!("key-{:05}", row.wrapping_mul(7) % ROWS).into_bytes()
}

fn put_all(db: &Db, round: u8) {
    for row in 0..ROWS {
        db.put(key(row), [round; 100]).unwrap();
    }
}

fn check_all(db: &Db, round: u8) {
    for row in 0..ROWS {
        let found = db.get(key(row)).unwrap();
        assert_eq!(found.as_deref(), Some(&[round; 100][..]), "row {row}");
    }
    terrace::internal::check_ages(db).unwrap();
}

fn narrowed(db: &Db) -> usize {
    let levels = db.levels().keyspaces.into_iter().flat_map(|k| k.levels);
    let tables = levels.flatten().flat_map(|sub_level| sub_level.tables);
    tables.filter(|table| table.narrowed).count()
}

/// Returns a disk with one sub-level in level 0; another one begins a merge of both.
fn one_sub_level() -> SimulatedStorage {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let db = Db::open(STORE, options(Arc::new(disk.clone()))).unwrap();
    put_all(&db, 1);
    db.flush().unwrap();
    db.close().unwrap();
    disk
}

/// While merges cannot write, two threads are in two slices of one merge; a flush waits for neither.
#[test]
fn slices_of_a_merge_are_built_at_the_same_time() {
    let disk = one_sub_level();
    let (storage, gate) = gated(&disk, Purpose::Compaction);
    let (listener, events) = listener();
    let options = Options {
        background: Background::Threads,
        event_listener: Some(listener),
        ..options(storage)
    };
    let db = Db::open(STORE, options).unwrap();
    put_all(&db, 2);
    db.flush().unwrap();
    let begun = |event: &Event| matches!(event.kind, EventKind::SliceBegun { .. });
    let first = wait_for(&events, "a slice is begun", begun);
    let second = wait_for(&events, "another slice is begun", begun);
    assert_ne!(first.thread, second.thread);
    put_all(&db, 3);
    db.flush().unwrap();
    assert_eq!(db.statistics().slices, 0);
    let keyspace = &db.levels().keyspaces[0];
    let [merge] = &keyspace.merges[..] else {
        panic!("{:?}", keyspace.merges);
    };
    assert_eq!((merge.installed_slices, merge.output_bytes), (0, 0));
    assert!(merge.slices >= 4 && merge.input_tables > 4, "{merge:?}");
    assert_eq!(
        (&merge.input_levels[..], merge.output_level),
        (&[0, 1][..], 1)
    );
    assert!(keyspace.debt_bytes >= merge.input_bytes, "{keyspace:?}");
    gate.heal();
    db.compact().unwrap();
    let after = db.levels();
    assert!(after.keyspaces[0].merges.is_empty());
    // A caller that waited finds the merge that it waited for.
    let ended = after.compactions.iter().find(|past| past.job == merge.job);
    let ended = ended.unwrap();
    assert_eq!(
        (ended.entries, ended.dropped),
        (2 * u64::from(ROWS), ROWS.into())
    );
    check_all(&db, 3);
    let mut installed = Vec::new();
    for event in db.events() {
        if let EventKind::SliceInstalled { job, slice, .. } = event.kind {
            installed.push((job, slice));
        }
    }
    assert!(installed.len() >= 4, "{installed:?}");
    assert!(installed.is_sorted(), "{installed:?}");
    assert_eq!(narrowed(&db), 0);
    db.close().unwrap();
}

/// A close abandons the slice being built and keeps installed ones, under every policy.
#[test]
fn a_close_keeps_the_finished_slices_and_does_not_wait_for_the_rest() {
    use CompactionPolicy::{Dedup, Lazy, Leveled, Score, Tiered};
    for policy in [Leveled, Tiered, Lazy, Dedup, Score] {
        close_in_the_middle(policy);
    }
}

fn close_in_the_middle(compaction_policy: CompactionPolicy) {
    // Shown if the test fails.
    println!("{compaction_policy}");
    let disk = one_sub_level();
    let options = |storage| Options {
        compaction_policy,
        // The policy of the score waits for four times as many, but not until writers are slowed down.
        level0_merge: if compaction_policy == CompactionPolicy::Score {
            1
        } else {
            2
        },
        level0_slowdown: 3,
        ..options(storage)
    };
    let (listener, events) = listener();
    let (storage, gate) = gated(&disk, Purpose::Compaction);
    gate.heal();
    let threads = |storage| {
        let base = options(storage);
        Options {
            background: Background::Threads,
            compaction_threads: 1,
            default_keyspace: KeyspaceOptions {
                table_bytes: 2 << 10,
                ..base.default_keyspace
            },
            event_listener: Some(Arc::clone(&listener)),
            ..base
        }
    };
    let db = Db::open(STORE, threads(storage)).unwrap();
    put_all(&db, 2);
    // In the middle of the second slice.
    gate.hold_from(gate.count() + 6);
    db.flush().unwrap();
    let installed = |event: &Event| matches!(event.kind, EventKind::SliceInstalled { .. });
    wait_for(&events, "a slice is installed", installed);
    while gate.held() == 0 {
        std::thread::yield_now();
    }
    let closed = std::thread::scope(|scope| {
        let closing = scope.spawn(|| db.close());
        // The merge stands at the gate until it is opened, and then sees that all is over.
        wait_for_closed(&db);
        gate.heal();
        closing.join().unwrap()
    });
    closed.unwrap();
    let slices = |is_it: fn(&EventKind) -> bool| {
        let events = db.events().into_iter();
        events.filter(|event| is_it(&event.kind)).count()
    };
    assert_eq!(
        slices(|kind| matches!(kind, EventKind::SliceFailed { .. })),
        1
    );
    let kept = slices(|kind| matches!(kind, EventKind::SliceInstalled { .. }));
    assert!(kept >= 1);
    let reader = Db::open(
        STORE,
        Options {
            read_only: true,
            ..options(Arc::new(disk.clone()))
        },
    )
    .unwrap();
    let keyspaces = reader.levels().keyspaces.into_iter();
    let sub_levels = keyspaces.flat_map(|keyspace| keyspace.levels).flatten();
    let listed = sub_levels.flat_map(|sub_level| sub_level.tables);
    let files = disk.list(Path::new(STORE)).unwrap().into_iter();
    let number = |name: String| name.strip_suffix(".table")?.parse::<u64>().ok();
    // An input may still wait to be deleted; tables of the failed slice would be younger.
    assert_eq!(
        files.filter_map(|entry| number(entry.name)).max(),
        listed.map(|table| table.number).max(),
        "nothing is left of the slice that failed"
    );
    assert!(narrowed(&reader) > 0);
    check_all(&reader, 2);
    drop(reader);
    let db = Db::open(STORE, options(Arc::new(disk))).unwrap();
    db.compact().unwrap();
    assert_eq!(narrowed(&db), 0);
    check_all(&db, 2);
}

/// Waits until a close has begun: from then on writes are refused.
fn wait_for_closed(db: &Db) {
    while db.put(b"late", b"").is_ok() {
        std::thread::yield_now();
    }
}

/// Every crash point of a merge in slices: installed slices stay, and nothing is lost.
#[test]
fn a_crash_between_slices_keeps_the_finished_ones() {
    let disk = one_sub_level();
    let work = |storage: Arc<dyn Storage>| -> terrace::Result<Db> {
        let db = Db::open(STORE, options(storage))?;
        put_all(&db, 2);
        db.flush()?;
        db.compact()?;
        Ok(db)
    };
    let switch = CrashSwitch::new();
    let whole = disk.crash(CrashKind::Kill, 0, switch.clone());
    let before = {
        let db = Db::open(STORE, options(Arc::new(whole.clone()))).unwrap();
        put_all(&db, 2);
        let before = switch.count();
        db.flush().unwrap();
        let slices = db.statistics().slices;
        assert!(slices >= 4, "only {slices} slices");
        before
    };
    let steps = switch.count();
    let mut partly_merged = 0;
    for point in before..steps {
        for kind in [CrashKind::Kill, CrashKind::PowerCut] {
            let switch = CrashSwitch::new();
            let machine = disk.crash(CrashKind::Kill, point, switch.clone());
            switch.freeze_at(point);
            // The rows are acknowledged before `before`.
            let _ = work(Arc::new(machine.clone()));
            let after = machine.crash(kind, point, CrashSwitch::new());
            let reading = Options {
                read_only: true,
                ..options(Arc::new(after.clone()))
            };
            if let Ok(reader) = Db::open(STORE, reading) {
                partly_merged += u32::from(narrowed(&reader) > 0);
            }
            let db = Db::open(STORE, options(Arc::new(after))).unwrap();
            terrace::internal::check_ages(&db).unwrap();
            if kind == CrashKind::Kill {
                check_all(&db, 2);
            }
            assert_eq!(narrowed(&db), 0);
        }
    }
    assert!(partly_merged > 5, "{partly_merged} crashes between slices");
}

/// Holds the last slice of a merge back until a file has been deleted, and notes whether one was.
#[derive(Debug, Default)]
struct UntilDeleted {
    /// Slices of the merge under way, and whether files were deleted since it began.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
    deleted_by_then: Mutex<Vec<bool>>,
}

impl EventListener for UntilDeleted {
    fn event(&self, event: &Event) {
        let mut state = self.state.lock().unwrap();
        match &event.kind {
            EventKind::MergeBegun { slices, .. } => *state = (*slices, false),
            EventKind::TablesDeleted { .. } if state.0 > 0 => {
                state.1 = true;
                self.changed.notify_all();
            }
            EventKind::SliceBegun { slice, .. } if state.0 > 3 && slice + 1 == state.0 => {
                let long = Duration::from_secs(10);
                let waited = self
                    .changed
                    .wait_timeout_while(state, long, |state| !state.1);
                let deleted = waited.unwrap().0.1;
                self.deleted_by_then.lock().unwrap().push(deleted);
            }
            _ => {}
        }
    }
}

#[test]
fn inputs_are_deleted_while_their_merge_goes_on() {
    let disk = one_sub_level();
    let listener = Arc::new(UntilDeleted::default());
    let options = Options {
        background: Background::Threads,
        compaction_threads: 1,
        event_listener: Some(listener.clone()),
        ..options(Arc::new(disk))
    };
    let db = Db::open(STORE, options).unwrap();
    // Tables of a flush stay inputs to the end of a merge; tables below it end slice by slice.
    for round in 2..5 {
        put_all(&db, round);
        db.compact().unwrap();
    }
    check_all(&db, 4);
    let deleted_by_then = listener.deleted_by_then.lock().unwrap().clone();
    assert!(!deleted_by_then.is_empty(), "no merge had slices enough");
    assert!(
        deleted_by_then.iter().all(|deleted| *deleted),
        "{deleted_by_then:?}"
    );
    db.close().unwrap();
}

/// A slice that cannot be written does not undo those before it, and is done when it can be.
#[test]
fn a_failed_slice_leaves_the_others_and_is_tried_again() {
    let disk = one_sub_level();
    let filter = FaultFilter::everything().purpose(Purpose::Compaction);
    let writes = FaultPlan::new(filter.operations(&[Operation::Write, Operation::Sync]));
    let storage = FailingStorage::new(Arc::new(disk.clone()), writes.clone());
    let db = Db::open(STORE, options(Arc::new(storage))).unwrap();
    put_all(&db, 2);
    writes.fail_from(writes.count() + 5, Fault::Io);
    // The merge runs in this call and keeps its failure.
    db.flush().unwrap();
    let statistics = db.statistics();
    assert!(
        statistics.slices >= 1 && statistics.merges == 0,
        "{statistics:?}"
    );
    assert!(statistics.step_failures >= 1 && statistics.last_error.is_some());
    assert!(narrowed(&db) > 0);
    // The rest of the inputs counts in part only.
    assert_eq!(
        db.levels_with_duplicates().keyspaces[0].duplicates[0].keys,
        None
    );
    let past = db.compactions();
    let cut = past.iter().find(|past| past.installed_slices > 0).unwrap();
    assert!(cut.installed_slices < cut.slices && cut.cut_short.is_some());
    check_all(&db, 2);
    writes.heal();
    db.compact().unwrap();
    assert_eq!(narrowed(&db), 0);
    check_all(&db, 2);
    // Each part of the merge has counted the entries that it read.
    let past = db.compactions();
    let sum = |of: fn(&Compaction) -> u64| past.iter().map(of).sum::<u64>();
    let rows = u64::from(ROWS);
    assert_eq!((sum(|p| p.entries), sum(|p| p.dropped)), (2 * rows, rows));
    assert!(past.iter().all(|part| part.entries < 2 * rows));
    db.close().unwrap();
}

#[test]
fn events_tell_of_flushes_merges_and_deletions() {
    let disk = one_sub_level();
    let db = Db::open(STORE, options(Arc::new(disk))).unwrap();
    put_all(&db, 2);
    db.flush().unwrap();
    db.compact().unwrap();
    let events = db.events();
    let has = |is_it: fn(&EventKind) -> bool| events.iter().any(|event| is_it(&event.kind));
    assert!(has(|kind| matches!(
        kind,
        EventKind::FlushEnded { tables: 1, .. }
    )));
    assert!(has(|kind| matches!(
        kind,
        EventKind::MergeBegun {
            output_level: 1,
            ..
        }
    )));
    assert!(has(
        |kind| matches!(kind, EventKind::MergeEnded { installed, slices, .. } if installed == slices)
    ));
    assert!(has(|kind| matches!(kind, EventKind::TablesDeleted { .. })));
    let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("because level 0 has 2 sub-levels")),
        "{lines:#?}"
    );
}

#[test]
fn stopped_writers_are_told_of() {
    let disk = one_sub_level();
    let filter = FaultFilter::everything().purpose(Purpose::Compaction);
    let merges = FaultPlan::new(filter);
    let options = Options {
        level0_slowdown: 2,
        constants: terrace::Constants {
            level0_stop: Some(3),
            slice_bytes: 8 << 10,
            ..terrace::Constants::default()
        },
        ..options(Arc::new(FailingStorage::new(
            Arc::new(disk),
            merges.clone(),
        )))
    };
    let db = Db::open(STORE, options).unwrap();
    merges.fail_from(merges.count(), Fault::Io);
    let sub_levels = || db.levels().keyspaces[0].levels[0].len();
    while sub_levels() < 3 {
        db.put(key(1), b"value").unwrap();
        db.flush().unwrap();
    }
    merges.heal();
    let stopped = |event: &Event| matches!(event.kind, EventKind::WritersStopped { .. });
    assert!(!db.events().iter().any(stopped));
    db.put(b"key", b"").unwrap();
    assert!(db.events().iter().any(stopped));
    assert_eq!(sub_levels(), 0);
}
