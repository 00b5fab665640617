//! The sources of iterators, where a flush can take them away between moves.
//!
//! A source is a list of layers, from the youngest to the oldest: MemTables, then sub-levels. A caller can
//! lay more layers on top, such as writes that are not in the store. The store does not number their
//! versions, so these have numbers from [`MIN_OVERLAY_SEQUENCE`] on, higher ones in younger layers. So they
//! come before every version of the store, and every read point sees them.
//!
//! [`MIN_OVERLAY_SEQUENCE`]: terrace_lsm::key::MIN_OVERLAY_SEQUENCE

use std::ops::Range;
use std::sync::{Arc, Weak};

use terrace_lsm::compaction::Versions;
use terrace_lsm::cursor::Cursor;
use terrace_lsm::sync::{Mutex, MutexGuard};

use crate::db::owners::Reads;
use crate::db::range_cover::{RangeCover, Ranges, RangesAt};
use crate::db::view::View;

/// A cursor with the deleted ranges that lie beside its versions.
pub(crate) struct Layer {
    pub(crate) cursor: Box<dyn Cursor + Send>,
    /// `None` if there are none.
    pub(crate) ranges: Option<Ranges>,
}

/// Makes a layer that lies on top of a store. An iterator calls it again after its source was taken away:
/// it gives the same versions and ranges each time.
pub(crate) type MakeLayer = Arc<dyn Fn() -> Layer + Send + Sync>;

/// The layers of a source to be, from the youngest on.
pub(crate) struct Layers {
    cursors: Vec<Box<dyn Cursor + Send>>,
    ranges: Vec<RangesAt>,
    /// Number of layers that lie on top.
    on_top: usize,
}

impl Layers {
    /// Begins with the layers that lie on top.
    #[inline]
    pub(crate) fn new(on_top: &[MakeLayer]) -> Self {
        let mut layers = Layers {
            cursors: Vec::new(),
            ranges: Vec::new(),
            on_top: on_top.len(),
        };
        on_top.iter().for_each(|make| layers.push(make()));
        layers
    }

    /// Adds the next older layer.
    #[inline(always)]
    pub(crate) fn push(&mut self, layer: Layer) {
        if let Some(ranges) = layer.ranges {
            let source = self.cursors.len();
            self.ranges.push(RangesAt { source, ranges });
        }
        self.cursors.push(layer.cursor);
    }

    /// Returns the number of layers.
    pub(crate) fn len(&self) -> usize {
        self.cursors.len()
    }

    /// Merges the layers of a view. `arenas` has the positions of its MemTables.
    #[inline]
    pub(crate) fn into_source(self, view: Arc<View>, arenas: Range<usize>) -> Source {
        Source {
            view,
            arenas,
            versions: Versions::new(self.cursors),
            cover: RangeCover::new(self.on_top, self.ranges),
        }
    }
}

/// A merge of the versions in a view.
pub(crate) struct Source {
    pub(crate) view: Arc<View>,
    /// Positions of MemTables among the layers of the merge. Layers before them lie on top.
    pub(crate) arenas: Range<usize>,
    pub(crate) versions: Versions,
    pub(crate) cover: RangeCover,
}

impl Source {
    /// Returns whether a layer lies on top of the store.
    pub(crate) fn has_layers_on_top(&self) -> bool {
        self.arenas.start > 0
    }
}

/// One iterator's source: locked while the iterator moves, empty after it was taken away. Boxed,
/// since the place of an iterator that is gone stays until the list is pruned.
#[derive(Default)]
pub(crate) struct SharedSource(Mutex<Option<Box<Source>>>);

impl SharedSource {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Box<Source>>> {
        self.0.lock()
    }
}

/// The sources of all iterators.
#[derive(Default)]
pub(crate) struct Sources(Mutex<Vec<Weak<SharedSource>>>);

impl Sources {
    /// Returns a place for a new iterator's source.
    pub(crate) fn register(&self) -> Arc<SharedSource> {
        let source = Arc::new(SharedSource::default());
        let mut sources = self.0.lock();
        // Pruned when the list would grow: the cost is a constant for each iterator.
        if sources.len() == sources.capacity() {
            sources.retain(|source| source.strong_count() > 0);
        }
        sources.push(Arc::downgrade(&source));
        source
    }
}

impl Reads {
    /// Returns whether a source holds flushed MemTables while readers hold too much.
    pub(crate) fn is_to_be_released(&self, source: &Source) -> bool {
        !self.pins.within_budget() && self.is_outdated(&source.view)
    }

    /// Takes flushed MemTables away from iterators that are not moving, if readers hold too much.
    pub(crate) fn release_sources(&self) {
        if self.pins.within_budget() {
            return;
        }
        let mut sources = self.sources.0.lock();
        sources.retain(|source| source.strong_count() > 0);
        for source in sources.iter().filter_map(Weak::upgrade) {
            // One that moves may read a device meanwhile; it looks for itself before its next move.
            if let Some(mut held) = source.0.try_lock()
                && held
                    .as_ref()
                    .is_some_and(|held| self.is_to_be_released(held))
            {
                *held = None;
            }
        }
    }
}
