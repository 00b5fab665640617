//! A store whose tables are in memory, with merges that are taken step by step.

use crate::cursor::MergingCursor;
use crate::sync::atomic::AtomicBool;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::compaction::claim::Claim;
use crate::compaction::drop_rules::{DropRules, Keys};
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::legality::{check_legal, older_elsewhere};
use crate::compaction::merge::{TableSink, merge};
use crate::compaction::policy::candidate::Candidate;
use crate::compaction::policy::dedup::Dedup;
use crate::compaction::policy::leveled::Leveled;
use crate::compaction::policy::removal::hidden_from;
use crate::compaction::policy::score::Score;
use crate::compaction::policy::superseded;
use crate::compaction::policy::tiered::{LastLevel, Tiered};
use crate::compaction::policy::tombstones::{Seen, Tombstones};
use crate::compaction::policy::{Choice, ChoiceKind, Policy};
use crate::compaction::run::Run;
use crate::compaction::slices::{Sample, Slice, divide, slice_edit};
use crate::compaction::table_ends::TableEnds;
use crate::compaction::targets::Shape;
use crate::cursor::Cursor;
use crate::cursor::testing::{Version as Entry, VersionsCursor};
use crate::key::{InternalKey, Kind, Tag};
use crate::levels::testing::{levels, meta, moved, new_state, replace};
use crate::levels::{
    AgeViolation, Edit, FIRST_SUB_LEVEL_NUMBER, KeyRange, KeyspaceLevels, ManifestState, Table,
    TableAdded, TableMeta, check_age_rule,
};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::table::Superseded;
use crate::{Result, SequenceNumber};

pub(super) const KEYS: u8 = 16;
/// Versions that make a slice.
const SLICE_VERSIONS: u64 = 6;

/// A store without files: the levels, and the contents of every table by number.
pub(super) struct Store {
    pub(super) state: ManifestState,
    pub(super) contents: BTreeMap<u64, Contents>,
    pub(super) policy: Tombstones,
    /// All writes ever: keys, sequence, value (`None` for a delete).
    pub(super) writes: Vec<(Range<u8>, u64, Option<u64>)>,
    buffer: Contents,
    pub(super) snapshots: Vec<u64>,
    pub(super) merges: usize,
    pub(super) removals: usize,
    pub(super) jobs: Vec<Job>,
    next_table: u64,
    next_sub_level: u64,
    pub(super) most_jobs: usize,
}

/// Versions and range tombstones.
#[derive(Clone, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    pub(super) ranges: Vec<RangeTombstone>,
}

/// A merge under way.
pub(super) struct Job {
    choice: Choice,
    slices: Vec<Slice>,
    installed: usize,
    /// Outputs of the slices that are built and not installed.
    built: VecDeque<Vec<(TableMeta, Contents)>>,
}

impl Job {
    fn claim(&self) -> Claim {
        let claim = Claim::of(&self.choice).unwrap();
        claim.beginning_at(&self.slices[self.installed])
    }
}

/// Tables of at most a few versions.
struct Sink<'a> {
    next_number: &'a mut u64,
    open: Contents,
}

impl TableSink for Sink<'_> {
    type Table = (TableMeta, Contents);

    fn add(&mut self, key: InternalKey<'_>, value: &[u8], _: Option<u64>) -> Result<()> {
        self.open
            .entries
            .push((key.user_key.to_vec(), key.tag, value.to_vec()));
        Ok(())
    }

    fn add_range_tombstone(&mut self, start: &[u8], end: &[u8], sequence: u64) -> Result<()> {
        self.open.ranges.push(RangeTombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            sequence,
        });
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.open.entries.len() as u64
    }

    fn finish(&mut self) -> Result<Option<Self::Table>> {
        let contents = std::mem::take(&mut self.open);
        let Contents { entries, ranges } = &contents;
        let points = entries
            .iter()
            .map(|entry| KeyRange::inclusive(&*entry.0, &*entry.0));
        let deleted = ranges.iter().map(|range| KeyRange {
            smallest: range.start.clone(),
            largest: range.end.clone(),
            largest_excluded: true,
        });
        let all: Vec<KeyRange> = points.chain(deleted).collect();
        let Some(bounds) = KeyRange::hull(&all) else {
            return Ok(None);
        };
        let sequences = || {
            let points = entries.iter().map(|entry| entry.1.sequence());
            points.chain(ranges.iter().map(|range| range.sequence))
        };
        let table = TableMeta {
            bounds,
            size_bytes: all.len() as u64,
            entries: entries.len() as u64,
            tombstones: entries
                .iter()
                .filter(|e| e.1.kind() == Some(Kind::Delete))
                .count() as u64,
            range_tombstones: ranges.len() as u64,
            oldest_tombstone_seconds: Some(0),
            superseded: noted(&contents),
            min_sequence: sequences().min().unwrap(),
            max_sequence: sequences().max().unwrap(),
            ..meta(*self.next_number, "", "")
        };
        *self.next_number += 1;
        Ok(Some((table, contents)))
    }
}

