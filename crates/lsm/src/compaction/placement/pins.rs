//! The tiers that a keyspace keeps to.

use super::{Cow, Surroundings, TierFacts};
use crate::keyspace_options::KeyspaceOptions;

/// A set of positions in a list of tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions(u128);

impl Positions {
    /// All positions.
    pub const ALL: Positions = Positions(u128::MAX);

    /// Returns the set of some positions. A store has fewer tiers than this has room for.
    pub fn of(positions: impl IntoIterator<Item = usize>) -> Positions {
        let positions = positions.into_iter();
        let bits = positions.filter_map(|at| 1u128.checked_shl(u32::try_from(at).ok()?));
        Positions(bits.fold(0, |all, bit| all | bit))
    }

    /// Returns whether a position is in the set.
    pub fn contains(self, at: usize) -> bool {
        let at = u32::try_from(at).ok();
        at.and_then(|at| self.0.checked_shr(at)).unwrap_or(0) & 1 == 1
    }
}

/// Returns the positions of the tiers that tables of a keyspace may go to. While none of those that it names is
/// open, these are all tiers: its tables have to lie somewhere.
pub fn pinned_positions(options: &KeyspaceOptions, tiers: &[TierFacts]) -> Positions {
    let is_named = |tier: &TierFacts| options.pinned_tiers.contains(&tier.name);
    if !tiers.iter().any(|tier| tier.is_open && is_named(tier)) {
        return Positions::ALL;
    }
    let named = tiers.iter().enumerate().filter(|(_, tier)| is_named(tier));
    Positions::of(named.map(|(at, _)| at))
}

/// Returns the tiers that tables of a keyspace may go to.
pub fn pinned_tiers<'a>(options: &KeyspaceOptions, tiers: &'a [TierFacts]) -> Cow<'a, [TierFacts]> {
    let positions = pinned_positions(options, tiers);
    if positions == Positions::ALL {
        return Cow::Borrowed(tiers);
    }
    let kept = tiers
        .iter()
        .enumerate()
        .filter(|(at, _)| positions.contains(*at));
    Cow::Owned(kept.map(|(_, tier)| tier.clone()).collect())
}

/// Returns the tiers that tables of the keyspace may go to.
pub(super) fn tiers_of<'a>(surroundings: &Surroundings<'a>) -> Cow<'a, [TierFacts]> {
    pinned_tiers(surroundings.options, surroundings.tiers)
}
