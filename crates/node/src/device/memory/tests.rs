use std::collections::BTreeSet;

use super::super::{Completion, Device, Part, Request, Wait};
use super::Disk;
use crate::block::{BLOCK_BYTES, Buffer};

fn write(block: u64, value: u8) -> Request {
    let mut buffer = Buffer::zeroed(1);
    buffer.fill(value);
    Request::Write {
        buffer,
        parts: vec![part(block)],
    }
}

fn read(block: u64) -> Request {
    Request::Read {
        buffer: Buffer::zeroed(1),
        parts: vec![part(block)],
    }
}

fn part(block: u64) -> Part {
    Part {
        at: 0,
        bytes: BLOCK_BYTES,
        offset: block * BLOCK_BYTES as u64,
    }
}

/// Does a request to its end.
fn perform(device: &mut impl Device, request: Request) -> Completion {
    device.submit(0, request);
    let mut completions = Vec::new();
    while completions.is_empty() {
        device.poll(Wait::Yes, &mut completions).unwrap();
    }
    completions.remove(0)
}

/// The values that sectors of a block have after many power cuts.
fn outcomes(disk: &Disk, block: usize) -> BTreeSet<u8> {
    let images = (0..200).map(|seed| disk.power_cut(seed));
    images
        .flat_map(|image| {
            let block = &image[block * BLOCK_BYTES..][..BLOCK_BYTES];
            let sectors = block.chunks(512);
            for sector in sectors.clone() {
                assert!(sector.iter().all(|&byte| byte == sector[0]), "torn inside");
            }
            sectors.map(|sector| sector[0]).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn a_power_cut_keeps_any_unflushed_write_and_all_flushed_ones() {
    let disk = Disk::new(4, 1);
    let mut device = disk.device();
    perform(&mut device, write(0, 1));
    perform(&mut device, Request::Flush);
    perform(&mut device, write(0, 2));
    perform(&mut device, write(0, 3));
    perform(&mut device, write(1, 4));
    assert_eq!(outcomes(&disk, 0), BTreeSet::from([1, 2, 3]));
    assert_eq!(outcomes(&disk, 1), BTreeSet::from([0, 4]));
    assert_eq!(outcomes(&disk, 2), BTreeSet::from([0]));
    perform(&mut disk.device(), Request::Flush);
    assert_eq!(outcomes(&disk, 0), BTreeSet::from([3]), "by any device");
    assert_eq!(outcomes(&disk, 1), BTreeSet::from([4]));
}

#[test]
fn a_flush_covers_what_had_completed_when_it_began() {
    for seed in 0..20 {
        let disk = Disk::new(4, seed);
        let (mut device, mut other) = (disk.device(), disk.device());
        perform(&mut device, write(0, 1));
        other.submit(0, Request::Flush);
        perform(&mut device, write(1, 2));
        let mut completions = Vec::new();
        while completions.is_empty() {
            other.poll(Wait::Yes, &mut completions).unwrap();
        }
        assert_eq!(outcomes(&disk, 0), BTreeSet::from([1]));
        assert_eq!(outcomes(&disk, 1), BTreeSet::from([0, 2]));
    }
}

#[test]
fn writes_in_flight_are_torn_and_may_be_kept() {
    let disk = Disk::new(4, 1);
    let mut device = disk.device();
    perform(&mut device, write(0, 1));
    device.submit(1, write(1, 2));
    assert_eq!(outcomes(&disk, 1), BTreeSet::from([0, 2]));
    let torn = |image: Vec<u8>| {
        let block = &image[BLOCK_BYTES..2 * BLOCK_BYTES];
        block.iter().any(|&byte| byte != block[0])
    };
    assert!((0..50).any(|seed| torn(disk.power_cut(seed))));
    let kills: Vec<_> = (0..50).map(|_| disk.kill()).collect();
    assert!(
        kills
            .iter()
            .all(|image| image[..BLOCK_BYTES] == [1; BLOCK_BYTES])
    );
    assert!(kills.into_iter().any(torn));
}

#[test]
fn a_power_cut_is_repeatable() {
    let run = || {
        let disk = Disk::new(64, 5);
        let mut device = disk.device();
        for block in 0..64 {
            device.submit(block, write(block, block as u8));
        }
        device.poll(Wait::Yes, &mut Vec::new()).unwrap();
        let image = disk.power_cut(9);
        assert_eq!(image, disk.power_cut(9));
        image
    };
    assert_eq!(run(), run());
}

#[test]
fn nothing_completes_behind_the_stop() {
    let disk = Disk::new(8, 3);
    let mut device = disk.device();
    perform(&mut device, write(0, 1));
    disk.stop_after(3);
    for block in 1..6 {
        device.submit(block, write(block, 2));
    }
    assert!(disk.is_stopped());
    let mut completions = Vec::new();
    for _ in 0..100 {
        device.poll(Wait::Yes, &mut completions).unwrap();
    }
    let mut tags: Vec<u64> = completions.iter().map(|done| done.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [1, 2]);
    assert_eq!(disk.steps(), 6);
    drop(device);
    assert_eq!(
        outcomes(&disk, 5),
        BTreeSet::from([0, 2]),
        "still in flight"
    );
    assert!(
        disk.image()[3 * BLOCK_BYTES..]
            .iter()
            .all(|&byte| byte == 0)
    );
}

#[test]
fn an_abandoned_write_is_done_or_not() {
    let done = |seed| {
        let disk = Disk::new(1, seed);
        let mut device = disk.device();
        device.submit(0, write(0, 1));
        drop(device);
        assert_eq!(disk.kill(), disk.image(), "nothing is in flight");
        disk.image()[0]
    };
    let found: BTreeSet<u8> = (0..20).map(done).collect();
    assert_eq!(found, BTreeSet::from([0, 1]));
}

#[test]
fn order_is_random_unless_asked_for() {
    let tags = |disk: Disk| {
        let mut device = disk.device();
        for tag in 0..50 {
            device.submit(tag, read(0));
        }
        let mut completions = Vec::new();
        while completions.len() < 50 {
            device.poll(Wait::Yes, &mut completions).unwrap();
        }
        completions.iter().map(|done| done.tag).collect::<Vec<_>>()
    };
    let sorted: Vec<u64> = (0..50).collect();
    assert_eq!(tags(Disk::new(1, 1).in_order()), sorted);
    let random = tags(Disk::new(1, 1));
    assert!(random != sorted && random == tags(Disk::new(1, 1)));
    assert_ne!(random, tags(Disk::new(1, 2)));
}

#[test]
fn a_read_may_see_parts_of_a_write_in_flight() {
    let disk = Disk::new(1, 1);
    let (mut device, mut writer) = (disk.device(), disk.device());
    writer.submit(0, write(0, 1));
    let seen: BTreeSet<u8> = (0..8)
        .flat_map(|_| perform(&mut device, read(0)).buffer.to_vec())
        .collect();
    assert_eq!(seen, BTreeSet::from([0, 1]));
}

#[test]
fn requests_are_counted() {
    let disk = Disk::from_image(vec![7; 2 * BLOCK_BYTES + 100], 1);
    let mut device = disk.device();
    assert_eq!(device.bytes(), 2 * BLOCK_BYTES as u64);
    assert_eq!(perform(&mut device, read(1)).buffer[0], 7);
    perform(&mut device, write(0, 1));
    perform(&mut device, Request::Flush);
    let counters = disk.counters();
    assert_eq!(
        (counters.reads, counters.writes, counters.flushes),
        (1, 1, 1)
    );
    assert_eq!((counters.read_bytes, counters.written_bytes), (4096, 4096));
    assert_eq!(disk.image()[..4096], [1; 4096]);
}
