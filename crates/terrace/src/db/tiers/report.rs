//! The tiers in statistics.

use std::collections::BTreeMap;
use std::path::PathBuf;

use terrace_lsm::data_files::OWN_TIER;
use terrace_lsm::levels::{LEVELS, TierUse};
use terrace_storage::{CountingLayer, DeviceProfile, IoStatistics, Purpose};

use super::cache::TierCacheStatistics;
use super::meters::TierLatencies;
use crate::db::Store;
use crate::db::owners::Files;

/// A tier of a store.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TierStatistics {
    /// Name, as options and messages call it.
    pub name: String,
    /// Number, as the manifest has it; 1 is the store's own directory.
    pub number: u8,
    /// Directory. Serialised, one that is not UTF-8 is there in hexadecimal, too, as `path_hex`.
    #[cfg_attr(
        feature = "serde",
        serde(flatten, with = "terrace_lsm::serial::paths::path")
    )]
    pub path: PathBuf,
    /// `open`, `draining`, or `lost` if its directory is missing.
    pub state: String,
    /// Maximum bytes of the tables there; `None` for as many as the file system takes.
    pub capacity_bytes: Option<u64>,
    /// Bytes of the capacity for steps that make room.
    pub reserve_bytes: u64,
    /// Bytes of the files there, those included that wait for their deletion.
    pub files_bytes: u64,
    /// Bytes that jobs have reserved for files in progress.
    pub reserved_bytes: u64,
    /// Bytes that jobs may still take.
    pub room_bytes: u64,
    /// Number of listed tables.
    pub tables: u64,
    /// Bytes of listed tables in levels 0, 1, 2 and so on.
    pub level_bytes: Vec<u64>,
    /// Cache for blocks of slower tiers, if the options of the opening name one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cache: Option<TierCacheStatistics>,
    /// Speed and price of the device, if they are known.
    pub profile: Option<DeviceProfile>,
    /// Bytes and operations since the store was opened, by purpose. Those of arenas and of the manifest are
    /// none of a tier.
    #[cfg_attr(feature = "serde", serde(with = "terrace_lsm::serial::io"))]
    pub io: IoStatistics,
    /// Durations of operations. Only a store of several tiers takes them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub latencies: TierLatencies,
}

/// The purposes of reads and writes of tables.
const TABLES: [Purpose; 5] = [
    Purpose::Flush,
    Purpose::Compaction,
    Purpose::Migration,
    Purpose::Read,
    Purpose::Other,
];

impl Store {
    /// Returns the tiers with their books, from the fastest to the slowest.
    pub(crate) fn tier_statistics(&self) -> Vec<TierStatistics> {
        let version = &self.reads.view.load().version;
        let mut listed = BTreeMap::<u8, (u64, Vec<u64>)>::new();
        for (place, table) in version.tables() {
            let of_tier = listed.entry(table.tier).or_default();
            of_tier.0 += 1;
            of_tier.1.resize(LEVELS, 0);
            if let Some(bytes) = of_tier.1.get_mut(usize::from(place.level)) {
                *bytes += table.size_bytes;
            }
        }
        let accounts = self.files.space.accounts();
        let others = accounts
            .iter()
            .filter_map(|account| account.meters.counters.as_ref());
        let others: Vec<IoStatistics> = others.map(CountingLayer::snapshot).collect();
        let own = others
            .iter()
            .fold(self.files.storage.snapshot(), |rest, other| {
                rest.since(other)
            });
        let accounts = accounts.into_iter();
        let tiers = accounts.map(|account| {
            let (tables, level_bytes) = listed
                .get(&account.tier.number)
                .cloned()
                .unwrap_or((0, vec![0; LEVELS]));
            let capacity_bytes = account.tier.capacity_bytes;
            TierStatistics {
                number: account.tier.number,
                path: self
                    .files
                    .path_of_tier(account.tier.number, &account.tier.path),
                state: match self.files.data.is_present(account.tier.number) {
                    true => state_name(account.tier.state).to_owned(),
                    false => "lost".to_owned(),
                },
                capacity_bytes: (capacity_bytes > 0).then_some(capacity_bytes),
                reserve_bytes: account.tier.reserve_bytes,
                files_bytes: account.files_bytes,
                reserved_bytes: account.reserved_bytes,
                room_bytes: account.room_bytes(false).unwrap_or(0),
                tables,
                level_bytes,
                cache: self.files.caches.statistics(account.tier.number),
                profile: account.tier.profile,
                io: match (account.meters.counters, account.tier.number) {
                    (Some(counters), _) => counters.snapshot(),
                    (None, OWN_TIER) => own.only(&TABLES),
                    // A missing one.
                    (None, _) => IoStatistics::default(),
                },
                latencies: account.meters.times.latencies(),
                name: account.tier.name,
            }
        });
        tiers.collect()
    }
}

impl Files {
    fn path_of_tier(&self, number: u8, recorded: &std::path::Path) -> PathBuf {
        let directory = self.data.directory(number);
        directory.map_or(recorded.to_path_buf(), |directory| {
            directory.path().to_path_buf()
        })
    }
}

fn state_name(state: TierUse) -> &'static str {
    match state {
        TierUse::Open => "open",
        TierUse::Draining => "draining",
        TierUse::Removed => "removed",
        TierUse::Lost => "lost",
    }
}
