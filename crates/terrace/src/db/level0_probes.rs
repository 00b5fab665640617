//! The payments of scans for a merge of level 0.
//!
//! Every sub-level of level 0 costs a scan a probe, whatever it looks for: filters do not help.
//! Level 0 collects several, since a merge of more of them writes less for each. A store that was
//! loaded and is now scanned would stay so for good. So a scan pays for each sub-level of level 0
//! that it asks: the bytes that a merge could have read and written in that time. A merge is
//! due once scans have paid for all of it, however few sub-levels there are. The exception is a
//! level 0 that is a small part of the merge's output (`compaction/policy/leveled/level0.rs`).
//! Scans pay by the rule of a tenant who might buy: looking back, a merge of all of level 0 never
//! cost more than twice the best. LevelDB lets seeks pay for single tables alike.
//!
//! Gets pay nothing: a filter answers for a sub-level in a tenth of a microsecond. Scans pay
//! nothing under policies other than the leveled one: they ask several sub-levels of every level
//! there.
//!
//! Scans pay only for present sub-levels: no merge can spare an old iterator its own. The payments
//! are spent when a merge is chosen. They are spent again with each slice of it that is installed,
//! since scans go on paying for sub-levels on their way down.
//!
//! Keyspaces that share a place share their payments: then a merge may come before its scans have
//! paid for all of it, or after.

use std::array;
use std::sync::Arc;

use terrace_lsm::compaction::policy::leveled::scans_merge_bytes;
use terrace_lsm::compaction::policy::settings::CompactionPolicy;
use terrace_lsm::compaction::targets::Shape;
use terrace_lsm::levels::KeyspaceLevels;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

use crate::KeyspaceId;
use crate::db::Store;
use crate::db::view::View;

const PLACES: usize = 16;
/// Bytes that a merge reads and writes while a scan probes a sub-level in memory, some 10 us with
/// all that it costs each row. Or while a device answers.
const PROBE_BYTES: u64 = 4 << 10;
const DIRECT_PROBE_BYTES: u64 = 16 << 10;
/// Bytes paid between two looks at the cost of the merge, which asks every table; and the least
/// price of a merge.
const LOOK_BYTES: u64 = 1 << 20;

/// The payments of scans since level 0 was merged last.
pub(crate) struct Level0Probes {
    probe_bytes: u64,
    paid_bytes: [AtomicU64; PLACES],
}

impl Level0Probes {
    pub(crate) fn new(direct_io: bool) -> Self {
        Level0Probes {
            probe_bytes: if direct_io {
                DIRECT_PROBE_BYTES
            } else {
                PROBE_BYTES
            },
            paid_bytes: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn paid(&self, keyspace: KeyspaceId) -> &AtomicU64 {
        let [first, ..] = &self.paid_bytes;
        let place = keyspace.number() as usize % PLACES;
        self.paid_bytes.get(place).unwrap_or(first)
    }

    /// Counts a scan that was positioned. Returns whether it is time to look if a merge is due.
    fn pay(&self, levels: &KeyspaceLevels) -> bool {
        let level0 = levels.levels.first();
        let sub_levels = level0.map_or(0, |level| level.sub_levels.len());
        let pays_bytes = self.probe_bytes * sub_levels as u64;
        let before_bytes = self
            .paid(levels.id)
            .fetch_add(pays_bytes, Ordering::Relaxed);
        before_bytes / LOOK_BYTES != (before_bytes + pays_bytes) / LOOK_BYTES
    }

    /// Returns whether the payments buy a merge now. Where there is none to be had, nothing is put
    /// by for later ones.
    fn buys(&self, levels: &KeyspaceLevels, shape: Shape) -> bool {
        let merge_bytes = scans_merge_bytes(levels, shape);
        if merge_bytes.is_none() {
            self.spend(levels.id);
        }
        merge_bytes.is_some_and(|bytes| self.covers(levels.id, bytes))
    }

    /// Returns whether scans have paid for all that a merge of level 0 for their sake reads.
    pub(crate) fn have_paid(&self, levels: &KeyspaceLevels, shape: Shape) -> bool {
        // Most have paid nothing, and are not to have their tables looked at.
        self.covers(levels.id, 0)
            && scans_merge_bytes(levels, shape).is_some_and(|bytes| self.covers(levels.id, bytes))
    }

    fn covers(&self, keyspace: KeyspaceId, merge_bytes: u64) -> bool {
        self.paid(keyspace).load(Ordering::Relaxed) >= merge_bytes.max(LOOK_BYTES)
    }

    /// Spends the payments: level 0, or a part of it, goes down.
    pub(crate) fn spend(&self, keyspace: KeyspaceId) {
        self.paid(keyspace).store(0, Ordering::Relaxed);
    }
}

impl Store {
    /// Counts a scan that was positioned in a view. Returns whether level 0 is to be merged; the
    /// caller has the worker look at it once the scan holds nothing in its way.
    pub(crate) fn pays_for_merge(&self, keyspace: KeyspaceId, view: &View) -> bool {
        let Some(levels) = view.version.keyspaces.get(&keyspace) else {
            return false;
        };
        let has_level0 = levels
            .levels
            .first()
            .is_some_and(|level| !level.sub_levels.is_empty());
        has_level0
            && !self.options.read_only
            && self.options.compaction_policy == CompactionPolicy::Leveled
            && Arc::ptr_eq(&view.version, &self.reads.view.load().version)
            && self.compactor.level0_probes.pay(levels)
            && self
                .compactor
                .level0_probes
                .buys(levels, Shape::of(self.form_of(levels)))
            && self.lifecycle.poisoned().is_none()
    }
}
