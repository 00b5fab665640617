//! A value that a process makes once, and for which no thread waits.
//!
//! In a child of a fork, a thread that waits for another thread to make a value waits for ever:
//! that thread is its parent's. So a thread that comes second makes a value of its own instead.

use std::sync::OnceLock;

use parking_lot::Mutex;

/// The value, once it is there.
pub(crate) struct MadeOnce<T> {
    value: OnceLock<T>,
    making: Mutex<()>,
}

impl<T> MadeOnce<T> {
    pub(crate) const fn new() -> Self {
        MadeOnce {
            value: OnceLock::new(),
            making: Mutex::new(()),
        }
    }

    /// Returns the value, which `make` makes if there is none; `None` while another thread is at
    /// it.
    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> Option<&T> {
        if let Some(known) = self.value.get() {
            return Some(known);
        }
        // With it no other thread is inside the next call.
        let _turn = self.making.try_lock()?;
        Some(self.value.get_or_init(make))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_not_waited_for() {
        let made = MadeOnce::new();
        let turn = made.making.lock();
        assert_eq!(made.get(|| 1), None, "somebody is at it");
        drop(turn);
        assert_eq!(made.get(|| 2), Some(&2));
        let _turn = made.making.lock();
        assert_eq!(made.get(|| 3), Some(&2));
    }
}
