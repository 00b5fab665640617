//! Writes of a batch to keyspaces.

use terrace_lsm::key::Kind;

use crate::Result;
use crate::db::keyspace::Keyspace;
use crate::write_buffer::batch::WriteBatch;

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
}
