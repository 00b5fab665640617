//! Parts of test cases: keys, and places of values that keep the limits in [`BOUNDS`].

use proptest::prelude::*;

use crate::block::Extent;
use crate::block::Extents;
use crate::format::extents::MAX_EXTENTS;
use crate::format::fuzz::BOUNDS;
use crate::format::location::{CellLocation, INLINE_MAX, SEGMENT_BLOCKS};
use crate::format::value::blocks_needed;
use crate::key::Key;

/// Returns `count` extents for a value, or as many as it has blocks for. Odd seeds put the last first.
pub(super) fn extents(value_bytes: u32, count: usize, seed: u64) -> Extents {
    let mut count = count;
    while blocks_needed(value_bytes, count) < count as u64 {
        count -= 1;
    }
    let blocks = blocks_needed(value_bytes, count);
    let mut start = BOUNDS.data.start + seed % 1000;
    let mut extents = Vec::new();
    for index in 0..count as u64 {
        let share = blocks / count as u64 + u64::from(index < blocks % count as u64);
        let extent = Extent {
            start,
            blocks: share,
        };
        extents.push(extent);
        start = extent.end() + seed % 7;
    }
    if seed % 2 == 1 {
        extents.reverse();
    }
    Extents::new(&extents).unwrap()
}

/// Any key.
pub(super) fn keys() -> impl Strategy<Value = Key> {
    prop::collection::vec(any::<u8>(), 1..=16).prop_map(|bytes| Key::new(&bytes).unwrap())
}

/// Any large value's length and extents.
pub(super) fn extent_lists() -> impl Strategy<Value = (u32, Extents)> {
    let lengths = INLINE_MAX as u32 + 1..=BOUNDS.max_value_bytes;
    let parts = (lengths, 1..=MAX_EXTENTS, 0..10_000u64);
    parts.prop_map(|(length, count, seed)| (length, extents(length, count, seed)))
}

/// Any cell that has room for every small value.
pub(super) fn cell_locations() -> impl Strategy<Value = CellLocation> {
    let segments = BOUNDS.data.start..BOUNDS.data.end() - SEGMENT_BLOCKS;
    let parts = (segments, 8usize..7000);
    parts.prop_map(|(segment, eighth)| CellLocation::new(segment, eighth * 8).unwrap())
}

/// Calls `check` with each bit of `bytes` flipped.
pub(super) fn for_each_flip(bytes: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut flipped = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&flipped, bit);
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Returns `bytes` with others at `offset`.
pub(super) fn patched(bytes: &[u8], offset: usize, patch: &[u8]) -> Vec<u8> {
    let mut patched = bytes.to_vec();
    patched[offset..offset + patch.len()].copy_from_slice(patch);
    patched
}
