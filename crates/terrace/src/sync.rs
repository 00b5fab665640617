//! The primitives of synchronisation, under one name each.
//!
//! Concurrent structures that are tested under *shuttle* (feature `shuttle`, tests only) take
//! theirs from here: shuttle then runs their tests under thousands of schedules and repeats the one
//! that failed. It knows program order and blocking, not weak memory: that is what Miri and the
//! thread sanitizer look at.

#[cfg(not(all(test, feature = "shuttle")))]
mod primitives {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::time::Instant;
    pub(crate) use std::{hint, thread};

    pub(crate) use arc_swap::ArcSwap;
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
}

#[cfg(all(test, feature = "shuttle"))]
mod primitives;

#[allow(unused_imports, reason = "not every alias is used in every build")]
pub(crate) use primitives::*;
