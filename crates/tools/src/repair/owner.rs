//! The store that a directory without a manifest belongs to, by its arenas and `REGION`.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace::offline::{open_region, region_error, region_home};
use terrace::{Durability, Error, Result};
use terrace_region::HeaderState;

use super::site::Site;

/// The numbers that are found.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// The numbers of store and region in `REGION`.
    pub(super) region: Option<(u128, u128)>,
    pub(super) has_arenas_in_region: bool,
    arenas: BTreeSet<u128>,
}

impl Owner {
    /// Reads `REGION`, if that is not damaged, and the header of every arena.
    pub(super) fn read(site: &Site) -> Result<Self> {
        let mut owner = Owner::default();
        let mut directories = vec![Arc::clone(&site.directory)];
        if let Some(directory) = site.given_region()? {
            owner.region = match region_home::owner(&site.path, &*directory) {
                // It is rewritten if the arenas agree.
                Err(Error::Corruption { .. }) => None,
                read => read?,
            };
            directories.push(directory);
        }
        let durability = site.options.durability.unwrap_or(Durability::CrashSafe);
        if durability == Durability::Volatile {
            return Ok(owner);
        }
        for directory in directories {
            // The headers name the store, with any number that the region is opened with.
            let region = open_region(&site.storage, &directory, 0, &site.options, durability)?;
            for slot in region.slots().map_err(region_error)? {
                if let HeaderState::Intact(header) | HeaderState::Foreign(header) = slot.header
                    && header.slot == slot.number
                {
                    owner.arenas.insert(u128::from_le_bytes(header.store));
                    owner.has_arenas_in_region |= !Arc::ptr_eq(&directory, &site.directory);
                }
            }
        }
        Ok(owner)
    }

    /// Returns the store's number, if one is found or `chosen`, and whether nothing contradicts.
    pub(super) fn decide(&self, chosen: Option<u128>) -> (Option<u128>, bool) {
        let in_region = self.region.map(|(store, _)| store);
        let mut numbers = self.arenas.clone();
        numbers.extend(in_region);
        let only = numbers.first().filter(|_| numbers.len() == 1);
        let store = chosen.or(in_region).or(only.copied());
        (store, chosen.is_some() || numbers.len() <= 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_the_one_that_all_agree_on_or_that_is_chosen() {
        let owner = |region: Option<u128>, arenas: &[u128]| Owner {
            region: region.map(|store| (store, 9)),
            arenas: arenas.iter().copied().collect(),
            ..Owner::default()
        };
        assert_eq!(owner(None, &[]).decide(None), (None, true));
        assert_eq!(owner(None, &[1]).decide(None), (Some(1), true));
        assert_eq!(owner(Some(1), &[1]).decide(None), (Some(1), true));
        assert_eq!(owner(None, &[1, 2]).decide(None), (None, false));
        // The region directory stays its store's.
        assert_eq!(owner(Some(1), &[2]).decide(None), (Some(1), false));
        assert_eq!(owner(None, &[1, 2]).decide(Some(2)), (Some(2), true));
        assert_eq!(owner(Some(1), &[2]).decide(Some(2)), (Some(2), true));
    }
}
