//! The range tombstones of a MemTable, by keyspace.
//!
//! Readers see a list of sets without locks; the one inserter replaces it before the numbers of its
//! additions become visible. A set never changes, so each addition makes one of its own, and sets
//! of similar size are made into one. So an addition is copied a logarithmic number of times, and a
//! reader asks as many sets. Nothing is ever left out here: a reader may still go by any number
//! that was visible since the MemTable began. The flush leaves out tombstones that no snapshot
//! needs.
//!
//! A MemTable without range tombstones, which is the usual one, costs a reader one relaxed load.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::range_tombstones::{RangeTombstone, RangeTombstones};
use terrace_lsm::sync::ArcSwap;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

use crate::{KeyspaceId, SequenceNumber};

/// Sets from the youngest to the oldest: every number in one is higher than all in the next.
pub(crate) type Sets = Vec<Arc<RangeTombstones>>;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct RangeDeletes {
    by_keyspace: ArcSwap<BTreeMap<KeyspaceId, Sets>>,
    /// Bytes of all sets, 0 if there are none.
    memory_bytes: AtomicU64,
}

impl RangeDeletes {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a reader's number was made visible after the count of the tombstones that it
        // sees.
        self.memory_bytes() == 0
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Adds tombstones whose numbers are higher than all before. One thread at a time may do so.
    pub(crate) fn add(&self, added: Vec<(KeyspaceId, RangeTombstone)>) {
        if added.is_empty() {
            return;
        }
        let mut by_keyspace = BTreeMap::<_, Vec<_>>::new();
        for (keyspace, tombstone) in added {
            by_keyspace.entry(keyspace).or_default().push(tombstone);
        }
        let mut all = BTreeMap::clone(&self.by_keyspace.load());
        for (keyspace, tombstones) in by_keyspace {
            add_to(all.entry(keyspace).or_default(), tombstones);
        }
        let sets = all.values().flatten();
        let memory_bytes = sets.map(|set| set.memory_bytes()).sum();
        self.by_keyspace.store(Arc::new(all));
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
    }

    /// Returns all sets of a keyspace.
    pub(crate) fn sets(&self, keyspace: KeyspaceId) -> Sets {
        if self.is_empty() {
            return Sets::new();
        }
        let all = self.by_keyspace.load();
        all.get(&keyspace).cloned().unwrap_or_default()
    }

    /// Returns the number of the newest tombstone at or below `snapshot` that covers a key.
    pub(crate) fn newest_covering(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Option<SequenceNumber> {
        let all = self.by_keyspace.load();
        let mut sets = all.get(&keyspace)?.iter();
        sets.find_map(|set| set.newest_covering(key, snapshot))
            .map(|found| found.sequence)
    }
}

/// Puts tombstones in front of sets, together with those sets that would not be twice as large.
fn add_to(sets: &mut Sets, mut tombstones: Vec<RangeTombstone>) {
    while let Some(set) = sets.first()
        && set.len() < 2 * tombstones.len()
    {
        tombstones.extend(set.iter().map(RangeTombstone::from));
        sets.remove(0);
    }
    sets.insert(0, Arc::new(RangeTombstones::new(tombstones)));
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use terrace_lsm::range_tombstones::testing::tombstone;

    use super::*;

    #[test]
    fn sets_stay_few_and_nothing_is_lost() {
        let deletes = RangeDeletes::default();
        assert!(deletes.is_empty());
        for sequence in 1..=1000u64 {
            let start = format!("{:04}", sequence % 100);
            let one = tombstone(&start, "9", sequence);
            deletes.add(vec![(KeyspaceId::DEFAULT, one)]);
        }
        let sets = deletes.sets(KeyspaceId::DEFAULT);
        assert!(sets.len() <= 10, "{} sets", sets.len());
        assert_eq!(sets.iter().map(|set| set.len()).sum::<usize>(), 1000);
        for pair in sets.windows(2) {
            let oldest = pair[0].iter().map(|found| found.sequence).min();
            let newest = pair[1].iter().map(|found| found.sequence).max();
            assert!(oldest > newest);
        }
        let newest =
            |key: &[u8], snapshot| deletes.newest_covering(KeyspaceId::DEFAULT, key, snapshot);
        assert_eq!(newest(b"0042", 500), Some(500));
        assert_eq!(newest(b"0042", 41), Some(41));
        assert_eq!(newest(b"9", 1000), None);
        assert_eq!(
            deletes.newest_covering(KeyspaceId::from_number(7), b"0042", 500),
            None
        );
    }
}
