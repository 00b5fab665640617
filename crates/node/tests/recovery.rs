//! The state of a node after its end: in order, by a crash, or rebuilt from its values.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{
    BUFFER_BYTES, Driver, Shape, driver, holding::HoldingDevice, key, new_disk, open, superblock,
    value_of,
};
use terrace_node::device::{Disk, Wait};
use terrace_node::engine::{Answer, Condition, Failure, Node, ScanReport, Worker, scan, verify};
use terrace_node::format::namespace::Domain;

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
        // The process dies; the device has its bytes, but may still lose them.
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

/// Returns a copy of the disk without index, rebuilt from its values.
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
    let mut after = support::driver(&Disk::from_image(disk.power_cut(12), 12));
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
