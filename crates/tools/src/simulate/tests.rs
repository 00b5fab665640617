use terrace::{CompactionPolicy, Compression, KeyspaceOptions, Options};

use super::description::{KeyDistribution, Simulation, Speeds, TreeKind};
use super::form::TableForm;
use super::outcome::Outcome;
use super::trie::TrieForm;

const POLICIES: [CompactionPolicy; 5] = [
    CompactionPolicy::Leveled,
    CompactionPolicy::Tiered,
    CompactionPolicy::Lazy,
    CompactionPolicy::Dedup,
    CompactionPolicy::Score,
];

/// A buffer is about a hundredth of the keys.
fn simulation(compaction_policy: CompactionPolicy) -> Simulation {
    const BUFFER_BYTES: u64 = 1 << 20;
    Simulation {
        keys: 1_000_000,
        writes: 5_000_000,
        options: Options {
            compaction_policy,
            default_keyspace: KeyspaceOptions {
                compression: vec![Compression::None],
                table_bytes: BUFFER_BYTES,
                level1_bytes: 4 * BUFFER_BYTES,
                ..KeyspaceOptions::default()
            },
            arena_bytes: BUFFER_BYTES,
            level0_merge: 4,
            level0_slowdown: 8,
            compaction_threads: 2,
            constants: terrace::Constants {
                level0_stop: Some(24),
                slice_bytes: 4 * BUFFER_BYTES,
                debt_slowdown_bytes: 256 * BUFFER_BYTES,
                debt_stop_bytes: 1024 * BUFFER_BYTES,
                ..terrace::Constants::default()
            },
            ..Options::default()
        },
        ..Simulation::default()
    }
}

fn run(simulation: &Simulation) -> Outcome {
    simulation.run(&mut |_| ()).unwrap()
}

fn is_about(value: f64, expected: f64, share: f64) -> bool {
    (value / expected - 1.0).abs() <= share
}

#[test]
fn the_same_description_costs_the_same() {
    for policy in POLICIES {
        let one = run(&simulation(policy));
        assert_eq!(one, run(&simulation(policy)), "{policy}");
        let merges = one.merges.values();
        let written: f64 = merges.map(|merges| merges.written_bytes).sum();
        assert!(written / one.user_bytes < one.write_amplification);
        assert!(
            one.space.peak > one.space.mean && one.sub_levels.most as f64 > one.sub_levels.mean
        );
        assert_eq!(one.series.last().unwrap().writes, 5_000_000);
    }
}

/// Keys that are written once are in a table each once, however they are merged.
#[test]
fn nothing_is_lost_and_nothing_is_made() {
    for policy in POLICIES {
        let once = Simulation {
            writes: 1_000_000,
            fill_first: true,
            ..simulation(policy)
        };
        let outcome = run(&once);
        let form = TableForm::measured(&once).unwrap();
        let entries = form.entries_of(outcome.space.settled * outcome.distinct_bytes);
        // Small tables are larger for their entries; writes in the last buffer are in none.
        assert!(entries > 0.985e6 && entries < 1.04e6, "{policy}: {entries}");
    }
}

#[test]
fn merges_that_are_fast_enough_cost_what_those_do_that_take_no_time() {
    for policy in POLICIES {
        let free = run(&simulation(policy));
        let at_speed = |merge_bytes_per_second| {
            run(&Simulation {
                speeds: Some(Speeds {
                    write_bytes_per_second: 1e6,
                    merge_bytes_per_second,
                }),
                ..simulation(policy)
            })
        };
        let fast = at_speed(1e11);
        assert!(
            is_about(fast.write_amplification, free.write_amplification, 0.05),
            "{policy}"
        );
        assert!(is_about(fast.space.mean, free.space.mean, 0.05), "{policy}");
        let held_back = |outcome: &Outcome| {
            let seconds = outcome.seconds.unwrap();
            seconds.held_back / seconds.load
        };
        assert!(held_back(&fast) < 0.01, "{policy}");
        // Two threads together are slower than the writes that they have to do.
        let slow = at_speed(8e5);
        assert!(held_back(&slow) > 0.02, "{policy}: {:?}", slow.seconds);
        assert!(slow.space.peak > free.space.peak, "{policy}");
    }
}

