//! Carries cache lines to persistent memory: the CPU's instructions for it.
//!
//! A store to persistent memory rests in the CPU's caches until its line is written back. Opening a
//! region finds the instruction for that ([`WriteBack::detect`]); one [`fence`] waits for
//! write-backs. Under Miri, which knows none of these instructions, both do nothing.
//!
//! Copies go through the caches: past them (MOVNT) a frame's checksum, which is taken over the
//! stored bytes, has to fetch them again. Measured in DRAM, append and persist of 4 to 16 KB took
//! 1.5 to 1.9 times as long that way, of 64 KB 1.1 times.
#![expect(
    unsafe_code,
    reason = "the instructions take addresses, and most have no function in the standard library"
)]

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod instructions;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "Terrace runs on x86-64 and aarch64 only: it has to know how to write cache lines back"
);

pub(crate) use instructions::fence;

use crate::image::Image;

/// Minimum bytes that one instruction works on, on any of these CPUs.
const LINE_BYTES: usize = 64;

/// Begins to write back `lines` lines from an aligned address on.
///
/// # Safety
/// The CPU has the instruction, and the lines are mapped.
type WriteBackLines = unsafe fn(start: *const u8, lines: usize);

/// How this CPU writes cache lines back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteBack {
    name: &'static str,
    /// This CPU has its instruction.
    lines: WriteBackLines,
}

impl WriteBack {
    /// Returns the best instruction that the CPU has. `None`: it has none that reaches persistent
    /// memory.
    pub(crate) fn detect() -> Option<Self> {
        instructions::available().into_iter().next()
    }

    /// Returns the instruction's name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Begins to write back the lines of a range of an image, as far as the range lies in it.
    pub(crate) fn range(&self, image: &Image, offset: usize, length_bytes: usize) {
        let end = offset
            .saturating_add(length_bytes)
            .min(image.length_bytes());
        let start = offset - offset % LINE_BYTES;
        let lines = end.saturating_sub(start).div_ceil(LINE_BYTES);
        if lines > 0 {
            // SAFETY: all lines begin in the image, which begins and ends on a page boundary and
            // is mapped as long as it lives. No byte is read or changed as far as Rust can see.
            unsafe { (self.lines)(image.memory().add(start), lines) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::instructions::available;
    use super::*;
    use crate::ImagePool;

    /// Reads a byte of each line, so that Miri and the address sanitizer check the lines.
    ///
    /// # Safety
    /// The lines are mapped, and no thread writes to them.
    unsafe fn read(start: *const u8, lines: usize) {
        for line in 0..lines {
            // SAFETY: the caller's promise.
            unsafe { start.add(line * LINE_BYTES).read_volatile() };
        }
    }

    #[test]
    fn every_instruction_leaves_the_bytes_as_they_are() {
        let mut writer = ImagePool::new(0).image(8192).unwrap();
        writer.unpublished().fill(7);
        let image = Arc::clone(writer.image());
        writer.publish(8192).unwrap();
        assert!(cfg!(miri) || !available().is_empty() || cfg!(target_arch = "aarch64"));
        let reading = WriteBack {
            name: "read",
            lines: read,
        };
        for write_back in available().into_iter().chain([reading]) {
            for (offset, length) in [(0, 1), (63, 2), (4000, 4192), (8191, 1), (8000, usize::MAX)] {
                write_back.range(&image, offset, length);
            }
            fence();
            assert_eq!(image.published(), [7; 8192], "{}", write_back.name());
        }
    }
}
