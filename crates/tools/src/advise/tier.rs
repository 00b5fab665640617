//! The tiers that levels may lie on: those of the store, and hypothetical devices.

use serde::{Deserialize, Serialize};
use terrace::{Statistics, TierStatistics};
use terrace_lsm::compaction::cost::TierCost;
use terrace_storage::DeviceProfile;

use super::{AdviceRequest, Error, Result};

/// The number of the tier that is the store's own directory.
const STORES_OWN: u8 = 1;
/// One of this many bytes stays free for the outputs of compactions.
const FREE_PART: u64 = 10;

/// A tier that levels may lie on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AdvisedTier {
    /// Its name.
    pub name: String,
    /// Its number; `None` if the store does not have it.
    pub number: Option<u8>,
    /// Speed and price of its device.
    pub profile: DeviceProfile,
    /// Bytes that its tables may take, or that the file system has for them.
    pub capacity_bytes: u64,
    /// Bytes of these for steps that make room.
    pub reserve_bytes: u64,
    /// Bytes of these for its cache of blocks of slower tiers.
    #[serde(default)]
    pub cache_bytes: u64,
}

impl AdvisedTier {
    /// Returns the bytes for tables that lie still.
    pub(super) fn usable_bytes(&self) -> Option<u64> {
        let kept_bytes = self.reserve_bytes.saturating_add(self.cache_bytes);
        let bytes = self.capacity_bytes.saturating_sub(kept_bytes);
        Some(bytes - bytes / FREE_PART)
    }

    pub(super) fn cost(&self) -> TierCost {
        TierCost {
            profile: self.profile,
            capacity_bytes: Some(self.capacity_bytes),
        }
    }
}

/// Returns the tiers that take new tables, from the fastest to the slowest.
pub(super) fn candidates(
    statistics: &Statistics,
    request: &AdviceRequest,
) -> Result<Vec<AdvisedTier>> {
    let known = || statistics.tiers.iter().map(|tier| tier.name.clone());
    for (name, _) in &request.profiles {
        if !known().any(|tier| tier == *name) {
            return Err(Error::NoTier {
                name: name.clone(),
                known: known().collect(),
            });
        }
    }
    let mut tiers = Vec::new();
    for tier in statistics.tiers.iter().filter(|tier| tier.state == "open") {
        tiers.push(of_store(tier, request)?);
    }
    for device in &request.devices {
        if tiers.iter().any(|tier| tier.name == device.name)
            || known().any(|name| name == device.name)
        {
            return Err(Error::SameName(device.name.clone()));
        }
        tiers.push(AdvisedTier {
            name: device.name.clone(),
            number: None,
            profile: device.profile,
            capacity_bytes: device.capacity_bytes,
            reserve_bytes: 0,
            cache_bytes: 0,
        });
    }
    tiers.sort_by(|one, other| {
        let latency = |tier: &AdvisedTier| tier.profile.read_latency_us;
        latency(one).total_cmp(&latency(other))
    });
    Ok(tiers)
}

/// Returns a tier of the store with the profile of the request, or its own.
fn of_store(tier: &TierStatistics, request: &AdviceRequest) -> Result<AdvisedTier> {
    let mut given = request.profiles.iter().rev();
    let given = given.find(|(name, _)| *name == tier.name);
    let profile = given.map(|(_, profile)| *profile).or(tier.profile);
    let profile = profile.ok_or_else(|| Error::NoProfile {
        tier: tier.name.clone(),
        directory: tier.path.clone(),
    })?;
    let room_bytes = tier.files_bytes.saturating_add(tier.room_bytes);
    // The free space of a file system lacks the bytes of the cache already.
    let cache = tier.cache.filter(|_| tier.capacity_bytes.is_some());
    let advised = AdvisedTier {
        name: tier.name.clone(),
        number: Some(tier.number),
        profile,
        capacity_bytes: tier.capacity_bytes.unwrap_or(room_bytes),
        reserve_bytes: tier.reserve_bytes,
        cache_bytes: cache.map_or(0, |cache| cache.capacity_bytes),
    };
    match advised.cost().unknown_figure() {
        None => Ok(advised),
        Some(figure) => Err(Error::PartOfProfile {
            tier: tier.name.clone(),
            directory: tier.path.clone(),
            figure,
        }),
    }
}

/// Returns the tier whose device the arenas share.
pub(super) fn arenas(statistics: &Statistics, tiers: &[AdvisedTier]) -> Option<usize> {
    let own = || {
        tiers
            .iter()
            .position(|tier| tier.number == Some(STORES_OWN))
    };
    statistics.region_dir.is_none().then(own).flatten()
}
