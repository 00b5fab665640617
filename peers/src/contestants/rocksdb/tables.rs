//! RocksDB's tables: column families, and optimistic transactions over them.

use std::ops::Range;
use std::path::Path;

use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME, ErrorKind,
    OptimisticTransactionDB, OptimisticTransactionOptions, Options, ReadOptions,
    SnapshotWithThreadMode, WriteBatchWithTransaction,
};
use terrace_bench::settings::Settings;
use terrace_bench::tables::{Row, Tables, Transaction, View};
use terrace_bench::{Error, Result};

use super::RocksDb;
use crate::contestants::Told;

/// Bytes of flushed memtables to keep, for conflicts of transactions that are older than all other memtables.
/// Without them such a transaction runs again. By default each table would keep as much as its write buffers.
const HISTORY_BYTES: i64 = 1;

type Snapshot<'a> = SnapshotWithThreadMode<'a, OptimisticTransactionDB>;

struct AtMoment<'a> {
    store: &'a RocksDb<OptimisticTransactionDB>,
    snapshot: Snapshot<'a>,
}

struct InTransaction<'a> {
    store: &'a RocksDb<OptimisticTransactionDB>,
    transaction: rocksdb::Transaction<'a, OptimisticTransactionDB>,
    /// With its snapshot, if it has one.
    read: Option<ReadOptions>,
    gets: u64,
    writes: bool,
}

enum Ended {
    Committed,
    /// Another transaction changed what it read or wrote.
    Overtaken,
    /// The function returned an error.
    Failed(Error),
}

/// Opens a database with a column family for each table, all of them with the same options. They share the
/// cache, and the memory of one table's write buffers.
pub fn open(
    directory: &Path,
    mut options: Options,
    settings: &Settings,
    told: &mut Told,
) -> Result<OptimisticTransactionDB> {
    let buffers_bytes = settings.write_buffer_bytes * u64::from(settings.write_buffers);
    told.say("column_families", settings.tables.join(", "));
    told.say(
        "db_write_buffer_size",
        format!("{buffers_bytes}: for all tables together"),
    );
    told.say("max_write_buffer_size_to_maintain", HISTORY_BYTES);
    told.say(
        "transactions",
        "OptimisticTransactionDB, GetForUpdate, no snapshot",
    );
    options.create_missing_column_families(true);
    options.set_db_write_buffer_size(usize::try_from(buffers_bytes)?);
    options.set_max_write_buffer_size_to_maintain(HISTORY_BYTES);
    let mut names: Vec<&str> = settings.tables.iter().map(String::as_str).collect();
    // It is always there, and would have a cache of its own.
    if !names.contains(&DEFAULT_COLUMN_FAMILY_NAME) {
        names.push(DEFAULT_COLUMN_FAMILY_NAME);
    }
    let families = names
        .iter()
        .map(|name| ColumnFamilyDescriptor::new(*name, options.clone()));
    let families: Vec<_> = families.collect();
    Ok(OptimisticTransactionDB::open_cf_descriptors(
        &options, directory, families,
    )?)
}

impl RocksDb<OptimisticTransactionDB> {
    fn family(&self, table: usize) -> Result<&ColumnFamily> {
        let name = self.tables.get(table);
        name.and_then(|name| self.db.cf_handle(name))
            .ok_or_else(|| "there is no such table".into())
    }

    /// Runs a transaction once, and returns how it ended. With a snapshot its reads are of one moment, but
    /// taking one waits for the database's lock. Without one they are so if the commit succeeds.
    fn attempt(
        &self,
        run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>,
        with_snapshot: bool,
    ) -> Result<Ended> {
        let mut options = OptimisticTransactionOptions::default();
        options.set_snapshot(with_snapshot);
        let transaction = self.db.transaction_opt(&self.write, &options);
        let read = with_snapshot.then(|| {
            let mut read = ReadOptions::default();
            read.set_snapshot(&transaction.snapshot());
            read
        });
        let mut running = InTransaction {
            store: self,
            transaction,
            read,
            gets: 0,
            writes: false,
        };
        if let Err(error) = run(&mut running) {
            return Ok(Ended::Failed(error));
        }
        // A commit would only write an empty entry into the log.
        if !running.writes && (with_snapshot || running.gets <= 1) {
            return Ok(Ended::Committed);
        }
        match running.transaction.commit() {
            Ok(()) => Ok(Ended::Committed),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {
                Ok(Ended::Overtaken)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Tables for RocksDb<OptimisticTransactionDB> {
    fn load(&self, rows: &[Row]) -> Result<()> {
        let mut batch = WriteBatchWithTransaction::<true>::default();
        for (table, key, value) in rows {
            batch.put_cf(self.family(*table)?, key, value);
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn get(&self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let family = self.family(table)?;
        let value = self.db.get_pinned_cf_opt(family, key, &self.read)?;
        value.iter().for_each(|value| read(value));
        Ok(value.is_some())
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(AtMoment {
            store: self,
            snapshot: self.db.snapshot(),
        }))
    }

    fn transact(&self, run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        let mut with_snapshot = false;
        loop {
            match self.attempt(run, with_snapshot)? {
                Ended::Committed => return Ok(()),
                Ended::Overtaken => {}
                Ended::Failed(error) if with_snapshot => return Err(error),
                // It may have read what never was at one moment.
                Ended::Failed(_) => with_snapshot = true,
            }
        }
    }
}

impl View for AtMoment<'_> {
    fn multi_get(
        &self,
        table: usize,
        keys: &[Vec<u8>],
        read: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let family = self.store.family(table)?;
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        // A batch of one takes longer than a get.
        if let [key] = keys {
            let value = self.store.db.get_pinned_cf_opt(family, key, &options)?;
            value.iter().for_each(|value| read(0, value));
            return Ok(());
        }
        let values =
            self.store
                .db
                .batched_multi_get_cf_opt(family, keys, keys.is_sorted(), &options);
        for (place, value) in values.into_iter().enumerate() {
            value?.iter().for_each(|value| read(place, value));
        }
        Ok(())
    }

    fn scan(
        &self,
        table: usize,
        range: Range<&[u8]>,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(range.end);
        let family = self.store.family(table)?;
        let mut iterator = self.snapshot.raw_iterator_cf_opt(family, options);
        iterator.seek(range.start);
        for visited in 0..limit {
            if visited > 0 {
                iterator.next();
            }
            let Some((key, value)) = iterator.item() else {
                break;
            };
            visit(key, value);
        }
        Ok(iterator.status()?)
    }
}

impl Transaction for InTransaction<'_> {
    fn get(&mut self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let family = self.store.family(table)?;
        let options = self.read.as_ref().unwrap_or(&self.store.read);
        let value = self
            .transaction
            .get_pinned_for_update_cf_opt(family, key, true, options)?;
        value.iter().for_each(|value| read(value));
        Ok(value.is_some())
    }

    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.writes = true;
        let family = self.store.family(table)?;
        self.transaction
            .put_cf(family, key, value)
            .map_err(Error::from)
    }

    fn delete(&mut self, table: usize, key: &[u8]) -> Result<()> {
        self.writes = true;
        let family = self.store.family(table)?;
        self.transaction.delete_cf(family, key).map_err(Error::from)
    }
}
