//! x86-64: CLWB, else CLFLUSHOPT, else CLFLUSH; SFENCE. Large copies go past the caches.

use std::arch::asm;
use std::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128,
};

use super::{LINE_BYTES, WriteBack, WriteBackLines};

/// From here on a copy past the caches is cheaper than a copy and the write-back of its lines.
const STREAM_FROM_BYTES: usize = 4096;
const VECTOR_BYTES: usize = size_of::<__m128i>();

/// What this CPU has, the best first: CLWB leaves the line in the cache, CLFLUSHOPT evicts it, and
/// CLFLUSH waits for each line as well.
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
        /// The CPU has the instruction, and so many lines from the address on are mapped.
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

/// Waits until every line whose write-back was begun has reached the medium, with every copy that
/// went past the caches.
pub(crate) fn fence() {
    if !cfg!(miri) {
        // SAFETY: every x86-64 CPU has the instruction.
        unsafe { _mm_sfence() };
    }
}

/// Copies bytes of the same number, large ones past the caches.
pub(crate) fn copy(target: &mut [u8], source: &[u8]) {
    if cfg!(miri) || source.len() < STREAM_FROM_BYTES || source.len() != target.len() {
        target.copy_from_slice(source);
    } else {
        stream(target, source);
    }
}

/// Copies `source` to `target`, which is as long, past the caches.
fn stream(target: &mut [u8], source: &[u8]) {
    // SAFETY: any 16 bytes are a vector.
    let (head, vectors, _) = unsafe { target.align_to_mut::<__m128i>() };
    let (head_bytes, vector_count) = (head.len(), vectors.len());
    head.copy_from_slice(source.get(..head_bytes).unwrap_or_default());
    let rest = source.get(head_bytes..).unwrap_or_default();
    for (to, from) in vectors.iter_mut().zip(rest.chunks_exact(VECTOR_BYTES)) {
        // SAFETY: `from` has 16 bytes, `to` is an aligned vector of its own. The fence below comes
        // before anybody else can be told of these stores.
        unsafe { _mm_stream_si128(to, _mm_loadu_si128(from.as_ptr().cast())) };
    }
    fence();
    let copied = head_bytes + vector_count * VECTOR_BYTES;
    let (tail, rest) = (target.get_mut(copied..), source.get(copied..));
    tail.unwrap_or_default()
        .copy_from_slice(rest.unwrap_or_default());
}
