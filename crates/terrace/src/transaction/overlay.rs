//! The writes of a transaction: a batch in the order of the writes, and the way from a key to them.
//!
//! Each write has a number, from 1 on. Readers name the last number that they see, and the overlay only
//! grows under them. Going back to a savepoint takes writes away: from an overlay that an iterator shares
//! it takes them in a copy (`Transaction::roll_back_to`).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use terrace_lsm::cursor::Cursor;
use terrace_lsm::fold::Step;
use terrace_lsm::key::{InternalKey, Kind, MIN_OVERLAY_SEQUENCE, Tag};
use terrace_lsm::range_tombstones::{RangeTombstone, RangeTombstones};
use terrace_lsm::sync::Mutex;

use crate::db::footprint::{Footprint, Span};
use crate::db::range_cover::Ranges;
use crate::db::sources::{Layer, MakeLayer};
use crate::db::transactions::Held;
use crate::db::value::Value;
use crate::opening::Opening;
use crate::write_buffer::batch::{BatchMark, WriteBatch};
use crate::write_buffer::record::Records;
use crate::{KeyspaceId, Result, SequenceNumber};

/// Memory of a write beside its key, roughly.
const ENTRY_BYTES: u64 = 64;

/// A write to one key.
#[derive(Clone, Copy, Debug)]
struct Write {
    kind: Kind,
    /// Its value's place in the batch.
    value_offset: u32,
    value_bytes: u32,
    /// The number of the write to the same key before it, 0 if there is none.
    older: u32,
}

/// The writes to one keyspace.
#[derive(Clone, Debug, Default)]
struct OfKeyspace {
    /// The number of the last write to each key.
    keys: BTreeMap<Box<[u8]>, u32>,
    /// Deleted ranges, the oldest first.
    ranges: Vec<RangeTombstone>,
}

/// The state of a key by a transaction's own writes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// It did not write the key.
    Nothing,
    Deleted,
    Value(Vec<u8>),
}

impl Own {
    /// Returns the value, if there is one.
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Own::Value(bytes) => Some(Value::copied(&bytes)),
            Own::Nothing | Own::Deleted => None,
        }
    }
}

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    batch: WriteBatch,
    /// All writes, those of ranges included: the first one has number 1.
    writes: Vec<Write>,
    keyspaces: BTreeMap<KeyspaceId, OfKeyspace>,
    /// Bytes of keys and entries, beside the batch.
    index_bytes: u64,
    /// Memory of all of it: an iterator may outlive the transaction. `None` in tests.
    held: Option<Held>,
}

/// The state of an overlay to go back to.
#[derive(Clone, Debug)]
pub(crate) struct OverlayMark {
    batch: BatchMark,
    index_bytes: u64,
}

impl Overlay {
    /// Makes an overlay without writes.
    pub(crate) fn new(held: Held) -> Self {
        Overlay {
            held: Some(held),
            ..Overlay::default()
        }
    }

    /// Takes the memory for its writes from the store's budget.
    pub(crate) fn take_memory(&mut self) -> Result<()> {
        let bytes = self.bytes();
        match &mut self.held {
            Some(held) => held.cover(bytes),
            None => Ok(()),
        }
    }

    /// Adds a write. A refused one changes nothing.
    pub(crate) fn push(
        &mut self,
        opening: Option<Opening>,
        keyspace: KeyspaceId,
        kind: Kind,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if let Some(opening) = opening {
            self.batch.use_opening(opening)?;
        }
        if kind.is_of_range() {
            let before = self.batch.len();
            self.batch.push_range_delete(keyspace, key, value)?;
            if self.batch.len() == before {
                return Ok(());
            }
        } else {
            self.batch.push(kind, keyspace, key, value)?;
        }
        self.index_bytes += ENTRY_BYTES + key.len() as u64;
        let number = self.last_number();
        let mut write = Write {
            kind,
            // A batch has at most 4 GiB.
            value_offset: (self.batch.size_bytes() - value.len()) as u32,
            value_bytes: value.len() as u32,
            older: 0,
        };
        let own = self.keyspaces.entry(keyspace).or_default();
        if kind.is_of_range() {
            own.ranges.push(RangeTombstone {
                start: key.to_vec(),
                end: value.to_vec(),
                sequence: sequence_of(number),
            });
            self.index_bytes += value.len() as u64;
        } else if let Some(newest) = own.keys.get_mut(key) {
            write.older = std::mem::replace(newest, number);
        } else {
            own.keys.insert(key.into(), number);
        }
        self.writes.push(write);
        Ok(())
    }

