//! Several event loops on threads of their own, on one node: each checks the keys that are its own.
//!
//! `TERRACE_NODE_SEEDS` is the number of runs of each kind.

mod support;

use std::sync::Arc;
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{BUFFER_BYTES, Driver, Shape, Sizes, new_disk, value_of};
use terrace_node::Key;
use terrace_node::device::{Disk, Wait};
use terrace_node::engine::{Answer, Command, Condition, Failure, Node, Worker, verify};
use terrace_node::format::namespace::WhenFull;

const LOOPS: u64 = 3;
const OWN_KEYS: u64 = 40;

fn key(of: u64, number: u64) -> Key {
    Key::new(&[of as u8, number as u8]).expect("legal")
}

/// Does one loop's work. Returns the versions that its keys have in the end.
fn work(node: &Arc<Node>, disk: &Disk, of: u64, seed: u64, shape: &Shape) -> Vec<Option<u64>> {
    let device = Box::new(disk.device());
    let worker = Worker::new(node, device, BUFFER_BYTES).expect("a legal budget");
    let mut driver = Driver::new(worker);
    driver.yields = true;
    let mut rng = StdRng::seed_from_u64(seed * LOOPS + of);
    let mut versions: Vec<Option<u64>> = vec![None; OWN_KEYS as usize];
    let evicts = shape.when_full == WhenFull::Evict;
    for version in 1..400 {
        let mut batch: Vec<(u64, u64, bool)> = Vec::new();
        for _ in 0..4 {
            let number = rng.random_range(0..OWN_KEYS);
            if batch.iter().any(|(other, ..)| *other == number) {
                continue;
            }
            let key = key(of, number);
            let bytes = size_of(shape.sizes, number, version);
            let is_delete = rng.random_bool(0.1);
            let tag = if is_delete {
                driver.submit(1, Command::Delete { key }, None)
            } else {
                let value = value_of(&key, version, bytes);
                driver.store(1, key, value, Condition::Always)
            };
            batch.push((number, tag, is_delete));
        }
        // A key of all loops: the last store wins.
        let value = value_of(&key(99, 0), of, 3000);
        let shared = driver.store(1, key(99, 0), value, Condition::Always);
        for (number, tag, is_delete) in batch {
            match driver.finish(tag) {
                Ok(Answer::Stored) => versions[number as usize] = Some(version),
                Ok(Answer::Deleted) => versions[number as usize] = None,
                Err(Failure::NotFound) if is_delete => {
                    assert!(evicts || versions[number as usize].is_none());
                    versions[number as usize] = None;
                }
                Err(Failure::CapacityExceeded) => {}
                other => panic!("{of}/{number}: {other:?}"),
            }
        }
        let result = driver.finish(shared);
        let may_be = [Ok(Answer::Stored), Err(Failure::CapacityExceeded)];
        assert!(may_be.contains(&result), "{result:?}");
        let number = rng.random_range(0..OWN_KEYS);
        let value = driver.get(1, key(of, number));
        match (versions[number as usize], value) {
            (Some(version), Ok(value)) => {
                let bytes = size_of(shape.sizes, number, version);
                assert!(
                    value == value_of(&key(of, number), version, bytes),
                    "{of}/{number}"
                );
            }
            (version, Err(Failure::NotFound)) => assert!(evicts || version.is_none()),
            (version, value) => panic!("{of}/{number}, {version:?}: {:?}", value.map(|v| v.len())),
        }
    }
    // Moves of the cleaner, whose keys another loop may have.
    while driver.engine.in_flight() > 0 {
        driver.step(Wait::Yes);
    }
    driver.engine.close().expect("the device works");
    versions
}

fn size_of(sizes: Sizes, number: u64, version: u64) -> usize {
    sizes.draw(&mut StdRng::seed_from_u64(number << 32 | version))
}

fn run(shape: &Shape) {
    let seeds: u64 =
        std::env::var("TERRACE_NODE_SEEDS").map_or(3, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        let disk = new_disk(shape, seed);
        let node = Node::open(&mut disk.device()).expect("it is new");
        let all = thread::scope(|scope| {
            let loops: Vec<_> = (0..LOOPS)
                .map(|of| {
                    let (node, disk) = (&node, &disk);
                    scope.spawn(move || work(node, disk, of, seed, shape))
                })
                .collect();
            let ended = loops.into_iter().map(|each| each.join().expect("no panic"));
            ended.collect::<Vec<_>>()
        });
        drop(node);
        let report = verify(&mut disk.device(), &mut |_| ()).expect("it opens");
        assert!(report.damaged.is_empty(), "{:?}", report.damaged);
        assert!(report.skipped.is_empty());
        let (_node, worker) = support::open(&disk);
        let mut driver = Driver::new(worker);
        for (of, versions) in (0..).zip(all) {
            for (number, version) in (0..).zip(versions) {
                match (version, driver.get(1, key(of, number))) {
                    (Some(version), Ok(value)) => {
                        let bytes = size_of(shape.sizes, number, version);
                        assert!(value == value_of(&key(of, number), version, bytes));
                    }
                    (version, Err(Failure::NotFound)) => {
                        assert!(version.is_none() || shape.when_full == WhenFull::Evict);
                    }
                    (version, value) => {
                        panic!("{of}/{number}, {version:?}: {:?}", value.map(|v| v.len()));
                    }
                }
            }
        }
    }
}

#[test]
fn loops_share_a_namespace_with_room() {
    run(&Shape {
        blocks: 8192,
        sizes: Sizes::Mixed,
        keys: 400,
        ..Shape::default()
    });
}

#[test]
fn loops_share_a_crowded_namespace_of_small_values() {
    run(&Shape {
        blocks: 2 + 64 + 16 + 96,
        sizes: Sizes::Small,
        keys: 400,
        ..Shape::default()
    });
}

#[test]
fn loops_share_a_crowded_namespace_of_values_that_scatter() {
    run(&Shape {
        blocks: 900,
        sizes: Sizes::Scattered,
        keys: 400,
        ..Shape::default()
    });
}

#[test]
fn loops_share_a_cache() {
    run(&Shape {
        blocks: 2 + 64 + 16 + 64,
        sizes: Sizes::Small,
        keys: 400,
        when_full: WhenFull::Evict,
        ..Shape::default()
    });
}
