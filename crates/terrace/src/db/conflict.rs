//! The conflict check, for writes that depend on earlier reads.
//!
//! A writer that reads keys, decides, and writes, gives the leader of the commit queue a [`Condition`]: its
//! footprint, and a number up to which it knows all changes of that. The leader writes the batch only if
//! no later write changed any of it. It checks after its group has closed and before numbers are given,
//! batch by batch, and counts the earlier batches of the group. Nothing can come in between. So each such
//! write takes effect as if reading and writing had happened at one moment.
//!
//! The leader never reads a table, and takes a short time (`arena_changes.rs`). Where much was written after
//! the number, or some of it was flushed, the condition is *outpaced*. Its owner looks at the store again,
//! outside the queue (`changes.rs`), and comes back with a higher number.

use std::sync::Arc;

use terrace_lsm::key::Kind;
use terrace_lsm::read_point::ReadPoint;
use terrace_lsm::sync::atomic::{AtomicBool, Ordering};

use crate::db::Store;
use crate::db::arena_changes::{changed_in_arenas, is_short};
use crate::db::changes::Found;
use crate::db::footprint::{Changed, Footprint};
use crate::db::owners::Reads;
use crate::db::read::ReadOptions;
use crate::db::value::Value;
use crate::db::view::View;
use crate::db::write::WriteOptions;
use crate::write_buffer::batch::WriteBatch;
use crate::write_buffer::record::Records;
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// A footprint that must not have been written to after a number.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) footprint: Footprint,
    /// The owner knows the changes up to this number.
    pub(crate) since: SequenceNumber,
    /// Whether the leader could not judge it.
    is_outpaced: AtomicBool,
}

impl Condition {
    /// Makes a condition on a footprint that is settled.
    pub(crate) fn new(footprint: Footprint, since: SequenceNumber) -> Self {
        Condition {
            footprint,
            since,
            is_outpaced: AtomicBool::new(false),
        }
    }

    /// Returns whether the leader could not judge it, and so refused its batch.
    pub(crate) fn is_outpaced(&self) -> bool {
        self.is_outpaced.load(Ordering::Relaxed)
    }

    /// Makes it one on the changes after a later number.
    pub(crate) fn renew(&mut self, since: SequenceNumber) {
        self.since = since;
        *self.is_outpaced.get_mut() = false;
    }
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
            let condition = Condition::new(Footprint::of_key(keyspace, key), read_at);
            match self.write_if(batch, WriteOptions::default(), Some(Arc::new(condition))) {
                Err(Error::Conflict { .. }) => {}
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

impl Reads {
    /// Fails if a part of a condition was written after its number, in the store or by the batches
    /// `earlier`. Fails, too, if that is more than a leader finds out. The leader calls it, and gave
    /// `last_sequence` last.
    pub(crate) fn check_condition(
        &self,
        view: &View,
        last_sequence: SequenceNumber,
        condition: &Condition,
        earlier: &[&WriteBatch],
        hash_seed: u64,
    ) -> Result<()> {
        let &Condition {
            ref footprint,
            since,
            ..
        } = condition;
        if let Some((keyspace, key)) = footprint
            .keyspaces()
            .find(|(keyspace, _)| view.version.keyspace(*keyspace).is_none())
        {
            return Err(self.conflict(keyspace, key));
        }
        // Records after the number that are in tables, and loads, which have no records.
        let is_flushed = view.flushed_sequence > since;
        if is_flushed || !is_short(footprint, last_sequence.saturating_sub(since)) {
            condition.is_outpaced.store(true, Ordering::Relaxed);
            let some = footprint.keyspaces().next();
            let (keyspace, key) = some.unwrap_or((KeyspaceId::DEFAULT, &[]));
            return Err(self.conflict(keyspace, key));
        }
        match changed_in_arenas(view, footprint, since, last_sequence, hash_seed)
            .or_else(|| changed_in_batches(earlier, footprint))
        {
            Some((keyspace, key)) => Err(self.conflict(keyspace, &key)),
            None => Ok(()),
        }
    }

    /// Returns the error that a key was changed.
    #[cold]
    pub(crate) fn conflict(&self, keyspace: KeyspaceId, key: &[u8]) -> Error {
        let name = self.present_name(keyspace);
        Error::Conflict {
            keyspace: name.unwrap_or_else(|| format!("number {}, dropped", keyspace.number())),
            key: key.to_vec(),
        }
    }
}

/// Returns a key of a footprint that a batch changes.
fn changed_in_batches(batches: &[&WriteBatch], footprint: &Footprint) -> Found {
    batches.iter().find_map(|batch| {
        let payload = batch.payload();
        Records::new(payload).flatten().find_map(|record| {
            let key_end = record.key_offset + record.key_bytes;
            let changed = Changed {
                keyspace: KeyspaceId::from_number(record.keyspace),
                kind: record.kind,
                key: payload.get(record.key_offset..key_end)?,
                value: payload.get(key_end..key_end + record.value_bytes)?,
            };
            let touched = footprint.touched_by(&changed);
            touched.map(|key| (changed.keyspace, key.to_vec()))
        })
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
        let written = |keyspace, key: &[u8]| {
            let mut footprint = Footprint::of_key(KeyspaceId::from_number(keyspace), key);
            footprint.settle();
            changed_in_batches(&[&batch], &footprint).is_some()
        };
        assert!(written(1, b"b") && written(1, b"c") && written(1, b"cc") && written(1, b"p"));
        assert!(!written(1, b"a") && !written(1, b"d") && !written(1, b"pp"));
        assert!(!written(2, b"c"));
    }
}
