//! Placement by level: as the options name tiers, else by the capacities.
//!
//! Levels go to the fastest tier whose capacity takes them with all levels above. The level that takes only in
//! part fills the rest, beside room for the levels above to be written once more.

use super::{Surroundings, TierFacts, total};
use crate::keyspace_options::Placement;

/// Returns the position of the tier that a level is for.
pub(super) fn position(surroundings: &Surroundings<'_>, level: u8) -> usize {
    let named = named_position(surroundings, level);
    named.unwrap_or_else(|| by_capacity(level, surroundings.level_bytes, surroundings.tiers))
}

/// Returns the position of the tier that the options, or the costs, name for a level.
pub(super) fn named_position(surroundings: &Surroundings<'_>, level: u8) -> Option<usize> {
    let level = usize::from(level);
    let chosen = surroundings.chosen;
    let name = match surroundings.options.placement {
        Placement::Auto => chosen.get(level).or(chosen.last())?,
        Placement::Levels => surroundings.options.tier_of(level)?,
        Placement::Age | Placement::Heat => return None,
    };
    let mut tiers = surroundings.tiers.iter();
    tiers.position(|tier| tier.name == name)
}

/// Returns the position of the tier that a level goes to by the capacities alone.
pub(super) fn by_capacity(level: u8, level_bytes: &[u64], tiers: &[TierFacts]) -> usize {
    let level = usize::from(level).min(level_bytes.len());
    let (above, own) = level_bytes.split_at(level);
    let above_bytes = total(above.iter().copied());
    let own_bytes = own.first().copied().unwrap_or(0);
    let mut faster_bytes = 0u64;
    for (at, tier) in tiers.iter().enumerate() {
        if !tier.is_open {
            continue;
        }
        let Some(capacity_bytes) = tier.capacity_bytes else {
            return at;
        };
        let takes_bytes = faster_bytes.saturating_add(capacity_bytes);
        let takes_all = above_bytes.saturating_add(own_bytes) <= takes_bytes;
        let takes_a_part = above_bytes < takes_bytes && tier.room_bytes > above_bytes;
        if takes_all || takes_a_part {
            return at;
        }
        faster_bytes = takes_bytes;
    }
    tiers.len().saturating_sub(1)
}

/// Returns whether a level and all above fit into the tiers up to a position.
pub(super) fn fits_whole(level: u8, level_bytes: &[u64], tiers: &[TierFacts], at: usize) -> bool {
    let bytes = total(level_bytes.iter().take(usize::from(level) + 1).copied());
    let open = tiers.iter().take(at + 1).filter(|tier| tier.is_open);
    bytes <= total(open.map(|tier| tier.capacity_bytes.unwrap_or(u64::MAX)))
}
