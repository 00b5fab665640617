//! The shared mappings of this process, which become read-only in a forked child.
//!
//! A child shares them with its parent: a store into one there would change a frame of the parent.
//! Values that point into them stay readable, so they stay mapped.
//!
//! Goal: a handler of `pthread_atfork` finds every mapping that some thread may store into. It runs
//! in the child, where other threads are gone and their locks stay held, so there is no lock here:
//! places form a list that only grows at its front, and a mapping that drops leaves its place to
//! another one. There are as many places as there were mappings at a time.
//!
//! Invariants
//! 1. `memory` of a place is null or begins `length` mapped bytes: `length` is stored before it,
//!    and it is null again before the bytes are unmapped.
//! 2. One mapping owns a place while `taken` is true. Only the owner stores into it.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::io::{Errno, Result};
use terrace_storage::on_fork;

use super::kernel;

static FIRST: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());
/// The handler is in place.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// The note of a mapping. It is never freed.
#[derive(Debug)]
pub(super) struct Place {
    taken: AtomicBool,
    memory: AtomicPtr<u8>,
    length: AtomicUsize,
    next: AtomicPtr<Place>,
}

impl Place {
    /// Frees the place, before its mapping is unmapped.
    pub(super) fn leave(&self) {
        self.memory.store(ptr::null_mut(), Ordering::Release);
        self.taken.store(false, Ordering::Release);
    }

    fn take(&self) -> bool {
        let taken = self
            .taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    fn note(&self, memory: *mut u8, length: usize) {
        self.length.store(length, Ordering::Relaxed);
        self.memory.store(memory, Ordering::Release);
    }
}

/// Notes a mapping, before any thread stores into it.
///
/// # Errors
/// There is no memory for the handler.
pub(super) fn enter(memory: *mut u8, length: usize) -> Result<&'static Place> {
    if !IS_WATCHED.load(Ordering::Acquire) {
        // Two threads may both install it: the second round finds nothing left to do.
        on_fork(protect_all).map_err(|_| Errno::NOMEM)?;
        IS_WATCHED.store(true, Ordering::Release);
    }
    let place = places()
        .find(|place| place.take())
        .unwrap_or_else(new_place);
    place.note(memory, length);
    Ok(place)
}

/// Puts another place at the front, taken.
fn new_place() -> &'static Place {
    let place: &Place = Box::leak(Box::new(Place {
        taken: AtomicBool::new(true),
        memory: AtomicPtr::new(ptr::null_mut()),
        length: AtomicUsize::new(0),
        next: AtomicPtr::new(ptr::null_mut()),
    }));
    let pointer = ptr::from_ref(place).cast_mut();
    let put = |next| {
        place.next.store(next, Ordering::Relaxed);
        FIRST.compare_exchange(next, pointer, Ordering::AcqRel, Ordering::Acquire)
    };
    let mut next = FIRST.load(Ordering::Acquire);
    while let Err(other) = put(next) {
        next = other;
    }
    place
}

fn at(place: &AtomicPtr<Place>) -> Option<&'static Place> {
    // SAFETY: the pointer is null or came from `new_place`, which leaks the place.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

fn places() -> impl Iterator<Item = &'static Place> {
    std::iter::successors(at(&FIRST), |place| at(&place.next))
}

/// Runs in a child before `fork` returns there. It is async-signal-safe: it walks the list, which
/// is whole at every moment, and makes system calls.
extern "C" fn protect_all() {
    for place in places() {
        let memory = place.memory.load(Ordering::Acquire);
        if !memory.is_null() {
            // SAFETY: invariant 1: the bytes are mapped, by this crate and for arenas alone. The
            // thread that could be unmapping them is not in the child. A failure leaves the child
            // as able to write as it was; the store refuses it all the same.
            unsafe { kernel::protect(memory, place.length.load(Ordering::Relaxed)) };
        }
    }
}
