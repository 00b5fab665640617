//! The store's durable state and the one way to change it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_lsm::levels::{Edit, Manifest, ManifestError, ManifestState, Moment, TierRecord};
use terrace_lsm::region_loss::RegionLoss;
use terrace_region::Arena;

use crate::db::Store;
use crate::db::owners::Writes;
use crate::{Error, Result};

/// The manifest and its state.
pub(crate) struct Ledger {
    /// `None` if the store is read-only.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) state: ManifestState,
    /// Issued generations that will hold no frame; the next edit retires them.
    pub(crate) unused: Vec<Unused>,
    /// A loss that was accepted at the opening; the next edit, which retires the lost arenas,
    /// records it.
    pub(crate) loss: Option<RegionLoss>,
    /// Random bits of this opening; the next edit makes them durable.
    pub(crate) opening_bits: Option<u64>,
    /// Tiers that are new or changed; the next edit records them.
    pub(crate) tiers: Vec<TierRecord>,
}

/// A generation that was issued and not used. Its slot is free once the manifest has retired it: a
/// file that the manifest names must not go.
pub(crate) enum Unused {
    /// Its arena was never activated.
    Reserved { generation: u64, slot: u64 },
    /// A spare that was given up.
    Activated(Arc<Arena>),
}

impl Unused {
    fn generation(&self) -> u64 {
        match self {
            Unused::Reserved { generation, .. } => *generation,
            Unused::Activated(arena) => arena.generation(),
        }
    }

    fn slot(&self) -> u64 {
        match self {
            Unused::Reserved { slot, .. } => *slot,
            Unused::Activated(arena) => arena.slot(),
        }
    }
}

impl Store {
    /// Makes an edit durable, then takes it over. On an error nothing has changed, except that a
    /// failed sync poisons the store: it is not known then which state a reopening will find. So
    /// does a panic, before the ledger is free: nothing may come behind half a record.
    pub(crate) fn record(&self, ledger: &mut Ledger, edit: Edit) -> Result<()> {
        self.check_poison()?;
        self.guard("manifest edit", || {
            match self.record_edit(ledger, edit.clone()) {
                Err(error) if self.gives_reserve_for(&error) => self.record_edit(ledger, edit),
                recorded => recorded,
            }
        })
    }

    fn record_edit(&self, ledger: &mut Ledger, mut edit: Edit) -> Result<()> {
        edit.arenas_retired
            .extend(ledger.unused.iter().map(Unused::generation));
        edit.persisted_until = Some(
            self.writes
                .persisted
                .load(Ordering::Acquire)
                .max(ledger.state.persisted_until),
        );
        // Opened with another durability: recorded by the edit that retires the old arenas.
        let emulated = self.writes.region.description().emulated;
        let domain = self.writes.durability.domain(emulated);
        edit.domain = (domain != ledger.state.identity.domain).then_some(domain);
        // So is another home of the arenas, before the first one is made there.
        edit.arena_home = (self.manifest_log.arena_home != ledger.state.arena_home)
            .then(|| self.manifest_log.arena_home.clone());
        edit.region_losses = ledger.loss.into_iter().collect();
        edit.opening_bits = ledger.opening_bits;
        edit.tiers.extend(ledger.tiers.iter().cloned());
        edit.moments.extend(self.moment_due(ledger, &edit));
        if !edit.tables_added.is_empty() {
            edit.next_table_number = Some(self.files.next_table.load(Ordering::Relaxed));
        }
        let next = ledger
            .state
            .apply(&edit)
            .map_err(|error| Error::invalid(error.to_string()))?;
        let manifest = ledger.manifest.as_mut().ok_or(Error::Closed)?;
        self.check_ownership(manifest)?;
        match manifest.append(&edit, &next) {
            Ok(()) => {}
            Err(ManifestError::Poison(error)) => return Err(self.poison(error)),
            Err(ManifestError::NotWritten(error)) => return Err(error),
        }
        ledger.state.version.mark_removed(&edit);
        next.version.count_edit(&edit);
        ledger.state = next;
        if !edit.moments.is_empty() {
            *self.files.moments.lock() = ledger.state.moments.clone();
        }
        ledger.loss = None;
        ledger.opening_bits = None;
        ledger.tiers.clear();
        for unused in ledger.unused.drain(..) {
            self.writes.recycle(unused.slot());
        }
        Ok(())
    }

    /// Returns the moment to note beside a flush: in a store with several tiers, the age of a table may decide
    /// on its place.
    fn moment_due(&self, ledger: &Ledger, edit: &Edit) -> Option<Moment> {
        let sequence = edit.flushed_sequence?;
        let now = Moment {
            sequence,
            seconds: self.lifecycle.clock.unix_seconds().max(1),
        };
        let has_choice = self.files.space.is_limited();
        ledger.state.moments.due(now).filter(|_| has_choice)
    }

    /// Fails if the directory is not this owner's any more: then another process may
    /// change the files that the edit lists, and the tables that are to go.
    pub(crate) fn check_ownership(&self, manifest: &Manifest) -> Result<()> {
        let checked = self.lifecycle.ownership.check();
        let checked = checked.and_then(|()| manifest.check_in_place());
        checked.map_err(|error| self.ownership_lost(error))
    }

    /// Fails if the directory was removed: nothing that is made in it can be found again.
    pub(crate) fn check_directory_is_there(&self) -> Result<()> {
        let checked = self.lifecycle.ownership.check_not_removed();
        checked.map_err(|error| self.ownership_lost(error))
    }

    /// Refuses all writes from now on if the directory was lost.
    fn ownership_lost(&self, error: Error) -> Error {
        match error {
            Error::OwnershipLost { .. } => self.poison(error),
            error => error,
        }
    }
}

impl Writes {
    /// Gives a slot back. A failure costs its space until the next opening and nothing else.
    pub(crate) fn recycle(&self, slot: u64) {
        let _ = self.region.recycle(slot);
    }
}
