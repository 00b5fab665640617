//! Random commands on three namespaces, many in flight, beside a model: each answer is one that the
//! order of commands on a key allows.
//!
//! `TERRACE_NODE_OPERATIONS` is the number of commands of each seed, `TERRACE_NODE_SEEDS` of seeds.

mod support;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{
    Driver, KeyState, Model, Shape, Sizes, check, check_space, new_disk, open, value_of,
};
use terrace_node::Key;
use terrace_node::device::Wait;
use terrace_node::engine::{Answer, Command, Condition, Engine, Failure, Worker};
use terrace_node::format::namespace::Domain;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Action that a command of the model is about to take, in the order of its key.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Store(Condition, u64, usize),
    Delete,
}

/// A read under way: its key, the states that it may show so far, and the bytes asked for.
type Read = ((u32, Key), Vec<KeyState>, u32);

struct Run {
    driver: Driver<Worker>,
    rng: StdRng,
    /// Changes under way, by key, in order.
    queues: BTreeMap<(u32, Key), VecDeque<(u64, Kind)>>,
    state: BTreeMap<(u32, Key), KeyState>,
    reads: HashMap<u64, Read>,
    versions: u64,
    shape: Shape,
    aborted: HashSet<u64>,
}

impl Run {
    fn submit_one(&mut self) {
        let nsid = self.rng.random_range(1..=3);
        let number = self.rng.random_range(0..self.shape.keys);
        let text = format!("{number}");
        let key = Key::new(text.as_bytes()).expect("legal");
        let at = (nsid, key);
        match self.rng.random_range(0..10) {
            0..=4 => {
                let condition = [Condition::Always, Condition::IfExists, Condition::IfAbsent]
                    [self.rng.random_range(0..3)];
                self.versions += 1;
                let (version, bytes) = (self.versions, self.shape.sizes.draw(&mut self.rng));
                let tag = self
                    .driver
                    .store(nsid, key, value_of(&key, version, bytes), condition);
                self.queues
                    .entry(at)
                    .or_default()
                    .push_back((tag, Kind::Store(condition, version, bytes)));
            }
            5 => {
                let tag = self.driver.submit(nsid, Command::Delete { key }, None);
                self.queues
                    .entry(at)
                    .or_default()
                    .push_back((tag, Kind::Delete));
            }
            _ => {
                let max_bytes = [
                    0,
                    700,
                    5000,
                    150_000,
                    1_200_000,
                    u32::MAX,
                    u32::MAX,
                    u32::MAX,
                ][self.rng.random_range(0..8)];
                let tag = self
                    .driver
                    .submit(nsid, Command::Retrieve { key, max_bytes }, None);
                let now = self.state.get(&at).copied().flatten();
                self.reads.insert(tag, (at, vec![now], max_bytes));
            }
        }
    }

    /// Takes a change back, wherever it is.
    fn abort_one(&mut self) {
        let waiting: Vec<u64> = self
            .queues
            .values()
            .flatten()
            .map(|(tag, _)| *tag)
            .collect();
        if !waiting.is_empty() && self.rng.random_bool(0.2) {
            let tag = waiting[self.rng.random_range(0..waiting.len())];
            self.driver.engine.abort(tag);
            self.aborted.insert(tag);
        }
    }

    fn ended(&mut self, tag: u64, result: Result<Answer, Failure>) {
        if let Some((at, allowed, max_bytes)) = self.reads.remove(&tag) {
            let value = self.driver.take_value(tag);
            let shown = match result {
                Ok(Answer::Retrieved(whole)) => Some((whole as usize, value)),
                Err(Failure::NotFound) => None,
                other => panic!("{other:?}"),
            };
            let fits = allowed.iter().any(|state| match (state, &shown) {
                (None, None) => true,
                (Some((version, bytes)), Some((whole, value))) => {
                    let all = value_of(&at.1, *version, *bytes);
                    *whole == all.len() && value[..] == all[..all.len().min(max_bytes as usize)]
                }
                _ => false,
            });
            assert!(fits, "{at:?} shows what is none of {allowed:?}");
            return;
        }
        let entry = self
            .queues
            .iter()
            .find(|(_, queue)| queue.iter().any(|(of, _)| *of == tag));
        let at = *entry.expect("a command that was submitted").0;
        let queue = self.queues.get_mut(&at).expect("it is there");
        if result == Err(Failure::Aborted) && self.aborted.remove(&tag) {
            // One that waits for its key ends at once, before those that came earlier.
            queue.retain(|(of, _)| *of != tag);
            return;
        }
        let (first, kind) = queue.pop_front().expect("one at least");
        assert_eq!(first, tag, "commands on {at:?} end in their order");
        let before = self.state.get(&at).copied().flatten();
        let (expected, after) = match kind {
            Kind::Store(Condition::IfExists, ..) if before.is_none() => {
                (Err(Failure::NotFound), before)
            }
            Kind::Store(Condition::IfAbsent, ..) if before.is_some() => {
                (Err(Failure::KeyExists), before)
            }
            Kind::Store(_, version, bytes) => (Ok(Answer::Stored), Some((version, bytes))),
            Kind::Delete if before.is_none() => (Err(Failure::NotFound), None),
            Kind::Delete => (Ok(Answer::Deleted), None),
        };
        if result == Err(Failure::CapacityExceeded) && matches!(kind, Kind::Store(..)) {
            return;
        }
        assert_eq!(result, expected, "{at:?} {kind:?} on {before:?}");
        self.state.insert(at, after);
        for (of, allowed, _) in self.reads.values_mut() {
            if *of == at {
                allowed.push(after);
            }
        }
    }
}

