//! A group of writes that takes effect as a whole or not at all.

use crate::key::{Kind, MAX_KEY_BYTES};
use crate::write_buffer::record;
use crate::{Error, KeyspaceId, Result};

/// Writes that take effect together: after a crash all of them are there or none is.
///
/// The writes are kept in the form in which they are stored; writing a batch copies it once.
///
/// ```
/// let mut batch = terrace::WriteBatch::new();
/// batch.put(b"city:1", b"Lisbon")?;
/// batch.delete(b"city:2")?;
/// assert_eq!(batch.len(), 2);
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    payload: Vec<u8>,
    records: u32,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        WriteBatch::default()
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the key is longer than 65,535 bytes, or the value or the batch
    /// than 4 GiB. (The store's own limit, `max_batch_bytes`, is checked when it is written.)
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.push(Kind::Put, KeyspaceId::DEFAULT, key, value)
    }

    /// Removes a key; removing one that is absent is not an error.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.push(Kind::Delete, KeyspaceId::DEFAULT, key, &[])
    }

    pub(crate) fn push(
        &mut self,
        kind: Kind,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::invalid(format!(
                "the key has {} bytes; keys have at most {MAX_KEY_BYTES}",
                key.len()
            )));
        }
        let added = record::encoded_bytes(keyspace.number(), key.len(), value.len());
        if self.payload.len().saturating_add(added) > u32::MAX as usize {
            return Err(Error::invalid(format!(
                "the batch would grow by {added} bytes beyond 4 GiB; write it in parts"
            )));
        }
        self.payload.reserve(added);
        record::encode(&mut self.payload, kind, keyspace.number(), key, value);
        self.records += 1;
        Ok(())
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.records as usize
    }

    /// Whether there are no writes.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The bytes the batch takes in a frame.
    pub fn size_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.records = 0;
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn records(&self) -> u32 {
        self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_too_long_is_refused_and_leaves_the_batch_whole() {
        let mut batch = WriteBatch::new();
        batch.put(&[1; MAX_KEY_BYTES], b"").unwrap();
        let before = batch.size_bytes();
        assert!(matches!(
            batch.put(&[1; MAX_KEY_BYTES + 1], b""),
            Err(Error::InvalidArgument(_))
        ));
        assert_eq!((batch.len(), batch.size_bytes()), (1, before));
    }
}
