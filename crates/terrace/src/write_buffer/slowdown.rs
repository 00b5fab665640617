//! How much writers are held back: a pure, monotone function of what waits behind them.
//!
//! Each step of a measure at most doubles the delay, so that writers feel a slope and not a wall;
//! they stop only when there is nowhere left to write.

use std::fmt;

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    pub(crate) level0_sub_levels: usize,
    pub(crate) sealed_arenas: usize,
}

/// Where the slope begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) level0_slowdown: usize,
    pub(crate) level0_stop: usize,
    pub(crate) sealed_slowdown: usize,
}

/// Why writers were held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallCause {
    /// Level 0 has too many sub-levels: compaction is behind.
    Level0,
    /// Too many sealed arenas wait for their flush.
    SealedArenas,
}

impl StallCause {
    /// Every cause, in the order of its number.
    pub const ALL: [StallCause; 2] = [StallCause::Level0, StallCause::SealedArenas];
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StallCause::Level0 => "level 0",
            StallCause::SealedArenas => "sealed arenas",
        })
    }
}

/// What a commit group has to do before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slowdown {
    Go,
    Delay { delay_us: u64, cause: StallCause },
    Stop { cause: StallCause },
}

/// The delay of a commit group.
pub(crate) fn slowdown(pressure: Pressure, limits: Limits) -> Slowdown {
    if pressure.level0_sub_levels >= limits.level0_stop {
        return Slowdown::Stop {
            cause: StallCause::Level0,
        };
    }
    let steps = |value: usize, from: usize| (value + 1).saturating_sub(from).min(11) as u32;
    let level0 = steps(pressure.level0_sub_levels, limits.level0_slowdown);
    let sealed = steps(pressure.sealed_arenas, limits.sealed_slowdown);
    let cause = if level0 >= sealed {
        StallCause::Level0
    } else {
        StallCause::SealedArenas
    };
    match level0.max(sealed) {
        0 => Slowdown::Go,
        step => Slowdown::Delay {
            delay_us: 1 << (step - 1),
            cause,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_rises_step_by_step_and_at_most_doubles() {
        let limits = Limits {
            level0_slowdown: 12,
            level0_stop: 24,
            sealed_slowdown: 2,
        };
        let delay = |level0_sub_levels, sealed_arenas| match slowdown(
            Pressure {
                level0_sub_levels,
                sealed_arenas,
            },
            limits,
        ) {
            Slowdown::Go => 0,
            Slowdown::Delay { delay_us, .. } => delay_us,
            Slowdown::Stop { .. } => u64::MAX,
        };
        assert_eq!(delay(11, 1), 0);
        assert_eq!((delay(12, 0), delay(0, 2), delay(23, 0)), (1, 1, 1024));
        assert_eq!(delay(24, 0), u64::MAX);
        for level0 in 0..23 {
            for sealed in 0..8 {
                let here = delay(level0, sealed);
                for next in [delay(level0 + 1, sealed), delay(level0, sealed + 1)] {
                    assert!(
                        next >= here && next <= (2 * here).max(1),
                        "{level0} {sealed}"
                    );
                }
            }
        }
    }
}
