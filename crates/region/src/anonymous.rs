//! Memory of this process alone, which goes back to the kernel when it is dropped.
//!
//! An allocator promises less: it keeps freed memory between things that stay, and serves other
//! threads from elsewhere. A holder that must stay within an amount of memory, and gives some away,
//! asks the kernel.
#![expect(
    unsafe_code,
    reason = "the kernel's memory is a raw pointer; std hands out the allocator's only"
)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use crate::mapping::kernel;
use crate::{Error, Result};

/// Has the allocator give the kernel back the free memory among allocations that stay. Call it
/// after much was freed that will not be allocated again. It takes milliseconds for each 100 MiB,
/// in which other threads may have to wait for the allocator. Only the GNU C library's needs it;
/// others give memory back by themselves.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: it takes the allocator's own locks, and touches nothing that is allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Limits the number of the allocator's arenas. The GNU C library has one for nearly each thread, and
/// memory that one thread frees there is no room for the allocations of another. For programs, before
/// they start threads: a library leaves its host's allocator alone.
pub fn limit_allocator_arenas(max: u16) {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: it changes a setting of the allocator under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, max.into());
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    let _ = max;
}

/// Pages of zeros, taken up as they are first written.
///
/// ```
/// let mut memory = terrace_region::AnonymousMemory::new(1 << 20)?;
/// memory[1000] = 7;
/// assert_eq!(memory[..1000], [0; 1000]);
/// # Ok::<(), terrace_region::Error>(())
/// ```
pub struct AnonymousMemory {
    /// To `length_bytes` bytes that are mapped, readable and writable until this is dropped.
    memory: NonNull<u8>,
    length_bytes: usize,
}

// SAFETY: it owns its range of addresses, which belongs to no thread.
unsafe impl Send for AnonymousMemory {}
// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for AnonymousMemory {}

impl AnonymousMemory {
    /// Maps whole pages, at least `length_bytes`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: no address space, too many mappings, or 0 bytes.
    pub fn new(length_bytes: usize) -> Result<Self> {
        let mapped = kernel::map_anonymous(length_bytes).ok();
        let memory = mapped.and_then(NonNull::new).ok_or(Error::OutOfMemory {
            bytes: length_bytes as u64,
        })?;
        Ok(AnonymousMemory {
            memory,
            length_bytes,
        })
    }
}

impl AnonymousMemory {
    /// Returns the start of the bytes. A holder of this pointer keeps the memory, and refers to the
    /// bytes in no other way.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.memory
    }
}

impl Deref for AnonymousMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the field's invariant; the bytes are the kernel's zeros or were written, and
        // `&self` keeps writers away.
        unsafe { slice::from_raw_parts(self.memory.as_ptr(), self.length_bytes) }
    }
}

impl DerefMut for AnonymousMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only way to the bytes.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.length_bytes) }
    }
}

impl Drop for AnonymousMemory {
    fn drop(&mut self) {
        // SAFETY: the range is this one's own, and no reference into it outlives it.
        unsafe { kernel::unmap(self.memory.as_ptr(), self.length_bytes) };
    }
}

impl fmt::Debug for AnonymousMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnonymousMemory")
            .field("length_bytes", &self.length_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeros_until_written_and_each_its_own() {
        let mut first = AnonymousMemory::new(10_000).unwrap();
        let mut second = AnonymousMemory::new(1).unwrap();
        assert_eq!((first.len(), second.len()), (10_000, 1));
        assert!(first.iter().chain(&*second).all(|byte| *byte == 0));
        first.fill(7);
        second[0] = 8;
        drop(second);
        let moved =
            std::thread::spawn(move || first.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        assert_eq!(moved.join().unwrap(), 70_000);
    }

    #[test]
    fn what_cannot_be_had_is_an_error() {
        for bytes in [0, isize::MAX as usize] {
            let refused = AnonymousMemory::new(bytes).unwrap_err();
            assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
        }
    }
}
