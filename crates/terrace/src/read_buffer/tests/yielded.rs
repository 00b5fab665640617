//! Memory that the buffer leaves to the blocks of scans.

use super::*;

const CAPACITY_BYTES: u64 = 16 << 20;
/// Number of seeks above the first limit.
const SEEKS: u64 = 10_000;

/// Makes `seeks`, each missing a block. Returns whether the memory changed hands.
fn seek(buffer: &ReadBuffer, seeks: u64) -> bool {
    let mut sought = 0;
    (0..seeks).fold(false, |changed, _| {
        sought += 1;
        buffer.sought(|| sought) || changed
    })
}

/// Fills the buffer with `bytes` of entries.
fn filled(buffer: &ReadBuffer, bytes: u64) {
    for number in 0..bytes / 1100 {
        fill(buffer, &number.to_be_bytes(), 1, &[7; 1000], 1);
        claimed(buffer);
    }
}

fn let_all_go(buffer: &ReadBuffer) -> u64 {
    let mut steps = 0;
    while buffer.let_some_go() {
        claimed(buffer);
        steps += 1;
        assert!(steps < 1000, "for ever");
    }
    steps
}

fn of_structure(structure: ReadBufferStructure) -> ReadBuffer {
    let options = Settings {
        structure,
        while_blocks_fit: true,
        ..Settings::default()
    };
    buffer(options, CAPACITY_BYTES)
}

fn hash() -> ReadBuffer {
    of_structure(ReadBufferStructure::Hash)
}

#[test]
fn what_is_yielded_goes_in_steps_and_is_claimed_no_more() {
    let buffer = hash();
    filled(&buffer, 2 * CAPACITY_BYTES);
    assert_eq!(claimed(&buffer), CAPACITY_BYTES);
    assert!(seek(&buffer, SEEKS));
    assert_eq!(
        claimed(&buffer),
        buffer.statistics().bytes,
        "nothing has left"
    );
    assert!(let_all_go(&buffer) > 1);
    let now = buffer.statistics();
    assert!(now.bytes <= now.capacity_bytes && now.capacity_bytes < CAPACITY_BYTES / 2);
    assert_eq!(claimed(&buffer), now.capacity_bytes);
    // It takes others, and the first entries have gone.
    fill(&buffer, b"k", 1, b"v", 1);
    assert_eq!(get(&buffer, b"k", 1), value(b"v"));
    assert_eq!(get(&buffer, &0_u64.to_be_bytes(), 1), None);
}

/// The buffer held less than it may keep, so nothing has to leave; but it had claimed everything.
#[test]
fn what_was_claimed_and_is_not_held_is_claimed_no_more() {
    let buffer = hash();
    filled(&buffer, CAPACITY_BYTES / 8);
    assert_eq!(claimed(&buffer), CAPACITY_BYTES);
    assert!(seek(&buffer, SEEKS));
    let held = buffer.statistics();
    assert!(held.bytes < held.capacity_bytes, "{held:?}");
    assert_eq!(let_all_go(&buffer), 1, "the claim falls");
    assert_eq!(claimed(&buffer), held.capacity_bytes);
}

#[test]
fn seeks_that_find_their_blocks_ask_for_nothing() {
    let buffer = hash();
    filled(&buffer, CAPACITY_BYTES);
    assert!((0..4 * SEEKS).all(|_| !buffer.sought(|| 7)));
}

/// The buffer wakes for gets.
#[test]
fn a_buffer_that_falls_asleep_has_all_its_memory_when_it_wakes() {
    let buffer = hash();
    filled(&buffer, CAPACITY_BYTES);
    assert!(seek(&buffer, SEEKS));
    let_all_go(&buffer);
    buffer.fall_asleep(buffer.awaken());
    buffer.awaken();
    assert_eq!(buffer.statistics().capacity_bytes, CAPACITY_BYTES);
}

/// A tree cannot give memory back.
#[test]
fn what_is_ordered_yields_nothing() {
    let buffer = of_structure(ReadBufferStructure::Ordered);
    filled(&buffer, CAPACITY_BYTES);
    assert!(!seek(&buffer, SEEKS));
    assert_eq!(buffer.statistics().capacity_bytes, CAPACITY_BYTES);
}
