//! A position among the versions of one keyspace in a MemTable: a merge of its sorted runs.
//!
//! Each run has a position: the first place in it that is not before the present version. So the
//! next version is the least of the places at the positions, the previous one the greatest of those
//! right before them. Turning round costs nothing.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_lsm::cursor::Cursor;
use terrace_lsm::key::{InternalKey, MAX_SEQUENCE, Tag};

use crate::write_buffer::index::{Entry, Run, Runs};
use crate::write_buffer::memtable::{MemTable, ValuePlace};
use crate::{KeyspaceId, Result, SequenceNumber};

/// Maximum number of records decoded ahead of a scan.
const MOST_AHEAD: usize = 16;

/// A cursor over the versions of one keyspace, as of its creation or a little later.
pub(crate) struct MemTableCursor {
    table: Arc<MemTable>,
    heads: Vec<Head>,
    /// The present version and the run it is in.
    at: Option<(usize, Entry)>,
}

/// A position in a run.
struct Head {
    run: Arc<Run>,
    position: usize,
    /// The entries from `position` on, in reverse; empty if not read yet. Several are decoded in
    /// one go, so that their cache misses overlap: the more, the longer the scan has been.
    ahead: Vec<Entry>,
    next_ahead: usize,
}

impl Head {
    fn move_to(&mut self, position: usize) {
        self.position = position;
        self.ahead.clear();
        self.next_ahead = 1;
    }

    fn advance(&mut self) {
        self.position += 1;
        self.ahead.pop();
    }

    /// Returns the entry at the position.
    #[inline]
    fn entry(&mut self, table: &MemTable) -> Option<Entry> {
        if self.ahead.is_empty() {
            let places = self.run.places_from(self.position, self.next_ahead);
            self.next_ahead = (self.next_ahead * 2).min(MOST_AHEAD);
            let entries = places.iter().rev().filter_map(|place| table.entry(place));
            self.ahead.extend(entries);
        }
        self.ahead.last().copied()
    }

    fn entry_before(&self, table: &MemTable) -> Option<Entry> {
        table.entry(self.run.get(self.position.checked_sub(1)?)?)
    }
}

impl MemTableCursor {
    pub(super) fn new(table: &Arc<MemTable>, runs: &Runs, keyspace: KeyspaceId) -> Self {
        let heads = runs.of(keyspace.number()).iter().map(|run| Head {
            run: Arc::clone(run),
            position: 0,
            ahead: Vec::new(),
            next_ahead: 1,
        });
        MemTableCursor {
            table: Arc::clone(table),
            heads: heads.collect(),
            at: None,
        }
    }

    /// Moves to the least version at the positions.
    fn select_next(&mut self) {
        let mut least: Option<(usize, Entry)> = None;
        for (number, head) in self.heads.iter_mut().enumerate() {
            if let Some(entry) = head.entry(&self.table)
                && least.is_none_or(|(_, best)| order(&self.table, &entry, &best).is_lt())
            {
                least = Some((number, entry));
            }
        }
        self.at = least;
    }

    /// Moves to the greatest version before the positions.
    fn select_previous(&mut self) {
        let mut greatest: Option<(usize, Entry)> = None;
        for (number, head) in self.heads.iter().enumerate() {
            if let Some(entry) = head.entry_before(&self.table)
                && greatest.is_none_or(|(_, best)| order(&self.table, &entry, &best).is_gt())
            {
                greatest = Some((number, entry));
            }
        }
        if let Some((number, _)) = greatest
            && let Some(head) = self.heads.get_mut(number)
        {
            head.move_to(head.position - 1);
        }
        self.at = greatest;
    }
}

#[inline]
fn order(table: &MemTable, a: &Entry, b: &Entry) -> Ordering {
    key_of(table, a).cmp(&key_of(table, b))
}

#[inline]
fn key_of<'a>(table: &'a MemTable, entry: &Entry) -> InternalKey<'a> {
    InternalKey {
        user_key: table.key(entry),
        tag: entry.tag,
    }
}

impl Cursor for MemTableCursor {
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.seek(InternalKey::seek(&[], MAX_SEQUENCE))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        for head in &mut self.heads {
            head.move_to(head.run.len());
        }
        self.select_previous();
        Ok(())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        for head in &mut self.heads {
            head.move_to(self.table.lower_bound(&head.run, target));
        }
        self.select_next();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if let Some((number, _)) = self.at
            && let Some(head) = self.heads.get_mut(number)
        {
            head.advance();
            self.select_next();
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.valid() {
            self.select_previous();
        }
        Ok(())
    }

