//! A file's bytes in the address space, shared with the kernel.
//!
//! Invariants
//! 1. `memory` points to `length` mapped, readable and writable bytes until the mapping drops.
//! 2. The file is at least that long: nobody cuts it meanwhile. A region never does, and its
//!    directory has one owner, who holds the store's lock; whoever changes the files of a live
//!    store in another way breaks it, as they would break any mapped file.
//!
//! What the medium answers to a page that it cannot give is a signal and not an error. So only
//! files that were written whole are mapped, and only to be written over; see `files`.
//!
//! Miri maps no files. Under it the bytes are the heap's, so that it checks whatever is done with
//! them, and that they are given back once and not too early.
#![expect(
    unsafe_code,
    reason = "the kernel's mapping of a file is a raw pointer; nothing safe hands it out with \
              MAP_SYNC"
)]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::{Errno, Result};
use rustix::mm::MapFlags;

#[cfg_attr(miri, path = "mapping/heap.rs")]
pub(crate) mod kernel;

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    /// Through the page cache, where there is one.
    Shared,
    /// Persistent memory itself: a store that was written back from the CPU's caches is durable,
    /// the file's block map included. Other files are refused with `EOPNOTSUPP`.
    Synchronous,
}

/// A file mapped from its beginning.
#[derive(Debug)]
pub(crate) struct Mapping {
    memory: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping owns its range of addresses, which belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: through `&Mapping` only the pointer's value can be read, never the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file that has them; see the second invariant.
    pub(crate) fn new(file: BorrowedFd<'_>, length: usize, kind: MapKind) -> Result<Self> {
        let flags = match kind {
            MapKind::Shared => MapFlags::SHARED,
            // MAP_SHARED alone would ignore a flag that the file system does not know.
            MapKind::Synchronous => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
        };
        let memory = NonNull::new(kernel::map(file, length, flags)?).ok_or(Errno::NOMEM)?;
        Ok(Mapping { memory, length })
    }

    /// Where the bytes begin, on a page boundary.
    pub(crate) fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and nothing refers into it any more.
        unsafe { kernel::unmap(self.memory.as_ptr(), self.length) };
    }
}
