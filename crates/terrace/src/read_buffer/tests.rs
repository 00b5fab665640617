//! The rules of the buffer, one by one, on every structure.

mod given_back;
mod shares;
mod yielded;

use terrace_lsm::key::Kind;
use terrace_lsm::table::key_hash;

use super::*;
use crate::WriteBatch;
use crate::memory;

const SEED: u64 = 5;
const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;

fn buffer(options: Settings, capacity_bytes: u64) -> ReadBuffer {
    ReadBuffer::new(options, capacity_bytes, SEED)
}

/// Makes one buffer of each structure.
fn each_with(policy: ForwardPolicy, capacity_bytes: u64) -> impl Iterator<Item = ReadBuffer> {
    let structures = [ReadBufferStructure::Hash, ReadBufferStructure::Ordered];
    structures.into_iter().map(move |structure| {
        let options = Settings {
            policy,
            structure,
            while_blocks_fit: true,
        };
        buffer(options, capacity_bytes)
    })
}

fn each() -> impl Iterator<Item = ReadBuffer> {
    each_with(ForwardPolicy::Resident, 64 << 10)
}

fn of(key: &[u8]) -> Key<'_> {
    Key::new(KEYSPACE, key, key_hash(key, SEED))
}

/// Offers a version.
fn fill(buffer: &ReadBuffer, key: &[u8], sequence: u64, value: &[u8], read_at: u64) {
    let value = Some(value);
    buffer.fill(&of(key), Version { sequence, value }, read_at);
}

fn get(buffer: &ReadBuffer, key: &[u8], snapshot: u64) -> Option<Found> {
    buffer.get(&of(key), snapshot)
}

fn value(bytes: &[u8]) -> Option<Found> {
    Some(Found::Value(bytes.into()))
}

fn put(key: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    batch
}

/// Has a buffer settle its claim on a budget of which other consumers have a part.
fn claimed_beside(buffer: &ReadBuffer, others_bytes: u64) -> u64 {
    let budget_bytes = buffer.capacity_bytes - others_bytes;
    buffer.settle_claim(|request| {
        let share = memory::divide(budget_bytes, &[request]).next().unwrap();
        (share, share.bytes)
    })
}

fn claimed(buffer: &ReadBuffer) -> u64 {
    claimed_beside(buffer, 0)
}

/// Forwards a batch as the leader does; its first number is `sequence`.
fn write(buffer: &ReadBuffer, batch: &WriteBatch, sequence: u64) {
    buffer.forward(batch, sequence);
}

#[test]
fn what_is_read_is_kept_and_only_for_who_may_see_it() {
    for buffer in each() {
        let version = Version {
            sequence: 5,
            value: Some(b"five"),
        };
        assert!(buffer.fill(&of(b"k"), version, 9));
        assert!(claimed(&buffer) > 0);
        assert!(!buffer.fill(&of(b"k"), version, 9), "nothing more to claim");
        assert_eq!(get(&buffer, b"k", 9), value(b"five"));
        assert_eq!(get(&buffer, b"k", 5), value(b"five"));
        // This reader may have to see an older version.
        assert_eq!(get(&buffer, b"k", 4), None);
        assert_eq!(get(&buffer, b"other", 9), None);
        let elsewhere = Key::new(KeyspaceId::from_number(2), b"k", key_hash(b"k", SEED));
        assert_eq!(buffer.get(&elsewhere, 9), None);
        let statistics = buffer.statistics();
        assert_eq!((statistics.hits, statistics.misses), (2, 3));
        assert_eq!(statistics.hit_ratio(), Some(2.0 / 5.0));
    }
}

#[test]
fn a_hit_newer_than_the_snapshot_is_a_miss() {
    for buffer in each() {
        fill(&buffer, b"k", 1, b"old", 4);
        write(&buffer, &put(b"k", b"new"), 5);
        assert_eq!(get(&buffer, b"k", 4), None);
        assert_eq!(get(&buffer, b"k", 5), value(b"new"));
    }
}

