//! The kernel's two calls.

use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Maps the first bytes of a file, to be read and written.
pub(super) fn map(file: BorrowedFd<'_>, length: usize, flags: MapFlags) -> Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the addresses, so that nothing mapped is replaced.
    let memory = unsafe { mmap(ptr::null_mut(), length, access, flags, file, 0) }?;
    Ok(memory.cast())
}

/// # Safety
/// [`map`] gave this range, it has not been unmapped, and nothing refers into it any more.
pub(super) unsafe fn unmap(memory: *mut u8, length: usize) {
    // SAFETY: the caller's promise. It fails only for ranges that never were mappings.
    let _ = unsafe { munmap(memory.cast(), length) };
}
