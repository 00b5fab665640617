//! Block namespaces: reads and writes of blocks beside keys, power cuts, faults.
//!
//! `TERRACE_NODE_IMAGES` is the number of images.

mod support;

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{BUFFER_BYTES, Driver, open};
use terrace_node::Key;
use terrace_node::block::BLOCK_BYTES;
use terrace_node::device::{Disk, Faults, FaultyDevice, Kind, Wait};
use terrace_node::engine::{Answer, Command, Engine, Failure, Node, Worker, create, verify};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::namespace::{Domain, Kind as Holds};
use terrace_node::format::superblock::Superblock;

/// Namespaces of blocks: power-safe, crash-safe. The third has keys.
const SAFE: u32 = 1;
const CRASH: u32 = 2;
const KEYS: u32 = 3;
const BLOCKS: u64 = 700;
/// A write is torn at these.
const SECTOR_BYTES: usize = 512;

fn disk(seed: u64) -> Disk {
    let blocks = |name: &str, domain| NamespaceRequest {
        kind: Holds::Blocks,
        domain,
        bytes: Some(BLOCKS * BLOCK_BYTES as u64),
        ..NamespaceRequest::new(name)
    };
    let requests = [
        blocks("safe", Domain::PowerSafe),
        blocks("crash", Domain::CrashSafe),
        NamespaceRequest::new("keys"),
    ];
    let device_blocks = 2 * BLOCKS + 1024;
    let mut rng = StdRng::seed_from_u64(seed);
    let superblock = Superblock::new(device_blocks, &requests, &mut rng).expect("it is legal");
    let disk = Disk::new(device_blocks, seed);
    create(&mut disk.device(), &superblock).expect("an empty device can be written");
    disk
}

fn driver(disk: &Disk) -> Driver<Worker> {
    Driver::new(open(disk).1)
}

/// Returns the bytes of blocks from `first` on, in a version: each sector says where and when.
fn contents(first: u64, blocks: u32, version: u64) -> Vec<u8> {
    let sectors = BLOCK_BYTES / SECTOR_BYTES;
    let mut bytes = Vec::new();
    for sector in 0..u64::from(blocks) * sectors as u64 {
        let mut one = [version as u8; SECTOR_BYTES];
        one[..8].copy_from_slice(&version.to_le_bytes());
        one[8..16].copy_from_slice(&(first * sectors as u64 + sector).to_le_bytes());
        bytes.extend_from_slice(&one);
    }
    bytes
}

fn write(driver: &mut Driver<Worker>, nsid: u32, first: u64, blocks: u32, version: u64) -> u64 {
    let command = Command::Write {
        first,
        blocks,
        is_durable: false,
    };
    driver.submit(nsid, command, Some(contents(first, blocks, version)))
}

fn read(driver: &mut Driver<Worker>, nsid: u32, first: u64, blocks: u32) -> Vec<u8> {
    let tag = driver.submit(nsid, Command::Read { first, blocks }, None);
    assert_eq!(driver.finish(tag), Ok(Answer::Read));
    driver.take_value(tag)
}

#[test]
fn blocks_come_back_as_they_were_written_and_keys_are_beside_them() {
    let disk = disk(1);
    let mut first = driver(&disk);
    let key = Key::new(b"a key").expect("legal");
    first.put(KEYS, key, vec![7; 100_000]).unwrap();
    for (number, blocks) in [(0, 1), (1, 17), (18, 500), (518, 182)] {
        for nsid in [SAFE, CRASH] {
            let tag = write(&mut first, nsid, number, blocks, u64::from(nsid));
            assert_eq!(first.finish(tag), Ok(Answer::Written));
        }
    }
    drop(first);
    let mut second = driver(&disk);
    for nsid in [SAFE, CRASH] {
        let all = read(&mut second, nsid, 0, BLOCKS as u32);
        assert!(all == contents(0, BLOCKS as u32, u64::from(nsid)));
        let one = read(&mut second, nsid, 300, 1);
        assert!(one == contents(300, 1, u64::from(nsid)));
    }
    assert_eq!(second.get(KEYS, key), Ok(vec![7; 100_000]));
    assert_eq!(second.engine.buffer_usage().0, 0);
    drop(second);
    let report = verify(&mut disk.device(), &mut |_| ()).unwrap();
    assert!(report.values == 1 && report.damaged.is_empty());
}

