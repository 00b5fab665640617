//! The queue in virtual time: every figure follows from the profile, to the nanosecond.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::{Dirty, Queue};
use super::speed::{Place, Speed};
use crate::DeviceProfile;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// 10 ns for a byte read and 20 for a byte written. Elsewhere a read takes 1 ms, or 0.5 ms of the channel.
const PLAIN: DeviceProfile = DeviceProfile {
    read_bytes_per_second: 100e6,
    write_bytes_per_second: 50e6,
    read_latency_us: 1_000.0,
    queued_read_latency_us: 16_000.0,
    sync_latency_us: 2_000.0,
    price_per_gb: 0.0,
    endurance_writes: 0.0,
};
/// Half a millisecond less the bytes of a read.
const MOVE: u64 = 500_000 - 40_960;

fn queue() -> Queue {
    Queue::new(Speed::new(&PLAIN), 1_000_000)
}

/// Reads at random in a closed loop, and returns the number of reads in ten seconds and the last latency.
fn read_at_random(queue: &mut Queue, depth: u64) -> (u64, u64) {
    let mut due: BinaryHeap<Reverse<u64>> = (0..depth).map(Reverse).collect();
    let (mut reads, mut latency_ns) = (0, 0);
    while let Some(Reverse(now_ns)) = due.pop()
        && now_ns < 10 * SECOND
    {
        let deadline_ns = queue.read_elsewhere(now_ns, 0, 4096, depth);
        due.push(Reverse(deadline_ns));
        latency_ns = deadline_ns - now_ns;
        reads += 1;
    }
    (reads, latency_ns)
}

#[test]
fn reads_in_order_take_the_bandwidth_alone() {
    let mut queue = queue();
    let first_ns = queue.read_elsewhere(0, 0, 1_000_000, 1);
    assert_eq!(first_ns, MS + 9_959_040);
    // The channel was idle for half a millisecond, in which it read ahead.
    let mut now_ns = queue.read_next(first_ns, 0, 1_000_000);
    assert_eq!(now_ns, first_ns + 9_500_000);
    for _ in 0..100 {
        let next_ns = queue.read_next(now_ns, 0, 1_000_000);
        assert_eq!(next_ns, now_ns + 10 * MS);
        now_ns = next_ns;
    }
}

#[test]
fn a_reader_that_works_in_between_finds_a_window_read_ahead_and_no_more() {
    let mut queue = queue();
    let mut now_ns = queue.read_elsewhere(0, 0, 4096, 1);
    for _ in 0..10 {
        // Of the time in between, a millisecond counts.
        now_ns += 50 * MS;
        assert_eq!(queue.read_next(now_ns, 0, 131_072), now_ns + 310_720);
        now_ns += 310_720;
    }
}

#[test]
fn latency_at_depths_1_and_32_is_the_sheet_s_and_throughput_stays_beyond() {
    assert_eq!(read_at_random(&mut queue(), 1), (10_000, MS));
    let (reads, latency_ns) = read_at_random(&mut queue(), 32);
    assert_eq!((reads, latency_ns), (20_000, 16 * MS));
    let (reads, latency_ns) = read_at_random(&mut queue(), 64);
    assert_eq!((reads, latency_ns), (20_032, 32 * MS));
}

#[test]
fn the_channel_holds_reads_elsewhere_to_the_throughput_of_depth_32() {
    // Callers say that they are alone, and are not.
    let mut queue = queue();
    let deadlines: Vec<u64> = (0..100)
        .map(|_| queue.read_elsewhere(0, 0, 4096, 1))
        .collect();
    assert_eq!(deadlines[0], MS);
    assert_eq!(deadlines[1], MS);
    assert_eq!(deadlines[99], 50 * MS);
}

