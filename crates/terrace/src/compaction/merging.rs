//! Several sorted sequences as one.
//!
//! A binary heap of the valid children, the smallest key on top while moving forward, the largest
//! while moving backward. Turning round repositions every child, so a caller that zigzags pays a
//! seek for each turn. Children never hold equal keys: a version has one place.

use std::cmp::Ordering;

use crate::Result;
use crate::cursor::Cursor;
use crate::key::{InternalKey, Tag};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A merge of cursors.
pub(crate) struct MergingCursor {
    children: Vec<Box<dyn Cursor + Send>>,
    /// Positions in `children` of those that are valid, as a heap.
    heap: Vec<usize>,
    direction: Direction,
}

impl MergingCursor {
    pub(crate) fn new(children: Vec<Box<dyn Cursor + Send>>) -> Self {
        let heap = Vec::with_capacity(children.len());
        MergingCursor { children, heap, direction: Direction::Forward }
    }

    /// Positions every child and rebuilds the heap.
    fn place(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(&mut (dyn Cursor + Send)) -> Result<()>,
    ) -> Result<()> {
        self.direction = direction;
        self.heap.clear();
        for child in &mut self.children {
            place(child.as_mut())?;
        }
        let valid = |(at, child): (usize, &Box<dyn Cursor + Send>)| child.valid().then_some(at);
        self.heap.extend(self.children.iter().enumerate().filter_map(valid));
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        Ok(())
    }

    /// Moves the top child and restores the heap. After an error nothing is valid.
    fn step(&mut self, step: impl FnOnce(&mut (dyn Cursor + Send)) -> Result<()>) -> Result<()> {
        let Some(&top) = self.heap.first() else { return Ok(()) };
        let Some(child) = self.children.get_mut(top) else { return Ok(()) };
        if let Err(error) = step(child.as_mut()) {
            self.heap.clear();
            return Err(error);
        }
        if !child.valid() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut top = at;
            if left < self.heap.len() && self.comes_before(left, top) {
                top = left;
            }
            if right < self.heap.len() && self.comes_before(right, top) {
                top = right;
            }
            if top == at {
                return;
            }
            self.heap.swap(at, top);
            at = top;
        }
    }

    fn comes_before(&self, a: usize, b: usize) -> bool {
        let order = self.key_at(a).cmp(&self.key_at(b));
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    fn key_at(&self, at: usize) -> InternalKey<'_> {
        let child = self.heap.get(at).and_then(|&child| self.children.get(child));
        child.map_or(NO_KEY, |child| child.key())
    }

    /// Repositions every child on the other side of the current key.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let key = self.key();
        let (user_key, tag) = (key.user_key.to_vec(), key.tag);
        let here = InternalKey { user_key: &user_key, tag };
        self.place(direction, |child| {
            child.seek(here)?;
            match direction {
                Direction::Forward if child.valid() && child.key() == here => child.next(),
                Direction::Forward => Ok(()),
                Direction::Backward if child.valid() => child.prev(),
                Direction::Backward => child.seek_to_last(),
            }
        })
    }
}

const NO_KEY: InternalKey<'static> = InternalKey { user_key: &[], tag: Tag(0) };

impl Cursor for MergingCursor {
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.place(Direction::Forward, |child| child.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.place(Direction::Backward, |child| child.seek_to_last())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.place(Direction::Forward, |child| child.seek(target))
    }

    fn next(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.step(|child| child.next()),
            Direction::Backward => self.turn(Direction::Forward),
        }
    }

    fn prev(&mut self) -> Result<()> {
        match self.direction {
            Direction::Backward => self.step(|child| child.prev()),
            Direction::Forward => self.turn(Direction::Backward),
        }
    }

    fn key(&self) -> InternalKey<'_> {
        self.key_at(0)
    }

    fn value(&self) -> &[u8] {
        let child = self.heap.first().and_then(|&child| self.children.get(child));
        child.map_or(&[], |child| child.value())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compaction::merge::tests::{Version, VersionsCursor};
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
