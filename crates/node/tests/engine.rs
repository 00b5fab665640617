//! Named situations of the engine, each small: values and keys, damage, faults, two loops.

mod support;

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::rngs::StdRng;
use support::{
    BUFFER_BYTES, Driver, Shape, Sizes, driver, key, new_disk, open, superblock, value_of,
};
use terrace_node::Key;
use terrace_node::device::{Disk, Fault, Faults, FaultyDevice, Kind, Wait};
use terrace_node::engine::{Answer, Command, Condition, Engine, Failure, Node, Worker, verify};
use terrace_node::format::namespace::Domain;

#[test]
fn values_of_all_sizes_come_back_whole_and_in_part() {
    let disk = new_disk(
        &Shape {
            blocks: 8192,
            max_value_bytes: 4 << 20,
            ..Shape::default()
        },
        1,
    );
    let mut driver = driver(&disk);
    let sizes = [
        0,
        1,
        100,
        2047,
        2048,
        2049,
        4032,
        4096,
        65_535,
        65_536,
        65_537,
        130_000,
        983_040,
        983_041,
        2_000_000,
        4 << 20,
    ];
    for reopened in [false, true] {
        for (number, bytes) in (0..).zip(sizes) {
            let (key, value) = (key(number), value_of(&key(number), 1, bytes));
            if !reopened {
                assert_eq!(driver.put(1, key, value.clone()), Ok(Answer::Stored));
            }
            assert!(driver.get(1, key).unwrap() == value, "{bytes} bytes");
            for part in [0, 1, 4096, 65_536, 70_000, 983_041] {
                let prefix = driver.get_prefix(1, key, part).unwrap();
                assert!(
                    prefix == value[..bytes.min(part as usize)],
                    "{part} of {bytes} bytes"
                );
            }
        }
        assert_eq!(driver.engine.buffer_usage().0, 0, "each buffer came back");
        drop(driver);
        driver = support::driver(&disk);
    }
}

#[test]
fn a_value_too_large_and_a_namespace_unknown_are_refused() {
    let mut driver = driver(&new_disk(&Shape::default(), 2));
    let value = vec![0; (1 << 20) + 1];
    assert_eq!(driver.put(1, key(1), value), Err(Failure::InvalidValueSize));
    assert_eq!(driver.put(9, key(1), vec![1]), Err(Failure::NoNamespace));
    assert_eq!(driver.get(1, key(1)), Err(Failure::NotFound));
}

#[test]
fn a_store_cut_short_leaves_nothing() {
    let disk = new_disk(&Shape::default(), 3);
    let (node, mut worker) = open(&disk);
    let free = node.statistics(1).unwrap().free_blocks;
    let command = Command::Store {
        key: key(1),
        value_bytes: 500_000,
        condition: Condition::Always,
    };
    worker.submit(1, 1, command);
    let mut events = Vec::new();
    worker.poll(Wait::No, &mut events).unwrap();
    let Some(terrace_node::engine::Event::Want { buffer, .. }) = events.pop() else {
        panic!("a piece is wanted");
    };
    worker.abort(1);
    worker.give_back(1, buffer);
    let mut driver = Driver::new(worker);
    assert_eq!(driver.finish(1), Err(Failure::Aborted));
    assert_eq!(driver.get(1, key(1)), Err(Failure::NotFound));
    assert_eq!(node.statistics(1).unwrap().free_blocks, free);
    assert_eq!(driver.engine.buffer_usage().0, 0);
}

#[test]
fn a_damaged_value_is_an_error_of_its_key_alone() {
    let disk = new_disk(&Shape::default(), 4);
    let mut first = driver(&disk);
    for number in 0..6 {
        let bytes = [300, 20_000, 150_000][number as usize % 3];
        first
            .put(1, key(number), value_of(&key(number), 1, bytes))
            .unwrap();
    }
    // Until the next checkpoint the journal has the small values, too, and an opening mends them.
    for round in 0..100 {
        first.put(1, key(50), vec![round; 100]).unwrap();
    }
    drop(first);
    let mut image = disk.image();
    for number in 0..3 {
        let bytes = [300, 20_000, 150_000][number as usize % 3];
        let value = value_of(&key(number), 1, bytes);
        let data = superblock(&disk).namespaces[0].data.offset() as usize;
        let at = image[data..]
            .windows(64)
            .position(|window| window == &value[..64]);
        image[data + at.expect("the value is on the device")] ^= 1;
    }
    let damaged = Disk::from_image(image, 4);
    let mut second = driver(&damaged);
    for number in 0..6 {
        let result = second.get(1, key(number));
        if number < 3 {
            assert!(
                matches!(result, Err(Failure::Unrecovered(_))),
                "{number}: {result:?}"
            );
            assert!(second.exists(1, key(number)));
        } else {
            result.unwrap();
        }
    }
    drop(second);
    let before = damaged.image();
    let report = verify(&mut damaged.device(), &mut |_| ()).unwrap();
    assert_eq!(report.values, 7);
    let found: BTreeSet<Key> = report.damaged.iter().map(|damage| damage.key).collect();
    assert_eq!(found, (0..3).map(key).collect());
    assert!(damaged.image() == before, "a verification writes nothing");
    // A new value mends the key.
    let mut third = driver(&damaged);
    third.put(1, key(0), vec![7; 10]).unwrap();
    assert_eq!(third.get(1, key(0)), Ok(vec![7; 10]));
}

