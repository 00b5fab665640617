//! The one interface of everything that holds versions in order: MemTables, tables, sub-levels,
//! merges of them.

mod merging;
#[cfg(any(test, feature = "internal"))]
#[allow(clippy::indexing_slicing)]
pub mod testing;

use std::path::PathBuf;

pub use self::merging::MergingCursor;
use crate::Result;
use crate::block_value::TableValue;
use crate::key::{InternalKey, SequenceNumber};

/// A position among versions in [`InternalKey`] order, or past either end (not valid).
///
/// After an error the position is not valid; the cursor may be positioned again.
pub trait Cursor {
    fn valid(&self) -> bool;
    fn seek_to_first(&mut self) -> Result<()>;
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the first version at or after `target`.
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()>;
    /// Moves one version on. Only while valid.
    fn next(&mut self) -> Result<()>;
    /// Moves one version back. Only while valid.
    fn prev(&mut self) -> Result<()>;
    /// Goes on over versions with numbers below `below`, of keys before `end`. Passes as many of
    /// these as it can at once, the present one at least. Requires that the present version is one
    /// of them.
    fn pass_hidden(&mut self, _below: SequenceNumber, _end: &[u8]) -> Result<()> {
        self.next()
    }
    /// Goes back over such versions of keys from `start` on, as [`Cursor::pass_hidden`] goes on.
    fn pass_hidden_back(&mut self, _below: SequenceNumber, _start: &[u8]) -> Result<()> {
        self.prev()
    }
    /// Returns the key. Only while valid; otherwise an empty key.
    fn key(&self) -> InternalKey<'_>;
    /// Returns the value. Only while valid; otherwise empty.
    fn value(&self) -> &[u8];
    /// Returns the file that the version lies in, for messages. Only while valid.
    fn file(&self) -> Option<PathBuf> {
        None
    }
    /// Has `held` be that value where it lies, if it lies in a block; otherwise none.
    fn hold_value(&self, held: &mut Option<TableValue>) {
        *held = None;
    }
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn valid(&self) -> bool {
        (**self).valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        (**self).seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        (**self).seek_to_last()
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        (**self).seek(target)
    }

    fn next(&mut self) -> Result<()> {
        (**self).next()
    }

    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }

    fn pass_hidden(&mut self, below: SequenceNumber, end: &[u8]) -> Result<()> {
        (**self).pass_hidden(below, end)
    }

    fn pass_hidden_back(&mut self, below: SequenceNumber, start: &[u8]) -> Result<()> {
        (**self).pass_hidden_back(below, start)
    }

    fn key(&self) -> InternalKey<'_> {
        (**self).key()
    }

    fn value(&self) -> &[u8] {
        (**self).value()
    }

    fn file(&self) -> Option<PathBuf> {
        (**self).file()
    }

    fn hold_value(&self, held: &mut Option<TableValue>) {
        (**self).hold_value(held);
    }
}

/// Steps of this thread's cursors and lookups from one version to the next, for tests with bars.
#[cfg(all(
    any(test, feature = "internal"),
    debug_assertions,
    not(feature = "shuttle")
))]
pub mod steps {
    use std::cell::Cell;

    thread_local! {
        static TAKEN: Cell<u64> = const { Cell::new(0) };
    }

    pub fn add(steps: u64) {
        TAKEN.set(TAKEN.get() + steps);
    }

    /// Returns the number of steps of `work`, and its result.
    pub fn of<T>(work: impl FnOnce() -> T) -> (u64, T) {
        let before = TAKEN.get();
        let done = work();
        (TAKEN.get() - before, done)
    }
}

/// Counts a step, in builds for tests only.
#[inline(always)]
pub fn count_step() {
    // Benches enable the feature, too, and are not to pay for it.
    #[cfg(all(
        any(test, feature = "internal"),
        debug_assertions,
        not(feature = "shuttle")
    ))]
    steps::add(1);
}
