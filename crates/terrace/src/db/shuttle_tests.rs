//! A whole store under many schedules: a writer and readers beside flush, merge, installation and
//! deletion, each in the thread that it has in earnest.
//!
//! What readers pin must stay readable, whatever is taken out of the view meanwhile; what nobody
//! pins any more must go. Disk and memory are simulated, so that a schedule depends on its seed
//! only; a wait that nobody ends shows as a deadlock.

use std::path::Path;
use std::sync::atomic::AtomicU64 as Count;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shuttle::scheduler::{RandomScheduler, Schedule, Scheduler, Task, TaskId};
use terrace_region::{HeaderState, MemoryKind, SimulatedMemory};
use terrace_storage::{CrashSwitch, SimulatedStorage, Storage};

use super::*;
use crate::options::RegionSource;
use crate::sync::thread;
use crate::table::table_path;
use crate::{Db, IterOptions};

const SCHEDULES: usize = 1_000;
const PATH: &str = "/store";
const KEYS: u64 = 2;
const WRITES: u64 = 6;

/// A store whose writes are numbered: write `n` puts `n` under the key `n % KEYS`.
struct Stage {
    db: Db,
    storage: SimulatedStorage,
    acknowledged: Count,
}

impl Stage {
    fn new() -> Arc<Self> {
        let storage = SimulatedStorage::new(1, CrashSwitch::new());
        // Its slots are read in place: one that is used again too early takes what readers pin.
        let memory = SimulatedMemory::new(MemoryKind::Dax, 1, CrashSwitch::new());
        let options = Options {
            storage: Arc::new(storage.clone()),
            region: Some(RegionSource::new(move || Ok(Box::new(memory.clone())))),
            arena_bytes: 8 << 10,
            arena_index_bytes: 8 << 10,
            pinned_bytes: 0,
            level0_merge: 1,
            block_cache_bytes: 16 << 10,
            max_open_tables: 1,
            compaction_threads: 1,
            ..Options::default()
        };
        Arc::new(Stage {
            db: Db::open(PATH, options).unwrap(),
            storage,
            acknowledged: Count::new(0),
        })
    }

    fn store(&self) -> &Arc<Store> {
        self.db.store()
    }

    fn is_over(&self) -> bool {
        self.acknowledged.load(Ordering::SeqCst) == WRITES
    }

    /// Two writes, then a flush, which a merge follows.
    fn write(&self) {
        for number in 1..=WRITES {
            self.db.put(&key(number), &number.to_le_bytes()).unwrap();
            self.acknowledged.store(number, Ordering::SeqCst);
            if number % 2 == 0 {
                self.db.flush().unwrap();
            }
        }
    }

    fn get_what_was_acknowledged(&self) {
        for round in 0.. {
            let is_over = self.is_over();
            let least = newest(round, self.acknowledged.load(Ordering::SeqCst));
            let found = self.db.get(&key(round)).unwrap();
            let found = found.map(|value| number(&value));
            assert!(found >= least, "{found:?}, acknowledged was {least:?}");
            if is_over {
                return;
            }
        }
    }

    /// Between its moves an iterator may lose what it reads from, never what it shows.
    fn iterate_at_snapshots(&self) {
        while !self.is_over() {
            self.iterate();
        }
        self.iterate();
    }

    fn iterate(&self) {
        let snapshot = self.db.snapshot();
        let options = IterOptions {
            snapshot: Some(snapshot.clone()),
            ..IterOptions::default()
        };
        let mut iterator = self.db.iter(options).unwrap();
        iterator.seek_to_first().unwrap();
        let expected = (0..KEYS).filter_map(|key| newest(key, snapshot.sequence()));
        for expected in expected {
            thread::yield_now();
            assert_eq!(iterator.key(), key(expected));
            assert_eq!(number(iterator.value()), expected);
            iterator.next().unwrap();
        }
        assert!(!iterator.valid());
    }

