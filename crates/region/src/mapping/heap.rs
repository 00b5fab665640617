//! Memory in place of a mapping, under Miri.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, Result};
use rustix::mm::MapFlags;

const PAGE_BYTES: usize = 4096;

fn layout(length: usize) -> Result<Layout> {
    Layout::from_size_align(length, PAGE_BYTES).map_err(|_| Errno::INVAL)
}

/// Allocates `length` zeros.
pub(super) fn map(_: BorrowedFd<'_>, length: usize, _: MapFlags) -> Result<*mut u8> {
    map_anonymous(length)
}

/// Allocates `length` zeros.
pub(crate) fn map_anonymous(length: usize) -> Result<*mut u8> {
    if length == 0 {
        // As the kernel does.
        return Err(Errno::INVAL);
    }
    // SAFETY: the layout's size is not 0.
    Ok(unsafe { alloc_zeroed(layout(length)?) })
}

/// # Safety
/// [`map`] or [`map_anonymous`] gave this range, it has not been unmapped, and nothing refers into it
/// any more.
pub(crate) unsafe fn unmap(memory: *mut u8, length: usize) {
    if let Ok(layout) = layout(length) {
        // SAFETY: the caller's promise; the layout is the one that `map` asked for.
        unsafe { dealloc(memory, layout) };
    }
}

/// Does nothing: there are no children here.
///
/// # Safety
/// None is needed.
pub(super) unsafe fn protect(_: *mut u8, _: usize) {}