/// The first hole of the published design: two writers of one key forward in the other order.
/// Here the leader forwards both; even so, an older number changes nothing.
#[test]
fn an_older_forward_never_replaces_a_newer_one() {
    let policies = [ForwardPolicy::Resident, ForwardPolicy::All];
    for buffer in policies
        .map(|policy| each_with(policy, 64 << 10))
        .into_iter()
        .flatten()
    {
        fill(&buffer, b"k", 1, b"first", 1);
        write(&buffer, &put(b"k", b"newer"), 7);
        write(&buffer, &put(b"k", b"older"), 6);
        assert_eq!(get(&buffer, b"k", 7), value(b"newer"));
    }
}

/// The second hole: a reader that back-fills overwrites a newer forward. Cases: the key is absent,
/// it was evicted after the forward, or the buffer slept when the forward came.
#[test]
fn a_back_fill_from_before_a_forward_is_dropped() {
    for buffer in each() {
        fill(&buffer, b"wakes", 1, b"", 4);
        write(&buffer, &put(b"k", b"new"), 5);
        fill(&buffer, b"k", 1, b"old", 4);
        assert_eq!(get(&buffer, b"k", 5), None);
        assert!(buffer.statistics().fills_dropped > 0);
        // This read saw the write.
        fill(&buffer, b"k", 5, b"new", 5);
        assert_eq!(get(&buffer, b"k", 5), value(b"new"));
    }
    for buffer in each_with(ForwardPolicy::All, 16 << 10) {
        write(&buffer, &put(b"k", b"new"), 5);
        for number in 0..1000u64 {
            let other = number.to_be_bytes();
            write(&buffer, &put(&other, &[7; 100]), 6 + number);
        }
        assert_eq!(get(&buffer, b"k", 2000), None, "it was to be evicted");
        fill(&buffer, b"k", 1, b"old", 4);
        assert_eq!(get(&buffer, b"k", 2000), None);
    }
    for buffer in each() {
        write(&buffer, &put(b"k", b"new"), 5);
        fill(&buffer, b"k", 1, b"old", 4);
        assert_eq!(get(&buffer, b"k", 5), None);
    }
}

#[test]
fn a_resident_key_follows_its_writes_whatever_their_size() {
    for buffer in each() {
        fill(&buffer, b"k", 1, b"0123456789", 1);
        let values: [&[u8]; 5] = [b"", b"0123", &[1; 11], &[2; 300], b"short"];
        for (sequence, wanted) in (2..).zip(values) {
            write(&buffer, &put(b"k", wanted), sequence);
            assert_eq!(get(&buffer, b"k", sequence), value(wanted));
        }
        let mut batch = WriteBatch::new();
        batch.put(b"k", b"in a batch").unwrap();
        batch.delete(b"k").unwrap();
        write(&buffer, &batch, 10);
        assert_eq!(get(&buffer, b"k", 10), None);
        assert_eq!(get(&buffer, b"k", 11), Some(Found::Absent));
        // The value is too large to be kept: the old entry has to go.
        write(&buffer, &put(b"k", &[3; 60 << 10]), 12);
        assert_eq!(get(&buffer, b"k", 12), None);
        let statistics = buffer.statistics();
        assert_eq!((statistics.absent_hits, statistics.evictions), (1, 0));
    }
}

#[test]
fn policies_differ_in_what_they_store() {
    let stored = |policy| {
        each_with(policy, 64 << 10).map(|buffer| {
            fill(&buffer, b"resident", 1, b"old", 1);
            write(&buffer, &put(b"resident", b"new"), 2);
            write(&buffer, &put(b"other", b"new"), 3);
            assert_eq!(get(&buffer, b"resident", 3), value(b"new"));
            let other = get(&buffer, b"other", 3).is_some();
            let statistics = buffer.statistics();
            (
                statistics.forwards_stored,
                statistics.forwards_skipped,
                other,
            )
        })
    };
    assert!(stored(ForwardPolicy::Resident).all(|found| found == (1, 1, false)));
    assert!(stored(ForwardPolicy::All).all(|found| found == (2, 0, true)));
}

