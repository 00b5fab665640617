//! What a repair goes by: the manifest, or what is left of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_region::{HeaderState, Region};
use terrace_storage::{Lock, Storage};

use super::site::Site;
use crate::db::recover::check_evidence;
use crate::db::region_home::{self, OldArenas};
use crate::db::regions::{open_region, region_error};
use crate::levels::{
    ArenaHome, Identity, Manifest, ManifestOptions, ManifestState, TableMeta, Version, remains,
};
use crate::options::Durability;
use crate::{Error, Result};

/// What is known of the store without its tables and arenas.
pub(super) struct Basis {
    /// What the manifest says, or what is left of it; invented where nothing is.
    pub(super) state: ManifestState,
    /// Open where the manifest is to be kept.
    pub(super) manifest: Option<Manifest>,
    /// Why it is not to be kept.
    pub(super) why_lost: Option<Error>,
    /// Whether the state is that of a manifest, and not invented.
    pub(super) is_known: bool,
}

/// Where the arenas are; locked against others as long as this lives.
pub(super) struct Home {
    /// `None` if they are not at hand, and nothing of them is needed.
    pub(super) region: Option<Region>,
    _lock: Option<Box<dyn Lock>>,
}

impl Basis {
    pub(super) fn find(site: &Site) -> Result<Self> {
        let options = ManifestOptions {
            rewrite_above_bytes: site.options.manifest_bytes,
        };
        let storage = Arc::clone(&site.storage) as Arc<dyn Storage>;
        match Manifest::open(storage, &site.path, options) {
            Ok((manifest, state)) => Ok(Basis {
                state,
                manifest: Some(manifest),
                why_lost: None,
                is_known: true,
            }),
            Err(error @ Error::Corruption { .. }) => Basis::without_manifest(site, error),
            Err(error) => Err(error),
        }
    }

    fn without_manifest(site: &Site, why: Error) -> Result<Self> {
        let found = remains(&*site.storage, &site.path)?;
        let is_known = found.is_some();
        let state = match found {
            Some(state) => state,
            None => invented(site)?,
        };
        Ok(Basis {
            state,
            manifest: None,
            why_lost: Some(why),
            is_known,
        })
    }

    /// The version whose tables count, if the manifest is to be kept.
    pub(super) fn listed(&self) -> Option<&Version> {
        self.manifest.as_ref().map(|_| &*self.state.version)
    }

    /// How the manifest, or what is left of it, lists a table.
    pub(super) fn meta_of(&self, number: u64) -> Option<&TableMeta> {
        let mut tables = self.state.version.tables();
        tables
            .find(|(_, table)| table.number == number)
            .map(|(_, table)| &***table)
    }

    /// Where the store's arenas are. A manifest that knows less than they do has lost its end, and
    /// is not kept.
    pub(super) fn home(&mut self, site: &Site) -> Result<Home> {
        let storage = &*site.storage;
        let given = region_home::given(storage, &site.path, &site.options, true)?;
        let homes = region_home::settle(storage, &site.path, given, &site.options, &self.state)?;
        let OldArenas::In(directory) = homes.old else {
            return Ok(Home {
                region: None,
                _lock: homes.lock,
            });
        };
        let durability = Durability::of(self.state.identity.domain);
        let region = open_region(&site.storage, &directory, &site.options, durability)?;
        if self.manifest.is_some()
            && let Err(error) = check_evidence(&region, &self.state)
        {
            if !matches!(error, Error::Corruption { .. }) {
                return Err(error);
            }
            self.manifest = None;
            self.why_lost = Some(error);
        }
        Ok(Home {
            region: Some(region),
            _lock: homes.lock,
        })
    }

    /// The slots that may hold writes, by generation: those whose headers tell theirs, and those
    /// whose generation the manifest knows. Beside them, whether some tell nothing.
    pub(super) fn slots(&self, region: &Region) -> Result<(BTreeMap<u64, u64>, bool)> {
        let live = self.state.live_arenas.iter();
        let mut slots: BTreeMap<u64, u64> = live
            .map(|(&generation, arena)| (generation, arena.slot))
            .collect();
        let mut is_one_unreadable = false;
        for slot in region.slots().map_err(region_error)? {
            match slot.header {
                HeaderState::Intact(header) => {
                    slots.retain(|_, named| *named != slot.number);
                    slots.insert(header.generation, slot.number);
                }
                HeaderState::Blank => {}
                HeaderState::UnknownVersion(version) => {
                    let file = region.file(slot.number);
                    let detail = format!("arena format version {version}");
                    return Err(Error::unsupported(&file, detail));
                }
                HeaderState::Damaged(_) => {
                    is_one_unreadable |= slots.values().all(|&named| named != slot.number);
                }
            }
        }
        Ok((slots, is_one_unreadable))
    }
}

/// The state of a store of which no manifest tells anything. The seed of its hashes is found in its
/// tables.
fn invented(site: &Site) -> Result<ManifestState> {
    let owner = match &site.options.region_dir {
        Some(directory) => region_home::owner(&*site.storage, &site.path, directory)?,
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
