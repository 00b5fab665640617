//! Writes, readers and ingests beside one another, under thousands of schedules, with a model of
//! every reader's view.

use terrace_lsm::sync::{schedules, thread};

use super::*;
use crate::WriteBatch;

const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;
const SCHEDULES: usize = 4_000;
/// The number of priority changes in a schedule.
const CHANGES: usize = 3;
const KEYS: u8 = 3;
/// The action of the write with a number, counted from 1: puts a key, deletes one, or ingests one.
const WRITES: [(char, u8); 8] = [
    ('d', 0),
    ('p', 1),
    ('d', 1),
    ('p', 0),
    ('d', 0),
    ('i', 2),
    ('d', 2),
    ('d', 1),
];

/// Returns whether a key is visible to a reader at a number.
fn is_visible(key: u8, snapshot: u64) -> bool {
    let seen = WRITES.iter().take(snapshot as usize);
    let newest = seen.rev().find(|(_, of)| *of == key);
    newest.is_some_and(|(what, _)| *what != 'd')
}

struct Stage {
    /// Number of writes, and of times that each reader reads.
    writes: usize,
    reads: usize,
    stretches: EmptyStretches,
    last_written: Mutex<u64>,
    visible: AtomicU64,
}

impl Stage {
    fn new(writes: usize, reads: usize) -> Self {
        Stage {
            writes,
            reads,
            stretches: EmptyStretches::default(),
            last_written: Mutex::new(0),
            visible: AtomicU64::new(0),
        }
    }

    fn write(&self) {
        for (number, (what, key)) in (1..).zip(WRITES).take(self.writes) {
            let mut last_written = self.last_written.lock();
            let mut batch = WriteBatch::new();
            match what {
                'p' => batch.put([key], b"").unwrap(),
                'd' => batch.delete([key]).unwrap(),
                _ => {}
            };
            *last_written = number;
            match what {
                'i' => self.stretches.forget(KEYSPACE),
                _ => self.stretches.tell(&[batch.payload()], number),
            }
            self.visible.store(number, Ordering::Release);
        }
    }

    fn read(&self) {
        for _ in 0..self.reads {
            let snapshot = self.visible.load(Ordering::Acquire);
            self.check(snapshot);
            // The longest stretch without a visible key.
            let mut seen: Option<(u8, u8)> = None;
            for from in 0..KEYS {
                let end = (from..KEYS).find(|&key| is_visible(key, snapshot));
                let end = end.unwrap_or(KEYS);
                if end > from && seen.is_none_or(|(from, to)| to - from < end - from) {
                    seen = Some((from, end));
                }
            }
            if let Some((from, to)) = seen {
                let keys = Keys {
                    from: vec![from],
                    to: vec![to],
                };
                let written = || self.last_written.try_lock().map(|last| *last);
                self.stretches.offer(KEYSPACE, keys, snapshot, written);
            }
            self.check(snapshot);
            self.check(self.visible.load(Ordering::Acquire));
        }
    }

    fn check(&self, snapshot: u64) {
        for key in 0..KEYS {
            let stretch = self.stretches.around(KEYSPACE, &[key], snapshot);
            let is_hidden = stretch.is_some();
            assert!(!is_hidden || !is_visible(key, snapshot), "{key}@{snapshot}");
        }
    }
}

fn run(writes: usize, reads: usize) {
    let stage = Arc::new(Stage::new(writes, reads));
    let writer = {
        let stage = Arc::clone(&stage);
        thread::spawn(move || stage.write())
    };
    let readers = [0, 1].map(|_| {
        let stage = Arc::clone(&stage);
        thread::spawn(move || stage.read())
    });
    writer.join().unwrap();
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    stage.read();
}

#[test]
fn no_stretch_hides_what_a_reader_is_to_see() {
    schedules::check_pct(|| run(WRITES.len(), 6), SCHEDULES, CHANGES);
    schedules::check_random(|| run(WRITES.len(), 6), SCHEDULES);
}

/// One reader announces a candidate and the other one proves it, beside a first put.
#[test]
fn no_write_passes_by_a_candidate_that_is_being_announced() {
    schedules::check_pct(|| run(2, 1), 5 * SCHEDULES, CHANGES);
}
