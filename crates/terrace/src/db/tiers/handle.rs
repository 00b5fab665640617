//! The tiers of a store by its handle.

use crate::db::handle::Db;
use crate::{PlacedTable, Result, TierOptions, TierStatistics};

impl Db {
    /// Returns the tiers with their books, from the fastest to the slowest: the store's own directory first.
    pub fn tiers(&self) -> Vec<TierStatistics> {
        let store = self.own_store();
        store
            .map(|store| store.tier_statistics())
            .unwrap_or_default()
    }

    /// Makes a directory a tier of the store. It is the slowest one of all, unless every tier has a profile.
    /// Tables may go there when this returns. The store remembers it: later openings need no option for it.
    ///
    /// ```
    /// use terrace::{Db, Options, TierOptions};
    /// let db = Db::open("/store", Options::in_memory())?;
    /// db.add_tier(&TierOptions::new("disk", "/mnt/disk"))?;
    /// assert_eq!(db.tiers()[1].name, "disk");
    ///
    /// db.drain_tier("disk")?;
    /// while db.wait_for_migration()? {}
    /// db.remove_tier("disk")?;
    /// assert_eq!(db.tiers().len(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a name that is taken,
    /// [`Error::WrongTier`](crate::Error::WrongTier) for a directory that is another's or not empty,
    /// [`Error::Busy`](crate::Error::Busy), and those of the files.
    pub fn add_tier(&self, tier: &TierOptions) -> Result<()> {
        self.own_store()?.add_tier(tier)
    }

    /// Has the tables of a tier go to other tiers, in the background. New ones do not come there any more.
    /// [`Db::wait_for_migration`] waits for them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if there is no such tier, or if it is the
    /// store's own directory; those of the manifest.
    pub fn drain_tier(&self, name: &str) -> Result<()> {
        self.own_store()?.drain_tier(name)
    }

    /// Takes a tier that holds no table from the store. Its directory may then be removed.
    ///
    /// # Errors
    /// As [`Db::drain_tier`], and [`Error::InvalidArgument`](crate::Error::InvalidArgument) while files are
    /// there.
    pub fn remove_tier(&self, name: &str) -> Result<()> {
        self.own_store()?.remove_tier(name)
    }

    /// Gives up a tier whose directory is missing, with the tables in it, for good. **Older versions of keys,
    /// and keys that these tables deleted, may show then.** Returns the number of tables that are lost.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the tier is there; those of the manifest.
    pub fn give_up_tier(&self, name: &str) -> Result<usize> {
        self.own_store()?.give_up_tier(name)
    }

    /// Waits for the next table to arrive in another tier. Returns false if all tables are in their places, or
    /// if there is no room for the others.
    ///
    /// # Errors
    /// The failure of a migration. It is tried again.
    pub fn wait_for_migration(&self) -> Result<bool> {
        let store = self.own_store()?;
        store.check_writable()?;
        if !store.files.space.is_limited() {
            return Ok(false);
        }
        store.lifecycle.background.wait_for_migration(store)
    }

    /// Returns the tables of a keyspace with the reason why each lies in its tier.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`](crate::Error::NoKeyspace) if it was dropped.
    pub fn placed_tables(&self, keyspace: &crate::Keyspace) -> Result<Vec<PlacedTable>> {
        self.own_store()?.placed_tables(keyspace.id())
    }
}
