//! The bytes on the device, encoded and checked.
//!
//! `docs/formats.md` (The storage node's device) is the specification. Bytes that come from a device
//! are hostile: nothing here panics on them, and nothing allocates more than they can stand for.

pub mod cell;
pub mod checkpoint;
pub mod extents;
#[doc(hidden)]
pub mod fuzz;
pub mod journal;
pub mod layout;
pub mod location;
pub mod namespace;
#[cfg(test)]
mod specimens;
mod sum;
pub mod superblock;
pub mod trailer;
pub mod value;

/// The largest sequence number: a larger one would leave no room for the next.
pub const MAX_SEQUENCE: u64 = u64::MAX >> 1;
/// The most blocks of a device: packed extents have 40 bits for the first block.
pub const MAX_DEVICE_BLOCKS: u64 = 1 << 40;

/// Returns whether `sequence` may be that of a key.
const fn is_sequence(sequence: u64) -> bool {
    1 <= sequence && sequence <= MAX_SEQUENCE
}

/// Returns whether all of `bytes` are zeros.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
