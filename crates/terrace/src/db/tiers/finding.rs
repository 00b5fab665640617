//! The tiers at an opening: known ones are found, new ones are made.
//!
//! Nothing is written before all known tiers are found, so that a refused opening changes nothing. Locks are
//! taken in the order of the numbers. The next edit of the manifest records new tiers and changed ones; until
//! then no edit can list a table there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_lsm::data_files::{DataFiles, FileId, LostTier, OWN_TIER};
use terrace_lsm::error::MissingTier;
use terrace_lsm::levels::{ManifestState, TierRecord, TierUse};
use terrace_storage::{Directory, Escaped, FileIdentity, Lock, Storage};

use super::home::{self, TierIdentity, examine, wrong};
use super::meters::TierMeters;
use crate::db::directory::open_if_there;
use crate::db::ownership::{busy, lock_as_owner, lock_as_reader};
use crate::options::{Options, TierOptions};
use crate::{Error, Result};

/// The name of the tier of the store's directory, where no option gives it another.
const OWN_NAME: &str = "store";

/// The tiers of a store that is being opened.
#[derive(Default)]
pub(crate) struct FoundTiers {
    /// All that are in use, in the order of their numbers, the store's own directory first.
    pub(crate) records: Vec<TierRecord>,
    /// Those that the next edit has to record.
    pub(crate) changed: Vec<TierRecord>,
    pub(crate) locks: Vec<(u8, Box<dyn Lock>)>,
    /// The meters of the directories that are at hand.
    pub(crate) meters: Vec<(u8, TierMeters)>,
}

/// The place to look for tiers, and the facts that decide.
struct Search<'a> {
    storage: &'a dyn Storage,
    store: &'a Arc<dyn Directory>,
    options: &'a Options,
    state: &'a ManifestState,
}

/// Finds the tiers that the manifest lists, makes those that the options name beside them, and adds the
/// directories of all to `data`.
///
/// # Errors
/// [`Error::TierLost`] if a directory is missing that tables lie in, [`Error::WrongTier`] if one is
/// another's, [`Error::Busy`] if one is in use.
pub(crate) fn settle(
    storage: &dyn Storage,
    store: &Arc<dyn Directory>,
    options: &Options,
    state: &ManifestState,
    data: &DataFiles,
) -> Result<FoundTiers> {
    let search = Search {
        storage,
        store,
        options,
        state,
    };
    let mut found = FoundTiers {
        records: vec![search.own()],
        ..FoundTiers::default()
    };
    let mut directories = Vec::new();
    for known in &state.tiers {
        if known.number != OWN_TIER && known.state != TierUse::Removed {
            let (record, directory) = search.find(known)?;
            directories.push((record.number, directory));
            found.records.push(record);
        }
    }
    check_own_name(&found.records)?;
    search.check_apart(&directories)?;
    for (record, (number, directory)) in found.records.iter().skip(1).zip(directories) {
        match directory {
            Some(directory) => {
                let lock = search.lock(&*directory, record)?;
                found.locks.extend(lock.map(|lock| (number, lock)));
                let (directory, meters) = TierMeters::of_other(directory);
                found.meters.push((number, meters));
                data.add_tier(number, directory);
            }
            None => data.lose_tier(number, lost(record)),
        }
    }
    if !options.read_only {
        search.make_new(&mut found, data)?;
    }
    let is_changed = |record: &&TierRecord| {
        let known = state.tiers.iter();
        let mut known = known.filter(|known| known.number == record.number);
        // A store with one tier and no word about it needs no record.
        known.next() != Some(record) && **record != unnamed_own()
    };
    found.changed = found.records.iter().filter(is_changed).cloned().collect();
    Ok(found)
}