#[test]
fn a_failed_flush_ends_changes_and_reads_go_on() {
    for kind in [Kind::Flush, Kind::Write] {
        let disk = new_disk(&Shape::default(), 7);
        let faults = Faults::new();
        let node = Node::open(&mut disk.device()).unwrap();
        let device = Box::new(FaultyDevice::new(disk.device(), faults.clone()));
        let mut driver = Driver::new(Worker::new(&node, device, BUFFER_BYTES).unwrap());
        driver.put(1, key(1), vec![1; 100]).unwrap();
        faults.fail_kind(kind, 5);
        // A small value's only write is the journal's.
        let failed = driver.put(1, key(2), vec![2; 100]);
        assert!(
            matches!(failed, Err(Failure::Poisoned(_))),
            "{kind:?}: {failed:?}"
        );
        faults.clear();
        assert!(matches!(
            driver.put(1, key(3), vec![3]),
            Err(Failure::Poisoned(_))
        ));
        assert!(matches!(
            driver.delete(1, key(1)),
            Err(Failure::Poisoned(_))
        ));
        assert_eq!(driver.get(1, key(1)), Ok(vec![1; 100]));
        assert_eq!(driver.get(1, key(2)), Err(Failure::NotFound));
        drop(driver);
        let mut driver = support::driver(&disk);
        assert_eq!(driver.get(1, key(1)), Ok(vec![1; 100]));
        driver.put(1, key(3), vec![3]).unwrap();
    }
}

#[test]
fn a_write_of_a_value_that_fails_fails_its_store_alone() {
    let disk = new_disk(&Shape::default(), 8);
    let data = superblock(&disk).namespaces[0].data;
    let faults = Faults::new();
    let node = Node::open(&mut disk.device()).unwrap();
    let device = Box::new(FaultyDevice::new(disk.device(), faults.clone()));
    let mut driver = Driver::new(Worker::new(&node, device, BUFFER_BYTES).unwrap());
    driver.put(1, key(1), vec![1; 9000]).unwrap();
    let free = node.statistics(1).unwrap().free_blocks;
    faults.add(Fault {
        kind: Some(Kind::Write),
        range: Some(data.offset()..data.offset() + data.bytes()),
        skip: 0,
        times: Some(1),
        errno: 5,
    });
    let failed = driver.put(1, key(1), vec![2; 9000]);
    assert!(matches!(failed, Err(Failure::WriteFailed(_))), "{failed:?}");
    assert_eq!(driver.get(1, key(1)), Ok(vec![1; 9000]));
    assert_eq!(node.statistics(1).unwrap().free_blocks, free);
    driver.put(1, key(1), vec![3; 9000]).unwrap();
    assert_eq!(driver.get(1, key(1)), Ok(vec![3; 9000]));
}

#[test]
fn every_operation_may_fail_and_nothing_acknowledged_is_lost() {
    let shape = Shape {
        domains: vec![Domain::PowerSafe],
        ..Shape::default()
    };
    for nth in 0..120 {
        let disk = new_disk(&shape, 9);
        let node = Node::open(&mut disk.device()).unwrap();
        let faults = Faults::new();
        let device = Box::new(FaultyDevice::new(disk.device(), faults.clone()));
        let mut driver = Driver::new(Worker::new(&node, device, BUFFER_BYTES).unwrap());
        faults.fail_nth(nth, 5);
        let mut acknowledged = Vec::new();
        for number in 0..60_u32 {
            let bytes = [50, 1500, 9000, 100_000][number as usize % 4];
            let key = key(number % 20);
            let value = value_of(&key, number.into(), bytes);
            match driver.put(1, key, value) {
                Ok(_) => acknowledged.push((key, number, bytes)),
                Err(Failure::Poisoned(_) | Failure::WriteFailed(_)) => {}
                Err(other) => panic!("operation {nth}: {other}"),
            }
            let _ = driver.get(1, key);
        }
        drop(driver);
        let image = disk.power_cut(nth);
        let mut driver = support::driver(&Disk::from_image(image, nth));
        for number in 0..20 {
            let last = acknowledged
                .iter()
                .rev()
                .find(|(of, ..)| *of == key(number));
            let Some((key, version, bytes)) = last else {
                continue;
            };
            let value = driver.get(1, *key).unwrap_or_else(|failure| {
                panic!("operation {nth}: {key:?}: {failure}");
            });
            // A store whose answer was an error may have become durable.
            let later = *version..60;
            let fits = later.clone().any(|version| {
                let bytes = [50, 1500, 9000, 100_000][version as usize % 4];
                value == value_of(key, version.into(), bytes)
            });
            assert!(fits, "operation {nth}: {key:?} of {version}, {bytes} bytes");
        }
    }
}

#[test]
fn two_loops_share_a_namespace() {
    let disk = new_disk(&Shape::default(), 11);
    let (node, worker) = open(&disk);
    let other = Worker::new(&node, Box::new(disk.device()), BUFFER_BYTES).unwrap();
    let mut loops = [Driver::new(worker), Driver::new(other)];
    let mut rng = StdRng::seed_from_u64(11);
    for number in 0..300_u32 {
        let bytes = Sizes::Mixed.draw(&mut rng);
        let shared = key(number % 10);
        let tags = [0, 1].map(|at| {
            let value = value_of(&shared, u64::from(number) * 2 + at as u64, bytes);
            loops[at].store(1, shared, value, Condition::Always)
        });
        let mut results = [None, None];
        while results.iter().any(Option::is_none) {
            for at in [0, 1] {
                loops[at].step(Wait::No);
                while let Some((tag, result)) = loops[at].ended.pop_front() {
                    assert_eq!(tag, tags[at]);
                    results[at] = Some(result);
                }
            }
        }
        assert!(
            results
                .iter()
                .flatten()
                .all(|result| *result == Ok(Answer::Stored))
        );
        let value = loops[0].get(1, shared).unwrap();
        let fits = [0, 1].map(|at| value == value_of(&shared, u64::from(number) * 2 + at, bytes));
        assert!(fits[0] || fits[1]);
        assert!(loops[1].get(1, shared).unwrap() == value);
    }
}
