//! Memory that is lent to the buffer, used and given back.

use super::*;

/// The buffer grows at first misses by its loan, and gives it back as writes come, three bytes for
/// each. Its answers are right all the while, and the loan does not touch the budget of the block
/// cache.
#[test]
fn lent_memory_is_used_and_given_back_as_entries_come() {
    const OWN_BYTES: u64 = 1 << 20;
    const LENT_BYTES: u64 = 512 << 10;
    // A shard's parts of chunks, and an entry.
    const SLACK_BYTES: u64 = 100 << 10;
    let options = Settings {
        policy: ForwardPolicy::All,
        ..Settings::default()
    };
    let buffer = buffer(options, OWN_BYTES).borrowing(LENT_BYTES);
    let content = |number: u64| vec![number as u8; 100 + number as usize * 7 % 200];
    let mut next = 1;
    let mut write_some = |writes: u64| {
        for number in next..next + writes {
            let batch = put(&number.to_be_bytes(), &content(number));
            write(&buffer, &batch, number);
            claimed(&buffer);
            for seen in [number - number % 16, number - number % 977] {
                if let Some(found) = get(&buffer, &seen.to_be_bytes(), number) {
                    assert_eq!(found, Found::Value(content(seen).into()));
                }
            }
        }
        next += writes;
        buffer.statistics().bytes
    };
    let bounds = |own: u64| own - SLACK_BYTES..=own;
    for _ in 0..2 {
        let held = write_some(10_000);
        assert!(bounds(OWN_BYTES).contains(&held), "{held}");
        buffer.borrow_memory(LENT_BYTES);
        assert_eq!(buffer.statistics().capacity_bytes, OWN_BYTES + LENT_BYTES);
        let held = write_some(10_000);
        assert!(bounds(OWN_BYTES + LENT_BYTES).contains(&held), "{held}");
        assert_eq!(claimed(&buffer), OWN_BYTES);
        buffer.borrow_memory(0);
        let held = write_some(1);
        assert!(
            held > OWN_BYTES + LENT_BYTES - SLACK_BYTES,
            "all at once: {held}"
        );
        // Writes of some 230 bytes each: half of the loan, and little more.
        let held = write_some(1_500);
        assert!(held <= OWN_BYTES, "{held}");
    }
    assert!(buffer.statistics().hits > 40_000);
}

/// Arenas take memory for every write. An entry may be overwritten in place, its key absent from the
/// buffer, or the value too large for it.
#[test]
fn lent_memory_comes_back_whatever_is_written() {
    const OWN_BYTES: u64 = 1 << 20;
    let writes: [(&[u8], usize); 3] = [(b"held", 900), (b"not held", 900), (b"large", 20_000)];
    for (policy, (key, value_bytes)) in [ForwardPolicy::Resident, ForwardPolicy::All]
        .into_iter()
        .flat_map(|policy| writes.map(|write| (policy, write)))
    {
        let options = Settings {
            policy,
            while_blocks_fit: true,
            ..Settings::default()
        };
        let buffer = buffer(options, OWN_BYTES).borrowing(OWN_BYTES);
        buffer.borrow_memory(OWN_BYTES);
        for number in 0..10_000u64 {
            fill(&buffer, &number.to_be_bytes(), 1, &[7; 200], 1);
        }
        fill(&buffer, b"held", 1, &[7; 900], 1);
        let held = buffer.statistics().bytes;
        assert!(held > 2 * OWN_BYTES - (100 << 10), "{held}");
        buffer.borrow_memory(0);
        let count = OWN_BYTES / value_bytes as u64;
        for number in 2..2 + count {
            write(&buffer, &put(key, &vec![7; value_bytes]), number);
        }
        let held = buffer.statistics().bytes;
        assert!(
            held <= OWN_BYTES,
            "{policy:?} {}: {held}",
            key.escape_ascii()
        );
    }
}

/// A buffer that was full takes first misses again as soon as there is more room.
#[test]
fn lent_memory_fills_at_first_misses() {
    for buffer in each() {
        let is_ordered = buffer.settings.structure == ReadBufferStructure::Ordered;
        let buffer = buffer.borrowing(64 << 10);
        let taken = |numbers: std::ops::Range<u64>| {
            let before = buffer.statistics().fills_taken;
            for number in numbers {
                let value = Some([7; 100].as_slice());
                let version = Version { sequence: 1, value };
                buffer.fill(&of(&number.to_be_bytes()), version, 1);
            }
            buffer.statistics().fills_taken - before
        };
        taken(0..4_000);
        assert!(taken(4_000..5_000) < 10);
        // No structure takes more than it was made for; one that cannot give memory back takes
        // none.
        buffer.borrow_memory(1 << 30);
        if is_ordered {
            assert!(taken(5_000..6_000) < 10);
            assert_eq!(buffer.statistics().capacity_bytes, 64 << 10);
        } else {
            assert!(taken(5_000..6_000) > 100);
            assert_eq!(buffer.statistics().capacity_bytes, 128 << 10);
        }
    }
}
