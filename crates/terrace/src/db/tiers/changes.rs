//! Changes of the tiers of an open store: one is added, drained, removed or given up.

use std::sync::Arc;

use terrace_lsm::data_files::OWN_TIER;
use terrace_lsm::levels::{Edit, TableRemoved, TierRecord, TierUse};
use terrace_lsm::things::things;

use super::cache::TierCache;
use super::finding::{identities_of, make};
use super::home;
use super::meters::TierMeters;
use crate::db::Store;
use crate::db::ledger::Ledger;
use crate::db::owners::Files;
use crate::options::{Background, TierOptions};
use crate::{Error, Result};

impl Store {
    /// Makes a directory a tier of the store. Tables may go there when this returns.
    pub(crate) fn add_tier(self: &Arc<Self>, given: &TierOptions) -> Result<()> {
        self.check_writable()?;
        given.check()?;
        if given.cache_bytes > 0 {
            return Err(Error::invalid(
                "tiers.cache_bytes is for the options of an opening; add the tier without it, and name it there",
            ));
        }
        let Some(path) = &given.directory else {
            return Err(Error::invalid(
                "tiers.directory is unset; a tier that is added needs a directory of its own",
            ));
        };
        let mut ledger = self.manifest_log.ledger.lock();
        if self.files.space.record_of(&given.name).is_some() {
            return Err(Error::invalid(format!(
                "the store has a tier {:?} already; give the new one another name",
                given.name
            )));
        }
        let numbers = ledger.state.tiers.iter().map(|tier| tier.number);
        let pending = ledger.tiers.iter().map(|tier| tier.number);
        let last = numbers.chain(pending).max().unwrap_or(OWN_TIER);
        let number = last.max(OWN_TIER).checked_add(1).ok_or_else(|| {
            Error::invalid("the store has had 254 tiers; no number is left for another")
        })?;
        let others = identities_of(&self.files.data)?;
        let (record, directory, lock) = make(
            &*self.files.storage,
            &self.files.directory,
            (&self.options, &ledger.state),
            given,
            (path, number, &others),
        )?;
        // Before the tier is there: without the threads nothing would move, and a caller would wait for ever.
        if self.options.background == Background::Threads {
            self.start_placement()?;
        }
        self.record_tier(&mut ledger, record.clone())?;
        let (directory, meters) = TierMeters::of_other(directory);
        self.files.data.add_tier(number, Arc::clone(&directory));
        self.files.space.add(record, directory, meters);
        self.files.time_reads_of_levels();
        self.files.tier_locks.lock().push((number, lock));
        drop(ledger);
        self.files.migrations.tiers_changed();
        self.lifecycle.background.migration_wanted(self);
        Ok(())
    }

    /// Has the files of a tier go elsewhere. New ones do not come any more. Returns before they are gone.
    pub(crate) fn drain_tier(&self, name: &str) -> Result<()> {
        self.check_writable()?;
        let mut ledger = self.manifest_log.ledger.lock();
        let tier = self.files.tier_beside_own(name)?;
        if !self.files.data.is_present(tier.number) {
            return Err(Error::invalid(format!(
                "tier {name:?} is missing, so its tables cannot be moved; bring it back, or give it up with \
                 its tables"
            )));
        }
        let state = TierUse::Draining;
        self.change_tier(&mut ledger, TierRecord { state, ..tier })?;
        drop(ledger);
        self.files.migrations.tiers_changed();
        self.lifecycle.background.migration_wanted(self);
        Ok(())
    }

    /// Takes a tier without files from the store. Its directory is nobody's then.
    pub(crate) fn remove_tier(&self, name: &str) -> Result<()> {
        self.check_writable()?;
        self.delete_now();
        let mut ledger = self.manifest_log.ledger.lock();
        let tier = self.files.tier_beside_own(name)?;
        let space = &self.files.space;
        // A tier with files stays as it is: its tables would leave it as if it were drained.
        self.files.check_empty(&ledger, &tier)?;
        // From here on no job reserves space there; those that have done so count.
        space.set_state(tier.number, TierUse::Draining);
        let removed = self
            .files
            .check_empty(&ledger, &tier)
            .and_then(|()| self.leave_tier(&mut ledger, tier.clone(), Edit::default()));
        if removed.is_err() {
            space.set_state(tier.number, tier.state);
        }
        drop(ledger);
        end_cache(removed?);
        Ok(())
    }

