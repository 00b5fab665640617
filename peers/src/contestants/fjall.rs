//! fjall: an LSM tree in Rust.

mod tables;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase, PersistMode,
};
use terrace_bench::Result;
use terrace_bench::settings::{DurabilityClass, Settings};
use terrace_bench::store::{Activity, Contestant, Direction, Opened, Store};
use terrace_bench::tables::Tables;

use self::tables::Keyspaces;
use super::options::{Accepted, OwnOptions};
use super::{Told, settling};

/// fjall.
pub const CONTESTANT: Contestant = Contestant {
    name: "fjall",
    about: "LSM tree in Rust, with a journal",
    open,
};

const OWN: &[Accepted] = &[
    (
        "max_journaling_bytes",
        "bytes of journals before memtables are flushed, at least 64 MiB",
    ),
    (
        "table_target_bytes",
        "bytes of a table, of which the first sorted level holds four; 64 MiB",
    ),
];

/// fjall halts writers at this many sealed memtables.
const SEALED_HALT: usize = 4;
/// fjall slows writers down at this many runs in the first level. Tables are what it shows, and a run
/// has at least one.
const FIRST_LEVEL_SLOWDOWN: usize = 20;
const MIN_JOURNALING_BYTES: u64 = 64 << 20;
/// fjall's default.
const TABLE_TARGET_BYTES: u64 = 64 << 20;

struct Fjall {
    database: Database,
    keyspace: Keyspace,
    syncs: bool,
    /// Where several tables are needed.
    tables: Option<Keyspaces>,
}

fn open(directory: &Path, settings: &Settings) -> Result<Opened> {
    let own = OwnOptions::of(CONTESTANT.name, OWN, settings)?;
    let journaling_bytes: u64 = own.or("max_journaling_bytes", 512 << 20)?;
    if journaling_bytes < MIN_JOURNALING_BYTES {
        return Err(
            format!("fjall.max_journaling_bytes is less than {MIN_JOURNALING_BYTES}").into(),
        );
    }
    let table_target_bytes = own.or("table_target_bytes", TABLE_TARGET_BYTES)?;
    let syncs = syncs(settings);
    let mut told = Told::default();

    told.say("version", env!("FJALL_VERSION"));
    told.say("cache_size", settings.cache_bytes);
    told.say("worker_threads", settings.background_threads);
    told.say("max_journaling_size", journaling_bytes);
    told.say("journal_compression", "none");
    // It only wraps the database that all other workloads use.
    let transactional = OptimisticTxDatabase::builder(directory)
        .cache_size(settings.cache_bytes)
        .journal_compression(CompressionType::None)
        .max_journaling_size(journaling_bytes)
        .worker_threads(settings.background_threads as usize)
        .open()?;

    let options = keyspace_options(settings, table_target_bytes, &mut told);
    let database = transactional.inner().clone();
    let open = |name: &str| database.keyspace(name, || options.clone());
    let keyspace = open("default")?;
    let tables = match settings.tables.is_empty() {
        true => None,
        false => {
            told.say("keyspaces", settings.tables.join(", "));
            told.say("transactions", "OptimisticTxDatabase");
            let keyspaces = settings.tables.iter().map(|name| open(name));
            Some(Keyspaces {
                keyspaces: keyspaces.collect::<fjall::Result<_>>()?,
                database: transactional,
                syncs,
            })
        }
    };

    let durability = if syncs {
        "power cut: journal synced (fdatasync) with each write"
    } else {
        "process crash: journal written to the operating system, not synced"
    };
    Ok(Opened {
        store: Box::new(Fjall {
            database,
            keyspace,
            syncs,
            tables,
        }),
        durability: durability.into(),
        settings: told.0,
    })
}

fn syncs(settings: &Settings) -> bool {
    settings.durability == DurabilityClass::PowerCut
}

/// Returns the bytes of a memtable. Each table has one, and beside these there may be as many sealed ones as
/// one table would have: all together take what all stores are told. fjall 3.1 has no limit for all memtables.
fn memtable_bytes(settings: &Settings) -> u64 {
    let tables = settings.tables.len().max(1) as u64;
    let buffers = u64::from(settings.write_buffers).max(1);
    settings.write_buffer_bytes * buffers / (tables + buffers - 1)
}

