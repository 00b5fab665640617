//! The primitives of synchronisation, under one name each.
//!
//! Concurrent structures that are tested under *shuttle* (feature `shuttle`, for tests only) take
//! theirs from here. Shuttle then runs their tests under thousands of schedules and repeats the one
//! that failed. It knows program order and blocking. Weak memory is for Miri and the thread
//! sanitizer.

#[cfg(not(feature = "shuttle"))]
mod primitives {
    pub use std::sync::atomic;
    pub use std::time::Instant;
    pub use std::{hint, thread};

    pub use arc_swap::ArcSwap;
    pub use parking_lot::{Condvar, Mutex, MutexGuard};
}

#[cfg(feature = "shuttle")]
#[allow(clippy::unwrap_used, reason = "shuttle is for tests only")]
mod primitives;
#[cfg(feature = "shuttle")]
pub mod schedules;

#[allow(unused_imports, reason = "not every alias is used in every build")]
pub use primitives::*;
