//! Flushes, merges and moves on tables in memory, held against a list of all writes: what the
//! policy, the legality rules, the drop rules, the merge and the version set do together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::drop_rules::DropRules;
use super::legality::{check_legal, older_elsewhere};
use super::merge::tests::{Version as Entry, VersionsCursor};
use super::merge::{TableSink, merge};
use super::policy::leveled::Leveled;
use super::policy::{Choice, ChoiceKind, Policy};
use super::{MergingCursor, Versions};
use crate::Result;
use crate::cursor::Cursor;
use crate::key::{InternalKey, Kind, Tag};
use crate::levels::testing::{levels, meta, moved, new_state, replace};
use crate::levels::{
    Edit, KeyRange, ManifestState, Place, Table, TableAdded, TableMeta, check_age_rule,
};

/// A store without files: the levels, and the contents of every table by number.
struct Store {
    state: ManifestState,
    contents: BTreeMap<u64, Vec<Entry>>,
    policy: Leveled,
    /// All writes ever: key, sequence, value (`None` for a delete).
    writes: Vec<(u8, u64, Option<u64>)>,
    buffer: Vec<Entry>,
    snapshots: Vec<u64>,
    merges: usize,
}

/// Tables of at most a few versions.
struct Sink<'a> {
    contents: &'a mut BTreeMap<u64, Vec<Entry>>,
    next_number: u64,
    open: Vec<Entry>,
}

impl TableSink for Sink<'_> {
    type Table = TableMeta;

    fn add(&mut self, key: InternalKey<'_>, value: &[u8]) -> Result<()> {
        self.open
            .push((key.user_key.to_vec(), key.tag, value.to_vec()));
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.open.len() as u64
    }

    fn finish(&mut self) -> Result<Option<TableMeta>> {
        let entries = std::mem::take(&mut self.open);
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Ok(None);
        };
        let bounds = KeyRange::inclusive(first.0.clone(), last.0.clone());
        let sequences = || entries.iter().map(|entry| entry.1.sequence());
        let table = TableMeta {
            bounds,
            size_bytes: entries.len() as u64,
            min_sequence: sequences().min().unwrap(),
            max_sequence: sequences().max().unwrap(),
            ..meta(self.next_number, "", "")
        };
        self.contents.insert(self.next_number, entries);
        self.next_number += 1;
        Ok(Some(table))
    }
}

impl Store {
    /// Small targets send everything down; a large one for level 1 keeps little in level 0 there.
    fn new(level0_merge: usize, level1_bytes: u64) -> Self {
        Store {
            state: new_state(),
            contents: BTreeMap::new(),
            policy: Leveled {
                level0_merge,
                level1_bytes,
                level_ratio: 2,
                same_form_as_above: (0..7).map(|level| level != 3).collect(),
            },
            writes: Vec::new(),
            buffer: Vec::new(),
            snapshots: Vec::new(),
            merges: 0,
        }
    }

    fn visible(&self) -> u64 {
        self.writes.len() as u64
    }

