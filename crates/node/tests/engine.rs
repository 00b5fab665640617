//! Named situations of the engine, each small: damage, a full device, caches, several loops, faults.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;
use support::{BUFFER_BYTES, Driver, Shape, Sizes, new_disk, open, value_of};
use terrace_node::Key;
use terrace_node::device::{
    Completion, Device, Disk, Fault, Faults, FaultyDevice, Kind, Part, Request, Wait, Waker,
};
use terrace_node::engine::{
    Answer, Command, Condition, Engine, Failure, Node, ScanReport, Worker, scan, verify,
};
use terrace_node::format::namespace::{Domain, WhenFull};
use terrace_node::format::superblock::Superblock;

fn key(number: u32) -> Key {
    Key::new(&number.to_be_bytes()).expect("legal")
}

fn superblock(disk: &Disk) -> Superblock {
    Superblock::decode(&disk.image()[..4096], 0, disk.device().bytes() / 4096).expect("it is whole")
}

fn driver(disk: &Disk) -> Driver<Worker> {
    Driver::new(open(disk).1)
}

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
        driver = self::driver(&disk);
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

/// Damages the value of key 1, which has 5,000 bytes, where it lies on the disk.
fn damage_the_value(disk: &Disk) -> Disk {
    let mut image = disk.image();
    let value = value_of(&key(1), 1, 5000);
    let at = image.windows(100).position(|bytes| *bytes == value[..100]);
    image[at.expect("it lies in one extent")] ^= 1;
    Disk::from_image(image, 21)
}

#[test]
fn damage_behind_the_last_flush_mark_is_told_of() {
    let disk = new_disk(&Shape::default(), 20);
    let mut first = driver(&disk);
    first.put(1, key(1), value_of(&key(1), 1, 5000)).unwrap();
    first.put(1, key(2), vec![2; 100]).unwrap();
    let torn = damage_the_value(&disk);
    // As after a crash: the mark covers the first store only if a later block says so.
    let report = verify(&mut torn.device(), &mut |_| ()).unwrap();
    assert_eq!((report.damaged.len(), report.skipped.len()), (1, 0));
    drop(first);

    let disk = new_disk(&Shape::default(), 20);
    let mut first = driver(&disk);
    first.put(1, key(1), value_of(&key(1), 1, 5000)).unwrap();
    drop(first);
    let torn = damage_the_value(&disk);
    let report = verify(&mut torn.device(), &mut |_| ()).unwrap();
    assert_eq!(report.skipped, [(1, key(1))]);
    assert!(report.damaged.is_empty());
    let (node, _) = open(&torn);
    assert_eq!(node.skipped(1), [key(1)]);
}

#[test]
fn what_a_recovery_shows_survives_a_power_cut() {
    let shape = Shape {
        domains: vec![Domain::CrashSafe],
        ..Shape::default()
    };
    for seed in 0..20 {
        let disk = new_disk(&shape, seed);
        let mut first = driver(&disk);
        for number in 0..4 {
            let bytes = [100, 5000][number as usize % 2];
            first.put(1, key(number), vec![1; bytes]).unwrap();
        }
        // The process dies; the device has what it was given, but may still lose it.
        drop(first);
        let shown: Vec<_> = (0..4)
            .map(|number| driver(&disk).get(1, key(number)).unwrap())
            .collect();
        let mut after = driver(&Disk::from_image(disk.power_cut(seed), seed));
        for (number, value) in (0..).zip(shown) {
            assert_eq!(after.get(1, key(number)), Ok(value), "{seed}: {number}");
        }
    }
}

#[test]
fn a_change_that_was_not_taken_is_not_taken_later() {
    let disk = new_disk(&Shape::default(), 25);
    let mut first = driver(&disk);
    first.put(1, key(1), value_of(&key(1), 0, 4000)).unwrap();
    first.put(1, key(1), value_of(&key(1), 1, 5000)).unwrap();
    drop(first);
    let torn = damage_the_value(&disk);
    for round in 2..5 {
        // Blocks with flush marks follow the record.
        let mut driver = driver(&torn);
        let value = driver.get(1, key(1));
        assert!(value == Ok(value_of(&key(1), 0, 4000)), "{value:?}");
        driver.put(1, key(round), vec![1; 100]).unwrap();
        driver.put(1, key(round), vec![2; 100]).unwrap();
    }
}

