//! Basis of a repair: the manifest, or its remains.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use terrace::offline::region_home::{self, OldArenas};
use terrace::offline::tiers;
use terrace::offline::{
    check_live_keyspaces, domain_of, durability_of, files, lost_end, open_region, recover,
    region_error, unissued, with_socket,
};
use terrace::{Durability, Error, KeyspaceId, Options, Result};
use terrace_lsm::levels::{
    ArenaHome, Identity, MAX_NUMBER, Manifest, ManifestOptions, ManifestState, ManifestTail,
    TableMeta, TierUse, Version, remains,
};
use terrace_region::{HeaderState, Region};
use terrace_storage::{Directory, Lock};

use super::owner::Owner;
use super::report::LeftFile;
use super::site::Site;
use super::strangers::{bring_back, still_aside, stranger};

/// Known facts of the store without its tables and arenas.
pub(super) struct Basis {
    /// State of the manifest, or of its remains; invented if there are none.
    pub(super) state: ManifestState,
    /// The manifest, open, or why it is not to be kept.
    pub(super) manifest: Result<Manifest>,
    /// Whether the state is that of a manifest, and not invented.
    pub(super) is_known: bool,
    /// Whether the manifest is whole, and a new one is made only to list more.
    pub(super) is_extended: bool,
    /// Whether it is known which arenas are the store's. If not, none is taken.
    pub(super) takes_arenas: bool,
    /// Arenas of copies of this store: their writes have numbers that it gave to others.
    pub(super) of_copies: BTreeSet<PathBuf>,
    /// Arenas of the chosen store that stay aside.
    pub(super) left_aside: Vec<LeftFile>,
    /// Lock of a manifest that is not kept: `LOCK` may be gone, and this keeps others out.
    lock: Option<Box<dyn Lock>>,
}

/// A slot that is not blank.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) number: u64,
    /// As the header of this store tells, or the manifest. `None` if neither does.
    pub(super) generation: Option<u64>,
    /// Whether the arena is not taken.
    pub(super) is_stranger: bool,
}

/// Where the arenas are; locked against others as long as this lives.
pub(super) struct Home {
    /// Regions; none if no arena survives its process.
    pub(super) regions: Vec<Region>,
    /// Whether the arenas that the manifest names are in the first.
    pub(super) has_listed: bool,
    /// Whether they are not at hand, and the caller goes on without.
    pub(super) is_lost: bool,
    /// Damage of the region directory's own file, which is rewritten.
    pub(super) damaged_region: Option<Error>,
    _lock: Option<Box<dyn Lock>>,
}

impl Basis {
    /// Finds the tiers of the store. A manifest that is kept lists all of them; without one those count that
    /// the options name.
    pub(super) fn find_tiers(&mut self, site: &Site) -> Result<Vec<Box<dyn Lock>>> {
        let mut options = site.options.clone();
        if self.is_known {
            let tiers = self.state.tiers.iter();
            let used = tiers.filter(|tier| tier.state != TierUse::Removed);
            let names: Vec<&str> = used.map(|tier| &*tier.name).collect();
            options.tiers.retain(|tier| names.contains(&&*tier.name));
        }
        let (storage, store) = (&*site.storage, &site.directory);
        let (records, locks) = tiers::find(storage, store, &options, &self.state, &site.data)?;
        if !self.is_known {
            // One directory without limits needs no record.
            let is_told = records.len() > 1 || records.iter().any(|tier| tier.capacity_bytes > 0);
            self.state.tiers = if is_told { records } else { Vec::new() };
        }
        // Files there have numbers, too.
        for (_, entry) in site.data.entries()? {
            let number = files::used_table_number(&entry.name);
            if let Some(number) = number.filter(|&number| files::leaves_room(number)) {
                site.skip_numbers_below(number + 1);
            }
        }
        Ok(locks)
    }

