//! The region of a store: its opening, its contents after a crash, its errors in the engine's
//! terms.

use std::sync::Arc;

use terrace_lsm::levels::ManifestState;
use terrace_region::Region;
use terrace_storage::{CountingStorage, Directory};

use crate::db::Store;
use crate::db::recover::{RecoveredWrites, check_evidence, recover, recover_nothing};
use crate::db::region_home::OldArenas;
use crate::options::{Durability, Options};
use crate::{Error, RegionLoss, Result};

/// Refuses a region directory for volatile arenas: memory lives in no directory.
pub(crate) fn refuse_volatile_files(durability: Durability, options: &Options) -> Result<()> {
    if durability == Durability::Volatile && options.region_dir.is_some() {
        return Err(Error::invalid(
            "the store is Volatile, its arenas are in memory; leave region_dir unset",
        ));
    }
    Ok(())
}

/// Returns the region that holds the arenas the manifest names, if one does, and the writes in it.
pub(crate) fn recover_from(
    storage: &Arc<CountingStorage>,
    old: &OldArenas,
    options: &Options,
    state: &ManifestState,
    durability: Durability,
) -> Result<(Option<Region>, RecoveredWrites)> {
    match old {
        OldArenas::In(directory) => {
            let store_id = state.identity.store_id;
            let region = open_region(storage, directory, store_id, options, durability)?;
            let foreign_files = check_evidence(&region, state)?;
            let mut recovered = recover(&region, state, options)?;
            recovered.report.foreign_files = foreign_files;
            Ok((Some(region), recovered))
        }
        OldArenas::NotNeeded => Ok((None, recover_nothing(state)?)),
        OldArenas::Lost => Ok((None, RecoveredWrites::lost(state))),
    }
}

/// Opens the region of the store with this number, whose arenas are in `directory`.
pub fn open_region(
    storage: &Arc<CountingStorage>,
    directory: &Arc<dyn Directory>,
    store_id: u128,
    options: &Options,
    durability: Durability,
) -> Result<Region> {
    let store = store_id.to_le_bytes();
    let region = match (&options.region, durability) {
        (Some(source), _) => source
            .open()
            .and_then(|device| Region::open(device, store, options.arena_bytes)),
        (None, Durability::Volatile) => Region::volatile(options.arena_bytes),
        (None, _) => options.persist_method.open(
            &**storage,
            Arc::clone(directory),
            store,
            options.arena_bytes,
            durability,
            options.constants.emulate_power_safety,
        ),
    };
    let region = region.map_err(region_error)?;
    let description = region.description();
    if durability == Durability::PowerSafe && !description.can_persist {
        return Err(Error::invalid(format!(
            "{} cannot keep a PowerSafe store: nothing on it survives a power cut; put the store \
             on a disk, or open it as CrashSafe",
            description.medium
        )));
    }
    Ok(region)
}

impl Store {
    /// Returns a region's error in the engine's terms, with the numbers of the writes that a missing
    /// arena leaves. Takes no lock.
    pub(crate) fn region_error(&self, error: terrace_region::Error) -> Error {
        let kept = self.reads.view.load().flushed_sequence;
        let promised = self.writes.persisted().max(kept);
        region_error(error).with_loss(RegionLoss::new(kept, promised))
    }

    /// Returns the error of a failed persist of an arena: nothing may be written on top of it.
    pub(crate) fn persist_failed(&self, error: terrace_region::Error) -> Error {
        let poisons = matches!(error, terrace_region::Error::PersistFailed(_));
        let error = self.region_error(error);
        if poisons { self.poison(error) } else { error }
    }
}

/// Returns a region's error in the engine's terms. `Store::region_error` and [`Error::with_loss`]
/// name the writes that a missing arena leaves.
pub fn region_error(error: terrace_region::Error) -> Error {
    use terrace_region::Error as Region;
    match error {
        Region::Io(error) => error.into(),
        Region::PersistFailed(error) => error.into(),
        Region::Corruption {
            file,
            offset,
            reason,
        } => Error::corruption(&file, offset, reason),
        Region::Foreign { file, detail } => {
            Error::corruption(&file, 0, format!("{detail}; move it away"))
        }
        Region::UnknownVersion { file, version } => {
            Error::unsupported(&file, format!("arena format version {version}"))
        }
        Region::Missing { file, .. } => Error::RegionLost {
            path: file,
            loss: None,
        },
        error => Error::invalid(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use terrace_lsm::levels::Edit;

    use super::*;
    use crate::Db;

    #[test]
    fn a_manifest_that_promises_writes_that_are_nowhere_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let open = |durability| {
            let options = Options {
                durability: Some(durability),
                ..Options::default()
            };
            Db::open(directory.path(), options)
        };
        let db = open(Durability::Volatile).unwrap();
        db.put(b"key", b"value").unwrap();
        let store = db.store();
        store.writes.persisted.store(1000, Ordering::Relaxed);
        let mut ledger = store.manifest_log.ledger.lock();
        store.record(&mut ledger, Edit::default()).unwrap();
        drop(ledger);
        drop(db);
        // Arenas in memory are not asked for their numbers.
        let refused = open(Durability::CrashSafe).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Corruption { .. }), "{refused:?}");
    }

    #[test]
    fn an_arena_that_went_missing_is_told_with_the_numbers_that_tables_hold() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Options::default()).unwrap();
        for number in 0..835_u32 {
            db.put(number.to_be_bytes(), b"").unwrap();
        }
        db.flush().unwrap();
        let missing = terrace_region::Error::Missing {
            slot: 1,
            file: "arena-1".into(),
        };
        let text = db.store().region_error(missing).to_string();
        let kept = "; writes up to number 835 are in tables; mount or restore it";
        assert!(text.contains(kept), "{text}");
    }
}
