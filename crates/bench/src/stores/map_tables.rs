//! Tables of the map: ordered maps under one lock.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::tables::{Row, Tables, Transaction, View};
use crate::{Error, Result};

type Table = BTreeMap<Vec<u8>, Vec<u8>>;

/// A view and a transaction each hold the lock until they end, so that no other thread comes in between.
#[derive(Default)]
pub(crate) struct MapTables(Mutex<Vec<Table>>);

struct Held<'a>(MutexGuard<'a, Vec<Table>>);

/// A transaction, with the former states of its rows in the order of its writes.
struct Undoing<'a> {
    held: Held<'a>,
    former: Vec<(usize, Vec<u8>, Option<Vec<u8>>)>,
}

impl MapTables {
    pub(crate) fn new(tables: usize) -> Self {
        MapTables(Mutex::new(vec![Table::new(); tables]))
    }

    fn hold(&self) -> Held<'_> {
        Held(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Held<'_> {
    fn table(&self, number: usize) -> Result<&Table> {
        self.0.get(number).ok_or_else(no_table)
    }

    /// Sets a row's value, or removes it. Returns its former value.
    fn set(&mut self, table: usize, key: &[u8], value: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let table = self.0.get_mut(table).ok_or_else(no_table)?;
        Ok(match value {
            Some(value) => table.insert(key.to_vec(), value),
            None => table.remove(key),
        })
    }

    fn show(&self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.table(table)?.get(key);
        value.into_iter().for_each(|value| read(value));
        Ok(value.is_some())
    }
}

fn no_table() -> Error {
    "there is no such table".into()
}

impl Tables for MapTables {
    fn load(&self, rows: &[Row]) -> Result<()> {
        let mut held = self.hold();
        rows.iter().try_for_each(|(table, key, value)| {
            held.set(*table, key, Some(value.clone())).map(drop)
        })
    }

    fn get(&self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.hold().show(table, key, read)
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(self.hold()))
    }

    fn transact(&self, run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        let mut transaction = Undoing {
            held: self.hold(),
            former: Vec::new(),
        };
        let outcome = run(&mut transaction);
        if outcome.is_err() {
            transaction.undo()?;
        }
        outcome
    }
}

impl View for Held<'_> {
    fn multi_get(
        &self,
        table: usize,
        keys: &[Vec<u8>],
        read: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            self.show(table, key, &mut |value| read(place, value))?;
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
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let rows = self
            .table(table)?
            .range::<[u8], _>((Bound::Included(range.start), Bound::Excluded(range.end)));
        rows.take(limit).for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

impl Undoing<'_> {
    fn undo(&mut self) -> Result<()> {
        let former = self.former.drain(..).rev();
        for (table, key, value) in former {
            self.held.set(table, &key, value)?;
        }
        Ok(())
    }

    fn set(&mut self, table: usize, key: &[u8], value: Option<Vec<u8>>) -> Result<()> {
        let former = self.held.set(table, key, value)?;
        self.former.push((table, key.to_vec(), former));
        Ok(())
    }
}

impl Transaction for Undoing<'_> {
    fn get(&mut self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.held.show(table, key, read)
    }

    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.set(table, key, Some(value.to_vec()))
    }

    fn delete(&mut self, table: usize, key: &[u8]) -> Result<()> {
        self.set(table, key, None)
    }
}