#[test]
fn an_orderly_end_leaves_nothing_in_doubt() {
    let shape = Shape {
        domains: vec![Domain::PowerSafe, Domain::CrashSafe],
        ..Shape::default()
    };
    let disk = new_disk(&shape, 22);
    let mut first = driver(&disk);
    for nsid in [1, 2] {
        first.put(nsid, key(1), value_of(&key(1), 1, 5000)).unwrap();
    }
    first.engine.close().unwrap();
    let cut = Disk::from_image(disk.power_cut(22), 22);
    let torn = damage_the_value(&cut);
    let report = verify(&mut torn.device(), &mut |_| ()).unwrap();
    assert_eq!((report.values, report.damaged.len()), (2, 1));
    assert!(report.skipped.is_empty());
    // A second end has nothing to say.
    let before = driver(&cut);
    let steps = cut.steps();
    before.engine.close().unwrap();
    assert!(cut.steps() <= steps + 4, "{} steps", cut.steps() - steps);
    let mut last = driver(&cut);
    for nsid in [1, 2] {
        assert!(last.get(nsid, key(1)).unwrap() == value_of(&key(1), 1, 5000));
    }
}

#[test]
fn a_full_device_refuses_stores_takes_deletes_and_goes_on() {
    for (sizes, bytes) in [(Sizes::Small, 400), (Sizes::Mixed, 50_000)] {
        let shape = Shape {
            blocks: 600,
            keys: 8000,
            sizes,
            ..Shape::default()
        };
        let disk = new_disk(&shape, 5);
        let mut driver = driver(&disk);
        let mut stored = 0;
        let refused = loop {
            match driver.put(1, key(stored), value_of(&key(stored), 1, bytes)) {
                Ok(_) => stored += 1,
                Err(failure) => break failure,
            }
        };
        assert_eq!(refused, Failure::CapacityExceeded);
        assert!(stored > 0);
        for number in 0..stored {
            assert_eq!(
                driver.delete(1, key(number)),
                Ok(Answer::Deleted),
                "{number} of {stored}"
            );
        }
        // Nearly all of it: the cleaner may keep a segment.
        let stored = stored * 9 / 10;
        for number in 0..stored {
            driver
                .put(1, key(number), value_of(&key(number), 2, bytes))
                .unwrap();
        }
        drop(driver);
        let mut driver = self::driver(&disk);
        for number in 0..stored {
            assert!(driver.get(1, key(number)).unwrap() == value_of(&key(number), 2, bytes));
        }
    }
}

/// A node with eight segments or so, and keys of 1,000 bytes in `share` of them, all live.
fn crowded(seed: u64, share: f64) -> (Disk, Driver<Worker>, u32) {
    let shape = Shape {
        blocks: 2 + 64 + 16 + 160,
        keys: 1000,
        ..Shape::default()
    };
    let disk = new_disk(&shape, seed);
    let (node, worker) = open(&disk);
    let data_bytes = node.statistics(1).unwrap().data_blocks as f64 * 4096.0;
    let mut driver = Driver::new(worker);
    let keys = (data_bytes * share) as u32 / 1048;
    for number in 0..keys {
        driver.put(1, key(number), vec![1; 1000]).unwrap();
    }
    (disk, driver, keys)
}

#[test]
fn stores_that_wait_for_space_do_not_keep_it_from_being_cleared() {
    for share in [0.5, 0.55, 0.6] {
        overwrite_all_at_once(share);
    }
}