#[test]
fn a_load_of_any_size_has_as_many_tables_as_can_be_handled() {
    let large = |policy| Simulation {
        keys: 1_000_000_000_000,
        writes: 3_000_000_000_000,
        options: {
            let base = simulation(policy).options;
            Options {
                arena_bytes: 1 << 40,
                default_keyspace: KeyspaceOptions {
                    level1_bytes: 4 << 40,
                    ..base.default_keyspace
                },
                constants: terrace::Constants {
                    slice_bytes: 4 << 40,
                    ..simulation(policy).options.constants
                },
                ..base
            }
        },
        ..simulation(policy)
    };
    for policy in POLICIES {
        let outcome = run(&large(policy));
        assert!(outcome.enlarged_table_bytes.unwrap() > 1 << 30, "{policy}");
        let small = run(&Simulation {
            writes: 3_000_000,
            ..simulation(policy)
        });
        assert_eq!(
            small
                .enlarged_table_bytes
                .filter(|_| policy == CompactionPolicy::Leveled),
            None
        );
        assert!(
            is_about(outcome.write_amplification, small.write_amplification, 0.15),
            "{policy}"
        );
    }
}

fn trie(writes: u64, last_level: Option<u32>) -> Outcome {
    run(&Simulation {
        writes,
        fill_first: true,
        tree: TreeKind::Trie(TrieForm {
            last_level,
            ..TrieForm::default()
        }),
        ..simulation(CompactionPolicy::Tiered)
    })
}

#[test]
fn a_trie_writes_each_version_once_on_each_level_and_merges_what_is_full_only() {
    let flat = trie(1_000_000, Some(0));
    assert!(flat.merges.is_empty());
    let flushed = flat.write_amplification;
    assert!(is_about(flushed, 1.15, 0.1), "{flushed}");
    // Nothing twice: each level writes all that does not wait in the levels above.
    let deep = trie(1_000_000, Some(2));
    let counts: Vec<u64> = deep.merges.values().map(|merges| merges.count).collect();
    assert_eq!(counts, [flat.flushes / 8, flat.flushes / 64]);
    let of_flushes = 1.0 + (counts[0] * 8 + counts[1] * 64) as f64 / flat.flushes as f64;
    assert!(is_about(
        deep.write_amplification,
        flushed * of_flushes,
        0.05
    ));
    assert!(is_about(deep.space.settled, flat.space.settled, 0.05));
}

/// All versions stay but those that a full node has twice.
#[test]
fn the_last_level_of_a_trie_keeps_what_comes() {
    let outcome = trie(10_000_000, None);
    let tiered = run(&Simulation {
        writes: 10_000_000,
        ..simulation(CompactionPolicy::Tiered)
    });
    let (space, of_tiered) = (outcome.space.settled, tiered.space.settled);
    assert!(
        space > 1.4 * of_tiered && space < 10.0,
        "{space}, {of_tiered}"
    );
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    type Change = fn(&mut Simulation);
    let changes: [(&str, Change); 9] = [
        ("keys", |s| s.keys = 0),
        ("writes", |s| s.writes = 0),
        ("key_bytes", |s| s.key_bytes = 0),
        ("each is to be written once", |s| {
            (s.writes, s.fill_first) = (10, true);
        }),
        ("Shuffled", |s| {
            (s.distribution, s.fill_first) = (KeyDistribution::Shuffled, true);
        }),
        ("exponent", |s| {
            s.distribution = KeyDistribution::Zipfian { exponent: f64::NAN };
        }),
        ("delete_share", |s| s.delete_share = 1.0),
        ("speeds", |s| {
            s.speeds = Some(Speeds {
                write_bytes_per_second: 0.0,
                merge_bytes_per_second: 1.0,
            });
        }),
        ("dedup_threshold", |s| s.options.dedup_threshold = 1.0),
    ];
    for (what, change) in changes {
        let mut changed = simulation(CompactionPolicy::Dedup);
        change(&mut changed);
        let error = changed.run(&mut |_| ()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let stopped = Simulation {
        speeds: Some(Speeds {
            write_bytes_per_second: 1e6,
            merge_bytes_per_second: 1e9,
        }),
        options: Options {
            level0_merge: 30,
            constants: terrace::Constants {
                level0_stop: Some(20),
                ..simulation(CompactionPolicy::Tiered).options.constants
            },
            ..simulation(CompactionPolicy::Tiered).options
        },
        ..simulation(CompactionPolicy::Tiered)
    };
    let error = stopped.run(&mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("writers stop for good"), "{error}");
}

#[test]
fn progress_goes_up() {
    let mut told = Vec::new();
    let outcome = simulation(CompactionPolicy::Score).run(&mut |share| told.push(share));
    assert!(told.len() as u64 >= outcome.unwrap().flushes / 64 && told.is_sorted());
    assert!(told.iter().all(|share| (0.0..=1.0).contains(share)));
}
