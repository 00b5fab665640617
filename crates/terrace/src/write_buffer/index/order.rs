//! The order of the entries, made by the readers that ask for it.
//!
//! Writers only append. A reader that wants the entries in order sorts those that came since the
//! last time into a new run. It merges runs of similar size, as the levels of a store do: each
//! entry is merged a few times in all, and a reader has few runs to read from. Published runs never
//! change; readers hold them for as long as they like.
//!
//! Sorting is done under a lock that only readers take. A reader that finds it taken sorts the
//! missing entries for itself, unless they are many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_lsm::sync::{ArcSwap, Mutex};

use crate::write_buffer::index::RecordBytes;
use crate::write_buffer::index::run::{Place, Run};

/// A run is merged into an older one that has fewer than this many times its entries.
const RUN_RATIO: usize = 8;
/// Runs up to this length are merged at any ratio of their sizes.
const SMALL_RUN: usize = 64;
/// Maximum number of entries that a reader sorts for itself rather than wait for another one.
const PRIVATE_ENTRIES: u32 = if cfg!(feature = "shuttle") {
    2 // so that the few entries of its tests are enough to wait for
} else {
    4096
};

/// Runs over the first entries of an index.
#[derive(Clone, Default)]
pub(crate) struct Runs {
    /// The entries below this number are in the runs.
    covered: u32,
    /// Keyspaces in the order of their numbers; the runs of each from the oldest and largest.
    keyspaces: Vec<(u32, Vec<Arc<Run>>)>,
}

impl Runs {
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = u32> {
        self.keyspaces.iter().map(|&(keyspace, _)| keyspace)
    }

    pub(crate) fn of(&self, keyspace: u32) -> &[Arc<Run>] {
        match self.find(keyspace) {
            Ok(at) => self.keyspaces.get(at).map_or(&[], |(_, runs)| runs),
            Err(_) => &[],
        }
    }

    fn find(&self, keyspace: u32) -> Result<usize, usize> {
        self.keyspaces
            .binary_search_by_key(&keyspace, |&(number, _)| number)
    }

    fn push(&mut self, keyspace: u32, run: Run) {
        if run.len() == 0 && !self.of(keyspace).is_empty() {
            return;
        }
        let at = self.find(keyspace).unwrap_or_else(|at| {
            self.keyspaces.insert(at, (keyspace, Vec::new()));
            at
        });
        if let Some((_, runs)) = self.keyspaces.get_mut(at) {
            runs.push(Arc::new(run));
        }
    }

    fn merge(&mut self, records: &impl RecordBytes) {
        for (_, runs) in &mut self.keyspaces {
            while let [.., large, small] = runs.as_slice()
                && is_to_be_merged(large.len(), small.len())
            {
                let merged = Arc::new(Run::merge(large, small, records));
                runs.truncate(runs.len() - 2);
                runs.push(merged);
            }
        }
    }
}

/// Returns whether the youngest run is to be merged into the one before it.
fn is_to_be_merged(older: usize, youngest: usize) -> bool {
    older < youngest.saturating_mul(RUN_RATIO) || older + youngest <= SMALL_RUN
}

/// See the head of the file.
#[derive(Default)]
pub(super) struct Order {
    runs: ArcSwap<Runs>,
    sorting: Mutex<()>,
    memory_bytes: Arc<AtomicU64>,
}

impl Order {
    /// Returns the bytes of all runs, those included that only readers still hold.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of entries among the first `count` that are in no run.
    pub(super) fn uncovered(&self, count: u32) -> u32 {
        count.saturating_sub(self.runs.load().covered)
    }

    /// Returns runs over at least the first `count` entries. `record_offset` gives the start of the
    /// record of an entry below `count`.
    pub(super) fn runs(
        &self,
        count: u32,
        record_offset: impl Fn(u32) -> Option<u32>,
        records: &impl RecordBytes,
    ) -> Arc<Runs> {
        let present = self.runs.load_full();
        if present.covered >= count {
            return present;
        }
        let missing = count - present.covered;
        let _sorting = match self.sorting.try_lock() {
            Some(sorting) => sorting,
            None if missing <= PRIVATE_ENTRIES => {
                return Arc::new(self.extend(&present, count, record_offset, records));
            }
            None => self.sorting.lock(),
        };
        let present = self.runs.load_full();
        if present.covered >= count {
            return present;
        }
        let mut runs = self.extend(&present, count, record_offset, records);
        runs.merge(records);
        let runs = Arc::new(runs);
        self.runs.store(Arc::clone(&runs));
        runs
    }

    fn extend(
        &self,
        present: &Runs,
        count: u32,
        record_offset: impl Fn(u32) -> Option<u32>,
        records: &impl RecordBytes,
    ) -> Runs {
        let mut fresh: Vec<(u32, Vec<Place>)> = Vec::new();
        for number in present.covered..count {
            let Some(offset) = record_offset(number) else {
                continue;
            };
            let (keyspace, is_of_key) = records.keyspace_of_key(offset);
            // The order has no version for a deleted range; its keyspace is named all the same.
            let place = is_of_key.then(|| Place::new(offset, number));
            // Records of one keyspace mostly follow each other.
            match fresh.iter_mut().rev().find(|(known, _)| *known == keyspace) {
                Some((_, places)) => places.extend(place),
                None => {
                    // Mostly there is one keyspace only.
                    let capacity = if fresh.is_empty() { count - number } else { 1 };
                    let mut places = Vec::with_capacity(capacity as usize);
                    places.extend(place);
                    fresh.push((keyspace, places));
                }
            }
        }
        let mut runs = present.clone();
        runs.covered = count;
        for (keyspace, places) in fresh {
            runs.push(keyspace, Run::sort(places, &self.memory_bytes, records));
        }
        runs
    }
}
