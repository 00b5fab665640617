//! When iterators have paid for what they pass over.
//!
//! No seek leads past the tombstones of many keys, for each is a key of its own. Where a keyspace
//! remembers no stretch around them (`empty_stretch.rs`), each iterator steps over all of them. So it
//! pays, for each key, the bytes that a flush or a merge could have read and written in that time. What
//! lies in arenas pays for a flush of the active one, which is sealed for it. What lies in a table pays
//! for the table's merge: then the table counts as full of tombstones
//! (`compaction/policy/tombstones.rs`). That is the rule of whoever rents and might buy, as in
//! `level0_probes.rs`: looking back, nothing bought cost more than twice the best.
//!
//! Only what the present view has is paid for. A keyspace buys no merge within a second of its last,
//! nor a store a flush.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::KeyspaceId;
use crate::compaction::policy::tombstones::merge_bytes;
use crate::compaction::policy::{Choice, Reason};
use crate::db::Store;
use crate::db::empty_stretch::Keys;
use crate::db::view::View;
use crate::levels::{KeyRange, KeyspaceLevels, Place, Table, Version};
use crate::sync::Mutex;

/// Bytes that a flush or a merge reads and writes while an iterator passes over a key.
const KEY_BYTES: u64 = 16;
/// The least that a flush or a merge costs: files are made and synced.
const LEAST_BYTES: u64 = 1 << 20;

/// Hidden keys that a move has passed over.
pub(crate) struct PassedKeys {
    pub(crate) keys: Keys,
    /// Number of keys whose newest version lies in an arena.
    pub(crate) in_arenas: u32,
    /// Number of keys whose newest version lies in a table.
    pub(crate) in_tables: u32,
}

/// What iterators have paid for, and nobody has begun yet.
#[derive(Clone, Copy, Default)]
pub(crate) struct Due {
    pub(crate) flush: bool,
    pub(crate) merge: bool,
}

/// What iterators have paid.
#[derive(Default)]
pub(crate) struct PassedOver {
    flush: Mutex<Paid>,
    merges: Mutex<Merges>,
}

#[derive(Default)]
struct Merges {
    /// By the numbers of tables.
    paid_bytes: BTreeMap<u64, u64>,
    /// By keyspace, the second of the last merge.
    bought: BTreeMap<KeyspaceId, u64>,
}

#[derive(Default)]
struct Paid {
    bytes: u64,
    /// The second of the last flush.
    bought: Option<u64>,
}

impl PassedOver {
    /// Returns whether a flush of so many bytes is due.
    fn pays_for_flush(&self, keys: u32, flush_bytes: u64, now_seconds: u64) -> bool {
        let mut paid = self.flush.lock();
        paid.bytes = paid.bytes.saturating_add(u64::from(keys) * KEY_BYTES);
        paid.bytes >= flush_bytes.max(LEAST_BYTES) && is_over(paid.bought, now_seconds)
    }

    fn flush_was_bought(&self, now_seconds: u64) {
        *self.flush.lock() = Paid {
            bytes: 0,
            bought: Some(now_seconds),
        };
    }

    /// Returns whether the merge of a table has become due. All tables with tombstones around the keys
    /// pay alike.
    fn pays_for_merges(&self, levels: &KeyspaceLevels, passed: &PassedKeys) -> bool {
        let keys = KeyRange::half_open(passed.keys.from.as_slice(), passed.keys.to.as_slice());
        let around = levels.sub_levels().flat_map(|(place, sub_level)| {
            let tables = sub_level.overlapping(&keys).iter();
            tables.map(move |table| (place, table))
        });
        let around: Vec<(Place, &Arc<Table>)> =
            around.filter(|(_, table)| table.has_tombstones()).collect();
        let all_bytes = u64::from(passed.in_tables) * KEY_BYTES;
        let each_bytes = all_bytes / (around.len() as u64).max(1);
        let mut merges = self.merges.lock();
        let mut is_due = false;
        for (place, table) in around {
            let paid_bytes = merges.paid_bytes.entry(table.number).or_default();
            let before_bytes = *paid_bytes;
            *paid_bytes = before_bytes.saturating_add(each_bytes);
            // Once: what a snapshot is in the way of is looked at again when the snapshot is gone.
            is_due |= !covers(before_bytes, levels, place, table)
                && covers(*paid_bytes, levels, place, table);
        }
        is_due
    }