/// Checks that the store's own directory has no name of another tier: operators tell tiers by their names.
fn check_own_name(records: &[TierRecord]) -> Result<()> {
    let mut records = records.iter();
    let own = records.next().map(|own| &own.name);
    match own.filter(|own| records.any(|other| other.name == **own)) {
        Some(own) => Err(Error::invalid(format!(
            "tiers.name: {own} is the name of another tier of the store; give its own directory another"
        ))),
        None => Ok(()),
    }
}

fn unnamed_own() -> TierRecord {
    TierRecord {
        number: OWN_TIER,
        id: 0,
        name: OWN_NAME.to_owned(),
        path: PathBuf::new(),
        capacity_bytes: 0,
        reserve_bytes: 0,
        profile: None,
        state: TierUse::Open,
    }
}

fn lost(record: &TierRecord) -> LostTier {
    LostTier {
        name: record.name.clone(),
        path: record.path.clone(),
    }
}

impl TierOptions {
    /// Returns a record with these limits.
    fn limit(&self, record: TierRecord) -> TierRecord {
        TierRecord {
            capacity_bytes: self.capacity_bytes.unwrap_or(0),
            reserve_bytes: self.reserve_bytes,
            profile: self.profile.or(record.profile),
            ..record
        }
    }
}

impl Search<'_> {
    /// Returns the tier of the store's own directory, by the options or by the manifest.
    fn own(&self) -> TierRecord {
        let given = self.options.tiers.first();
        let known = self.state.tiers.iter().find(|tier| tier.number == OWN_TIER);
        let known = known.cloned().unwrap_or_else(unnamed_own);
        match given.filter(|given| given.directory.is_none()) {
            Some(given) => given.limit(TierRecord {
                name: given.name.clone(),
                ..known
            }),
            None => known,
        }
    }

    fn given(&self, name: &str) -> Option<(&TierOptions, &Path)> {
        let mut tiers = self.options.tiers.iter();
        let given = tiers.find(|given| given.name == name)?;
        Some((given, given.directory.as_deref()?))
    }

    /// Finds the directory of a known tier: where the options say, or where it was last. `None` for one that
    /// the caller goes on without.
    fn find(&self, known: &TierRecord) -> Result<(TierRecord, Option<Arc<dyn Directory>>)> {
        let identity = TierIdentity::of(self.state.identity.store_id, known);
        let given = self.given(&known.name);
        let mut record = known.clone();
        if let Some((options, _)) = given {
            record = options.limit(record);
        }
        let given = given.map(|(_, path)| path);
        let mut cause = None;
        for place in given.into_iter().chain([known.path.as_path()]) {
            let looked = absolute(place)
                .and_then(|absolute| Ok((self.look(&absolute, identity)?, absolute)));
            match looked {
                Ok((Some(directory), absolute)) => {
                    record.path = absolute;
                    if record.state == TierUse::Lost {
                        record.state = TierUse::Open;
                    }
                    return Ok((record, Some(directory)));
                }
                Ok((None, _)) => {}
                // The caller named the place. Of the place where it was once, nothing is certain.
                Err(error) if Some(place) == given && !self.options.accept_tier_loss => {
                    return Err(error);
                }
                Err(error) => cause = cause.or(Some(error)),
            }
        }
        self.go_on_without(record, cause)
    }

    /// Returns the directory at a place, if it has an identity; `None` if there is none, or nothing is in it: a
    /// device that is not mounted, as a rule.
    fn look(&self, place: &Path, identity: TierIdentity) -> Result<Option<Arc<dyn Directory>>> {
        let opened = open_if_there(self.storage, place, self.options.file_access.into())?;
        let Some(directory) = opened else {
            return Ok(None);
        };
        match examine(self.store.path(), &*directory)? {
            Some(found) if found == identity => Ok(Some(directory)),
            Some(found) => Err(self.foreign(place, found)),
            None => Ok(None),
        }
    }

    /// Returns a tier that is missing, if nothing is needed there, or the options accept the loss.
    fn go_on_without(
        &self,
        record: TierRecord,
        cause: Option<Error>,
    ) -> Result<(TierRecord, Option<Arc<dyn Directory>>)> {
        let (mut files, mut keyspaces) = (Vec::new(), BTreeSet::new());
        for levels in self.state.version.keyspaces.values() {
            for (_, table) in levels
                .tables()
                .filter(|(_, table)| table.tier == record.number)
            {
                files.push(
                    table
                        .placed()
                        .file
                        .name(terrace_lsm::data_files::Stage::Listed),
                );
                keyspaces.insert(levels.name.clone());
            }
        }
        if !files.is_empty() && !self.options.accept_tier_loss {
            return Err(Error::TierLost {
                tier: record.name,
                path: record.path,
                missing: Arc::new(MissingTier::new(
                    files,
                    keyspaces.into_iter().collect(),
                    cause,
                )),
            });
        }
        let state = match record.state {
            TierUse::Open => TierUse::Lost,
            // It goes on when the tier is back.
            state => state,
        };
        Ok((TierRecord { state, ..record }, None))
    }

    /// Refuses one directory in the place of two.
    fn check_apart(&self, tiers: &[(u8, Option<Arc<dyn Directory>>)]) -> Result<()> {
        let mut seen = vec![self.store.identity()?];
        for directory in tiers.iter().filter_map(|(_, directory)| directory.as_ref()) {
            seen.push(check_not_among(&seen, &**directory)?);
        }
        Ok(())
    }

    /// Takes the lock of a tier, and looks again: another process may have taken the directory before.
    fn lock(
        &self,
        directory: &dyn Directory,
        record: &TierRecord,
    ) -> Result<Option<Box<dyn Lock>>> {
        let lock = match self.options.read_only {
            true => lock_as_reader(directory)?,
            false => Some(lock_as_owner(directory)?),
        };
        let identity = TierIdentity::of(self.state.identity.store_id, record);
        match examine(self.store.path(), directory)? == Some(identity) {
            true => Ok(lock),
            false => Err(busy(directory)),
        }
    }

    /// Makes the tiers that the options name and the store does not know.
    fn make_new(&self, found: &mut FoundTiers, data: &DataFiles) -> Result<()> {
        let mut next = self.state.tiers.iter().map(|tier| tier.number).max();
        for given in &self.options.tiers {
            let Some(path) = &given.directory else {
                continue;
            };
            let own = found.records.iter().find(|known| known.number == OWN_TIER);
            if own.is_some_and(|own| own.name == given.name) {
                return Err(Error::invalid(format!(
                    "tiers.name: {} is the name of the store's own directory; give the tier another, or name \
                     that directory in the first entry",
                    given.name
                )));
            }
            if found.records.iter().any(|known| known.name == given.name) {
                continue;
            }
            let number = next.unwrap_or(OWN_TIER).checked_add(1);
            let number = number.ok_or_else(|| {
                Error::invalid("the store has had 254 tiers; no number is left for another")
            })?;
            next = Some(number);
            let others = identities_of(data)?;
            let decided_by = (self.options, self.state);
            let place = (path.as_path(), number, others.as_slice());
            let (record, directory, lock) =
                make(self.storage, self.store, decided_by, given, place)?;
            let (directory, meters) = TierMeters::of_other(directory);
            found.meters.push((number, meters));
            data.add_tier(number, directory);
            found.records.push(record);
            found.locks.push((number, lock));
        }
        Ok(())
    }

    fn foreign(&self, directory: &Path, found: TierIdentity) -> Error {
        foreign(
            self.store.path(),
            directory,
            self.state.identity.store_id,
            found,
        )
    }
}

