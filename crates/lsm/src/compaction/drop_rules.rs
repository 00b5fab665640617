//! The versions that a merge may leave out.
//!
//! The live snapshots divide the sequence numbers into *stripes*: no reader can tell apart two
//! versions of a key in one stripe but by the newer one. So (1) of each key the newest version of
//! each stripe stays. (2) A tombstone in the oldest stripe goes, with all it hides, if no table
//! outside the merge could hold an older version of its key: nothing is left for it to hide. A
//! version newer than every snapshot in the list, the visible number included, always stays: a
//! snapshot may yet be taken between two such versions.
//!
//! Deleted ranges follow the same rules, key by key. A version goes if a newer range tombstone of
//! the same stripe covers it. Of the range tombstones that cover a key the newest of each stripe
//! stays, and that of the oldest stripe goes with all it hides. Those that stay are computed for
//! all segments of the merge at once, before the first version is read.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::SequenceNumber;
use crate::key::{InternalKey, Kind};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};

/// Keys of which the rules ask whether there are older versions.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    One(&'a [u8]),
    /// From the first one up to the second, which is excluded.
    Range(&'a [u8], &'a [u8]),
}

/// Returns the stripe of a number: the count of snapshots below it.
fn stripe_of(snapshots: &[SequenceNumber], sequence: SequenceNumber) -> usize {
    snapshots.partition_point(|&snapshot| snapshot < sequence)
}

/// Returns whether no reader can tell a version from the newer one of its key: both are in one
/// stripe, and a snapshot is above them.
fn is_shadowed(snapshots: &[SequenceNumber], older_stripe: usize, newer_stripe: usize) -> bool {
    older_stripe == newer_stripe && newer_stripe < snapshots.len()
}

/// Returns whether a merge drops a version beside a newer one of its key, of the number `by`.
/// `snapshots` is as in [`DropRules`]. If it drops the version `sequence`, then also all between
/// the two.
pub(crate) fn drops_superseded(
    snapshots: &[SequenceNumber],
    sequence: SequenceNumber,
    by: SequenceNumber,
) -> bool {
    let (older, newer) = (stripe_of(snapshots, sequence), stripe_of(snapshots, by));
    is_shadowed(snapshots, older, newer)
}

/// Decides version by version, in key order, newest first.
pub struct DropRules<'a> {
    /// Ascending; the last is the visible number.
    snapshots: &'a [SequenceNumber],
    /// Whether a table outside the merge may hold older versions of some user keys.
    older_elsewhere: &'a dyn Fn(Keys<'_>) -> bool,
    /// The range tombstones in the merge.
    ranges: &'a RangeTombstones,
    user_key: Option<Vec<u8>>,
    /// The stripe of the last version of `user_key`.
    stripe: usize,
    /// Whether that version ends the fold of its readers.
    hides_older: bool,
}

