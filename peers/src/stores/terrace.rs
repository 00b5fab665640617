use std::ops::Bound;
use std::path::Path;
use std::time::Instant;

use terrace::{Compression, Db, Durability, IterOptions, Options, WriteBatch, WriteOptions};

use crate::Result;
use crate::settings::Settings;
use crate::store::Store;

pub struct Terrace(Db);

impl Store for Terrace {
    fn open(settings: &Settings, directory: &Path) -> Result<Self> {
        let options = Options {
            durability: Some(if settings.syncs_each_write {
                Durability::PowerSafe
            } else {
                Durability::CrashSafe
            }),
            arena_bytes: settings.buffer_bytes,
            max_arenas: settings.buffers as usize,
            cache_bytes: settings.cache_bytes,
            block_bytes: settings.block_bytes as usize,
            filter_bits_per_key: settings.filter_bits_per_key,
            compression: vec![Compression::None],
            // The others flush in a thread of their own, too, within their number.
            compaction_threads: settings.background_threads as usize - 1,
            persist_method: settings.terrace_method.parse()?,
            emulate_power_safety: settings.emulate_power_safety,
            ..Options::default()
        };
        Ok(Terrace(Db::open(directory, options)?))
    }

    fn durability(&self) -> String {
        let statistics = self.0.statistics();
        format!(
            "{}, method {}, on {}{}",
            statistics.durability,
            statistics.method,
            statistics.file_system,
            if statistics.emulated {
                ", power safety emulated"
            } else {
                ""
            }
        )
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        Ok(self.0.write(batch, WriteOptions::with_sync(true))?)
    }

    fn get<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(read(self.0.get(key)?.as_deref()))
    }

    fn scan(&self, start: &[u8], limit: usize, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut iterator = self.0.iter(IterOptions {
            lower: Bound::Included(start.to_vec()),
            ..IterOptions::default()
        })?;
        iterator.seek(start)?;
        for _ in 0..limit {
            if !iterator.valid() {
                break;
            }
            visit(iterator.key(), iterator.value());
            iterator.next()?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        self.0.flush()?;
        self.0.compact()?;
        Ok(Instant::now())
    }

    fn close(self) -> Result<()> {
        Ok(self.0.close()?)
    }
}
