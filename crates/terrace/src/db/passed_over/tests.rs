//! Two places of hidden keys in one keyspace: it remembers one stretch, so iterators pass over the rest.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_lsm::cursor::steps;
use terrace_storage::Clock;

use crate::{
    Background, CompactionPolicy, Db, Error, Event, EventKind, EventListener, IterOptions, Options,
    Snapshot,
};

/// A calendar that the test moves.
#[derive(Debug, Default)]
struct Calendar(AtomicU64);

impl Calendar {
    fn pass_seconds(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for Calendar {
    fn now_ns(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {}

    fn unix_seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn store(options: Options) -> (Db, Arc<Calendar>) {
    let calendar = Arc::new(Calendar(AtomicU64::new(1_000)));
    let options = Options {
        background: Background::Inline,
        ..options
    };
    let clock: Arc<dyn Clock> = calendar.clone();
    let db = Db::open_on("/store".as_ref(), options, clock).unwrap();
    (db, calendar)
}

fn key(queue: u8, number: u32) -> Vec<u8> {
    [&[queue][..], &number.to_be_bytes()].concat()
}

/// Returns the first key of a queue, and the number of steps to it.
fn first(db: &Db, queue: u8) -> (u64, Option<Vec<u8>>) {
    let mut iterator = db.iter(IterOptions::prefix([queue])).unwrap();
    let (taken, moved) = steps::of(|| iterator.seek_to_first());
    moved.unwrap();
    (taken, iterator.valid().then(|| iterator.key().to_vec()))
}

const ENTRIES: u32 = 6_000;

/// Takes the entries of two queues in turn. Returns the mean number of steps of a pop, and the
/// number of flushes of all pops.
fn pops(seconds_between: u64) -> (u64, u64) {
    let (db, calendar) = store(Options::in_memory());
    for queue in [1, 2] {
        for number in 0..ENTRIES {
            db.put(key(queue, number), [7; 10]).unwrap();
        }
    }
    let before = db.statistics().flushes;
    let mut all = 0;
    for number in 0..ENTRIES {
        for queue in [1, 2] {
            let (steps, found) = first(&db, queue);
            assert_eq!(found, Some(key(queue, number)));
            all += steps;
            db.delete(key(queue, number)).unwrap();
        }
        calendar.pass_seconds(seconds_between);
    }
    for queue in [1, 2] {
        assert_eq!(first(&db, queue).1, None);
    }
    (
        all / u64::from(2 * ENTRIES),
        db.statistics().flushes - before,
    )
}

#[test]
fn queues_that_take_the_stretch_from_one_another_pay_for_flushes_a_second_apart() {
    let (far_steps, far_flushes) = pops(2);
    let (near_steps, near_flushes) = pops(0);
    assert_eq!(near_flushes, 1);
    // A key takes three steps at most, and 65,536 of them pay for a flush.
    let most = far_steps * u64::from(2 * ENTRIES) / 65_536 + 1;
    assert!((5..=most).contains(&far_flushes), "{far_flushes} flushes");
    assert!(far_steps * 2 < near_steps, "{far_steps}, {near_steps}");
}

/// Returns a store with an old sub-level, and a younger one in which a quarter are tombstones, in
/// two places. A snapshot is in the way of their merge.
fn with_tombstones_in_a_table() -> (Db, Snapshot) {
    let (db, _) = store(Options {
        compaction_policy: CompactionPolicy::Tiered,
        level0_merge: 8,
        ..Options::in_memory()
    });
    for number in 0..8_000 {
        db.put(key(1, number), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    for number in 0..8_000 {
        match number % 4_000 {
            100..1_100 => db.delete(key(1, number)).unwrap(),
            _ => db.put(key(1, number), [8; 100]).unwrap(),
        }
    }
    let snapshot = db.snapshot();
    db.put(b"last", b"").unwrap();
    db.flush().unwrap();
    (db, snapshot)
}

fn seek(db: &Db, number: u32) -> u64 {
    let mut iterator = db.iter(IterOptions::default()).unwrap();
    let (taken, moved) = steps::of(|| iterator.seek(key(1, number)));
    moved.unwrap();
    let behind = number / 4_000 * 4_000 + 1_100;
    assert_eq!(iterator.key(), key(1, behind));
    taken
}

fn merges_for_iterators(db: &Db) -> usize {
    let is_for_iterators = |kind: &EventKind| match kind {
        EventKind::MergeBegun { reason, .. } => reason.starts_with("iterators often pass over"),
        _ => false,
    };
    let events = db.events().into_iter();
    events.filter(|event| is_for_iterators(&event.kind)).count()
}

#[test]
fn tombstones_of_a_table_that_iterators_pass_over_pay_for_its_merge() {
    let (db, snapshot) = with_tombstones_in_a_table();
    drop(snapshot);
    assert!(seek(&db, 100) > 1_000);
    let mut seeks = 0;
    while merges_for_iterators(&db) == 0 && seeks < 1_000 {
        seek(&db, 100);
        seek(&db, 4_100);
        seeks += 2;
    }
    // 1,000 keys of 16 bytes each, and a merge costs a mebibyte at least.
    assert!((60..1_000).contains(&seeks), "{seeks}");
    for number in [100, 4_100] {
        let steps = seek(&db, number);
        assert!(steps < 64, "{steps}");
    }
}

#[test]
fn a_merge_that_a_snapshot_is_in_the_way_of_begins_when_it_is_gone() {
    let (db, snapshot) = with_tombstones_in_a_table();
    for _ in 0..500 {
        seek(&db, 100);
        seek(&db, 4_100);
    }
    db.compact().unwrap();
    assert_eq!(merges_for_iterators(&db), 0);
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(merges_for_iterators(&db), 1);
}

/// Returns a store of rows with two places of deleted ones between them.
fn with_tombstones_in_the_arena(options: Options) -> (Db, Arc<Calendar>) {
    let (db, calendar) = store(options);
    for number in 0..6_001 {
        db.put(key(1, number), b"").unwrap();
    }
    for number in (0..6_001).filter(|number| number % 3_000 != 0) {
        db.delete(key(1, number)).unwrap();
    }
    (db, calendar)
}

fn walk(db: &Db) {
    let mut rows = db.iter(IterOptions::default()).unwrap();
    rows.seek_to_first().unwrap();
    for number in [0, 3_000, 6_000] {
        assert_eq!(rows.key(), key(1, number));
        rows.next().unwrap();
    }
    assert!(!rows.valid());
}

#[test]
fn steps_pay_as_seeks_do_and_begin_what_is_due() {
    let (db, _) = with_tombstones_in_the_arena(Options::in_memory());
    let before = db.statistics().flushes;
    for _ in 0..10 {
        walk(&db);
    }
    assert_eq!(db.statistics().flushes, before, "60,000 keys are too few");
    for _ in 0..3 {
        walk(&db);
    }
    assert_eq!(db.statistics().flushes, before + 1);
}

/// A listener that writes when a flush begins.
#[derive(Default)]
struct Writes {
    db: Mutex<Option<Db>>,
    refused: AtomicU64,
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writes")
    }
}

impl EventListener for Writes {
    fn event(&self, event: &Event) {
        if let (EventKind::FlushBegun { .. }, Some(db)) = (&event.kind, &*self.db.lock().unwrap()) {
            let error = db.put(b"from the listener", b"").unwrap_err();
            assert!(matches!(error, Error::CalledFromListener), "{error}");
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_listener_of_a_flush_that_an_iterator_buys_is_told_that_it_may_not_write() {
    let listener = Arc::new(Writes::default());
    let (db, _) = with_tombstones_in_the_arena(Options {
        event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
        ..Options::in_memory()
    });
    *listener.db.lock().unwrap() = Some(db.clone());
    for _ in 0..13 {
        walk(&db);
    }
    assert_eq!(listener.refused.load(Ordering::Relaxed), 1);
    // The listener belongs to the store: a store in it would keep both for ever.
    listener.db.lock().unwrap().take();
    db.put(b"afterwards", b"").unwrap();
}
