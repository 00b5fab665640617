//! aarch64: DC CVAP (clean to the point of persistence), DSB ISH.

use std::arch::{asm, is_aarch64_feature_detected};

use super::{LINE_BYTES, WriteBack};

/// Returns `DC CVAP` where the CPU has it (ARMv8.2, DPB). A clean to the point of coherency reaches
/// persistent memory on some machines only, so there is no second choice.
pub(super) fn available() -> Vec<WriteBack> {
    if cfg!(miri) || !is_aarch64_feature_detected!("dpb") {
        return Vec::new();
    }
    vec![WriteBack {
        name: "dc cvap",
        lines: dc_cvap,
    }]
}

/// # Safety
/// The CPU has DPB, and `lines` lines from the address on are mapped.
unsafe fn dc_cvap(start: *const u8, lines: usize) {
    for line in 0..lines {
        // SAFETY: the caller's promise; no register, flag or stack is changed. The instruction is
        // written by its number, which assemblers take without the feature.
        unsafe {
            let address = start.add(line * LINE_BYTES);
            asm!("sys #3, c7, c12, #1, {}", in(reg) address, options(nostack, preserves_flags));
        }
    }
}

/// Waits until every line whose write-back was begun has reached the point of persistence.
pub(crate) fn fence() {
    if !cfg!(miri) {
        // SAFETY: a barrier changes nothing.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    }
}
