//! Memory that other consumers of the budget take from the buffer, and leave to it again.

use super::*;

/// The buffer gives memory back as writes come, three bytes for each, and grows again when it may. Its
/// answers are right all the while.
#[test]
fn memory_is_given_back_as_entries_come_and_used_again() {
    const CAPACITY_BYTES: u64 = 3 << 19;
    const TAKEN_BYTES: u64 = 1 << 19;
    // A shard's parts of chunks, and an entry.
    const SLACK_BYTES: u64 = 100 << 10;
    let options = Settings {
        policy: ForwardPolicy::All,
        ..Settings::default()
    };
    let buffer = buffer(options, CAPACITY_BYTES);
    let content = |number: u64| vec![number as u8; 100 + number as usize * 7 % 200];
    let mut next = 1;
    let mut write_some = |writes: u64, others_bytes: u64| {
        for number in next..next + writes {
            let batch = put(&number.to_be_bytes(), &content(number));
            write(&buffer, &batch, number);
            claimed_beside(&buffer, others_bytes);
            for seen in [number - number % 16, number - number % 977] {
                if let Some(found) = get(&buffer, &seen.to_be_bytes(), number) {
                    assert_eq!(found, Found::Value(content(seen).into()));
                }
            }
        }
        next += writes;
        buffer.statistics().bytes
    };
    let bounds = |bytes: u64| bytes - SLACK_BYTES..=bytes;
    for _ in 0..2 {
        let held = write_some(10_000, 0);
        assert!(bounds(CAPACITY_BYTES).contains(&held), "{held}");
        assert_eq!(buffer.statistics().capacity_bytes, CAPACITY_BYTES);
        let left_bytes = CAPACITY_BYTES - TAKEN_BYTES;
        assert_eq!(claimed_beside(&buffer, TAKEN_BYTES), held, "it cannot yet");
        assert_eq!(buffer.statistics().capacity_bytes, left_bytes);
        let held = write_some(1, TAKEN_BYTES);
        assert!(held > CAPACITY_BYTES - SLACK_BYTES, "all at once: {held}");
        // Writes of some 230 bytes each: half of what others took, and little more.
        let held = write_some(1_500, TAKEN_BYTES);
        assert!(held <= left_bytes, "{held}");
        assert_eq!(claimed_beside(&buffer, TAKEN_BYTES), left_bytes);
    }
    assert!(buffer.statistics().hits > 20_000);
}

/// An entry may be overwritten in place, its key absent from the buffer, or the value too large for it: each
/// write has memory given back.
#[test]
fn memory_is_given_back_whatever_is_written() {
    const TAKEN_BYTES: u64 = 1 << 20;
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
        let buffer = buffer(options, 2 * TAKEN_BYTES);
        for number in 0..10_000u64 {
            fill(&buffer, &number.to_be_bytes(), 1, &[7; 200], 1);
        }
        fill(&buffer, b"held", 1, &[7; 900], 1);
        let held = buffer.statistics().bytes;
        assert!(held > 2 * TAKEN_BYTES - (100 << 10), "{held}");
        claimed_beside(&buffer, TAKEN_BYTES);
        let count = TAKEN_BYTES / value_bytes as u64;
        for number in 2..2 + count {
            write(&buffer, &put(key, &vec![7; value_bytes]), number);
        }
        let held = buffer.statistics().bytes;
        assert!(
            held <= TAKEN_BYTES,
            "{policy:?} {}: {held}",
            key.escape_ascii()
        );
    }
}