#[test]
fn reads_and_writes_share_the_channel_by_halves() {
    let mut queue = queue();
    let mut dirty = Dirty::default();
    let (mut read_at, mut write_at) = (0, 0);
    let (mut reads, mut writes) = (0, 0);
    while read_at.min(write_at) < 10 * SECOND {
        if read_at <= write_at {
            read_at = queue.read_next(read_at, 0, 100_000);
            reads += 1;
        } else {
            write_at = queue.write_direct(write_at, 0, 100_000, Place::Next, &mut dirty);
            writes += 1;
        }
    }
    // 100 and 50 MB/s alone.
    assert!((4_999..=5_002).contains(&reads), "{reads}");
    assert!((2_499..=2_502).contains(&writes), "{writes}");
}

#[test]
fn neither_direction_passes_the_other() {
    let mut queue = queue();
    let mut dirty = Dirty::default();
    assert_eq!(queue.read_next(0, 0, 100_000), MS);
    let written_ns = queue.write_direct(0, 0, 1_000_000, Place::Next, &mut dirty);
    assert_eq!(written_ns, 21 * MS);
    // A millisecond did half of the read.
    assert_eq!(queue.read_next(MS, 0, 100_000), 4 * MS);
    let written_ns = queue.write_direct(4 * MS, 0, 50_000, Place::Next, &mut dirty);
    assert_eq!(written_ns, 23 * MS);
}

#[test]
fn a_read_elsewhere_waits_for_its_share_beside_writes() {
    let mut queue = queue();
    let mut dirty = Dirty::default();
    queue.write_direct(0, 0, 1_000_000, Place::Next, &mut dirty);
    assert_eq!(queue.read_elsewhere(0, 0, 4096, 1), MS + 500_000);
    // The write takes what the reads left: 20 ms of its own, and half a millisecond.
    let done_ns = queue.write_direct(20_500_000, 0, 1, Place::Next, &mut dirty);
    assert_eq!(done_ns, 20_500_020);
}

#[test]
fn writes_wait_once_the_cache_is_full() {
    let mut queue = queue();
    let mut dirty = Dirty::default();
    for _ in 0..10 {
        let now_ns = queue.write(7, 100_000, Place::Next, &mut dirty);
        assert_eq!(now_ns, 7);
    }
    let mut now_ns = 7;
    for _ in 0..100 {
        let next_ns = queue.write(now_ns, 100_000, Place::Next, &mut dirty);
        assert_eq!(next_ns, now_ns + 2 * MS);
        now_ns = next_ns;
    }
    // The sync finds a full cache: 1 MB at 50 MB/s.
    assert_eq!(queue.sync(now_ns, 0, &mut dirty), now_ns + 22 * MS);
}

#[test]
fn a_sync_waits_for_the_dirty_bytes_of_its_file() {
    let mut queue = queue();
    let (mut file, mut other) = (Dirty::default(), Dirty::default());
    queue.write(0, 500_000, Place::Next, &mut other);
    queue.write(0, 100_000, Place::Next, &mut file);
    assert_eq!(queue.sync(0, 0, &mut file), 4 * MS);
    // Another thread's sync of the same file waits for the one under way.
    assert_eq!(queue.sync(MS, 0, &mut file), 4 * MS);
    assert_eq!(queue.sync(5 * MS, 0, &mut file), 5 * MS);
    // A change without bytes takes a flush.
    file.change();
    assert_eq!(queue.sync(5 * MS, 0, &mut file), 7 * MS);
    assert_eq!(queue.sync(8 * MS, 0, &mut other), 20 * MS);
}

#[test]
fn bytes_sent_early_are_not_waited_for_again() {
    let mut queue = queue();
    let (mut file, mut other) = (Dirty::default(), Dirty::default());
    queue.write(0, 100_000, Place::Next, &mut file);
    queue.start_write_back(0, &mut file);
    queue.write(0, 500_000, Place::Next, &mut other);
    queue.start_write_back(0, &mut other);
    // The other file's bytes are behind this one's.
    assert_eq!(queue.sync(MS, 0, &mut file), 4 * MS);
    assert_eq!(queue.sync(11 * MS, 0, &mut other), 14 * MS);
}

