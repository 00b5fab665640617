//! Forwards, back-fills, evictions, snapshots and floors beside one another, under thousands of
//! schedules, with a model that knows every reader's answer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool as Flag;

use terrace_lsm::sync::{schedules, thread};

use terrace_lsm::key::Kind;
use terrace_lsm::table::key_hash;

use super::*;
use crate::WriteBatch;

const SEED: u64 = 5;
const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;
const SCHEDULES: usize = 2_000;
/// Number of changes of priorities in a schedule.
const CHANGES: usize = 3;
const WRITES: u64 = 9;
/// Deletes everything, as a record that names no key.
const RANGE_DELETE: u64 = 3;
const DELETE: u64 = 6;
/// Fills that a reader makes of other keys; more than fit.
const OTHERS: u64 = 3;

const KEYS: [&[u8]; 2] = [b"a", b"b"];

/// Returns the effect of write `number` on a key.
fn write_of(number: u64, key: usize) -> Option<(Kind, Vec<u8>)> {
    let of_key = number as usize % 2 == key;
    match number {
        RANGE_DELETE => Some((Kind::RangeDelete, Vec::new())),
        _ if !of_key => None,
        DELETE => Some((Kind::Delete, Vec::new())),
        // Of different lengths, so that some are put in place and some elsewhere.
        _ => Some((Kind::Put, vec![number as u8; number as usize * 9])),
    }
}

/// Returns the newest version of a key up to a number, as the tables would give it.
fn newest(key: usize, until: u64) -> Option<(u64, Option<Vec<u8>>)> {
    let writes = (1..=until).rev();
    let (number, (kind, value)) = writes
        .filter_map(|number| Some((number, write_of(number, key)?)))
        .next()?;
    match kind {
        Kind::Put => Some((number, Some(value))),
        // A key that a range delete covers is not found at all.
        Kind::RangeDelete => None,
        _ => Some((number, None)),
    }
}

struct Stage {
    buffer: ReadBuffer,
    visible: AtomicU64,
}

impl Stage {
    /// Writes as the leader does.
    fn write(&self) {
        for number in 1..=WRITES {
            let mut batch = WriteBatch::new();
            let key = number as usize % 2;
            let (kind, value) = write_of(number, key).unwrap();
            batch.push(kind, KEYSPACE, KEYS[key], &value).unwrap();
            self.buffer.forward(&batch, number);
            self.visible.store(number, Ordering::Release);
        }
    }

    /// Reads as a get does, and looks again at the same snapshot later.
    fn read(&self) {
        for round in 0..6 {
            let snapshot = self.visible.load(Ordering::Acquire);
            for key in [round % 2, 1 - round % 2] {
                self.check(key, snapshot);
                self.offer(key, snapshot);
                self.check(key, self.visible.load(Ordering::Acquire));
            }
            self.check(round % 2, snapshot);
        }
    }

    fn check(&self, key: usize, snapshot: u64) {
        let hashed = Key::new(KEYSPACE, KEYS[key], key_hash(KEYS[key], SEED));
        let Some(found) = self.buffer.get(&hashed, snapshot) else {
            return;
        };
        let found = match found {
            Found::Value(value) => Some(value.to_vec()),
            Found::Absent => None,
        };
        let wanted = newest(key, snapshot).and_then(|(_, value)| value);
        assert_eq!(found, wanted, "key {key} at {snapshot}");
    }

    /// Offers the version that a read at a number finds.
    fn offer(&self, key: usize, snapshot: u64) {
        let Some((sequence, value)) = newest(key, snapshot) else {
            return;
        };
        let hashed = Key::new(KEYSPACE, KEYS[key], key_hash(KEYS[key], SEED));
        let value = value.as_deref();
        self.buffer
            .fill(&hashed, Version { sequence, value }, snapshot);
    }

    /// Makes blocks fit, and fit no more.
    fn weigh(&self) {
        for number in 0..2 * WRITES {
            self.buffer.weigh_blocks(10 * ((number + 1) % 2), 1);
            thread::yield_now();
        }
    }

    /// Fills other keys, so that these have to go.
    fn crowd(&self) {
        for number in 0..OTHERS {
            let key = [b"other".as_slice(), &[number as u8]].concat();
            let hashed = Key::new(KEYSPACE, &key, key_hash(&key, SEED));
            for _ in 0..2 {
                let value = Some([9; 200].as_slice());
                self.buffer
                    .fill(&hashed, Version { sequence: 0, value }, WRITES);
            }
        }
    }
}

