//! LinkBench's four tables in one keyspace: their levels are then those of one tree, as in the paper.

use std::ops::Range;

use terrace::{
    Db, IterOptions, Keyspace, ReadOptions, Snapshot, TransactionOptions, WriteBatch, WriteOptions,
};

use crate::tables::{Row, Tables, Transaction, View};
use crate::{Error, Result};

/// The tables, told apart by the first byte of a key.
pub struct OneTree {
    db: Db,
    keyspace: Keyspace,
}

impl OneTree {
    /// Takes a keyspace for them.
    pub fn new(db: &Db, keyspace: &Keyspace) -> Self {
        OneTree {
            db: db.clone(),
            keyspace: keyspace.clone(),
        }
    }
}

struct AtMoment<'a> {
    tree: &'a OneTree,
    snapshot: Snapshot,
}

struct InTransaction<'a> {
    keyspace: &'a Keyspace,
    transaction: &'a mut terrace::Transaction,
}

/// Returns the key of a row in the tree.
fn key_of(table: usize, key: &[u8]) -> Vec<u8> {
    // There are four tables.
    let mut whole = vec![table as u8];
    whole.extend_from_slice(key);
    whole
}

impl Tables for OneTree {
    fn load(&self, rows: &[Row]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (table, key, value) in rows {
            batch.put_in(&self.keyspace, key_of(*table, key), value)?;
        }
        Ok(self.db.write(batch, WriteOptions::default())?)
    }

    fn get(&self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key_of(table, key))?;
        value.iter().for_each(|value| read(value));
        Ok(value.is_some())
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(AtMoment {
            tree: self,
            snapshot: self.db.snapshot(),
        }))
    }

    fn transact(&self, run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        let options = TransactionOptions::default();
        self.db.transact_with(options, |transaction| {
            run(&mut InTransaction {
                keyspace: &self.keyspace,
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
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key_of(table, key)).collect();
        let options = ReadOptions::at(&self.snapshot);
        let values = self.tree.keyspace.multi_get(&keys, &options)?;
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
        let range = key_of(table, range.start)..key_of(table, range.end);
        let options = IterOptions {
            snapshot: Some(self.snapshot.clone()),
            ..IterOptions::range(range)
        };
        let mut iterator = self.tree.keyspace.iter(options)?;
        iterator.seek_to_first()?;
        for visited in 0..limit {
            if visited > 0 {
                iterator.next()?;
            }
            if !iterator.valid() {
                break;
            }
            visit(
                iterator.key().get(1..).unwrap_or_default(),
                iterator.value(),
            );
        }
        Ok(())
    }
}

impl Transaction for InTransaction<'_> {
    fn get(&mut self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.transaction.get_in(self.keyspace, key_of(table, key))?;
        value.iter().for_each(|value| read(value));
        Ok(value.is_some())
    }

    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let key = key_of(table, key);
        self.transaction
            .put_in(self.keyspace, key, value)
            .map_err(Error::from)
    }

    fn delete(&mut self, table: usize, key: &[u8]) -> Result<()> {
        let key = key_of(table, key);
        self.transaction
            .delete_in(self.keyspace, key)
            .map_err(Error::from)
    }
}
