//! What a merge would drop, guessed from sketches: pure functions of them.
//!
//! The *duplicate rate* of a level is its versions for each distinct key, from the union of its tables'
//! HyperLogLogs (PlexDB, which has the fraction upside down in its equation 1). A union cannot tell which
//! versions a snapshot keeps; the sample of keys can, so it says which share of the shadowed versions
//! would really go.

use crate::SequenceNumber;
use crate::compaction::drop_rules::{DropRules, Keys};
use crate::key::InternalKey;
use crate::levels::KeyspaceLevels;
use crate::range_tombstones::RangeTombstones;
use crate::table::SampledVersion;

/// What merging a level into one sub-level would do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Duplicates {
    pub(crate) versions: f64,
    /// Those that it would drop.
    pub(crate) droppable: f64,
}

impl Duplicates {
    /// `share` of the versions that newer ones of the same key shadow would go.
    pub(crate) fn new(versions: u64, distinct_keys: f64, share: f64) -> Self {
        let versions = versions as f64;
        // A sketch may count more keys than there are versions.
        let shadowed = (versions - distinct_keys).max(0.0);
        Duplicates {
            versions,
            droppable: shadowed * share,
        }
    }

    /// Versions for each that would stay, at least 1.
    pub(crate) fn rate(&self) -> f64 {
        let stay = self.versions - self.droppable;
        if stay > 0.0 {
            self.versions / stay
        } else {
            1.0
        }
    }
}

/// Who knows what merges would drop.
pub(crate) trait Estimates {
    /// Of merging all of a level into one sub-level. `None` if it is not known, or not to be tried: the
    /// last such merge freed less than was predicted, and little has come since.
    fn duplicates(&self, levels: &KeyspaceLevels, level: u8) -> Option<Duplicates>;
}

/// Of the sampled versions that newer ones of the same key shadow, the share that could go, given the live
/// snapshots with the visible number last; all of them, if none is shadowed.
pub(crate) fn droppable_share(
    mut versions: Vec<&SampledVersion>,
    snapshots: &[SequenceNumber],
) -> f64 {
    versions.sort_by(|a, b| internal(a).cmp(&internal(b)));
    let (mut shadowed, mut dropped) = (0u64, 0u64);
    let ranges = RangeTombstones::default();
    // A tombstone of its own is no duplicate.
    let older = |_: Keys<'_>| true;
    let mut rules = DropRules::new(snapshots, &older, &ranges);
    for version in versions {
        let key = internal(version);
        let is_shadowed = !rules.is_new_user_key(&key);
        let Some(kind) = key.tag.kind() else { continue };
        let stays = rules.keeps(&key, kind);
        shadowed += u64::from(is_shadowed);
        dropped += u64::from(!stays);
    }
    match shadowed {
        0 => 1.0,
        _ => dropped as f64 / shadowed as f64,
    }
}

fn internal(version: &SampledVersion) -> InternalKey<'_> {
    InternalKey {
        user_key: &version.user_key,
        tag: version.tag,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::key::{Kind, Tag};

    /// Nothing is known.
    pub(crate) struct Unknown;

    impl Estimates for Unknown {
        fn duplicates(&self, _: &KeyspaceLevels, _: u8) -> Option<Duplicates> {
            None
        }
    }

    fn version(key: &str, sequence: u64) -> SampledVersion {
        SampledVersion {
            user_key: key.into(),
            tag: Tag::new(sequence, Kind::Put),
            size_bytes: 1,
        }
    }

    #[test]
    fn a_rate_is_versions_for_each_that_stays() {
        assert_eq!(Duplicates::new(120, 100.0, 1.0).rate(), 1.2);
        assert_eq!(Duplicates::new(120, 100.0, 0.5).rate(), 120.0 / 110.0);
        assert_eq!(Duplicates::new(100, 101.0, 1.0).rate(), 1.0);
        assert_eq!(Duplicates::default().rate(), 1.0);
    }

    #[test]
    fn what_a_snapshot_sees_is_no_duplicate() {
        let versions = [("b", 9), ("a", 3), ("a", 7), ("a", 5), ("c", 1)];
        let versions = versions.map(|(key, sequence)| version(key, sequence));
        let share = |snapshots: &[u64]| droppable_share(versions.iter().collect(), snapshots);
        assert_eq!(share(&[9]), 1.0);
        assert_eq!(share(&[4, 9]), 0.5);
        assert_eq!(share(&[3, 5, 9]), 0.0);
        assert_eq!(droppable_share(vec![&versions[0]], &[9]), 1.0);
    }
}
