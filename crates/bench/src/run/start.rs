//! The moment from which a phase is timed: all its threads are there.

use std::sync::{Barrier, OnceLock};
use std::time::Instant;

/// Threads that wait for each other, and the clock that then starts.
pub struct Start {
    all_there: Barrier,
    at: OnceLock<Instant>,
}

impl Start {
    /// Makes a start of this many threads.
    pub fn of(threads: usize) -> Start {
        Start {
            all_there: Barrier::new(threads),
            at: OnceLock::new(),
        }
    }

    /// Waits until all threads do, and says when that was: the same moment to each.
    pub fn wait(&self) -> Instant {
        self.all_there.wait();
        self.at()
    }

    /// Returns the moment that [`wait`](Self::wait) returns, after it has returned to one thread at
    /// least.
    pub fn at(&self) -> Instant {
        *self.at.get_or_init(Instant::now)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_clock_starts_when_the_last_thread_is_there() {
        let start = Start::of(3);
        let late = Duration::from_millis(30);
        let before = Instant::now();
        let told: Vec<Instant> = thread::scope(|scope| {
            let threads = [0, 1, 2].map(|index| {
                let start = &start;
                scope.spawn(move || {
                    thread::sleep(late * index);
                    start.wait()
                })
            });
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert!(told.iter().all(|at| *at == told[0] && *at == start.at()));
        assert!(told[0] - before >= 2 * late);
    }
}
