//! What iterators read from between their moves, where a flush can take it away.

use std::sync::{Arc, Weak};

use crate::compaction::Versions;
use crate::db::Store;
use crate::db::range_cover::RangeCover;
use crate::db::view::View;
use crate::sync::Mutex;

/// A merge of the versions in a view.
pub(crate) struct Source {
    pub(crate) view: Arc<View>,
    pub(crate) versions: Versions,
    pub(crate) cover: RangeCover,
}

/// One iterator's source; empty while it moves, and after it was taken away. Boxed, since it is moved
/// out and in with each row.
#[derive(Default)]
pub(crate) struct SharedSource(Mutex<Option<Box<Source>>>);

impl SharedSource {
    pub(crate) fn take(&self) -> Option<Box<Source>> {
        self.0.lock().take()
    }

    pub(crate) fn put_back(&self, source: Box<Source>) {
        *self.0.lock() = Some(source);
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
            // Under its lock: an iterator that finds it empty goes on with another one.
            let mut held = source.0.lock();
            if held
                .as_ref()
                .is_some_and(|held| self.is_to_be_released(held))
            {
                *held = None;
            }
        }
    }
}
