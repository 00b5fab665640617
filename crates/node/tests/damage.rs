//! Damage anywhere on the device, and errors at any step of an opening: reported, and nothing else.
//!
//! `TERRACE_NODE_FLIPS` is the number of flipped bits.

mod support;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{Driver, Shape, new_disk, open, value_of};
use terrace_node::device::{Disk, Faults, FaultyDevice, Wait};
use terrace_node::engine::{Condition, Failure, Node, scan, verify};
use terrace_node::format::namespace::Domain;
use terrace_node::{Error, Key};

const KEYS: u32 = 60;

fn key(number: u32) -> Key {
    Key::new(&number.to_be_bytes()).expect("legal")
}

fn size_of_value(number: u32) -> usize {
    [0, 90, 700, 2048, 2049, 9000, 70_000, 200_000][number as usize % 8]
}

/// Returns the value that every key has in the end.
fn last_value(number: u32) -> Vec<u8> {
    value_of(&key(number), 2, size_of_value(number))
}

/// Returns a node in which every key has its last value, after older ones and deletes.
fn filled(seed: u64, ends_in_order: bool) -> Disk {
    let shape = Shape {
        blocks: 4096,
        domains: vec![Domain::PowerSafe],
        keys: 400,
        ..Shape::default()
    };
    let disk = new_disk(&shape, seed);
    let mut driver = Driver::new(open(&disk).1);
    for number in 0..KEYS {
        let old = value_of(&key(number), 1, size_of_value(number + 3));
        driver.put(1, key(number), old).unwrap();
    }
    for number in 0..KEYS {
        if number % 5 == 0 {
            driver.delete(1, key(number)).unwrap();
        }
        driver.put(1, key(number), last_value(number)).unwrap();
    }
    if ends_in_order {
        driver.engine.close().unwrap();
    }
    disk
}

/// Opens the device and reads every key: each has its last value, or is an error of its own.
fn check_opened(disk: &Disk, what: &str) -> bool {
    let node = match Node::open(&mut disk.device()) {
        Ok(node) => node,
        Err(Error::Damaged { offset, .. }) => {
            assert!(offset < disk.image().len() as u64, "{what}");
            return false;
        }
        // A version in a superblock is believed if its checksum is right: none is here.
        Err(other) => panic!("{what}: {other}"),
    };
    assert!(node.skipped(1).is_empty(), "{what}: nothing is in doubt");
    drop(node);
    let mut driver = Driver::new(open(disk).1);
    for number in 0..KEYS {
        match driver.get(1, key(number)) {
            Ok(value) => assert!(value == last_value(number), "{what}: {number}"),
            Err(Failure::Unrecovered(_)) => {}
            Err(other) => panic!("{what}: {number}: {other}"),
        }
    }
    true
}

#[test]
fn a_flipped_bit_is_told_of_wherever_it_is() {
    let flips: u64 =
        std::env::var("TERRACE_NODE_FLIPS").map_or(100, |text| text.parse().expect("a number"));
    let disk = filled(1, true);
    let image = disk.image();
    let used: Vec<usize> = (0..image.len() / 4096)
        .filter(|block| image[block * 4096..][..4096].iter().any(|byte| *byte != 0))
        .collect();
    let mut rng = StdRng::seed_from_u64(1);
    let mut opened = 0;
    for _ in 0..flips {
        let at = used[rng.random_range(0..used.len())] * 4096 + rng.random_range(0..4096);
        let bit = rng.random_range(0..8);
        let mut flipped = image.clone();
        flipped[at] ^= 1 << bit;
        let flipped = Disk::from_image(flipped, 1);
        let what = format!("bit {bit} of byte {at}");
        // On a copy: an opening writes.
        opened += u64::from(check_opened(&Disk::from_image(flipped.image(), 1), &what));
        let _ = verify(&mut flipped.device(), &mut |_| ());
        if scan(&mut flipped.device(), &mut |_, _| ()).is_ok() {
            drop(open(&flipped));
        }
    }
    assert!(opened > flips / 2, "{opened} of {flips} opened");
}