impl<'a> DropRules<'a> {
    pub fn new(
        snapshots: &'a [SequenceNumber],
        older_elsewhere: &'a dyn Fn(Keys<'_>) -> bool,
        ranges: &'a RangeTombstones,
    ) -> Self {
        DropRules {
            snapshots,
            older_elsewhere,
            ranges,
            user_key: None,
            stripe: usize::MAX,
            hides_older: false,
        }
    }

    /// Returns whether `key` begins a new user key. Called before [`DropRules::keeps`].
    pub(crate) fn is_new_user_key(&self, key: &InternalKey<'_>) -> bool {
        self.user_key.as_deref() != Some(key.user_key)
    }

    /// Returns whether the version stays.
    pub(crate) fn keeps(&mut self, key: &InternalKey<'_>, kind: Kind) -> bool {
        let stripe = self.stripe_of(key.sequence());
        let newer_than_all = stripe == self.snapshots.len();
        let is_new = self.is_new_user_key(key);
        let shadowed =
            !is_new && self.hides_older && is_shadowed(self.snapshots, stripe, self.stripe);
        // The version that hides this one hides those below it in the stripe.
        self.hides_older = shadowed || kind.hides_older();
        if is_new {
            let user_key = self.user_key.get_or_insert_default();
            user_key.clear();
            user_key.extend_from_slice(key.user_key);
        }
        self.stripe = stripe;
        let hides_nothing = kind.deletes()
            && stripe == 0
            && !newer_than_all
            && !(self.older_elsewhere)(Keys::One(key.user_key));
        !shadowed && !hides_nothing && !self.is_in_deleted_range(key)
    }

    fn stripe_of(&self, sequence: SequenceNumber) -> usize {
        stripe_of(self.snapshots, sequence)
    }

    /// Returns whether a range tombstone of the same stripe hides a version.
    fn is_in_deleted_range(&self, key: &InternalKey<'_>) -> bool {
        let sequence = key.sequence();
        let by = self.ranges.oldest_above(key.user_key, sequence);
        by.is_some_and(|by| drops_superseded(self.snapshots, sequence, by))
    }

    /// Returns whether one range tombstone hides everything that a table holds from `start` up to
    /// `end`, with numbers within `sequences`: then the merge need not read it.
    pub fn hides(
        &self,
        start: &[u8],
        end: &[u8],
        sequences: RangeInclusive<SequenceNumber>,
    ) -> bool {
        // All numbers up to that of the tombstone are in one stripe if the lowest is.
        let Some(&last) = self.snapshots.get(self.stripe_of(*sequences.start())) else {
            return false;
        };
        let newest = self.ranges.newest_covering(start, last);
        newest.is_some_and(|newest| newest.sequence > *sequences.end() && end <= newest.end)
    }

    /// Returns whether the merge has a range tombstone of this number over this key: a MemTable
    /// lists it among the versions, too.
    pub(crate) fn is_range_tombstone(&self, key: &InternalKey<'_>) -> bool {
        let found = self.ranges.newest_covering(key.user_key, key.sequence());
        found.is_some_and(|found| found.sequence == key.sequence())
    }

    /// Returns the range tombstones that stay, by start, then from the newest. Where neighbouring
    /// segments keep the same number they come as one.
    pub(crate) fn ranges_kept(&self) -> Vec<RangeTombstone> {
        let mut kept = Vec::new();
        let mut open = BTreeMap::<SequenceNumber, &[u8]>::new();
        let mut end_before: &[u8] = &[];
        for (segment, start, end) in self.ranges.segments() {
            let stay = self.numbers_kept(segment, start, end);
            open.retain(|&sequence, &mut from| {
                let goes_on = stay.contains(&sequence);
                if !goes_on {
                    kept.push(range(from, end_before, sequence));
                }
                goes_on
            });
            for sequence in stay {
                open.entry(sequence).or_insert(start);
            }
            end_before = end;
        }
        kept.extend(open.into_iter().map(|(n, from)| range(from, end_before, n)));
        kept.sort_by(|a, b| a.start.cmp(&b.start).then(b.sequence.cmp(&a.sequence)));
        kept
    }

    /// Returns the numbers of the tombstones that stay in one segment, the newest first.
    fn numbers_kept(&self, segment: usize, start: &[u8], end: &[u8]) -> Vec<SequenceNumber> {
        let mut stay = Vec::new();
        let mut below = SequenceNumber::MAX;
        while let Some(newest) = self.ranges.newest_in(segment, below) {
            let stripe = self.stripe_of(newest.sequence);
            let newer_than_all = stripe == self.snapshots.len();
            if stripe == 0 && !newer_than_all {
                if (self.older_elsewhere)(Keys::Range(start, end)) {
                    stay.push(newest.sequence);
                }
                break;
            }
            stay.push(newest.sequence);
            let last_of_older = stripe.checked_sub(1).and_then(|at| self.snapshots.get(at));
            let older = match last_of_older {
                Some(&last) if !newer_than_all => Some(last),
                _ => newest.sequence.checked_sub(1),
            };
            let Some(older) = older else { break };
            below = older;
        }
        stay
    }
}

