//! Shuttle's primitives, with the interface of those that are used otherwise.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

pub use shuttle::sync::atomic;
pub use shuttle::{hint, thread};

/// As `parking_lot::Mutex`.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// As `parking_lot::MutexGuard`. Empty only inside [`Condvar::wait`].
pub struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

/// As `parking_lot::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(
            self.0.lock().unwrap_or_else(|broken| broken.into_inner()),
        ))
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|held| MutexGuard(Some(held)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().unwrap()
    }
}

impl Condvar {
    pub fn new() -> Self {
        Condvar::default()
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().unwrap();
        guard.0 = Some(
            self.0
                .wait(held)
                .unwrap_or_else(|broken| broken.into_inner()),
        );
    }

    /// Waits for a notification only: time stands still here.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) {
        self.wait(guard);
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// As `arc_swap::ArcSwap`, which it is: one step, before which others may run.
#[derive(Debug, Default)]
pub struct ArcSwap<T> {
    value: arc_swap::ArcSwap<T>,
    step: atomic::AtomicBool,
}

impl<T> ArcSwap<T> {
    pub fn new(value: Arc<T>) -> Self {
        ArcSwap {
            value: arc_swap::ArcSwap::new(value),
            step: atomic::AtomicBool::new(false),
        }
    }

    pub fn load(&self) -> arc_swap::Guard<Arc<T>> {
        self.step.load(atomic::Ordering::SeqCst);
        self.value.load()
    }

    pub fn load_full(&self) -> Arc<T> {
        self.step.load(atomic::Ordering::SeqCst);
        self.value.load_full()
    }

    pub fn store(&self, value: Arc<T>) {
        self.step.load(atomic::Ordering::SeqCst);
        self.value.store(value);
    }
}

/// Everything takes the same time, long for a sync and short for work that waits for others: a
/// schedule depends on nothing but its seed.
#[derive(Clone, Copy, Debug)]
pub struct Instant;

impl Instant {
    pub fn now() -> Self {
        Instant
    }

    pub fn elapsed(self) -> Duration {
        Duration::from_micros(50)
    }
}
