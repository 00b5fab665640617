//! Terrace's tables: keyspaces, and transactions over them.

use std::ops::Range;

use terrace::{
    Db, IterOptions, Keyspace, KeyspaceOptions, ReadOptions, Snapshot, TransactionOptions,
    WriteBatch, WriteOptions,
};

use crate::tables::{Row, Tables, Transaction, View};
use crate::{Error, Result};

/// The keyspaces of a store, by number.
pub(super) struct Keyspaces {
    db: Db,
    keyspaces: Vec<Keyspace>,
    write: WriteOptions,
}

struct AtMoment<'a> {
    tables: &'a Keyspaces,
    snapshot: Snapshot,
}

struct InTransaction<'a> {
    tables: &'a Keyspaces,
    transaction: &'a mut terrace::Transaction,
}

impl Keyspaces {
    /// Makes the keyspaces of these names, or finds them.
    pub(super) fn new(
        db: &Db,
        names: &[String],
        options: &KeyspaceOptions,
        write: WriteOptions,
    ) -> Result<Self> {
        let keyspaces = names
            .iter()
            .map(|name| db.get_or_create_keyspace(name, options.clone()))
            .collect::<terrace::Result<_>>()?;
        Ok(Keyspaces {
            db: db.clone(),
            keyspaces,
            write,
        })
    }

    fn keyspace(&self, table: usize) -> Result<&Keyspace> {
        let keyspace = self.keyspaces.get(table);
        keyspace.ok_or_else(|| "there is no such table".into())
    }
}

impl Tables for Keyspaces {
    fn load(&self, rows: &[Row]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (table, key, value) in rows {
            batch.put_in(self.keyspace(*table)?, key, value)?;
        }
        Ok(self.db.write(batch, self.write)?)
    }

    fn get(&self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace(table)?.get(key)?;
        value.iter().for_each(|value| read(value));
        Ok(value.is_some())
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(AtMoment {
            tables: self,
            snapshot: self.db.snapshot(),
        }))
    }

    fn transact(&self, run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        let options = TransactionOptions {
            write: self.write,
            ..TransactionOptions::default()
        };
        self.db.transact_with(options, |transaction| {
            run(&mut InTransaction {
                tables: self,
                transaction,
            })
        })
    }
}

impl View for AtMoment<'_> {
    fn multi_get(
        &self,
        table: usize,
        keys: &[Vec<u8>],
        read: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let options = ReadOptions::at(&self.snapshot);
        let values = self.tables.keyspace(table)?.multi_get(keys, &options)?;
        for (place, value) in values.iter().enumerate() {
            value.iter().for_each(|value| read(place, value));
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
        let options = IterOptions {
            snapshot: Some(self.snapshot.clone()),
            ..IterOptions::range(range)
        };
        let mut iterator = self.tables.keyspace(table)?.iter(options)?;
        iterator.seek_to_first()?;
        for visited in 0..limit {
            if visited > 0 {
                iterator.next()?;
            }
            if !iterator.valid() {
                break;
            }
            visit(iterator.key(), iterator.value());
        }
        Ok(())
    }
}

impl Transaction for InTransaction<'_> {
    fn get(&mut self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let keyspace = self.tables.keyspace(table)?;
        let value = self.transaction.get_in(keyspace, key)?;
        value.iter().for_each(|value| read(value));
        Ok(value.is_some())
    }

    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let keyspace = self.tables.keyspace(table)?;
        self.transaction
            .put_in(keyspace, key, value)
            .map_err(Error::from)
    }

    fn delete(&mut self, table: usize, key: &[u8]) -> Result<()> {
        let keyspace = self.tables.keyspace(table)?;
        self.transaction
            .delete_in(keyspace, key)
            .map_err(Error::from)
    }
}