    /// Returns the write with a number, `None` for 0.
    fn write(&self, number: u32) -> Option<&Write> {
        self.writes.get((number as usize).checked_sub(1)?)
    }

    /// Returns the numbers of the writes to a key, from the newest one on.
    fn numbers(&self, newest: u32) -> impl Iterator<Item = u32> {
        let older = |number: &u32| Some(self.write(*number)?.older).filter(|older| *older > 0);
        std::iter::successors(Some(newest), older)
    }

    /// Returns the number of the last write, 0 if there is none.
    pub(crate) fn last_number(&self) -> u32 {
        self.batch.records()
    }

    pub(crate) fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// Takes the writes for the commit, and leaves the overlay to iterators, which need them, or empty.
    pub(crate) fn take_batch(&mut self, is_shared: bool) -> WriteBatch {
        match is_shared {
            true => self.batch.clone(),
            false => std::mem::take(&mut self.batch),
        }
    }

    /// Returns the bytes of memory in use, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        self.batch.size_bytes() as u64 + self.index_bytes
    }

    /// Returns the newest version of a key, of all writes so far.
    pub(crate) fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Own {
        let Some(own) = self.keyspaces.get(&keyspace) else {
            return Own::Nothing;
        };
        let covers = |range: &&RangeTombstone| *range.start <= *key && *key < *range.end;
        let deleted = own.ranges.iter().rev().find(covers);
        let deleted = deleted.map_or(0, |range| range.sequence);
        let newest = own.keys.get(key).copied();
        let newest = newest.filter(|number| sequence_of(*number) > deleted);
        match newest.and_then(|number| self.write(number)) {
            Some(write) if write.kind.step() == Some(Step::Value) => {
                Own::Value(self.value(write).to_vec())
            }
            Some(_) => Own::Deleted,
            None if deleted > 0 => Own::Deleted,
            None => Own::Nothing,
        }
    }

    fn value(&self, write: &Write) -> &[u8] {
        let (from, length) = (write.value_offset as usize, write.value_bytes as usize);
        let payload = self.batch.payload();
        payload.get(from..from + length).unwrap_or_default()
    }

    /// Returns all that it writes, as a footprint that is not settled.
    pub(crate) fn written(&self) -> Footprint {
        let mut footprint = Footprint::default();
        for (keyspace, own) in &self.keyspaces {
            for key in own.keys.keys() {
                footprint.add_key(*keyspace, key);
            }
            for range in &own.ranges {
                let (start, end) = (range.start.clone(), Some(range.end.clone()));
                footprint.add_span(*keyspace, Span { start, end });
            }
        }
        footprint
    }

    pub(crate) fn mark(&self) -> OverlayMark {
        OverlayMark {
            batch: self.batch.mark(),
            index_bytes: self.index_bytes,
        }
    }

    /// Takes away every write after a mark.
    pub(crate) fn roll_back(&mut self, mark: &OverlayMark) {
        let kept = mark.batch.records();
        let payload = self.batch.payload_after(&mark.batch);
        // As many ranges leave as were pushed, and they were pushed in order.
        for (record, number) in Records::new(payload).flatten().zip(kept + 1..) {
            let keyspace = KeyspaceId::from_number(record.keyspace);
            let key_end = record.key_offset + record.key_bytes;
            let (Some(own), Some(key)) = (
                self.keyspaces.get_mut(&keyspace),
                payload.get(record.key_offset..key_end),
            ) else {
                continue;
            };
            if record.kind.is_of_range() {
                own.ranges.pop();
                continue;
            }
            // The first write of a key after the mark names the last one before it.
            let write = self.writes.get(number as usize - 1);
            match write.map_or(0, |write| write.older) {
                0 => drop(own.keys.remove(key)),
                older if older <= kept => {
                    if let Some(newest) = own.keys.get_mut(key) {
                        *newest = older;
                    }
                }
                _ => {}
            }
        }
        self.batch.roll_back(&mark.batch);
        self.writes.truncate(kept as usize);
        self.index_bytes = mark.index_bytes;
    }
}

/// Returns the number by which readers see a write.
fn sequence_of(number: u32) -> SequenceNumber {
    MIN_OVERLAY_SEQUENCE + u64::from(number)
}

