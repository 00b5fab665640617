//! The operations that are measured, as every store offers them.

use std::path::Path;
use std::time::Instant;

use crate::Result;
use crate::settings::Settings;

/// An open store. Workloads are generic over it, so that no call goes through a table of pointers.
pub trait Store: Sized + Send + Sync {
    /// Opens the store in a directory, making one if there is none.
    fn open(settings: &Settings, directory: &Path) -> Result<Self>;

    /// What an acknowledged `put` survives, and by what means.
    fn durability(&self) -> String;

    /// A write that survives the death of the process.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// A write that survives a power cut.
    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Shows a key's value to `read`, in the cheapest way the store has.
    fn get<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R>;

    /// Shows at most `limit` entries from `start` on, in order.
    fn scan(&self, start: &[u8], limit: usize, visit: impl FnMut(&[u8], &[u8])) -> Result<()>;

    /// Flushes everything and waits until no background work is left; the moment at which that was
    /// so.
    fn settle(&self) -> Result<Instant>;

    fn close(self) -> Result<()>;
}
