//! The public handle to a store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use terrace_storage::{Clock, SystemClock};

use crate::db::Store;
use crate::db::events::Event;
use crate::db::iterator::{DbIterator, IterOptions};
use crate::db::snapshot::Snapshot;
use crate::db::statistics::{LevelsReport, Statistics};
use crate::db::value::Value;
use crate::db::write::WriteOptions;
use crate::options::Options;
use crate::write_buffer::batch::WriteBatch;
use crate::{KeyspaceId, Result};

/// An open store. Cheap to clone and to share between threads; the last clone to be dropped closes
/// the store.
///
/// Keys and values are bytes; keys are ordered bytewise. Empty keys and values are allowed.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("store");
/// use terrace::{Db, IterOptions, Options, WriteBatch, WriteOptions};
///
/// let db = Db::open(&path, Options::default())?;
/// db.put(b"city:lisbon", b"Portugal")?;
///
/// let mut batch = WriteBatch::new();
/// batch.put(b"city:oslo", b"Norway")?;
/// batch.delete(b"city:lisbon")?;
/// db.write(batch, WriteOptions { sync: true })?;
///
/// assert_eq!(db.get(b"city:oslo")?.as_deref(), Some(&b"Norway"[..]));
/// let cities = db.iter(IterOptions::prefix(b"city:"))?.entries();
/// assert_eq!(cities.count(), 1);
/// db.close()?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    store: Arc<Store>,
    _owner: Arc<Owner>,
}

/// Closes the store when the last handle is gone. Iterators and snapshots hold the store itself and
/// do not keep it open.
struct Owner(Arc<Store>);

impl Drop for Owner {
    fn drop(&mut self) {
        // Whoever wants to see a failure calls `close`.
        let _ = self.0.close();
    }
}

impl Db {
    /// Opens the store in a directory, making one if there is none and
    /// [`Options::create_if_missing`] says so. After a crash this brings back what was acknowledged:
    /// [`Statistics::recovery`] says what was found.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::Error::Busy) if the store is open elsewhere,
    /// [`Error::NoStore`](crate::Error::NoStore) if there is none or the directory holds other
    /// files, [`Error::Corruption`](crate::Error::Corruption) if acknowledged bytes are damaged,
    /// [`Error::RegionLost`](crate::Error::RegionLost) if unflushed writes are missing,
    /// [`Error::NoSpace`](crate::Error::NoSpace) if there is no room to recover into.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_on(path.as_ref(), options, Arc::new(SystemClock::new()))
    }

    pub(crate) fn open_on(path: &Path, options: Options, clock: Arc<dyn Clock>) -> Result<Db> {
        let store = Store::open(path, options, clock)?;
        Ok(Db {
            _owner: Arc::new(Owner(Arc::clone(&store))),
            store,
        })
    }

    /// The value of a key, `None` if there is none.
    ///
    /// # Errors
    /// Those of reading a table.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.store.get(KeyspaceId::DEFAULT, key, None)
    }

    /// The value that a key had when the snapshot was taken.
    ///
    /// # Errors
    /// As [`Db::get`]; [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the snapshot is
    /// another store's.
    pub fn get_at(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Value>> {
        self.store.check_snapshot(snapshot)?;
        self.store
            .get(KeyspaceId::DEFAULT, key, Some(snapshot.sequence()))
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        self.write(batch, WriteOptions::default())
    }

    /// Removes a key; removing one that is absent is not an error.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key)?;
        self.write(batch, WriteOptions::default())
    }

    /// Writes a batch as a whole. When it returns, the writes are visible to every reader and
    /// survive what the store's [`Durability`](crate::Durability) says; with
    /// [`WriteOptions::sync`] they and all writes before them survive a power cut.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a batch over
    /// [`Options::max_batch_bytes`], a read-only store, or `sync` where nothing can be persisted;
    /// [`Error::NoSpace`](crate::Error::NoSpace) if the buffers are full and cannot be flushed (the
    /// store goes on by itself when space returns);
    /// [`Error::Poisoned`](crate::Error::Poisoned) after a failed sync. After an I/O error it is
    /// not known whether a reopened store has the batch; it has all of it or none.
    pub fn write(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.store.write(batch, options)
    }

    /// Makes every write acknowledged so far survive a power cut.
    ///
    /// # Errors
    /// As [`Db::write`] with `sync`.
    pub fn persist(&self) -> Result<()> {
        self.store
            .write(WriteBatch::new(), WriteOptions { sync: true })
    }

    /// The store as it is now, to be read later.
    pub fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    /// An iterator, not yet positioned.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), or
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the snapshot is another store's.
    pub fn iter(&self, options: IterOptions) -> Result<DbIterator> {
        DbIterator::new(Arc::clone(&self.store), KeyspaceId::DEFAULT, options)
    }

    /// Writes everything acknowledged so far to tables and waits for it.
    ///
    /// # Errors
    /// The flush's failure; it is repeated in the background all the same.
    pub fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    /// Waits until no level is over its target.
    ///
    /// # Errors
    /// The compaction's failure; it is repeated in the background all the same.
    pub fn compact(&self) -> Result<()> {
        self.store.settle()
    }

    /// What the store holds and has done.
    pub fn statistics(&self) -> Statistics {
        self.store.statistics()
    }

    /// What the store did in the background, the last thousand events, oldest first. See
    /// [`Options::event_listener`] for being told as it happens.
    pub fn events(&self) -> Vec<Event> {
        self.store.events.kept()
    }

    /// Every table, in its place.
    pub fn levels(&self) -> LevelsReport {
        self.store.levels_report()
    }

    /// Closes the store for every clone of the handle. Later calls fail with
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Errors
    /// The first failure of persisting what was written; the store is closed in any case.
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("path", &self.store.path)
            .finish_non_exhaustive()
    }
}
