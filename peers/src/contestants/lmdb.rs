//! LMDB: a copy-on-write B+ tree in a memory mapping.
//!
//! The mapping is as large as it may ever get; pages that were never written take no space. One
//! transaction writes at a time, and a commit that is not synced leaves its pages to the page cache,
//! which outlives the process.

use std::ops::Bound;
use std::path::Path;
use std::time::Instant;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithTls};
use terrace_bench::Result;
use terrace_bench::settings::{DurabilityClass, Settings};
use terrace_bench::store::{Activity, Contestant, Direction, Opened, Store};

use super::Told;
use super::options::{Accepted, OwnOptions};

/// LMDB.
pub const CONTESTANT: Contestant = Contestant {
    name: "lmdb",
    about: "copy-on-write B+ tree in a memory mapping, one writer at a time",
    open,
};

const OWN: &[Accepted] = &[
    (
        "writemap",
        "true or false: write through the mapping; true unless each write is synced",
    ),
    (
        "map_bytes",
        "bytes of the mapping; four times the data expected, and 1 GiB",
    ),
];

const MAX_READERS: u32 = 1024;
/// The mapping is a multiple of every page size in use.
const MAP_GRANULE: u64 = 1 << 20;

struct Lmdb {
    env: Env<WithTls>,
    database: Database<Bytes, Bytes>,
}

fn open(directory: &Path, settings: &Settings) -> Result<Opened> {
    let own = OwnOptions::of(CONTESTANT.name, OWN, settings)?;
    let syncs = settings.durability == DurabilityClass::PowerCut;
    let write_map = own.or("writemap", !syncs)?;
    let map_bytes = own.or(
        "map_bytes",
        settings.expected_data_bytes.saturating_mul(4) + (1 << 30),
    )?;
    let map_bytes = usize::try_from(map_bytes.next_multiple_of(MAP_GRANULE))?;

    let mut flags = EnvFlags::empty();
    flags.set(EnvFlags::NO_SYNC, !syncs);
    flags.set(EnvFlags::WRITE_MAP, write_map);
    flags.set(EnvFlags::NO_READ_AHEAD, settings.bound_bytes.is_some());

    let mut told = Told::default();
    let version = heed::lmdb_version();
    told.say("version", version.string);
    told.say("heed", env!("HEED_VERSION"));
    told.say("mapsize", map_bytes);
    told.say("maxreaders", MAX_READERS);
    told.say("MDB_NOSYNC", !syncs);
    told.say("MDB_WRITEMAP", write_map);
    told.say("MDB_NORDAHEAD", settings.bound_bytes.is_some());
    told.say(
        "MDB_NOTLS",
        "false: each read opens a transaction in its thread's slot",
    );
    told.say("writes", "a transaction each, one at a time");
    told.say(
        "cache, write buffers, threads, filters",
        "none: the page cache is its memory",
    );
    told.say("compression", "not available");
    told.no_direct_io();

    std::fs::create_dir_all(directory)?;
    let env = map(directory, map_bytes, flags)?;
    let mut transaction = env.write_txn()?;
    let database = env.create_database(&mut transaction, None)?;
    transaction.commit()?;

    let durability = if syncs {
        "power cut: pages and meta page synced with each commit"
    } else {
        "process crash: pages in the page cache, not synced; a power cut may destroy the whole store"
    };
    Ok(Opened {
        store: Box::new(Lmdb { env, database }),
        durability: durability.into(),
        settings: told.0,
    })
}

#[expect(
    unsafe_code,
    reason = "a mapped file that someone else changes breaks LMDB's promises"
)]
fn map(directory: &Path, map_bytes: usize, flags: EnvFlags) -> Result<Env<WithTls>> {
    let mut options = EnvOpenOptions::new().read_txn_with_tls();
    options.map_size(map_bytes).max_readers(MAX_READERS);
    // SAFETY: the directory belongs to this run, and no other process opens or changes its files
    // meanwhile. None of the flags used takes a lock away; what NO_SYNC risks at a power cut is what
    // the durability says.
    Ok(unsafe {
        options.flags(flags);
        options.open(directory)?
    })
}

impl Store for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.database.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.database.delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.env.read_txn()?;
        let value = self.database.get(&transaction, key)?;
        if let Some(value) = value {
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
        let transaction = self.env.read_txn()?;
        let start = start.map_or(Bound::Unbounded, Bound::Included);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match direction {
            Direction::Forward => {
                let range = (start, Bound::Unbounded);
                for entry in self.database.range(&transaction, &range)?.take(limit) {
                    let (key, value) = entry?;
                    visit(key, value);
                }
            }
            Direction::Backward => {
                let range = (Bound::Unbounded, start);
                for entry in self.database.rev_range(&transaction, &range)?.take(limit) {
                    let (key, value) = entry?;
                    visit(key, value);
                }
            }
        }
        Ok(())
    }

    /// The others' tables have reached the disk when they are settled, and so must its pages.
    fn settle(&self) -> Result<Instant> {
        self.env.force_sync()?;
        Ok(Instant::now())
    }

    /// There is no background.
    fn activity(&self) -> Activity {
        Activity {
            stalled: Some(false),
            ..Activity::default()
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
