//! Merging tables downwards: the policy decides, this file carries it out.
//!
//! Several workers take turns at the board of jobs (`jobs.rs`). A worker begins what the policy
//! chooses: a move is one edit, a merge is divided into slices. Then workers build slices, each its
//! own, and hand them to the installing thread, which syncs them and has each take the place of its
//! inputs by one edit, in the order of the keys. The inputs stay listed, narrowed to what is not
//! merged yet; their files go when the last reader's version that lists them is gone.
//!
//! A slice that fails or is cut short by a close throws its outputs away. The rest of its merge is
//! decided anew; what is installed stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_storage::Purpose;

use crate::compaction::claim::Claim;
use crate::compaction::counted::Counted;
use crate::compaction::drop_rules::{DropRules, Keys};
use crate::compaction::legality::{check_legal, older_elsewhere};
use crate::compaction::merge::merge;
use crate::compaction::policy::{Choice, ChoiceKind, Policy, described_by};
use crate::compaction::slices::{
    Sample, Slice, bytes_of, divide, recount, slice_bytes, slice_bytes_within, slice_edit,
    table_bytes_within,
};
use crate::compaction::space::{Space, part_that_stays};
use crate::compaction::table_ends::{TableEnds, align, wanted, with_distances};
use crate::compaction::targets::Shape;
use crate::cursor::Cursor;
use crate::cursor::MergingCursor;
use crate::db::Store;
use crate::db::arena_ranges::RangesInArenas;
use crate::db::compaction_history::{Began, Compaction};
use crate::db::jobs::{Begun, BuiltSlice, Ended, SliceWork, Work};
use crate::db::keyspaces::live;
use crate::db::ledger::Ledger;
use crate::db::monitor::{Known, is_setback};
use crate::db::tombstones::SeenBeside;
use crate::event::EventKind;
use crate::levels::{
    Edit, KeyspaceLevels, SubLevelCursor, Table, TableMoved, TableRemoved, Version,
};
use crate::range_tombstones::RangeTombstones;
use crate::table::CursorOptions;
use crate::time_profile::{Path, Stage};
use crate::{Error, KeyspaceId, Result};

/// Returns the claims in a keyspace.
pub(crate) fn claims_of(claims: &[(KeyspaceId, Claim)], keyspace: KeyspaceId) -> Vec<Claim> {
    let of_keyspace = claims.iter().filter(|(id, _)| *id == keyspace);
    of_keyspace.map(|(_, claim)| claim.clone()).collect()
}

impl Store {
    /// A compaction worker's step: the next slice of a merge, or the beginning of another one.
    pub(crate) fn compaction_step(&self) -> Result<bool> {
        let done = self.with_reserve(|| self.compact());
        self.lifecycle.background.deletion_wanted(self);
        if let Err(error) = &done {
            self.compactor.jobs.ended(Err(error.clone()));
        }
        done
    }

    fn compact(&self) -> Result<bool> {
        self.check_poison()?;
        if self.options.read_only {
            return Ok(false);
        }
        if self.lifecycle.closing.load(Ordering::Acquire) {
            self.compactor.jobs.ended(Err(Error::Closed));
            return Ok(false);
        }
        // Not while the board is held: files may have to be read.
        let known = self.known_duplicates();
        let seen = self.seen_beside(RangesInArenas::Persisted);
        let choose = |claims: &[(KeyspaceId, Claim)]| self.choose(claims, &known, &seen);
        let work = self.compactor.jobs.next(choose)?;
        // It holds tables that a merge may make obsolete.
        drop(known);
        match work {
            None => return Ok(false),
            Some(Work::Begin(begun)) => {
                if self.begin(&begun)? {
                    let now_seconds = self.lifecycle.clock.unix_seconds();
                    self.compactor
                        .passed_over
                        .spend(begun.keyspace, &begun.choice, now_seconds);
                }
            }
            Some(Work::Build(work)) => self.build(work)?,
        }
        Ok(true)
    }