fn range(start: &[u8], end: &[u8], sequence: SequenceNumber) -> RangeTombstone {
    RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        sequence,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::range_tombstones::tests::{any_tombstones, tombstone};

    /// Feeds versions (key, sequence, kind) and gives back those that stay.
    fn kept(
        snapshots: &[u64],
        older_elsewhere: bool,
        versions: &[(&'static str, u64, Kind)],
    ) -> Vec<(&'static str, u64)> {
        let older = |_: Keys<'_>| older_elsewhere;
        let ranges = RangeTombstones::default();
        let mut rules = DropRules::new(snapshots, &older, &ranges);
        let mut kept = Vec::new();
        for &(key, sequence, kind) in versions {
            if rules.keeps(&InternalKey::new(key.as_bytes(), sequence, kind), kind) {
                kept.push((key, sequence));
            }
        }
        kept
    }

    use Kind::{Delete, Put};

    #[test]
    fn a_kind_that_hides_nothing_keeps_older_versions_unless_a_newer_one_hides_all() {
        let versions = [
            ("a", 9, Kind::Merge),
            ("a", 8, Put),
            ("a", 7, Kind::Merge),
            ("a", 6, Put),
        ];
        assert_eq!(kept(&[9], false, &versions), [("a", 9), ("a", 8)]);
    }

    #[test]
    fn one_version_stays_in_each_stripe() {
        let versions = [
            ("a", 9, Put),
            ("a", 7, Put),
            ("a", 6, Put),
            ("a", 3, Put),
            ("a", 2, Put),
            ("b", 1, Put),
        ];
        assert_eq!(kept(&[9], false, &versions), [("a", 9), ("b", 1)]);
        assert_eq!(
            kept(&[3, 6, 9], false, &versions),
            [("a", 9), ("a", 6), ("a", 3), ("b", 1)]
        );
        assert_eq!(
            kept(&[2, 9], false, &versions),
            [("a", 9), ("a", 2), ("b", 1)]
        );
    }

    #[test]
    fn a_tombstone_goes_only_if_nothing_is_left_to_hide() {
        let versions = [("a", 5, Delete), ("a", 3, Put)];
        assert_eq!(kept(&[9], false, &versions), []);
        assert_eq!(kept(&[9], true, &versions), [("a", 5)]);
        // A snapshot that still sees the value keeps both.
        assert_eq!(kept(&[4, 9], false, &versions), [("a", 5), ("a", 3)]);
        // A snapshot at the tombstone sees nothing of the key.
        assert_eq!(kept(&[5, 9], false, &versions), []);
    }

    #[test]
    fn a_value_above_a_dropped_tombstone_stays() {
        let versions = [("a", 8, Put), ("a", 5, Delete), ("a", 3, Put)];
        assert_eq!(kept(&[6, 9], false, &versions), [("a", 8)]);
    }

    #[test]
    fn what_is_newer_than_the_visible_number_stays_whole() {
        let versions = [
            ("a", 9, Delete),
            ("a", 8, Put),
            ("a", 3, Put),
            ("a", 2, Put),
        ];
        assert_eq!(kept(&[5], false, &versions), [("a", 9), ("a", 8), ("a", 3)]);
        assert_eq!(
            kept(&[], false, &versions),
            [("a", 9), ("a", 8), ("a", 3), ("a", 2)]
        );
    }

    #[test]
    fn of_deleted_ranges_the_newest_of_each_stripe_stays() {
        let list = [
            tombstone("a", "m", 3),
            tombstone("c", "f", 5),
            tombstone("e", "z", 8),
        ];
        let ranges = RangeTombstones::new(list.to_vec());
        let kept = |snapshots: &[u64], older: &dyn Fn(Keys<'_>) -> bool| {
            DropRules::new(snapshots, older, &ranges).ranges_kept()
        };
        let newest = [
            tombstone("a", "c", 3),
            tombstone("c", "e", 5),
            tombstone("e", "z", 8),
        ];
        assert_eq!(kept(&[9], &|_| true), newest);
        assert_eq!(kept(&[9], &|_| false), []);
        // Where an older table outside overlaps, the segment stays.
        let only_in_c = |keys: Keys<'_>| matches!(keys, Keys::Range(b"c", _));
        assert_eq!(kept(&[9], &only_in_c), [tombstone("c", "e", 5)]);
        // Snapshot 4 sees the oldest only, and keeps the others although nothing is older.
        let newer = [tombstone("c", "e", 5), tombstone("e", "z", 8)];
        assert_eq!(kept(&[4, 9], &|_| false), newer);
        let oldest_too = [tombstone("a", "m", 3), newer[0].clone(), newer[1].clone()];
        assert_eq!(kept(&[4, 9], &|_| true), oldest_too);
        // Above the visible number nothing goes.
        assert_eq!(kept(&[2], &|_| false), list);
    }

    #[test]
    fn a_deleted_range_of_number_0_ends_the_search_for_older_ones() {
        let list = vec![tombstone("a", "c", 0)];
        let ranges = RangeTombstones::new(list.clone());
        assert_eq!(DropRules::new(&[], &|_| true, &ranges).ranges_kept(), list);
    }

    #[test]
    fn a_table_is_hidden_as_a_whole_only_by_a_newer_range_of_its_stripe() {
        let ranges = RangeTombstones::new(vec![tombstone("b", "f", 5), tombstone("f", "k", 7)]);
        let hides = |snapshots: &[u64], start: &str, end: &str, sequences| {
            let rules = DropRules::new(snapshots, &|_| true, &ranges);
            rules.hides(start.as_bytes(), end.as_bytes(), sequences)
        };
        assert!(hides(&[9], "b", "f", 1..=4) && hides(&[9], "c", "e", 1..=4));
        assert!(!hides(&[9], "a", "f", 1..=4) && !hides(&[9], "c", "g", 1..=4));
        assert!(!hides(&[9], "b", "f", 1..=6), "a version is newer");
        assert!(
            !hides(&[3, 9], "b", "f", 3..=4),
            "a snapshot sees a version"
        );
        assert!(hides(&[2, 9], "b", "f", 3..=4));
        assert!(
            !hides(&[3], "b", "f", 4..=4),
            "a snapshot at 4 may yet be taken"
        );
    }

    #[test]
    fn a_version_goes_with_a_deleted_range_of_its_stripe() {
        let ranges = RangeTombstones::new(vec![tombstone("a", "c", 5)]);
        let kept = |snapshots: &[u64], key: &str, sequence| {
            let mut rules = DropRules::new(snapshots, &|_| true, &ranges);
            rules.keeps(&InternalKey::new(key.as_bytes(), sequence, Put), Put)
        };
        assert!(!kept(&[9], "a", 4) && !kept(&[9], "b", 4));
        assert!(kept(&[9], "b", 6) && kept(&[9], "c", 4));
        assert!(kept(&[4, 9], "b", 4) && !kept(&[3, 9], "b", 4));
        assert!(kept(&[4], "b", 4), "a snapshot at 4 may yet be taken");
    }

    proptest! {
        /// A reader at a snapshot finds the same versions before and after.
        #[test]
        fn no_reader_sees_the_difference(
            list in any_tombstones(),
            versions in prop::collection::btree_set((0u8..28, 1u64..40), 0..60),
            snapshots in prop::collection::btree_set(0u64..42, 0..4),
            older in prop::collection::btree_set(0u8..28, 0..6),
        ) {
            let ranges = RangeTombstones::new(list);
            // The number of a range tombstone is that of no version.
            let taken: Vec<u64> = ranges.iter().map(|found| found.sequence).collect();
            let mut versions: Vec<_> = versions.into_iter().collect();
            versions.retain(|(_, number)| !taken.contains(number));
            versions.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            let snapshots: Vec<u64> = snapshots.into_iter().chain([50]).collect();
            let older_elsewhere = |keys: Keys<'_>| match keys {
                Keys::One(key) => older.contains(&key[0]),
                Keys::Range(start, end) => older.range(start[0]..end[0]).next().is_some(),
            };
            let mut rules = DropRules::new(&snapshots, &older_elsewhere, &ranges);
            let kept_ranges = RangeTombstones::new(rules.ranges_kept());
            let mut kept = versions.clone();
            kept.retain(|(key, number)| {
                rules.keeps(&InternalKey::new(&[*key], *number, Put), Put)
            });
            // A version of number 0 stands for the versions outside of the merge.
            let read = |versions: &[(u8, u64)], ranges: &RangeTombstones, key: u8, at: u64| {
                let found = versions.iter().filter(|(k, number)| *k == key && *number <= at);
                let outside = older.contains(&key).then_some(0);
                let found = found.map(|(_, number)| *number).chain(outside).max()?;
                let covering = ranges.newest_covering(&[key], at);
                covering.is_none_or(|covering| covering.sequence < found).then_some(found)
            };
            for &at in &snapshots {
                for key in 0..28u8 {
                    prop_assert_eq!(
                        read(&kept, &kept_ranges, key, at),
                        read(&versions, &ranges, key, at),
                        "key {} at {}", key, at
                    );
                }
            }
        }
    }
}