fn overwrite_all_at_once(share: f64) {
    let (_disk, mut driver, keys) = crowded(23, share);
    let mut rng = StdRng::seed_from_u64(23);
    let (mut stored, mut under_way) = (0, 0);
    for _ in 0..200_000 {
        while under_way < 12 {
            let number = rand::RngExt::random_range(&mut rng, 0..keys);
            driver.store(1, key(number), vec![2; 1000], Condition::Always);
            under_way += 1;
        }
        driver.step(Wait::No);
        while let Some((_, result)) = driver.ended.pop_front() {
            assert_eq!(result, Ok(Answer::Stored), "at {share}");
            (stored, under_way) = (stored + 1, under_way - 1);
        }
        if stored >= 2000 {
            return;
        }
    }
    panic!("{stored} were stored at {share}");
}

#[test]
fn stores_whose_bytes_do_not_come_do_not_keep_the_cleaner_going() {
    let (_disk, mut driver, keys) = crowded(24, 0.65);
    let mut events = Vec::new();
    // Every segment has old values of these, which must stay.
    for number in (0..keys).step_by(12) {
        let command = Command::Store {
            key: key(number),
            value_bytes: 1000,
            condition: Condition::Always,
        };
        driver
            .engine
            .submit(1_000_000 + u64::from(number), 1, command);
    }
    driver.engine.poll(Wait::No, &mut events).unwrap();
    let refused = (0..20 * keys).any(|round| {
        let number = round % keys;
        if number.is_multiple_of(12) {
            return false;
        }
        let tag = driver.store(1, key(number), vec![3; 1000], Condition::Always);
        let refused = (0..20_000).find_map(|_| {
            driver.step(Wait::No);
            driver.ended.pop_front()
        });
        let (ended, result) = refused.expect("a store ends");
        assert_eq!(ended, tag);
        result == Err(Failure::CapacityExceeded)
    });
    assert!(refused, "there is room for ever");
    assert!(matches!(driver.delete(1, key(1)), Ok(Answer::Deleted)));
}

#[test]
fn a_pass_whose_cells_all_die_meanwhile_ends() {
    let shape = Shape {
        blocks: 2 + 64 + 16 + 160,
        keys: 1000,
        ..Shape::default()
    };
    let disk = new_disk(&shape, 26);
    let node = Node::open(&mut disk.device()).unwrap();
    let holds = Arc::new(AtomicBool::new(false));
    let device = HoldingDevice {
        below: disk.device(),
        is_held: Box::new(|part| part.bytes == 1 << 16),
        holds: Arc::clone(&holds),
        held: Vec::new(),
    };
    let mut driver = Driver::new(Worker::new(&node, Box::new(device), BUFFER_BYTES).unwrap());
    let mut keys = 0;
    // What a checkpoint closed before it was full is cleaned meanwhile.
    while node.statistics(1).unwrap().free_blocks >= 34 || !driver.engine.is_idle() {
        if driver.engine.is_idle() {
            driver.put(1, key(keys), vec![1; 1000]).unwrap();
            keys += 1;
        }
        driver.step(Wait::Yes);
    }
    // A cell or two are left in each segment. A pass copies them, and before its target is written they
    // are gone, too. Many at once: a checkpoint would wait for a segment.
    holds.store(true, Ordering::Relaxed);
    let is_left = |number: &u32| number.is_multiple_of(15);
    let (left, most): (Vec<u32>, Vec<u32>) = (0..keys).partition(is_left);
    for some in [most, left] {
        let delete = |number: u32| Command::Delete { key: key(number) };
        let tags = some
            .into_iter()
            .map(|number| driver.submit(1, delete(number), None));
        for tag in tags.collect::<Vec<_>>() {
            driver.finish(tag).unwrap();
        }
        (0..20).for_each(|_| driver.step(Wait::No));
        assert!(!driver.engine.is_idle(), "a target waits to be written");
    }
    let moves = node.statistics(1).unwrap().moves;
    holds.store(false, Ordering::Relaxed);
    // More than there is room for, unless the cleaner works on.
    let mut rng = StdRng::seed_from_u64(26);
    for _ in 0..4 * keys {
        let number = 2000 + rand::RngExt::random_range(&mut rng, 0..keys);
        driver.put(1, key(number), vec![2; 1000]).unwrap();
    }
    assert!(
        node.statistics(1).unwrap().moves > moves,
        "no later pass moved a cell"
    );
}