    /// The most urgent merge or move of the first keyspace that has one, beside what is claimed. Leftovers
    /// wait for all keyspaces.
    fn choose(
        &self,
        claims: &[(KeyspaceId, Claim)],
        known: &Known,
        seen: &SeenBeside,
    ) -> Result<Option<(KeyspaceId, Choice)>> {
        let version = Arc::clone(&self.reads.view.load().version);
        self.writes
            .backlog
            .set_overdue(self.overdue(&version, claims, known));
        let mut leftover = None;
        let mut chosen = None;
        for levels in version.keyspaces.values() {
            let claims = claims_of(claims, levels.id);
            let is_paid_for = self
                .compactor
                .level0_probes
                .have_paid(levels, Shape::of(self.form_of(levels)));
            let policy = self.policy_of(levels, is_paid_for, seen);
            let Some(choice) = policy.pick(levels, &claims, known) else {
                continue;
            };
            if !choice.is_leftover() {
                chosen = Some((levels, choice));
                break;
            }
            leftover.get_or_insert((levels, choice));
        }
        let Some((levels, choice)) = chosen.or(leftover) else {
            return Ok(None);
        };
        if choice.is_of_level0() {
            self.compactor.level0_probes.spend(levels.id);
        }
        check_legal(levels, &choice).map_err(|broken| {
            Error::invalid(format!(
                "the policy chose against the order of ages: {broken}"
            ))
        })?;
        let name = || {
            self.compactor
                .next_sub_level
                .fetch_add(1, Ordering::Relaxed)
        };
        Ok(Some((levels.id, choice.named(name))))
    }

    /// How far the merges of the keyspace that is worst off are behind.
    fn overdue(&self, version: &Version, claims: &[(KeyspaceId, Claim)], known: &Known) -> f64 {
        let keyspaces = version.keyspaces.values().map(|levels| {
            let claims = claims_of(claims, levels.id);
            let policy = described_by(&self.options, self.form_of(levels), false);
            policy.overdue(levels, &claims, known)
        });
        keyspaces.fold(0.0, f64::max)
    }

    /// False if it was put off for want of space, until others have given some back.
    pub(crate) fn begin(&self, begun: &Begun) -> Result<bool> {
        let began = Began::now(begun.job, &begun.choice);
        let done = match begun.choice.kind {
            ChoiceKind::Move => self.move_tables(begun).map(|()| true),
            ChoiceKind::Removal => self.remove_tables(begun).map(|()| true),
            ChoiceKind::Merge => self.divide(begun),
        };
        if matches!(done, Ok(false)) {
            return done;
        }
        let is_over = done.is_err() || begun.choice.kind != ChoiceKind::Merge;
        let done = self.unless_dropped(begun.keyspace, done.map(|_| ()));
        let done = done.map(|()| true);
        if is_over {
            let past = Compaction {
                cut_short: done.as_ref().err().map(ToString::to_string),
                keyspace: self.name_of(begun.keyspace),
                ..began.past()
            };
            self.metrics.compactions.add(begun.keyspace, past);
            self.compactor.jobs.remove(begun.job);
            self.compactor.jobs.ended(done.clone());
        }
        // There may be something for the others, too.
        self.lifecycle.background.compaction_wanted(self);
        done
    }

    fn move_tables(&self, begun: &Begun) -> Result<()> {
        let (keyspace, to) = (begun.keyspace, begun.choice.output);
        let inputs = begun.choice.inputs.iter();
        let numbers: Vec<u64> = inputs.map(|input| input.table.number).collect();
        let moved = |&number| TableMoved {
            keyspace,
            number,
            to,
        };
        self.install_edit(Edit {
            tables_moved: numbers.iter().map(moved).collect(),
            ..Edit::default()
        })?;
        self.metrics
            .counters
            .moves
            .fetch_add(numbers.len() as u64, Ordering::Relaxed);
        self.metrics.events.record(EventKind::TablesMoved {
            keyspace,
            tables: numbers,
            output_level: to.level,
        });
        Ok(())
    }

