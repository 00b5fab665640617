use std::path::Path;
use std::time::Instant;

use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, WaitForCompactOptions, WriteOptions,
};

use crate::Result;
use crate::settings::Settings;
use crate::store::Store;

pub struct RocksDb {
    db: DB,
    durable: WriteOptions,
}

impl Store for RocksDb {
    fn open(settings: &Settings, directory: &Path) -> Result<Self> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(settings.cache_bytes as usize));
        table.set_block_size(settings.block_bytes as usize);
        table.set_bloom_filter(f64::from(settings.filter_bits_per_key), false);

        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::None);
        options.set_write_buffer_size(settings.buffer_bytes as usize);
        options.set_max_write_buffer_number(settings.buffers as i32);
        options.set_max_background_jobs(settings.background_threads as i32);

        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        let db = DB::open(&options, directory)?;
        Ok(RocksDb { db, durable })
    }

    fn durability(&self) -> String {
        "write-ahead log, not synced".into()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(key, value)?)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &self.durable)?)
    }

    fn get<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(read(self.db.get_pinned(key)?.as_deref()))
    }

    fn scan(&self, start: &[u8], limit: usize, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut iterator = self.db.raw_iterator();
        iterator.seek(start);
        for _ in 0..limit {
            let Some((key, value)) = iterator.item() else {
                break;
            };
            visit(key, value);
            iterator.next();
        }
        Ok(iterator.status()?)
    }

    fn settle(&self) -> Result<Instant> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.wait_for_compact(&options)?;
        Ok(Instant::now())
    }

    fn close(self) -> Result<()> {
        drop(self.db);
        Ok(())
    }
}
