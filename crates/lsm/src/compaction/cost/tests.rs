use super::*;

const HDD: TierCost = tier(DeviceProfile::WD10EZEX);
const SSD: TierCost = tier(DeviceProfile::SSD_850_PRO);
const NVME: TierCost = tier(DeviceProfile::NVME_960_PRO);

const fn tier(profile: DeviceProfile) -> TierCost {
    TierCost {
        profile,
        capacity_bytes: None,
    }
}

fn reads(stored_bytes: u64, reads: u64) -> LevelTraffic {
    LevelTraffic {
        stored_bytes,
        reads,
        read_bytes: reads * 4096,
        ..LevelTraffic::default()
    }
}

/// Half of the requests read a block, and each writes 10 KB in the end.
fn mixed() -> Traffic {
    let level = |stored_bytes, number| LevelTraffic {
        compaction_read_bytes: 2_000_000,
        compaction_written_bytes: 2_000_000,
        ..reads(stored_bytes, number)
    };
    Traffic {
        requests: 1000,
        levels: vec![
            LevelTraffic {
                flushed_bytes: 1_000_000,
                ..level(64 << 20, 50)
            },
            level(256 << 20, 50),
            level(2560 << 20, 100),
            level(25 << 30, 300),
        ],
        ..Traffic::default()
    }
}

const LOAD: Load = Load {
    threads: 16,
    processors: 4,
    cpu_us: 20.0,
    background_cpu_us: 0.0,
};

fn per_second(profile: DeviceProfile, traffic: &Traffic, load: Load) -> f64 {
    predict(traffic, &[tier(profile)], &Placement::new([0]), load).requests_per_second
}

/// The experiment of the paper: 42 GB in four levels beside 64 GB of memory, so few requests read a device.
#[test]
fn the_device_of_the_last_level_decides_as_in_the_paper() {
    let level = |gib: f64, reads: u64, written_bytes: u64| LevelTraffic {
        stored_bytes: (gib * (1u64 << 30) as f64) as u64,
        reads,
        read_bytes: reads * 4096,
        compaction_read_bytes: written_bytes,
        compaction_written_bytes: written_bytes,
        ..LevelTraffic::default()
    };
    let traffic = Traffic {
        requests: 100_000,
        levels: vec![
            level(0.25, 2, 40_000_000),
            level(0.25, 5, 40_000_000),
            level(2.5, 50, 40_000_000),
            level(36.0, 2000, 40_000_000),
        ],
        ..Traffic::default()
    };
    let load = Load {
        threads: 16,
        processors: 8,
        cpu_us: 330.0,
        background_cpu_us: 0.0,
    };
    let placements = [
        ("A", [0, 0, 0, 0]),
        ("B", [1, 0, 0, 0]),
        ("C", [1, 1, 0, 0]),
        ("D", [1, 1, 1, 0]),
        ("E", [1, 1, 1, 1]),
        ("F", [2, 1, 1, 1]),
        ("G", [2, 2, 1, 1]),
        ("H", [2, 2, 2, 1]),
        ("I", [2, 2, 2, 2]),
    ];
    let tiers = [HDD, SSD, NVME];
    let rates = placements.map(|(name, levels)| {
        let prediction = predict(&traffic, &tiers, &Placement::new(levels), load);
        println!(
            "{name}: {:.0} requests/s, p99 {:.0} us, bound {:?}",
            prediction.requests_per_second, prediction.p99_latency_us, prediction.bound
        );
        prediction.requests_per_second
    });
    let [a, b, c, d, e, .., i] = rates;
    assert!((2.5..4.0).contains(&(e / d)), "{}", e / d);
    for slow in [b, c, d] {
        assert!((1.0..1.25).contains(&(slow / a)), "{slow} and {a}");
    }
    for fast in &rates[4..] {
        assert!((0.95..1.001).contains(&(fast / i)), "{fast} and {i}");
    }
}