    /// Removes tables that no reader sees any more, by one edit.
    fn remove_tables(&self, begun: &Begun) -> Result<()> {
        let keyspace = begun.keyspace;
        let inputs = begun.choice.inputs.iter();
        let numbers: Vec<u64> = inputs.clone().map(|input| input.table.number).collect();
        let removed = |&number| TableRemoved { keyspace, number };
        self.install_edit(Edit {
            tables_removed: numbers.iter().map(removed).collect(),
            ..Edit::default()
        })?;
        self.metrics
            .counters
            .removals
            .fetch_add(numbers.len() as u64, Ordering::Relaxed);
        self.metrics.events.record(EventKind::TablesRemoved {
            keyspace,
            tables: numbers,
            bytes: inputs.map(|input| input.table.size_bytes).sum(),
        });
        Ok(())
    }

    /// Divides a merge into slices and puts them on the board; false if it is put off, since what it needs is
    /// not free beside others.
    fn divide(&self, begun: &Begun) -> Result<bool> {
        let _watched = self
            .metrics
            .time_profile
            .watch_more(Path::Merge, Stage::Merging);
        let choice = &begun.choice;
        let options = CursorOptions::uncached(Purpose::Compaction);
        let (mut samples, mut hidden, mut input_bytes) = (Vec::new(), Vec::new(), 0);
        let ranges = self.input_ranges(choice, &Slice::ALL)?;
        let oldest_snapshot = self.oldest_snapshot();
        for input in &choice.inputs {
            let table = &input.table;
            let keys = table.open(&self.files.tables)?.sampled_keys(options)?;
            let bytes = table.size_bytes / (keys.len() as u64).max(1);
            input_bytes += table.size_bytes;
            let inside = keys.into_iter().filter(|key| table.bounds.contains(key));
            for user_key in inside {
                let range = ranges.newest_covering(&user_key, oldest_snapshot);
                let sample = Sample { user_key, bytes };
                if range.is_some_and(|range| range.sequence > table.max_sequence) {
                    hidden.push(sample.clone());
                }
                samples.push(sample);
            }
        }
        let version = Arc::clone(&self.reads.view.load().version);
        let levels = live(&version, begun.keyspace)?;
        let free_bytes = self.files.directory.free_space_bytes()?;
        let each_bytes = slice_bytes(
            input_bytes,
            self.options.compaction_threads,
            table_bytes_within(self.form_of(levels).table_bytes, free_bytes),
            self.options.slice_bytes,
        );
        let each_bytes =
            slice_bytes_within(each_bytes, self.options.compaction_threads, free_bytes);
        let ends = if self.options.compaction_policy.is_by_duplicates() {
            let keys = wanted(levels, choice);
            with_distances(keys, &samples, part_that_stays(choice))
        } else {
            Vec::new()
        };
        let counted = if ends.is_empty() {
            Vec::new()
        } else {
            samples.clone()
        };
        let mut slices = divide(samples, each_bytes);
        if !ends.is_empty() {
            align(&mut slices, &ends);
            recount(&mut slices, &counted);
        }
        let hidden_bytes = bytes_of(&slices, &hidden);
        let workers = self.options.compaction_threads;
        let space = Space::of(choice, &slices, &hidden_bytes, workers);
        let reserved = self
            .compactor
            .jobs
            .reserve_space(begun.job, space, |bytes| self.has_space(bytes));
        if !reserved? {
            return Ok(false);
        }
        let levels: BTreeSet<u8> = choice.inputs.iter().map(|i| i.place.level).collect();
        self.metrics.events.record(EventKind::MergeBegun {
            job: begun.job,
            keyspace: begun.keyspace,
            reason: choice.reason.to_string(),
            input_levels: levels.into_iter().collect(),
            output_level: choice.output.level,
            tables: choice.inputs.len(),
            input_bytes,
            slices: slices.len(),
        });
        self.compactor.jobs.divided(begun.job, slices, ends.into());
        Ok(true)
    }

