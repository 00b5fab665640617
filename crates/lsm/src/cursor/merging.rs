//! Many cursors as one, in order, forward and backward: merges and user iterators read it.
//!
//! A binary heap of the valid sources, the next one to give on top. While the merge moves forward
//! every other source stands behind the current key in the order; backward, before it. A turn
//! seeks the other sources to the other side of the current key.

use std::cmp::Ordering;
use std::path::PathBuf;

use crate::Result;
use crate::block_value::TableValue;
use crate::cursor::{Cursor, count_step};
use crate::key::{InternalKey, SequenceNumber, Tag};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The merge of several cursors. No two of them may hold the same version.
pub struct MergingCursor<C> {
    sources: Vec<C>,
    /// Positions in `sources` of those that are valid; the first is the current one.
    heap: Vec<usize>,
    direction: Direction,
}

impl<C: Cursor> MergingCursor<C> {
    /// Merges `sources`. Not valid until positioned.
    pub fn new(sources: Vec<C>) -> Self {
        MergingCursor {
            heap: Vec::with_capacity(sources.len()),
            sources,
            direction: Direction::Forward,
        }
    }

    /// Returns the source of the current version, by its place in the list given to `new`.
    pub fn source(&self) -> Option<usize> {
        self.heap.first().copied()
    }

    fn current(&self) -> Option<&C> {
        self.sources.get(self.source()?)
    }

    /// Positions every source again and then orders them.
    fn position(
        &mut self,
        direction: Direction,
        mut position: impl FnMut(usize, &mut C) -> Result<()>,
    ) -> Result<()> {
        count_step();
        self.heap.clear();
        self.direction = direction;
        for (index, source) in self.sources.iter_mut().enumerate() {
            position(index, source)?;
        }
        let valid = self.sources.iter().enumerate();
        self.heap
            .extend(valid.filter(|(_, source)| source.valid()).map(|(i, _)| i));
        for slot in (0..self.heap.len() / 2).rev() {
            self.sift_down(slot);
        }
        Ok(())
    }

    /// Moves the current source one step and puts it where it now belongs.
    fn step(&mut self, step: impl FnOnce(&mut C) -> Result<()>) -> Result<()> {
        count_step();
        let Some(source) = self.source().and_then(|index| self.sources.get_mut(index)) else {
            return Ok(());
        };
        let stepped = step(source);
        let valid = source.valid();
        if stepped.is_err() {
            self.heap.clear();
            return stepped;
        }
        if !valid {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    /// Sends every source but the current one to the other side of the current key, and steps it.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let Some(current) = self.source() else {
            return Ok(());
        };
        let key = self.key();
        let (user_key, tag) = (key.user_key.to_vec(), key.tag);
        let pivot = InternalKey {
            user_key: &user_key,
            tag,
        };
        self.position(direction, |index, source| match direction {
            Direction::Forward if index == current => source.next(),
            Direction::Forward => source.seek(pivot),
            Direction::Backward if index == current => source.prev(),
            Direction::Backward => {
                source.seek(pivot)?;
                if source.valid() {
                    source.prev()
                } else {
                    source.seek_to_last()
                }
            }
        })
    }

    /// Moves those sources from number `first` on that stand before `target` on to it. Only while
    /// the merge moves forward.
    pub fn skip_forward(&mut self, first: usize, target: InternalKey<'_>) -> Result<()> {
        self.reposition(first, |source| {
            if source.key() < target {
                count_step();
                source.seek(target)?;
            }
            Ok(())
        })
    }

    /// Moves those sources from number `first` on that stand at or behind `target` back to the last
    /// version before it. Only while the merge moves backward.
    pub fn skip_backward(&mut self, first: usize, target: InternalKey<'_>) -> Result<()> {
        self.reposition(first, |source| {
            if source.key() >= target {
                count_step();
                source.seek(target)?;
                if source.valid() {
                    return source.prev();
                }
                return source.seek_to_last();
            }
            Ok(())
        })
    }

    /// Moves valid sources from number `first` on, and orders all again.
    fn reposition(
        &mut self,
        first: usize,
        mut move_source: impl FnMut(&mut C) -> Result<()>,
    ) -> Result<()> {
        self.position(self.direction, |index, source| {
            if index >= first && source.valid() {
                move_source(source)?;
            }
            Ok(())
        })
    }