#[test]
fn what_is_no_block_and_no_command_of_blocks_is_refused() {
    let disk = disk(2);
    let mut driver = driver(&disk);
    let key = Key::new(b"a").expect("legal");
    let read = |first, blocks| Command::Read { first, blocks };
    let refused = [
        (SAFE, read(0, 0), Failure::OutOfRange),
        (SAFE, read(BLOCKS, 1), Failure::OutOfRange),
        (SAFE, read(BLOCKS - 1, 2), Failure::OutOfRange),
        (SAFE, read(u64::MAX, 2), Failure::OutOfRange),
        (SAFE, read(0, u32::MAX), Failure::OutOfRange),
        (SAFE, Command::Exist { key }, Failure::NoNamespace),
        (KEYS, read(0, 1), Failure::NoNamespace),
        (9, read(0, 1), Failure::NoNamespace),
    ];
    for (nsid, command, failure) in refused {
        let tag = driver.submit(nsid, command.clone(), None);
        assert_eq!(driver.finish(tag), Err(failure), "{command:?}");
    }
}

#[test]
fn commands_that_are_taken_back_end_and_leave_no_buffer() {
    let disk = disk(3);
    let mut driver = driver(&disk);
    for round in 0..20 {
        let one = write(&mut driver, SAFE, 0, 600, round);
        let two = driver.submit(
            SAFE,
            Command::Read {
                first: 0,
                blocks: 700,
            },
            None,
        );
        for _ in 0..round {
            driver.step(Wait::No);
        }
        for tag in [one, two] {
            driver.engine.abort(tag);
            let result = driver.finish(tag);
            let ended = matches!(
                result,
                Ok(Answer::Read | Answer::Written) | Err(Failure::Aborted)
            );
            assert!(ended, "{result:?}");
            driver.take_value(tag);
        }
        assert!(driver.engine.is_idle() && driver.engine.buffer_usage().0 == 0);
    }
}

#[test]
fn a_failed_flush_ends_writes_and_reads_go_on() {
    let disk = disk(4);
    let node = Node::open(&mut disk.device()).unwrap();
    let faults = Faults::new();
    let device = FaultyDevice::new(disk.device(), faults.clone());
    let mut driver = Driver::new(Worker::new(&node, Box::new(device), BUFFER_BYTES).unwrap());
    let tag = write(&mut driver, SAFE, 5, 3, 1);
    assert_eq!(driver.finish(tag), Ok(Answer::Written));
    faults.fail_kind(Kind::Write, 5);
    let tag = write(&mut driver, SAFE, 8, 3, 1);
    assert!(matches!(driver.finish(tag), Err(Failure::WriteFailed(_))));
    faults.clear();
    faults.fail_kind(Kind::Flush, 5);
    let tag = write(&mut driver, SAFE, 8, 3, 2);
    assert!(matches!(driver.finish(tag), Err(Failure::Poisoned(_))));
    faults.clear();
    for command in [
        Command::Write {
            first: 0,
            blocks: 1,
            is_durable: false,
        },
        Command::Flush,
    ] {
        let tag = driver.submit(SAFE, command, Some(vec![0; BLOCK_BYTES]));
        assert!(matches!(driver.finish(tag), Err(Failure::Poisoned(_))));
    }
    assert!(read(&mut driver, SAFE, 5, 3) == contents(5, 3, 1));
    // All namespaces share the device, which tells of a failed flush once.
    let tag = write(&mut driver, CRASH, 5, 3, 1);
    assert!(matches!(driver.finish(tag), Err(Failure::Poisoned(_))));
    let refused = driver.put(KEYS, Key::new(b"a").unwrap(), vec![1]);
    assert!(matches!(refused, Err(Failure::Poisoned(_))));
    drop(driver);
    let mut again = self::driver(&disk);
    let tag = write(&mut again, SAFE, 0, 1, 9);
    assert_eq!(again.finish(tag), Ok(Answer::Written));
}

#[test]
fn a_durable_write_outlives_a_power_cut_in_any_domain() {
    for seed in 0..20 {
        let disk = disk(seed);
        let mut driver = driver(&disk);
        for nsid in [SAFE, CRASH] {
            let command = Command::Write {
                first: 3,
                blocks: 40,
                is_durable: true,
            };
            let tag = driver.submit(nsid, command, Some(contents(3, 40, seed + 1)));
            assert_eq!(driver.finish(tag), Ok(Answer::Written));
        }
        let after = Disk::from_image(disk.power_cut(seed), seed);
        let mut driver = self::driver(&after);
        for nsid in [SAFE, CRASH] {
            assert!(read(&mut driver, nsid, 3, 40) == contents(3, 40, seed + 1));
        }
    }
}

/// The versions that a block may have after a crash, the last acknowledged one first.
type Versions = HashMap<(u32, u64), Vec<u64>>;

/// A write under way: its namespace, first block, number of blocks and version.
type Write = (u32, u64, u32, u64);