#[test]
fn a_better_figure_never_slows_a_store() {
    let better: [fn(&mut DeviceProfile, f64); 5] = [
        |profile, times| profile.read_bytes_per_second *= times,
        |profile, times| profile.write_bytes_per_second *= times,
        |profile, times| profile.read_latency_us /= times,
        |profile, times| profile.queued_read_latency_us /= times,
        |profile, times| profile.sync_latency_us /= times,
    ];
    for (name, profile) in DeviceProfile::PRESETS {
        for threads in [1, 8, 100] {
            for improve in better {
                let load = Load { threads, ..LOAD };
                let mut traffic = mixed();
                traffic.syncs = 100;
                traffic.levels[3].scanned_bytes = 4_000_000;
                let mut last = 0.0;
                for step in 0..8 {
                    let mut profile = profile;
                    improve(&mut profile, f64::from(1 << step));
                    let placement = Placement {
                        levels: vec![0],
                        arenas: Some(0),
                    };
                    let now = predict(&traffic, &[tier(profile)], &placement, load);
                    let now = now.requests_per_second;
                    assert!(now >= last * 0.999_999, "{name}: {last} then {now}");
                    last = now;
                }
            }
        }
    }
}

#[test]
fn more_traffic_never_makes_a_store_faster() {
    let more: [fn(&mut LevelTraffic); 5] = [
        |level| {
            level.reads *= 2;
            level.read_bytes *= 2;
        },
        |level| level.scanned_bytes += 1_000_000,
        |level| level.flushed_bytes += 1_000_000,
        |level| level.compaction_read_bytes *= 2,
        |level| level.compaction_written_bytes *= 2,
    ];
    for (name, profile) in DeviceProfile::PRESETS {
        for add in more {
            let mut traffic = mixed();
            let before = per_second(profile, &traffic, LOAD);
            traffic.levels.iter_mut().for_each(add);
            let after = per_second(profile, &traffic, LOAD);
            assert!(after <= before * 1.000_001, "{name}: {before} then {after}");
        }
    }
}

#[test]
fn threads_add_throughput_up_to_the_device() {
    let traffic = Traffic {
        requests: 1,
        levels: vec![reads(1 << 30, 1)],
        ..Traffic::default()
    };
    let with = |threads| {
        let load = Load {
            threads,
            processors: 64,
            cpu_us: 1.0,
            background_cpu_us: 0.0,
        };
        predict(&traffic, &[SSD], &Placement::new([0]), load)
    };
    let one = with(1);
    assert!((9_800.0..10_000.0).contains(&one.requests_per_second));
    assert_eq!(one.bound, Bound::Wait(0));
    assert!((100.0..103.0).contains(&one.mean_latency_us));
    // 32 reads at once take 320 us.
    let many = with(32).requests_per_second;
    assert!((85_000.0..100_500.0).contains(&many), "{many}");
    let most = with(1000);
    assert!((99_000.0..100_500.0).contains(&most.requests_per_second));
    assert!(most.mean_latency_us > 9_000.0);
    assert_eq!(most.bound, Bound::Tier(0));
    assert!((most.tiers[0].utilisation - 1.0).abs() < 0.01);
}

/// Returns the throughput of threads that share processors and then rest, in a microsecond: the machine repairman
/// model, with times that are exponential.
fn exact_per_us(threads: u32, processors: u32, cpu_us: f64, rest_us: f64) -> f64 {
    // The weights of 0, 1, 2, ... threads at the processors.
    let mut weights = vec![1.0];
    for at_work in 0..threads {
        let arrivals = f64::from(threads - at_work) / rest_us;
        let ends = f64::from((at_work + 1).min(processors)) / cpu_us;
        weights.push(weights[at_work as usize] * arrivals / ends);
    }
    let busy = |at_work: usize| (at_work as f64).min(f64::from(processors));
    let sum: f64 = weights.iter().sum();
    let weighted = weights.iter().enumerate();
    let busy: f64 = weighted
        .map(|(at_work, weight)| busy(at_work) * weight)
        .sum();
    busy / sum / cpu_us
}

