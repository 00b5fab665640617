//! Reads of a direct file that go on and on: through the page cache, which is left as it was.
//!
//! A direct read ends when the device is done, and until the next one the device has nothing to do.
//! A merge reads its inputs from one end to the other. So each read announces the next range to the
//! kernel, which fetches it while the merge works. Pages leave the page cache as soon as they are
//! read. The cache never holds more than two reads' worth of each input, but for pages fetched in
//! vain at the input's end.

use std::fs;
use std::io;
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

use super::file::read_full;

/// Only whole pages leave the page cache.
const PAGE_BYTES: u64 = 4096;

/// Fills the buffer as far as the file goes. Expects the next read behind it, of the same length.
pub(super) fn read(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let length_bytes = buffer.len() as u64;
    let end = offset.saturating_add(length_bytes);
    advise(file, end, length_bytes, Advice::WillNeed);
    let count = read_full(file, buffer, offset)?;
    // The read before this one left the page in which it ended, where this one begins. The page in
    // which this one ends is left for the next.
    let first = offset - offset % PAGE_BYTES;
    let last = end - end % PAGE_BYTES;
    advise(file, first, last - first, Advice::DontNeed);
    Ok(count)
}

/// Gives the kernel a hint: without it the same bytes are read.
fn advise(file: &fs::File, offset: u64, length_bytes: u64, advice: Advice) {
    if let Some(length) = NonZeroU64::new(length_bytes) {
        let _ = fadvise(file, offset, Some(length), advice);
    }
}
