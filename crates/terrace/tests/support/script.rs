//! Random operations on a small store, applied to the store and the model alike.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use terrace::{
    CompactionPolicy, Constants, Db, Error, ForwardPolicy, IterOptions, KeyspaceId,
    KeyspaceOptions, Options, ReadBufferOptions, ReadBufferStructure, Result, Snapshot, WriteBatch,
    WriteOptions, internal,
};
use terrace_storage::{Clock, Fault, FaultPlan};

use super::model::{Change, Content, Model, State, Write, assert_same, check_gets, read_all};

/// The keyspaces that scripts use.
pub const KEYSPACES: [KeyspaceId; 2] = [KeyspaceId::DEFAULT, internal::SECOND];

/// Returns options with sizes so small that flush and compaction never rest.
pub fn tiny(options: Options) -> Options {
    let options = Options {
        arena_bytes: 16 << 10,
        default_keyspace: KeyspaceOptions {
            block_bytes: 256,
            table_bytes: 4 << 10,
            level1_bytes: 8 << 10,
            level_ratio: 2,
            ..options.default_keyspace
        },
        compaction_threads: 2,
        level0_merge: 2,
        level0_slowdown: 1000,
        dedup_threshold: 1.2,
        min_score: 0.1,
        cache_bytes: 64 << 10,
        max_open_tables: Some(8),
        constants: Constants {
            restart_interval: 4,
            max_batch_bytes: Some(128 << 10),
            pinned_bytes: Some(16 << 10),
            slice_bytes: 4 << 10,
            manifest_bytes: 4 << 10,
            ..options.constants
        },
        ..options
    };
    with_read_buffer(3, options)
}

/// Sets the read buffer in every form, in turn; the first one is off.
pub fn with_read_buffer(number: u64, options: Options) -> Options {
    let policies = [ForwardPolicy::Resident, ForwardPolicy::All];
    Options {
        read_buffer: ReadBufferOptions {
            policy: policies[(number as usize / 2 + 1) % 2],
            share_percent: if number == 0 { 0 } else { 75 },
        },
        constants: Constants {
            structure: match number % 2 {
                0 => ReadBufferStructure::Ordered,
                _ => ReadBufferStructure::Hash,
            },
            while_blocks_fit: number % 12 < 6,
            ..options.constants
        },
        ..options
    }
}

/// One random operation.
#[derive(Clone, Debug)]
pub enum Operation {
    Write {
        writes: Vec<Write>,
        sync: bool,
    },
    Persist,
    Flush,
    Compact,
    /// Merges a range of one keyspace, as a caller asks for it.
    CompactRange {
        keyspace: KeyspaceId,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    /// A batch of sorted entries past the arenas.
    Ingest(Content),
    /// The next batch, empty but for its number, which takes the place of the last one by
    /// compare-and-set, after an attempt that must fail.
    Advance,
    TakeSnapshot,
    DropSnapshot,
    Check,
    Reopen,
    /// Lets flushes fail until a flush or a spare arena is needed, so that sealed arenas pile up.
    HoldFlushes,
}

/// The generator of operations.
pub struct Script {
    random: SmallRng,
    /// Whether `sync` and `persist` are asked for.
    pub persists: bool,
}

impl Script {
    pub fn new(seed: u64, persists: bool) -> Self {
        Script {
            random: SmallRng::seed_from_u64(seed),
            persists,
        }
    }

    pub fn next(&mut self) -> Operation {
        match self.random.random_range(0..100) {
            0..72 => self.write(),
            72..76 if self.persists => Operation::Persist,
            76..79 => Operation::Flush,
            79..80 => Operation::Compact,
            95..96 => self.compact_range(),
            96..98 => Operation::Advance,
            98..99 => self.ingest(),
            80..84 => Operation::TakeSnapshot,
            84..88 => Operation::DropSnapshot,
            88..90 => Operation::Reopen,
            90..92 => Operation::Check,
            92..95 => Operation::HoldFlushes,
            _ => self.write(),
        }
    }

