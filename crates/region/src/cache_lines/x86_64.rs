//! x86-64: CLWB, else CLFLUSHOPT, else CLFLUSH; SFENCE.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence};

use super::{LINE_BYTES, WriteBack, WriteBackLines};

/// Returns the instructions of this CPU, the best first: CLWB leaves the line in the cache,
/// CLFLUSHOPT evicts it, and CLFLUSH waits for each line as well.
pub(super) fn available() -> Vec<WriteBack> {
    if cfg!(miri) {
        return Vec::new();
    }
    let features = __cpuid(1).edx;
    let extended = match __cpuid(0).eax {
        7.. => __cpuid_count(7, 0).ebx,
        _ => 0,
    };
    let instructions: [(bool, &'static str, WriteBackLines); 3] = [
        (extended & 1 << 24 != 0, "clwb", clwb),
        (extended & 1 << 23 != 0, "clflushopt", clflushopt),
        (features & 1 << 19 != 0, "clflush", clflush),
    ];
    let found = instructions.into_iter().filter(|(has, ..)| *has);
    found
        .map(|(_, name, lines)| WriteBack { name, lines })
        .collect()
}

macro_rules! write_back {
    ($name:ident, $instruction:literal) => {
        /// # Safety
        /// The CPU has the instruction, and `lines` lines from the address on are mapped.
        unsafe fn $name(start: *const u8, lines: usize) {
            for line in 0..lines {
                // SAFETY: the caller's promise; no register, flag or stack is changed.
                unsafe {
                    let address = start.add(line * LINE_BYTES);
                    asm!($instruction, in(reg) address, options(nostack, preserves_flags));
                }
            }
        }
    };
}

write_back!(clwb, "clwb [{}]");
write_back!(clflushopt, "clflushopt [{}]");
write_back!(clflush, "clflush [{}]");

/// Waits until every line whose write-back was begun has reached the medium.
pub(crate) fn fence() {
    if !cfg!(miri) {
        // SAFETY: every x86-64 CPU has the instruction.
        unsafe { _mm_sfence() };
    }
}
