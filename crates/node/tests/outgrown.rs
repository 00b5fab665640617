//! An index beyond the slot of its checkpoint, as a recovery may leave it.

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use support::{
    BUFFER_BYTES, Driver, Shape, holding::HoldingDevice, key, new_disk, open, superblock,
};
use terrace_node::device::{Disk, Wait};
use terrace_node::engine::{Command, Condition, Failure, Node, Worker};
use terrace_node::format::checkpoint::slot_blocks;

/// Keys of the index, and the most of its namespace.
const KEYS: u32 = 500;
const MAX_KEYS: u32 = 86;
/// Polls that are enough for a checkpoint.
const MAX_STEPS: usize = 100;

/// Makes a namespace with more keys than a checkpoint has room for, whose journal is half full.
fn beyond_its_slot(seed: u64) -> Disk {
    let shape = Shape {
        keys: 1000,
        ..Shape::default()
    };
    let disk = new_disk(&shape, seed);
    let mut superblock = superblock(&disk);
    let slots = superblock.namespaces[0].checkpoints;
    let node = Node::open(&mut disk.device()).unwrap();
    // No checkpoint comes to its end.
    let device = HoldingDevice {
        below: disk.device(),
        is_held: Box::new(move |part| {
            let block = part.offset / 4096;
            slots
                .iter()
                .any(|slot| (slot.start..slot.end()).contains(&block))
        }),
        holds: Arc::new(AtomicBool::new(true)),
        held: Vec::new(),
    };
    let mut driver = Driver::new(Worker::new(&node, Box::new(device), BUFFER_BYTES).unwrap());
    let tags: Vec<u64> = (0..KEYS)
        .map(|number| driver.store(1, key(number), vec![1; 10], Condition::Always))
        .collect();
    for tag in tags {
        driver.finish(tag).unwrap();
    }
    // A checkpoint begins once the journal is half full.
    loop {
        for _ in 0..MAX_STEPS {
            driver.step(Wait::No);
        }
        if !driver.engine.is_idle() {
            break;
        }
        driver.put(1, key(0), vec![2; 10]).unwrap();
    }
    drop(driver);
    let mut image = disk.image();
    let namespace = &mut superblock.namespaces[0];
    namespace.max_keys = MAX_KEYS.into();
    for slot in &mut namespace.checkpoints {
        slot.blocks = slot_blocks(MAX_KEYS.into());
    }
    let last = superblock.device_blocks - 1;
    for at in [0, last] {
        image[at as usize * 4096..][..4096].copy_from_slice(&superblock.encode(at));
    }
    Disk::from_image(image, seed)
}

#[test]
fn an_index_beyond_its_slot_waits_for_deletes() {
    let disk = beyond_its_slot(50);
    let (node, worker) = open(&disk);
    let mut driver = Driver::new(worker);
    assert_eq!(node.statistics(1).unwrap().keys, u64::from(KEYS));
    for _ in 0..MAX_STEPS {
        driver.step(Wait::No);
    }
    assert_eq!(node.refusal(), None);
    driver.put(1, key(0), vec![3; 10]).unwrap();
    let absent = driver.put(1, key(1000), vec![3; 10]);
    assert_eq!(absent, Err(Failure::CapacityExceeded));
    let deletes: Vec<u64> = (MAX_KEYS..KEYS)
        .map(|number| driver.submit(1, Command::Delete { key: key(number) }, None))
        .collect();
    for tag in deletes {
        driver.finish(tag).unwrap();
    }
    for _ in 0..MAX_STEPS {
        driver.step(Wait::No);
    }
    assert_eq!(node.statistics(1).unwrap().checkpoints, 1);
    driver.delete(1, key(0)).unwrap();
    driver.put(1, key(1000), vec![3; 10]).unwrap();
}

#[test]
fn records_for_which_no_checkpoint_makes_room_are_refused_at_once() {
    let disk = beyond_its_slot(51);
    let (node, worker) = open(&disk);
    let mut driver = Driver::new(worker);
    let mut stored = 0;
    let (refused, polls) = loop {
        let tag = driver.store(1, key(0), vec![3; 10], Condition::Always);
        let mut polls = 0;
        while driver.ended.is_empty() && polls < MAX_STEPS {
            driver.step(Wait::No);
            polls += 1;
        }
        match driver.finish(tag) {
            Ok(_) => stored += 1,
            Err(failure) => break (failure, polls),
        }
    };
    // The first poll asks for the value. No request of the device wakes a loop for a third one.
    assert!(polls <= 2, "{polls} polls");
    assert!(stored > 8, "{stored} records had room");
    assert!(matches!(&refused, Failure::Poisoned(why) if why.contains("recover --scan")));
    assert!(node.refusal().is_some());
    assert!(driver.exists(1, key(1)));
}
