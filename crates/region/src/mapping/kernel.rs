//! The kernel's calls.

use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::io::Result;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

/// Maps the first bytes of a file, to be read and written.
pub(super) fn map(file: BorrowedFd<'_>, length: usize, flags: MapFlags) -> Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the addresses, so that nothing mapped is replaced.
    let memory = unsafe { mmap(ptr::null_mut(), length, access, flags, file, 0) }?;
    Ok(memory.cast())
}

/// Maps `length` zeros for the caller alone, to be read and written.
pub(crate) fn map_anonymous(length: usize) -> Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: as above.
    let memory = unsafe { mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE) }?;
    Ok(memory.cast())
}

/// # Safety
/// [`map`] or [`map_anonymous`] gave this range, it has not been unmapped, and nothing refers into it
/// any more.
pub(crate) unsafe fn unmap(memory: *mut u8, length: usize) {
    // SAFETY: the caller's promise. It fails only for ranges that never were mappings.
    let _ = unsafe { munmap(memory.cast(), length) };
}

/// Leaves a range readable only. Async-signal-safe.
///
/// # Safety
/// [`map`] gave this range, it has not been unmapped, and nothing stores into it any more.
pub(super) unsafe fn protect(memory: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { mprotect(memory.cast(), length, MprotectFlags::READ) };
}
