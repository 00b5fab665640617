//! Slices take the place of their inputs, in the order of the keys, and a merge ends.

use std::sync::atomic::{AtomicU64, Ordering};

use terrace_lsm::compaction::slices::slice_edit;
use terrace_lsm::time_profile::{Path, Stage};

use crate::db::Store;
use crate::db::compaction_history::Compaction;
use crate::db::jobs::{BuiltSlice, Ended, SliceWork};
use crate::db::monitor::is_setback;
use crate::event::EventKind;
use crate::{Error, Result};

impl Store {
    /// Takes the installing thread's step: the next slice with no slice missing before it takes the
    /// place of its inputs.
    pub(crate) fn install_step(&self) -> Result<bool> {
        self.check_poison()?;
        let Some(built) = self.compactor.jobs.take_installable() else {
            return Ok(false);
        };
        let installed = self.install_slice(built);
        if let Err(error) = &installed {
            // The slice is gone; the next job has the space.
            self.gives_reserve_for(error);
            self.compactor.jobs.ended(Err(error.clone()));
        }
        self.lifecycle.background.deletion_wanted(self);
        self.lifecycle.background.compaction_wanted(self);
        installed.map(|()| true)
    }

    fn install_slice(&self, mut built: BuiltSlice) -> Result<()> {
        let _watched = self
            .metrics
            .time_profile
            .watch_more(Path::Merge, Stage::Install);
        let work = built.work.clone();
        let durable = built
            .files
            .sync()
            .and_then(|()| self.files.data.sync_tiers(built.files.tiers()));
        let edit = slice_edit(work.keyspace, &work.choice, &work.slice, &built.tables);
        if let Err(error) = durable.and_then(|()| self.install_edit(edit)) {
            let keyspace = work.keyspace;
            self.abandon(work, Some(built), error.clone());
            return self.reads.unless_dropped(keyspace, Err(error));
        }
        if work.choice.is_of_level0() {
            self.compactor.level0_probes.spend(work.keyspace);
        }
        self.metrics.counters.slices.fetch_add(1, Ordering::Relaxed);
        self.metrics.events.record(EventKind::SliceInstalled {
            job: work.job,
            slice: work.number,
            tables: built.tables.len(),
            input_bytes: work.slice.input_bytes,
            written_bytes: built.tables.iter().map(|table| table.size_bytes).sum(),
        });
        let mut past = None;
        let count = |ended: &Ended| past = Some(self.count_merge(ended));
        if let Some((ended, past)) = self.compactor.jobs.installed(&built, count).zip(past) {
            self.merge_ended(&ended, &past);
        }
        Ok(())
    }

    /// Throws a slice away, and the built slices of the merge behind it.
    pub(super) fn abandon(&self, work: SliceWork, built: Option<BuiltSlice>, error: Error) {
        let (useless, ended) = self.compactor.jobs.give_up(&work, &error);
        for built in useless.into_iter().chain(built) {
            let _ = self.settle_files(built.files, Err::<(), _>(error.clone()));
        }
        self.metrics.events.record(EventKind::SliceFailed {
            job: work.job,
            slice: work.number,
            error,
        });
        if let Some(ended) = ended {
            let past = self.count_merge(&ended);
            self.merge_ended(&ended, &past);
        }
    }

    /// Counts a merge that has ended, and remembers it. The caller holds the lock of the board, so that
    /// threads that waited for the merge find it.
    fn count_merge(&self, ended: &Ended) -> Compaction {
        let progress = &ended.progress;
        let entries = ended.entries();
        let dropped = entries.saturating_sub(progress.written_versions);
        let setback = ended.is_whole() && is_setback(&ended.choice, dropped);
        let counters = &self.metrics.counters;
        let count = |counter: &AtomicU64, number| counter.fetch_add(number, Ordering::Relaxed);
        count(&counters.merges, u64::from(ended.is_whole()));
        let of_range = ended.is_whole() && ended.choice.is_of_range();
        count(&counters.range_merges, u64::from(of_range));
        count(&counters.setbacks, u64::from(setback));
        count(&counters.merged_entries, entries);
        count(&counters.dropped_entries, dropped);
        let past = Compaction {
            output_tables: progress.written_tables,
            output_bytes: progress.written_bytes,
            entries,
            dropped,
            setback,
            slices: ended.slices as u64,
            installed_slices: ended.installed as u64,
            cut_short: progress.failure.as_ref().map(ToString::to_string),
            keyspace: self.reads.name_of(ended.keyspace),
            ..progress.began.past()
        };
        self.metrics.compactions.add(ended.keyspace, past.clone());
        past
    }

    fn merge_ended(&self, ended: &Ended, past: &Compaction) {
        if ended.is_whole() {
            self.compactor.monitor.compare(ended, past);
        }
        self.metrics.events.record(EventKind::MergeEnded {
            job: ended.job,
            installed: ended.installed,
            slices: ended.slices,
            written_bytes: past.output_bytes,
            entries: past.entries,
            predicted_dropped: past.predicted_dropped,
            dropped: past.dropped,
            setback: past.setback,
        });
    }
}
