//! Operations that RocksDB's databases have in common, with transactions or without. Its crate has the same
//! methods for both, and no trait of them.

use rocksdb::properties::PropName;
use rocksdb::{
    DB, DBAccess, DBRawIteratorWithThreadMode, OptimisticTransactionDB, WaitForCompactOptions,
    WriteOptions,
};
use terrace_bench::Result;
use terrace_bench::tables::Tables;

use super::RocksDb;

/// A database, with transactions or without.
pub trait Database: DBAccess + Send + Sync + Sized {
    /// Sets a key's value.
    fn set(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()>;

    /// Removes a key.
    fn remove(&self, key: &[u8], options: &WriteOptions) -> Result<()>;

    /// Returns an iterator over everything.
    fn entries(&self) -> DBRawIteratorWithThreadMode<'_, Self>;

    /// Flushes all column families, and waits until no merge is due.
    fn flush_and_wait(&self) -> Result<()>;

    /// Returns a property of the whole database.
    fn number(&self, property: &PropName) -> Option<u64>;

    /// Returns the tables of a store, if this database has any.
    fn tables(store: &RocksDb<Self>) -> Option<&dyn Tables>;
}

macro_rules! methods_of_both {
    () => {
        fn set(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
            Ok(self.put_opt(key, value, options)?)
        }

        fn remove(&self, key: &[u8], options: &WriteOptions) -> Result<()> {
            Ok(self.delete_opt(key, options)?)
        }

        fn entries(&self) -> DBRawIteratorWithThreadMode<'_, Self> {
            self.raw_iterator()
        }

        fn flush_and_wait(&self) -> Result<()> {
            let mut options = WaitForCompactOptions::default();
            options.set_flush(true);
            Ok(self.wait_for_compact(&options)?)
        }

        fn number(&self, property: &PropName) -> Option<u64> {
            self.property_int_value(property).ok().flatten()
        }
    };
}

impl Database for DB {
    methods_of_both!();

    fn tables(_: &RocksDb<Self>) -> Option<&dyn Tables> {
        None
    }
}

impl Database for OptimisticTransactionDB {
    methods_of_both!();

    fn tables(store: &RocksDb<Self>) -> Option<&dyn Tables> {
        Some(store)
    }
}