#[test]
fn what_a_floor_covers_counts_no_more() {
    for buffer in each() {
        fill(&buffer, b"k", 1, b"old", 4);
        buffer.raise_floor(KEYSPACE, 5);
        assert_eq!(get(&buffer, b"k", 9), None);
        // The read began before the floor was raised.
        fill(&buffer, b"other", 1, b"old", 4);
        assert_eq!(get(&buffer, b"other", 9), None);
        // The read saw the change that raised the floor, and the change had not touched the key.
        fill(&buffer, b"third", 1, b"kept", 6);
        assert_eq!(get(&buffer, b"third", 9), value(b"kept"));
        // The buffer no longer knows whether an older snapshot saw another version.
        assert_eq!(get(&buffer, b"third", 4), None);
        write(&buffer, &put(b"k", b"new"), 10);
        assert_eq!(get(&buffer, b"k", 10), value(b"new"));
    }
}

#[test]
fn a_key_from_before_a_floor_comes_back_when_it_is_read_again() {
    for buffer in each() {
        fill(&buffer, b"k", 1, b"kept", 4);
        buffer.raise_floor(KEYSPACE, 5);
        assert_eq!(get(&buffer, b"k", 9), None);
        fill(&buffer, b"k", 1, b"kept", 6);
        assert_eq!(get(&buffer, b"k", 9), value(b"kept"));
        assert_eq!(get(&buffer, b"k", 4), None);
    }
}

#[test]
fn a_range_delete_raises_the_floor_when_it_is_forwarded() {
    for buffer in each() {
        fill(&buffer, b"k", 1, b"old", 4);
        let mut batch = WriteBatch::new();
        batch.push(Kind::RangeDelete, KEYSPACE, b"a", b"z").unwrap();
        write(&buffer, &batch, 5);
        assert_eq!(get(&buffer, b"k", 5), None);
    }
}

#[test]
fn a_kind_that_reads_must_interpret_removes_the_entry() {
    for buffer in each() {
        fill(&buffer, b"k", 1, b"old", 4);
        let mut batch = WriteBatch::new();
        batch.push(Kind::Merge, KEYSPACE, b"k", b"+1").unwrap();
        write(&buffer, &batch, 5);
        assert_eq!(get(&buffer, b"k", 5), None);
    }
}

/// Sends many keys through little memory: answers are right, the bytes held are bounded, and keys
/// that are read again and again stay while others come and go.
#[test]
fn eviction_keeps_what_is_read_and_bounds_what_is_held() {
    const CAPACITY_BYTES: u64 = 64 << 10;
    for buffer in each_with(ForwardPolicy::Resident, CAPACITY_BYTES) {
        let content = |number: u64| vec![number as u8; 20 + number as usize * 7 % 200];
        let hot = |number: u64| number % 16;
        let mut hot_hits = 0;
        for number in 0..20_000u64 {
            let key = number.to_be_bytes();
            fill(&buffer, &key, 1, &content(number), 1);
            if let Some(found) = get(&buffer, &key, 1) {
                assert_eq!(found, Found::Value(content(number).into()));
            }
            let key = hot(number).to_be_bytes();
            match get(&buffer, &key, 1) {
                Some(found) => {
                    assert_eq!(found, Found::Value(content(hot(number)).into()));
                    hot_hits += 1;
                }
                None => fill(&buffer, &key, 1, &content(hot(number)), 1),
            }
            let statistics = buffer.statistics();
            assert!(statistics.bytes <= CAPACITY_BYTES, "{statistics:?}");
        }
        assert!(hot_hits > 19_900, "{hot_hits}");
        assert!(buffer.statistics().evictions > 15_000);
    }
}

/// A load leaves a buffer full of entries that no read asked for: reads take their place at once.
#[test]
fn what_was_written_and_never_read_gives_way_to_reads() {
    let options = Settings {
        policy: ForwardPolicy::All,
        ..Settings::default()
    };
    let buffer = buffer(options, 64 << 10);
    let key = |number: u64| number.to_be_bytes();
    for number in 0..2_000 {
        write(&buffer, &put(&key(number), &[7; 100]), 1 + number);
    }
    let walk = |numbers: std::ops::Range<u64>| {
        let before = buffer.statistics().fills_taken;
        for number in numbers {
            let value = Some([7; 100].as_slice());
            let version = Version { sequence: 1, value };
            buffer.fill(&of(&key(number)), version, 1 << 40);
        }
        buffer.statistics().fills_taken - before
    };
    let held = buffer.statistics().bytes / 150;
    let taken = walk(10_000..10_000 + held / 2);
    assert!(taken > held * 4 / 10, "{taken} of {}", held / 2);
}