    /// Gives up a missing tier with the tables in it. Older versions of their keys, and keys that they
    /// deleted, may show then. Returns the number of tables.
    pub(crate) fn give_up_tier(&self, name: &str) -> Result<usize> {
        self.check_writable()?;
        let mut ledger = self.manifest_log.ledger.lock();
        let tier = self.files.tier_beside_own(name)?;
        if self.files.data.is_present(tier.number) {
            return Err(Error::invalid(format!(
                "tier {name:?} is there; drain and remove it, so that no table is lost"
            )));
        }
        let tables = ledger.state.version.tables().map(|(_, table)| table);
        let lost = tables.filter(|table| table.tier == tier.number);
        let tables_removed: Vec<TableRemoved> = lost
            .map(|table| TableRemoved {
                keyspace: table.keyspace,
                number: table.number,
            })
            .collect();
        let tables = tables_removed.len();
        let edit = Edit {
            tables_removed,
            ..Edit::default()
        };
        let cache = self.leave_tier(&mut ledger, tier, edit)?;
        drop(ledger);
        end_cache(cache);
        let version = Arc::clone(&self.reads.view.load().version);
        for keyspace in version.keyspaces.keys() {
            // Older versions count again.
            self.reads.raise_floor(*keyspace, self.reads.visible());
            self.reads.empty_stretches.forget(*keyspace);
        }
        self.lifecycle.background.compaction_wanted(self);
        Ok(tables)
    }

    /// Records that a tier is removed, with the rest of the edit, and lets its directory go. Returns its cache, for
    /// [`end_cache`] when the ledger is free.
    fn leave_tier(
        &self,
        ledger: &mut Ledger,
        tier: TierRecord,
        edit: Edit,
    ) -> Result<Option<Arc<TierCache>>> {
        let number = tier.number;
        let state = TierUse::Removed;
        let edit = Edit {
            tiers: vec![TierRecord { state, ..tier }],
            ..edit
        };
        self.record_and_show(ledger, edit)?;
        let cache = self.files.take_cache(number);
        if let Ok(directory) = self.files.data.directory(number) {
            // A failure leaves a file that names a removed tier: such a directory may be taken again.
            let _ = home::give_up(&*directory);
        }
        self.files.data.remove_tier(number);
        self.files.space.remove(number);
        let mut locks = self.files.tier_locks.lock();
        locks.retain(|(tier, _)| *tier != number);
        Ok(cache)
    }

    fn change_tier(&self, ledger: &mut Ledger, tier: TierRecord) -> Result<()> {
        let (number, state) = (tier.number, tier.state);
        self.record_tier(ledger, tier)?;
        self.files.space.set_state(number, state);
        Ok(())
    }

    fn record_tier(&self, ledger: &mut Ledger, tier: TierRecord) -> Result<()> {
        let edit = Edit {
            tiers: vec![tier],
            ..Edit::default()
        };
        self.record(ledger, edit)
    }
}

/// Ends the cache of a tier that was removed. That waits for its writer.
fn end_cache(cache: Option<Arc<TierCache>>) {
    if let Some(cache) = cache {
        cache.discard();
    }
}

impl Files {
    /// Fails if a table lies in a tier, or a file that is in progress or waits for its deletion.
    fn check_empty(&self, ledger: &Ledger, tier: &TierRecord) -> Result<()> {
        let tables = ledger.state.version.tables();
        let tables = tables.filter(|(_, table)| table.tier == tier.number);
        let (tables, bytes) = (tables.count(), self.space.used_bytes(tier.number));
        match tables > 0 || bytes > 0 {
            false => Ok(()),
            true => Err(Error::invalid(format!(
                "tier {:?} holds {}, and files of {}; drain it, wait until they are gone, and try again",
                tier.name,
                things(tables, "table"),
                things(bytes, "byte")
            ))),
        }
    }

    fn tier_beside_own(&self, name: &str) -> Result<TierRecord> {
        let tiers = self.space.accounts().into_iter();
        let names: Vec<String> = tiers.map(|account| account.tier.name).collect();
        match self.space.record_of(name) {
            Some(tier) if tier.number == OWN_TIER => Err(Error::invalid(format!(
                "tier {name:?} is the store's own directory, which it keeps"
            ))),
            Some(tier) => Ok(tier),
            None => Err(Error::invalid(format!(
                "there is no tier {name:?}; the store has {}",
                names.join(", ")
            ))),
        }
    }
}
