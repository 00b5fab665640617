//! Batches that are written unless keys that the caller names were written since.

use crate::db::footprint::{Footprint, Span};
use crate::db::key_range::KeyRange;
use crate::opening::Opening;
use crate::{Db, Error, Keyspace, KeyspaceId, Result, Snapshot, WriteBatch, WriteOptions};

/// Keys and ranges of keys that must not have been written since a snapshot. See [`Db::write_if_unchanged`].
#[derive(Clone, Debug)]
pub struct Unchanged {
    snapshot: Snapshot,
    footprint: Footprint,
    /// The openings of stores that the keyspaces are of.
    openings: Vec<Opening>,
}

impl Unchanged {
    /// Makes a condition that names no key yet.
    pub fn since(snapshot: &Snapshot) -> Self {
        Unchanged {
            snapshot: snapshot.clone(),
            footprint: Footprint::default(),
            openings: Vec::new(),
        }
    }

    /// Adds a key, present or absent.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.footprint.add_key(KeyspaceId::DEFAULT, key.as_ref());
        self
    }

    /// Adds a key of a keyspace.
    pub fn key_in(mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Self {
        self.footprint.add_key(keyspace.id(), key.as_ref());
        self.of(keyspace)
    }

    /// Adds all keys of a range, present or absent.
    pub fn range(mut self, range: impl KeyRange) -> Self {
        let span = Span::of(range.lower(), range.upper());
        self.footprint.add_span(KeyspaceId::DEFAULT, span);
        self
    }

    /// Adds all keys of a range in a keyspace.
    pub fn range_in(mut self, keyspace: &Keyspace, range: impl KeyRange) -> Self {
        let span = Span::of(range.lower(), range.upper());
        self.footprint.add_span(keyspace.id(), span);
        self.of(keyspace)
    }

    fn of(mut self, keyspace: &Keyspace) -> Self {
        if !self.openings.contains(&keyspace.opening()) {
            self.openings.push(keyspace.opening());
        }
        self
    }
}

impl Db {
    /// Writes a batch as a whole, unless one of the named keys was written after the snapshot. It is the
    /// end of a [`Transaction`](crate::Transaction) whose reads the caller made and kept.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// use terrace::{Error, Unchanged, WriteBatch, WriteOptions};
    ///
    /// let snapshot = db.snapshot();
    /// let mut batch = WriteBatch::new();
    /// batch.put("user:7", "ada")?;
    /// let free = Unchanged::since(&snapshot).key("user:7");
    /// db.write_if_unchanged(batch.clone(), WriteOptions::default(), free.clone())?;
    /// let again = db.write_if_unchanged(batch, WriteOptions::default(), free);
    /// assert!(matches!(again, Err(Error::Conflict { .. })));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// An empty batch is not written, so nothing is checked.
    ///
    /// # Errors
    /// [`Error::Conflict`], which names a key; nothing was written then. [`Error::InvalidArgument`] for a
    /// snapshot or a keyspace of another store. Otherwise as [`Db::write`].
    pub fn write_if_unchanged(
        &self,
        batch: WriteBatch,
        options: WriteOptions,
        unchanged: Unchanged,
    ) -> Result<()> {
        let store = self.own_store()?;
        store.reads.check_snapshot(&unchanged.snapshot)?;
        let opening = store.lifecycle.opening;
        if unchanged.openings.iter().any(|other| *other != opening) {
            return Err(Error::invalid(
                "a named keyspace is of another store, or of another opening of this one",
            ));
        }
        if batch.is_empty() {
            return self.write(batch, options);
        }
        let mut footprint = unchanged.footprint;
        footprint.settle();
        store.write_if_unchanged(batch, options, footprint, unchanged.snapshot.sequence())
    }
}
