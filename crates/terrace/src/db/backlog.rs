//! The backlog of background work, and the delay that it costs a writer.

use std::time::Duration;

use terrace_lsm::compaction::debt;
use terrace_lsm::compaction::policy::described_by;
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::{KeyspaceLevels, Version};
use terrace_lsm::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use terrace_lsm::sync::{Instant, thread};
use terrace_lsm::time_profile::{Path, Stage};

use crate::Result;
use crate::db::Store;
use crate::db::write::Writer;
use crate::db::write_rate::WriteRate;
use crate::event::EventKind;
use crate::options::{Background, Options};
use crate::write_buffer::batch::WriteBatch;
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::slowdown::{
    Limits, Pressure, Slowdown, slowdown, slowdown_below_sixteenths,
};

/// Debt of the present version, computed once for each version: writers ask at every group.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    debt_bytes: AtomicU64,
    overdue_permille: AtomicU64,
    level0_sub_levels: AtomicUsize,
    /// Write rate that follows the backlog, if there is a limit.
    write_rate: Option<WriteRate>,
}

impl Backlog {
    pub(crate) fn of(version: &Version, options: &Options, write_rate: Option<WriteRate>) -> Self {
        let backlog = Backlog {
            write_rate,
            ..Backlog::default()
        };
        backlog.update(version, options, &options.default_keyspace);
        backlog
    }

    pub(crate) fn update(
        &self,
        version: &Version,
        options: &Options,
        default_form: &KeyspaceOptions,
    ) {
        let debt_bytes = |levels: &KeyspaceLevels| {
            let form = levels.options.as_deref().unwrap_or(default_form);
            described_by(&options.policy_settings(), form, false).debt_bytes(levels)
        };
        let (debt_bytes, level0_sub_levels) = debt::backlog(version, debt_bytes);
        self.debt_bytes.store(debt_bytes, Ordering::Relaxed);
        self.level0_sub_levels
            .store(level0_sub_levels, Ordering::Relaxed);
        if let Some(write_rate) = &self.write_rate {
            write_rate.follow(debt_bytes, level0_sub_levels);
        }
    }

    pub(crate) fn write_rate(&self) -> Option<&WriteRate> {
        self.write_rate.as_ref()
    }

    /// Sets how overdue the next merge is, after a search for it: 1 is one that should have begun.
    pub(crate) fn set_overdue(&self, overdue: f64) {
        self.overdue_permille
            .store((overdue * 1000.0) as u64, Ordering::Relaxed);
    }

    pub(crate) fn overdue_permille(&self) -> u64 {
        self.overdue_permille.load(Ordering::Relaxed)
    }

    pub(crate) fn debt_bytes(&self) -> u64 {
        self.debt_bytes.load(Ordering::Relaxed)
    }
}

/// Delay that a writer owes and has not slept yet. Sleeps are too coarse for single microseconds,
/// and last longer than they were asked to: the excess counts for the next ones.
#[derive(Debug, Default)]
pub(crate) struct OwedDelay {
    nanoseconds: i64,
}

impl OwedDelay {
    const LEAST_SLEEP_NS: i64 = 200_000;
    /// Maximum time that one group, of any size, is held back.
    const LONGEST_SLEEP_NS: i64 = 10_000_000;

    /// Adds a group's delay; returns how long to sleep now, if at all.
    fn add(&mut self, payload_bytes: usize, ns_per_kib: u64) -> Option<Duration> {
        const LEAST_BYTES: u64 = 256;
        let bytes = (payload_bytes as u64).max(LEAST_BYTES);
        let delay_ns = i64::try_from(bytes.saturating_mul(ns_per_kib) / 1024).unwrap_or(i64::MAX);
        self.nanoseconds = self.nanoseconds.saturating_add(delay_ns);
        self.nanoseconds = self.nanoseconds.min(Self::LONGEST_SLEEP_NS);
        let due = self.nanoseconds >= Self::LEAST_SLEEP_NS;
        due.then(|| Duration::from_nanos(self.nanoseconds.unsigned_abs()))
    }

    fn slept(&mut self, time: Duration) {
        let slept_ns = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.nanoseconds = self.nanoseconds.saturating_sub(slept_ns);
        self.nanoseconds = self.nanoseconds.max(-Self::LONGEST_SLEEP_NS);
    }
}

