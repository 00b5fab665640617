//! A file's bytes in the address space, shared with the kernel.
//!
//! Invariants
//! 1. `memory` points to `length` mapped, readable and writable bytes until the mapping drops.
//! 2. The file is at least that long: no process cuts it meanwhile. A region never does, and its
//!    directory has one owner, which holds the store's lock. A program that changes the files of a
//!    live store in another way breaks it, as it would break any mapped file.
//!
//! A mapping is noted in `registry` while it lives, so that a forked child cannot store into it.
//!
//! For a page that the medium cannot give, a process gets a signal and not an error. So only files
//! that were written whole are mapped, to be written over or, privately, to be read; see `files`.
//!
//! Miri maps no files. Under it the bytes are the heap's. So it checks all uses of them, and that
//! they are given back once and not too early.
#![expect(
    unsafe_code,
    reason = "the kernel's mapping of a file is a raw pointer; nothing safe hands it out with \
              MAP_SYNC"
)]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::{Errno, Result};
use rustix::mm::MapFlags;

use self::registry::Place;

#[cfg_attr(miri, path = "mapping/heap.rs")]
pub(crate) mod kernel;
mod registry;

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    /// Through the page cache, where there is one.
    Shared,
    /// Persistent memory itself: a store that was written back from the CPU's caches is durable,
    /// the file's block map included. Other files are refused with `EOPNOTSUPP`.
    Synchronous,
    /// Through the page cache, and a page that is stored to becomes this process's own.
    Private,
}

/// A file mapped from its beginning.
#[derive(Debug)]
pub(crate) struct Mapping {
    memory: NonNull<u8>,
    length: usize,
    place: &'static Place,
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
            MapKind::Private => MapFlags::PRIVATE,
            // MAP_SHARED alone would ignore a flag that the file system does not know.
            MapKind::Synchronous => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
        };
        let memory = NonNull::new(kernel::map(file, length, flags)?).ok_or(Errno::NOMEM)?;
        let place = registry::enter(memory.as_ptr(), length).inspect_err(|_| {
            // SAFETY: the range is new, and nothing refers into it.
            unsafe { kernel::unmap(memory.as_ptr(), length) };
        })?;
        Ok(Mapping {
            memory,
            length,
            place,
        })
    }

    /// Returns the start of the bytes, on a page boundary.
    pub(crate) fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.place.leave();
        // SAFETY: the range is this mapping's own, and nothing refers into it any more.
        unsafe { kernel::unmap(self.memory.as_ptr(), self.length) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::*;

    const BYTES: usize = 8192;

    fn mapping(file: &fs::File) -> Mapping {
        file.set_len(BYTES as u64).unwrap();
        Mapping::new(file.as_fd(), BYTES, MapKind::Shared).unwrap()
    }

    /// Runs `act` in a forked child, and returns how that ended: 0, or the number of a signal.
    fn end_of_child(act: impl FnOnce()) -> i32 {
        // SAFETY: the child touches memory that it has, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // A sanitizer's handler would report the fault and exit.
            // SAFETY: the default action needs no code of this process.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            act();
            // SAFETY: it ends the child at once.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the status is written to a local variable.
        assert_eq!(
            unsafe { libc::waitpid(child, &raw mut status, 0) },
            child,
            "{}",
            std::io::Error::last_os_error()
        );
        libc::WTERMSIG(status)
    }

    fn store(mapping: &Mapping, byte: u8) {
        // SAFETY: the mapping is alive and has more bytes, which nothing refers to.
        unsafe { mapping.memory().add(5000).write_volatile(byte) };
    }

    fn load(mapping: &Mapping) -> u8 {
        // SAFETY: as above.
        unsafe { mapping.memory().add(5000).read_volatile() }
    }

    #[test]
    fn a_child_reads_the_mappings_of_its_parent_and_cannot_store_into_them() {
        let files: Vec<_> = (0..3).map(|_| tempfile::tempfile().unwrap()).collect();
        let mut mappings: Vec<_> = files.iter().map(mapping).collect();
        // A place that was left serves the next mapping.
        mappings.remove(1);
        mappings.push(mapping(&files[1]));
        for mapping in &mappings {
            store(mapping, 7);
            assert_eq!(end_of_child(|| assert_eq!(load(mapping), 7)), 0);
            assert_eq!(end_of_child(|| store(mapping, 8)), libc::SIGSEGV);
            assert_eq!(load(mapping), 7);
            store(mapping, 9);
        }
    }

    #[test]
    fn a_child_stores_into_a_mapping_of_its_own() {
        let file = tempfile::tempfile().unwrap();
        let ended = end_of_child(|| {
            let own = mapping(&file);
            store(&own, 7);
            assert_eq!(load(&own), 7);
        });
        assert_eq!(ended, 0);
        assert_eq!(load(&mapping(&file)), 7, "the child got that far");
    }
}