#[test]
fn a_write_elsewhere_takes_a_move_and_direct_ones_wait_at_once() {
    let mut queue = queue();
    let mut dirty = Dirty::default();
    let first_ns = queue.write_direct(0, 0, 100_000, Place::Elsewhere, &mut dirty);
    assert_eq!(first_ns, 2 * MS + MOVE);
    let next_ns = queue.write_direct(first_ns, 0, 100_000, Place::Next, &mut dirty);
    assert_eq!(next_ns, first_ns + 2 * MS);
    assert_eq!(queue.sync(next_ns, 0, &mut dirty), next_ns + 2 * MS);
}

#[test]
fn a_durable_write_leaves_the_others_in_the_cache() {
    let mut queue = queue();
    let mut dirty = Dirty::default();
    queue.write(0, 500_000, Place::Next, &mut dirty);
    let durable_ns = queue.write_durable(0, 0, 100_000, Place::Next, &mut dirty);
    assert_eq!(durable_ns, 4 * MS);
    assert_eq!(queue.sync(4 * MS, 0, &mut dirty), 16 * MS);
    let durable_ns = queue.write_durable(16 * MS, 0, 100_000, Place::Next, &mut dirty);
    assert_eq!(durable_ns, 20 * MS);
    assert_eq!(queue.sync(20 * MS, 0, &mut dirty), 20 * MS);
}

#[test]
fn syncs_that_wait_for_a_flush_share_the_next_one() {
    let mut queue = queue();
    let ends = [0, MS, MS + 1, 2 * MS - 1].map(|now_ns| queue.flush(now_ns, 0));
    assert_eq!(ends, [2 * MS, 4 * MS, 4 * MS, 4 * MS]);
    // A flush began at 2 ms, so it is too late for that one.
    assert_eq!(queue.flush(3 * MS, 0), 6 * MS);
    assert_eq!(queue.flush(9 * MS, 0), 11 * MS);
}

/// Timers that are late by a fifth of a millisecond change neither bandwidth nor mean latency.
#[test]
fn late_callers_lose_nothing() {
    const LATE: u64 = 200_000;
    let mut queue = queue();
    let mut now_ns = queue.read_elsewhere(0, 0, 4096, 1) + LATE;
    let begun_ns = now_ns;
    for _ in 0..1_000 {
        now_ns = queue.read_elsewhere(now_ns, LATE, 4096, 1) + LATE;
    }
    assert_eq!(now_ns - begun_ns, SECOND);

    for bytes in [4_096, 131_072, 1_000_000] {
        let begun_ns = now_ns;
        for _ in 0..1_000 {
            now_ns = queue.read_next(now_ns, LATE, bytes).max(now_ns + LATE) + LATE;
        }
        let expected_ns = (1_000 * bytes * 10).max(1_000 * 2 * LATE);
        let time_ns = now_ns - begun_ns;
        assert!(
            time_ns.abs_diff(expected_ns) <= 2 * MS,
            "{time_ns} {expected_ns}"
        );
    }

    let mut dirty = Dirty::default();
    let begun_ns = now_ns;
    for _ in 0..1_000 {
        now_ns = queue.write_direct(now_ns, LATE, 100_000, Place::Next, &mut dirty) + LATE;
    }
    assert!((now_ns - begun_ns).abs_diff(2 * SECOND) <= 2 * MS);
}

#[test]
fn no_number_is_too_large() {
    let endless = DeviceProfile {
        read_bytes_per_second: 1e-300,
        write_bytes_per_second: 1e-300,
        read_latency_us: 1e300,
        queued_read_latency_us: 1e300,
        sync_latency_us: 1e300,
        ..PLAIN
    };
    let mut queue = Queue::new(Speed::new(&endless), u64::MAX);
    let mut dirty = Dirty::default();
    for _ in 0..100 {
        queue.read_elsewhere(5, u64::MAX, u64::MAX, u64::MAX);
        queue.read_next(5, u64::MAX, u64::MAX);
        queue.write(5, u64::MAX, Place::Elsewhere, &mut dirty);
        queue.write_direct(5, u64::MAX, u64::MAX, Place::Next, &mut dirty);
        assert!(queue.sync(5, 0, &mut dirty) > SECOND);
    }
}
