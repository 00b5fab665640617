use super::*;

const DRAWS: u64 = 400_000;

fn counts(below: u64, mut next: impl FnMut() -> u64) -> Vec<u64> {
    let mut counts = vec![0; below as usize];
    for _ in 0..DRAWS {
        counts[next() as usize] += 1;
    }
    counts
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (found - expected).abs() <= tolerance * expected,
        "{what}: {found} instead of {expected}"
    );
}

#[test]
fn fnv_is_that_of_ycsb() {
    assert_eq!(fnv_64(0), 6_284_781_860_667_377_211);
    assert_eq!(fnv_64(1), 8_517_097_267_634_966_620);
    assert_eq!(fnv_64(2), 1_820_151_046_732_198_393);
    assert_eq!(fnv_64(1_000_000), 1_011_632_231_655_643_464);
}

#[test]
fn a_mixed_number_comes_back() {
    for number in [0, 1, 2, 77, 1 << 40, u64::MAX, u64::MAX / 3] {
        assert_eq!(unmix_64(mix_64(number)), number);
    }
}

#[test]
fn uniform_draws_are_alike() {
    let mut random = random(1, 0);
    let counts = counts(50, || uniform(&mut random, 50));
    let expected = DRAWS as f64 / 50.0;
    let chi_square: f64 = counts
        .iter()
        .map(|count| (*count as f64 - expected).powi(2) / expected)
        .sum();
    // 49 degrees of freedom: 85.4 is exceeded once in a thousand.
    assert!(chi_square < 85.4, "{chi_square}");
    assert_eq!(uniform(&mut random, 0), 0);
}

#[test]
fn clients_and_seeds_draw_unlike_numbers() {
    let first = |seed, client| uniform(&mut random(seed, client), u64::MAX);
    assert_eq!(first(1, 0), first(1, 0));
    assert_ne!(first(1, 0), first(1, 1));
    assert_ne!(first(1, 0), first(2, 0));
    assert_ne!(first(0, 1), first(1, 0));
    assert_ne!(seed_of(1, "A"), seed_of(1, "B"));
}

#[test]
fn zipfian_ranks_have_their_theoretical_shares() {
    let items = 1000;
    let zipfian = Zipfian::new(items, YCSB_THETA);
    let mut random = random(2, 0);
    let counts = counts(items, || zipfian.next(&mut random));
    let weights: Vec<f64> = (1..=items)
        .map(|rank| (rank as f64).powf(-YCSB_THETA))
        .collect();
    let zeta: f64 = weights.iter().sum();
    for rank in 0..2 {
        let expected = DRAWS as f64 * weights[rank] / zeta;
        assert_near(counts[rank] as f64, expected, 0.02, "an exact rank");
    }
    // Further ranks are approximated by a continuous distribution, worst (8.8 %) right at first.
    for (from, to) in [(2, 10), (10, 100), (100, 1000)] {
        let expected = DRAWS as f64 * weights[from..to].iter().sum::<f64>() / zeta;
        let found: u64 = counts[from..to].iter().sum();
        assert_near(found as f64, expected, 0.1, "a decade of ranks");
    }
}

#[test]
fn a_grown_zipfian_is_one_of_that_size() {
    let mut grown = Zipfian::new(10, YCSB_THETA);
    grown.grow(500);
    grown.grow(20);
    let new = Zipfian::new(500, YCSB_THETA);
    for step in 0..1000 {
        let quantile = f64::from(step) / 1000.0;
        assert_eq!(grown.rank(quantile), new.rank(quantile));
    }
}

#[test]
fn zipfian_ranks_stay_inside_whatever_the_size() {
    for items in [0, 1, 2, 3, 10] {
        let zipfian = Zipfian::new(items, YCSB_THETA);
        for quantile in [0.0, 0.3, 0.9, 1.0 - f64::EPSILON] {
            assert!(zipfian.rank(quantile) < items.max(1));
        }
    }
}

#[test]
fn the_constant_of_scrambled_zipfian_is_what_it_says() {
    // zeta(10^10) by the integral from 10^6 on (Euler-Maclaurin).
    let (from, to, power) = (1e6f64, 1e10f64, 1.0 - YCSB_THETA);
    let head: f64 = (1..=1_000_000u64)
        .map(|rank| (rank as f64).powf(-YCSB_THETA))
        .sum();
    let tail = (to.powf(power) - from.powf(power)) / power
        + (to.powf(-YCSB_THETA) - from.powf(-YCSB_THETA)) / 2.0;
    assert_near(head + tail, 26.469_028_201_783_02, 1e-6, "zeta");
}

#[test]
fn the_hottest_key_takes_its_share_wherever_it_lies() {
    for items in [1000, 12_345] {
        let zipfian = ScrambledZipfian::new(items);
        let mut random = random(3, 0);
        let counts = counts(items, || zipfian.next(&mut random));
        let hottest = (fnv_64(0) % items) as usize;
        // Another rank may share the place: at least, and not much more.
        let share = counts[hottest] as f64 / DRAWS as f64;
        assert!((0.0370..0.0400).contains(&share), "{share}");
        assert_eq!(counts.iter().max(), Some(&counts[hottest]));
    }
}

#[test]
fn the_latest_is_drawn_most() {
    let mut latest = Latest::new(100);
    let mut random = random(4, 0);
    let counts = counts(1000, || latest.next(1000, &mut random));
    assert_eq!(counts.iter().max(), Some(&counts[999]));
    assert!(counts[999] > counts[998] && counts[998] > counts[900]);
    let weights: f64 = (1..=1000u64)
        .map(|rank| (rank as f64).powf(-YCSB_THETA))
        .sum();
    assert_near(counts[999] as f64 * weights, DRAWS as f64, 0.02, "newest");
}