/// Counts the superseded versions of a table of these contents, as a reader would.
fn noted(Contents { entries, ranges }: &Contents) -> Option<Superseded> {
    let numbers = |entry: &Entry| {
        let of_key = entries.iter().filter(|other| other.0 == entry.0);
        let newer = of_key.map(|other| other.1.sequence());
        let covers = |range: &&RangeTombstone| range.start <= entry.0 && entry.0 < range.end;
        let ranges = ranges.iter().filter(covers).map(|range| range.sequence);
        let newer = newer.chain(ranges);
        newer.filter(|&n| n > entry.1.sequence()).min()
    };
    let by: Vec<u64> = entries.iter().filter_map(numbers).collect();
    by.iter().max().map(|&largest_by| Superseded {
        versions: by.len() as u64,
        bytes: by.len() as u64,
        largest_by,
    })
}

pub(super) const POLICIES: usize = 5;

/// Makes a policy. Small targets send everything down; a large one for level 1 keeps little in
/// level 0 there.
pub(super) fn policy(number: usize, level0_merge: usize, level1_bytes: u64) -> Box<dyn Policy> {
    let same_form_as_above = (0..7).map(|level| level != 3).collect();
    let shape = Shape {
        level1_bytes,
        level_ratio: 2,
    };
    let last_level = match number {
        0 => {
            return Box::new(Leveled {
                level0_merge,
                level0_is_paid_for: false,
                shape,
                slice_bytes: 16,
                same_form_as_above,
            });
        }
        1 => LastLevel::Leveled(shape),
        _ => LastLevel::Tiered,
    };
    let tiered = Tiered {
        level0_merge,
        sub_levels: 3,
        last_level,
        same_form_as_above,
    };
    match number {
        3 => Box::new(Dedup {
            tiered,
            threshold: 1.2,
        }),
        4 => Box::new(Score {
            tiered,
            min_score: 0.1,
        }),
        _ => Box::new(tiered),
    }
}

/// The versions that merges would drop, counted.
struct Exact<'a>(&'a Store);

impl Estimates for Exact<'_> {
    fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        let contents = run.tables().map(|table| self.0.inside(table));
        let entries: Vec<Entry> = contents.flat_map(|contents| contents.entries).collect();
        let keys: BTreeSet<&[u8]> = entries.iter().map(|entry| entry.0.as_slice()).collect();
        let tombstones = entries
            .iter()
            .filter(|entry| entry.1.kind() == Some(Kind::Delete));
        let tombstones = if run.is_oldest_of(levels) {
            tombstones.count()
        } else {
            0
        };
        let versions = entries.len() as u64;
        Some(Duplicates::new(
            versions,
            keys.len() as f64,
            tombstones as u64,
        ))
    }

    fn merged_now(&self, _: &KeyspaceLevels, _: &Run, at_most: Duplicates) -> Option<Duplicates> {
        Some(at_most)
    }

    fn keys(&self, levels: &KeyspaceLevels, run: &Run) -> Option<f64> {
        let merged = self.merged(levels, run)?;
        Some(merged.versions - merged.droppable)
    }
}

