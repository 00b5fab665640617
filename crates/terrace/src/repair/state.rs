//! What a repair goes by: the manifest, or what is left of it.

use std::sync::Arc;

use terrace_region::{HeaderState, Region};
use terrace_storage::Lock;

use super::site::Site;
use crate::db::ownership::with_socket;
use crate::db::recover::check_all_evidence;
use crate::db::region_home::{self, OldArenas};
use crate::db::regions::{open_region, region_error};
use crate::levels::{
    ArenaHome, Identity, Manifest, ManifestOptions, ManifestState, ManifestTail, TableMeta,
    Version, remains,
};
use crate::options::{Durability, Options};
use crate::{Error, KeyspaceId, Result};

/// What is known of the store without its tables and arenas.
pub(super) struct Basis {
    /// What the manifest says, or what is left of it; invented where nothing is.
    pub(super) state: ManifestState,
    /// The manifest, open, or why it is not to be kept.
    pub(super) manifest: Result<Manifest>,
    /// Whether the state is that of a manifest, and not invented.
    pub(super) is_known: bool,
    /// Whether the manifest is whole, and a new one is made only to list more.
    pub(super) is_extended: bool,
}

/// Where the arenas are; locked against others as long as this lives.
pub(super) struct Home {
    /// The first is the one that the manifest means. None if no arena survives its process.
    pub(super) regions: Vec<Region>,
    /// What was wrong with the region directory's own file, which is written anew.
    pub(super) damaged_region: Option<Error>,
    _lock: Option<Box<dyn Lock>>,
}

impl Basis {
    pub(super) fn find(site: &Site) -> Result<Self> {
        let options = ManifestOptions {
            rewrite_above_bytes: site.options.manifest_bytes,
        };
        let directory = Arc::clone(&site.directory);
        let opened = Manifest::open(directory, options);
        match opened.map_err(|error| with_socket(&*site.directory, error)) {
            Ok((manifest, state)) => Ok(Basis {
                state,
                manifest: Ok(manifest),
                is_known: true,
                is_extended: false,
            }),
            Err(error @ Error::Corruption { .. }) => Basis::without_manifest(site, error),
            Err(error) => Err(error),
        }
    }

    fn without_manifest(site: &Site, why: Error) -> Result<Self> {
        let found = remains(&*site.directory, |state| !site.is_unfinished(state))?;
        let is_known = found.is_some();
        let state = match found {
            Some(state) => state,
            None => invented(site)?,
        };
        Ok(Basis {
            state,
            manifest: Err(why),
            is_known,
            is_extended: false,
        })
    }

    /// The version whose tables count, if the manifest is to be kept.
    pub(super) fn listed(&self) -> Option<&Version> {
        self.manifest.as_ref().ok().map(|_| &*self.state.version)
    }

    /// How the manifest, or what is left of it, lists a table.
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

    /// A new manifest is made in place of one that is whole, unless that happens anyway.
    pub(super) fn extend(&mut self) {
        if self.manifest.is_ok() {
            self.is_extended = true;
            self.manifest = Err(Error::invalid("it does not list what is taken in"));
        }
    }

    /// The manifest is not to be kept, for this reason.
    pub(super) fn distrust(&mut self, why: Error) {
        self.manifest = Err(why);
    }

    /// Where the store's arenas are: where the manifest says, and where the caller says that they
    /// are now. A manifest that knows less than they do has lost its end, and is not kept.
    pub(super) fn home(&mut self, site: &Site) -> Result<Home> {
        let storage = &*site.storage;
        if site.newer_region.is_some() && self.state.arena_home != ArenaHome::Store {
            // Another release says whose the arenas are: they stay as they are.
            return Ok(Home {
                regions: Vec::new(),
                damaged_region: None,
                _lock: None,
            });
        }
        let damaged_region = self.mend_region(site)?;
        let given = region_home::given(storage, &*site.directory, &site.options, true)?;
        // Nothing is written there by a repair.
        let looking = Options {
            read_only: true,
            ..site.options.clone()
        };
        let homes = region_home::settle(storage, &site.directory, given, &looking, &self.state)?;
        let is_old = homes.old.are_in(&homes.directory);
        let mut directories = vec![homes.directory];
        if let OldArenas::In(directory) = homes.old
            && !is_old
        {
            directories.insert(0, directory);
        }
        for directory in &directories {
            if !Arc::ptr_eq(directory, &site.directory) {
                // There is no other: the given one is the one that the manifest means.
                let _ = site.region_directory.set(Arc::clone(directory));
            }
        }
        let durability = Durability::of(self.state.identity.domain);
        let mut home = Home {
            regions: Vec::new(),
            damaged_region,
            _lock: homes.lock,
        };
        if durability == Durability::Volatile {
            return Ok(home);
        }
        for directory in directories {
            let region = open_region(&site.storage, &directory, &site.options, durability)?;
            let evidence = check_all_evidence(&region, &self.state, &site.options);
            home.regions.push(region);
            match evidence {
                Err(why @ Error::Corruption { .. }) if self.manifest.is_ok() => {
                    self.distrust(why);
                }
                // Without a manifest there is none that could have lost its end.
                Err(Error::Corruption { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(home)
    }

    /// Writes anew what says whose region the given directory is, if that is damaged and an arena
    /// which the manifest names is there: then it is this store's. What was wrong, if so.
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
        let durability = Durability::of(self.state.identity.domain);
        let region = open_region(&site.storage, &directory, &site.options, durability)?;
        let live = &self.state.live_arenas;
        let slots = region.slots().map_err(region_error)?;
        let is_ours = slots.iter().any(|slot| match slot.header {
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

    /// The generation of each slot that may hold writes: as its header tells, or the manifest. `None`
    /// if neither does and it is damaged.
    pub(super) fn slots(&self, region: &Region) -> Result<Vec<(u64, Option<u64>)>> {
        let mut slots = Vec::new();
        for slot in region.slots().map_err(region_error)? {
            let mut live = self.state.live_arenas.iter();
            let known = live.find(|(_, arena)| arena.slot == slot.number);
            match slot.header {
                HeaderState::Intact(header) => {
                    slots.push((slot.number, Some(header.generation)));
                }
                HeaderState::Blank if known.is_none() => {}
                HeaderState::Blank | HeaderState::Damaged(_) => {
                    slots.push((slot.number, known.map(|(generation, _)| *generation)));
                }
                HeaderState::UnknownVersion(version) => {
                    let file = region.file(slot.number);
                    let detail = format!("arena format version {version}");
                    return Err(Error::unsupported(&file, detail));
                }
            }
        }
        Ok(slots)
    }
}

/// The state of a store of which no manifest tells anything. The seed of its hashes is found in its
/// tables.
fn invented(site: &Site) -> Result<ManifestState> {
    let owner = match site.given_region()? {
        Some(directory) => region_home::owner(&site.path, &*directory)?,
        None => None,
    };
    let durability = site.options.durability.unwrap_or(Durability::CrashSafe);
    let identity = Identity {
        store_id: owner.map_or_else(rand::random, |(store_id, _)| store_id),
        hash_seed: rand::random(),
        domain: durability.domain(site.options.emulate_power_safety),
    };
    let state = ManifestState::begin(&ManifestState::first_edit(identity));
    let mut state = state.map_err(|error| Error::corruption(&site.path, 0, error.0))?;
    if let (Some((_, id)), Some(path)) = (owner, site.options.region_dir.clone()) {
        state.arena_home = ArenaHome::Region { id, path };
    }
    Ok(state)
}
