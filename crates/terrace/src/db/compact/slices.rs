//! Slices of a merge: a merge is divided into them, and workers write them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use terrace_lsm::compaction::counted::Counted;
use terrace_lsm::compaction::drop_rules::{DropRules, Keys};
use terrace_lsm::compaction::legality::older_elsewhere;
use terrace_lsm::compaction::merge::merge;
use terrace_lsm::compaction::placement::heat::HeatCut;
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::compaction::slices::{
    Sample, Slice, bytes_of, divide, recount, slice_bytes, slice_bytes_within, table_bytes_within,
};
use terrace_lsm::compaction::space::{Space, part_that_stays};
use terrace_lsm::compaction::table_ends::{Ends, TableEnds, align, wanted, with_distances};
use terrace_lsm::cursor::{Cursor, MergingCursor};
use terrace_lsm::levels::{SubLevelCursor, Table};
use terrace_lsm::range_tombstones::RangeTombstones;
use terrace_lsm::table::CursorOptions;
use terrace_lsm::time_profile::{Path, Stage};
use terrace_storage::Purpose;

use crate::db::Store;
use crate::db::jobs::{Begun, BuiltSlice, SliceWork};
use crate::db::keyspaces::live;
use crate::db::owners::Files;
use crate::db::table_files::Expected;
use crate::event::EventKind;
use crate::{Error, Result};

/// The outcome of dividing a merge into slices.
pub(super) enum Divided {
    IntoSlices,
    /// Other merges hold the space that it needs.
    PutOff,
    /// It is for the places of its outputs alone, and these would be where the inputs are.
    ForNothing,
}

impl Store {
    /// Divides a merge into slices and puts them on the board.
    pub(super) fn divide(&self, begun: &Begun) -> Result<Divided> {
        let _watched = self
            .metrics
            .time_profile
            .watch_more(Path::Merge, Stage::Merging);
        let choice = &begun.choice;
        let options = CursorOptions::uncached(Purpose::Compaction);
        let (mut samples, mut hidden, mut input_bytes) = (Vec::new(), Vec::new(), 0);
        let ranges = self.files.input_ranges(choice, &Slice::ALL)?;
        let oldest_snapshot = self.reads.oldest_snapshot();
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
        let free_bytes = self.files.room_bytes(choice.frees_space())?;
        let each_bytes = slice_bytes(
            input_bytes,
            self.options.compaction_threads,
            table_bytes_within(self.form_of(levels).table_bytes, free_bytes),
            self.options.constants.slice_bytes,
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
        let needed_bytes = space.needed_from(0);
        let reserved = self
            .compactor
            .jobs
            .reserve_space(begun.job, space, |bytes| {
                self.has_space(bytes, choice.frees_space())
            });
        if !reserved? {
            return Ok(Divided::PutOff);
        }
        // Not for a merge that is put off: outputs get the rates of its inputs here.
        let heat = self.heat_cuts(levels, choice)?;
        if choice.is_for_reads() && !self.is_worth_dividing(&heat, needed_bytes)? {
            return Ok(Divided::ForNothing);
        }
        self.metrics
            .events
            .record(merge_begun(begun, input_bytes, slices.len()));
        let ends = Ends { near: ends, heat };
        self.compactor.jobs.divided(begun.job, slices, ends.into());
        Ok(Divided::IntoSlices)
    }

    /// Returns whether tables with hot and cold parts are cut at all, and whether there is room for that. It takes
    /// no room that flushes may need.
    fn is_worth_dividing(&self, cuts: &[HeatCut], needed_bytes: u64) -> Result<bool> {
        let beside_bytes = self.next_arena_bytes();
        Ok(cuts.len() > 1 && self.has_space(needed_bytes + beside_bytes, false)?)
    }

    /// Builds a slice and hands it on.
    pub(super) fn build(&self, work: SliceWork) -> Result<()> {
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
                self.reads.unless_dropped(keyspace, Err(error))
            }
        }
    }

    fn write_slice(&self, work: SliceWork) -> Result<BuiltSlice> {
        let _watched = self.metrics.time_profile.watch(Path::Merge, Stage::Merging);
        // A guess is no reason not to try where the disk will have more room afterwards.
        if work.given_back_bytes < work.expected_bytes {
            self.check_space(work.expected_bytes, work.choice.frees_space())?;
        }
        let (choice, slice) = (&*work.choice, &work.slice);
        let version = Arc::clone(&self.reads.view.load().version);
        let levels = live(&version, work.keyspace)?;
        let table_bytes = self.table_bytes_of(levels)?;
        // After the version: every entry in it is at or below a number visible by now, or stays.
        let snapshots = self.reads.snapshots.stripes(|| self.reads.visible());
        // Merges under way move entries from one place to another. Every version lists these at one
        // of the two, so it is enough to ask any.
        let older = |keys: Keys<'_>| older_elsewhere(levels, choice, keys);
        let ranges = self.files.input_ranges(choice, slice)?;
        let rules = DropRules::new(&snapshots, &older, &ranges);
        let in_slice = choice.inputs.iter();
        let in_slice = in_slice.filter(|input| slice.overlaps(&input.table.bounds));
        let expected = Expected {
            bytes: work.expected_bytes,
            table_bytes,
            makes_room: choice.frees_space(),
            max_sequence: in_slice.clone().map(|input| input.table.max_sequence).max(),
        };
        let mut sink = self
            .table_files(levels, choice.output, Purpose::Compaction, expected)
            .with_heat(self, levels, &work.ends.heat)
            .with_oldest_tombstone(self.lifecycle.oldest_tombstone(in_slice));
        let mut versions = Counted::new(self.files.inputs(choice, slice, &rules));
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
}

fn merge_begun(begun: &Begun, input_bytes: u64, slices: usize) -> EventKind {
    let choice = &begun.choice;
    let input_levels: BTreeSet<u8> = choice.inputs.iter().map(|i| i.place.level).collect();
    EventKind::MergeBegun {
        job: begun.job,
        keyspace: begun.keyspace,
        reason: choice.reason.to_string(),
        input_levels: input_levels.into_iter().collect(),
        output_level: choice.output.level,
        tables: choice.inputs.len(),
        input_bytes,
        slices,
    }
}

impl Files {
    /// Returns the versions of all inputs of a slice in order: one cursor for each sub-level. The
    /// block cache is neither asked nor filled. Tables that a deleted range hides are not read.
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
}

impl Files {
    /// Returns the range tombstones of all inputs of a slice, each only where its table counts.
    pub(crate) fn input_ranges(&self, choice: &Choice, slice: &Slice) -> Result<RangeTombstones> {
        let mut list = Vec::new();
        for table in choice.inputs.iter().map(|input| &input.table) {
            if table.range_tombstones == 0 || !slice.overlaps(&table.bounds) {
                continue;
            }
            let open = table.open(&self.tables)?;
            let of_table = open
                .range_tombstones()
                .into_iter()
                .flat_map(|set| set.iter());
            list.extend(of_table.filter_map(|found| slice.clip(found.into(), &table.bounds)));
        }
        Ok(RangeTombstones::new(list))
    }
}
