//! A store that completes nothing, whatever it waits for: it would withhold the others' figures
//! forever.

use std::time::{Duration, Instant};

use crate::run::Progress;

/// How far a run was when it was last seen to get anywhere.
#[derive(Default)]
pub struct Hang {
    last: Option<(String, u64, Instant)>,
}

impl Hang {
    const AFTER: Duration = Duration::from_secs(300);
    /// A scan of everything is one operation, and may take longer.
    const LEAST_OPERATIONS: u64 = 1000;

    /// Returns whether nothing was completed for so long, while something was asked for.
    pub fn lasts(&mut self, progress: &Progress, now: Instant) -> bool {
        match &self.last {
            Some((phase, operations, since))
                if (phase, *operations) == (&progress.phase, progress.operations) =>
            {
                progress.of >= Self::LEAST_OPERATIONS
                    && progress.operations < progress.of
                    && now - *since >= Self::AFTER
            }
            _ => {
                self.last = Some((progress.phase.clone(), progress.operations, now));
                false
            }
        }
    }

    /// Describes the hang in words.
    pub fn told(progress: &Progress) -> String {
        format!(
            "phase {}: it hangs after {} of {} operations: nothing was completed for {} s",
            progress.phase,
            progress.operations,
            progress.of,
            Self::AFTER.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_completes_nothing_for_long_hangs_unless_it_settles() {
        let at = |operations| Progress {
            phase: "load".into(),
            operations,
            of: 1000,
        };
        let start = Instant::now();
        let mut hang = Hang::default();
        assert!(!hang.lasts(&at(3), start));
        assert!(!hang.lasts(&at(3), start + Hang::AFTER / 2));
        assert!(!hang.lasts(&at(4), start + Hang::AFTER));
        assert!(!hang.lasts(&at(4), start + Hang::AFTER + Hang::AFTER / 2));
        assert!(hang.lasts(&at(4), start + 2 * Hang::AFTER));
        // All is done, and merges take their time.
        assert!(!hang.lasts(&at(1000), start + 2 * Hang::AFTER));
        assert!(!hang.lasts(&at(1000), start + 4 * Hang::AFTER));
        let scan = Progress { of: 1, ..at(0) };
        assert!(!hang.lasts(&scan, start));
        assert!(!hang.lasts(&scan, start + 2 * Hang::AFTER));
    }
}