/// Runs one seed. Returns how many cells and values were moved to make room.
fn run(seed: u64, shape: &Shape) -> u64 {
    let disk = new_disk(shape, seed);
    let (node, worker) = open(&disk);
    let mut run = Run {
        driver: Driver::new(worker),
        rng: StdRng::seed_from_u64(seed),
        queues: BTreeMap::new(),
        state: BTreeMap::new(),
        reads: HashMap::new(),
        versions: 0,
        shape: shape.clone(),
        aborted: HashSet::new(),
    };
    let mut idle = 0;
    // Small values need more of them to fill the space.
    let factor = if matches!(shape.sizes, Sizes::Small) {
        4
    } else {
        1
    };
    let mut left = factor * setting("TERRACE_NODE_OPERATIONS", 2000);
    while left > 0 || run.driver.engine.in_flight() > 0 {
        while left > 0 && run.driver.engine.in_flight() < 24 {
            run.submit_one();
            left -= 1;
        }
        run.abort_one();
        run.driver.step(Wait::Yes);
        idle += 1;
        while let Some((tag, result)) = run.driver.ended.pop_front() {
            run.ended(tag, result);
            idle = 0;
        }
        assert!(
            idle < 100_000,
            "nothing ends: {:?}",
            [1, 2, 3].map(|nsid| node.statistics(nsid))
        );
        let (_, peak) = run.driver.engine.buffer_usage();
        assert!(
            peak <= support::BUFFER_BYTES,
            "buffers stay within their budget"
        );
    }
    // The duties that are under way end; then the node is opened again.
    for _ in 0..1000 {
        run.driver.step(Wait::No);
    }
    assert_eq!(
        run.driver.engine.buffer_usage().0,
        0,
        "each buffer came back"
    );
    let statistics = (1..=3).filter_map(|nsid| node.statistics(nsid));
    let moves = statistics.map(|counted| counted.moves).sum();
    let mut model = Model::default();
    model
        .acknowledged
        .extend(run.state.iter().map(|(at, state)| (*at, *state)));
    drop(run);
    for _ in 0..2 {
        let (node, worker) = open(&disk);
        let mut driver = Driver::new(worker);
        let held = check(&mut driver, &model);
        for nsid in 1..=3 {
            check_space(&node.statistics(nsid).expect("it is there"), &held, nsid);
        }
    }
    moves
}

fn three(blocks: u64, sizes: Sizes, keys: u16) -> Shape {
    Shape {
        blocks: 3 * blocks + 2,
        domains: vec![Domain::PowerSafe, Domain::CrashSafe, Domain::PowerSafe],
        max_value_bytes: 4 << 20,
        sizes,
        keys,
        ..Shape::default()
    }
}

fn seeds() -> std::ops::Range<u64> {
    0..setting("TERRACE_NODE_SEEDS", 2)
}

#[test]
fn three_namespaces_do_what_the_model_does() {
    seeds().for_each(|seed| {
        run(seed, &three(2048, Sizes::Mixed, 40));
    });
}

#[test]
fn namespaces_full_of_small_values_are_cleaned() {
    let moves = seeds().map(|seed| run(seed, &three(200, Sizes::Small, 800)));
    let moves: u64 = moves.sum();
    println!("{moves} cells moved");
    assert!(moves > 100, "{moves} cells were moved");
}

#[test]
fn namespaces_of_scattered_values_are_defragmented() {
    let moves = seeds().map(|seed| run(seed, &three(900, Sizes::Scattered, 200)));
    assert!(moves.sum::<u64>() > 0, "no value was moved");
}

#[test]
fn values_of_many_pieces_share_the_buffers() {
    seeds().for_each(|seed| {
        run(seed, &three(6144, Sizes::Huge, 6));
    });
}
