//! Simulated loads beside the same loads of real stores.
//!
//! Stores are in memory and merge inline, so that both sides do the same whenever they are run. `TERRACE_SIMULATION_KEYS`
//! (default 5,000) says how many keys there are; each is written ten times.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use terrace::{Background, CompactionPolicy, Compression, Db, KeyspaceOptions, Options, Purpose};
use terrace_tools::simulate::{KeyDistribution, Simulation};

const VALUE_BYTES: u64 = 100;
const KEY_BYTES: u64 = 8;
const WRITES_A_KEY: u64 = 10;
/// What real and simulated figures may differ by.
const MOST_OFF: f64 = 0.1;

fn keys() -> u64 {
    let keys = std::env::var("TERRACE_SIMULATION_KEYS");
    keys.map_or(5_000, |keys| keys.parse().unwrap())
}

/// An arena is about a hundredth of the keys' first versions.
fn options(compaction_policy: CompactionPolicy) -> Options {
    let arena_bytes = ((keys() * 2) & !4095).max(16 << 10);
    Options {
        compaction_policy,
        background: Background::Inline,
        default_keyspace: KeyspaceOptions {
            compression: vec![Compression::None],
            table_bytes: arena_bytes,
            level1_bytes: 3 * arena_bytes,
            level_ratio: 7,
            ..KeyspaceOptions::default()
        },
        arena_bytes,
        compaction_threads: 2,
        level0_merge: 4,
        level0_slowdown: 1000,
        max_open_tables: Some(10_000),
        constants: terrace::Constants {
            slice_bytes: 4 * arena_bytes,
            ..terrace::Constants::default()
        },
        ..Options::in_memory()
    }
}

fn simulation(options: Options) -> Simulation {
    Simulation {
        keys: keys(),
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        writes: keys() * WRITES_A_KEY,
        options,
        ..Simulation::default()
    }
}

/// Draws keys by their ranks.
fn draw(simulation: &Simulation, random: &mut SmallRng) -> u64 {
    match simulation.distribution {
        KeyDistribution::Zipfian { exponent } => {
            let ranks = Zipf::new(simulation.keys as f64, exponent).unwrap();
            ranks.sample(random) as u64 - 1
        }
        _ => random.random_range(0..simulation.keys),
    }
}

/// The writes of a load, in order.
fn load(simulation: &Simulation) -> Vec<u64> {
    let mut random = SmallRng::seed_from_u64(11);
    let mut writes: Vec<u64> = Vec::new();
    if simulation.distribution == KeyDistribution::Shuffled {
        let most = 2 * WRITES_A_KEY - 1;
        let times = |key| std::iter::repeat_n(key, (key % most + 1) as usize);
        writes.extend((0..simulation.keys).flat_map(times));
        writes.resize(simulation.writes as usize, 0);
        shuffle(&mut writes, &mut random);
        return writes;
    }
    if simulation.fill_first {
        writes.extend(0..simulation.keys);
        shuffle(&mut writes, &mut random);
    }
    let drawn = simulation.writes - writes.len() as u64;
    writes.extend((0..drawn).map(|_| draw(simulation, &mut random)));
    writes
}

fn shuffle(writes: &mut [u64], random: &mut SmallRng) {
    for last in (1..writes.len()).rev() {
        writes.swap(last, random.random_range(0..=last));
    }
}

fn table_bytes(db: &Db) -> u64 {
    let keyspaces = db.levels().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let tables = levels.flatten().flat_map(|sub_level| &sub_level.tables);
    tables.map(|table| table.size_bytes).sum()
}

/// Bytes written for each byte that came in, and the mean space over the second half of the writes, in
/// bytes.
fn real(simulation: &Simulation) -> (f64, f64) {
    let db = Db::open("/store", simulation.options.clone()).unwrap();
    let mut random = SmallRng::seed_from_u64(12);
    let writes = load(simulation);
    let looks = writes.len() / 512;
    let (mut sum, mut seen) = (0.0, 0.0);
    let mut user_bytes = 0;
    let value = [7; VALUE_BYTES as usize];
    for (number, rank) in writes.iter().enumerate() {
        let key = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        if random.random_bool(simulation.delete_share) {
            db.delete(key).unwrap();
            user_bytes += KEY_BYTES;
        } else {
            db.put(key, value).unwrap();
            user_bytes += KEY_BYTES + VALUE_BYTES;
        }
        if number >= writes.len() / 2 && number % looks == 0 {
            sum += table_bytes(&db) as f64;
            seen += 1.0;
        }
    }
    let io = db.statistics().io;
    let written_bytes =
        io.of(Purpose::Flush).written_bytes + io.of(Purpose::Compaction).written_bytes;
    db.close().unwrap();
    (written_bytes as f64 / user_bytes as f64, sum / seen)
}

