//! Reads, writes, compare-and-sets and updates of several threads, recorded and checked: there must
//! be one order of all operations, true to their results, in which every operation lies between its
//! call and its return (linearisability). Keys are independent, so each is checked for itself.
//!
//! The search is Wing and Gong's, with the states seen remembered (Lowe): take any operation that no
//! pending one had to come before, apply it, go on; step back where the results disagree.
//!
//! `TERRACE_HISTORIES` sets how many histories are recorded (10 by default).

mod support;

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::script::tiny;
use terrace::{Db, Options};

/// A value; 0 for none. Values are unique but for those that compare-and-set goes back to.
type Value = u64;

#[derive(Clone, Copy, Debug)]
enum Action {
    Get(Value),
    Put(Value),
    CompareAndSet {
        expected: Value,
        new: Value,
        done: bool,
    },
    /// Adds one; has the value that it found.
    Update(Value),
}

impl Action {
    /// Returns the value after it, if it may come when the value is `value`.
    fn apply(self, value: Value) -> Option<Value> {
        match self {
            Action::Get(found) => (found == value).then_some(value),
            Action::Put(new) => Some(new),
            Action::CompareAndSet {
                expected,
                new,
                done,
            } => match (expected == value, done) {
                (true, true) => Some(new),
                (false, false) => Some(value),
                _ => None,
            },
            Action::Update(found) => (found == value).then_some(value + 1),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Event {
    action: Action,
    called: u64,
    returned: u64,
}

/// Returns whether some order explains the events. They are sorted by their calls.
fn is_linearizable(events: &[Event]) -> bool {
    let mut seen = HashSet::new();
    // Applied events: all before the first number, and these behind it.
    let mut stack = vec![(0usize, BTreeSet::<usize>::new(), 0 as Value)];
    while let Some(state) = stack.pop() {
        if state.0 == events.len() {
            return true;
        }
        if !seen.insert(state.clone()) {
            continue;
        }
        let (first, applied, value) = state;
        let mut earliest_return = u64::MAX;
        for (at, event) in events.iter().enumerate().skip(first) {
            // An operation that is called after another one has returned comes after it.
            if event.called > earliest_return {
                break;
            }
            if applied.contains(&at) {
                continue;
            }
            earliest_return = earliest_return.min(event.returned);
            let Some(next) = event.action.apply(value) else {
                continue;
            };
            let (mut first, mut applied) = (first, applied.clone());
            applied.insert(at);
            while applied.remove(&first) {
                first += 1;
            }
            stack.push((first, applied, next));
        }
    }
    false
}

fn number(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(0, |bytes| {
        u64::from_be_bytes(bytes[..8].try_into().unwrap())
    })
}

fn bytes(value: Value) -> Vec<u8> {
    // Long enough to fill arenas: flushes take MemTables away from conflict checks.
    let mut bytes = vec![0; 120];
    bytes[..8].copy_from_slice(&value.to_be_bytes());
    bytes
}

/// Runs threads against a store, and returns each key's events.
fn record(seed: u64, keys: u64) -> Vec<Vec<Event>> {
    const THREADS: u64 = 4;
    const EACH: usize = 300;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    let clock = AtomicU64::new(0);
    let unique = AtomicU64::new(1);
    let histories: Vec<Mutex<Vec<Event>>> = (0..keys).map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, clock, unique, histories) = (&db, &clock, &unique, &histories);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed << 8 | thread);
                let mut last = vec![0; keys as usize];
                for _ in 0..EACH {
                    let key_number = random.random_range(0..keys);
                    let key = key_number.to_be_bytes();
                    let last = &mut last[key_number as usize];
                    let new = unique.fetch_add(1, Ordering::Relaxed) << 20;
                    let called = clock.fetch_add(1, Ordering::SeqCst);
                    let action = match random.random_range(0..10) {
                        0..3 => Action::Get(number(db.get(key).unwrap().as_deref())),
                        // Past the arenas now and then: such a write has no record in a MemTable.
                        3 if random.random_ratio(1, 3) => {
                            let mut load = db.ingest().unwrap();
                            load.put(key, bytes(new)).unwrap();
                            load.finish().unwrap();
                            Action::Put(new)
                        }
                        3 => {
                            db.put(key, bytes(new)).unwrap();
                            Action::Put(new)
                        }
                        4..7 => {
                            let expected = *last;
                            let old = (expected > 0).then(|| bytes(expected));
                            let done = db.compare_and_set(key, old.as_deref(), Some(&bytes(new)));
                            Action::CompareAndSet {
                                expected,
                                new,
                                done: done.unwrap(),
                            }
                        }
                        _ => {
                            let more = |found: Option<&[u8]>| Some(bytes(number(found) + 1));
                            let found = db.fetch_and_update(key, more).unwrap();
                            Action::Update(number(found.as_deref()))
                        }
                    };
                    let returned = clock.fetch_add(1, Ordering::SeqCst);
                    *last = match action {
                        Action::Get(value) | Action::Put(value) => value,
                        Action::CompareAndSet {
                            new, done: true, ..
                        } => new,
                        Action::CompareAndSet { expected, .. } => expected,
                        Action::Update(value) => value + 1,
                    };
                    histories[key_number as usize].lock().unwrap().push(Event {
                        action,
                        called,
                        returned,
                    });
                }
            });
        }
    });
    histories
        .into_iter()
        .map(|history| {
            let mut events = history.into_inner().unwrap();
            events.sort_by_key(|event| event.called);
            events
        })
        .collect()
}

#[test]
fn every_recorded_history_is_linearizable() {
    let mut done = 0;
    for seed in 0..support::scale("TERRACE_HISTORIES", 10) {
        for events in record(seed, 1 + seed % 3) {
            done += events
                .iter()
                .filter(|event| matches!(event.action, Action::CompareAndSet { done: true, .. }))
                .count();
            assert!(is_linearizable(&events), "history {seed}: {events:?}");
        }
    }
    assert!(
        done > 100,
        "{done} successful compare-and-sets are too few to tell"
    );
}

#[test]
fn the_checker_tells_lost_updates_and_stale_reads() {
    let event = |action, called, returned| Event {
        action,
        called,
        returned,
    };
    let ok = [
        event(Action::Update(0), 0, 3),
        event(Action::Update(1), 1, 2),
        event(Action::Get(2), 4, 5),
    ];
    assert!(!is_linearizable(&[ok[1], ok[2]]), "nobody wrote 1");
    assert!(is_linearizable(&ok));
    let lost = [
        event(Action::Update(0), 0, 3),
        event(Action::Update(0), 1, 2),
    ];
    assert!(!is_linearizable(&lost));
    let stale = [event(Action::Put(5), 0, 1), event(Action::Get(0), 2, 3)];
    assert!(!is_linearizable(&stale));
    let both = [
        event(
            Action::CompareAndSet {
                expected: 0,
                new: 1,
                done: true,
            },
            0,
            2,
        ),
        event(
            Action::CompareAndSet {
                expected: 0,
                new: 2,
                done: true,
            },
            1,
            3,
        ),
    ];
    assert!(!is_linearizable(&both));
}
