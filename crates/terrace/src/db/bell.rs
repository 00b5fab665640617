//! A bell that wakes a [`Timer`](super::persist_timer::Timer) before its time.
//!
//! Ringing a bell that has rung already costs one load, so callers may ring it often.

use std::time::Duration;

use terrace_lsm::sync::atomic::{AtomicBool, Ordering};
use terrace_lsm::sync::{Condvar, Mutex};

/// The bell. One thread waits for it.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    has_rung: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a thread waits, and a ringing ends its wait.
    is_listening: bool,
    is_over: bool,
}

impl Bell {
    /// Wakes the thread that waits, now or when it listens next.
    pub(crate) fn ring(&self) {
        // A ringing that no thread has taken yet stands for this one, too.
        if self.has_rung.load(Ordering::Acquire) || self.has_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        // Under the lock, or the thread could be between its question and its sleep.
        if self.state.lock().is_listening {
            self.changed.notify_all();
        }
    }

    /// Takes the ringing, and returns whether there was one. The thread then sees all changes made
    /// before it.
    pub(crate) fn take(&self) -> bool {
        self.has_rung.swap(false, Ordering::AcqRel)
    }

    /// Ends all waiting, for ever.
    pub(crate) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits for this time; false if the waiting has ended for ever.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        self.wait(time, false)
    }

    /// Waits until it rings, this time at most; false if the waiting has ended for ever.
    pub(crate) fn listen(&self, time: Duration) -> bool {
        self.wait(time, true)
    }

    fn wait(&self, time: Duration, listens: bool) -> bool {
        let mut state = self.state.lock();
        let has_rung = listens && self.has_rung.load(Ordering::Acquire);
        if !state.is_over && !has_rung {
            state.is_listening = listens;
            self.changed.wait_for(&mut state, time);
            state.is_listening = false;
        }
        !state.is_over
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Longer than any test may take.
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_ringing_is_heard_once_and_ends_no_sleep() {
        let bell = Bell::default();
        assert!(!bell.take());
        bell.ring();
        bell.ring();
        assert!(bell.listen(LONG), "it rang before");
        assert!(bell.take() && !bell.take());
        std::thread::scope(|scope| {
            let heard = scope.spawn(|| bell.listen(LONG));
            bell.ring();
            assert!(heard.join().unwrap());
        });
        let ended = std::thread::scope(|scope| {
            let ended = scope.spawn(|| bell.sleep(LONG));
            bell.ring();
            bell.end();
            ended.join().unwrap()
        });
        assert!(!ended && !bell.listen(LONG));
    }
}
