//! How fast background work may write: a pure, monotone function of the work that merges owe.
//!
//! The rate that the options give is the floor, and holds while little is owed. It rises with the
//! debt and with the sub-levels of level 0, in steps that double it. It ends in no limit at all
//! before either reaches the point where writers are slowed down: a limit on the background must
//! not become one on writers. At any speed of the writers some step between matches it, so merges
//! settle at the lowest of these rates that they can keep up with.

/// Where the slopes begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// The floor.
    pub bytes_per_second: u64,
    pub level0_merge: usize,
    pub level0_slowdown: usize,
    pub debt_slowdown_bytes: u64,
}

/// Steps of each slope; the last one is no limit.
const STEPS: u32 = 10;

/// Returns the rate in bytes a second; `None` for no limit.
pub fn rate_limit(debt_bytes: u64, level0_sub_levels: usize, limits: RateLimits) -> Option<u64> {
    let debt = debt_steps(debt_bytes, limits.debt_slowdown_bytes);
    let level0 = level0_steps(level0_sub_levels as u64, limits);
    let steps = debt.max(level0);
    let factor = 1_u64 << steps.min(STEPS);
    (steps < STEPS).then(|| limits.bytes_per_second.saturating_mul(factor))
}

/// Returns the steps from an eighth of the debt that slows writers down to three quarters of it.
fn debt_steps(debt_bytes: u64, slowdown_bytes: u64) -> u32 {
    let from = slowdown_bytes / 8;
    let to = slowdown_bytes - slowdown_bytes / 4;
    steps_within(debt_bytes, from, to)
}

/// Returns the steps from the sub-levels that start a merge to one less than those that slow
/// writers down. A slope of fewer sub-levels than steps is cut off at its end.
fn level0_steps(sub_levels: u64, limits: RateLimits) -> u32 {
    let from = limits.level0_merge as u64;
    let to = (limits.level0_slowdown as u64).saturating_sub(1).max(1);
    if sub_levels >= to {
        return STEPS;
    }
    steps_within(
        sub_levels,
        from,
        to.max(from.saturating_add(u64::from(STEPS))),
    )
}

fn steps_within(value: u64, from: u64, to: u64) -> u32 {
    let above = u128::from(value.saturating_sub(from));
    let length = u128::from(to.saturating_sub(from).max(1));
    u32::try_from(above * u128::from(STEPS) / length).unwrap_or(STEPS)
}

#[cfg(test)]
mod tests;
