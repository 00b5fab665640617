use proptest::prelude::*;

use super::*;
use crate::golden::check_script;
use crate::levels::testing::{added, flush_place, levels, sub_level_place, version};

const KEYS_PER_TABLE: u64 = 500_000;

fn memory(bits_per_key: f64) -> FilterMemory {
    FilterMemory {
        bits_per_key,
        level_ratio: 10,
        flush_bytes: 1000,
    }
}

fn chance(parts: &[Part], part: &Part, bits: f64) -> f64 {
    kind_of(part.level, parts).chance(bits, KEYS_PER_TABLE as usize)
}

fn sum_of_chances(parts: &[Part], bits: &[f64]) -> f64 {
    parts
        .iter()
        .zip(bits)
        .map(|(part, &bits)| chance(parts, part, bits))
        .sum()
}

fn memory_bits(parts: &[Part], bits: &[f64]) -> f64 {
    parts
        .iter()
        .zip(bits)
        .map(|(part, bits)| part.entries as f64 * bits)
        .sum()
}

/// Returns the least sum of chances of all divisions in steps of a bit; the last part takes the
/// bits that the others leave.
fn best_on_a_grid(parts: &[Part], bits_per_key: f64) -> f64 {
    let (last, others) = parts.split_last().unwrap();
    let entries: u64 = parts.iter().map(|part| part.entries).sum();
    let all = bits_per_key * entries as f64;
    let steps = (MOST_BITS - LEAST_BITS) as u32 + 1;
    let mut best = f64::MAX;
    for number in 0..steps.pow(others.len() as u32) {
        let digits = (0..).map(|digit| number / steps.pow(digit) % steps);
        let bits: Vec<f64> = digits
            .take(others.len())
            .map(|d| LEAST_BITS + f64::from(d))
            .collect();
        let left = (all - memory_bits(others, &bits)) / last.entries as f64;
        if left >= LEAST_BITS {
            let bits: Vec<f64> = bits.into_iter().chain([left.min(MOST_BITS)]).collect();
            best = best.min(sum_of_chances(parts, &bits));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No other division of the memory has a smaller sum of chances.
    #[test]
    fn no_other_division_is_better(
        sizes in prop::collection::vec((0u8..4, 10u64..1_000_000_000), 1..4),
        tenths in 45u32..250,
    ) {
        let parts: Vec<Part> = sizes
            .into_iter()
            .map(|(level, entries)| Part { level, entries })
            .collect();
        let bits_per_key = f64::from(tenths) / 10.0;
        let bits = divide(&parts, bits_per_key, KEYS_PER_TABLE);
        let entries: u64 = parts.iter().map(|part| part.entries).sum();
        let average = memory_bits(&parts, &bits) / entries as f64;
        prop_assert!(average <= bits_per_key + 1e-6, "{} bits a key", average);
        prop_assert!(bits.iter().all(|bits| (LEAST_BITS..=MOST_BITS).contains(bits)));
        let sum = sum_of_chances(&parts, &bits);
        let best = best_on_a_grid(&parts, bits_per_key);
        prop_assert!(sum <= 1.01 * best, "{:?}: {} and not {}", bits, sum, best);
    }
}

/// Answers for `measures`: `entries of levels; place`. `2x300 0 1x5000; 1`: two sub-levels of 300
/// thousand entries in level 0, one of 5 million in level 2. The table is written to level 1.
fn answer(measures: &str) -> String {
    let (sub_levels, place) = measures.split_once("; ").unwrap();
    let mut parts = Vec::new();
    for (level, text) in (0..).zip(sub_levels.split_whitespace()) {
        let (count, thousands) = text.split_once('x').unwrap_or(("0", "0"));
        let entries = 1000 * thousands.parse::<u64>().unwrap();
        parts.extend(vec![Part { level, entries }; count.parse().unwrap()]);
    }
    let level: u8 = place.parse().unwrap();
    let written = parts.iter().rposition(|part| part.level == level).unwrap();
    let bits = memory(10.0).bits_of(parts.clone(), written, KEYS_PER_TABLE);
    let kind = kind_of(level, &parts).name();
    let all = divide(&parts, 10.0, KEYS_PER_TABLE);
    let sum = 100.0 * sum_of_chances(&parts, &all);
    format!("{kind}, {bits:.1} bits; {sum:.2} %")
}

#[test]
fn bits_follow_the_shape_of_the_levels() {
    check_script(env!("CARGO_MANIFEST_DIR"), "filter_memory.txt", 10, answer);
}

#[test]
fn a_place_that_is_not_listed_yet_counts_as_what_is_merged_into_it() {
    // Ten entries a table, 100 bytes each.
    let flushes = (0..4).map(|name| added(flush_place(name), name + 1, "a", "z"));
    let flushed = version(flushes.collect());
    let at = |place| memory(10.0).form_at(levels(&flushed), place).bits_per_key;
    let (level0, level1) = (at(flush_place(9)), at(sub_level_place(1, 0)));
    assert!(level1 < 10.0 && level0 > level1, "{level0} {level1}");
    // The slices of a merge are listed one by one.
    let mut tables: Vec<_> = (0..4)
        .map(|name| added(flush_place(name), name + 1, "a", "m"))
        .collect();
    tables.push(added(sub_level_place(1, 0), 9, "n", "z"));
    let half_way = version(tables);
    let form = memory(10.0).form_at(levels(&half_way), sub_level_place(1, 0));
    assert!((form.bits_per_key - level1).abs() < 0.3, "{form:?}");
    let nothing = version(Vec::new());
    let bits = |average, version| {
        let form = memory(average).form_at(levels(version), flush_place(9));
        form.bits_per_key
    };
    assert_eq!(bits(10.0, &nothing), 10.0);
    assert_eq!(bits(0.0, &flushed), 0.0);
    assert_eq!(bits(3.0, &flushed), 3.0);
}