    pub(super) fn find(site: &Site) -> Result<Self> {
        let options = ManifestOptions {
            rewrite_above_bytes: site.options.constants.manifest_bytes,
        };
        let directory = Arc::clone(&site.directory);
        let opened = Manifest::open(directory, options);
        match opened.map_err(|error| with_socket(&*site.directory, error)) {
            Ok((manifest, state)) => {
                let mut basis = Basis {
                    state,
                    manifest: Ok(manifest),
                    is_known: true,
                    is_extended: false,
                    takes_arenas: true,
                    of_copies: BTreeSet::new(),
                    left_aside: Vec::new(),
                    lock: None,
                };
                basis.choose(site)?;
                Ok(basis)
            }
            Err(error @ Error::Corruption { .. }) => Basis::without_manifest(site, error),
            Err(error) => Err(error),
        }
    }

    fn without_manifest(site: &Site, why: Error) -> Result<Self> {
        let found = remains(&*site.directory, |state| !site.is_unfinished(state))
            .map_err(|error| with_socket(&*site.directory, error))?;
        let is_known = found.is_some();
        let (state, takes_arenas) = match found {
            Some(state) => (state, true),
            None => invented(site)?,
        };
        let mut basis = Basis {
            state,
            manifest: Err(why),
            is_known,
            is_extended: false,
            takes_arenas,
            of_copies: BTreeSet::new(),
            left_aside: Vec::new(),
            lock: None,
        };
        basis.choose(site)?;
        Ok(basis)
    }

    /// Makes the store the one whose arenas the caller chose. Its manifest, of another number, is
    /// not kept then.
    fn choose(&mut self, site: &Site) -> Result<()> {
        let Some(chosen) = site.decisions.store else {
            return Ok(());
        };
        let own = self.state.identity.store_id;
        if own != chosen && self.state.may_hold_writes() {
            return Err(Error::invalid(format!(
                "the arenas of this store, number {own:032x}, may hold writes that are nowhere else; \
                 open it, flush and close it before another store's arenas are taken"
            )));
        }
        // A whole manifest of the chosen store says which of its arenas count: those aside do not.
        let look = match own == chosen && self.manifest.is_ok() {
            true => still_aside,
            false => bring_back,
        };
        self.left_aside = look(&*site.directory, chosen)?;
        if let Some(directory) = site.given_region()? {
            self.left_aside.extend(look(&*directory, chosen)?);
        }
        if own == chosen {
            return Ok(());
        }
        let detail = format!("it is of store {own:032x}, and {chosen:032x} was chosen");
        self.distrust(Error::corruption(
            &site.directory.shown("MANIFEST"),
            0,
            detail,
        ));
        self.state.identity.store_id = chosen;
        self.state.live_arenas.clear();
        Ok(())
    }

    /// Returns the version whose tables count, if the manifest is to be kept.
    pub(super) fn listed(&self) -> Option<&Version> {
        self.manifest.as_ref().ok().map(|_| &*self.state.version)
    }

    /// Returns how the manifest, or its remains, list a table.
    pub(super) fn meta_of(&self, number: u64) -> Option<&TableMeta> {
        let mut tables = self.state.version.tables();
        tables
            .find(|(_, table)| table.number == number)
            .map(|(_, table)| &***table)
    }

    /// Returns the end that was dropped of a manifest that is kept.
    pub(super) fn tail(&self) -> Option<&ManifestTail> {
        self.manifest.as_ref().ok()?.tail()
    }

    /// Whether a keyspace has been dropped, so that nothing of it is to come back.
    pub(super) fn is_dropped(&self, keyspace: KeyspaceId) -> bool {
        (self.manifest.is_ok() || self.is_extended)
            && keyspace.number() < self.state.next_keyspace
            && self.state.version.keyspace(keyspace).is_none()
    }

    /// Has a new manifest made in place of one that is whole, unless that happens anyway.
    pub(super) fn extend(&mut self) {
        if self.manifest.is_ok() {
            self.is_extended = true;
            self.distrust(Error::invalid("it does not list what is taken in"));
        }
    }

    /// Notes that the manifest is not to be kept, for this reason.
    pub(super) fn distrust(&mut self, why: Error) {
        if let Ok(manifest) = std::mem::replace(&mut self.manifest, Err(why)) {
            self.lock = manifest.into_lock();
        }
    }

