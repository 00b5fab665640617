//! What iterators read from, where a flush can take it away between their moves.

use std::sync::{Arc, Weak};

use terrace_lsm::compaction::Versions;
use terrace_lsm::sync::{Mutex, MutexGuard};

use crate::db::Store;
use crate::db::range_cover::RangeCover;
use crate::db::view::View;

/// A merge of the versions in a view.
pub(crate) struct Source {
    pub(crate) view: Arc<View>,
    /// Number of sources of the merge that are MemTables; they come first.
    pub(crate) memtables: usize,
    pub(crate) versions: Versions,
    pub(crate) cover: RangeCover,
}

/// One iterator's source: locked while the iterator moves, empty after it was taken away. Boxed, since
/// of an iterator that is gone its place stays until the list is pruned.
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
    /// A place for a new iterator's source.
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

impl Store {
    /// Whether a source holds flushed MemTables while readers hold too much.
    pub(crate) fn is_to_be_released(&self, source: &Source) -> bool {
        !self.reads.pins.within_budget() && self.is_outdated(&source.view)
    }

    /// Takes flushed MemTables away from iterators that are not moving, if readers hold too much.
    pub(crate) fn release_sources(&self) {
        if self.reads.pins.within_budget() {
            return;
        }
        let mut sources = self.reads.sources.0.lock();
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
