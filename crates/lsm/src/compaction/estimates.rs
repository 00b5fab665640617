//! The versions that a merge would drop, guessed from sketches: pure functions of them.
//!
//! The *duplicate rate* of sub-levels is their versions for each that would be left if they were
//! one. The union of their tables' HyperLogLogs tells how many keys they hold together (PlexDB,
//! which has the fraction upside down in its equation 1). A union cannot tell which versions a
//! snapshot keeps; the sample of keys can, so it says which share would really go.

use crate::SequenceNumber;
use crate::compaction::drop_rules::{DropRules, Keys};
use crate::compaction::parts::Part;
use crate::compaction::run::Run;
use crate::key::InternalKey;
use crate::levels::KeyspaceLevels;
use crate::range_tombstones::RangeTombstones;
use crate::table::SampledVersion;

/// The effect of merging some sub-levels into one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Duplicates {
    pub versions: f64,
    /// Those that it would drop.
    pub droppable: f64,
}

impl Duplicates {
    /// Estimates a merge of as many versions of as many keys. A merge with the oldest that there is
    /// drops tombstones, too. Newer versions shadow as many of them as of others.
    pub fn new(versions: u64, distinct_keys: f64, tombstones: u64) -> Self {
        let versions = versions as f64;
        // A sketch may count more keys than there are versions.
        let keys = distinct_keys.min(versions);
        let deleted = if versions > 0.0 {
            tombstones as f64 * keys / versions
        } else {
            0.0
        };
        Duplicates {
            versions,
            droppable: versions - keys + deleted.min(keys),
        }
    }

    /// Returns the same, if only a share of the droppable versions may go.
    pub fn share(self, share: f64) -> Self {
        Duplicates {
            droppable: self.droppable * share,
            ..self
        }
    }

    /// Adds duplicates that have no key in common with these.
    pub(crate) fn and(self, other: Duplicates) -> Self {
        Duplicates {
            versions: self.versions + other.versions,
            droppable: self.droppable + other.droppable,
        }
    }

    /// Returns the versions for each that would stay, at least 1.
    pub fn rate(&self) -> f64 {
        let stay = (self.versions - self.droppable).max(1.0);
        (self.versions / stay).max(1.0)
    }

    /// Returns the part of the versions that would go, from 0 to 1.
    pub fn droppable_share(&self) -> f64 {
        if self.versions > 0.0 {
            self.droppable / self.versions
        } else {
            0.0
        }
    }
}

/// A source of the versions that merges would drop.
pub trait Estimates {
    /// Estimates merging a run into one sub-level, if no snapshot kept anything. `None` if it is
    /// not known, or not to be tried: the last such merge freed less than was predicted, and little
    /// has come since.
    fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates>;

    /// Estimates the same, less the versions that snapshots keep. Takes longer. `None` if it is not
    /// known.
    fn merged_now(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        at_most: Duplicates,
    ) -> Option<Duplicates>;

    /// Estimates merging only some keys of a run, by its smallest parts in the order of their keys,
    /// if no snapshot kept anything. Empty if it is not known.
    fn parts(&self, _: &KeyspaceLevels, _: &Run) -> Vec<Part> {
        Vec::new()
    }

    /// Estimates the distinct keys of a run, even if some of it is being merged. `None` if they are
    /// not known.
    fn keys(&self, levels: &KeyspaceLevels, run: &Run) -> Option<f64>;
}

/// Returns the share of the sampled versions droppable without snapshots that a merge would drop
/// with these, the last of which is the visible number; 1 if none is droppable. `is_oldest` if
/// nothing is older than the merged versions.
pub fn droppable_share(
    mut versions: Vec<&SampledVersion>,
    snapshots: &[SequenceNumber],
    is_oldest: bool,
) -> f64 {
    versions.sort_by(|a, b| internal(a).cmp(&internal(b)));
    let visible = snapshots.last().copied().unwrap_or(SequenceNumber::MAX);
    match dropped(&versions, &[visible], is_oldest) {
        0 => 1.0,
        without => dropped(&versions, snapshots, is_oldest) as f64 / without as f64,
    }
}