/// Returns the layer of an overlay's present writes to a keyspace; `None` if there are none.
pub(crate) fn layer_of(overlay: &Arc<Mutex<Overlay>>, keyspace: KeyspaceId) -> Option<MakeLayer> {
    let held = overlay.lock();
    let own = held.keyspaces.get(&keyspace)?;
    let last_number = held.last_number();
    let ranges = own.ranges.clone();
    let ranges = (!ranges.is_empty()).then(|| Arc::new(RangeTombstones::new(ranges)));
    drop(held);
    let overlay = Arc::clone(overlay);
    Some(Arc::new(move || Layer {
        cursor: Box::new(OverlayCursor {
            overlay: Arc::clone(&overlay),
            keyspace,
            last_number,
            is_valid: false,
            key: Vec::new(),
            tag: Tag(0),
            value: Vec::new(),
        }),
        ranges: ranges
            .clone()
            .and_then(|ranges| Ranges::of_sets(vec![ranges])),
    }))
}

/// A position among the writes to a keyspace, up to a number. It has a copy of the present write, because
/// the transaction goes on writing.
struct OverlayCursor {
    overlay: Arc<Mutex<Overlay>>,
    keyspace: KeyspaceId,
    last_number: u32,
    is_valid: bool,
    key: Vec<u8>,
    tag: Tag,
    value: Vec<u8>,
}

impl OverlayCursor {
    /// Moves to the first version from a key on, whose tag is not before `tag` at that key.
    fn move_to_next(&mut self, from: Bound<&[u8]>, tag: Option<Tag>) {
        self.is_valid = false;
        let overlay = Arc::clone(&self.overlay);
        let overlay = overlay.lock();
        let Some(own) = overlay.keyspaces.get(&self.keyspace) else {
            return;
        };
        for (key, newest) in own.keys.range::<[u8], _>((from, Bound::Unbounded)) {
            let limit = tag.filter(|_| from == Bound::Included(key));
            // Newer versions come first, and have higher tags.
            let mut tags = self.tags(&overlay, *newest);
            let found = tags.find(|(_, own)| limit.is_none_or(|limit| *own <= limit));
            if let Some((write, tag)) = found {
                return self.show(&overlay, key, write, tag);
            }
        }
    }

    /// Moves to the last version up to a key, whose tag is before `tag` at that key.
    fn move_to_previous(&mut self, to: Bound<&[u8]>, tag: Option<Tag>) {
        self.is_valid = false;
        let overlay = Arc::clone(&self.overlay);
        let overlay = overlay.lock();
        let Some(own) = overlay.keyspaces.get(&self.keyspace) else {
            return;
        };
        for (key, newest) in own.keys.range::<[u8], _>((Bound::Unbounded, to)).rev() {
            let limit = tag.filter(|_| to == Bound::Included(key));
            let tags = self.tags(&overlay, *newest);
            let found = tags.take_while(|(_, own)| limit.is_none_or(|limit| *own > limit));
            if let Some((write, tag)) = found.last() {
                return self.show(&overlay, key, write, tag);
            }
        }
    }

    /// Returns the visible writes to a key with their tags, from the newest one on.
    fn tags<'o>(
        &self,
        overlay: &'o Overlay,
        newest: u32,
    ) -> impl Iterator<Item = (&'o Write, Tag)> + use<'o> {
        let last_number = self.last_number;
        let visible = overlay
            .numbers(newest)
            .filter(move |number| *number <= last_number);
        visible.filter_map(|number| {
            let write = overlay.write(number)?;
            Some((write, Tag::new(sequence_of(number), write.kind)))
        })
    }

    fn show(&mut self, overlay: &Overlay, key: &[u8], write: &Write, tag: Tag) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.tag = tag;
        self.value.clear();
        self.value.extend_from_slice(overlay.value(write));
        self.is_valid = true;
    }
}

impl Cursor for OverlayCursor {
    fn valid(&self) -> bool {
        self.is_valid
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.move_to_next(Bound::Unbounded, None);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.move_to_previous(Bound::Unbounded, None);
        Ok(())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.move_to_next(Bound::Included(target.user_key), Some(target.tag));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let key = std::mem::take(&mut self.key);
        // The next older version of the key, if there is one.
        let older = Tag(self.tag.0.saturating_sub(1));
        self.move_to_next(Bound::Included(&key), Some(older));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let key = std::mem::take(&mut self.key);
        let tag = self.tag;
        self.move_to_previous(Bound::Included(&key), Some(tag));
        Ok(())
    }

    fn key(&self) -> InternalKey<'_> {
        match self.is_valid {
            true => InternalKey {
                user_key: &self.key,
                tag: self.tag,
            },
            false => InternalKey {
                user_key: &[],
                tag: Tag(0),
            },
        }
    }

    fn value(&self) -> &[u8] {
        match self.is_valid {
            true => &self.value,
            false => &[],
        }
    }
}

#[cfg(test)]
mod tests;
