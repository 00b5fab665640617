//! A store under test that has several tables, and whose writes may be transactions.

use std::ops::Range;

use crate::Result;

/// A row that is loaded: the number of its table, its key and its value.
pub type Row = (usize, Vec<u8>, Vec<u8>);

/// Several tables of one store, shared by all clients of a run.
///
/// Tables have numbers, in the order in which [`Settings::tables`](crate::settings::Settings::tables) names
/// them. A write that returns is acknowledged as one of [`Store`](crate::store::Store) is.
pub trait Tables: Send + Sync {
    /// Writes rows, all of them or none. It reads nothing: their keys are new.
    fn load(&self, rows: &[Row]) -> Result<()>;

    /// Shows a row's value to `read`; false if there is none.
    fn get(&self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Returns the state of this moment. Later writes do not change it.
    fn view(&self) -> Result<Box<dyn View + '_>>;

    /// Runs a function in a transaction, which takes effect at one moment. Where others have changed
    /// something that it read, it runs again.
    fn transact(&self, run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()>;
}

/// The tables as they were at one moment.
pub trait View {
    /// Shows the value of each key that has one to `read`, with the key's place among `keys`.
    fn multi_get(
        &self,
        table: usize,
        keys: &[Vec<u8>],
        read: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()>;

    /// Visits up to `limit` rows of a range, in the order of their keys.
    fn scan(
        &self,
        table: usize,
        range: Range<&[u8]>,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()>;
}

/// Reads and writes that take effect together.
pub trait Transaction {
    /// Shows a row's value to `read`; false if there is none. The commit depends on it.
    fn get(&mut self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Sets a row's value.
    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a row.
    fn delete(&mut self, table: usize, key: &[u8]) -> Result<()>;
}