/// Each block of the journal since the checkpoint, but for the last: the ones behind it tell.
#[test]
fn a_damaged_block_within_the_journal_is_no_end_of_it() {
    let disk = filled(2, true);
    let superblock = terrace_node::engine::read_superblock(&mut disk.device()).unwrap();
    let ring = superblock.namespaces[0].journal;
    let image = disk.image();
    let mut refused = 0;
    for block in ring.start..ring.end() {
        let mut damaged = image.clone();
        damaged[block as usize * 4096 + 100] ^= 1;
        let damaged = Disk::from_image(damaged, 2);
        if !check_opened(&damaged, &format!("block {block}")) {
            refused += 1;
            let error = Node::open(&mut damaged.device()).err().unwrap().to_string();
            assert!(error.contains("of the journal is damaged"), "{error}");
        }
    }
    assert!(refused >= 5, "{refused} blocks were missed");
}

/// Both headers in turn: the older checkpoint serves if the journal still goes back to it.
#[test]
fn a_damaged_checkpoint_is_made_up_for_or_told_of() {
    let disk = filled(3, true);
    let superblock = terrace_node::engine::read_superblock(&mut disk.device()).unwrap();
    for slot in superblock.namespaces[0].checkpoints {
        for byte in [20, 4096 + 20] {
            let mut damaged = disk.image();
            damaged[slot.offset() as usize + byte] ^= 1;
            check_opened(&Disk::from_image(damaged, 3), "a checkpoint");
        }
    }
}

#[test]
fn a_scan_may_be_opened_again_and_written_to() {
    let disk = filled(4, true);
    scan(&mut disk.device(), &mut |_, _| ()).unwrap();
    for round in 0..3 {
        let mut driver = Driver::new(open(&disk).1);
        for number in 0..KEYS {
            assert!(
                driver.get(1, key(number)) == Ok(last_value(number)),
                "{round}: {number}"
            );
        }
        driver.put(1, key(1000 + round), vec![1; 5000]).unwrap();
    }
}

/// Leaves stores in flight, so that the recovery has values to verify and records to correct.
fn cut_in_flight(seed: u64) -> Disk {
    let disk = filled(seed, false);
    let mut driver = Driver::new(open(&disk).1);
    for number in 0..8 {
        driver.store(1, key(500 + number), vec![1; 9000], Condition::Always);
    }
    let end = disk.steps() + 12;
    while disk.steps() < end {
        driver.step(Wait::No);
    }
    Disk::from_image(disk.power_cut(seed), seed)
}

#[test]
fn an_error_or_a_power_cut_at_any_step_of_an_opening_loses_nothing() {
    let (mut failed, mut corrected) = (0, 0);
    for seed in 0..6 {
        let cut = cut_in_flight(seed).image();
        for nth in 0.. {
            let disk = Disk::from_image(cut.clone(), nth);
            let faults = Faults::new();
            faults.fail_nth(nth, 5);
            let mut device = FaultyDevice::new(disk.device(), faults.clone());
            let opened = Node::open(&mut device);
            let is_over = faults.operations() <= nth;
            match &opened {
                Ok(node) => corrected += node.skipped(1).len(),
                Err(Error::Io { source, .. }) => {
                    assert_eq!(source.raw_os_error(), Some(5));
                    failed += 1;
                }
                Err(other) => panic!("step {nth}: {other}"),
            }
            // As if the power went at this moment; and without that.
            for image in [disk.power_cut(nth), disk.image()] {
                let mut driver = Driver::new(open(&Disk::from_image(image, nth)).1);
                for number in 0..KEYS {
                    let value = driver.get(1, key(number));
                    assert!(value == Ok(last_value(number)), "step {nth}: {number}");
                }
            }
            if is_over {
                break;
            }
        }
    }
    assert!(failed > 20, "{failed} openings failed");
    assert!(corrected > 0, "no record was in doubt");
}
