//! The caches of a store's tiers, and the one that a table's reads ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use terrace_lsm::data_files::Placed;
use terrace_lsm::levels::{TierUse, Version};
use terrace_lsm::sync::Mutex;
use terrace_lsm::table::copies::{BlockCopies, TierCopies};
use terrace_storage::DirectoryEntry;

use super::format::Owner;
use super::opening::{Opening, remove_file};
use super::{TierCache, TierCacheStatistics, Writes};
use crate::Result;
use crate::db::file_names::CACHE;
use crate::db::owners::Files;
use crate::db::tiers::space::{Account, SpaceBook};
use crate::options::{Background, Options};

/// The caches of a store, by tier.
#[derive(Debug)]
pub(crate) struct Caches {
    book: Arc<SpaceBook>,
    caches: Mutex<BTreeMap<u8, Slot>>,
}

/// A tier with a cache, by the options.
#[derive(Clone, Debug)]
struct Slot {
    capacity_bytes: u64,
    /// `None` if it could not be opened.
    cache: Option<Arc<TierCache>>,
}

impl Caches {
    /// Returns no cache yet.
    pub(crate) fn new(book: Arc<SpaceBook>) -> Arc<Self> {
        Arc::new(Caches {
            book,
            caches: Mutex::default(),
        })
    }

    /// Starts the threads of the writers.
    ///
    /// # Errors
    /// [`Error::NoThread`](crate::Error::NoThread).
    pub(crate) fn start(&self) -> Result<()> {
        let slots: Vec<Slot> = self.caches.lock().values().cloned().collect();
        let mut caches = slots.into_iter().filter_map(|slot| slot.cache);
        caches.try_for_each(|cache| cache.start())
    }

    /// Ends all caches. Nothing is written when this returns.
    pub(crate) fn close(&self) {
        let slots: Vec<Slot> = self.caches.lock().values().cloned().collect();
        for cache in slots.into_iter().filter_map(|slot| slot.cache) {
            cache.close();
        }
    }

    /// Returns the statistics of a tier's cache, if the options name one.
    pub(crate) fn statistics(&self, tier: u8) -> Option<TierCacheStatistics> {
        let slot = self.caches.lock().get(&tier).cloned()?;
        Some(match slot.cache {
            Some(cache) => cache.statistics(slot.capacity_bytes),
            None => TierCacheStatistics::of_none(slot.capacity_bytes),
        })
    }
}

impl TierCopies for Caches {
    /// Returns the cache of the slowest of the faster tiers: each cache is for the tiers next to its own.
    fn copies_for(&self, placed: Placed) -> Option<Arc<dyn BlockCopies>> {
        let faster = self.book.faster_than(placed.tier);
        let caches = self.caches.lock();
        let mut nearest = faster.into_iter().rev();
        nearest.find_map(|tier| Some(Arc::clone(caches.get(&tier)?.cache.as_ref()?) as _))
    }
}

impl Options {
    /// Returns the bytes that the options give the cache of a tier.
    fn tier_cache_bytes(&self, account: &Account) -> u64 {
        let is_own = account.tier.number == terrace_lsm::data_files::OWN_TIER;
        let mut given = self.tiers.iter();
        let given = match is_own {
            true => self.tiers.first().filter(|given| given.directory.is_none()),
            false => {
                given.find(|given| given.directory.is_some() && given.name == account.tier.name)
            }
        };
        given.map_or(0, |given| given.cache_bytes)
    }
}

impl Files {
    /// Opens the caches that the options name, and removes the files of others. The books of the tiers know their
    /// files already; `entries` are the names in all tiers.
    pub(crate) fn open_caches(
        &self,
        options: &Options,
        store_id: u128,
        version: &Version,
        entries: &[(u8, DirectoryEntry)],
    ) {
        let listed: BTreeSet<u64> = version.tables().map(|(_, table)| table.number).collect();
        let writes = match (options.read_only, options.background) {
            (true, _) => Writes::Never,
            (false, Background::Inline) => Writes::Inline,
            (false, Background::Threads) => Writes::InThread,
        };
        let opening = Opening {
            writes,
            direct: options.direct_io,
            polled: options.poll_reads.unwrap_or(false),
            usual_block_bytes: options.default_keyspace.block_bytes as u64,
            blocks: self.tables.blocks(),
            listed: &listed,
        };
        let accounts = self.space.accounts();
        let slowest = accounts.last().map(|account| account.tier.number);
        for account in &accounts {
            let number = account.tier.number;
            let cache_bytes = options.tier_cache_bytes(account);
            // Nothing is slower than the last tier.
            if cache_bytes > 0 && Some(number) != slowest && account.tier.state == TierUse::Open {
                let owner = Owner {
                    store_id,
                    tier_id: account.tier.id,
                };
                let slot = Slot {
                    capacity_bytes: cache_bytes,
                    cache: self.open_cache(&opening, account, owner, cache_bytes),
                };
                self.caches.caches.lock().insert(number, slot);
            } else if writes != Writes::Never && has_file(entries, number) {
                self.remove_cache_file(number);
            }
        }
        if !self.caches.caches.lock().is_empty() {
            self.tables.set_copies(Arc::clone(&self.caches) as _);
        }
    }

    fn open_cache(
        &self,
        opening: &Opening<'_>,
        account: &Account,
        owner: Owner,
        cache_bytes: u64,
    ) -> Option<Arc<TierCache>> {
        let (number, capacity_bytes) = (account.tier.number, account.tier.capacity_bytes);
        // Tables that are in its way move, and the next opening has the room.
        self.space.book_cache(number, cache_bytes);
        let needed_bytes = account.files_bytes.saturating_add(cache_bytes);
        let has_room = capacity_bytes == 0 || needed_bytes <= capacity_bytes;
        if !has_room {
            if opening.writes != Writes::Never {
                self.remove_cache_file(number);
            }
            return None;
        }
        let directory = self.data.directory(number).ok()?;
        opening.open(&*directory, owner, cache_bytes)
    }

    /// Takes the cache of a tier that is removed from the store, and removes its file. [`TierCache::discard`] ends it,
    /// outside of all locks: that waits for the writer.
    pub(crate) fn take_cache(&self, tier: u8) -> Option<Arc<TierCache>> {
        let slot = self.caches.caches.lock().remove(&tier)?;
        self.remove_cache_file(tier);
        slot.cache
    }

    /// Removes the cache file of a tier, if there is one.
    fn remove_cache_file(&self, tier: u8) {
        if let Ok(directory) = self.data.directory(tier) {
            remove_file(&*directory);
        }
    }
}

fn has_file(entries: &[(u8, DirectoryEntry)], tier: u8) -> bool {
    entries
        .iter()
        .any(|(at, entry)| *at == tier && entry.name == CACHE)
}
