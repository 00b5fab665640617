use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use terrace::{
    Compression, Db, Durability, IterOptions, Options, RegionSource, WriteBatch, WriteOptions,
};
use terrace_region::{Region, WrittenOptions};
use terrace_storage::RealStorage;

use crate::Result;
use crate::settings::Settings;
use crate::store::Store;

pub struct Terrace {
    db: Db,
    emulated: bool,
}

impl Store for Terrace {
    fn open(settings: &Settings, directory: &Path) -> Result<Self> {
        let options = Options {
            durability: Some(Durability::CrashSafe),
            arena_bytes: settings.buffer_bytes,
            max_arenas: settings.buffers as usize,
            block_cache_bytes: settings.cache_bytes,
            block_bytes: settings.block_bytes as usize,
            filter_bits_per_key: settings.filter_bits_per_key,
            compression: vec![Compression::None],
            region: settings
                .emulate_power_safety
                .then(|| emulated_power_safety(directory)),
            ..Options::default()
        };
        Ok(Terrace {
            db: Db::open(directory, options)?,
            emulated: settings.emulate_power_safety,
        })
    }

    fn durability(&self) -> String {
        let statistics = self.db.statistics();
        format!(
            "{}, method {}, on {}{}",
            statistics.durability,
            statistics.method,
            statistics.file_system,
            if self.emulated {
                ", power safety emulated"
            } else {
                ""
            }
        )
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(key, value)?)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        Ok(self.db.write(batch, WriteOptions { sync: true })?)
    }

    fn get<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(read(self.db.get(key)?.as_deref()))
    }

    fn scan(&self, start: &[u8], limit: usize, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut iterator = self.db.iter(IterOptions {
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
        self.db.flush()?;
        self.db.compact()?;
        Ok(Instant::now())
    }

    fn close(self) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// Arenas in the store's directory, as by default, but a sync succeeds on tmpfs, too.
fn emulated_power_safety(directory: &Path) -> RegionSource {
    let directory = directory.to_path_buf();
    RegionSource::new(move || {
        let options = WrittenOptions {
            emulate_power_safety: true,
            ..WrittenOptions::default()
        };
        Region::written_device(Arc::new(RealStorage), &directory, options)
    })
}
