//! The samples of a keyspace's tables, thinned to one rarity. All of them together are no more than
//! [`MOST_VERSIONS`], and no larger than [`MOST_BYTES`], however many tables there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::run::Run;
use terrace_lsm::levels::KeyspaceLevels;
use terrace_lsm::table::{SampledVersion, TableCache, key_hash};
use terrace_storage::Purpose;

use crate::Result;

/// Approximate maximum of versions that are kept of a keyspace.
const MOST_VERSIONS: u64 = 1 << 15;

/// Maximum bytes of memory for them, however long the keys are.
const MOST_BYTES: u64 = 8 << 20;

/// Samples by the tables' numbers.
#[derive(Clone, Default)]
pub(super) struct Samples {
    /// Leading zeros that the hash of a key has at least.
    zeros: u32,
    by_table: BTreeMap<u64, Arc<[SampledVersion]>>,
}

impl Samples {
    /// Reads the samples of new tables, and thins those of all tables to one rarity.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn bring_up_to_date(
        &mut self,
        levels: &KeyspaceLevels,
        tables: &TableCache,
        hash_seed: u64,
    ) -> Result<()> {
        let before = std::mem::take(&mut self.by_table);
        let entries: u64 = levels.tables().map(|(_, table)| table.entries).sum();
        self.thin(zeros_for(entries));
        let zeros_before = self.zeros;
        let hash = |user_key: &[u8]| key_hash(user_key, hash_seed);
        let mut read = Vec::new();
        for (_, table) in levels.tables() {
            if let Some(known) = before.get(&table.number) {
                self.by_table.insert(table.number, Arc::clone(known));
            } else {
                let sample = table.open(tables)?.key_sample(Purpose::Compaction)?;
                let thinned = sample.thinned(self.zeros, hash);
                read.push((table.number, thinned.cloned().collect::<Vec<_>>()));
                self.thin(sample.zeros());
            }
        }
        self.by_table.extend(
            read.into_iter()
                .map(|(number, versions)| (number, versions.into())),
        );
        if self.zeros > zeros_before || !before.is_empty() {
            self.thin_all(hash);
        }
        self.thin_to(MOST_BYTES, hash);
        Ok(())
    }

    /// Returns the bytes that they take in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let versions = self.by_table.values().flat_map(|versions| versions.iter());
        versions.map(SampledVersion::memory_bytes).sum()
    }

    fn thin_to(&mut self, most_bytes: u64, hash: impl Fn(&[u8]) -> u64) {
        while self.memory_bytes() > most_bytes {
            self.zeros += 1;
            self.thin_all(&hash);
        }
    }

    fn thin(&mut self, zeros: u32) {
        self.zeros = self.zeros.max(zeros);
    }

    fn thin_all(&mut self, hash: impl Fn(&[u8]) -> u64) {
        let zeros = self.zeros;
        let is_in = |version: &&SampledVersion| hash(&version.user_key).leading_zeros() >= zeros;
        for versions in self.by_table.values_mut() {
            if !versions.iter().all(|version| is_in(&version)) {
                *versions = versions.iter().filter(is_in).cloned().collect();
            }
        }
    }

    /// Returns the versions of a run's tables that count; `None` if some were not read.
    pub(super) fn of_run(&self, run: &Run) -> Option<Vec<&SampledVersion>> {
        let mut versions = Vec::new();
        for table in run.tables() {
            let of_table = self.by_table.get(&table.number)?.iter();
            versions.extend(of_table.filter(|version| table.bounds.contains(&version.user_key)));
        }
        Some(versions)
    }
}

/// Returns the rarity at which `entries` make a sample of about the most versions.
fn zeros_for(entries: u64) -> u32 {
    let times = entries.div_ceil(MOST_VERSIONS).max(1);
    times.next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use terrace_lsm::key::{Kind, Tag};

    use super::*;

    #[test]
    fn long_keys_are_fewer() {
        let version = |key: u64| SampledVersion {
            user_key: key.to_be_bytes().repeat(125),
            tag: Tag::new(key, Kind::Put),
            size_bytes: 1_000,
        };
        let of_table = |table: u64| (0..500).map(|key| version(table * 1_000 + key)).collect();
        let mut samples = Samples {
            zeros: 0,
            by_table: (0..4).map(|table| (table, of_table(table))).collect(),
        };
        let all_bytes = samples.memory_bytes();
        assert!(all_bytes > 2_000_000);
        samples.thin_to(all_bytes, |key| key_hash(key, 7));
        assert_eq!((samples.zeros, samples.memory_bytes()), (0, all_bytes));
        samples.thin_to(all_bytes / 4, |key| key_hash(key, 7));
        let bytes = samples.memory_bytes();
        assert!(bytes <= all_bytes / 4 && bytes > all_bytes / 16, "{bytes}");
        // Every table has all of its keys that belong in the sample.
        let is_in = |key: &[u8]| key_hash(key, 7).leading_zeros() >= samples.zeros;
        let expected =
            (0..4).flat_map(|table| (0..500).map(move |key| version(table * 1_000 + key)));
        let left = samples.by_table.values().map(|versions| versions.len());
        let expected = expected.filter(|version| is_in(&version.user_key)).count();
        assert_eq!(left.sum::<usize>(), expected);
    }

    #[test]
    fn as_many_entries_as_there_may_be_are_thinned_to_the_most() {
        assert_eq!(zeros_for(0), 0);
        assert_eq!(zeros_for(MOST_VERSIONS), 0);
        assert_eq!(zeros_for(MOST_VERSIONS + 1), 1);
        assert_eq!(zeros_for(MOST_VERSIONS << 20), 20);
        assert_eq!(zeros_for(u64::MAX), 49);
    }
}