fn keyspace_options(
    settings: &Settings,
    table_target_bytes: u64,
    told: &mut Told,
) -> KeyspaceCreateOptions {
    let bits = settings.filter_bits_per_key as f32;
    let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits));
    let memtable_bytes = memtable_bytes(settings);
    told.say("max_memtable_size", memtable_bytes);
    told.say(
        "memtables",
        format!("writers halt at {SEALED_HALT} sealed ones; not to be set"),
    );
    told.say("data_block_size_policy", settings.block_bytes);
    told.say("filter_policy", format!("bloom, {bits} bits a key"));
    told.say("manual_journal_persist", syncs(settings));
    let compression = if settings.compressed {
        told.say(
            "data_block_compression_policy",
            "none, none, lz4 from then on",
        );
        CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ])
    } else {
        told.say("data_block_compression_policy", "none");
        CompressionPolicy::disabled()
    };
    told.say("table_target_size", table_target_bytes);
    let leveled = Leveled::default().with_table_target_size(table_target_bytes);
    told.no_direct_io();
    KeyspaceCreateOptions::default()
        .max_memtable_size(memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(settings.block_bytes))
        .data_block_compression_policy(compression)
        .filter_policy(FilterPolicy::all(filter))
        .compaction_strategy(Arc::new(leveled))
        // Written to the system by the sync that each write asks for, not twice.
        .manual_journal_persist(syncs(settings))
}

impl Fjall {
    fn acknowledge(&self) -> Result<()> {
        if self.syncs {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    /// Returns the keyspaces, of tables and others.
    fn keyspaces(&self) -> impl Iterator<Item = &Keyspace> {
        let tables = self.tables.iter().flat_map(|tables| &tables.keyspaces);
        std::iter::once(&self.keyspace).chain(tables)
    }

    fn is_flushing(&self) -> bool {
        let mut keyspaces = self.keyspaces();
        self.database.outstanding_flushes() > 0
            || keyspaces.any(|keyspace| keyspace.sealed_memtable_count() > 0)
    }

    fn is_compacting(&self) -> bool {
        self.database.active_compactions() > 0
    }
}

impl Store for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        self.acknowledge()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keyspace.remove(key)?;
        self.acknowledge()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key)?;
        if let Some(value) = &value {
            read(value);
        }
        Ok(value.is_some())
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut entries = match (start, direction) {
            (None, _) => self.keyspace.iter(),
            (Some(start), Direction::Forward) => self.keyspace.range(start..),
            (Some(start), Direction::Backward) => self.keyspace.range(..=start),
        };
        for _ in 0..limit {
            let entry = match direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry.into_inner()?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn tables(&self) -> Option<&dyn Tables> {
        let keyspaces = self.tables.as_ref()?;
        Some(keyspaces)
    }

    fn settle(&self) -> Result<Instant> {
        for keyspace in self.keyspaces() {
            keyspace.rotate_memtable_and_wait()?;
        }
        settling::wait(
            || Ok(self.database.compactions_completed()),
            || Ok(self.is_flushing() || self.is_compacting()),
        )
    }

    /// Its journals.
    fn is_beside_tables(&self, file: &Path) -> bool {
        file.extension().is_some_and(|extension| extension == "jnl")
    }

    fn activity(&self) -> Activity {
        // Slowing down goes by runs, of which there are at most as many as tables: between the two
        // nothing can be told.
        let is_halted = |keyspace: &Keyspace| keyspace.sealed_memtable_count() >= SEALED_HALT;
        let is_fast = |keyspace: &Keyspace| keyspace.l0_table_count() < FIRST_LEVEL_SLOWDOWN;
        let stalled = if self.keyspaces().any(is_halted) {
            Some(true)
        } else if self.keyspaces().all(is_fast) {
            Some(false)
        } else {
            None
        };
        Activity {
            flushes: 0,
            compactions: self.database.compactions_completed() as u64,
            flushing: self.is_flushing(),
            compacting: self.is_compacting(),
            stalled,
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}
