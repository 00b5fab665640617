//! The phases of a measurement, their time, and the reports to the caller.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::error::{Error, Result};

/// A part of a measurement, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The file is written in order and synced.
    Write,
    /// The file is read in order.
    Read,
    /// Pages of 4 KiB are read at random, one at a time.
    RandomRead,
    /// Pages of 4 KiB are read at random, 32 at a time.
    QueuedRead,
    /// Pages of 4 KiB are written, each with a sync.
    Sync,
}

impl Phase {
    /// Every phase, in the order of time.
    pub const ALL: [Phase; 5] = [
        Phase::Write,
        Phase::Read,
        Phase::RandomRead,
        Phase::QueuedRead,
        Phase::Sync,
    ];

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Write => "sequential write",
            Phase::Read => "sequential read",
            Phase::RandomRead => "random reads",
            Phase::QueuedRead => "random reads, 32 at a time",
            Phase::Sync => "syncs",
        }
    }

    /// Returns the share of the time, in percent. The first write fills the file that all other phases use,
    /// so it has the largest.
    const fn percent(self) -> u32 {
        match self {
            Phase::Write => 40,
            Phase::Read => 20,
            Phase::RandomRead | Phase::QueuedRead => 15,
            Phase::Sync => 10,
        }
    }

    /// Returns the shares of the phases before this one, in percent.
    fn percent_before(self) -> u32 {
        let before = Phase::ALL.iter().take_while(|phase| **phase != self);
        before.map(|phase| phase.percent()).sum()
    }
}

/// The way that a measurement has gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The phase under way.
    pub phase: Phase,
    /// Share of the measurement that is done, from 0 to 1. It jumps ahead when a phase ends early.
    pub share: f64,
}

/// Holds phases to their time, and tells the caller of the progress.
pub(super) struct Watch<'a> {
    max_duration: Duration,
    tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        max_duration: Duration,
        tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Self {
        Watch { max_duration, tell }
    }

    /// Begins a phase.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the caller breaks off.
    pub(super) fn begin(&mut self, phase: Phase) -> Result<Stage> {
        let stage = Stage {
            phase,
            began: Instant::now(),
            max_duration: self.max_duration * phase.percent() / 100,
        };
        self.reach(&stage, 0.0)?;
        Ok(stage)
    }

    /// Tells the caller that a share of the phase's work is done.
    ///
    /// # Errors
    /// As [`Watch::begin`].
    pub(super) fn reach(&mut self, stage: &Stage, work: f64) -> Result<()> {
        let progress = Progress {
            phase: stage.phase,
            share: share(stage.phase, work.max(stage.time_share())),
        };
        match (self.tell)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    }
}

/// Returns the share of the measurement that a share of a phase ends.
fn share(phase: Phase, of_phase: f64) -> f64 {
    let percent = f64::from(phase.percent()) * of_phase.clamp(0.0, 1.0);
    (f64::from(phase.percent_before()) + percent) / 100.0
}

/// A phase under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    phase: Phase,
    began: Instant,
    max_duration: Duration,
}

impl Stage {
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn is_over(&self) -> bool {
        self.elapsed() >= self.max_duration
    }

    fn time_share(&self) -> f64 {
        let max_s = self.max_duration.as_secs_f64().max(f64::MIN_POSITIVE);
        self.elapsed().as_secs_f64() / max_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_phases_are_the_whole() {
        let mut before = 0.0;
        for phase in Phase::ALL {
            assert_eq!(share(phase, 0.0), before, "{phase:?}");
            assert!(share(phase, 0.5) > before);
            before = share(phase, 1.0);
            assert_eq!(share(phase, 7.0), before, "a phase that lasts too long");
        }
        assert_eq!(before, 1.0);
    }

    #[test]
    fn a_caller_who_breaks_off_interrupts() {
        let mut told = Vec::new();
        let mut tell = |progress: Progress| {
            told.push(progress.phase);
            match told.len() {
                ..3 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        let mut watch = Watch::new(Duration::from_secs(3600), &mut tell);
        let stage = watch.begin(Phase::Sync).unwrap();
        assert!(!stage.is_over());
        watch.reach(&stage, 0.5).unwrap();
        assert!(matches!(watch.reach(&stage, 0.7), Err(Error::Interrupted)));
        assert_eq!(told, [Phase::Sync; 3]);
        let mut go_on = |_| ControlFlow::Continue(());
        let none = Watch::new(Duration::ZERO, &mut go_on).begin(Phase::Read);
        assert!(none.unwrap().is_over());
    }
}