#[test]
fn places_for_records_of_their_size_leave_the_memory_to_records() {
    const CAPACITY_BYTES: u64 = 32 << 20;
    let held = |average_bytes: u64, value_bytes: usize| {
        let options = Settings {
            policy: ForwardPolicy::All,
            ..Settings::default()
        };
        let buffer = buffer(options, CAPACITY_BYTES);
        buffer.expect_records(average_bytes);
        let value = vec![7; value_bytes];
        let writes = 2 * CAPACITY_BYTES / value_bytes as u64;
        for number in 1..=writes {
            write(&buffer, &put(&number.to_be_bytes(), &value), number);
        }
        assert!(buffer.statistics().bytes <= CAPACITY_BYTES);
        let is_held = |number: &u64| get(&buffer, &number.to_be_bytes(), 1 << 40).is_some();
        (1..=writes).filter(is_held).count() as u64 * (value_bytes as u64 + 28)
    };
    let large = (held(0, 1000), held(2016, 1000));
    assert!(large.1 > large.0 + large.0 / 20, "{large:?}");
    assert!(large.1 > CAPACITY_BYTES * 91 / 100, "{large:?}");
    // Seven slots a bucket are too few for some of these small records.
    let small = (held(100, 100), held(2016, 100));
    assert!(small.0 > CAPACITY_BYTES * 80 / 100, "{small:?}");
    assert!(small.1 < small.0 / 2, "{small:?}");
}

/// A claim byte by byte would come between blocks; an early claim of all would idle in their place.
#[test]
fn a_buffer_claims_all_once_it_holds_entries_and_little_before() {
    const CAPACITY_BYTES: u64 = 16 << 20;
    for buffer in each_with(ForwardPolicy::Resident, CAPACITY_BYTES) {
        let too_large = vec![7; 2 << 20];
        fill(&buffer, b"large", 1, &too_large, 1);
        assert!(claimed(&buffer) <= CAPACITY_BYTES / 64 * 9);
        let mut claims = vec![claimed(&buffer)];
        for number in 0..20_000u64 {
            let value = Some([7; 1000].as_slice());
            let version = Version { sequence: 1, value };
            if buffer.fill(&of(&number.to_be_bytes()), version, 1) {
                claims.push(claimed(&buffer));
            }
        }
        assert_eq!(claims.last(), Some(&CAPACITY_BYTES));
        assert!(claims.len() <= 3, "{claims:?}");
    }
}

#[test]
fn a_buffer_that_was_full_and_slept_fills_again() {
    for buffer in each() {
        let is_taken = |number: u64| {
            let before = buffer.statistics().fills_taken;
            let value = Some([7; 100].as_slice());
            let version = Version { sequence: 1, value };
            buffer.fill(&of(&number.to_be_bytes()), version, 1 << 40);
            buffer.statistics().fills_taken > before
        };
        (0..1000).for_each(|number| _ = is_taken(number));
        write_a_window(&buffer, 2);
        assert_eq!(buffer.statistics().sleeps, 1);
        let woken_by = (1000..1_000_000).find(|number| is_taken(*number)).unwrap();
        assert!((1..=50).all(|number| is_taken(woken_by + number)));
    }
}

#[test]
fn a_buffer_that_nobody_reads_takes_no_memory() {
    for buffer in each() {
        assert!(!buffer.forward(&put(b"k", b"v"), 1));
        assert_eq!(buffer.statistics().bytes, 0);
        fill(&buffer, b"k", 1, b"v", 1);
        assert!(buffer.statistics().bytes > 0);
        assert_eq!(get(&buffer, b"k", 1), value(b"v"));
    }
}

