//! The payments of iterators for hidden keys on their way.
//!
//! No seek leads past the tombstones of many keys, for each is a key of its own. Where a keyspace
//! remembers no stretch around them (`empty_stretch.rs`), each iterator steps over all of them. So it
//! pays, for each key, the bytes that a flush or a merge could have read and written in that time. Keys
//! in arenas pay for a flush of the active one, which is sealed for it. Keys in a table pay for the
//! table's merge: then the table counts as full of tombstones
//! (`compaction/policy/tombstones.rs`). That is the rule of a tenant who might buy, as in
//! `level0_probes.rs`: looking back, nothing bought cost more than twice the best.
//!
//! Iterators pay only for keys of the present view. A keyspace buys no merge within a second of its last,
//! nor a store a flush.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use terrace_lsm::compaction::policy::tombstones::merge_bytes;
use terrace_lsm::compaction::policy::{Choice, Reason};
use terrace_lsm::levels::{KeyRange, KeyspaceLevels, Place, Table, Version};
use terrace_lsm::sync::Mutex;
use terrace_region::Arena;

use crate::db::Store;
use crate::db::empty_stretch::Keys;
use crate::db::view::View;
use crate::db::write::Writer;
use crate::{KeyspaceId, Result};

/// Bytes that a flush or a merge reads and writes while an iterator passes over a key.
const KEY_BYTES: u64 = 16;
/// The least that a flush or a merge costs: files are made and synced.
const LEAST_BYTES: u64 = 1 << 20;

/// Hidden keys that a move has passed over.
pub(crate) struct PassedKeys {
    pub(crate) keys: Keys,
    /// Number of keys whose newest visible version lies in an arena.
    pub(crate) in_arenas: u32,
    /// Number of keys whose newest visible version lies in a table.
    pub(crate) in_tables: u32,
}

/// Work that iterators have paid for and that has not begun yet.
#[derive(Clone, Copy, Default)]
pub(crate) struct Due {
    pub(crate) flush: bool,
    pub(crate) merge: bool,
}

impl Due {
    pub(crate) fn is_any(self) -> bool {
        self.flush || self.merge
    }
}

/// The payments of iterators.
#[derive(Default)]
pub(crate) struct PassedOver {
    flush: Mutex<Paid>,
    merges: Mutex<Merges>,
}

/// Payments for a flush of the active arena.
#[derive(Default)]
struct Paid {
    bytes: u64,
    /// The arena's generation: payments for another one are spent.
    generation: u64,
    /// The second of the last flush.
    bought: Option<u64>,
}

#[derive(Default)]
struct Merges {
    /// By the numbers of tables.
    paid_bytes: BTreeMap<u64, u64>,
    by_keyspace: BTreeMap<KeyspaceId, Pace>,
}

/// Seconds of a keyspace.
#[derive(Clone, Copy, Default)]
struct Pace {
    /// Second of the last merge that was bought.
    bought: Option<u64>,
    /// Second in which merges last heard that one is due.
    told: Option<u64>,
}

impl Paid {
    fn is_enough(&self, flush_bytes: u64, now_seconds: u64) -> bool {
        self.bytes >= flush_bytes.max(LEAST_BYTES) && is_over(self.bought, now_seconds)
    }
}

impl PassedOver {
    /// Returns whether a flush of the active arena is due.
    fn pays_for_flush(&self, keys: u32, active: &Arena, now_seconds: u64) -> bool {
        let mut paid = self.flush.lock();
        if paid.generation != active.generation() {
            (paid.bytes, paid.generation) = (0, active.generation());
        }
        paid.bytes = paid.bytes.saturating_add(u64::from(keys) * KEY_BYTES);
        paid.is_enough(active.end_bytes() as u64, now_seconds)
    }

    /// Returns whether a flush of the active arena is paid for.
    fn is_flush_paid(&self, active: &Arena, now_seconds: u64) -> bool {
        let paid = self.flush.lock();
        paid.generation == active.generation()
            && paid.is_enough(active.end_bytes() as u64, now_seconds)
    }

    fn flush_was_bought(&self, now_seconds: u64) {
        let mut paid = self.flush.lock();
        (paid.bytes, paid.bought) = (0, Some(now_seconds));
    }

    /// Returns whether merges are to hear that one is due. All tables with tombstones around the
    /// keys pay alike.
    fn pays_for_merges(
        &self,
        levels: &KeyspaceLevels,
        passed: &PassedKeys,
        now_seconds: u64,
    ) -> bool {
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
        for (_, table) in &around {
            let paid_bytes = merges.paid_bytes.entry(table.number).or_default();
            *paid_bytes = paid_bytes.saturating_add(each_bytes);
        }
        let pace = merges.pace(levels.id);
        if !is_over(pace.bought, now_seconds) || !is_over(pace.told, now_seconds) {
            return false;
        }
        let mut around = around.iter();
        let is_due = around.any(|(place, table)| merges.covers(levels, *place, table));
        if is_due {
            let pace = merges.by_keyspace.entry(levels.id).or_default();
            pace.told = Some(now_seconds);
        }
        is_due
    }

