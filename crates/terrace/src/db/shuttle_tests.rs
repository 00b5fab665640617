//! A whole store under many schedules: a writer and readers beside flush, merge, installation and
//! deletion, each in the thread that it has in earnest.
//!
//! Tables and arenas that readers pin must stay readable, whatever is taken out of the view
//! meanwhile; those without a pin must go. Disk and memory are simulated, and random numbers have a
//! seed: a run repeats. A wait that no thread ends shows as a deadlock. `TERRACE_SHUTTLE_SCHEDULES`
//! sets the number of schedules.

mod naps;

use std::path::Path;
use std::sync::atomic::AtomicU64 as Count;

use terrace_lsm::data_files::{self, FileId};
use terrace_lsm::sync::thread;
use terrace_region::{HeaderState, MemoryKind, SimulatedMemory};
use terrace_storage::{CrashSwitch, SimulatedStorage, Storage};

use self::naps::Naps;
use super::*;
use crate::options::RegionSource;
use crate::randomness::Randomness;
use crate::{Db, IterOptions, ReadOptions};

/// Number of schedules, unless the environment says otherwise.
const SCHEDULES: usize = 1_000;
const PATH: &str = "/store";
const KEYS: u64 = 2;
const WRITES: u64 = 6;

/// A store whose writes are numbered: write `n` puts `n` under the key `n % KEYS`.
struct Stage {
    db: Db,
    options: Options,
    storage: SimulatedStorage,
    acknowledged: Count,
}