struct Work {
    driver: Driver<Worker>,
    rng: StdRng,
    versions: Versions,
    under_way: HashMap<u64, Write>,
    next: u64,
}

impl Work {
    fn submit_one(&mut self) {
        let nsid = self.rng.random_range(SAFE..=CRASH);
        let blocks = match self.rng.random_range(0..8) {
            0 => self.rng.random_range(1..=400),
            _ => self.rng.random_range(1..=8),
        };
        let first = self.rng.random_range(0..=BLOCKS - u64::from(blocks));
        let overlaps = |write: &Write| {
            write.0 == nsid
                && write.1 < first + u64::from(blocks)
                && first < write.1 + u64::from(write.2)
        };
        if self.under_way.values().any(overlaps) {
            return;
        }
        self.next += 1;
        let tag = write(&mut self.driver, nsid, first, blocks, self.next);
        self.under_way.insert(tag, (nsid, first, blocks, self.next));
    }

    fn collect(&mut self) {
        while let Some((tag, result)) = self.driver.ended.pop_front() {
            assert_eq!(result, Ok(Answer::Written));
            let (nsid, first, blocks, version) = self.under_way.remove(&tag).expect("under way");
            for block in first..first + u64::from(blocks) {
                let versions = self.versions.entry((nsid, block)).or_insert(vec![0]);
                if nsid == SAFE {
                    versions.clear();
                }
                versions.insert(0, version);
            }
        }
    }

    /// Makes all that was acknowledged durable, with nothing under way.
    fn flush(&mut self) {
        while !self.under_way.is_empty() {
            self.driver.step(Wait::Yes);
            self.collect();
        }
        let tag = self.driver.submit(CRASH, Command::Flush, None);
        assert_eq!(self.driver.finish(tag), Ok(Answer::Flushed));
        for versions in self.versions.values_mut() {
            versions.truncate(1);
        }
    }

    /// Returns the versions that each block may have after a crash now.
    fn allowed(&self) -> Versions {
        let mut allowed = self.versions.clone();
        for (nsid, first, blocks, version) in self.under_way.values() {
            for block in *first..first + u64::from(*blocks) {
                let versions = allowed.entry((*nsid, block)).or_insert(vec![0]);
                versions.push(*version);
            }
        }
        allowed
    }
}

/// Checks that every sector is of a version that it may have.
fn check(disk: &Disk, allowed: &Versions) {
    let mut driver = driver(disk);
    for nsid in [SAFE, CRASH] {
        let all = read(&mut driver, nsid, 0, BLOCKS as u32);
        for (block, bytes) in (0..).zip(all.chunks_exact(BLOCK_BYTES)) {
            let only = vec![0];
            let versions = allowed.get(&(nsid, block)).unwrap_or(&only);
            for (at, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
                let is_of = |version: &u64| match version {
                    0 => sector.iter().all(|byte| *byte == 0),
                    _ => {
                        sector == &contents(block, 1, *version)[at * SECTOR_BYTES..][..SECTOR_BYTES]
                    }
                };
                assert!(
                    versions.iter().any(is_of),
                    "{nsid}: block {block}, sector {at} is none of {versions:?}"
                );
            }
        }
    }
}

#[test]
fn a_write_that_was_acknowledged_survives_in_its_domain() {
    let images: u64 =
        std::env::var("TERRACE_NODE_IMAGES").map_or(60, |text| text.parse().expect("a number"));
    for seed in 0..images.div_ceil(6) {
        let disk = disk(seed);
        let mut work = Work {
            driver: driver(&disk),
            rng: StdRng::seed_from_u64(seed),
            versions: Versions::new(),
            under_way: HashMap::new(),
            next: 0,
        };
        for round in 0..6 {
            let end = disk.steps() + work.rng.random_range(1..60);
            while disk.steps() < end {
                if work.driver.engine.in_flight() < 6 {
                    work.submit_one();
                }
                work.driver.step(Wait::No);
                work.collect();
            }
            if round == 3 {
                work.flush();
            }
            let mut allowed = work.allowed();
            let image = if work.rng.random_bool(0.8) {
                disk.power_cut(seed * 10 + round)
            } else {
                // The process dies, the device does not: nothing acknowledged is lost.
                let now = work.versions.iter();
                let newest = now.map(|(at, versions)| (*at, versions[0]));
                for (at, version) in newest {
                    let of_block = allowed.entry(at).or_default();
                    let first_under_way = work.versions[&at].len();
                    let under_way = of_block.split_off(first_under_way);
                    *of_block = [vec![version], under_way].concat();
                }
                disk.kill()
            };
            check(&Disk::from_image(image, seed), &allowed);
        }
    }
}