    /// Builds a slice and hands it on.
    fn build(&self, work: SliceWork) -> Result<()> {
        self.metrics.events.record(EventKind::SliceBegun {
            job: work.job,
            slice: work.number,
            from: work.slice.from.clone(),
            to: work.slice.to.clone(),
        });
        let written = self
            .metrics
            .latencies
            .slice
            .time(|| self.write_slice(work.clone()));
        match written {
            Ok(built) => {
                if let Some(useless) = self.compactor.jobs.built(built) {
                    self.abandon(useless.work.clone(), Some(useless), Error::Closed);
                    return Ok(());
                }
                self.lifecycle.background.install(self)
            }
            Err(error) => {
                self.compactor.jobs.not_built(&work);
                let keyspace = work.keyspace;
                self.abandon(work, None, error.clone());
                self.unless_dropped(keyspace, Err(error))
            }
        }
    }

    fn write_slice(&self, work: SliceWork) -> Result<BuiltSlice> {
        let _watched = self.metrics.time_profile.watch(Path::Merge, Stage::Merging);
        // A guess is no reason not to try where the disk will have more room afterwards.
        if work.given_back_bytes < work.expected_bytes {
            self.check_space(work.expected_bytes)?;
        }
        let (choice, slice) = (&*work.choice, &work.slice);
        let version = Arc::clone(&self.reads.view.load().version);
        let levels = live(&version, work.keyspace)?;
        let table_bytes = self.table_bytes_of(levels)?;
        // After the version: whatever is in it is at or below a number visible by now, or stays.
        let snapshots = self.reads.snapshots.stripes(|| self.visible());
        // What merges under way take from one place and put into another is listed at one of them
        // in every version, so it is enough to ask any.
        let older = |keys: Keys<'_>| older_elsewhere(levels, choice, keys);
        let ranges = self.input_ranges(choice, slice)?;
        let rules = DropRules::new(&snapshots, &older, &ranges);
        let in_slice = choice.inputs.iter();
        let in_slice = in_slice.filter(|input| slice.overlaps(&input.table.bounds));
        let mut sink = self
            .table_files(levels, choice.output, Purpose::Compaction)
            .with_oldest_tombstone(self.oldest_tombstone(in_slice));
        let mut versions = Counted::new(self.inputs(choice, slice, &rules));
        let merged = merge(
            &mut versions,
            slice,
            rules,
            TableEnds::near(slice.even_table_bytes(table_bytes), &work.ends),
            &self.lifecycle.closing,
            &mut sink,
        );
        let files = sink.into_files();
        match merged {
            Ok(tables) => Ok(BuiltSlice {
                work,
                read_versions: versions.passed(),
                tables,
                files,
            }),
            Err(error) => self.settle_files(files, Err(error)),
        }
    }

    /// The versions of all inputs of a slice in order: one cursor for each sub-level. The block
    /// cache is neither asked nor filled. Tables that a deleted range hides are not read at all.
    pub(crate) fn inputs(
        &self,
        choice: &Choice,
        slice: &Slice,
        rules: &DropRules<'_>,
    ) -> MergingCursor<impl Cursor + use<>> {
        let options = CursorOptions::uncached(Purpose::Compaction);
        let mut by_age = BTreeMap::<_, Vec<_>>::new();
        let is_read = |table: &Table| {
            let (start, end) = slice.part_of(&table.bounds);
            let sequences = table.min_sequence..=table.max_sequence;
            slice.overlaps(&table.bounds) && !rules.hides(&start, &end, sequences)
        };
        let inputs = choice.inputs.iter();
        for input in inputs.filter(|input| is_read(&input.table)) {
            let tables = by_age.entry(input.place.age).or_default();
            tables.push(Arc::clone(&input.table));
        }
        let cursor = |mut tables: Vec<Arc<Table>>| {
            tables.sort_by(|a, b| a.bounds.smallest.cmp(&b.bounds.smallest));
            SubLevelCursor::over_tables(tables, self.opener(options))
        };
        MergingCursor::new(by_age.into_values().map(cursor).collect())
    }

