//! A namespace at its bounds: of keys, of extents of the index, and of a checkpoint's slot.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{
    BUFFER_BYTES, Driver, Shape, holding::HoldingDevice, key, new_disk, open, superblock, value_of,
};
use terrace_node::Key;
use terrace_node::device::{Disk, Wait};
use terrace_node::engine::{Answer, Command, Condition, Failure, Node, Worker};
use terrace_node::format::checkpoint::{CheckpointHeader, CheckpointReader};
use terrace_node::format::namespace::{Description, Domain};
use terrace_node::index::Index;

/// Keys of a namespace whose index takes `MAX_EXTRA_EXTENTS` extents of values that have several.
const FEW_KEYS: u16 = 512;
const MAX_EXTRA_EXTENTS: u64 = 64;
/// Bytes of a value with as many extents as blocks where only single blocks are free.
const SCATTERED_BYTES: usize = 39 * 4096;

/// Makes a node whose free blocks lie one by one.
fn scattered(domain: Domain, seed: u64) -> (Disk, Arc<Node>, Driver<Worker>) {
    let shape = Shape {
        blocks: 2 + 64 + 16 + 480,
        domains: vec![domain],
        keys: FEW_KEYS,
        ..Shape::default()
    };
    let disk = new_disk(&shape, seed);
    let (node, worker) = open(&disk);
    let mut driver = Driver::new(worker);
    let mut stored = 0;
    while driver.put(1, key(stored), vec![1; 3000]).is_ok() {
        stored += 1;
    }
    assert!(stored > 300, "{stored} blocks were filled");
    for number in (0..stored).step_by(2) {
        driver.delete(1, key(number)).unwrap();
    }
    let tag = driver.submit(1, Command::Flush, None);
    assert_eq!(driver.finish(tag), Ok(Answer::Flushed));
    (disk, node, driver)
}

#[test]
fn a_value_in_more_extents_than_the_index_takes_moves_others_or_is_refused() {
    let (disk, node, mut driver) = scattered(Domain::PowerSafe, 40);
    let numbers = 1000..1006;
    let stored: Vec<u32> = numbers
        .filter(|&number| {
            let value = value_of(&key(number), 1, SCATTERED_BYTES);
            let result = driver.put(1, key(number), value);
            let extents = node.statistics(1).unwrap().extra_extents;
            assert!(extents <= MAX_EXTRA_EXTENTS, "{extents} extents");
            match result {
                Ok(_) => true,
                Err(failure) => {
                    assert_eq!(failure, Failure::CapacityExceeded);
                    false
                }
            }
        })
        .collect();
    // The first has the blocks that are kept back and lie together, the second has single ones. A value
    // may take the extents of the one that it replaces.
    let [first, number, ..] = stored[..] else {
        panic!("two have room: {stored:?}");
    };
    let extents = node.statistics(1).unwrap().extra_extents;
    assert!(extents > MAX_EXTRA_EXTENTS / 2, "{extents} extents");
    let value = value_of(&key(number), 2, SCATTERED_BYTES);
    driver.put(1, key(number), value.clone()).unwrap();
    drop(driver);
    let mut driver = support::driver(&disk);
    assert!(driver.get(1, key(number)) == Ok(value));
    let value = value_of(&key(first), 1, SCATTERED_BYTES);
    assert!(driver.get(1, key(first)) == Ok(value));
}

