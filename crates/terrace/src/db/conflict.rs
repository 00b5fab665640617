//! The conflict check, for writes that depend on earlier reads.
//!
//! A writer that reads keys, decides, and writes, gives the number that it read at and the keys.
//! The leader of the commit queue writes the batch only if none of the keys has been written since.
//! It checks after its group has closed and before numbers are given, batch by batch, and counts
//! the earlier batches of the group. Nothing can come in between. So each such write takes effect
//! as if reading and writing had happened at one moment.
//!
//! The leader never reads a table: every write after the number is in the MemTables unless they
//! have been flushed since, and then the answer is a conflict, too. The caller reads again.

use terrace_lsm::key::{Kind, MAX_SEQUENCE};
use terrace_lsm::read_point::ReadPoint;
use terrace_lsm::table::key_hash;

use crate::db::Store;
use crate::db::owners::Writes;
use crate::db::read::ReadOptions;
use crate::db::value::Value;
use crate::db::view::View;
use crate::db::write::WriteOptions;
use crate::write_buffer::batch::WriteBatch;
use crate::write_buffer::record::Records;
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// Keys that must not have been written after a number.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) read_at: SequenceNumber,
    pub(crate) keys: Vec<(KeyspaceId, Vec<u8>)>,
}

/// A change to a key whose value has been read.
pub(crate) enum Change {
    Leave,
    Put(Vec<u8>),
    Delete,
}

impl Store {
    /// Reads a key and changes it as `decide` says, as if at one moment. Asks `decide` again
    /// whenever another write came in between. Returns the value that it was last given, and
    /// whether it changed that.
    pub(crate) fn change_key(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(Option<Value>, bool)> {
        loop {
            self.check_writable()?;
            let (value, read_at) = self.get_and_number(keyspace, key)?;
            let mut batch = WriteBatch::new();
            let change = decide(value.as_deref());
            // `decide` is a caller's code, which may have forked.
            self.lifecycle.check_process()?;
            match change {
                Change::Leave => return Ok((value, false)),
                Change::Put(new) => batch.push(Kind::Put, keyspace, key, &new)?,
                Change::Delete => batch.push(Kind::Delete, keyspace, key, &[])?,
            }
            let condition = Condition {
                read_at,
                keys: vec![(keyspace, key.to_vec())],
            };
            match self.write_if(batch, WriteOptions::default(), Some(condition)) {
                Err(Error::Conflict) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok((value, true)),
            }
        }
    }

    /// Returns a key's value, and a number up to which every write was seen.
    fn get_and_number(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
    ) -> Result<(Option<Value>, SequenceNumber)> {
        let lookup = self.lookup(keyspace, key, None);
        let view = self.reads.view.load();
        let value = self.get_in(
            &view,
            &lookup,
            ReadPoint::at(self.reads.visible()),
            &ReadOptions::default(),
            &mut 0,
        )?;
        // Not the number that was read at, which may be of writes that the view does not list yet
        // (in a MemTable that came after it, or past the MemTables): those count as not read.
        Ok((value, lookup.began_at))
    }
}

impl Writes {
    /// Fails if a key was written since it was read, in the store or by the batches `earlier`.
    /// Called by the leader.
    pub(crate) fn check_condition(
        &self,
        view: &View,
        condition: &Condition,
        earlier: &[&WriteBatch],
    ) -> Result<()> {
        let is_written = |(keyspace, key): &(KeyspaceId, Vec<u8>)| {
            self.is_written_after(view, *keyspace, key, condition.read_at)
                || earlier.iter().any(|batch| writes(batch, *keyspace, key))
        };
        if condition.read_at < view.flushed_sequence || condition.keys.iter().any(is_written) {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    fn is_written_after(
        &self,
        view: &View,
        keyspace: KeyspaceId,
        key: &[u8],
        sequence: SequenceNumber,
    ) -> bool {
        let hash = key_hash(key, self.hash_seed);
        let tables = view.memtables.iter().filter(|table| !table.is_empty());
        let newest = |(tag, _): (terrace_lsm::key::Tag, _)| tag.sequence() > sequence;
        tables
            .filter_map(|table| table.get(keyspace, key, hash, MAX_SEQUENCE))
            .any(newest)
    }
}

/// Returns whether a batch writes a key, or deletes it with others.
fn writes(batch: &WriteBatch, keyspace: KeyspaceId, key: &[u8]) -> bool {
    let payload = batch.payload();
    Records::new(payload).flatten().any(|record| {
        let key_end = record.key_offset + record.key_bytes;
        let own = payload.get(record.key_offset..key_end);
        let value = payload.get(key_end..key_end + record.value_bytes);
        let is_inside = || own <= Some(key) && Some(key) < value;
        let writes = own == Some(key) || (record.kind.is_of_range() && is_inside());
        record.keyspace == keyspace.number() && writes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_writes_the_keys_of_the_ranges_that_it_deletes() {
        let mut batch = WriteBatch::new();
        batch.put(b"p", b"q").unwrap();
        batch.delete_range(b"b", b"d").unwrap();
        let written = |key: &[u8]| writes(&batch, KeyspaceId::DEFAULT, key);
        assert!(written(b"b") && written(b"c") && written(b"cc") && written(b"p"));
        assert!(!written(b"a") && !written(b"d") && !written(b"pp"));
        assert!(!writes(&batch, KeyspaceId::from_number(2), b"c"));
    }
}