    /// The range tombstones of all inputs of a slice, each only where its table counts.
    pub(crate) fn input_ranges(&self, choice: &Choice, slice: &Slice) -> Result<RangeTombstones> {
        let mut list = Vec::new();
        for table in choice.inputs.iter().map(|input| &input.table) {
            if table.range_tombstones == 0 || !slice.overlaps(&table.bounds) {
                continue;
            }
            let open = table.open(&self.files.tables)?;
            let of_table = open
                .range_tombstones()
                .into_iter()
                .flat_map(|set| set.iter());
            list.extend(of_table.filter_map(|found| slice.clip(found.into(), &table.bounds)));
        }
        Ok(RangeTombstones::new(list))
    }

    /// The installing thread's step: the next slice that nothing is missing before takes the place
    /// of its inputs.
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
            .and_then(|()| Ok(self.files.directory.sync()?));
        let edit = slice_edit(work.keyspace, &work.choice, &work.slice, &built.tables);
        if let Err(error) = durable.and_then(|()| self.install_edit(edit)) {
            let keyspace = work.keyspace;
            self.abandon(work, Some(built), error.clone());
            return self.unless_dropped(keyspace, Err(error));
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

    /// Throws a slice away, and what is built of the merge behind it.
    fn abandon(&self, work: SliceWork, built: Option<BuiltSlice>, error: Error) {
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

    /// What fails because its keyspace is gone has not failed.
    fn unless_dropped(&self, keyspace: KeyspaceId, done: Result<()>) -> Result<()> {
        match done {
            Err(_) if self.is_dropped(keyspace) => Ok(()),
            done => done,
        }
    }

    /// Counts a merge that has ended, and remembers it. Under the lock of the board, so that whoever waited
    /// for the merge finds it.
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
            keyspace: self.name_of(ended.keyspace),
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

    /// The keyspace's name, its number if it was dropped.
    fn name_of(&self, keyspace: KeyspaceId) -> String {
        let present = self.present_name(keyspace);
        present.unwrap_or_else(|| keyspace.to_string())
    }

    /// Ends background work. What merges have built and not installed is thrown away.
    pub(crate) fn stop_background(&self) {
        self.lifecycle.background.stop();
        for built in self.compactor.jobs.close() {
            let _ = self.settle_files(built.files, Err::<(), _>(Error::Closed));
        }
    }

    /// Returns the size of tables that a keyspace gets at present.
    pub(crate) fn table_bytes_of(&self, levels: &KeyspaceLevels) -> Result<u64> {
        let free_bytes = self.files.directory.free_space_bytes()?;
        Ok(table_bytes_within(
            self.form_of(levels).table_bytes,
            free_bytes,
        ))
    }

    /// Inputs and outputs exist side by side for a while; better not begin than fail in the middle.
    fn check_space(&self, needed_bytes: u64) -> Result<()> {
        let needed_bytes = self.beside_unflushed(needed_bytes);
        match self.is_free(needed_bytes)? {
            true => Ok(()),
            false => Err(self.no_space(needed_bytes)),
        }
    }

    fn has_space(&self, needed_bytes: u64) -> Result<bool> {
        self.is_free(self.beside_unflushed(needed_bytes))
    }

    /// Adds the room in tables that unflushed arenas need, for flushes come first.
    fn beside_unflushed(&self, needed_bytes: u64) -> u64 {
        needed_bytes.saturating_add(self.unflushed_table_bytes())
    }

    fn is_free(&self, needed_bytes: u64) -> Result<bool> {
        let is_free =
            || -> Result<bool> { Ok(self.files.directory.free_space_bytes()? >= needed_bytes) };
        if is_free()? {
            return Ok(true);
        }
        self.delete_now();
        if is_free()? {
            return Ok(true);
        }
        // Btrfs gives nothing back before.
        self.files.directory.sync()?;
        is_free()
    }

    fn no_space(&self, needed_bytes: u64) -> Error {
        Error::NoSpace {
            path: self.files.path.clone(),
            needed_bytes,
        }
    }

    /// Makes an edit durable and shows its version to readers.
    pub(crate) fn install_edit(&self, edit: Edit) -> Result<()> {
        self.record_and_show(&mut self.manifest_log.ledger.lock(), edit)
    }

    pub(crate) fn record_and_show(&self, ledger: &mut Ledger, edit: Edit) -> Result<()> {
        self.record(ledger, edit)?;
        let version = Arc::clone(&ledger.state.version);
        self.change_view(|view| view.version = version);
        Ok(())
    }

    /// Waits until no level is over its target.
    pub(crate) fn settle(&self) -> Result<()> {
        self.check_writable()?;
        while self.lifecycle.background.wait_for_compaction(self)? {
            self.check_process()?;
            self.check_writable()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::testing::added;
    use crate::levels::{Place, TableAdded};
    use crate::{Background, Db, KeyspaceOptions, Options};

    /// A table of a level: its smallest and its largest key, and its bytes.
    type Listed = (u8, &'static str, &'static str, u64);

    /// Level 2 is over its target from below alone, as in a store of an older release.
    const LEFTOVERS: &[Listed] = &[
        (1, "a", "z", 300),
        (2, "a", "m", 4900),
        (2, "n", "z", 4900),
        (3, "a", "m", 2500),
        (3, "n", "z", 2500),
    ];
    /// Level 1 is over all its targets.
    const ORDINARY: &[Listed] = &[(1, "a", "m", 10_000), (1, "n", "z", 10_000)];

    /// Makes keyspaces of such tables, which have no files. Returns the position of the one that a worker begins with,
    /// and whether it begins with a leftover.
    fn chosen(keyspaces: &[&[Listed]]) -> Option<(usize, bool)> {
        let options = Options {
            background: Background::Inline,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        let form = KeyspaceOptions {
            level1_bytes: 1024,
            ..KeyspaceOptions::default()
        };
        let mut ids = Vec::new();
        for (at, tables) in keyspaces.iter().enumerate() {
            let keyspace = db.create_keyspace(&at.to_string(), form.clone()).unwrap();
            let tables_added = tables.iter().map(|&(level, smallest, largest, bytes)| {
                let number = db.store().files.next_table.fetch_add(1, Ordering::Relaxed);
                let mut listed = added(Place::base(level), number, smallest, largest);
                listed.table.keyspace = keyspace.id();
                listed.table.size_bytes = bytes;
                listed
            });
            let tables_added: Vec<TableAdded> = tables_added.collect();
            let edit = Edit {
                tables_added,
                ..Edit::default()
            };
            db.store().install_edit(edit).unwrap();
            ids.push(keyspace.id());
        }
        assert!(ids.is_sorted(), "a version lists keyspaces by their ids");
        let store = db.store();
        let seen = store.seen_beside(RangesInArenas::Persisted);
        let known = store.known_duplicates();
        let (keyspace, choice) = store.choose(&[], &known, &seen).unwrap()?;
        let at = ids.iter().position(|id| *id == keyspace).unwrap();
        Some((at, choice.is_leftover()))
    }

    #[test]
    fn leftovers_of_a_keyspace_wait_for_the_work_of_all_others() {
        assert_eq!(chosen(&[&[]]), None);
        assert_eq!(chosen(&[ORDINARY, LEFTOVERS]), Some((0, false)));
        assert_eq!(chosen(&[LEFTOVERS, ORDINARY]), Some((1, false)));
        let behind = [LEFTOVERS, &[], LEFTOVERS, ORDINARY, LEFTOVERS];
        assert_eq!(chosen(&behind), Some((3, false)));
        // Only then the first of them.
        assert_eq!(chosen(&[&[], LEFTOVERS, LEFTOVERS]), Some((1, true)));
    }

    #[test]
    fn a_merge_leaves_the_room_that_unflushed_arenas_need_in_tables() {
        let db = Db::open("/store", Options::in_memory()).unwrap();
        db.put(b"a", b"").unwrap();
        let unflushed_bytes = db.store().unflushed_table_bytes();
        assert!(unflushed_bytes > 0);
        let needed_bytes = db.store().beside_unflushed(1000);
        assert!(needed_bytes >= 1000 + unflushed_bytes, "{needed_bytes}");
    }
}