impl Store {
    /// Sleeps as long as the debt of flush and compaction says.
    pub(crate) fn hold_back(&self, writer: &mut Writer, payload_bytes: usize) -> Result<()> {
        loop {
            let active_sixteenths = writer.active.free_sixteenths();
            if active_sixteenths < writer.asks_below_sixteenths {
                writer.asks_below_sixteenths = self.ask_for_spare(active_sixteenths);
            }
            let pressure = self.pressure(&writer.active, active_sixteenths);
            match slowdown(pressure, self.slowdown_limits()) {
                Slowdown::Go => return Ok(()),
                // No work is caught up while the only thread sleeps.
                Slowdown::Delay { .. } if self.options.background == Background::Inline => {
                    return Ok(());
                }
                Slowdown::Delay { ns_per_kib, cause } => {
                    if let Some(sleep) = writer.owed_delay.add(payload_bytes, ns_per_kib) {
                        let _stall = self.metrics.stalls.begin();
                        let _held_back = self
                            .metrics
                            .time_profile
                            .exact(Path::Write, Stage::HeldBack);
                        let began = Instant::now();
                        thread::sleep(sleep);
                        let slept = began.elapsed();
                        writer.owed_delay.slept(slept);
                        self.metrics.stalls.add(cause, slept);
                    }
                    return Ok(());
                }
                Slowdown::Stop { cause } => {
                    let _stall = self.metrics.stalls.begin();
                    let _held_back = self
                        .metrics
                        .time_profile
                        .exact(Path::Write, Stage::HeldBack);
                    let began = Instant::now();
                    let waited = self.lifecycle.background.wait_for_compaction(self);
                    let time = began.elapsed();
                    self.metrics.stalls.add(cause, time);
                    self.metrics
                        .events
                        .record(EventKind::WritersStopped { cause, time });
                    let is_nothing_left = !waited?;
                    self.check_writable()?;
                    if is_nothing_left && self.files.data.has_lost_tiers() {
                        // Compactions keep away from lost tables, and no wait brings these back.
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Returns whether a batch would have to wait for flush or compaction.
    pub(crate) fn would_stall(&self, writer: &Writer, batch: &WriteBatch) -> bool {
        let pressure = self.pressure(&writer.active, writer.active.free_sixteenths());
        let (bytes, records) = (batch.size_bytes(), batch.records());
        !matches!(slowdown(pressure, self.slowdown_limits()), Slowdown::Go)
            || (!writer.active.has_room(bytes, u64::from(records))
                && !self.is_next_arena_ready(bytes, records))
    }

    #[inline]
    fn pressure(&self, active: &MemTable, active_sixteenths: u64) -> Pressure {
        let view = self.reads.view.load();
        Pressure {
            level0_sub_levels: self
                .writes
                .backlog
                .level0_sub_levels
                .load(Ordering::Relaxed),
            debt_bytes: self.writes.backlog.debt_bytes(),
            overdue_permille: self.writes.backlog.overdue_permille(),
            free_sixteenths: view.free_sixteenths(active, active_sixteenths),
        }
    }

    fn slowdown_limits(&self) -> Limits {
        Limits {
            level0_slowdown: self.options.level0_slowdown,
            level0_stop: self.options.level0_stop(),
            debt_slowdown_bytes: self.options.constants.debt_slowdown_bytes,
            debt_stop_bytes: self.options.constants.debt_stop_bytes,
            free_sixteenths_slowdown: slowdown_below_sixteenths(self.options.max_arenas),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_delays_gather_and_long_sleeps_are_given_back() {
        let mut owed = OwedDelay::default();
        let sleeps = (0..10).filter_map(|_| owed.add(1024, 64_000)).count();
        assert_eq!(sleeps, 7, "none before 200 us are owed");
        owed.slept(Duration::from_micros(1000));
        assert_eq!(owed.add(1024, 64_000), None, "360 us were slept in advance");
        let most = owed.add(1 << 30, 1 << 20).unwrap();
        assert_eq!(most, Duration::from_millis(10), "no group waits longer");
    }
}
