//! That reads do not pay for the savings of writes.

use super::{Found, held};
use crate::report::numbers::digits;
use crate::reproduce::plexdb::measured::Measured;
use crate::reproduce::plexdb::points::LEVELED;
use crate::reproduce::report::Claim;

/// A store with at least this part of another's reads is no slower.
const NO_SLOWER: f64 = 0.9;
/// Share of lookups of absent keys.
const LEAST_SHARE: f64 = 0.01;

/// Returns the claim on records that are there, in one engine.
pub fn present(found: &Found<'_>) -> Option<Claim> {
    let rate = |point: &Measured| Some(point.reads?.per_second.median);
    let (leveled, dedup) = (rate(found.named(LEVELED)?)?, rate(found.at(1.2)?)?);
    Some(Claim {
        claim: "At 1.2 random reads are no slower than those of a leveled tree".into(),
        paper: "in a figure".into(),
        ours: format!(
            "{} thousand a second, leveled {}",
            digits(dedup / 1e3),
            digits(leveled / 1e3)
        ),
        verdict: held(dedup >= leveled * NO_SLOWER),
        because: "Within a tenth, in the same engine.".into(),
    })
}

/// Returns the claim on absent keys, at the threshold where they cause most device reads.
pub fn absent(found: &Found<'_>) -> Option<Claim> {
    let share = |point: &Measured| Some(point.absent?.device_share.median);
    let shares = found.thresholds().into_iter();
    let shares = shares.filter_map(|(_, point)| Some((point, share(point)?)));
    let (worst, share) = shares.reduce(|worst, other| match other.1 > worst.1 {
        true => other,
        false => worst,
    })?;
    Some(Claim {
        claim:
            "Whether deduplication leaves several runs or not, less than 1 % of lookups of absent \
                keys ask the device"
                .into(),
        paper: "-".into(),
        ours: format!("at most {} % ({})", digits(share * 100.0), worst.name),
        verdict: held(share < LEAST_SHARE),
        because:
            "No claim of the paper's, but what filters are for. What memory holds of the data is \
                  not asked of the device either."
                .into(),
    })
}