    fn write(&mut self, key: u8, value: bool) {
        let sequence = self.visible() + 1;
        let kind = if value { Kind::Put } else { Kind::Delete };
        self.writes.push((key, sequence, value.then_some(sequence)));
        let tag = Tag::new(sequence, kind);
        self.buffer
            .push((vec![key], tag, sequence.to_le_bytes().to_vec()));
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

    fn run_merge(
        &mut self,
        inputs: Versions,
        table_bytes: u64,
        older: &dyn Fn(&[u8]) -> bool,
    ) -> Vec<TableMeta> {
        let mut inputs = inputs;
        let stripes = self.stripes();
        let mut sink = Sink {
            next_number: self.state.next_table_number,
            contents: &mut self.contents,
            open: Vec::new(),
        };
        let rules = DropRules::new(&stripes, older);
        merge(
            &mut inputs,
            rules,
            table_bytes,
            &AtomicBool::new(false),
            &mut sink,
        )
        .unwrap()
    }

    fn flush(&mut self) {
        let buffer = VersionsCursor::new(std::mem::take(&mut self.buffer));
        let inputs = MergingCursor::new(vec![Box::new(buffer) as Box<dyn Cursor + Send>]);
        let tables = self.run_merge(inputs, u64::MAX, &|_| true);
        let place = self.state.next_flush_place(crate::KeyspaceId::DEFAULT);
        self.add(&[], place, tables);
    }

    fn add(&mut self, removed: &[u64], place: Place, tables: Vec<TableMeta>) {
        let added = tables.into_iter().map(|table| TableAdded { place, table });
        let edit = replace(removed, added.collect());
        self.install(&edit);
    }

    /// One merge or move; false if nothing is over its target.
    fn compact(&mut self) -> bool {
        let levels = Arc::clone(levels(&self.state.version));
        let Some(choice) = self.policy.pick(&levels) else {
            return false;
        };
        check_legal(&levels, &choice).unwrap();
        match choice.kind {
            ChoiceKind::Move => {
                let moves = choice
                    .inputs
                    .iter()
                    .map(|i| moved(i.table.number, choice.output));
                let edit = Edit {
                    tables_moved: moves.collect(),
                    ..Edit::default()
                };
                self.install(&edit);
            }
            ChoiceKind::Merge => self.carry_out(&choice),
        }
        true
    }

    fn carry_out(&mut self, choice: &Choice) {
        let levels = Arc::clone(levels(&self.state.version));
        let open = |table: &Arc<Table>| Box::new(self.cursor(table)) as Box<dyn Cursor + Send>;
        let inputs = choice
            .inputs
            .iter()
            .map(|input| open(&input.table))
            .collect();
        let older = |key: &[u8]| older_elsewhere(&levels, choice, key);
        let tables = self.run_merge(MergingCursor::new(inputs), 3, &older);
        let removed: Vec<u64> = choice.inputs.iter().map(|i| i.table.number).collect();
        self.add(&removed, choice.output, tables);
        self.merges += 1;
    }

    fn cursor(&self, table: &Table) -> VersionsCursor {
        VersionsCursor::new(self.contents[&table.number].clone())
    }

    /// As a reader goes: the buffer, then the tables from the youngest on; the first version found
    /// is the answer.
    fn get(&self, key: u8, snapshot: u64) -> Option<u64> {
        let tables = levels(&self.state.version).tables_for_key(std::slice::from_ref(&key));
        let tables = tables.map(|table| self.contents[&table.number].clone());
        for entries in std::iter::once(self.buffer.clone()).chain(tables) {
            let mut cursor = VersionsCursor::new(entries);
            cursor.seek(InternalKey::seek(&[key], snapshot)).unwrap();
            if cursor.valid() && cursor.key().user_key == [key] {
                let value = u64::from_le_bytes(cursor.value().try_into().unwrap());
                return (cursor.key().tag.kind() == Some(Kind::Put)).then_some(value);
            }
        }
        None
    }

    fn check(&self) {
        let violation = check_age_rule(&self.state.version, |t| Ok(self.cursor(t))).unwrap();
        assert_eq!(violation, None);
        for snapshot in self.stripes() {
            for key in 0..KEYS {
                let written = self.writes.iter().rev();
                let expected = written
                    .filter(|write| write.0 == key && write.1 <= snapshot)
                    .map(|write| write.2)
                    .next()
                    .flatten();
                assert_eq!(self.get(key, snapshot), expected, "key {key} at {snapshot}");
            }
        }
    }
}

const KEYS: u8 = 16;

#[derive(Clone, Debug)]
enum Step {
    Write { key: u8, value: bool },
    Flush,
    Compact,
    TakeSnapshot,
    DropSnapshot(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..KEYS, prop::bool::weighted(0.6)).prop_map(|(key, value)| Step::Write { key, value }),
        3 => Just(Step::Flush),
        3 => Just(Step::Compact),
        1 => Just(Step::TakeSnapshot),
        1 => any::<prop::sample::Index>().prop_map(Step::DropSnapshot),
    ]
}

proptest! {
    #[test]
    fn every_snapshot_reads_what_was_written_whatever_is_merged(
        level0_merge in 2usize..5,
        level1_bytes in prop::sample::select(vec![4u64, 60]),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut store = Store::new(level0_merge, level1_bytes);
        for step in steps {
            match step {
                Step::Write { key, value } => store.write(key, value),
                Step::Flush => store.flush(),
                Step::Compact => {
                    store.compact();
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
    let mut store = Store::new(3, 6);
    for round in 0..40 {
        for key in 0..KEYS {
            store.write(key, (round + key) % 3 != 0);
        }
        store.flush();
        while store.compact() {}
        store.check();
    }
    let all: Vec<_> = levels(&store.state.version)
        .tables()
        .map(|(_, t)| t.number)
        .collect();
    let open = |number: &u64| {
        let cursor = VersionsCursor::new(store.contents[number].clone());
        Box::new(cursor) as Box<dyn Cursor + Send>
    };
    let inputs = MergingCursor::new(all.iter().map(open).collect());
    let tables = store.run_merge(inputs, u64::MAX, &|_| false);
    let last: Vec<_> = store.contents[&tables[0].number].clone();
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

#[test]
fn an_age_rule_that_is_broken_is_found() {
    let mut store = Store::new(3, 6);
    store.write(1, true);
    store.flush();
    store.write(1, true);
    store.flush();
    let numbers: Vec<u64> = store.contents.keys().copied().collect();
    let old = store.contents[&numbers[0]].clone();
    let new = store.contents.insert(numbers[1], old).unwrap();
    store.contents.insert(numbers[0], new);
    let violation = check_age_rule(&store.state.version, |t| Ok(store.cursor(t)))
        .unwrap()
        .unwrap();
    assert_eq!(violation.user_key, [1]);
    assert_eq!((violation.newer.0, violation.older.0), (2, 1));
    assert!(
        violation.to_string().contains("version 2 at level 0"),
        "{violation}"
    );
}