#[test]
fn a_cache_drops_what_was_not_used_for_long() {
    let shape = Shape {
        blocks: 600,
        keys: 8000,
        when_full: WhenFull::Evict,
        ..Shape::default()
    };
    let disk = new_disk(&shape, 6);
    let (node, worker) = open(&disk);
    let mut driver = Driver::new(worker);
    for number in 0..400 {
        driver
            .put(1, key(number), value_of(&key(number), 1, 20_000))
            .unwrap();
        // The first ones are used all the time.
        for used in 0..5 {
            let _ = driver.get(1, key(used));
        }
    }
    let counted = node.statistics(1).unwrap();
    assert!(counted.evictions > 200, "{counted:?}");
    let kept = (0..5)
        .filter(|&number| driver.exists(1, key(number)))
        .count();
    assert!(kept >= 4, "{kept} of 5 keys in use were kept");
    let last = (390..400)
        .filter(|&number| driver.exists(1, key(number)))
        .count();
    assert!(last >= 9, "{last} of the last 10 were kept");
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
        let mut driver = self::driver(&disk);
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
        let mut driver = self::driver(&Disk::from_image(image, nth));
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

/// A copy of the disk without index, rebuilt from its values.
fn rebuilt_by_scan(disk: &Disk) -> (Disk, ScanReport) {
    let namespace = superblock(disk).namespaces[0].clone();
    let mut image = disk.image();
    for extent in [
        namespace.journal,
        namespace.checkpoints[0],
        namespace.checkpoints[1],
    ] {
        image[extent.offset() as usize..][..extent.bytes() as usize].fill(0);
    }
    let broken = Disk::from_image(image, 10);
    assert!(Node::open(&mut broken.device()).is_err());
    let report = scan(&mut broken.device(), &mut |_, _| ()).unwrap();
    (broken, report)
}

#[test]
fn a_scan_finds_small_values_behind_those_that_a_recovery_left_out() {
    let disk = new_disk(&Shape::default(), 14);
    let mut first = driver(&disk);
    for version in 0..2 {
        for number in 0..6 {
            let value = value_of(&key(number), version, 100);
            first.put(1, key(number), value).unwrap();
        }
    }
    drop(first);
    // The dead cells before the live ones are not on the device.
    drop(driver(&disk));
    let (broken, report) = rebuilt_by_scan(&disk);
    assert_eq!((report.keys, report.damaged), (6, 0));
    let mut second = driver(&broken);
    for number in 0..6 {
        let value = second.get(1, key(number)).unwrap();
        assert!(value == value_of(&key(number), 1, 100), "{number}");
    }
}

#[test]
fn a_scan_rebuilds_a_lost_index() {
    let disk = new_disk(&Shape::default(), 10);
    let mut first = driver(&disk);
    for round in 0..3 {
        for number in 0..30 {
            let bytes = [0, 700, 2048, 5000, 90_000][number as usize % 5];
            first
                .put(1, key(number), value_of(&key(number), round, bytes))
                .unwrap();
        }
    }
    first.delete(1, key(0)).unwrap();
    drop(first);
    drop(driver(&disk));
    let (broken, report) = rebuilt_by_scan(&disk);
    assert!(report.keys >= 29 && report.damaged == 0, "{report:?}");
    let mut second = driver(&broken);
    for number in 1..30 {
        let bytes = [0, 700, 2048, 5000, 90_000][number as usize % 5];
        let value = second.get(1, key(number)).unwrap();
        assert!(value == value_of(&key(number), 2, bytes), "{number}");
    }
    second.put(1, key(99), vec![9; 3000]).unwrap();
    drop(second);
    assert_eq!(driver(&broken).get(1, key(99)), Ok(vec![9; 3000]));
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

/// A device that holds some writes back until it is told to go on.
struct HoldingDevice<D> {
    below: D,
    is_held: Box<dyn Fn(&Part) -> bool + Send>,
    holds: Arc<AtomicBool>,
    held: Vec<(u64, Request)>,
}

impl<D: Device> Device for HoldingDevice<D> {
    fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    fn submit(&mut self, tag: u64, request: Request) {
        let is_held = request.parts().iter().any(&self.is_held);
        if request.kind() == Kind::Write && is_held && self.holds.load(Ordering::Relaxed) {
            self.held.push((tag, request));
        } else {
            self.below.submit(tag, request);
        }
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> std::io::Result<()> {
        if !self.holds.load(Ordering::Relaxed) {
            for (tag, request) in self.held.drain(..) {
                self.below.submit(tag, request);
            }
        }
        self.below.poll(wait, completions)
    }

    fn waker(&self) -> Waker {
        self.below.waker()
    }
}

#[test]
fn the_journal_is_given_up_only_when_the_checkpoint_is_durable() {
    let shape = Shape {
        keys: 2000,
        ..Shape::default()
    };
    let disk = new_disk(&shape, 12);
    let node = Node::open(&mut disk.device()).unwrap();
    let holds = Arc::new(AtomicBool::new(true));
    let slots = superblock(&disk).namespaces[0].checkpoints;
    let headers = slots.map(|slot| slot.offset());
    let device = HoldingDevice {
        below: disk.device(),
        is_held: Box::new(move |part| headers.contains(&part.offset)),
        holds: Arc::clone(&holds),
        held: Vec::new(),
    };
    let mut driver = Driver::new(Worker::new(&node, Box::new(device), BUFFER_BYTES).unwrap());
    let mut acknowledged = 0;
    let mut tag = driver.store(1, key(0), value_of(&key(0), 1, 100), Condition::Always);
    for _ in 0..20_000 {
        driver.step(Wait::No);
        while let Some((ended, result)) = driver.ended.pop_front() {
            assert_eq!((ended, result), (tag, Ok(Answer::Stored)));
            acknowledged += 1;
            let next = key(acknowledged);
            tag = driver.store(1, next, value_of(&next, 1, 100), Condition::Always);
        }
    }
    let ring = superblock(&disk).namespaces[0].journal.blocks;
    assert!(
        u64::from(acknowledged) < ring,
        "{acknowledged} groups in {ring} blocks"
    );
    assert_eq!(node.statistics(1).unwrap().checkpoints, 0);
    let mut after = self::driver(&Disk::from_image(disk.power_cut(12), 12));
    for number in 0..acknowledged {
        assert!(
            after.get(1, key(number)).is_ok(),
            "{number} of {acknowledged}"
        );
    }
    holds.store(false, Ordering::Relaxed);
    assert_eq!(driver.finish(tag), Ok(Answer::Stored));
    assert_eq!(node.statistics(1).unwrap().checkpoints, 1);
}

#[test]
fn a_block_behind_a_lost_one_never_continues_the_journal() {
    let shape = Shape {
        domains: vec![Domain::CrashSafe],
        ..Shape::default()
    };
    let disk = new_disk(&shape, 13);
    let mut first = driver(&disk);
    first.put(1, key(1), vec![1; 100]).unwrap();
    first.put(1, key(1), vec![2; 100]).unwrap();
    drop(first);
    // A power cut took the first of two groups that no flush had made durable.
    let ring = superblock(&disk).namespaces[0].journal;
    let mut image = disk.image();
    let lost = (ring.start + 1) as usize * 4096;
    image[lost..lost + 4096].fill(0);
    let cut = Disk::from_image(image, 13);
    let mut second = driver(&cut);
    assert_eq!(second.get(1, key(1)), Err(Failure::NotFound));
    second.put(1, key(1), vec![3; 100]).unwrap();
    drop(second);
    assert_eq!(driver(&cut).get(1, key(1)), Ok(vec![3; 100]));
}