    /// Holds one view for long, and looks at all that it lists.
    fn pin(&self) {
        let store = self.store();
        let view = store.view.load_full();
        while !self.is_over() {
            thread::yield_now();
            for (_, table) in view.version.tables() {
                assert!(self.is_there(table.number), "table {}", table.number);
            }
            for table in &view.memtables {
                assert_eq!(
                    self.generation(table.arena().slot()),
                    table.arena().generation()
                );
            }
        }
    }

    fn is_there(&self, table: u64) -> bool {
        let path = table_path(Path::new(PATH), table);
        let listed = self.storage.list(Path::new(PATH)).unwrap();
        listed
            .iter()
            .any(|entry| path.ends_with(Path::new(&entry.name)))
    }

    /// The generation that a slot holds on its medium.
    fn generation(&self, slot: u64) -> u64 {
        let slots = self.store().region.slots().unwrap();
        let slot = slots.into_iter().find(|info| info.number == slot).unwrap();
        match slot.header {
            HeaderState::Intact(header) => header.generation,
            other => panic!("{other:?}"),
        }
    }

    /// Nothing is left over when the last reader is gone.
    fn check_that_nothing_leaks(&self) {
        self.db.close().unwrap();
        let store = self.store();
        store.delete_now();
        let listed = store.view.load().version.tables().count();
        let files = self.storage.list(Path::new(PATH)).unwrap();
        let files = files.iter().filter(|file| file.name.ends_with(".table"));
        assert_eq!(files.count(), listed);
        assert_eq!(store.pins.pinned(), (0, 0));
        assert_eq!(store.region.pinned_slots(), 0);
        assert_eq!(store.snapshots.len(), 0);
    }
}

/// A random scheduler under which, now and then, a thread falls far behind the others.
struct Naps {
    threads: RandomScheduler,
    random: StdRng,
    asleep: Option<(TaskId, u32)>,
}

impl Naps {
    const ONE_IN_STEPS: u32 = 100;
    const LONGEST_STEPS: u32 = 3_000;

    fn new() -> Self {
        Naps {
            threads: RandomScheduler::new_from_seed(1, SCHEDULES),
            random: StdRng::seed_from_u64(1),
            asleep: None,
        }
    }

    fn is_awake(&self, task: &Task) -> bool {
        self.asleep.is_none_or(|(asleep, _)| asleep != task.id())
    }
}

impl Scheduler for Naps {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.asleep = None;
        self.threads.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.asleep = match self.asleep {
            Some((task, steps)) => (steps > 0).then(|| (task, steps - 1)),
            None if self.random.random_range(0..Self::ONE_IN_STEPS) == 0 => {
                let steps = self.random.random_range(0..Self::LONGEST_STEPS);
                current.map(|task| (task, steps))
            }
            None => None,
        };
        let awake: Vec<&Task> = runnable
            .iter()
            .copied()
            .filter(|task| self.is_awake(task))
            .collect();
        let runnable = if awake.is_empty() { runnable } else { &awake };
        self.threads.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.threads.next_u64()
    }
}

fn key(number: u64) -> Vec<u8> {
    vec![b'a' + (number % KEYS) as u8]
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

/// The newest write of a key among the first `until`.
fn newest(key: u64, until: u64) -> Option<u64> {
    (1..=until).rev().find(|number| number % KEYS == key % KEYS)
}

#[test]
fn what_readers_pin_stays_and_everything_else_goes() {
    let run = || {
        let stage = Stage::new();
        let bodies: [fn(&Stage); 4] = [
            Stage::write,
            Stage::get_what_was_acknowledged,
            Stage::iterate_at_snapshots,
            Stage::pin,
        ];
        let threads = bodies.map(|body| {
            let stage = Arc::clone(&stage);
            thread::spawn(move || body(&stage))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        let all = stage.db.get(&key(WRITES)).unwrap();
        assert_eq!(all.map(|value| number(&value)), Some(WRITES));
        stage.check_that_nothing_leaks();
    };
    let mut config = shuttle::Config::default();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(Naps::new(), config).run(run);
}
