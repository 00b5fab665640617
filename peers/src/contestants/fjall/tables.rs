//! fjall's tables: keyspaces, and optimistic transactions over them.

use std::ops::Range;

use fjall::{Keyspace, OptimisticTxDatabase, OptimisticWriteTx, PersistMode, Readable, Snapshot};
use terrace_bench::Result;
use terrace_bench::tables::{Row, Tables, Transaction, View};

/// The keyspaces of a database, by number.
pub struct Keyspaces {
    pub database: OptimisticTxDatabase,
    pub keyspaces: Vec<Keyspace>,
    pub syncs: bool,
}

struct AtMoment<'a> {
    tables: &'a Keyspaces,
    snapshot: Snapshot,
}

struct InTransaction<'a> {
    tables: &'a Keyspaces,
    transaction: OptimisticWriteTx,
    writes: bool,
}

impl Keyspaces {
    fn keyspace(&self, table: usize) -> Result<&Keyspace> {
        let keyspace = self.keyspaces.get(table);
        keyspace.ok_or_else(|| "there is no such table".into())
    }

    /// Returns how far a commit brings its journal entry. What is synced is so after it, for a commit would
    /// hold up all others meanwhile.
    fn persist_mode(&self) -> Option<PersistMode> {
        (!self.syncs).then_some(PersistMode::Buffer)
    }

    fn acknowledge(&self) -> Result<()> {
        if self.syncs {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    /// Runs a transaction once. Returns false if another one has changed what it read.
    fn attempt(&self, run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<bool> {
        let transaction = self.database.write_tx()?.durability(self.persist_mode());
        let mut running = InTransaction {
            tables: self,
            transaction,
            writes: false,
        };
        run(&mut running)?;
        match running.transaction.commit()? {
            Ok(()) if running.writes => self.acknowledge().map(|()| true),
            outcome => Ok(outcome.is_ok()),
        }
    }
}

impl Tables for Keyspaces {
    /// Past the transactions, which only matter to a row that someone else has looked for.
    fn load(&self, rows: &[Row]) -> Result<()> {
        let mut batch = self
            .database
            .inner()
            .batch()
            .durability(self.persist_mode());
        for (table, key, value) in rows {
            batch.insert(self.keyspace(*table)?, &**key, &**value);
        }
        batch.commit()?;
        self.acknowledge()
    }

    fn get(&self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace(table)?.get(key)?;
        value.iter().for_each(|value| read(value));
        Ok(value.is_some())
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(AtMoment {
            tables: self,
            snapshot: self.database.read_tx(),
        }))
    }

    fn transact(&self, run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        while !self.attempt(run)? {}
        Ok(())
    }
}

impl View for AtMoment<'_> {
    /// One after the other: fjall has no read of several.
    fn multi_get(
        &self,
        table: usize,
        keys: &[Vec<u8>],
        read: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let keyspace = self.tables.keyspace(table)?;
        for (place, key) in keys.iter().enumerate() {
            let value = self.snapshot.get(keyspace, key)?;
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
        let keyspace = self.tables.keyspace(table)?;
        let mut entries = self.snapshot.range(keyspace, range);
        for _ in 0..limit {
            let Some(entry) = entries.next() else { break };
            let (key, value) = entry.into_inner()?;
            visit(&key, &value);
        }
        Ok(())
    }
}

impl Transaction for InTransaction<'_> {
    fn get(&mut self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let keyspace = self.tables.keyspace(table)?;
        let value = self.transaction.get(keyspace, key)?;
        value.iter().for_each(|value| read(value));
        Ok(value.is_some())
    }

    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let keyspace = self.tables.keyspace(table)?;
        self.writes = true;
        self.transaction.insert(keyspace, key, value);
        Ok(())
    }

    fn delete(&mut self, table: usize, key: &[u8]) -> Result<()> {
        let keyspace = self.tables.keyspace(table)?;
        self.writes = true;
        self.transaction.remove(keyspace, key);
        Ok(())
    }
}
