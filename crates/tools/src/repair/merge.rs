//! Tables whose order is unknown, merged by the numbers of their entries.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace::{KeyspaceId, Result, SequenceNumber};
use terrace_lsm::compaction::drop_rules::{DropRules, Keys};
use terrace_lsm::compaction::merge::merge;
use terrace_lsm::compaction::slices::Slice;
use terrace_lsm::compaction::table_ends::TableEnds;
use terrace_lsm::cursor::MergingCursor;
use terrace_lsm::levels::{KeyRange, LEVELS, Place, SubLevelCursor, Table, TableMeta};
use terrace_lsm::range_tombstones::{RangeTombstone, RangeTombstones};
use terrace_lsm::sync::atomic::AtomicBool;

use super::site::Site;
use super::state::Basis;

/// Place of every table: the last level.
pub(super) const REBUILT: Place = Place::base(LEVELS as u8 - 1);

/// Tables of one keyspace, in order, of which each overlaps the ones before it.
struct Group {
    hull: KeyRange,
    tables: Vec<Arc<Table>>,
}

/// Returns the tables of a level in which none overlaps another. `new` are those without a name.
pub(super) fn merge_overlapping(
    site: &Site,
    basis: &Basis,
    mut tables: Vec<Arc<Table>>,
    new: &mut BTreeSet<u64>,
    last_sequence: SequenceNumber,
) -> Result<Vec<TableMeta>> {
    tables.sort_by(|a, b| {
        let key = |table: &Table| (table.keyspace, table.bounds.smallest.clone());
        key(a).cmp(&key(b))
    });
    let mut rebuilt = Vec::new();
    for group in groups(tables) {
        match group.tables.as_slice() {
            [single] => rebuilt.push((***single).clone()),
            several => {
                let merged = merge_group(site, basis, several, new, last_sequence)?;
                new.extend(merged.iter().map(|table| table.number));
                rebuilt.extend(merged);
            }
        }
    }
    Ok(rebuilt)
}

/// Groups `tables`, which are sorted by keyspace and first key.
fn groups(tables: Vec<Arc<Table>>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut keyspace = KeyspaceId::DEFAULT;
    for table in tables {
        let last = groups.last_mut().filter(|_| table.keyspace == keyspace);
        keyspace = table.keyspace;
        match last.filter(|group| group.hull.overlaps(&table.bounds)) {
            Some(group) => {
                group.hull.extend(&table.bounds);
                group.tables.push(table);
            }
            None => groups.push(Group {
                hull: table.bounds.clone(),
                tables: vec![table],
            }),
        }
    }
    groups
}

/// Returns lists of tables that do not overlap, as few as possible: one cursor reads each.
fn runs(tables: &[Arc<Table>]) -> Vec<Vec<Arc<Table>>> {
    let mut runs: Vec<Vec<Arc<Table>>> = Vec::new();
    for table in tables {
        let ends_before = |run: &&mut Vec<Arc<Table>>| {
            let last = run.last();
            last.is_some_and(|last| last.bounds.ends_before(&table.bounds.smallest))
        };
        match runs.iter_mut().find(ends_before) {
            Some(run) => run.push(Arc::clone(table)),
            None => runs.push(vec![Arc::clone(table)]),
        }
    }
    runs
}

fn merge_group(
    site: &Site,
    basis: &Basis,
    tables: &[Arc<Table>],
    new: &BTreeSet<u64>,
    last_sequence: SequenceNumber,
) -> Result<Vec<TableMeta>> {
    let keyspace = tables.first().map_or(KeyspaceId::DEFAULT, |t| t.keyspace);
    let levels = basis.state.version.keyspace(keyspace);
    let form = site.form_of(levels.map(|levels| &**levels));
    let table_bytes = form.table_bytes;
    let mut ranges = Vec::new();
    for table in tables.iter().filter(|table| table.range_tombstones > 0) {
        let reader = site.open(table, new.contains(&table.number))?;
        let set = reader.range_tombstones().into_iter();
        let found = set.flat_map(|set| set.iter()).map(RangeTombstone::from);
        ranges.extend(found.filter_map(|found| Slice::ALL.clip(found, &table.bounds)));
    }
    let ranges = RangeTombstones::new(ranges);
    // All that overlaps is in the group, so deletions have nothing left to hide.
    let older = |_: Keys<'_>| false;
    let snapshots = [last_sequence];
    let rules = DropRules::new(&snapshots, &older, &ranges);
    let cursor = |run| {
        let open = |table: &Arc<Table>| site.cursor(table, new.contains(&table.number));
        SubLevelCursor::over_tables(run, open)
    };
    let mut versions = MergingCursor::new(runs(tables).into_iter().map(cursor).collect());
    let seed = basis.state.identity.hash_seed;
    let ages = tables.iter().map(|table| table.oldest_tombstone_seconds);
    let mut sink = site
        .table_files(keyspace, form, REBUILT, seed)
        .with_oldest_tombstone(ages.flatten().min());
    let never = AtomicBool::new(false);
    let merged = merge(
        &mut versions,
        &Slice::ALL,
        rules,
        TableEnds::at_size(table_bytes),
        &never,
        &mut sink,
    );
    sink.sync()?;
    merged
}