fn foreign(store: &Path, directory: &Path, store_id: u128, found: TierIdentity) -> Error {
    let detail = if found.store_id == store_id {
        format!(
            "it is tier {} of this store; name its own directory",
            found.number
        )
    } else {
        format!(
            "it belongs to store {:032x}, and this one is store {store_id:032x}; name another directory, \
             or empty this one if that store is gone",
            found.store_id
        )
    };
    wrong(store, directory, detail)
}

/// Returns the identities of the directories of all tiers that are at hand.
pub(super) fn identities_of(data: &DataFiles) -> Result<Vec<FileIdentity>> {
    let present = data.present().into_iter();
    present
        .map(|(_, directory)| Ok(directory.identity()?))
        .collect()
}

/// Returns the identity of a directory that is none of these.
fn check_not_among(seen: &[FileIdentity], directory: &dyn Directory) -> Result<FileIdentity> {
    let identity = directory.identity()?;
    match seen.contains(&identity) {
        false => Ok(identity),
        true => Err(Error::invalid(format!(
            "tiers.directory: {} is the store's own directory or another tier's; each tier needs one of \
             its own",
            Escaped::path(directory.path())
        ))),
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| Error::invalid(format!("{}: {error}", Escaped::path(path))))
}

/// A tier that was made: its record, its directory, and the lock on it.
pub(super) type Made = (TierRecord, Arc<dyn Directory>, Box<dyn Lock>);

