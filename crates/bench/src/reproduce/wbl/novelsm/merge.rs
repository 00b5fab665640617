//! Both stores in the order of their keys, the newest version of each key once.

use std::cmp::Ordering;
use std::ops::Bound;

use terrace::{Db, DbIterator, IterOptions};

use super::Version;
use crate::Result;
use crate::store::Direction;

/// One store, from a key on.
pub struct Cursor {
    iterator: DbIterator,
    direction: Direction,
}

impl Cursor {
    pub fn open(db: &Db, start: Option<&[u8]>, direction: Direction) -> Result<Self> {
        let bound = start.map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
        let options = match direction {
            Direction::Forward => IterOptions {
                lower: bound,
                ..IterOptions::default()
            },
            Direction::Backward => IterOptions {
                upper: bound,
                ..IterOptions::default()
            },
        };
        let mut iterator = db.iter(options)?;
        match direction {
            Direction::Forward => iterator.seek_to_first()?,
            Direction::Backward => iterator.seek_to_last()?,
        }
        Ok(Cursor {
            iterator,
            direction,
        })
    }

    fn key(&self) -> Option<&[u8]> {
        self.iterator.valid().then(|| self.iterator.key())
    }

    fn step(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.iterator.next()?,
            Direction::Backward => self.iterator.prev()?,
        }
        Ok(())
    }
}

/// Outcome of a step of the merge.
pub enum Step {
    /// A key's value, which was shown.
    Shown,
    /// A key whose newest version is a deletion.
    Hidden,
    /// No further key.
    End,
}

/// Two cursors side by side.
pub struct Merge {
    left: Cursor,
    right: Cursor,
    direction: Direction,
}

impl Merge {
    pub fn new(left: Cursor, right: Cursor, direction: Direction) -> Self {
        Merge {
            left,
            right,
            direction,
        }
    }

    /// Shows the next key, if it has a value, and steps behind it.
    pub fn step(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<Step> {
        let order = match (self.left.key(), self.right.key()) {
            (None, None) => return Ok(Step::End),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => match self.direction {
                Direction::Forward => left.cmp(right),
                Direction::Backward => right.cmp(left),
            },
        };
        let newest = match order {
            Ordering::Less => &self.left,
            Ordering::Greater => &self.right,
            Ordering::Equal => self.newer()?,
        };
        let version = Version::read(newest.iterator.value())?;
        if let Some(value) = version.value {
            visit(newest.iterator.key(), value);
        }
        let step = version.value.map_or(Step::Hidden, |_| Step::Shown);
        if order != Ordering::Greater {
            self.left.step()?;
        }
        if order != Ordering::Less {
            self.right.step()?;
        }
        Ok(step)
    }

    /// Returns the newer of two at the same key.
    fn newer(&self) -> Result<&Cursor> {
        let left = Version::read(self.left.iterator.value())?.number;
        let right = Version::read(self.right.iterator.value())?.number;
        Ok(if left > right {
            &self.left
        } else {
            &self.right
        })
    }
}
