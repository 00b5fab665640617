use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::Result;
use crate::settings::Settings;
use crate::store::Store;

/// fjall says what runs, not what is about to: it counts as settled when nothing has run for this
/// long. The wait itself is not counted.
const QUIET: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(2);

pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

impl Store for Fjall {
    fn open(settings: &Settings, directory: &Path) -> Result<Self> {
        let database = Database::builder(directory)
            .cache_size(settings.cache_bytes)
            .journal_compression(CompressionType::None)
            .worker_threads(settings.background_threads as usize)
            .open()?;
        let bits = settings.filter_bits_per_key as f32;
        let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits));
        let keyspace = database.keyspace("default", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(settings.buffer_bytes)
                .data_block_size_policy(BlockSizePolicy::all(settings.block_bytes))
                .data_block_compression_policy(CompressionPolicy::disabled())
                .filter_policy(FilterPolicy::all(filter))
        })?;
        Ok(Fjall { database, keyspace })
    }

    fn durability(&self) -> String {
        "journal written to the operating system, not synced".into()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn get<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(read(self.keyspace.get(key)?.as_deref()))
    }

    fn scan(&self, start: &[u8], limit: usize, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        for entry in self.keyspace.range(start..).take(limit) {
            let (key, value) = entry.into_inner()?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        self.keyspace.rotate_memtable_and_wait()?;
        let (mut quiet_since, mut completed) = (Instant::now(), self.completed());
        while quiet_since.elapsed() < QUIET {
            thread::sleep(POLL);
            if self.is_busy() || self.completed() != completed {
                (quiet_since, completed) = (Instant::now(), self.completed());
            }
        }
        Ok(quiet_since)
    }

    fn close(self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

impl Fjall {
    fn is_busy(&self) -> bool {
        self.database.outstanding_flushes() > 0
            || self.database.active_compactions() > 0
            || self.keyspace.sealed_memtable_count() > 0
    }

    fn completed(&self) -> usize {
        self.database.compactions_completed()
    }
}