#[test]
fn threads_that_outnumber_processors_wait_for_them() {
    let traffic = Traffic {
        requests: 1,
        levels: vec![reads(1 << 30, 1)],
        ..Traffic::default()
    };
    for (threads, processors) in [(16, 2), (8, 4), (3, 2), (32, 8), (2, 4), (4, 1), (16, 1)] {
        let least = if processors == 1 { 0.92 } else { 0.96 };
        for rest_us in [20.0, 50.0, 100.0, 200.0, 400.0] {
            // A read takes as long among others as alone.
            let profile = DeviceProfile {
                read_bytes_per_second: 1e12,
                read_latency_us: rest_us,
                queued_read_latency_us: rest_us,
                ..DeviceProfile::NVME_GEN4
            };
            let load = Load {
                threads,
                processors,
                cpu_us: 31.0,
                background_cpu_us: 0.0,
            };
            let found = per_second(profile, &traffic, load) / 1e6;
            let off = found / exact_per_us(threads, processors, 31.0, rest_us);
            assert!(
                (least..1.04).contains(&off),
                "{threads}, {processors}, {rest_us}: {off}"
            );
        }
    }
}

#[test]
fn requests_wait_for_processors_that_flushes_and_compactions_use() {
    let traffic = Traffic {
        requests: 1,
        levels: vec![reads(1 << 30, 1)],
        ..Traffic::default()
    };
    for threads in [2, 16] {
        let with = |background_cpu_us| {
            let load = Load {
                threads,
                processors: 2,
                cpu_us: 31.0,
                background_cpu_us,
            };
            predict(&traffic, &[NVME], &Placement::new([0]), load)
        };
        let rates = [0.0, 5.0, 10.0, 31.0].map(|us| with(us).requests_per_second);
        assert!(rates.is_sorted_by(|more, less| more > less), "{rates:?}");
        // Two processors for 31 and 31 us.
        assert!(rates[3] <= 2e6 / 62.0, "{rates:?}");
    }
}

#[test]
fn a_disk_pays_for_streams_between_other_requests() {
    let level = |read_bytes, written_bytes| LevelTraffic {
        compaction_read_bytes: read_bytes,
        compaction_written_bytes: written_bytes,
        ..LevelTraffic::default()
    };
    let bytes = 1_500_000;
    let rate = |profile, traffic: LevelTraffic| {
        let traffic = Traffic {
            requests: 1,
            levels: vec![traffic],
            ..Traffic::default()
        };
        per_second(profile, &traffic, LOAD)
    };
    // 150 MB/s alone; with another stream most of a move for each MiB.
    let alone = rate(DeviceProfile::WD10EZEX, level(0, 2 * bytes));
    assert!((49.9..50.1).contains(&alone), "{alone}");
    let both = rate(DeviceProfile::WD10EZEX, level(bytes, bytes));
    assert!((33.0..40.0).contains(&both), "{both}");
    let flash = rate(DeviceProfile::SSD_850_PRO, level(bytes, bytes));
    let sum = 1.0 / (1.5 / 550.0 + 1.5 / 520.0);
    assert!((0.99..1.001).contains(&(flash / sum)), "{flash}, {sum}");
}

#[test]
fn compactions_double_the_devices_part_of_a_read_at_most() {
    let mut traffic = mixed();
    let load = Load { threads: 1, ..LOAD };
    let busy = predict(&traffic, &[SSD], &Placement::new([0]), load);
    for level in &mut traffic.levels {
        *level = reads(level.stored_bytes, level.reads);
    }
    let idle = predict(&traffic, &[SSD], &Placement::new([0]), load);
    let (busy_us, idle_us) = (busy.tiers[0].read_latency_us, idle.tiers[0].read_latency_us);
    assert!(
        idle_us < busy_us && busy_us < idle_us + 10.1,
        "{idle_us}, {busy_us}"
    );
    assert!((99.9..100.1).contains(&idle_us));
}