    /// Returns the numbers of the tables for whose merge iterators have paid.
    pub(crate) fn paid_for(&self, version: &Version, now_seconds: u64) -> BTreeSet<u64> {
        let mut merges = self.merges.lock();
        if merges.paid_bytes.is_empty() {
            return BTreeSet::new();
        }
        // Payments for tables that are gone are forgotten.
        let listed: BTreeSet<u64> = version.tables().map(|(_, table)| table.number).collect();
        merges
            .paid_bytes
            .retain(|number, _| listed.contains(number));
        merges
            .by_keyspace
            .retain(|keyspace, _| version.keyspaces.contains_key(keyspace));
        let mut paid_for = BTreeSet::new();
        for levels in version.keyspaces.values() {
            if !is_over(merges.pace(levels.id).bought, now_seconds) {
                continue;
            }
            let paid = levels
                .tables()
                .filter(|(_, table)| merges.paid_bytes.contains_key(&table.number));
            let paid = paid.filter(|(place, table)| merges.covers(levels, *place, table));
            paid_for.extend(paid.map(|(_, table)| table.number));
        }
        paid_for
    }

    /// Notes that a merge has begun.
    pub(crate) fn spend(&self, keyspace: KeyspaceId, choice: &Choice, now_seconds: u64) {
        if let Reason::PassedOver { .. } = choice.reason {
            let mut merges = self.merges.lock();
            merges.by_keyspace.entry(keyspace).or_default().bought = Some(now_seconds);
            for input in &choice.inputs {
                merges.paid_bytes.remove(&input.table.number);
            }
        }
    }
}

impl Merges {
    fn pace(&self, keyspace: KeyspaceId) -> Pace {
        self.by_keyspace.get(&keyspace).copied().unwrap_or_default()
    }

    /// Returns whether a table's merge is paid for. Level 0 goes down as one, so all its tables pay
    /// together.
    fn covers(&self, levels: &KeyspaceLevels, place: Place, table: &Arc<Table>) -> bool {
        let paid = |table: &Table| self.paid_bytes.get(&table.number).copied().unwrap_or(0);
        let paid_bytes = match place.level {
            0 => {
                let level0 = levels.tables().filter(|(place, _)| place.level == 0);
                level0.map(|(_, table)| paid(table)).sum()
            }
            _ => paid(table),
        };
        paid_bytes >= LEAST_BYTES.max(table.size_bytes)
            && paid_bytes >= merge_bytes(levels, place, table)
    }
}

/// Returns whether a second has passed. Clocks may go back.
fn is_over(last: Option<u64>, now_seconds: u64) -> bool {
    last.is_none_or(|then| now_seconds.abs_diff(then) > 1)
}

impl Store {
    /// Has an iterator pay for the hidden keys of a move in a view. Returns the work that is due by that.
    #[cold]
    pub(crate) fn pays_for_passed_over(
        &self,
        keyspace: KeyspaceId,
        view: &View,
        passed: &PassedKeys,
    ) -> Due {
        let present = self.reads.view.load();
        let mut due = Due::default();
        if self.options.read_only || self.lifecycle.poisoned().is_some() {
            return due;
        }
        let now_seconds = self.lifecycle.clock.unix_seconds();
        // Sealed arenas are flushed anyway.
        if let ([read], [active]) = (view.memtables.as_slice(), present.memtables.as_slice())
            && Arc::ptr_eq(read, active)
            && passed.in_arenas > 0
        {
            let paid = &self.compactor.passed_over;
            due.flush = paid.pays_for_flush(passed.in_arenas, active.arena(), now_seconds);
        }
        if let Some(levels) = view.version.keyspaces.get(&keyspace)
            && Arc::ptr_eq(&view.version, &present.version)
            && passed.in_tables > 0
            && self.options.tombstone_percent > 0
        {
            due.merge = self
                .compactor
                .passed_over
                .pays_for_merges(levels, passed, now_seconds);
        }
        due
    }

    /// Begins work that iterators have paid for. The caller holds no iterator's source.
    #[cold]
    pub(crate) fn begin_paid_work(&self, due: Due) {
        if due.flush {
            // A failure poisons the store, and writers see it.
            let _ = self.as_leader_if_idle(|writer| self.seal_for_iterators(writer));
        }
        if due.merge && self.lifecycle.check_process().is_ok() {
            self.lifecycle.background.compaction_wanted(self);
        }
    }

    /// Seals the active arena, unless that would take waiting. Then the next iterator that pays
    /// tries again.
    fn seal_for_iterators(&self, writer: &mut Writer) -> Result<()> {
        let now_seconds = self.lifecycle.clock.unix_seconds();
        let is_paid = self
            .compactor
            .passed_over
            .is_flush_paid(writer.active.arena(), now_seconds);
        if !is_paid || writer.active.is_empty() || !self.is_next_arena_ready(0, 0) {
            return Ok(());
        }
        // The spare may be larger than the arena that was asked for.
        if !self
            .reads
            .view
            .load()
            .takes_another(self.spare_or_next_bytes())
        {
            return Ok(());
        }
        self.compactor.passed_over.flush_was_bought(now_seconds);
        self.seal_active(writer)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
