//! Writes of a batch to keyspaces.

use terrace_lsm::key::Kind;

use crate::db::key_range::KeyRange;
use crate::db::keyspace::Keyspace;
use crate::write_buffer::batch::WriteBatch;
use crate::{KeyspaceId, Result};

impl WriteBatch {
    /// Does [`WriteBatch::put`] in a keyspace. A batch may hold writes to several.
    ///
    /// # Errors
    /// As [`WriteBatch::put`]; [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the
    /// batch holds writes to keyspaces of
    /// another open store.
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.use_opening(keyspace.opening())?;
        self.push(Kind::Put, keyspace.id(), key.as_ref(), value.as_ref())
    }

    /// Does [`WriteBatch::delete`] in a keyspace.
    ///
    /// # Errors
    /// As [`WriteBatch::put_in`].
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.use_opening(keyspace.opening())?;
        self.push(Kind::Delete, keyspace.id(), key.as_ref(), &[])
    }

    /// Does [`WriteBatch::delete_range`] in a keyspace.
    ///
    /// # Errors
    /// As [`WriteBatch::delete_range`] and [`WriteBatch::put_in`].
    pub fn delete_range_in(
        &mut self,
        keyspace: &Keyspace,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.use_opening(keyspace.opening())?;
        self.push_range_delete(keyspace.id(), from.as_ref(), to.as_ref())
    }

    /// Removes every key within bounds, as [`Keyspace::delete_within`] does. The range has an end: a batch
    /// does not know the last key.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// use terrace::{WriteBatch, WriteOptions, prefix_range};
    /// # let visits = db.get_or_create_keyspace("visits", Default::default())?;
    /// # visits.put("2025-12", "lisbon")?;
    /// # db.put("old:1", "oslo")?;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.delete_within(prefix_range("old:"))?;
    /// batch.delete_within_in(&visits, ..="2025-12")?;
    /// db.write(batch, WriteOptions::default())?;
    /// assert!(db.is_empty()? && visits.is_empty()?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a range without an end; otherwise
    /// as [`Keyspace::delete_within`].
    pub fn delete_within(&mut self, range: impl KeyRange) -> Result<()> {
        self.push_delete_within(KeyspaceId::DEFAULT, (range.lower(), range.upper()))
    }

    /// Does [`WriteBatch::delete_within`] in a keyspace.
    ///
    /// # Errors
    /// As [`WriteBatch::delete_within`] and [`WriteBatch::put_in`].
    pub fn delete_within_in(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> Result<()> {
        self.use_opening(keyspace.opening())?;
        self.push_delete_within(keyspace.id(), (range.lower(), range.upper()))
    }
}