    /// Whether arenas that the manifest names may hold writes and cannot be looked at, since another
    /// release says whose they are.
    pub(super) fn has_unread_arenas(&self, site: &Site) -> bool {
        let is_whole = self.manifest.is_ok() || self.is_extended;
        let may_hold_writes = match is_whole {
            true => self.state.may_hold_writes(),
            // A close in order is believed of a whole manifest alone.
            false => !self.state.live_arenas.is_empty(),
        };
        site.newer_region.is_some() && self.state.arena_home != ArenaHome::Store && may_hold_writes
    }

    /// Finds the store's arenas: where the manifest says, and where the caller says that they are
    /// now. A manifest that knows less than the arenas do has lost its end, and is not kept.
    pub(super) fn home(&mut self, site: &Site) -> Result<Home> {
        let storage = &*site.storage;
        if site.newer_region.is_some() && self.state.arena_home != ArenaHome::Store {
            // Another release says whose the arenas are: they stay as they are.
            return Ok(Home {
                regions: Vec::new(),
                has_listed: false,
                is_lost: false,
                damaged_region: None,
                _lock: None,
            });
        }
        let damaged_region = self.mend_region(site)?;
        let given = region_home::given(storage, &*site.directory, &site.options, true)?;
        // A repair writes nothing there.
        let looking = Options {
            read_only: true,
            ..site.options.clone()
        };
        let homes = region_home::settle(storage, &site.directory, given, &looking, &self.state)?;
        let is_old = homes.old.are_in(&homes.directory);
        let mut directories = vec![homes.directory];
        if let OldArenas::In(directory) = &homes.old
            && !is_old
        {
            directories.insert(0, Arc::clone(directory));
        }
        for directory in &directories {
            if !Arc::ptr_eq(directory, &site.directory) {
                // There is no other: the given one is the one that the manifest means.
                let _ = site.region_directory.set(Arc::clone(directory));
            }
        }
        let durability = durability_of(self.state.identity.domain);
        let mut home = Home {
            regions: Vec::new(),
            has_listed: matches!(homes.old, OldArenas::In(_)),
            is_lost: matches!(homes.old, OldArenas::Lost),
            damaged_region,
            _lock: homes.lock,
        };
        if durability == Durability::Volatile {
            return Ok(home);
        }
        for directory in directories {
            let region = self.open_region(site, &directory, durability)?;
            // Without a manifest there is none that could have lost its end.
            if self.manifest.is_ok() {
                self.weigh_evidence(site, &region)?;
            }
            home.regions.push(region);
        }
        Ok(home)
    }

    /// Distrusts the manifest if an arena has a generation that no edit issued. Such an arena
    /// proves nothing if its first write has a number that the listed arenas or tables hold
    /// already. Had the manifest only lost its end, the writes of younger generations had later
    /// numbers.
    fn weigh_evidence(&mut self, site: &Site, region: &Region) -> Result<()> {
        let slots = region.slots().map_err(region_error)?;
        let unissued = unissued(&slots, &self.state);
        let unissued: Vec<_> = unissued.filter(|(_, given)| *given < MAX_NUMBER).collect();
        if unissued.is_empty() {
            return self.weigh_keyspaces(region);
        }
        let known = match recover(region, &self.state, &site.options) {
            Ok(writes) => writes.last_sequence,
            // The listed arenas are judged later.
            Err(
                Error::Corruption { .. } | Error::RegionLost { .. } | Error::Unsupported { .. },
            ) => self.state.flushed_sequence,
            Err(error) => return Err(error),
        };
        for (slot, generation) in unissued {
            let file = region.file(slot);
            let first = match region.recover(slot, generation) {
                Ok(found) => found.scan.run.map(|run| run.first_sequence),
                Err(terrace_region::Error::Corruption { .. }) => None,
                Err(error) => return Err(region_error(error)),
            };
            if first.is_some_and(|first| first <= known) {
                self.of_copies.insert(file);
            } else {
                self.distrust(lost_end(&self.state, &file, generation));
            }
        }
        self.weigh_keyspaces(region)
    }

    /// Distrusts the manifest if a live arena holds a write to a keyspace that no edit issued.
    fn weigh_keyspaces(&mut self, region: &Region) -> Result<()> {
        match check_live_keyspaces(region, &self.state) {
            Err(why @ Error::Corruption { .. }) => {
                self.distrust(why);
                Ok(())
            }
            checked => checked,
        }
    }