/// Counts the versions that a merge would drop of these, in the order of their internal keys.
fn dropped(versions: &[&SampledVersion], snapshots: &[SequenceNumber], is_oldest: bool) -> u64 {
    let older = |_: Keys<'_>| !is_oldest;
    let ranges = RangeTombstones::default();
    let mut rules = DropRules::new(snapshots, &older, &ranges);
    let mut dropped = 0;
    for version in versions {
        let key = internal(version);
        if let Some(kind) = key.tag.kind() {
            dropped += u64::from(!rules.keeps(&key, kind));
        }
    }
    dropped
}

fn internal(version: &SampledVersion) -> InternalKey<'_> {
    InternalKey {
        user_key: &version.user_key,
        tag: version.tag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Tag};
    use crate::table::{Sketch, key_hash};

    fn version(key: &str, sequence: u64, kind: Kind) -> SampledVersion {
        SampledVersion {
            user_key: key.into(),
            tag: Tag::new(sequence, kind),
            size_bytes: 1,
        }
    }

    #[test]
    fn a_rate_is_versions_for_each_that_stays() {
        assert_eq!(Duplicates::new(120, 100.0, 0).rate(), 1.2);
        assert_eq!(
            Duplicates::new(120, 100.0, 0).share(0.5).rate(),
            120.0 / 110.0
        );
        assert_eq!(Duplicates::new(100, 101.0, 0).rate(), 1.0);
        assert_eq!(Duplicates::default().rate(), 1.0);
        // Of 60 tombstones 10 are shadowed.
        assert_eq!(Duplicates::new(120, 100.0, 60).droppable, 70.0);
        assert_eq!(
            Duplicates::new(120, 100.0, 120).rate(),
            120.0,
            "all would go"
        );
    }

    /// Of sub-levels that overlap: from which key on, and how many.
    #[test]
    fn of_twenty_rates_of_levels_one_is_more_than_two_hundredths_off() {
        let sub_level = |from: u64, count: u64, seed| {
            let mut keys = Sketch::default();
            let hashes = (from..from + count).map(|key| key_hash(&key.to_be_bytes(), seed));
            hashes.for_each(|hash| keys.add(hash));
            keys
        };
        let levels: [(&[(u64, u64)], u64); 4] = [
            (&[(0, 60_000), (0, 60_000), (30_000, 60_000)], 90_000),
            (&[(0, 90_000), (50_000, 2_000), (89_000, 2_000)], 91_000),
            (&[(0, 5_000), (1_000, 5_000), (2_000, 5_000)], 7_000),
            (&[(0, 300), (0, 300), (0, 300), (200, 300)], 500),
        ];
        for (sub_levels, keys) in levels {
            let versions = sub_levels.iter().map(|(_, count)| count).sum();
            let exact = versions as f64 / keys as f64;
            let is_off = |seed| {
                let mut union = Sketch::default();
                for &(from, count) in sub_levels {
                    union.unite(&sub_level(from, count, seed));
                }
                let rate = Duplicates::new(versions, union.estimate(), 0).rate();
                (rate / exact - 1.0).abs() > 0.02
            };
            let off = (0..20).filter(|&seed| is_off(seed)).count();
            assert!(off <= 1, "{off} with {keys} keys");
        }
    }

    #[test]
    fn what_a_snapshot_sees_is_no_duplicate() {
        let versions = [("b", 9), ("a", 3), ("a", 7), ("a", 5), ("c", 1)];
        let versions = versions.map(|(key, sequence)| version(key, sequence, Kind::Put));
        let share =
            |snapshots: &[u64]| droppable_share(versions.iter().collect(), snapshots, false);
        assert_eq!(share(&[9]), 1.0);
        assert_eq!(share(&[4, 9]), 0.5);
        assert_eq!(share(&[3, 5, 9]), 0.0);
        assert_eq!(droppable_share(vec![&versions[0]], &[9], true), 1.0);
    }

    #[test]
    fn a_tombstone_goes_with_the_oldest_unless_a_snapshot_needs_it() {
        let versions = [version("a", 3, Kind::Put), version("a", 7, Kind::Delete)];
        let share = |snapshots: &[u64], is_oldest| {
            droppable_share(versions.iter().collect(), snapshots, is_oldest)
        };
        assert_eq!(share(&[9], true), 1.0);
        assert_eq!(share(&[4, 9], true), 0.0);
        assert_eq!(dropped(&[&versions[1], &versions[0]], &[9], true), 2);
        assert_eq!(dropped(&[&versions[1], &versions[0]], &[9], false), 1);
    }
}