impl Store {
    /// Makes a store in which tombstones are never many or old.
    pub(super) fn new(inner: Box<dyn Policy>) -> Self {
        Store {
            state: new_state(),
            contents: BTreeMap::new(),
            policy: Tombstones {
                inner,
                percent: 0,
                age_seconds: 0,
                seen: Arc::default(),
            },
            writes: Vec::new(),
            buffer: Contents::default(),
            snapshots: Vec::new(),
            merges: 0,
            removals: 0,
            jobs: Vec::new(),
            next_table: 1,
            next_sub_level: FIRST_SUB_LEVEL_NUMBER,
            most_jobs: 0,
        }
    }

    pub(super) fn visible(&self) -> u64 {
        self.writes.len() as u64
    }

    pub(super) fn write(&mut self, key: u8, value: bool) {
        let sequence = self.visible() + 1;
        let kind = if value { Kind::Put } else { Kind::Delete };
        self.writes
            .push((key..key + 1, sequence, value.then_some(sequence)));
        let tag = Tag::new(sequence, kind);
        let entry = (vec![key], tag, sequence.to_le_bytes().to_vec());
        self.buffer.entries.push(entry);
    }

    /// Deletes a range as in a MemTable: a record at the range's start, and the range.
    pub(super) fn delete_range(&mut self, keys: Range<u8>) {
        let sequence = self.visible() + 1;
        let tag = Tag::new(sequence, Kind::RangeDelete);
        let (start, end) = (vec![keys.start], vec![keys.end]);
        self.writes.push((keys, sequence, None));
        self.buffer.entries.push((start.clone(), tag, end.clone()));
        self.buffer.ranges.push(RangeTombstone {
            start,
            end,
            sequence,
        });
    }

    /// Returns the live snapshots and the visible number.
    pub(super) fn stripes(&self) -> Vec<u64> {
        let mut stripes = self.snapshots.clone();
        stripes.push(self.visible());
        stripes.sort_unstable();
        stripes
    }

    fn install(&mut self, edit: &Edit) {
        self.state = self.state.apply(edit).unwrap();
        let listed = &self.state.version;
        self.contents
            .retain(|number, _| levels(listed).find(*number).is_some());
    }

