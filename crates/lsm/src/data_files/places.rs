//! The directories of the tiers, each under the number of its tier.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{Directory, DirectoryEntry, File, FilePlace, OpenOptions};

use super::{FileId, OWN_TIER, Placed, Stage};
use crate::sync::ArcSwap;
use crate::{Error, Result};

/// A tier whose directory is not at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTier {
    /// The name that the store knows it by.
    pub name: String,
    /// The path at which it was last.
    pub path: PathBuf,
}

/// The directory of a tier other than the first.
#[derive(Clone, Debug)]
enum TierPlace {
    There(Arc<dyn Directory>),
    Lost(LostTier),
}

/// The places of the data files: the store's own directory, and those of other tiers. Clones share the
/// tiers, which may come and go while the store is open.
#[derive(Clone, Debug)]
pub struct DataFiles {
    own: Arc<dyn Directory>,
    others: Arc<ArcSwap<BTreeMap<u8, TierPlace>>>,
}

impl DataFiles {
    /// Returns the data files of a store in a directory. It has no other tier yet.
    pub fn new(directory: Arc<dyn Directory>) -> DataFiles {
        DataFiles {
            own: directory,
            others: Arc::new(ArcSwap::new(Arc::default())),
        }
    }

    /// Adds the directory of a tier. For one thread at a time.
    pub fn add_tier(&self, tier: u8, directory: Arc<dyn Directory>) {
        self.change(|tiers| {
            tiers.insert(tier, TierPlace::There(directory));
        });
    }

    /// Notes that a tier's directory is not at hand. For one thread at a time.
    pub fn lose_tier(&self, tier: u8, lost: LostTier) {
        self.change(|tiers| {
            tiers.insert(tier, TierPlace::Lost(lost));
        });
    }

