//! Reads of a direct file that go on and on: through the page cache, which is left as it was.
//!
//! A direct read ends when the device is done, and until the next one the device has nothing to do. A
//! merge reads its inputs from one end to the other, so the kernel is told what comes next: it fetches
//! that while the merge works. What was read leaves the page cache at once. More than two reads' worth
//! of each input is never there, but for what is fetched in vain at its end.

use std::fs;
use std::io;
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

use super::file::read_full;

/// Only whole pages leave the page cache.
const PAGE_BYTES: u64 = 4096;

/// Fills the buffer as far as the file goes. As much again is expected to be read behind it.
pub(super) fn read(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let length_bytes = buffer.len() as u64;
    let end = offset.saturating_add(length_bytes);
    advise(file, end, length_bytes, Advice::WillNeed);
    let count = read_full(file, buffer, offset)?;
    // The page that the read began in was left by the one before it, that which it ended in is the next
    // one's.
    let first = offset - offset % PAGE_BYTES;
    let last = end - end % PAGE_BYTES;
    advise(file, first, last - first, Advice::DontNeed);
    Ok(count)
}

/// A hint: without it the same bytes are read.
fn advise(file: &fs::File, offset: u64, length_bytes: u64, advice: Advice) {
    if let Some(length) = NonZeroU64::new(length_bytes) {
        let _ = fadvise(file, offset, Some(length), advice);
    }
}
