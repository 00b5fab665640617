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
        let from = match from {
            Bound::Unbounded => Vec::new(),
            Bound::Included(from) => checked(from)?.to_vec(),
            Bound::Excluded(from) => match next_key(checked(from)?) {
                Some(next) => next,
                None => {
                    return Err(Error::invalid(
                        "a range to delete cannot begin behind a key of the longest length; begin it with one",
                    ));
                }
            },
        };
        let batch = match to {
            Bound::Unbounded => return self.delete_to_the_end(keyspace, &from),
            Bound::Excluded(to) => {
                let mut batch = WriteBatch::new();
                batch.push_range_delete(keyspace, &from, to)?;
                batch
            }
            Bound::Included(to) => through(keyspace, &from, checked(to)?)?,
        };
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
            let batch = through(keyspace, from, &largest)?;
            self.check_size(&batch)?;
            self.write_alone(writer, &batch)
        })
    }

    fn write_alone(&self, writer: &mut Writer, batch: &WriteBatch) -> Result<()> {
        let sync = self.writes.durability == Durability::PowerSafe;
        self.files.write_deletes_at_least(
            self.files.reserve.lets_deletes_pass(),
            |admission, _| {
                let payload = [batch.payload()];
                self.write_frame(writer, &payload, batch.records(), sync, admission)
            },
        )?;
        self.reads.show(writer.last_sequence);
        if self.files.reserve.lets_deletes_pass() {
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

/// Returns the deletion of a range with its last key.
fn through(keyspace: KeyspaceId, from: &[u8], last: &[u8]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    match next_key(last) {
        Some(end) => batch.push_range_delete(keyspace, from, &end)?,
        None => {
            batch.push_range_delete(keyspace, from, last)?;
            batch.push(Kind::Delete, keyspace, last, &[])?;
        }
    }
    Ok(batch)
}

fn checked(key: &[u8]) -> Result<&[u8]> {
    check_key(key).map(|()| key)
}