    /// Returns the numbers of the tables for whose merge iterators have paid.
    pub(crate) fn paid_for(&self, version: &Version, now_seconds: u64) -> BTreeSet<u64> {
        let mut merges = self.merges.lock();
        if merges.paid_bytes.is_empty() {
            return BTreeSet::new();
        }
        let paid_bytes = std::mem::take(&mut merges.paid_bytes);
        let mut paid_for = BTreeSet::new();
        for levels in version.keyspaces.values() {
            let may_buy = is_over(merges.bought.get(&levels.id).copied(), now_seconds);
            for (place, table) in levels.tables() {
                let Some(&bytes) = paid_bytes.get(&table.number) else {
                    continue;
                };
                if may_buy && covers(bytes, levels, place, table) {
                    paid_for.insert(table.number);
                }
                // What was paid for tables that are gone is forgotten.
                merges.paid_bytes.insert(table.number, bytes);
            }
        }
        paid_for
    }

    /// A merge begins.
    pub(crate) fn spend(&self, keyspace: KeyspaceId, choice: &Choice, now_seconds: u64) {
        if let Reason::PassedOver { .. } = choice.reason {
            let mut merges = self.merges.lock();
            merges.bought.insert(keyspace, now_seconds);
            for input in &choice.inputs {
                merges.paid_bytes.remove(&input.table.number);
            }
        }
    }
}

/// Whether so much pays for a table's merge.
fn covers(paid_bytes: u64, levels: &KeyspaceLevels, place: Place, table: &Arc<Table>) -> bool {
    paid_bytes >= LEAST_BYTES.max(table.size_bytes)
        && paid_bytes >= merge_bytes(levels, place, table)
}

/// Whether a second has passed. Clocks may go back.
fn is_over(bought: Option<u64>, now_seconds: u64) -> bool {
    bought.is_none_or(|then| now_seconds.abs_diff(then) > 1)
}

impl Store {
    /// Has an iterator pay for what it passed over in a view. Returns what that has made due.
    #[cold]
    pub(crate) fn pays_for_passed_over(
        &self,
        keyspace: KeyspaceId,
        view: &View,
        passed: &PassedKeys,
    ) -> Due {
        let present = self.view.load();
        let mut due = Due::default();
        if self.options.read_only || self.poisoned().is_some() {
            return due;
        }
        let active = [&view.memtables, &present.memtables].map(|all| all.first());
        if let [Some(read), Some(active)] = active
            && Arc::ptr_eq(read, active)
            && passed.in_arenas > 0
        {
            let flush_bytes = active.arena().end_bytes() as u64;
            let now_seconds = self.clock.unix_seconds();
            let paid = &self.passed_over;
            due.flush = paid.pays_for_flush(passed.in_arenas, flush_bytes, now_seconds);
        }
        if let Some(levels) = view.version.keyspaces.get(&keyspace)
            && Arc::ptr_eq(&view.version, &present.version)
            && passed.in_tables > 0
        {
            due.merge = self.passed_over.pays_for_merges(levels, passed);
        }
        due
    }

    /// Begins what iterators have paid for. The caller holds no iterator's source.
    #[cold]
    pub(crate) fn begin_paid_work(&self, due: Due) {
        if due.flush {
            self.seal_for_iterators();
        }
        if due.merge {
            self.background.compaction_wanted(self);
        }
    }

    /// Seals the active arena, unless that would take waiting: a write is under way, or the next arena is
    /// not ready. Then the next iterator that pays tries again.
    fn seal_for_iterators(&self) {
        let Some(mut writer) = self.writer.try_lock() else {
            return;
        };
        let Some(writer) = writer.as_mut() else {
            return;
        };
        if writer.active.is_empty() || !self.is_next_arena_ready(0, 0) {
            return;
        }
        // A failure poisons the store, which writers are told of.
        if self.seal_active(writer).is_ok() {
            self.passed_over.flush_was_bought(self.clock.unix_seconds());
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
