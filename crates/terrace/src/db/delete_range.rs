//! Ranges that are deleted by their bounds, one of which may be missing.
//!
//! A record of a deleted range has two keys, the second of which stays. For a range without an end, the
//! leader puts it behind the largest key that the keyspace can hold at the record's number. No write
//! runs meanwhile, so no key below that number is larger. A key of the longest length has no successor
//! that begins alike; a record of its own deletes it.

use std::ops::Bound;

use terrace_lsm::cursor::Cursor;
use terrace_lsm::key::{Kind, MAX_KEY_BYTES};
use terrace_lsm::levels::Bounds;

use crate::db::Store;
use crate::db::keyspaces::live;
use crate::db::owners::Reads;
use crate::db::write::Writer;
use crate::options::Durability;
use crate::write_buffer::batch::{WriteBatch, check_key};
use crate::{Error, KeyspaceId, Result};

impl Store {
    /// Removes every key within bounds.
    pub(crate) fn delete_within(&self, keyspace: KeyspaceId, (from, to): Bounds<'_>) -> Result<()> {
        self.lifecycle.check_process()?;
        if to == Bound::Unbounded {
            return self.delete_to_the_end(keyspace, &first_key(from)?);
        }
        let mut batch = WriteBatch::new();
        batch.push_delete_within(keyspace, (from, to))?;
        self.write(batch, Default::default())
    }

    fn delete_to_the_end(&self, keyspace: KeyspaceId, from: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.as_leader(|writer| {
            let Some(largest) = self.reads.largest_key(keyspace)? else {
                return Ok(());
            };
            if largest.as_slice() < from {
                return Ok(());
            }
            let mut batch = WriteBatch::new();
            batch.push_delete_through(keyspace, from, &largest)?;
            self.check_size(&batch)?;
            self.write_alone(writer, &batch)
        })
    }

    fn write_alone(&self, writer: &mut Writer, batch: &WriteBatch) -> Result<()> {
        let sync = self.writes.durability == Durability::PowerSafe;
        self.files.write_or_only_deletes(
            self.files.reserve.deletes_skip_waiting(),
            |admission, _| {
                let payload = [batch.payload()];
                self.write_frame(writer, &payload, batch.records(), sync, admission)
            },
        )?;
        self.reads.show(writer.last_sequence);
        if self.files.reserve.deletes_skip_waiting() {
            self.lifecycle.background.compaction_wanted(self);
        }
        Ok(())
    }
}

impl Reads {
    /// Returns the largest key that the keyspace may hold, or a larger one; `None` if it is empty. For
    /// the leader, whose next write has the next number.
    fn largest_key(&self, keyspace: KeyspaceId) -> Result<Option<Vec<u8>>> {
        let view = self.view.load();
        let tables = live(&view.version, keyspace)?.tables();
        let mut largest = tables.map(|(_, table)| table.bounds.largest.clone()).max();
        for memtable in &view.memtables {
            let mut cursor = memtable.cursor(keyspace);
            cursor.seek_to_last()?;
            if cursor.valid() {
                let key = cursor.key().user_key;
                if largest.as_deref().is_none_or(|largest| largest < key) {
                    largest = Some(key.to_vec());
                }
            }
        }
        Ok(largest)
    }
}

/// Returns the first key behind a key; `None` if the key has the maximum length.
fn next_key(key: &[u8]) -> Option<Vec<u8>> {
    (key.len() < MAX_KEY_BYTES).then(|| [key, &[0]].concat())
}

/// Returns the first key of a range.
fn first_key(from: Bound<&[u8]>) -> Result<Vec<u8>> {
    match from {
        Bound::Unbounded => Ok(Vec::new()),
        Bound::Included(from) => Ok(checked(from)?.to_vec()),
        Bound::Excluded(from) => next_key(checked(from)?).ok_or_else(|| {
            Error::invalid(
                "a range to delete cannot begin behind a key of the longest length; begin it with one",
            )
        }),
    }
}

impl WriteBatch {
    /// Adds the deletion of a range that has an end.
    pub(crate) fn push_delete_within(
        &mut self,
        keyspace: KeyspaceId,
        (from, to): Bounds<'_>,
    ) -> Result<()> {
        let from = first_key(from)?;
        match to {
            Bound::Excluded(to) => self.push_range_delete(keyspace, &from, to),
            Bound::Included(last) => self.push_delete_through(keyspace, &from, checked(last)?),
            Bound::Unbounded => Err(Error::invalid(
                "a range to delete in a batch needs an end; Keyspace::delete_within takes one without",
            )),
        }
    }

    /// Adds the deletion of a range with its last key.
    fn push_delete_through(
        &mut self,
        keyspace: KeyspaceId,
        from: &[u8],
        last: &[u8],
    ) -> Result<()> {
        match next_key(last) {
            Some(end) => self.push_range_delete(keyspace, from, &end),
            None => self.all_or_nothing(|batch| {
                batch.push_range_delete(keyspace, from, last)?;
                batch.push(Kind::Delete, keyspace, last, &[])
            }),
        }
    }
}

fn checked(key: &[u8]) -> Result<&[u8]> {
    check_key(key).map(|()| key)
}
