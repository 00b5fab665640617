//! Flushes, merges and moves on tables in memory, held against a list of all writes: what the
//! policy, the claims, the legality rules, the drop rules, the merge, its slices and the version
//! set do together. Several merges are under way at a time, and their slices are built and
//! installed in any order that the engine allows.

use crate::sync::atomic::AtomicBool;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::MergingCursor;
use super::claim::Claim;
use super::drop_rules::{DropRules, Keys};
use super::estimates::{Duplicates, Estimates};
use super::legality::{check_legal, older_elsewhere};
use super::merge::tests::{Version as Entry, VersionsCursor};
use super::merge::{TableSink, merge};
use super::policy::candidate::Candidate;
use super::policy::dedup::Dedup;
use super::policy::leveled::Leveled;
use super::policy::score::Score;
use super::policy::tiered::{LastLevel, Tiered};
use super::policy::tombstones::{Seen, Tombstones};
use super::policy::{Choice, ChoiceKind, Policy};
use super::run::Run;
use super::slices::{Sample, Slice, divide, slice_edit};
use super::table_ends::TableEnds;
use crate::Result;
use crate::cursor::Cursor;
use crate::key::{InternalKey, Kind, Tag};
use crate::levels::testing::{levels, meta, moved, new_state, replace};
use crate::levels::{
    AgeViolation, Edit, FIRST_SUB_LEVEL_NUMBER, KeyRange, KeyspaceLevels, ManifestState, Table,
    TableAdded, TableMeta, check_age_rule,
};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};

/// A store without files: the levels, and the contents of every table by number.
struct Store {
    state: ManifestState,
    contents: BTreeMap<u64, Contents>,
    policy: Tombstones,
    /// All writes ever: keys, sequence, value (`None` for a delete).
    writes: Vec<(Range<u8>, u64, Option<u64>)>,
    buffer: Contents,
    snapshots: Vec<u64>,
    merges: usize,
    jobs: Vec<Job>,
    next_table: u64,
    next_sub_level: u64,
    most_jobs: usize,
}

/// Versions and range tombstones.
#[derive(Clone, Default)]
struct Contents {
    entries: Vec<Entry>,
    ranges: Vec<RangeTombstone>,
}

/// A merge under way.
struct Job {
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

    fn add(&mut self, key: InternalKey<'_>, value: &[u8]) -> Result<()> {
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
            min_sequence: sequences().min().unwrap(),
            max_sequence: sequences().max().unwrap(),
            ..meta(*self.next_number, "", "")
        };
        *self.next_number += 1;
        Ok(Some((table, contents)))
    }
}

const POLICIES: usize = 5;

/// Small targets send everything down; a large one for level 1 keeps little in level 0 there.
fn policy(number: usize, level0_merge: usize, level1_bytes: u64) -> Box<dyn Policy> {
    let same_form_as_above = (0..7).map(|level| level != 3).collect();
    let last_level = match number {
        0 => {
            return Box::new(Leveled {
                level0_merge,
                level0_is_paid_for: false,
                level1_bytes,
                level_ratio: 2,
                same_form_as_above,
            });
        }
        1 => LastLevel::Leveled {
            level1_bytes,
            level_ratio: 2,
        },
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
            least_score: 0.1,
        }),
        _ => Box::new(tiered),
    }
}