#[test]
fn prices_are_those_of_bytes_and_wear_shortens_a_life() {
    let mut traffic = mixed();
    let stored_gb = traffic.level_bytes().iter().sum::<u64>() as f64 / 1e9;
    let at = |traffic: &Traffic, capacity_bytes| {
        let tier = TierCost {
            capacity_bytes,
            ..SSD
        };
        predict(traffic, &[tier], &Placement::new([0]), LOAD)
    };
    let all = at(&traffic, Some(512_000_000_000));
    assert!((all.price / (stored_gb * 0.45) - 1.0).abs() < 1e-9);
    let written = all.requests_per_second * 9_000.0 * 365.25 * 86_400.0;
    assert!((all.tiers[0].writes_per_year / (written / 512e9) - 1.0).abs() < 1e-9);
    let years = all.tiers[0].worn_out_years.unwrap();
    assert!((years / (586.0 / all.tiers[0].writes_per_year) - 1.0).abs() < 1e-9);
    // A small capacity wears out sooner, but each byte costs the same.
    let small = at(&traffic, Some(64_000_000_000));
    assert!(small.tiers[0].worn_out_years.unwrap() < years / 7.9);
    let worn_gb = 9_000.0 * 1e6 / 1e9 / 586.0;
    for price in [all.price_per_million, small.price_per_million] {
        assert!((price / (worn_gb * 0.45) - 1.0).abs() < 1e-9, "{price}");
    }
    for level in &mut traffic.levels {
        *level = reads(level.stored_bytes, level.reads);
    }
    let unworn = at(&traffic, None);
    assert_eq!(unworn.tiers[0].worn_out_years, None);
    let seconds = 5.0 * 365.25 * 86_400.0;
    let wanted = unworn.price / seconds / unworn.requests_per_second * 1e6;
    assert!((unworn.price_per_million / wanted - 1.0).abs() < 1e-9);
}

#[test]
fn syncs_are_waits_on_the_tier_of_the_arenas() {
    let traffic = Traffic {
        syncs: 1000,
        arena_bytes: 1_000_000,
        ..mixed()
    };
    let at = |arenas| {
        let placement = Placement {
            levels: vec![1],
            arenas,
        };
        let load = Load { threads: 1, ..LOAD };
        predict(&traffic, &[HDD, NVME], &placement, load).mean_latency_us
    };
    let (slow, fast, none) = (at(Some(0)), at(Some(1)), at(None));
    assert!(slow > 12_000.0 + none - 1.0 && slow < 12_100.0 + none);
    assert!(fast > 1_200.0 + none - 1.0 && fast < 1_300.0 + none);
}

#[test]
fn odd_figures_give_numbers() {
    let odd = [
        (Traffic::default(), vec![], Placement::new([])),
        (mixed(), vec![], Placement::new([0, 7])),
        (
            mixed(),
            vec![tier(DeviceProfile::default())],
            Placement::new([0]),
        ),
    ];
    for (traffic, tiers, placement) in odd {
        let load = Load {
            threads: 0,
            processors: 0,
            cpu_us: 0.0,
            background_cpu_us: 0.0,
        };
        let prediction = predict(&traffic, &tiers, &placement, load);
        let figures = [
            prediction.requests_per_second,
            prediction.mean_latency_us,
            prediction.p50_latency_us,
            prediction.p99_latency_us,
            prediction.price,
            prediction.price_per_million,
        ];
        assert!(figures.iter().all(|figure| figure.is_finite()));
        assert!(prediction.requests_per_second > 0.0);
    }
}