    /// Forgets a tier that holds no file any more. For one thread at a time.
    pub fn remove_tier(&self, tier: u8) {
        self.change(|tiers| {
            tiers.remove(&tier);
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u8, TierPlace>)) {
        let mut tiers = BTreeMap::clone(&self.others.load());
        change(&mut tiers);
        self.others.store(Arc::new(tiers));
    }

    /// Returns the directory of a tier.
    ///
    /// # Errors
    /// [`Error::TierLost`] if it is not at hand.
    pub fn directory(&self, tier: u8) -> Result<Arc<dyn Directory>> {
        if tier == OWN_TIER {
            return Ok(Arc::clone(&self.own));
        }
        match self.others.load().get(&tier) {
            Some(TierPlace::There(directory)) => Ok(Arc::clone(directory)),
            Some(TierPlace::Lost(lost)) => Err(Error::tier_lost(&lost.name, &lost.path)),
            None => Err(Error::invalid(format!("there is no tier {tier}"))),
        }
    }

    /// Returns the tiers whose directories are at hand, and these.
    pub fn present(&self) -> Vec<(u8, Arc<dyn Directory>)> {
        let mut present = vec![(OWN_TIER, Arc::clone(&self.own))];
        for (tier, place) in self.others.load().iter() {
            if let TierPlace::There(directory) = place {
                present.push((*tier, Arc::clone(directory)));
            }
        }
        present
    }

    /// Returns whether the directory of a tier is missing.
    pub fn has_lost_tiers(&self) -> bool {
        let others = self.others.load();
        let mut places = others.values();
        places.any(|place| matches!(place, TierPlace::Lost(_)))
    }

    /// Returns whether a tier's directory is at hand.
    pub fn is_present(&self, tier: u8) -> bool {
        tier == OWN_TIER || matches!(self.others.load().get(&tier), Some(TierPlace::There(_)))
    }

    /// Returns the directory of a file, and its name there.
    ///
    /// # Errors
    /// Those of [`DataFiles::directory`].
    pub fn at(&self, placed: Placed) -> Result<(Arc<dyn Directory>, String)> {
        self.at_stage(placed, Stage::Listed)
    }

    /// Returns the directory of a file in a stage of its life, and its name there.
    ///
    /// # Errors
    /// Those of [`DataFiles::directory`].
    pub fn at_stage(&self, placed: Placed, stage: Stage) -> Result<(Arc<dyn Directory>, String)> {
        Ok((self.directory(placed.tier)?, placed.file.name(stage)))
    }

    /// Returns the place of a file in a stage of its life, and its name there. Writers and readers of tables need no
    /// more than that of a tier.
    ///
    /// # Errors
    /// Those of [`DataFiles::directory`].
    pub fn place(&self, placed: Placed, stage: Stage) -> Result<(Arc<dyn FilePlace>, String)> {
        let (directory, name) = self.at_stage(placed, stage)?;
        Ok((directory, name))
    }

    /// Returns a file where it lies, by its name. Of one that lies nowhere, the store's own directory is the
    /// place.
    pub fn find(&self, file: FileId, stage: Stage) -> Placed {
        let name = file.name(stage);
        let present = self.present().into_iter();
        let mut holders = present.filter(|(_, directory)| directory.identity_of(&name).is_ok());
        let tier = holders.next().map_or(OWN_TIER, |(tier, _)| tier);
        Placed { file, tier }
    }

    /// Returns the path of the store's own directory, for messages about no file.
    pub fn shown(&self) -> &Path {
        self.own.path()
    }

    /// Returns the path of a file, for messages.
    pub fn path(&self, placed: Placed) -> PathBuf {
        self.path_at(placed, Stage::Listed)
    }

    /// Returns the path of a file in a stage of its life, for messages. In a tier that is not at hand it is
    /// the last one known.
    pub fn path_at(&self, placed: Placed, stage: Stage) -> PathBuf {
        let name = placed.file.name(stage);
        if placed.tier == OWN_TIER {
            return self.own.shown(&name);
        }
        match self.others.load().get(&placed.tier) {
            Some(TierPlace::There(directory)) => directory.shown(&name),
            Some(TierPlace::Lost(lost)) => {
                // For messages alone: nothing is opened by it.
                let mut path = lost.path.clone();
                path.push(name);
                path
            }
            None => PathBuf::from(name),
        }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// Those of [`DataFiles::directory`] and [`FilePlace::open`].
    pub fn open(&self, placed: Placed, options: OpenOptions) -> Result<Arc<dyn File>> {
        let (directory, name) = self.at(placed)?;
        Ok(directory.open(&name, options)?)
    }

    /// Removes a file. The removal is durable after [`DataFiles::sync`].
    ///
    /// # Errors
    /// Those of [`DataFiles::directory`] and [`FilePlace::remove`].
    pub fn remove(&self, placed: Placed, stage: Stage) -> Result<()> {
        let (directory, name) = self.at_stage(placed, stage)?;
        Ok(directory.remove(&name)?)
    }

    /// Gives a file the name of another stage, durably after [`DataFiles::sync`].
    ///
    /// # Errors
    /// Those of [`DataFiles::directory`] and [`Directory::rename`].
    pub fn rename(&self, placed: Placed, from: Stage, to: Stage) -> Result<()> {
        let (directory, from) = self.at_stage(placed, from)?;
        Ok(directory.rename(&from, &placed.file.name(to))?)
    }

    /// Returns the entries of all tiers that are at hand, other files than data files included, each with
    /// its tier.
    ///
    /// # Errors
    /// Those of [`FilePlace::list`].
    pub fn entries(&self) -> Result<Vec<(u8, DirectoryEntry)>> {
        let mut entries = Vec::new();
        for (tier, directory) in self.present() {
            entries.extend(directory.list()?.into_iter().map(|entry| (tier, entry)));
        }
        Ok(entries)
    }

    /// Returns the data files that are there, each in the stage that its name shows.
    ///
    /// # Errors
    /// Those of [`FilePlace::list`].
    pub fn list(&self) -> Result<Vec<(Placed, Stage)>> {
        let entries = self.entries()?.into_iter();
        Ok(entries
            .filter_map(|(tier, entry)| {
                let (file, stage) = FileId::parse(&entry.name)?;
                Some((Placed { file, tier }, stage))
            })
            .collect())
    }

    /// Makes the names of files in these tiers durable.
    ///
    /// # Errors
    /// Those of [`DataFiles::directory`] and [`FilePlace::sync`].
    pub fn sync_tiers(&self, tiers: impl IntoIterator<Item = u8>) -> Result<()> {
        let tiers: BTreeSet<u8> = tiers.into_iter().collect();
        for tier in tiers {
            self.directory(tier)?.sync()?;
        }
        Ok(())
    }

    /// Makes the names of all files durable.
    ///
    /// # Errors
    /// Those of [`FilePlace::sync`].
    pub fn sync(&self) -> Result<()> {
        for (_, directory) in self.present() {
            directory.sync()?;
        }
        Ok(())
    }
}