impl Stage {
    fn new() -> Arc<Self> {
        let storage = SimulatedStorage::new(1, CrashSwitch::new());
        // Its slots are read in place: one that is used again too early overwrites pinned contents.
        let memory = SimulatedMemory::new(MemoryKind::Dax, 1, CrashSwitch::new());
        let options = Options {
            storage: Arc::new(storage.clone()),
            region: Some(RegionSource::new(move || Ok(Box::new(memory.clone())))),
            arena_bytes: 8 << 10,
            level0_merge: 1,
            cache_bytes: 16 << 10,
            max_open_tables: Some(1),
            compaction_threads: 1,
            randomness: Randomness::seeded(1),
            constants: crate::Constants {
                arena_index_bytes: Some(8 << 10),
                pinned_bytes: Some(0),
                while_blocks_fit: true,
                ..crate::Constants::default()
            },
            ..Options::default()
        };
        Arc::new(Stage {
            db: Db::open(PATH, options.clone()).unwrap(),
            options,
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

    /// Makes two writes, then a flush, which a merge follows.
    fn write(&self) -> Result<()> {
        for number in 1..=WRITES {
            self.db.put(key(number), number.to_le_bytes())?;
            self.acknowledged.store(number, Ordering::SeqCst);
            if number % 2 == 0 {
                self.db.flush()?;
            }
        }
        Ok(())
    }

    fn get(&self) -> Result<()> {
        let mut round = 0;
        while !self.is_over() {
            self.check_get(&self.db, round)?;
            round += 1;
        }
        self.check_get(&self.db, round)
    }

    fn check_gets(&self, db: &Db) {
        (0..KEYS).for_each(|key| self.check_get(db, key).unwrap());
    }

    /// Checks that a get finds the acknowledged value, or a newer one.
    fn check_get(&self, db: &Db, key_number: u64) -> Result<()> {
        let least = newest(key_number, self.acknowledged.load(Ordering::SeqCst));
        let found = db.get(key(key_number))?;
        let found = found.map(|value| number(&value));
        assert!(found >= least, "{found:?}, acknowledged was {least:?}");
        Ok(())
    }

    /// Checks that a snapshot shows its own state, whatever the read buffer has by then.
    fn get_at_snapshots(&self) -> Result<()> {
        let mut round = 0;
        while !self.is_over() {
            let snapshot = self.db.snapshot();
            let options = ReadOptions::at(&snapshot);
            for _ in 0..3 {
                let found = self.db.get_with(key(round), &options)?;
                let found = found.map(|value| number(&value));
                assert_eq!(found, newest(round, snapshot.sequence()));
            }
            round += 1;
        }
        Ok(())
    }

    /// Moves iterators. Between moves an iterator may lose its source, never the state that it
    /// shows.
    fn iterate(&self) -> Result<()> {
        while !self.is_over() {
            self.iterate_at_a_snapshot()?;
        }
        self.iterate_at_a_snapshot()
    }

    fn iterate_at_a_snapshot(&self) -> Result<()> {
        let snapshot = self.db.snapshot();
        let options = IterOptions {
            snapshot: Some(snapshot.clone()),
            ..IterOptions::default()
        };
        let mut iterator = self.db.iter(options)?;
        iterator.seek_to_first()?;
        let expected = (0..KEYS).filter_map(|key| newest(key, snapshot.sequence()));
        for expected in expected {
            thread::yield_now();
            assert_eq!(iterator.key(), key(expected));
            assert_eq!(number(iterator.value()), expected);
            iterator.next()?;
        }
        assert!(!iterator.valid());
        Ok(())
    }

    /// Holds one view for long, and looks at all that it lists.
    fn pin(&self) -> Result<()> {
        let store = self.store();
        let view = store.reads.view.load_full();
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
        Ok(())
    }

    /// Counts to two in transactions, each time into another arena.
    fn count_in_transactions(&self) -> Result<()> {
        for _ in 0..2 {
            loop {
                let mut transaction = self.db.transaction()?;
                let count = transaction.get(b"count")?.map_or(0, |bytes| number(&bytes));
                transaction.put(b"count", (count + 1).to_le_bytes())?;
                match transaction.commit() {
                    Err(Error::Conflict { .. }) => thread::yield_now(),
                    committed => break committed?,
                }
            }
            self.store()
                .as_leader(|writer| self.store().seal_active(writer))?;
        }
        Ok(())
    }

    /// Puts a key in a range if it finds the range empty.
    fn take_place(&self) -> Result<()> {
        let mut transaction = self.db.transaction()?;
        if transaction.prefix("place ")?.next().is_some() {
            return Ok(());
        }
        let taken = self.acknowledged.fetch_add(1, Ordering::SeqCst);
        transaction.put(format!("place {taken}"), b"")?;
        match transaction.commit() {
            Err(Error::Conflict { .. }) => Ok(()),
            committed => committed,
        }
    }

    /// Flushes, so that changes are in tables when a commit looks for them.
    fn flush_twice(&self) -> Result<()> {
        self.db.flush()?;
        self.db.flush()
    }

    /// Counts to two, each time into another arena: a reader meanwhile may have a view without it.
    fn count(&self) -> Result<()> {
        for _ in 0..2 {
            let more =
                |count: Option<&[u8]>| Some((count.map_or(0, number) + 1).to_le_bytes().to_vec());
            self.db.fetch_and_update(b"count", more)?;
            self.store()
                .as_leader(|writer| self.store().seal_active(writer))?;
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        while self.acknowledged.load(Ordering::SeqCst) < WRITES / 2 {
            thread::yield_now();
        }
        self.db.close()
    }

    fn is_there(&self, table: u64) -> bool {
        let name = FileId::table(table).name(data_files::Stage::Listed);
        let listed = self.storage.list(Path::new(PATH)).unwrap();
        listed.iter().any(|entry| entry.name == name)
    }

    /// Returns the generation that a slot holds on its medium.
    fn generation(&self, slot: u64) -> u64 {
        let slots = self.store().writes.region.slots().unwrap();
        let slot = slots.into_iter().find(|info| info.number == slot).unwrap();
        match slot.header {
            HeaderState::Intact(header) => header.generation,
            other => panic!("{other:?}"),
        }
    }

    /// Checks that nothing is left over when the last reader is gone.
    fn check_that_nothing_leaks(&self) {
        self.db.close().unwrap();
        let store = self.store();
        // A closed store leaves the files that its readers held until then to the next opening.
        let listed =
            store.reads.view.load().version.tables().count() + store.files.tables_to_delete();
        let files = self.storage.list(Path::new(PATH)).unwrap();
        let files = files.iter().filter(|file| file.name.ends_with(".table"));
        assert_eq!(files.count(), listed);
        assert_eq!(store.reads.pins.pinned(), (0, 0));
        assert_eq!(store.writes.region.pinned_slots(), 0);
        assert_eq!(store.reads.snapshots.len(), 0);
    }
}

fn key(number: u64) -> Vec<u8> {
    vec![b'a' + (number % KEYS) as u8]
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

/// Returns the newest write of a key among the first `until`.
fn newest(key: u64, until: u64) -> Option<u64> {
    (1..=until).rev().find(|number| number % KEYS == key % KEYS)
}

/// Runs the threads' bodies under many schedules, and `check` after each.
fn explore(bodies: &'static [fn(&Stage) -> Result<()>], answer: fn(Result<()>), check: fn(&Stage)) {
    let run = move || {
        let stage = Stage::new();
        let threads: Vec<_> = bodies
            .iter()
            .map(|body| {
                let stage = Arc::clone(&stage);
                thread::spawn(move || answer(body(&stage)))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        check(&stage);
    };
    let given = std::env::var("TERRACE_SHUTTLE_SCHEDULES");
    let schedules = given.map_or(SCHEDULES, |text| text.parse().unwrap());
    let mut config = shuttle::Config::default();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(Naps::new(schedules), config).run(run);
}

#[test]
fn what_readers_pin_stays_and_everything_else_goes() {
    explore(
        &[Stage::write, Stage::get, Stage::iterate, Stage::pin],
        Result::unwrap,
        |stage| {
            stage.check_gets(&stage.db);
            stage.check_that_nothing_leaks();
        },
    );
}

#[test]
fn a_snapshot_reads_the_same_from_buffer_and_tables() {
    explore(
        &[Stage::write, Stage::get, Stage::get_at_snapshots],
        Result::unwrap,
        |stage| stage.check_gets(&stage.db),
    );
}

#[test]
fn no_update_is_lost_between_a_view_and_the_next() {
    explore(&[Stage::count, Stage::count], Result::unwrap, |stage| {
        let count = stage.db.get(b"count").unwrap().unwrap();
        assert_eq!(number(&count), 4);
        stage.db.close().unwrap();
    });
}

#[test]
fn no_update_of_a_transaction_is_lost_beside_flushes() {
    explore(
        &[
            Stage::count_in_transactions,
            Stage::count_in_transactions,
            Stage::flush_twice,
        ],
        Result::unwrap,
        |stage| {
            let count = stage.db.get(b"count").unwrap().unwrap();
            assert_eq!(number(&count), 4);
            stage.db.close().unwrap();
        },
    );
}

#[test]
fn one_of_those_that_found_an_empty_range_takes_it() {
    explore(
        &[Stage::take_place, Stage::take_place, Stage::flush_twice],
        Result::unwrap,
        |stage| {
            assert_eq!(stage.db.prefix("place ").unwrap().count(), 1);
            stage.db.close().unwrap();
        },
    );
}

#[test]
fn a_close_ends_all_threads_and_loses_nothing() {
    explore(
        &[Stage::write, Stage::get, Stage::iterate, Stage::close],
        |answer| assert!(matches!(answer, Ok(()) | Err(Error::Closed)), "{answer:?}"),
        |stage| {
            stage.check_that_nothing_leaks();
            let reopened = Db::open(PATH, stage.options.clone()).unwrap();
            stage.check_gets(&reopened);
            reopened.close().unwrap();
        },
    );
}