#[test]
fn a_power_cut_that_leaves_more_extents_than_the_index_takes_is_recovered() {
    let (disk, _node, mut driver) = scattered(Domain::CrashSafe, 41);
    let [other, first, second] = [999, 1000, 1001].map(key);
    let value = |key: &Key| value_of(key, 1, SCATTERED_BYTES);
    // The blocks that are kept back lie together. This one has them.
    driver.put(1, other, value(&other)).unwrap();
    driver.put(1, first, value(&first)).unwrap();
    let tag = driver.submit(1, Command::Flush, None);
    assert_eq!(driver.finish(tag), Ok(Answer::Flushed));
    let lost = value_of(&first, 2, 3000);
    driver.put(1, first, lost.clone()).unwrap();
    driver.put(1, second, value(&second)).unwrap();
    // The cut loses the small value, which no flush covers, and nothing else.
    let mut image = disk.image();
    let at = image.windows(100).position(|bytes| *bytes == lost[..100]);
    let at = at.expect("it lies in one block");
    image[at..at + 3000].fill(0);
    drop(driver);
    let cut = Disk::from_image(image, 41);
    let (node, worker) = open(&cut);
    let extents = node.statistics(1).unwrap().extra_extents;
    assert!(extents > MAX_EXTRA_EXTENTS, "{extents} extents");
    let mut driver = Driver::new(worker);
    assert!(driver.get(1, first) == Ok(value(&first)), "the one before");
    assert!(driver.get(1, second) == Ok(value(&second)));
    // Too many extents are there already, and fewer are always possible.
    driver.put(1, first, vec![3; 3000]).unwrap();
    driver.delete(1, second).unwrap();
}

/// Keys of a namespace whose checkpoint is walked in more than one step.
const MANY_KEYS: u16 = 8000;
/// Partitions of the index, in the order of a walk, whose keys the first step has seen, and others
/// that it has not.
const SEEN: std::ops::Range<u64> = 0..40;
const UNSEEN: std::ops::Range<u64> = 60..64;
/// Commands in flight.
const DEPTH: usize = 600;
/// Polls that are enough for a checkpoint and those that begin it again.
const MAX_STEPS: usize = 1000;

/// Runs commands, many at a time.
fn run_all<T>(
    driver: &mut Driver<Worker>,
    all: impl IntoIterator<Item = T>,
    mut begin: impl FnMut(&mut Driver<Worker>, T) -> u64,
) {
    let mut all = all.into_iter();
    loop {
        let tags: Vec<u64> = all
            .by_ref()
            .take(DEPTH)
            .map(|each| begin(driver, each))
            .collect();
        if tags.is_empty() {
            return;
        }
        for tag in tags {
            driver.finish(tag).unwrap();
        }
    }
}

fn put_all(driver: &mut Driver<Worker>, keys: &[Key]) {
    run_all(driver, keys, |driver, &key| {
        driver.store(1, key, key.as_bytes().to_vec(), Condition::Always)
    });
}

/// Returns the keys that the newest checkpoint lists.
fn checkpoint_keys(image: &[u8], description: &Description) -> Vec<Key> {
    let (secret, bounds) = (description.secret, description.bounds());
    let block = |number: u64| &image[number as usize * 4096..][..4096];
    let headers = description.checkpoints.iter().filter_map(|slot| {
        let header = CheckpointHeader::decode(block(slot.start), secret, *slot).unwrap()?;
        Some((header, *slot))
    });
    let (header, slot) = headers.max_by_key(|(header, _)| header.generation).unwrap();
    let mut reader = CheckpointReader::new(&header, secret, slot, bounds);
    let blocks = slot.start + 1..=slot.start + header.blocks;
    let entries = blocks.flat_map(|number| reader.read(block(number)).unwrap());
    entries.map(|entry| entry.unwrap().key).collect()
}