    /// Returns whether the source in one slot of the heap gives its version before that in another.
    fn precedes(&self, slot: usize, other: usize) -> bool {
        let key = |slot: usize| {
            let source = self.sources.get(*self.heap.get(slot)?)?;
            Some(source.key())
        };
        let (Some(key), Some(other)) = (key(slot), key(other)) else {
            return false;
        };
        match self.direction {
            Direction::Forward => key.cmp(&other) == Ordering::Less,
            Direction::Backward => key.cmp(&other) == Ordering::Greater,
        }
    }

    fn sift_down(&mut self, mut slot: usize) {
        loop {
            let left = 2 * slot + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let child = if right < self.heap.len() && self.precedes(right, left) {
                right
            } else {
                left
            };
            if !self.precedes(child, slot) {
                return;
            }
            self.heap.swap(slot, child);
            slot = child;
        }
    }
}

impl<C: Cursor> Cursor for MergingCursor<C> {
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.position(Direction::Forward, |_, source| source.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.position(Direction::Backward, |_, source| source.seek_to_last())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.position(Direction::Forward, |_, source| source.seek(target))
    }

    fn next(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.step(C::next),
            Direction::Backward => self.turn(Direction::Forward),
        }
    }

    fn prev(&mut self) -> Result<()> {
        match self.direction {
            Direction::Backward => self.step(C::prev),
            Direction::Forward => self.turn(Direction::Backward),
        }
    }

    fn pass_hidden(&mut self, below: SequenceNumber, end: &[u8]) -> Result<()> {
        match self.direction {
            Direction::Forward => self.step(|source| source.pass_hidden(below, end)),
            Direction::Backward => self.turn(Direction::Forward),
        }
    }

    fn pass_hidden_back(&mut self, below: SequenceNumber, start: &[u8]) -> Result<()> {
        match self.direction {
            Direction::Backward => self.step(|source| source.pass_hidden_back(below, start)),
            Direction::Forward => self.turn(Direction::Backward),
        }
    }

    fn key(&self) -> InternalKey<'_> {
        const EMPTY: InternalKey<'static> = InternalKey {
            user_key: &[],
            tag: Tag(0),
        };
        self.current().map_or(EMPTY, Cursor::key)
    }

    fn value(&self) -> &[u8] {
        self.current().map_or(&[], Cursor::value)
    }

    fn file(&self) -> Option<PathBuf> {
        self.current().and_then(Cursor::file)
    }

    fn hold_value(&self, held: &mut Option<TableValue>) {
        match self.current() {
            Some(current) => current.hold_value(held),
            None => *held = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cursor::testing::{Version, VersionsCursor};
    use crate::key::Kind;

    proptest! {
        #[test]
        fn a_merge_is_the_sorted_union_in_every_direction(
            versions in prop::collection::btree_set((0u8..20, 1u64..30), 0..60),
            owners in prop::collection::vec(0usize..4, 60),
            moves in prop::collection::vec((0u8..5, 0u8..22, 1u64..30), 1..60),
        ) {
            let mut all: Vec<Version> = versions
                .iter()
                .map(|&(key, sequence)| (vec![key], Tag::new(sequence, Kind::Put), vec![sequence as u8]))
                .collect();
            let order = |a: &Version, b: &Version| a.0.cmp(&b.0).then(b.1.cmp(&a.1));
            let mut parts = vec![Vec::new(); 4];
            for (version, &owner) in all.iter().zip(&owners) {
                parts[owner].push(version.clone());
            }
            all.sort_by(order);
            let children = parts
                .into_iter()
                .map(|part| Box::new(VersionsCursor::new(part)) as Box<dyn Cursor + Send>)
                .collect();
            let mut merge = MergingCursor::new(children);
            let mut model = VersionsCursor::new(all);
            for (step, key, sequence) in moves {
                let target = InternalKey::new(std::slice::from_ref(&key), sequence, Kind::Put);
                let cursors: [&mut dyn Cursor; 2] = [&mut merge, &mut model];
                for cursor in cursors {
                    match step {
                        0 => cursor.seek_to_first().unwrap(),
                        1 => cursor.seek_to_last().unwrap(),
                        2 => cursor.seek(target).unwrap(),
                        3 if cursor.valid() => cursor.next().unwrap(),
                        4 if cursor.valid() => cursor.prev().unwrap(),
                        _ => {}
                    }
                }
                prop_assert_eq!(merge.valid(), model.valid());
                if merge.valid() {
                    prop_assert_eq!((merge.key(), merge.value()), (model.key(), model.value()));
                }
            }
        }
    }
}
