//! The script in tests/golden/slowdown.txt: pressure in, delay out; `TERRACE_BLESS=1` writes the
//! answers again.

use proptest::prelude::*;
use terrace_lsm::golden::check_script;

use super::*;

const GIB: u64 = 1 << 30;
const LIMITS: Limits = Limits {
    level0_slowdown: 12,
    level0_stop: 24,
    debt_slowdown_bytes: 16 * GIB,
    debt_stop_bytes: 64 * GIB,
    free_sixteenths_slowdown: 32,
};

fn answer(line: &str) -> String {
    let mut pressure = Pressure {
        level0_sub_levels: 0,
        debt_bytes: 0,
        overdue_permille: 0,
        free_sixteenths: 48,
    };
    for measure in line.split_whitespace() {
        let (name, value) = measure.split_once('=').unwrap();
        match name {
            "level0" => pressure.level0_sub_levels = value.parse().unwrap(),
            "overdue_permille" => pressure.overdue_permille = value.parse().unwrap(),
            "debt_gib" => pressure.debt_bytes = value.parse::<u64>().unwrap() * GIB,
            "free" => pressure.free_sixteenths = value.parse().unwrap(),
            _ => panic!("no measure {name}"),
        }
    }
    match slowdown(pressure, LIMITS) {
        Slowdown::Go => "go".to_owned(),
        Slowdown::Delay { ns_per_kib, cause } => format!("{ns_per_kib} ns a KiB: {cause}"),
        Slowdown::Stop { cause } => format!("stop: {cause}"),
    }
}

#[test]
fn the_script_is_answered_as_it_was() {
    check_script(env!("CARGO_MANIFEST_DIR"), "slowdown.txt", 22, answer);
}

#[test]
fn the_slope_of_the_room_lies_in_the_last_two_arenas() {
    assert_eq!([2, 3, 4].map(slowdown_below_sixteenths), [16, 32, 32]);
}

/// Returns the delay: 0 for none, the largest number for a stop.
fn delay(level0_sub_levels: usize, debt_gib: u64, taken_sixteenths: u64) -> u64 {
    let pressure = Pressure {
        level0_sub_levels,
        debt_bytes: debt_gib * GIB,
        overdue_permille: 0,
        free_sixteenths: 48 - taken_sixteenths,
    };
    match slowdown(pressure, LIMITS) {
        Slowdown::Go => 0,
        Slowdown::Delay { ns_per_kib, .. } => ns_per_kib,
        Slowdown::Stop { .. } => u64::MAX,
    }
}

proptest! {
    /// A step is a sub-level, a GiB of debt (less than a twelfth of the slope), a sixteenth of an
    /// arena.
    #[test]
    fn each_step_of_each_measure_raises_the_delay_and_at_most_doubles_it(
        level0 in 0..23usize, debt in 0..63u64, taken in 0..48u64,
    ) {
        let here = delay(level0, debt, taken);
        let steps = [(level0 + 1, debt, taken), (level0, debt + 1, taken), (level0, debt, taken + 1)];
        for (level0, debt, taken) in steps.into_iter().filter(|step| step.2 <= 48) {
            let next = delay(level0, debt, taken);
            prop_assert!(next >= here);
            prop_assert!(next <= (2 * here).max(FIRST_NS_PER_KIB) || level0 == 24 || debt == 64);
        }
    }
}