    fn open_region(
        &self,
        site: &Site,
        directory: &Arc<dyn Directory>,
        durability: Durability,
    ) -> Result<Region> {
        let store_id = self.state.identity.store_id;
        open_region(
            &site.storage,
            directory,
            store_id,
            &site.options,
            durability,
        )
    }

    /// Rewrites the file that says whose region the given directory is. It does so only if the file
    /// is damaged and an arena which the manifest names is there: then it is this store's. Returns
    /// the damage, if so.
    fn mend_region(&self, site: &Site) -> Result<Option<Error>> {
        let (Some(directory), ArenaHome::Region { id, .. }) =
            (site.given_region()?, &self.state.arena_home)
        else {
            return Ok(None);
        };
        let damage = match region_home::owner(&site.path, &*directory) {
            Err(damage @ Error::Corruption { .. }) => damage,
            Err(error) => return Err(error),
            Ok(_) => return Ok(None),
        };
        let durability = durability_of(self.state.identity.domain);
        let region = self.open_region(site, &directory, durability)?;
        let live = &self.state.live_arenas;
        let slots = region.slots().map_err(region_error)?;
        // Without a manifest the arenas themselves told which store this is.
        let is_ours = slots.iter().any(|slot| match slot.header {
            HeaderState::Intact(_) if !self.is_known => self.takes_arenas,
            HeaderState::Intact(header) => {
                let named = live.get(&header.generation);
                named.is_some_and(|arena| arena.slot == slot.number)
            }
            _ => false,
        });
        if !is_ours {
            return Err(damage);
        }
        site.keep_aside(&*directory, region_home::NAME)?;
        region_home::restore(&*directory, (self.state.identity.store_id, *id))?;
        Ok(Some(damage))
    }

    /// Whether a live arena is of a newer release.
    pub(super) fn has_newer_arena(&self, region: &Region) -> Result<bool> {
        let slots = region.slots().map_err(region_error)?;
        Ok(slots.iter().any(|slot| {
            matches!(slot.header, HeaderState::UnknownVersion(_))
                && self.state.is_in_live_slot(slot.number)
        }))
    }

    /// Returns the slots that may hold writes.
    pub(super) fn slots(&self, region: &Region) -> Result<Vec<Slot>> {
        let slots = region.slots().map_err(region_error)?;
        let slots = slots.iter().filter_map(|slot| {
            let mut live = self.state.live_arenas.iter();
            let known = live.find(|(_, arena)| arena.slot == slot.number);
            let known = known.map(|(&generation, _)| generation);
            let generation = match slot.header {
                HeaderState::Intact(header) if header.generation >= MAX_NUMBER => None,
                HeaderState::Intact(header) => Some(header.generation),
                HeaderState::Blank if known.is_none() => return None,
                HeaderState::Blank | HeaderState::Damaged(_) => known,
                HeaderState::Foreign(_)
                | HeaderState::UnknownVersion(_)
                | HeaderState::NotAFile => None,
            };
            Some(Slot {
                number: slot.number,
                generation,
                is_stranger: stranger(self, region, slot).is_some(),
            })
        });
        Ok(slots.collect())
    }
}

/// Invents the state of a store of which no manifest tells anything. Also returns whether it is
/// known which arenas are its own. The seed of its hashes is found in its tables.
fn invented(site: &Site) -> Result<(ManifestState, bool)> {
    let owner = Owner::read(site)?;
    let (store_id, takes_arenas) = owner.decide(site.decisions.store);
    let durability = site.options.durability.unwrap_or(Durability::CrashSafe);
    let identity = Identity {
        store_id: store_id.unwrap_or_else(rand::random),
        hash_seed: rand::random(),
        domain: domain_of(durability, site.options.constants.emulate_power_safety),
    };
    let state = ManifestState::begin(&ManifestState::first_edit(identity));
    let mut state = state.map_err(|error| Error::corruption(&site.path, 0, error.0))?;
    if let Some(path) = site.options.region_dir.clone() {
        let id = owner.region.map(|(_, id)| id);
        if let Some(id) = id.or_else(|| owner.has_arenas_in_region.then(rand::random)) {
            state.arena_home = ArenaHome::Region { id, path };
        }
    }
    Ok((state, takes_arenas))
}