#[test]
fn quantiles_lie_around_the_mean() {
    for (name, profile) in DeviceProfile::PRESETS {
        let prediction = predict(&mixed(), &[tier(profile)], &Placement::new([0]), LOAD);
        let (p50, mean, p99) = (
            prediction.p50_latency_us,
            prediction.mean_latency_us,
            prediction.p99_latency_us,
        );
        assert!(
            p50 <= 1.1 * mean && mean < p99 && p99 < 20.0 * mean,
            "{name}: {p50} {mean} {p99}"
        );
    }
}

#[test]
fn placements_that_do_not_fit_are_left_out() {
    let levels = |order, capacities: &[Option<u64>]| -> Vec<Vec<usize>> {
        let found = feasible_placements(&[10, 100, 1000], capacities, order);
        found
            .into_iter()
            .map(|placement| placement.levels)
            .collect()
    };
    assert_eq!(
        levels(LevelOrder::FastestFirst, &[Some(110), None]),
        [[0, 0, 1], [0, 1, 1], [1, 1, 1]]
    );
    assert_eq!(
        levels(LevelOrder::Any, &[Some(110), None]),
        [[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]]
    );
    assert!(levels(LevelOrder::Any, &[Some(110), Some(999)]).is_empty());
    assert!(levels(LevelOrder::Any, &[]).is_empty());
    assert!(feasible_placements(&[], &[None], LevelOrder::Any).is_empty());
    let many = feasible_placements(&[1; 7], &[None; 8], LevelOrder::Any);
    assert_eq!(many.len(), 4096);
    let six = feasible_placements(&[1; 6], &[None; 4], LevelOrder::Any);
    assert_eq!(six.len(), 4096);
}

#[test]
fn a_level_that_fits_nowhere_ends_the_search_at_once() {
    let mut level_bytes = [1; 40];
    level_bytes[39] = 100;
    let capacities = [Some(99); 8];
    assert!(feasible_placements(&level_bytes, &capacities, LevelOrder::Any).is_empty());
    // Each of the last levels fits alone, but not all of them fit together.
    level_bytes[30..].fill(99);
    assert!(feasible_placements(&level_bytes, &capacities, LevelOrder::Any).is_empty());
    assert!(feasible_placements(&[1; 100_000], &[None; 2], LevelOrder::Any).is_empty());
}

#[test]
fn empty_levels_lie_with_the_level_above() {
    let found = feasible_placements(&[0, 0, 0, 1, 0, 2, 0], &[None; 4], LevelOrder::Any);
    assert_eq!(found.len(), 4 * 4 * 4);
    assert_eq!(found[1].levels, [0, 0, 0, 0, 0, 1, 1]);
    assert_eq!(found[63].levels, [3; 7]);
    // A tier without any room takes no empty level either.
    let found = feasible_placements(&[0, 1], &[Some(0), None], LevelOrder::Any);
    assert_eq!(found, [Placement::new([1, 1])]);
}

#[test]
fn of_many_placements_each_level_is_met_on_each_tier() {
    let found = feasible_placements(&[1; 7], &[None; 4], LevelOrder::Any);
    assert_eq!(found.len(), 4096);
    let times = |wanted: &dyn Fn(&[usize]) -> bool| {
        found
            .iter()
            .filter(|placement| wanted(&placement.levels))
            .count()
    };
    for tier in 0..4 {
        for level in 0..7 {
            let met = times(&|levels| levels[level] == tier);
            assert!((900..1150).contains(&met), "{level} on {tier}: {met}");
        }
        for last in 0..4 {
            let met = times(&|levels| levels[5] == tier && levels[6] == last);
            assert!((200..320).contains(&met), "{tier} and {last}: {met}");
        }
    }
    assert!(found.is_sorted_by(|one, next| one.levels < next.levels));
}

