//! The delay of writers: a pure, monotone function of the work that waits behind them.
//!
//! Four measures rise while background work is behind: the sub-levels of level 0, the bytes that
//! merges owe, their lateness, and the room taken in the arenas. Each step of a measure at most
//! doubles the delay, so that writers feel a slope and not a wall. They come to rest where they
//! write as fast as the work behind them goes, long before there is nowhere left to write. The
//! delay is by bytes, because flushes and merges have to move bytes.

use crate::stall_cause::StallCause;

/// The work that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Maximum of all keyspaces.
    pub level0_sub_levels: usize,
    /// Bytes that merges still have to write; see `Policy::debt_bytes`.
    pub debt_bytes: u64,
    /// Lateness of merges below level 0 against the policy's promise, in thousandths of the measure
    /// at which one is due; see `Policy::overdue`.
    pub overdue_permille: u64,
    /// Room that is left for writes, in sixteenths of an arena.
    pub free_sixteenths: u64,
}

/// The begin and end of each slope. The one of the room ends with the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sub-levels of level 0 from which on writers are held back.
    pub level0_slowdown: usize,
    /// Sub-levels of level 0 from which on writers are stopped.
    pub level0_stop: usize,
    /// Debt from which on writers are held back.
    pub debt_slowdown_bytes: u64,
    /// Debt from which on writers are stopped.
    pub debt_stop_bytes: u64,
    /// Room below which writers are held back.
    pub free_sixteenths_slowdown: u64,
}

/// The duty of a commit group before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slowdown {
    /// Nothing holds it back.
    Go,
    /// It waits by its bytes.
    Delay {
        /// Nanoseconds for each KiB.
        ns_per_kib: u64,
        /// The measure that is highest.
        cause: StallCause,
    },
    /// There is nowhere left to merge to.
    Stop {
        /// The measure that is at its end.
        cause: StallCause,
    },
}

/// Two per cent of the cost of writing a KiB.
const FIRST_NS_PER_KIB: u64 = 64;
/// The last step: about 2 MB a second.
const MOST_STEPS: u64 = 14;
/// Steps of the debt between its limits.
const DEBT_STEPS: u64 = 12;

/// Returns the delay of a commit group.
pub fn slowdown(pressure: Pressure, limits: Limits) -> Slowdown {
    let stop = |cause| Slowdown::Stop { cause };
    if pressure.level0_sub_levels >= limits.level0_stop {
        return stop(StallCause::Level0);
    }
    if pressure.debt_bytes >= limits.debt_stop_bytes {
        return stop(StallCause::Debt);
    }
    let level0 = (pressure.level0_sub_levels + 1).saturating_sub(limits.level0_slowdown) as u64;
    let room = limits
        .free_sixteenths_slowdown
        .saturating_sub(pressure.free_sixteenths);
    let debt =
        debt_steps(pressure.debt_bytes, limits).max(overdue_steps(pressure.overdue_permille));
    let steps = [level0, debt, room];
    // The first of equal ones.
    let most = steps
        .into_iter()
        .zip(StallCause::ALL)
        .rev()
        .max_by_key(|(steps, _)| *steps);
    match most {
        None | Some((0, _)) => Slowdown::Go,
        Some((steps, cause)) => Slowdown::Delay {
            ns_per_kib: FIRST_NS_PER_KIB << (steps.min(MOST_STEPS) - 1),
            cause,
        },
    }
}

/// Returns the room that slows no writer down. The slope begins with the last two arenas, but never
/// in the first: one can be filled at full speed. With a slope in the last one only, a writer
/// that outruns the flushes would come to rest with nearly all arenas full. Then it would wait for
/// the whole flush of one.
pub(crate) fn slowdown_below_sixteenths(max_arenas: usize) -> u64 {
    16 * max_arenas.saturating_sub(1).min(2) as u64
}

fn debt_steps(debt_bytes: u64, limits: Limits) -> u64 {
    let Some(above_bytes) = debt_bytes.checked_sub(limits.debt_slowdown_bytes) else {
        return 0;
    };
    let slope_bytes = limits
        .debt_stop_bytes
        .saturating_sub(limits.debt_slowdown_bytes);
    let steps = u128::from(above_bytes) * u128::from(DEBT_STEPS) / u128::from(slope_bytes.max(1));
    1 + u64::try_from(steps).unwrap_or(DEBT_STEPS)
}

/// Returns the steps of lateness: they rise from a due merge to three tenths more, and then no
/// further. No writer is stopped for space.
fn overdue_steps(overdue_permille: u64) -> u64 {
    const DUE: u64 = 1000;
    const SLOPE: u64 = 300;
    let above = overdue_permille.saturating_sub(DUE).min(SLOPE);
    (above * DEBT_STEPS).div_ceil(SLOPE)
}

#[cfg(test)]
mod tests;
