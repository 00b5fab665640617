//! The script in tests/golden/rate_limit.txt: the owed work in, rate out; `TERRACE_BLESS=1` writes
//! the answers again.

use proptest::prelude::*;

use super::*;
use crate::golden::check_script;

const MIB: u64 = 1 << 20;
const LIMITS: RateLimits = RateLimits {
    bytes_per_second: 100 * MIB,
    level0_merge: 4,
    level0_slowdown: 12,
    debt_slowdown_bytes: 16 << 30,
};

fn answer(line: &str) -> String {
    let (mut debt_bytes, mut level0_sub_levels, mut limits) = (0, 0, LIMITS);
    for measure in line.split_whitespace() {
        let (name, value) = measure.split_once('=').unwrap();
        let value: u64 = value.parse().unwrap();
        match name {
            "debt_mib" => debt_bytes = value * MIB,
            "level0" => level0_sub_levels = value as usize,
            "level0_merge" => limits.level0_merge = value as usize,
            "level0_slowdown" => limits.level0_slowdown = value as usize,
            "debt_slowdown_mib" => limits.debt_slowdown_bytes = value * MIB,
            _ => panic!("no measure {name}"),
        }
    }
    match rate_limit(debt_bytes, level0_sub_levels, limits) {
        Some(rate) => format!("{} MiB a second", rate / MIB),
        None => "no limit".to_owned(),
    }
}

#[test]
fn the_script_is_answered_as_it_was() {
    check_script(env!("CARGO_MANIFEST_DIR"), "rate_limit.txt", 21, answer);
}

fn limits() -> impl Strategy<Value = RateLimits> {
    (1..1_u64 << 40, 1..20_usize, 0..40_usize, 1..1_u64 << 50).prop_map(
        |(bytes_per_second, level0_merge, above, debt_slowdown_bytes)| RateLimits {
            bytes_per_second,
            level0_merge,
            level0_slowdown: level0_merge + above,
            debt_slowdown_bytes,
        },
    )
}

/// Returns the rate; no limit is the largest number.
fn rate(debt_bytes: u64, level0_sub_levels: usize, limits: RateLimits) -> u64 {
    rate_limit(debt_bytes, level0_sub_levels, limits).unwrap_or(u64::MAX)
}

proptest! {
    #[test]
    fn the_rate_rises_from_the_floor_with_what_is_owed(
        limits in limits(), debt in 0..1_u64 << 50, level0 in 0..60_usize, more in 0..1_u64 << 50,
    ) {
        let here = rate(debt, level0, limits);
        prop_assert!(here >= limits.bytes_per_second);
        prop_assert!(rate(debt + more, level0, limits) >= here);
        prop_assert!(rate(debt, level0 + 1, limits) >= here);
        prop_assert_eq!(rate(0, 0, limits), limits.bytes_per_second);
    }

    /// A step is a twentieth of the slope of the debt, or a sub-level.
    #[test]
    fn a_step_at_most_doubles_the_rate_or_ends_the_limit(
        limits in limits(), debt in 0..1_u64 << 50, level0 in 0..60_usize,
    ) {
        let here = rate(debt, level0, limits);
        let slope_bytes = limits.debt_slowdown_bytes * 5 / 8;
        let steps = [(debt + slope_bytes / 20, level0), (debt, level0 + 1)];
        for (debt, level0) in steps {
            let next = rate(debt, level0, limits);
            prop_assert!(next <= here.saturating_mul(2) || next == u64::MAX);
        }
    }

    #[test]
    fn there_is_no_limit_where_writers_are_slowed_down(limits in limits()) {
        prop_assert_eq!(rate_limit(limits.debt_slowdown_bytes, 0, limits), None);
        prop_assert_eq!(rate_limit(0, limits.level0_slowdown, limits), None);
        if limits.level0_slowdown > 1 {
            prop_assert_eq!(rate_limit(0, limits.level0_slowdown - 1, limits), None);
        }
    }
}

#[test]
fn no_number_is_too_large() {
    let limits = RateLimits {
        bytes_per_second: u64::MAX,
        level0_merge: usize::MAX,
        level0_slowdown: usize::MAX,
        debt_slowdown_bytes: u64::MAX,
    };
    assert_eq!(rate_limit(0, 0, limits), Some(u64::MAX));
    assert_eq!(rate_limit(u64::MAX / 2, 0, limits), Some(u64::MAX));
    assert_eq!(rate_limit(u64::MAX, usize::MAX, limits), None);
}
