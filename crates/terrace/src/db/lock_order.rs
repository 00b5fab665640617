//! The order of a store's locks, in their types.
//!
//! A thread that holds a lock waits only for locks of later places. So two threads never wait for each
//! other. A debug build asserts it at each lock; a release build holds nothing but the lock.
//!
//! Places are those of a thread, for all stores together. So a debug build also refuses a `Storage`
//! of the caller's that writes into another store while this one holds a place.

use std::fmt;
use std::ops::{Deref, DerefMut};

use terrace_lsm::sync::{Mutex, MutexGuard};

/// The places, in their order.
pub(crate) mod place {
    pub(crate) const CLOSE: u32 = 0;
    pub(crate) const LEADERSHIP: u32 = 1;
    pub(crate) const WRITER: u32 = 2;
    pub(crate) const LEDGER: u32 = 3;
    pub(crate) const ARENAS: u32 = 4;
    pub(crate) const VIEW: u32 = 5;
    pub(crate) const BOARD: u32 = 6;
    pub(crate) const HISTORY: u32 = 7;
    pub(crate) const WORKER: u32 = 8;
}

/// A lock at a place of the order.
#[derive(Default)]
pub(crate) struct OrderedMutex<const PLACE: u32, T>(Mutex<T>);

/// A lock that is held. Its place is free again when it is dropped.
pub(crate) struct OrderedGuard<'a, const PLACE: u32, T> {
    guard: MutexGuard<'a, T>,
    _held: Held<PLACE>,
}

impl<const PLACE: u32, T> OrderedMutex<PLACE, T> {
    pub(crate) fn new(value: T) -> Self {
        OrderedMutex(Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub(crate) fn lock(&self) -> OrderedGuard<'_, PLACE, T> {
        let held = Held::new();
        OrderedGuard {
            guard: self.0.lock(),
            _held: held,
        }
    }

    /// Takes the lock if it is free, at any place: a thread that does not wait blocks no other.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<OrderedGuard<'_, PLACE, T>> {
        let guard = self.0.try_lock()?;
        let held = Held::out_of_order();
        Some(OrderedGuard { guard, _held: held })
    }
}

impl<'a, const PLACE: u32, T> OrderedGuard<'a, PLACE, T> {
    /// Returns the guard for a wait on a condition variable.
    pub(crate) fn waitable(&mut self) -> &mut MutexGuard<'a, T> {
        &mut self.guard
    }
}

impl<const PLACE: u32, T> Deref for OrderedGuard<'_, PLACE, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<const PLACE: u32, T> DerefMut for OrderedGuard<'_, PLACE, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<const PLACE: u32, T> fmt::Debug for OrderedMutex<PLACE, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedMutex").finish_non_exhaustive()
    }
}

use self::held::Aside;
pub(crate) use self::held::Held;

/// Runs a caller's code, which may use other stores. These do not see the places that the thread holds.
pub(crate) fn aside<T>(call: impl FnOnce() -> T) -> T {
    let _aside = Aside::new();
    call()
}

/// Shuttle runs all its threads in one, which would seem to hold all their locks.
#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod held {
    use std::cell::Cell;

    thread_local! {
        /// A bit for each place that the thread holds.
        static PLACES: Cell<u32> = const { Cell::new(0) };
    }

    /// A place that the thread holds.
    pub(crate) struct Held<const PLACE: u32> {
        /// False if the thread held the place before.
        is_first: bool,
    }

    impl<const PLACE: u32> Held<PLACE> {
        /// Asserts that the thread holds no place from this one on, and takes the place.
        pub(crate) fn new() -> Self {
            let later = PLACES.get() >> PLACE;
            assert!(
                later == 0,
                "a lock is out of order: the thread holds place {} and waits for place {PLACE}",
                PLACE + later.trailing_zeros()
            );
            Held::out_of_order()
        }

        /// Takes the place for a lock that the thread did not wait for.
        pub(crate) fn out_of_order() -> Self {
            let places = PLACES.get();
            PLACES.set(places | 1 << PLACE);
            Held {
                is_first: places & 1 << PLACE == 0,
            }
        }
    }

    /// The places that a thread held before a caller's code.
    pub(crate) struct Aside(u32);

    impl Aside {
        pub(crate) fn new() -> Self {
            Aside(PLACES.replace(0))
        }
    }

    impl Drop for Aside {
        fn drop(&mut self) {
            let _ = PLACES.try_with(|places| places.set(self.0));
        }
    }

    impl<const PLACE: u32> Drop for Held<PLACE> {
        fn drop(&mut self) {
            if self.is_first {
                // A thread that ends holds nothing that counts.
                let _ = PLACES.try_with(|places| places.set(places.get() & !(1 << PLACE)));
            }
        }
    }
}

#[cfg(not(all(debug_assertions, not(feature = "shuttle"))))]
mod held {
    /// A place that the thread holds.
    pub(crate) struct Held<const PLACE: u32>;

    impl<const PLACE: u32> Held<PLACE> {
        #[inline]
        pub(crate) fn new() -> Self {
            Held
        }

        #[inline]
        pub(crate) fn out_of_order() -> Self {
            Held
        }
    }

    /// The places that a thread held before a caller's code.
    pub(crate) struct Aside;

    impl Aside {
        pub(crate) fn new() -> Self {
            Aside
        }
    }
}

#[cfg(all(test, debug_assertions, not(feature = "shuttle")))]
mod tests {
    use super::*;

    type Early = OrderedMutex<2, ()>;
    type Late = OrderedMutex<5, ()>;

    #[test]
    fn later_places_follow_earlier_ones() {
        let (early, late) = (Early::new(()), Late::new(()));
        for _ in 0..2 {
            let first = early.lock();
            let second = late.lock();
            // The order of releases does not matter.
            drop(first);
            drop(second);
        }
    }

    #[test]
    #[should_panic(expected = "holds place 5 and waits for place 2")]
    fn an_earlier_place_after_a_later_one_is_met() {
        let (early, late) = (Early::new(()), Late::new(()));
        let _late = late.lock();
        let _early = early.lock();
    }

    #[test]
    #[should_panic(expected = "holds place 5 and waits for place 5")]
    fn two_locks_of_one_place_are_met() {
        let (one, other) = (Late::new(()), Late::new(()));
        let _one = one.lock();
        let _other = other.lock();
    }

    #[test]
    fn a_callers_code_may_use_the_locks_of_another_store() {
        let (early, late) = (Early::new(()), Late::new(()));
        let held = late.lock();
        aside(|| drop(early.lock()));
        drop(held);
        drop(early.lock());
    }

    #[test]
    fn a_thread_that_does_not_wait_may_take_any() {
        let (early, late) = (Early::new(()), Late::new(()));
        let _late = late.lock();
        assert!(early.try_lock().is_some());
        assert!(late.try_lock().is_none());
    }
}