/// Compares loads; what is off by how much in the mean over them. Of a policy that waits for an estimate
/// to reach a threshold a single load may go one way or the other by a hair.
fn compare(name: &str, simulations: &[Simulation]) -> Vec<String> {
    let mut sums = [[0.0; 2]; 2];
    for simulation in simulations {
        let outcome = simulation.run(&mut |_| ()).unwrap();
        let (written, space_bytes) = real(simulation);
        let space = space_bytes / outcome.distinct_bytes;
        let pairs = [
            [written, outcome.write_amplification],
            [space, outcome.space.mean],
        ];
        for (sums, pair) in sums.iter_mut().zip(pairs) {
            *sums = [sums[0] + pair[0], sums[1] + pair[1]];
        }
    }
    let mut off = Vec::new();
    for (what, [real, simulated]) in ["written", "space"].iter().zip(sums) {
        let by = simulated / real - 1.0;
        let loads = simulations.len() as f64;
        let line = format!(
            "{name}, {what}: real {:.3}, simulated {:.3}, {:+.1} %",
            real / loads,
            simulated / loads,
            by * 100.0
        );
        println!("{line}");
        if by.abs() > MOST_OFF {
            off.push(line);
        }
    }
    off
}

/// Every policy, and the settings of those that have some.
fn policies() -> Vec<(String, Options)> {
    use CompactionPolicy::{Dedup, Lazy, Leveled, Score, Tiered};
    let mut all: Vec<(String, Options)> = [Leveled, Tiered, Lazy]
        .map(|policy| (policy.to_string(), options(policy)))
        .into();
    for dedup_threshold in [1.2, 1.8] {
        let options = Options {
            dedup_threshold,
            ..options(Dedup)
        };
        all.push((format!("dedup {dedup_threshold}"), options));
    }
    for min_score in [0.2, 0.4] {
        let options = Options {
            min_score,
            ..options(Score)
        };
        all.push((format!("score {min_score}"), options));
    }
    all
}

/// Each of some policies, all if none is named, under loads of each of some numbers of keys, in percent of the usual.
fn compare_all(names: &[&str], percents: &[u64], change: impl Fn(Simulation) -> Simulation) {
    let mut off = Vec::new();
    for (name, options) in policies() {
        if !names.is_empty() && !names.contains(&name.as_str()) {
            continue;
        }
        let of_size = |percent: &u64| {
            let keys = keys() * percent / 100;
            change(Simulation {
                keys,
                writes: keys * WRITES_A_KEY,
                ..simulation(options.clone())
            })
        };
        let simulations: Vec<Simulation> = percents.iter().map(of_size).collect();
        off.extend(compare(&name, &simulations));
    }
    assert!(off.is_empty(), "more than a tenth off:\n{}", off.join("\n"));
}

#[test]
fn uniform_updates_cost_what_they_cost_a_store() {
    compare_all(&[], &[100], |simulation| simulation);
}

#[test]
fn shuffled_updates_cost_what_they_cost_a_store() {
    compare_all(&["leveled", "dedup 1.2"], &[100], |simulation| Simulation {
        distribution: KeyDistribution::Shuffled,
        ..simulation
    });
}

/// A third level is about to begin, and has just begun: in the simulation as in a store.
#[test]
fn both_sides_of_a_crossing_cost_what_they_cost_a_store() {
    for percent in [70, 110] {
        compare_all(&["leveled"], &[percent], |simulation| simulation);
    }
}

const SOME: [&str; 4] = ["leveled", "lazy", "dedup 1.2", "score 0.4"];

#[test]
fn zipfian_updates_of_filled_keys_cost_what_they_cost_a_store() {
    compare_all(&SOME, &[90, 100, 115], |simulation| Simulation {
        distribution: KeyDistribution::Zipfian { exponent: 0.99 },
        fill_first: true,
        ..simulation
    });
}

#[test]
fn deletions_cost_what_they_cost_a_store() {
    compare_all(&SOME, &[90, 100, 115], |simulation| Simulation {
        delete_share: 0.25,
        ..simulation
    });
}