/// Makes a directory the tier of a store, durably, and locks it. The next edit is to list the tier.
pub(super) fn make(
    storage: &dyn Storage,
    store: &Arc<dyn Directory>,
    (options, state): (&Options, &ManifestState),
    given: &TierOptions,
    (path, number, others): (&Path, u8, &[FileIdentity]),
) -> Result<Made> {
    let access = options.file_access.into();
    let path = absolute(path)?;
    let directory = match open_if_there(storage, &path, access)? {
        Some(directory) => directory,
        None => {
            storage.create_directory_for(&path, access)?;
            storage.directory(&path, access)?
        }
    };
    check_not_among(others, &*directory)?;
    let store_id = state.identity.store_id;
    let check = || match examine(store.path(), &*directory)? {
        // A crash came between this file and the edit that was to list the tier, or between the edit that
        // removed the tier and the removal of the file.
        Some(found) if found.store_id == store_id && is_nobodys(state, found) => Ok(()),
        Some(found) => Err(foreign(store.path(), &path, store_id, found)),
        None => Ok(()),
    };
    // Before the lock, which makes a file in the directory of somebody else, and again under it.
    check()?;
    let lock = lock_as_owner(&*directory)?;
    check()?;
    check_given_up(store.path(), &*directory, state)?;
    let record = TierRecord {
        number,
        id: rand::random(),
        name: given.name.clone(),
        path,
        capacity_bytes: 0,
        reserve_bytes: 0,
        profile: None,
        state: TierUse::Open,
    };
    home::write(&*directory, TierIdentity::of(store_id, &record))?;
    Ok((given.limit(record), directory, lock))
}

/// Returns whether no tier of the store has the identity, or one that was removed.
fn is_nobodys(state: &ManifestState, found: TierIdentity) -> bool {
    let of_it = |tier: &&TierRecord| tier.number == found.number && tier.id == found.tier_id;
    state
        .tiers
        .iter()
        .find(of_it)
        .is_none_or(|tier| tier.state == TierUse::Removed)
}

/// Refuses a directory with tables of a tier that the store gave up while it was missing.
fn check_given_up(store: &Path, directory: &dyn Directory, state: &ManifestState) -> Result<()> {
    let Some(found) = examine(store, directory)? else {
        return Ok(());
    };
    let mut known = state.tiers.iter();
    let is_known = known.any(|tier| tier.id == found.tier_id);
    let mut names = directory.list()?.into_iter().map(|entry| entry.name);
    match names.find(|name| is_known && FileId::parse(name).is_some()) {
        Some(table) => {
            let detail = format!(
                "it holds {table} of a tier that this store gave up; move such files away, or name \
                 another directory"
            );
            Err(wrong(store, directory.path(), detail))
        }
        None => Ok(()),
    }
}
