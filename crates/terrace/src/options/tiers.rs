//! Options of tiers: directories for tables, each on a device of its own.

use std::path::PathBuf;

use terrace_lsm::keyspace_options::{MAX_TIER_NAME_BYTES, is_tier_name};
use terrace_storage::DeviceProfile;

use crate::options::Options;
use crate::{Error, Result};

/// Minimum size of the cache of a tier.
pub(crate) const MIN_CACHE_BYTES: u64 = 128 << 10;
/// Maximum size of the cache of a tier.
const MAX_CACHE_BYTES: u64 = 1 << 44;
/// Maximum number of tiers that options name.
const MAX_TIERS: usize = 64;

/// A tier: a directory for tables, and the space that they may take there.
///
/// The order of tiers is from the fastest to the slowest. Where every tier has a profile, the read latencies
/// give it. Else the store's own directory is the first, and the others follow in the order in which the store
/// got them.
///
/// ```
/// use terrace::{Options, TierOptions};
/// let options = Options {
///     tiers: vec![
///         // The store's own directory, on a fast device.
///         TierOptions { capacity_bytes: Some(100 << 30), ..TierOptions::of_store("nvme") },
///         TierOptions::new("disk", "/mnt/disk/tables"),
///     ],
///     ..Options::default()
/// };
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct TierOptions {
    /// Name, by which placement and messages call it; unique in a store.
    pub name: String,
    /// Directory, made if it is missing. It belongs to one store. `None` for the store's own directory.
    #[cfg_attr(
        feature = "serde",
        serde(
            with = "terrace_lsm::serial::paths::option",
            skip_serializing_if = "Option::is_none"
        )
    )]
    pub directory: Option<PathBuf>,
    /// Maximum bytes of the tables there. `None`: as many as the file system takes.
    #[cfg_attr(
        feature = "serde",
        serde(
            deserialize_with = "terrace_lsm::byte_size::deserialize_some",
            skip_serializing_if = "Option::is_none"
        )
    )]
    pub capacity_bytes: Option<u64>,
    /// Bytes of the capacity for steps that make room: flushes, and compactions that free space. So a full
    /// store recovers by itself. Default: 0.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "terrace_lsm::byte_size::deserialize")
    )]
    pub reserve_bytes: u64,
    /// Bytes of the capacity for a cache: a file there holds blocks of tables in slower tiers, those that lookups
    /// read most often. It takes memory, too: about 1 % of its size with blocks of 4 KiB. 0 for none; the
    /// manifest does not remember it. Default: 0.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "terrace_lsm::byte_size::deserialize")
    )]
    pub cache_bytes: u64,
    /// Speed and price of the device, as `terrace tier probe` measures them. Where every tier has one, the read
    /// latency gives the order of tiers. Default: none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub profile: Option<DeviceProfile>,
}

impl TierOptions {
    /// Returns a tier in a directory, which takes as much as its file system does.
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        TierOptions {
            directory: Some(directory.into()),
            ..TierOptions::of_store(name)
        }
    }

    /// Returns the tier of the store's own directory.
    pub fn of_store(name: impl Into<String>) -> Self {
        TierOptions {
            name: name.into(),
            ..TierOptions::default()
        }
    }

    /// Checks one tier by itself.
    pub(crate) fn check(&self) -> Result<()> {
        let name = &self.name;
        if !is_tier_name(name) {
            return Err(Error::invalid(format!(
                "tiers.name is {name:?}; it must be 1 to {MAX_TIER_NAME_BYTES} letters, digits, '-', '_' \
                 and '.'"
            )));
        }
        if self
            .capacity_bytes
            .is_some_and(|capacity| capacity <= self.reserve_bytes)
        {
            return Err(Error::invalid(format!(
                "tiers.reserve_bytes of {name} is {}; it must be below capacity_bytes",
                self.reserve_bytes
            )));
        }
        let accepted = MIN_CACHE_BYTES..=MAX_CACHE_BYTES;
        if self.cache_bytes > 0 && !accepted.contains(&self.cache_bytes) {
            return Err(Error::invalid(format!(
                "tiers.cache_bytes of {name} is {}; it must be 0, or from {MIN_CACHE_BYTES} to {MAX_CACHE_BYTES}",
                self.cache_bytes
            )));
        }
        let kept_bytes = self.reserve_bytes.saturating_add(self.cache_bytes);
        if self
            .capacity_bytes
            .is_some_and(|capacity| capacity <= kept_bytes)
        {
            return Err(Error::invalid(format!(
                "tiers.cache_bytes of {name} is {}; with reserve_bytes it must be below capacity_bytes",
                self.cache_bytes
            )));
        }
        let figures = self.profile.unwrap_or_default().figures();
        if DeviceProfile::of_figures(figures).is_none() {
            return Err(Error::invalid(format!(
                "tiers.profile of {name} has a figure that is no number from 0 on"
            )));
        }
        Ok(())
    }
}

impl Options {
    /// Checks the tiers, and the names by which levels ask for them.
    pub(super) fn check_tiers(&self) -> Result<()> {
        if self.tiers.len() > MAX_TIERS {
            return Err(Error::invalid(format!(
                "tiers has {} entries; it must have at most {MAX_TIERS}",
                self.tiers.len()
            )));
        }
        for (at, tier) in self.tiers.iter().enumerate() {
            tier.check()?;
            if tier.directory.is_none() && at > 0 {
                return Err(Error::invalid(format!(
                    "tiers.directory of {} is unset; only the first entry may be the store's own \
                     directory",
                    tier.name
                )));
            }
            if self
                .tiers
                .iter()
                .take(at)
                .any(|other| other.name == tier.name)
            {
                return Err(Error::invalid(format!("two tiers are named {}", tier.name)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_that_no_store_can_have_are_refused_with_the_option() {
        let refusal = |tiers: Vec<TierOptions>| {
            let options = Options {
                tiers,
                ..Options::default()
            };
            options.check().map_err(|error| error.to_string())
        };
        let disk = TierOptions::new("disk", "/d");
        refusal(vec![TierOptions::of_store("fast"), disk.clone()]).unwrap();
        for (tiers, told) in [
            (vec![TierOptions::new("", "/d")], "tiers.name is \"\""),
            (vec![TierOptions::new("a b", "/d")], "tiers.name is \"a b\""),
            (vec![disk.clone(), disk.clone()], "two tiers are named disk"),
            (
                vec![disk.clone(), TierOptions::of_store("x")],
                "tiers.directory of x is unset",
            ),
            (
                vec![TierOptions {
                    capacity_bytes: Some(10),
                    reserve_bytes: 10,
                    ..disk.clone()
                }],
                "tiers.reserve_bytes of disk is 10",
            ),
            (
                vec![TierOptions {
                    cache_bytes: 1000,
                    ..disk.clone()
                }],
                "tiers.cache_bytes of disk is 1000; it must be 0, or from 131072",
            ),
            (
                vec![TierOptions {
                    capacity_bytes: Some(1 << 20),
                    reserve_bytes: 1 << 19,
                    cache_bytes: 1 << 19,
                    ..disk.clone()
                }],
                "with reserve_bytes it must be below capacity_bytes",
            ),
        ] {
            let error = refusal(tiers).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