    fn ingest(&mut self) -> Operation {
        let count = self.random.random_range(0..30);
        Operation::Ingest((0..count).map(|_| (self.key(), self.value())).collect())
    }

    fn compact_range(&mut self) -> Operation {
        let (a, b) = (self.key(), self.key());
        Operation::CompactRange {
            keyspace: KEYSPACES[usize::from(self.random.random_ratio(1, 4))],
            from: a.clone().min(b.clone()),
            to: a.max(b),
        }
    }

    pub fn write(&mut self) -> Operation {
        let sync = self.persists && self.random.random_ratio(1, 8);
        let count = match self.random.random_range(0..20) {
            0 => 40,
            1..5 => self.random.random_range(2..10),
            _ => 1,
        };
        let writes = (0..count).map(|_| self.one()).collect();
        Operation::Write { writes, sync }
    }

    /// Returns a write of a third of an arena, so that a few fill several.
    pub fn large_write(&mut self) -> Operation {
        let (key, byte) = (self.key(), self.random.random::<u8>());
        Operation::Write {
            writes: vec![(KeyspaceId::DEFAULT, key, Change::Put(vec![byte; 3_000]))],
            sync: false,
        }
    }

    fn one(&mut self) -> Write {
        let keyspace = KEYSPACES[usize::from(self.random.random_ratio(1, 4))];
        let key = self.key();
        match self.random.random_range(0..48) {
            0 => self.range(keyspace, key),
            1..13 => (keyspace, key, Change::Delete),
            _ => (keyspace, key, Change::Put(self.value())),
        }
    }

    /// Returns the delete of a range: half of them a few keys long, the others as they come.
    fn range(&mut self, keyspace: KeyspaceId, key: Vec<u8>) -> Write {
        let other = match self.random.random_range(0..4) {
            0 => [key.as_slice(), &[0]].concat(),
            1 => [key.as_slice(), b"~"].concat(),
            _ => self.key(),
        };
        let (from, to) = if key <= other {
            (key, other)
        } else {
            (other, key)
        };
        (keyspace, from, Change::DeleteRange(to))
    }

