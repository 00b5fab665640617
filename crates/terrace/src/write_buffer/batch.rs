//! A group of writes that takes effect as a whole or not at all.

use std::cmp::Ordering;

use terrace_lsm::key::{Kind, MAX_KEY_BYTES};

use crate::opening::Opening;
use crate::write_buffer::record::{self, Records};
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
    /// The keyspaces written to, the default one left out, and the open store they are of.
    others: Vec<KeyspaceId>,
    opening: Option<Opening>,
}

/// A state of a batch to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchMark {
    payload_bytes: usize,
    records: u32,
    others: usize,
    opening: Option<Opening>,
}

impl BatchMark {
    /// Returns the number of writes at the mark.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }
}

impl WriteBatch {
    /// Makes an empty batch.
    pub fn new() -> Self {
        WriteBatch::default()
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the key is longer than 65,535 bytes, or the value or the batch
    /// than 4 GiB. (The store's own limit, [`Options::max_batch_bytes`](crate::Options::max_batch_bytes), is
    /// checked when it is written.)
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.push(Kind::Put, KeyspaceId::DEFAULT, key, value)
    }

    /// Removes a key; removing one that is absent is not an error.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.push(Kind::Delete, KeyspaceId::DEFAULT, key.as_ref(), &[])
    }

    /// Removes every key from `from` on, up to `to`, which stays. One record of the two keys is
    /// written, however many keys lie between them, and reads and merges go by it. Of the batch's
    /// own writes it removes those before it. If the two are equal nothing is removed.
    ///
    /// ```
    /// let mut batch = terrace::WriteBatch::new();
    /// batch.delete_range(b"city:", b"city;")?;
    /// batch.put(b"city:1", b"Lisbon")?;
    /// assert_eq!(batch.len(), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `to` is before `from`, or a key is longer than 65,535 bytes.
    pub fn delete_range(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.push_range_delete(KeyspaceId::DEFAULT, from.as_ref(), to.as_ref())
    }

    /// Refuses writes to keyspaces of two openings in one batch.
    pub(crate) fn use_opening(&mut self, opening: Opening) -> Result<()> {
        let of_batch = *self.opening.get_or_insert(opening);
        opening.check(of_batch)
    }

    pub(crate) fn push_range_delete(
        &mut self,
        keyspace: KeyspaceId,
        from: &[u8],
        to: &[u8],
    ) -> Result<()> {
        check_key(to)?;
        match from.cmp(to) {
            Ordering::Less => self.push(Kind::RangeDelete, keyspace, from, to),
            Ordering::Equal => check_key(from),
            Ordering::Greater => Err(Error::invalid(
                "the range to delete ends before it begins; its first key comes first",
            )),
        }
    }

    /// Adds several records, or none if one is refused.
    pub(crate) fn all_or_nothing(
        &mut self,
        add: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let mark = self.mark();
        add(self).inspect_err(|_| self.roll_back(&mark))
    }

    pub(crate) fn mark(&self) -> BatchMark {
        BatchMark {
            payload_bytes: self.payload.len(),
            records: self.records,
            others: self.others.len(),
            opening: self.opening,
        }
    }

    /// Takes away every write after a mark.
    pub(crate) fn roll_back(&mut self, mark: &BatchMark) {
        self.payload.truncate(mark.payload_bytes);
        self.records = mark.records;
        self.others.truncate(mark.others);
        self.opening = mark.opening;
    }

    /// Returns the payload of the writes after a mark.
    pub(crate) fn payload_after(&self, mark: &BatchMark) -> &[u8] {
        self.payload.get(mark.payload_bytes..).unwrap_or_default()
    }

    pub(crate) fn push(
        &mut self,
        kind: Kind,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_key(key)?;
        let added = record::encoded_bytes(keyspace.number(), key.len(), value.len());
        if self.payload.len().saturating_add(added) > u32::MAX as usize {
            return Err(Error::invalid(format!(
                "the batch would grow by {added} bytes beyond 4 GiB; write it in parts"
            )));
        }
        if keyspace != KeyspaceId::DEFAULT && !self.others.contains(&keyspace) {
            self.others.push(keyspace);
        }
        self.payload.reserve(added);
        record::encode(&mut self.payload, kind, keyspace.number(), key, value);
        self.records += 1;
        Ok(())
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.records as usize
    }

    /// Returns whether there are no writes.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the bytes that the batch takes in a frame.
    pub fn size_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.records = 0;
        self.others.clear();
        self.opening = None;
    }

    /// Returns whether the batch only deletes. Such a batch takes no space for longer than until a
    /// merge.
    pub(crate) fn only_deletes(&self) -> bool {
        Records::new(self.payload()).all(|record| record.is_ok_and(|record| record.kind.deletes()))
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Returns the keyspaces written to, the default one left out.
    pub(crate) fn other_keyspaces(&self) -> &[KeyspaceId] {
        &self.others
    }

    /// Returns the open store that the keyspaces are of; `None` if only the default one is written
    /// to.
    pub(crate) fn opening(&self) -> Option<Opening> {
        self.opening
    }
}

pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > MAX_KEY_BYTES {
        return Err(Error::invalid(format!(
            "the key has {} bytes; keys have at most {MAX_KEY_BYTES}",
            key.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_too_long_is_refused_and_leaves_the_batch_whole() {
        let mut batch = WriteBatch::new();
        batch.put([1; MAX_KEY_BYTES], b"").unwrap();
        let before = batch.size_bytes();
        assert!(matches!(
            batch.put([1; MAX_KEY_BYTES + 1], b""),
            Err(Error::InvalidArgument(_))
        ));
        assert_eq!((batch.len(), batch.size_bytes()), (1, before));
    }

    #[test]
    fn a_range_that_is_none_is_not_written() {
        let mut batch = WriteBatch::new();
        batch.delete_range(b"b", b"b").unwrap();
        assert!(batch.is_empty());
        let too_long = [1; MAX_KEY_BYTES + 1];
        for (from, to) in [(&b"b"[..], &b"a"[..]), (b"", &too_long), (&too_long, b"z")] {
            assert!(matches!(
                batch.delete_range(from, to),
                Err(Error::InvalidArgument(_))
            ));
        }
        batch.delete_range(b"", &too_long[1..]).unwrap();
        assert_eq!(batch.len(), 1);
    }
}
