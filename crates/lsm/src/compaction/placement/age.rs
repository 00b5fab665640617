//! Placement by age: the youngest write of a table decides.

use super::Surroundings;

/// Returns the position of the fastest tier that takes tables of an age.
pub(super) fn position(surroundings: &Surroundings<'_>, age_seconds: u64) -> usize {
    let ages = surroundings.options.tier_ages_seconds.iter();
    ages.take_while(|max| age_seconds > **max).count()
}