/// Runs the threads' bodies beside a writer under many schedules. A buffer that has to pay for itself
/// sleeps through some.
fn explore(options: Settings, bodies: &'static [fn(&Stage)]) {
    let has_woken = Arc::new(Flag::new(false));
    let woke = Arc::clone(&has_woken);
    let run = move || {
        // A bucket or two and a few entries in the hash; the tree counts more for itself.
        let capacity_bytes = match options.structure {
            ReadBufferStructure::Hash => 1 << 10,
            ReadBufferStructure::Ordered => (32 << 10) + (6 << 10),
        };
        let stage = Arc::new(Stage {
            buffer: ReadBuffer::new(options, capacity_bytes, SEED),
            visible: AtomicU64::new(0),
        });
        let threads: Vec<_> = bodies
            .iter()
            .map(|body| {
                let stage = Arc::clone(&stage);
                thread::spawn(move || body(&stage))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        for key in 0..KEYS.len() {
            (0..=WRITES).for_each(|snapshot| stage.check(key, snapshot));
        }
        let is_made = stage.buffer.structure.get().is_some();
        assert!(
            is_made || !options.while_blocks_fit,
            "it has slept through all"
        );
        woke.fetch_or(is_made, Ordering::SeqCst);
    };
    schedules::check_random(run, SCHEDULES);
    assert!(has_woken.load(Ordering::SeqCst), "it never woke");
}

fn explore_awake(policy: ForwardPolicy, structure: ReadBufferStructure) {
    let options = Settings {
        policy,
        structure,
        while_blocks_fit: true,
    };
    explore(
        options,
        &[Stage::write, Stage::read, Stage::read, Stage::crowd],
    );
}

#[test]
fn readers_of_the_hash_see_what_their_snapshot_holds() {
    explore_awake(ForwardPolicy::Resident, ReadBufferStructure::Hash);
    explore_awake(ForwardPolicy::All, ReadBufferStructure::Hash);
}

#[test]
fn readers_of_the_tree_see_what_their_snapshot_holds() {
    explore_awake(ForwardPolicy::Resident, ReadBufferStructure::Ordered);
    explore_awake(ForwardPolicy::All, ReadBufferStructure::Ordered);
}

#[test]
fn a_buffer_that_is_sent_to_sleep_and_woken_shows_what_snapshots_hold() {
    for structure in [ReadBufferStructure::Hash, ReadBufferStructure::Ordered] {
        let options = Settings {
            structure,
            ..Settings::default()
        };
        explore(
            options,
            &[Stage::write, Stage::read, Stage::read, Stage::weigh],
        );
    }
}

/// Runs one back-fill beside one forward of the same key, with the buffer asleep or awake before:
/// the old value never stays.
#[test]
fn a_fill_and_a_forward_notice_one_another() {
    let (old, new) = ([1; 8], [2; 8]);
    let run = move |structure, is_awake: bool| {
        let options = Settings {
            structure,
            while_blocks_fit: true,
            ..Settings::default()
        };
        let buffer = Arc::new(ReadBuffer::new(options, 64 << 10, SEED));
        let key = Key::new(KEYSPACE, KEYS[0], key_hash(KEYS[0], SEED));
        let value = Some(old.as_slice());
        let offer = move |buffer: &ReadBuffer| {
            buffer.fill(
                &key,
                Version {
                    sequence: 1,
                    value: Some(&old),
                },
                4,
            );
        };
        if is_awake {
            // Another key wakes it: this one must not be held when the two meet.
            let other = Key::new(KEYSPACE, KEYS[1], key_hash(KEYS[1], SEED));
            buffer.fill(&other, Version { sequence: 1, value }, 4);
        }
        let filling = thread::spawn({
            let buffer = Arc::clone(&buffer);
            move || (0..2).for_each(|_| offer(&buffer))
        });
        let mut batch = WriteBatch::new();
        batch.put(KEYS[0], new).unwrap();
        buffer.forward(&batch, 5);
        filling.join().unwrap();
        let found = buffer.get(&key, 5);
        assert_ne!(found, Some(Found::Value(old.into())));
        assert!(buffer.structure.get().is_some(), "it has slept through all");
    };
    for structure in [ReadBufferStructure::Hash, ReadBufferStructure::Ordered] {
        for is_awake in [false, true] {
            // One thread goes far while the other stands at a point: a scheduler with priorities
            // tries that, and one that tosses a coin at every step hardly ever does.
            schedules::check_pct(move || run(structure, is_awake), SCHEDULES, CHANGES);
        }
    }
}