    pub(super) fn run_merge<C: Cursor>(
        &mut self,
        mut inputs: MergingCursor<C>,
        ranges: Vec<RangeTombstone>,
        slice: &Slice,
        table_bytes: u64,
        older: &dyn Fn(Keys<'_>) -> bool,
    ) -> Vec<(TableMeta, Contents)> {
        let stripes = self.stripes();
        let mut sink = Sink {
            next_number: &mut self.next_table,
            open: Contents::default(),
        };
        let ranges = RangeTombstones::new(ranges);
        let rules = DropRules::new(&stripes, older, &ranges);
        let never = AtomicBool::new(false);
        merge(
            &mut inputs,
            slice,
            rules,
            TableEnds::at_size(table_bytes),
            &never,
            &mut sink,
        )
        .unwrap()
    }

    pub(super) fn flush(&mut self) {
        let Contents { entries, ranges } = std::mem::take(&mut self.buffer);
        let buffer = VersionsCursor::new(entries);
        let tables = self.run_merge(
            MergingCursor::new(vec![buffer]),
            ranges,
            &Slice::ALL,
            u64::MAX,
            &|_| true,
        );
        let name = self.name();
        let place = (self.state).next_flush_place(crate::KeyspaceId::DEFAULT, name);
        let added = tables.into_iter().map(|(table, entries)| {
            self.contents.insert(table.number, entries);
            TableAdded { place, table }
        });
        let edit = replace(&[], added.collect());
        self.install(&edit);
    }

    fn name(&mut self) -> u64 {
        self.next_sub_level += 1;
        self.next_sub_level - 1
    }

    /// Returns the facts about tombstones for the policy: each write takes a second.
    fn seen(&self) -> Seen {
        let listed = levels(&self.state.version);
        let hidden = listed
            .tables()
            .filter(|(_, table)| table.range_tombstones > 0);
        let hidden = hidden.map(|(place, table)| {
            let ranges = RangeTombstones::new(self.inside(table).ranges);
            let is_hidden = |entry: &Entry| ranges.newest_covering(&entry.0, u64::MAX).is_some();
            let older = listed.tables().filter(|(p, _)| p.age < place.age);
            let older = older.flat_map(|(_, older)| self.inside(older).entries);
            (table.number, older.filter(is_hidden).count() as u64)
        });
        Seen {
            now_seconds: self.visible(),
            opened_seconds: 0,
            oldest_snapshot: self.stripes()[0],
            hidden: Arc::new(hidden.collect()),
            hidden_from: Arc::new(self.hidden_from()),
            paid_for: Arc::default(),
        }
    }

    fn hidden_from(&self) -> BTreeMap<u64, SequenceNumber> {
        let listed = levels(&self.state.version);
        let mut all = BTreeMap::new();
        for (place, table) in listed.tables() {
            let ranges = RangeTombstones::new(self.inside(table).ranges);
            for (_, older) in listed.tables().filter(|(p, _)| p.age < place.age) {
                if let Some(from) = hidden_from(&ranges, &table.bounds, older) {
                    let known = all.entry(older.number).or_insert(from);
                    *known = from.min(*known);
                }
            }
        }
        all
    }

    /// Begins a merge or does a move; false if there is none that may begin.
    pub(super) fn begin(&mut self) -> bool {
        self.policy.seen = Arc::new(self.seen());
        let levels = Arc::clone(levels(&self.state.version));
        let claims: Vec<Claim> = self.jobs.iter().map(Job::claim).collect();
        let policy = superseded::Superseded {
            inner: &self.policy as &dyn Policy,
            seen: Arc::new(superseded::Seen {
                snapshots: self.stripes(),
                set_back: BTreeSet::new(),
            }),
        };
        let picked = policy.pick(&levels, &claims, &Exact(self));
        let candidates = policy.candidates(&levels, &claims, &Exact(self));
        let first = candidates.iter().find_map(Candidate::choice);
        let told = |choice: Option<&Choice>| choice.map(ToString::to_string);
        assert_eq!(told(first), told(picked.as_ref()), "what is explained");
        let Some(choice) = picked else {
            return false;
        };
        check_legal(&levels, &choice).unwrap();
        let choice = choice.named(|| self.name());
        if choice.kind == ChoiceKind::Merge {
            let samples = choice.inputs.iter().flat_map(|input| {
                let Contents { entries, ranges } = self.inside(&input.table);
                let keys = entries.into_iter().map(|(user_key, ..)| user_key);
                let keys = keys.chain(ranges.into_iter().map(|range| range.start));
                keys.map(|user_key| Sample { user_key, bytes: 1 })
                    .collect::<Vec<_>>()
            });
            let slices = divide(samples.collect(), SLICE_VERSIONS);
            self.jobs.push(Job {
                choice,
                slices,
                installed: 0,
                built: VecDeque::new(),
            });
            self.most_jobs = self.most_jobs.max(self.jobs.len());
            return true;
        }
        let inputs = choice.inputs.iter();
        if choice.kind == ChoiceKind::Removal {
            let numbers: Vec<u64> = inputs.map(|input| input.table.number).collect();
            self.install(&replace(&numbers, Vec::new()));
            self.removals += 1;
            return true;
        }
        let edit = Edit {
            tables_moved: inputs
                .map(|input| moved(input.table.number, choice.output))
                .collect(),
            ..Edit::default()
        };
        self.install(&edit);
        true
    }

    /// Builds one more slice of a merge, if one is left.
    pub(super) fn build(&mut self, at: usize) {
        let levels = Arc::clone(levels(&self.state.version));
        let job = &self.jobs[at];
        let Some(slice) = job.slices.get(job.installed + job.built.len()).cloned() else {
            return;
        };
        let choice = job.choice.clone();
        let inputs = choice.inputs.iter().map(|input| &input.table);
        let inputs: Vec<_> = inputs
            .filter(|table| slice.overlaps(&table.bounds))
            .collect();
        let clip = |table: &&Arc<Table>| {
            let ranges = self.contents[&table.number].ranges.iter().cloned();
            let clipped = ranges.filter_map(|range| slice.clip(range, &table.bounds));
            clipped.collect::<Vec<_>>()
        };
        let ranges = inputs.iter().flat_map(clip).collect();
        let inputs = inputs.iter().map(|table| self.cursor(table)).collect();
        let older = |keys: Keys<'_>| older_elsewhere(&levels, &choice, keys);
        let tables = self.run_merge(MergingCursor::new(inputs), ranges, &slice, 3, &older);
        self.jobs[at].built.push_back(tables);
    }

    /// Installs the first slice of a merge, if it is built.
    pub(super) fn install_slice(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        let Some(built) = job.built.pop_front() else {
            return;
        };
        let (tables, entries): (Vec<_>, Vec<_>) = built.into_iter().unzip();
        let slice = &job.slices[job.installed];
        let edit = slice_edit(crate::KeyspaceId::DEFAULT, &job.choice, slice, &tables);
        job.installed += 1;
        if job.installed == job.slices.len() {
            self.jobs.remove(at);
            self.merges += 1;
        }
        let numbers = tables.iter().map(|table| table.number);
        self.contents.extend(numbers.zip(entries));
        self.install(&edit);
    }

    /// Does one merge or move, from beginning to end.
    pub(super) fn compact(&mut self) -> bool {
        let began = self.begin();
        while !self.jobs.is_empty() {
            self.build(0);
            self.install_slice(0);
        }
        began
    }

    /// Merges until nothing is left to do; returns the number of merges.
    pub(super) fn come_to_rest(&mut self) -> usize {
        let mut merges = 0;
        while self.compact() {
            self.check();
            merges += 1;
            assert!(merges < 20, "the policy never comes to rest");
        }
        merges
    }

    /// Returns the contents of a table that count.
    fn inside(&self, table: &Table) -> Contents {
        let contents = &self.contents[&table.number];
        let entries = contents.entries.iter();
        let ranges = contents.ranges.iter().cloned();
        let (from, to) = (&table.bounds.smallest, table.bounds.end());
        let clipped = ranges.filter_map(|range| range.clipped(Some(from), Some(&to)));
        Contents {
            entries: entries
                .filter(|entry| table.bounds.contains(&entry.0))
                .cloned()
                .collect(),
            ranges: clipped.collect(),
        }
    }

    pub(super) fn cursor(&self, table: &Table) -> VersionsCursor {
        VersionsCursor::new(self.inside(table).entries)
    }

    /// Returns the ranges of the whole file, as a reader of tables gets them.
    fn ranges_of(&self, table: &Table) -> Option<Arc<RangeTombstones>> {
        let ranges = self.contents[&table.number].ranges.clone();
        Some(Arc::new(RangeTombstones::new(ranges)))
    }

    /// Reads as a reader does: the buffer, then the tables from the youngest on; the first version
    /// found is the answer.
    fn get(&self, key: u8, snapshot: u64) -> Option<u64> {
        let tables = levels(&self.state.version).tables_for_key(std::slice::from_ref(&key));
        let tables = tables.map(|table| self.inside(table));
        for contents in std::iter::once(self.buffer.clone()).chain(tables) {
            let ranges = RangeTombstones::new(contents.ranges);
            let deleted = ranges.newest_covering(&[key], snapshot);
            let mut cursor = VersionsCursor::new(contents.entries);
            cursor.seek(InternalKey::seek(&[key], snapshot)).unwrap();
            let found = cursor.valid() && cursor.key().user_key == [key];
            if deleted.is_some_and(|d| !found || cursor.key().sequence() < d.sequence) {
                return None;
            }
            if found {
                let folds_to_value = cursor.key().tag.kind() == Some(Kind::Put);
                return folds_to_value
                    .then(|| u64::from_le_bytes(cursor.value().try_into().unwrap()));
            }
        }
        None
    }

    pub(super) fn violation(&self) -> Option<AgeViolation> {
        let cursor = |table: &Arc<Table>| Ok(self.cursor(table));
        let ranges = |table: &Arc<Table>| Ok(self.ranges_of(table));
        check_age_rule(&self.state.version, cursor, ranges).unwrap()
    }

    pub(super) fn check(&self) {
        assert_eq!(self.violation(), None);
        for snapshot in self.stripes() {
            for key in 0..KEYS {
                let written = self.writes.iter().rev();
                let expected = written
                    .filter(|write| write.0.contains(&key) && write.1 <= snapshot)
                    .map(|write| write.2)
                    .next()
                    .flatten();
                assert_eq!(self.get(key, snapshot), expected, "key {key} at {snapshot}");
            }
        }
    }
}