    /// Draws one of few keys, so that versions pile up; some share prefixes, one is empty.
    pub fn key(&mut self) -> Vec<u8> {
        match self.random.random_range(0..40) {
            0 => Vec::new(),
            1 => vec![0xff; self.random.random_range(1..4)],
            number => format!("key-{:03}", number * 7 % 60).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.random_range(0..50) {
            0 => 0,
            // Too large to be copied out of an arena; now and then larger than an arena.
            1 => self.random.random_range(4_100..6_000),
            2 if self.random.random_ratio(1, 4) => self.random.random_range(17_000..20_000),
            _ => self.random.random_range(1..200),
        };
        let first = self.random.random::<u8>();
        (0..length)
            .map(|at| first.wrapping_add((at / 3) as u8))
            .collect()
    }

    pub fn random(&mut self) -> &mut impl Rng {
        &mut self.random
    }
}

/// A store under a script.
pub struct Run {
    pub db: Option<Db>,
    /// Directory of the store.
    pub path: PathBuf,
    pub model: Model,
    pub snapshots: Vec<(Snapshot, State)>,
    /// Whether every acknowledged write survives a power cut.
    pub power_safe: bool,
    /// Whether nothing survives but flushed writes.
    pub volatile: bool,
    /// Merges done before the last reopening.
    pub merges: u64,
    /// Fails flushes on request.
    pub flushes: Option<FaultPlan>,
    /// The most arenas that were sealed at a time.
    pub most_sealed: usize,
    /// The compaction policies of the openings, in turn.
    pub policies: Vec<CompactionPolicy>,
    /// Number of openings of the store.
    pub openings: usize,
    pub calendar: Arc<Calendar>,
}

/// A calendar on which a second passes at each look: so scripts take the same way each time.
#[derive(Debug, Default)]
pub struct Calendar(AtomicU64);

impl Clock for Calendar {
    fn now_ns(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {}

    fn unix_seconds(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns each policy for itself, then another one at each opening.
pub fn policies(number: u64) -> Vec<CompactionPolicy> {
    use CompactionPolicy::{Dedup, Lazy, Leveled, Score, Tiered};
    match number % 6 {
        0 => vec![Leveled],
        1 => vec![Dedup],
        2 => vec![Tiered, Score, Leveled, Lazy, Dedup],
        3 => vec![Lazy],
        4 => vec![Score],
        _ => vec![Tiered],
    }
}

impl Run {
    pub fn new(model: Model) -> Self {
        Run {
            db: None,
            path: "/store".into(),
            model,
            snapshots: Vec::new(),
            power_safe: false,
            volatile: false,
            merges: 0,
            flushes: None,
            most_sealed: 0,
            policies: policies(0),
            openings: 0,
            calendar: Arc::default(),
        }
    }

    /// Opens the store and its keyspaces.
    pub fn open(&mut self, options: Options) -> Result<()> {
        let policies = &self.policies;
        let compaction_policy = policies[self.openings % policies.len()];
        let options = Options {
            compaction_policy,
            default_keyspace: KeyspaceOptions {
                // With two, a level that gets a second sub-level goes down at once.
                level_ratio: match compaction_policy {
                    CompactionPolicy::Leveled => options.default_keyspace.level_ratio,
                    _ => options.default_keyspace.level_ratio + 1,
                },
                ..options.default_keyspace
            },
            // Other tombstones are many and old at each opening; at some none is.
            tombstone_percent: [5, 50, 0][self.openings % 3],
            tombstone_age_seconds: [40, 0][self.openings % 2],
            ..options
        };
        self.openings += 1;
        let db = internal::open_on(&self.path, options, self.calendar.clone())?;
        internal::create_second(&db)?;
        self.db = Some(db);
        Ok(())
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Applies an operation. A refusal of the store is an error; a mistake of it is a panic.
    pub fn apply(&mut self, operation: Operation, options: &Options) -> Result<()> {
        match operation {
            Operation::Write { writes, sync } => {
                let batch = self.model.batch(writes);
                self.write(batch, WriteOptions::with_sync(sync))?;
                self.model.acknowledged = self.model.tried();
                if sync || self.power_safe {
                    self.model.persisted = self.model.tried();
                }
            }
            Operation::Persist => {
                self.db().persist()?;
                self.model.persisted = self.model.acknowledged;
            }
            Operation::HoldFlushes => {
                if let Some(flushes) = &self.flushes {
                    flushes.fail_from(0, Fault::NoSpace);
                }
            }
            Operation::Flush => {
                self.release_flushes();
                self.db().flush()?;
                self.model.persisted = self.model.acknowledged;
            }
            Operation::Compact => self.db().compact()?,
            Operation::CompactRange { keyspace, from, to } => {
                self.release_flushes();
                let keyspaces = self.db().keyspaces();
                let keyspace = keyspaces.iter().find(|k| k.id() == keyspace).unwrap();
                keyspace.compact_range(&from[..]..=&to[..])?;
                self.model.persisted = self.model.acknowledged;
            }
            Operation::Ingest(entries) => {
                self.release_flushes();
                let entries = self.model.sorted(entries);
                let db = self.db().clone();
                let mut load = db.ingest()?;
                for (key, value) in &entries {
                    load.put(key, value)?;
                }
                load.finish()?;
                self.model.acknowledged = self.model.tried();
                self.model.persisted = self.model.tried();
            }
            Operation::Advance => {
                let (key, before) = self.model.counter();
                let wrong = [&before.clone().unwrap_or_default()[..], b"!"].concat();
                let refused = self
                    .db()
                    .compare_and_set(key, Some(&wrong), Some(b"wrong"))?;
                assert!(!refused, "the counter is not {wrong:?}");
                self.model.batch(Vec::new());
                let (_, after) = self.model.counter();
                let db = self.db();
                let set = match db.compare_and_set(key, before.as_deref(), after.as_deref()) {
                    Err(error) if error.is_no_space() && self.flushes.is_some() => {
                        self.release_flushes();
                        self.db()
                            .compare_and_set(key, before.as_deref(), after.as_deref())
                    }
                    set => set,
                };
                assert!(set?, "nobody else writes");
                self.model.acknowledged = self.model.tried();
                if self.power_safe {
                    self.model.persisted = self.model.tried();
                }
            }
            Operation::TakeSnapshot => {
                self.snapshots
                    .push((self.db().snapshot(), self.model.state.clone()));
            }
            Operation::DropSnapshot => {
                if !self.snapshots.is_empty() {
                    let (snapshot, state) = self.snapshots.remove(0);
                    assert_same(&read_all(self.db(), &KEYSPACES, Some(&snapshot))?, &state);
                }
            }
            Operation::Check => {
                self.model.check(self.db(), &KEYSPACES)?;
                // Keys that are read twice enter the read buffer.
                for (number, content) in self.model.state.iter().cycle().take(4) {
                    let keyspace = KEYSPACES.into_iter().find(|one| one.number() == *number);
                    check_gets(self.db(), keyspace.unwrap(), content, None)?;
                }
                let (seek, below) = (b"key-02".as_slice(), b"key-05".as_slice());
                self.check_range(seek, below)?;
            }
            Operation::Reopen => {
                self.snapshots.clear();
                self.release_flushes();
                let db = self.db.take().unwrap();
                self.merges += db.statistics().merges;
                db.close()?;
                self.model.persisted = self.model.acknowledged;
                drop(db);
                self.open(options.clone())?;
                self.model.check(self.db(), &KEYSPACES)?;
            }
        }
        Ok(())
    }

    /// Writes, letting flushes go on if there is no arena left to write to.
    fn write(&mut self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        let written = match self.db().write(batch.clone(), options) {
            Err(error) if error.is_no_space() && self.flushes.is_some() => {
                self.release_flushes();
                self.db().write(batch, options)
            }
            written => written,
        };
        let sealed = self.db().statistics().arenas.sealed;
        self.most_sealed = self.most_sealed.max(sealed);
        written
    }

    /// Lets flushes succeed again.
    pub fn release_flushes(&self) {
        if let Some(flushes) = &self.flushes {
            flushes.heal();
        }
    }

    /// Zigzags through a range with an iterator and compares each step with the model.
    fn check_range(&self, from: &[u8], below: &[u8]) -> Result<()> {
        let empty = Content::new();
        let content = self
            .model
            .state
            .get(&KeyspaceId::DEFAULT.number())
            .unwrap_or(&empty);
        let keys: Vec<_> = content
            .range(from.to_vec()..below.to_vec())
            .map(|(key, _)| key)
            .collect();
        let mut iterator = self.db().iter(IterOptions {
            lower: std::ops::Bound::Included(from.to_vec()),
            upper: std::ops::Bound::Excluded(below.to_vec()),
            ..IterOptions::default()
        })?;
        iterator.seek(from)?;
        for (position, key) in keys.iter().enumerate() {
            assert_eq!(iterator.key(), key.as_slice());
            iterator.prev()?;
            assert_eq!(iterator.valid(), position > 0);
            if position > 0 {
                assert_eq!(iterator.key(), keys[position - 1].as_slice());
                iterator.next()?;
            } else {
                iterator.seek_to_first()?;
            }
            assert_eq!(iterator.value(), content[*key].as_slice());
            iterator.next()?;
        }
        assert!(!iterator.valid());
        iterator.seek_for_prev(below)?;
        assert_eq!(
            iterator.valid().then(|| iterator.key().to_vec()).as_ref(),
            keys.last().copied()
        );
        Ok(())
    }

    /// Returns the number of batches that must be there after a crash.
    pub fn promised(&self, power_cut: bool) -> usize {
        if power_cut || self.volatile {
            self.model.persisted
        } else {
            self.model.acknowledged
        }
    }
}

/// Returns whether an error is the simulated end of the machine and not a finding.
pub fn is_frozen(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("frozen")
}