/// Deletes `count` keys of a namespace at its most keys while its checkpoint is written, and stores
/// others, or the same again. The first step of the walk sees the old ones, a later one the new ones.
/// Then the node is opened again. Returns the keys in the checkpoint.
fn replace_beside_a_checkpoint(count: usize, is_same: bool) -> Vec<Key> {
    let shape = Shape {
        blocks: 12_000,
        keys: MANY_KEYS,
        ..Shape::default()
    };
    let disk = new_disk(&shape, 42);
    let description = superblock(&disk).namespaces[0].clone();
    let index = Index::new(description.secret);
    let in_partitions = |range: std::ops::Range<u64>| {
        let index = &index;
        move |key: &Key| range.contains(&(index.hash(key) >> 58))
    };
    let mut keys: Vec<Key> = (0..u32::from(MANY_KEYS)).map(key).collect();
    let seen = |key: &&Key| is_same || in_partitions(SEEN)(key);
    let old: Vec<Key> = keys.iter().filter(seen).take(count).copied().collect();
    let others = (100_000..).map(key).filter(in_partitions(UNSEEN));
    let new: Vec<Key> = match is_same {
        true => old.clone(),
        false => others.take(count).collect(),
    };
    let last = keys[keys.len() - 1];

    let node = Node::open(&mut disk.device()).unwrap();
    let holds = Arc::new(AtomicBool::new(false));
    let slots = description.checkpoints;
    let device = HoldingDevice {
        below: disk.device(),
        is_held: Box::new(move |part| {
            let block = part.offset / 4096;
            slots
                .iter()
                .any(|slot| (slot.start..slot.end()).contains(&block))
        }),
        holds: Arc::clone(&holds),
        held: Vec::new(),
    };
    let mut driver = Driver::new(Worker::new(&node, Box::new(device), BUFFER_BYTES).unwrap());
    put_all(&mut driver, &keys);
    // Up to the next checkpoint, whose first step is held.
    while !driver.engine.is_idle() {
        driver.step(Wait::Yes);
    }
    holds.store(true, Ordering::Relaxed);
    let checkpoints = node.statistics(1).unwrap().checkpoints;
    while driver.engine.is_idle() {
        driver.put(1, last, last.as_bytes().to_vec()).unwrap();
    }
    run_all(&mut driver, &old, |driver, &key| {
        driver.submit(1, Command::Delete { key }, None)
    });
    put_all(&mut driver, &new);
    holds.store(false, Ordering::Relaxed);
    for _ in 0..MAX_STEPS {
        driver.step(Wait::Yes);
    }
    assert!(node.statistics(1).unwrap().checkpoints > checkpoints);
    let in_checkpoint = checkpoint_keys(&disk.image(), &description);
    drop(driver);

    keys.retain(|key| !old.contains(key));
    keys.extend(new);
    let mut driver = support::driver(&disk);
    let mut listed = driver.list(1);
    listed.sort_unstable();
    keys.sort_unstable();
    assert!(listed == keys, "{} of {} keys", listed.len(), keys.len());
    let absent = driver.put(1, key(99_999), vec![0]);
    assert_eq!(absent, Err(Failure::CapacityExceeded));
    in_checkpoint
}

#[test]
fn a_checkpoint_beside_stores_at_the_most_keys_may_hold_more_of_them() {
    let keys = replace_beside_a_checkpoint(400, false);
    assert!(keys.len() > MANY_KEYS.into(), "{} keys", keys.len());
}

#[test]
fn keys_that_come_back_beside_a_checkpoint_may_be_in_it_twice() {
    let mut keys = replace_beside_a_checkpoint(1800, true);
    let listed = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert!(keys.len() < listed, "each of {listed} keys is listed once");
}

#[test]
fn a_checkpoint_that_outgrows_its_slot_beside_stores_is_begun_again() {
    replace_beside_a_checkpoint(1800, false);
}

#[test]
fn a_key_that_is_shown_counts_once_before_its_loop_knows() {
    let shape = Shape {
        keys: 2,
        ..Shape::default()
    };
    let disk = new_disk(&shape, 44);
    let (node, worker) = open(&disk);
    let mut slow = Driver::new(worker);
    let device = Box::new(disk.device());
    let mut quick = Driver::new(Worker::new(&node, device, BUFFER_BYTES).unwrap());
    let store = slow.store(1, key(1), vec![1; 10], Condition::Always);
    // Its record is in the journal's hands, and the other loop writes it.
    slow.step(Wait::No);
    for _ in 0..MAX_STEPS {
        quick.step(Wait::Yes);
    }
    assert!(quick.exists(1, key(1)));
    quick.put(1, key(2), vec![2; 10]).unwrap();
    assert_eq!(slow.finish(store), Ok(Answer::Stored));
    let absent = quick.put(1, key(3), vec![3; 10]);
    assert_eq!(absent, Err(Failure::CapacityExceeded));
}