    fn pass_hidden(&mut self, below: SequenceNumber, end: &[u8]) -> Result<()> {
        let end = InternalKey::seek(end, MAX_SEQUENCE);
        for head in &mut self.heads {
            let shown = self.table.next_from(&head.run, head.position, below);
            let behind = self.table.lower_bound(&head.run, end);
            let position = shown.unwrap_or(head.run.len()).min(behind);
            if position > head.position {
                head.move_to(position);
            }
        }
        self.select_next();
        Ok(())
    }

    fn pass_hidden_back(&mut self, below: SequenceNumber, start: &[u8]) -> Result<()> {
        let start = InternalKey::seek(start, MAX_SEQUENCE);
        for head in &mut self.heads {
            let shown = self.table.last_before(&head.run, head.position, below);
            let first = self.table.lower_bound(&head.run, start);
            let position = shown.map_or(0, |shown| shown + 1).max(first);
            if position < head.position {
                head.move_to(position);
            }
        }
        self.select_previous();
        Ok(())
    }

    fn key(&self) -> InternalKey<'_> {
        match &self.at {
            Some((_, entry)) => key_of(&self.table, entry),
            None => InternalKey {
                user_key: &[],
                tag: Tag(0),
            },
        }
    }

    fn file(&self) -> Option<PathBuf> {
        Some(self.table.arena().file().to_path_buf())
    }

    fn value(&self) -> &[u8] {
        match &self.at {
            Some((_, entry)) => self.table.value(ValuePlace::of(entry)),
            None => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use terrace_lsm::key::Kind;

    use super::*;
    use crate::write_buffer::batch::WriteBatch;
    use crate::write_buffer::memtable::tests::{insert, memtable};

    type Found = (Vec<u8>, u64);

    fn found(cursor: &MemTableCursor) -> Option<Found> {
        let key = cursor.key();
        cursor
            .valid()
            .then(|| (key.user_key.to_vec(), key.sequence()))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 128 }, ..Default::default() })]

        /// Inserts batches and makes a cursor between them, so that there are several runs.
        #[test]
        fn several_runs_read_like_one_list(
            batches in prop::collection::vec(prop::collection::vec((1u32..3, prop::collection::vec(0u8..3, 0..5)), 1..200), 1..6),
            moves in prop::collection::vec((0u8..5, prop::collection::vec(0u8..3, 0..5), 0u64..700), 1..60),
        ) {
            let table = memtable(&[]);
            let mut model = Vec::new();
            let mut sequence = 0u64;
            for records in &batches {
                let mut batch = WriteBatch::new();
                for (keyspace, key) in records {
                    sequence += 1;
                    batch.push(Kind::Put, KeyspaceId::from_number(*keyspace), key, &sequence.to_le_bytes()).unwrap();
                    if *keyspace == 1 {
                        model.push((key.clone(), sequence));
                    }
                }
                insert(&table, &batch);
                let _ = table.cursor(KeyspaceId::from_number(1));
            }
            let in_order = |a: &Found, b: &Found| a.0.cmp(&b.0).then(b.1.cmp(&a.1));
            model.sort_by(in_order);
            let mut cursor = table.cursor(KeyspaceId::from_number(1));
            let mut at: Option<usize> = None;
            for (kind, key, snapshot) in moves {
                match kind {
                    0 => {
                        cursor.seek_to_first().unwrap();
                        at = Some(0);
                    }
                    1 => {
                        cursor.seek_to_last().unwrap();
                        at = model.len().checked_sub(1);
                    }
                    2 => {
                        cursor.seek(InternalKey::seek(&key, snapshot)).unwrap();
                        let place = (key, snapshot);
                        at = Some(model.iter().filter(|found| in_order(found, &place).is_lt()).count());
                    }
                    3 if cursor.valid() => {
                        cursor.next().unwrap();
                        at = at.map(|at| at + 1);
                    }
                    _ if cursor.valid() => {
                        cursor.prev().unwrap();
                        at = at.and_then(|at| at.checked_sub(1));
                    }
                    _ => {}
                }
                let expected = at.and_then(|at| model.get(at)).cloned();
                prop_assert_eq!(found(&cursor), expected.clone());
                if let Some((_, sequence)) = expected {
                    prop_assert_eq!(cursor.value(), &sequence.to_le_bytes());
                }
            }
        }
    }
}
