//! Waiting for an owner that is leaving: an opening that finds a lock taken is repeated.
//!
//! All of the opening is repeated, not the lock alone. A refused opening has released its own
//! locks, so it blocks no other while it pauses, and it believes nothing that it saw before. A lock
//! that blocks (`flock` without `LOCK_NB`) would do neither, has no time limit, and ends at no
//! request.

use std::time::Duration;

use terrace_storage::Clock;

use crate::{Error, Result};

/// The first pause and the longest one. Owners that live for one command leave within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Returns the pause behind a number of refused attempts: each is twice as long as the one before, up to
/// the longest.
fn pause_after(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(u64::BITS / 2);
    let pause = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
    pause.min(LONGEST_PAUSE)
}

/// Returns whether an attempt failed by a lock that another holds. No other failure goes by itself.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Busy { .. })
}

/// Opens by `attempt`, again and again while another holds a lock, until `patience` is over.
/// `attempt` gets the number of refusals before it.
///
/// # Errors
/// [`Error::Busy`] with the time that was waited, and at once every other error of `attempt`.
pub fn wait_for_lock<T>(
    patience: Option<Duration>,
    clock: &dyn Clock,
    mut attempt: impl FnMut(u32) -> Result<T>,
) -> Result<T> {
    let patience = patience.unwrap_or_default();
    let began_ns = clock.now_ns();
    let mut refused = 0;
    loop {
        let mut error = match attempt(refused) {
            Err(error) if is_refusal(&error) => error,
            ended => return ended,
        };
        let elapsed = Duration::from_nanos(clock.now_ns().saturating_sub(began_ns));
        let left = patience.saturating_sub(elapsed);
        if left.is_zero() {
            if let Error::Busy { waited, .. } = &mut error {
                *waited = patience;
            }
            return Err(error);
        }
        refused = refused.saturating_add(1);
        clock.sleep(pause_after(refused).min(left));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Sleeps pass at once, and are noted.
    #[derive(Debug, Default)]
    struct NotedClock(Mutex<Vec<Duration>>);

    impl Clock for NotedClock {
        fn now_ns(&self) -> u64 {
            let slept: Duration = self.0.lock().unwrap().iter().sum();
            u64::try_from(slept.as_nanos()).unwrap()
        }

        fn sleep(&self, time: Duration) {
            let mut sleeps = self.0.lock().unwrap();
            sleeps.push(time);
            assert!(sleeps.len() < 1_000, "a wait without end");
        }
    }

    impl NotedClock {
        fn sleeps_ms(&self) -> Vec<u128> {
            let sleeps = self.0.lock().unwrap();
            sleeps.iter().map(Duration::as_millis).collect()
        }
    }

    fn busy() -> Error {
        Error::Busy {
            path: "store".into(),
            socket: None,
            waited: Duration::ZERO,
        }
    }

    fn refused(patience: Option<Duration>, clock: &NotedClock) -> Error {
        wait_for_lock(patience, clock, |_| Err::<(), _>(busy())).unwrap_err()
    }

    #[test]
    fn pauses_grow_from_5_to_100_ms() {
        let pauses = [1, 2, 3, 4, 5, 6, 7, 100, u32::MAX].map(pause_after);
        let pauses = pauses.map(|pause| pause.as_millis());
        assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100, 100, 100]);
    }

    #[test]
    fn who_does_not_wait_is_refused_at_once() {
        for patience in [None, Some(Duration::ZERO)] {
            let clock = NotedClock::default();
            let error = refused(patience, &clock);
            assert!(matches!(error, Error::Busy { waited, .. } if waited.is_zero()));
            assert!(clock.sleeps_ms().is_empty());
            assert!(!error.to_string().contains(" s"), "{error}");
        }
    }

    #[test]
    fn a_wait_ends_with_its_time_and_a_last_attempt() {
        let clock = NotedClock::default();
        let mut attempts = Vec::new();
        let patience = Duration::from_millis(330);
        let error = wait_for_lock(Some(patience), &clock, |refused| {
            attempts.push(refused);
            Err::<(), _>(busy())
        });
        assert_eq!(clock.sleeps_ms(), [5, 10, 20, 40, 80, 100, 75]);
        assert_eq!(attempts, [0, 1, 2, 3, 4, 5, 6, 7]);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("its LOCK is held, and was for 0.3 s"),
            "{error}"
        );
        // A time that no clock shows.
        assert!(matches!(
            wait_for_lock(Some(Duration::MAX), &clock, |refused| match refused {
                50 => Ok(()),
                _ => Err(busy()),
            }),
            Ok(())
        ));
    }

    #[test]
    fn a_lock_that_is_given_back_ends_the_wait() {
        let clock = NotedClock::default();
        let opened = wait_for_lock(Some(Duration::from_secs(1)), &clock, |refused| {
            (refused == 3).then_some("open").ok_or_else(busy)
        });
        assert_eq!(opened.unwrap(), "open");
        assert_eq!(clock.sleeps_ms(), [5, 10, 20]);
    }

    #[test]
    fn no_other_error_is_waited_out() {
        let clock = NotedClock::default();
        let opened = wait_for_lock(Some(Duration::from_secs(1)), &clock, |refused| {
            Err::<(), _>(match refused {
                0 => busy(),
                _ => Error::WouldStall,
            })
        });
        assert!(matches!(opened, Err(Error::WouldStall)), "{opened:?}");
        assert_eq!(clock.sleeps_ms(), [5]);
    }
}
