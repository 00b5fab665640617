//! Which versions a merge may leave out.
//!
//! The live snapshots divide the sequence numbers into *stripes*: no reader can tell apart two
//! versions of a key in one stripe but by the newer one. So (1) of each key the newest version of
//! each stripe stays; (2) a tombstone in the oldest stripe goes, with all it hides, if no table
//! outside the merge could hold an older version of its key: nothing is left for it to hide. What
//! is newer than every snapshot in the list, the visible number included, always stays: a snapshot
//! may yet be taken between two such versions.

use crate::SequenceNumber;
use crate::key::{InternalKey, Kind};

/// Decides version by version, in key order, newest first.
pub(crate) struct DropRules<'a> {
    /// Ascending; the last is the visible number.
    snapshots: &'a [SequenceNumber],
    /// Whether a table outside the merge may hold an older version of a user key.
    older_elsewhere: &'a dyn Fn(&[u8]) -> bool,
    user_key: Option<Vec<u8>>,
    /// The stripe of the last version of `user_key`.
    stripe: usize,
}

impl<'a> DropRules<'a> {
    pub(crate) fn new(
        snapshots: &'a [SequenceNumber],
        older_elsewhere: &'a dyn Fn(&[u8]) -> bool,
    ) -> Self {
        DropRules {
            snapshots,
            older_elsewhere,
            user_key: None,
            stripe: usize::MAX,
        }
    }

    /// Whether `key` begins a new user key. Called before [`DropRules::keeps`].
    pub(crate) fn is_new_user_key(&self, key: &InternalKey<'_>) -> bool {
        self.user_key.as_deref() != Some(key.user_key)
    }

    /// Whether the version stays.
    pub(crate) fn keeps(&mut self, key: &InternalKey<'_>, kind: Kind) -> bool {
        let stripe = self
            .snapshots
            .partition_point(|&snapshot| snapshot < key.sequence());
        let newer_than_all = stripe == self.snapshots.len();
        let is_new = self.is_new_user_key(key);
        let shadowed = !is_new && stripe == self.stripe && !newer_than_all;
        if is_new {
            let user_key = self.user_key.get_or_insert_default();
            user_key.clear();
            user_key.extend_from_slice(key.user_key);
        }
        self.stripe = stripe;
        let hides_nothing = kind == Kind::Delete
            && stripe == 0
            && !newer_than_all
            && !(self.older_elsewhere)(key.user_key);
        !shadowed && !hides_nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds versions (key, sequence, kind) and gives back those that stay.
    fn kept(
        snapshots: &[u64],
        older_elsewhere: bool,
        versions: &[(&'static str, u64, Kind)],
    ) -> Vec<(&'static str, u64)> {
        let older = |_: &[u8]| older_elsewhere;
        let mut rules = DropRules::new(snapshots, &older);
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
}