/// The first write does not wait for the memory.
#[test]
fn a_buffer_that_takes_every_write_is_awake_from_the_start() {
    for buffer in each_with(ForwardPolicy::All, 64 << 10) {
        buffer.expect_writes();
        let before = claimed(&buffer);
        assert!(before > 0);
        write(&buffer, &put(b"k", b"v"), 1);
        assert!(buffer.statistics().bytes <= before + 8192);
        assert_eq!(get(&buffer, b"k", 1), value(b"v"));
    }
}

/// Writes a window without a hit, and so ends one that has begun.
fn write_a_window(buffer: &ReadBuffer, from: u64) -> u64 {
    let writes = worth::WINDOW_WRITES;
    for number in from..from + writes {
        write(buffer, &put(&number.to_be_bytes(), b"value"), number);
    }
    from + writes
}

#[test]
fn a_buffer_that_does_not_pay_sleeps_and_forgets() {
    for buffer in each() {
        fill(&buffer, b"k", 1, b"old", 1);
        fill(&buffer, b"other", 1, b"same", 1);
        assert_eq!(get(&buffer, b"k", 1), value(b"old"));
        let next = write_a_window(&buffer, 2);
        assert_eq!(buffer.statistics().sleeps, 1);
        let claimed = claimed(&buffer);
        assert!(claimed < 64 << 10, "{claimed}");
        assert_eq!(get(&buffer, b"k", next), None);
        // The buffer sleeps through this write.
        write(&buffer, &put(b"k", b"new"), next);
        // Enough reads come to wake it, and one from before that write, which comes late.
        for read in 0..100_000u64 {
            let version = Version {
                sequence: 1,
                value: None,
            };
            buffer.fill(&of(&read.to_be_bytes()), version, next);
        }
        fill(&buffer, b"k", 1, b"old", next - 1);
        fill(&buffer, b"other", 1, b"same", next);
        assert_eq!(get(&buffer, b"k", next), None);
        assert_eq!(get(&buffer, b"other", next), value(b"same"));
        assert_eq!(
            get(&buffer, b"other", next - 1),
            None,
            "nobody knows what was there"
        );
        write(&buffer, &put(b"other", b"newer"), next + 1);
        assert_eq!(get(&buffer, b"other", next + 1), value(b"newer"));
    }
}

#[test]
fn a_buffer_that_pays_stays_awake() {
    for buffer in each() {
        fill(&buffer, b"k", 1, b"v", 1);
        for number in 2..2 + 2 * worth::WINDOW_WRITES {
            write(&buffer, &put(b"elsewhere", b"v"), number);
            if number % 3 == 0 {
                assert_eq!(get(&buffer, b"k", number), value(b"v"));
            }
        }
        assert_eq!(buffer.statistics().sleeps, 0);
    }
}

#[test]
fn it_sleeps_as_long_as_all_blocks_fit_into_the_cache() {
    let buffer = buffer(Settings::default(), 64 << 10);
    fill(&buffer, b"k", 1, b"one", 1);
    assert_eq!(claimed(&buffer), 0, "a store without tables");
    buffer.weigh_blocks(149, 100);
    fill(&buffer, b"k", 1, b"one", 1);
    assert_eq!(claimed(&buffer), 0, "not yet half as much again");
    buffer.weigh_blocks(151, 100);
    fill(&buffer, b"k", 1, b"one", 1);
    assert_eq!(get(&buffer, b"k", 1), value(b"one"));
    buffer.weigh_blocks(101, 100);
    write(&buffer, &put(b"k", b"one"), 1);
    assert_eq!(get(&buffer, b"k", 1), value(b"one"), "nor less");
    buffer.weigh_blocks(100, 100);
    assert_eq!(get(&buffer, b"k", 1), value(b"one"), "until the next write");
    write(&buffer, &put(b"k", b"two"), 2);
    assert_eq!(get(&buffer, b"k", 2), None);
    fill(&buffer, b"k", 2, b"two", 2);
    assert_eq!(get(&buffer, b"k", 2), None);
    assert_eq!(buffer.statistics().sleeps, 1);
}