#[test]
fn hot_ranges_take_zipfian_shares_and_their_records_are_alike() {
    let clustered = Clustered::new(10_000, 100, 5);
    let mut random = random(5, 0);
    let counts = counts(10_000, || clustered.next(&mut random));
    let mut ranges: Vec<u64> = counts.chunks(100).map(|range| range.iter().sum()).collect();
    let hottest_at = ranges.iter().enumerate().max_by_key(|(_, count)| **count);
    let hottest = &counts[hottest_at.unwrap().0 * 100..][..100];
    let (least, most) = (hottest.iter().min().unwrap(), hottest.iter().max().unwrap());
    assert!(*most < least * 3 / 2, "{least} to {most} within a range");
    ranges.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    let zeta: f64 = (1..=100)
        .map(|rank| f64::from(rank).powf(-YCSB_THETA))
        .sum();
    assert_near(ranges[0] as f64 * zeta, DRAWS as f64, 0.02, "hottest range");
}

#[test]
fn permutations_are_bijections_with_inverses() {
    for count in [0, 1, 2, 3, 4, 5, 16, 17, 1000, 65_537] {
        let permutation = Permutation::new(count, 6);
        let mut seen = vec![false; count as usize];
        for place in 0..count {
            let number = permutation.at(place);
            assert!(!std::mem::replace(&mut seen[number as usize], true));
            assert_eq!(permutation.place_of(number), place);
        }
    }
}

#[test]
fn a_permutation_leaves_little_in_place_or_beside_its_neighbour() {
    let permutation = Permutation::new(100_000, 7);
    let numbers: Vec<u64> = (0..100_000).map(|place| permutation.at(place)).collect();
    let neighbours = numbers
        .windows(2)
        .filter(|pair| pair[0].abs_diff(pair[1]) == 1)
        .count();
    let fixed = (0..).zip(&numbers).filter(|(at, n)| at == *n).count();
    let rising = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(neighbours < 20 && fixed < 20, "{neighbours} and {fixed}");
    assert!((49_000..51_000).contains(&rising), "{rising}");
    assert_ne!(
        numbers[..100],
        (0..100)
            .map(|p| Permutation::new(100_000, 8).at(p))
            .collect::<Vec<_>>()[..]
    );
}

#[test]
fn pareto_has_the_quantiles_of_its_formula() {
    let sizes = Pareto {
        theta: 0.0,
        k: 0.2615,
        sigma: 25.45,
    };
    assert_eq!(sizes.exceeded_by(1.0), 0);
    // sigma/k (2^k - 1) and sigma/k (100^k - 1).
    assert_eq!(sizes.exceeded_by(0.5), 20);
    assert_eq!(sizes.exceeded_by(0.01), 228);
    let lengths = Pareto {
        theta: 0.0,
        k: 2.517,
        sigma: 14.236,
    };
    assert_eq!(lengths.exceeded_by(0.5), 27);
    let exponential = Pareto {
        theta: 3.0,
        k: 0.0,
        sigma: 10.0,
    };
    assert_eq!(exponential.exceeded_by(0.5), 10);
    assert_eq!(sizes.exceeded_by(0.0), u64::MAX);
}

fn published_shape() -> KeyRangesShape {
    KeyRangesShape {
        ranges: 30,
        range_a: 14.18,
        range_b: -2.917,
        range_c: 0.0164,
        range_d: -0.08082,
        key_a: 0.002312,
        key_b: 0.3467,
    }
}

#[test]
fn key_ranges_have_the_weights_of_two_exponentials() {
    let shape = published_shape();
    let ranges = KeyRanges::new(30_000, shape);
    let mut random = random(8, 0);
    let counts = counts(30_000, || ranges.next(&mut random));
    let mut found: Vec<u64> = counts
        .chunks(1000)
        .map(|range| range.iter().sum())
        .collect();
    let in_order = found.clone();
    found.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    assert_ne!(found, in_order, "hot ranges lie anywhere");
    let weights: Vec<f64> = (1..=30)
        .map(f64::from)
        .map(|x| 14.18 * (-2.917 * x).exp() + 0.0164 * (-0.08082 * x).exp())
        .collect();
    let total: f64 = weights.iter().sum();
    for (rank, weight) in weights.iter().enumerate().take(5) {
        // Shares are whole numbers of the least weight.
        let expected = DRAWS as f64 * weight / total;
        assert_near(found[rank] as f64, expected, 0.1, "a range");
    }
}

#[test]
fn a_range_of_keys_has_hot_ones_by_a_power_law() {
    let ranges = KeyRanges::new(
        1000,
        KeyRangesShape {
            ranges: 1,
            ..published_shape()
        },
    );
    let mut random = random(9, 0);
    let counts = counts(1000, || ranges.next(&mut random));
    let hottest = (mix_64(1) % 1000) as usize;
    // Quantiles to key_a belong to rank 1; ranks that hash to the same place come on top.
    let share = counts[hottest] as f64 / DRAWS as f64;
    assert!((0.0023..0.0045).contains(&share), "{share}");
    let plain = KeyRangesShape {
        ranges: 1,
        key_a: 0.0,
        ..published_shape()
    };
    let plain = KeyRanges::new(1000, plain);
    assert!((0..1000).all(|_| plain.next(&mut random) < 1000));
}