/// What merges would drop, counted.
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
    /// No tombstone is ever full or old.
    fn new(inner: Box<dyn Policy>) -> Self {
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
            jobs: Vec::new(),
            next_table: 1,
            next_sub_level: FIRST_SUB_LEVEL_NUMBER,
            most_jobs: 0,
        }
    }

    fn visible(&self) -> u64 {
        self.writes.len() as u64
    }

    fn write(&mut self, key: u8, value: bool) {
        let sequence = self.visible() + 1;
        let kind = if value { Kind::Put } else { Kind::Delete };
        self.writes
            .push((key..key + 1, sequence, value.then_some(sequence)));
        let tag = Tag::new(sequence, kind);
        let entry = (vec![key], tag, sequence.to_le_bytes().to_vec());
        self.buffer.entries.push(entry);
    }

    /// As in a MemTable: a record at the range's start, and the range.
    fn delete_range(&mut self, keys: Range<u8>) {
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

    /// The live snapshots and the visible number.
    fn stripes(&self) -> Vec<u64> {
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

    fn run_merge<C: Cursor>(
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

    fn flush(&mut self) {
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

    /// What the policy is told of tombstones: each write takes a second.
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
        }
    }

    /// Begins a merge or does a move; false if there is none that may begin.
    fn begin(&mut self) -> bool {
        self.policy.seen = Arc::new(self.seen());
        let levels = Arc::clone(levels(&self.state.version));
        let claims: Vec<Claim> = self.jobs.iter().map(Job::claim).collect();
        let picked = self.policy.pick(&levels, &claims, &Exact(self));
        let candidates = self.policy.candidates(&levels, &claims, &Exact(self));
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
    fn build(&mut self, at: usize) {
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
    fn install_slice(&mut self, at: usize) {
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

    /// One merge or move, from beginning to end.
    fn compact(&mut self) -> bool {
        let began = self.begin();
        while !self.jobs.is_empty() {
            self.build(0);
            self.install_slice(0);
        }
        began
    }

    /// What counts of a table.
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

    fn cursor(&self, table: &Table) -> VersionsCursor {
        VersionsCursor::new(self.inside(table).entries)
    }

    /// Of the whole file, as a reader of tables gets them.
    fn ranges_of(&self, table: &Table) -> Option<Arc<RangeTombstones>> {
        let ranges = self.contents[&table.number].ranges.clone();
        Some(Arc::new(RangeTombstones::new(ranges)))
    }

    /// As a reader goes: the buffer, then the tables from the youngest on; the first version found
    /// is the answer.
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
                let is_put = cursor.key().tag.kind() == Some(Kind::Put);
                return is_put.then(|| u64::from_le_bytes(cursor.value().try_into().unwrap()));
            }
        }
        None
    }

    fn violation(&self) -> Option<AgeViolation> {
        let cursor = |table: &Arc<Table>| Ok(self.cursor(table));
        let ranges = |table: &Arc<Table>| Ok(self.ranges_of(table));
        check_age_rule(&self.state.version, cursor, ranges).unwrap()
    }

    fn check(&self) {
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

const KEYS: u8 = 16;
/// Versions that make a slice.
const SLICE_VERSIONS: u64 = 6;

#[derive(Clone, Debug)]
enum Step {
    Write {
        key: u8,
        value: bool,
    },
    DeleteRange(Range<u8>),
    Flush,
    Begin,
    Build(prop::sample::Index),
    Install(prop::sample::Index),
    /// A slice fails, or the store is closed.
    Abandon(prop::sample::Index),
    /// The store is closed, and opened with another policy.
    ChangePolicy(usize),
    TakeSnapshot,
    DropSnapshot(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..KEYS, prop::bool::weighted(0.6)).prop_map(|(key, value)| Step::Write { key, value }),
        1 => (0..KEYS, 1..KEYS).prop_map(|(from, length)| Step::DeleteRange(from..from + length)),
        3 => Just(Step::Flush),
        3 => Just(Step::Begin),
        8 => any::<prop::sample::Index>().prop_map(Step::Build),
        8 => any::<prop::sample::Index>().prop_map(Step::Install),
        1 => any::<prop::sample::Index>().prop_map(Step::Abandon),
        1 => (0..POLICIES).prop_map(Step::ChangePolicy),
        1 => Just(Step::TakeSnapshot),
        1 => any::<prop::sample::Index>().prop_map(Step::DropSnapshot),
    ]
}

proptest! {
    #[test]
    fn every_snapshot_reads_what_was_written_whatever_is_merged(
        level0_merge in 2usize..5,
        level1_bytes in prop::sample::select(vec![4u64, 60]),
        first_policy in 0..POLICIES,
        (percent, age_seconds) in prop::sample::select(vec![(0, 0), (50, 0), (0, 30), (10, 60)]),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut store = Store::new(policy(first_policy, level0_merge, level1_bytes));
        (store.policy.percent, store.policy.age_seconds) = (percent, age_seconds);
        for step in steps {
            match step {
                Step::Write { key, value } => store.write(key, value),
                Step::DeleteRange(keys) => store.delete_range(keys),
                Step::Flush => store.flush(),
                Step::Begin => {
                    store.begin();
                }
                Step::Build(at) if !store.jobs.is_empty() => {
                    store.build(at.index(store.jobs.len()));
                }
                Step::Install(at) if !store.jobs.is_empty() => {
                    store.install_slice(at.index(store.jobs.len()));
                }
                Step::Abandon(at) if !store.jobs.is_empty() => {
                    store.jobs.remove(at.index(store.jobs.len()));
                }
                Step::Build(_) | Step::Install(_) | Step::Abandon(_) => {}
                Step::ChangePolicy(number) => {
                    store.jobs.clear();
                    store.policy.inner = policy(number, level0_merge, level1_bytes);
                }
                Step::TakeSnapshot => store.snapshots.push(store.visible()),
                Step::DropSnapshot(at) if !store.snapshots.is_empty() => {
                    let at = at.index(store.snapshots.len());
                    store.snapshots.remove(at);
                }
                Step::DropSnapshot(_) => {}
            }
            store.check();
        }
        store.flush();
        while !store.jobs.is_empty() {
            store.build(0);
            store.install_slice(0);
        }
        let mut rounds = 0;
        while store.compact() {
            store.check();
            rounds += 1;
            prop_assert!(rounds < 200, "the policy never comes to rest");
        }
    }
}

/// Without snapshots, what has been merged all the way down holds each key once and no tombstone.
#[test]
fn merging_everything_leaves_one_version_a_key_and_no_tombstones() {
    (0..POLICIES).for_each(merge_everything);
}

fn merge_everything(policy_number: usize) {
    let mut store = Store::new(policy(policy_number, 3, 6));
    for round in 0..40 {
        for key in 0..KEYS {
            store.write(key, (round + key) % 3 != 0);
        }
        store.flush();
        while store.compact() {}
        store.check();
    }
    let tables = levels(&store.state.version).tables();
    let inputs = tables.map(|(_, table)| store.cursor(table)).collect();
    let inputs = MergingCursor::new(inputs);
    let tables = store.run_merge(inputs, Vec::new(), &Slice::ALL, u64::MAX, &|_| false);
    let last = &tables[0].1.entries;
    let live = store
        .writes
        .iter()
        .rev()
        .take(usize::from(KEYS))
        .filter(|w| w.2.is_some())
        .count();
    assert_eq!(last.len(), live);
    assert!(last.iter().all(|entry| entry.1.kind() == Some(Kind::Put)));
    assert!(store.merges > 10, "only {} merges", store.merges);
}

/// What a merge writes leaves older sub-levels of the same level alone, and a tombstone over them stays.
#[test]
fn a_tombstone_over_an_older_sub_level_of_its_level_stays() {
    for number in 1..POLICIES {
        let mut store = Store::new(policy(number, 2, 1 << 20));
        for round in 0..40u8 {
            for apart in [0, 5, 11] {
                store.write((round + apart) % KEYS, (round + apart) % 3 == 0);
            }
            store.flush();
            while store.compact() {
                store.check();
            }
        }
        assert!(store.merges > 10, "only {} merges", store.merges);
    }
}

/// Tombstones come down onto older sub-levels of their level, where what they hide may lie one further.
#[test]
fn full_tables_over_older_sub_levels_of_their_level_hide_what_they_hid() {
    for number in 0..POLICIES {
        // Nothing is ever full or over its target but with tombstones.
        let mut store = Store::new(policy(number, 3, 1 << 20));
        (store.policy.percent, store.policy.age_seconds) = (0, 0);
        for round in 0..9u8 {
            for key in (0..KEYS).filter(|key| key % 3 == round % 3) {
                store.write(key, true);
            }
            store.flush();
            while store.compact() {}
        }
        let merges = store.merges;
        (0..KEYS).for_each(|key| store.write(key, false));
        store.flush();
        store.policy.percent = 50;
        while store.compact() {
            store.check();
        }
        store.check();
        let left = levels(&store.state.version).tables().count();
        assert_eq!(left, 0, "policy {number}: all is deleted");
        assert!(store.merges > merges, "policy {number}");
    }
}

/// What a snapshot needs is left where it is, and goes as soon as nobody needs it.
#[test]
fn tombstones_that_a_snapshot_pins_are_left_in_peace() {
    for number in 0..POLICIES {
        for (percent, age_seconds) in [(20, 0), (0, 1)] {
            let mut store = Store::new(policy(number, 3, 1 << 20));
            (store.policy.percent, store.policy.age_seconds) = (percent, age_seconds);
            (0..KEYS).for_each(|key| store.write(key, true));
            store.flush();
            while store.compact() {}
            // Some are older than the snapshot, and in the same table.
            (0..KEYS / 2).for_each(|key| store.write(key, false));
            store.snapshots.push(store.visible());
            (KEYS / 2..KEYS).for_each(|key| store.write(key, false));
            store.flush();
            let mut merges = 0;
            while store.compact() {
                store.check();
                merges += 1;
                assert!(merges < 20, "policy {number} never comes to rest");
            }
            let left = levels(&store.state.version).tables().count();
            assert!(left > 0, "the snapshot needs some");
            store.snapshots.clear();
            while store.compact() {
                store.check();
            }
            let left = levels(&store.state.version).tables().count();
            assert_eq!(left, 0, "policy {number}: all is deleted");
        }
    }
}

/// Whatever another policy left, the leveled one makes one sub-level a level of it.
#[test]
fn the_leveled_policy_settles_what_a_tiered_one_left() {
    let mut store = Store::new(policy(1, 4, 6));
    let mut most = 0;
    for round in 0..40u8 {
        for key in 0..KEYS {
            store.write(key, (round + key) % 4 != 0);
        }
        store.flush();
        while store.compact() {}
        let levels = levels(&store.state.version).levels.iter();
        most = most.max(
            levels
                .skip(1)
                .map(|level| level.sub_levels.len())
                .max()
                .unwrap(),
        );
    }
    let is_settled = |store: &Store| {
        let mut places = levels(&store.state.version).sub_levels();
        places.all(|(place, _)| place.level == 0 || place.is_base())
    };
    assert!(!is_settled(&store) && most > 1, "{most} sub-levels a level");
    store.policy.inner = policy(0, 4, 6);
    while store.compact() {
        store.check();
    }
    assert!(is_settled(&store));
}

/// Two merges with keys or levels apart are under way together, and one is sliced.
#[test]
fn merges_overlap_in_time() {
    let mut store = Store::new(policy(0, 2, 6));
    for round in 0..60u64 {
        // A part of the keys at a time: so little does not go all the way down in one merge.
        for key in (0..KEYS).filter(|key| u64::from(key * 4 / KEYS) == round % 4) {
            store.write(key, (round + u64::from(key)) % 5 != 0);
        }
        store.flush();
        while store.begin() {}
        for at in (0..store.jobs.len()).rev() {
            store.build(at);
            store.build(at);
            store.install_slice(at);
            store.check();
        }
    }
    assert!(store.most_jobs >= 2, "{} merges at a time", store.most_jobs);
    assert!(store.merges > 10, "{} merges", store.merges);
}

#[test]
fn an_age_rule_that_is_broken_is_found() {
    let mut store = Store::new(policy(0, 3, 6));
    store.write(1, true);
    store.flush();
    store.write(1, true);
    store.flush();
    let numbers: Vec<u64> = store.contents.keys().copied().collect();
    let old = store.contents[&numbers[0]].clone();
    let new = store.contents.insert(numbers[1], old).unwrap();
    store.contents.insert(numbers[0], new);
    let violation = store.violation().unwrap();
    assert_eq!(violation.user_key, [1]);
    assert_eq!((violation.newer.0, violation.older.0), (2, 1));
    assert!(
        violation.to_string().contains("version 2 at level 0"),
        "{violation}"
    );
}

/// A range tombstone is a version of every key in it, above and below others.
#[test]
fn an_age_rule_that_a_deleted_range_breaks_is_found() {
    type Write = fn(&mut Store);
    let put: Write = |store| store.write(1, true);
    let delete_0_to_3: Write = |store| store.delete_range(0..3);
    let delete_1_to_2: Write = |store| store.delete_range(1..2);
    for (older, newer) in [
        (put, delete_0_to_3),
        (delete_0_to_3, put),
        (delete_0_to_3, delete_1_to_2),
        (delete_1_to_2, delete_0_to_3),
    ] {
        let mut store = Store::new(policy(0, 3, 6));
        for write in [older, newer] {
            write(&mut store);
            store.flush();
        }
        assert_eq!(store.violation(), None);
        for contents in store.contents.values_mut() {
            for (_, tag, _) in &mut contents.entries {
                *tag = Tag::new(3 - tag.sequence(), Kind::Put);
            }
            for range in &mut contents.ranges {
                range.sequence = 3 - range.sequence;
            }
        }
        let violation = store.violation().unwrap();
        assert_eq!((violation.newer.0, violation.older.0), (2, 1));
    }
}