#[test]
fn of_placements_that_are_as_fast_the_cheapest_is_the_best() {
    let tiers = [NVME, HDD];
    let placements = feasible_placements(&[1, 1, 1, 1], &[None, None], LevelOrder::FastestFirst);
    let choose = |traffic: &Traffic, goal| {
        let (at, prediction) = best(traffic, &tiers, &placements, LOAD, goal).unwrap();
        let same = predict(traffic, &tiers, &placements[at], LOAD);
        assert_eq!(prediction, same);
        placements[at].levels.clone()
    };
    let mut traffic = mixed();
    assert_eq!(choose(&traffic, Goal::Throughput), [0, 0, 0, 0]);
    // The last level is cold, and written seldom.
    traffic.levels[3] = LevelTraffic {
        stored_bytes: 25 << 30,
        ..LevelTraffic::default()
    };
    assert_eq!(choose(&traffic, Goal::Throughput), [0, 0, 0, 1]);
    // Without any traffic of tables the cheap device is as fast.
    for level in &mut traffic.levels {
        *level = reads(level.stored_bytes, 0);
    }
    assert_eq!(choose(&traffic, Goal::Throughput), [1, 1, 1, 1]);
    assert_eq!(choose(&traffic, Goal::PricePerMillion), [1, 1, 1, 1]);
    assert!(best(&traffic, &tiers, &[], LOAD, Goal::Throughput).is_none());
}

#[test]
fn the_cheap_prediction_chooses_as_the_whole_one() {
    let tiers = [NVME, SSD, HDD];
    let traffic = mixed();
    let placements = feasible_placements(&traffic.level_bytes(), &[None; 3], LevelOrder::Any);
    let whole: Vec<Prediction> = placements
        .iter()
        .map(|placement| predict(&traffic, &tiers, placement, LOAD))
        .collect();
    for (placement, whole) in placements.iter().zip(&whole) {
        let cheap = requests_per_second(&traffic, &tiers, placement, LOAD);
        assert_eq!(cheap, whole.requests_per_second);
    }
    for goal in [Goal::Throughput, Goal::PricePerMillion] {
        let (at, prediction) = best(&traffic, &tiers, &placements, LOAD, goal).unwrap();
        assert_eq!(Some(at), best_of(whole.iter(), goal));
        assert_eq!(prediction, whole[at]);
    }
}

#[test]
fn a_profile_without_a_speed_is_unknown() {
    for (_, profile) in DeviceProfile::PRESETS {
        assert!(tier(profile).is_known());
    }
    type Breaks = fn(&mut DeviceProfile, f64);
    let broken: [(Breaks, &str); 3] = [
        (
            |profile, figure| profile.read_bytes_per_second = figure,
            "read_bytes_per_second",
        ),
        (
            |profile, figure| profile.write_bytes_per_second = figure,
            "write_bytes_per_second",
        ),
        (
            |profile, figure| profile.read_latency_us = figure,
            "read_latency_us",
        ),
    ];
    for (break_it, name) in broken {
        for figure in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut profile = DeviceProfile::QLC;
            break_it(&mut profile, figure);
            assert_eq!(tier(profile).unknown_figure(), Some(name));
            assert!(!tier(profile).is_known());
        }
    }
}

#[test]
fn hostile_sizes_are_summed_up_to_the_largest_number() {
    let traffic = Traffic {
        requests: 1,
        levels: vec![reads(u64::MAX, 1); 3],
        ..Traffic::default()
    };
    assert_eq!(traffic.stored_bytes(), u64::MAX);
    let whole = Placement::new([0]);
    assert!(!whole.fits(&traffic.level_bytes(), &[Some(u64::MAX - 1)]));
    assert!(whole.fits(&traffic.level_bytes(), &[None]));
    assert!(!Placement::new([0, 1]).fits(&[1, 2, 3], &[None, Some(4)]));
    let prediction = predict(&traffic, &[SSD], &whole, LOAD);
    assert_eq!(prediction.tiers[0].stored_bytes, u64::MAX);
}
