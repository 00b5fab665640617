//! The tiers of a store beside its own directory, as the manifest lists them.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use terrace_storage::{DeviceProfile, Escaped};

use super::fields::{Field, FieldError, FieldWriter, Group};
use super::table_meta::TableMeta;
use super::version::{StructureError, Version};
use crate::data_files::OWN_TIER;
use crate::key::KeyspaceId;
use crate::keyspace_options::is_tier_name;
use crate::things::things;

/// The use that a store makes of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TierUse {
    /// New files may go there.
    Open = 1,
    /// Its files go elsewhere, and no new one comes.
    Draining = 2,
    /// It holds no file any more. Its number is never given again.
    Removed = 3,
    /// The last opening to write went on without its directory.
    Lost = 4,
}

impl TierUse {
    fn from_number(number: u8) -> Option<TierUse> {
        Some(match number {
            1 => TierUse::Open,
            2 => TierUse::Draining,
            3 => TierUse::Removed,
            4 => TierUse::Lost,
            _ => return None,
        })
    }
}

/// A tier: the number decides which directory is its own, and the path is for messages and for the
/// search.
#[derive(Clone, Debug, PartialEq)]
pub struct TierRecord {
    /// [`OWN_TIER`] for the store's own directory; never given twice in a store.
    pub number: u8,
    /// Random; its directory has the same in the file `TIER`. 0 for the store's own directory.
    pub id: u128,
    /// The name that options and messages use.
    pub name: String,
    /// The place of the directory when it was last opened.
    pub path: PathBuf,
    /// Maximum bytes of the tables there; 0 for as many as the file system takes.
    pub capacity_bytes: u64,
    /// Bytes of the capacity for steps that make room.
    pub reserve_bytes: u64,
    /// The speed of the device, if it is known.
    pub profile: Option<DeviceProfile>,
    pub state: TierUse,
}

impl fmt::Display for TierRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tier {} {:?} {:032x} at {}, {} with a reserve of {}: {:?}",
            self.number,
            self.name,
            self.id,
            Escaped::path(&self.path),
            things(self.capacity_bytes, "byte"),
            things(self.reserve_bytes, "byte"),
            self.state
        )
    }
}

/// A table's file that lies in another tier from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMigrated {
    pub keyspace: KeyspaceId,
    pub number: u64,
    pub tier: u8,
}

/// Tags inside a tier.
mod tag {
    pub(super) const NUMBER: u32 = 1;
    pub(super) const ID: u32 = 2;
    pub(super) const NAME: u32 = 3;
    pub(super) const PATH: u32 = 4;
    pub(super) const STATE: u32 = 5;
    pub(super) const CAPACITY_BYTES: u32 = 6;
    pub(super) const RESERVE_BYTES: u32 = 7;
    pub(super) const PROFILE: u32 = 8;
    pub(super) const LARGEST: u32 = PROFILE;
}

pub(super) fn put_tier(out: &mut FieldWriter, tier: &TierRecord) {
    out.number(tag::NUMBER, tier.number.into());
    out.bytes(tag::ID, &tier.id.to_le_bytes());
    out.bytes(tag::NAME, tier.name.as_bytes());
    out.bytes(tag::PATH, tier.path.as_os_str().as_bytes());
    out.number(tag::STATE, tier.state as u64);
    out.number(tag::CAPACITY_BYTES, tier.capacity_bytes);
    out.number(tag::RESERVE_BYTES, tier.reserve_bytes);
    if let Some(profile) = &tier.profile {
        let figures = profile.figures().map(f64::to_le_bytes);
        out.bytes(tag::PROFILE, figures.as_flattened());
    }
}

pub(super) fn take_tier(field: Field<'_>) -> Result<TierRecord, FieldError> {
    let group = Group::read(field, "a tier", tag::LARGEST)?;
    let id = <[u8; 16]>::try_from(group.bytes(tag::ID)?).map_err(|_| group.malformed(tag::ID))?;
    let name = str::from_utf8(group.bytes(tag::NAME)?).map_err(|_| group.malformed(tag::NAME))?;
    if !is_tier_name(name) {
        return Err(group.malformed(tag::NAME));
    }
    let number = group.nonzero::<u8>(tag::NUMBER)?;
    let state = TierUse::from_number(group.nonzero(tag::STATE)?);
    Ok(TierRecord {
        number,
        id: u128::from_le_bytes(id),
        name: name.to_owned(),
        path: PathBuf::from(OsStr::from_bytes(group.bytes(tag::PATH)?)),
        capacity_bytes: group.number(tag::CAPACITY_BYTES)?,
        reserve_bytes: group.number(tag::RESERVE_BYTES)?,
        profile: take_profile(&group)?,
        state: state.ok_or_else(|| group.malformed(tag::STATE))?,
    })
}

fn take_profile(group: &Group<'_>) -> Result<Option<DeviceProfile>, FieldError> {
    let Some(bytes) = group.bytes_if_present(tag::PROFILE) else {
        return Ok(None);
    };
    let malformed = || group.malformed(tag::PROFILE);
    let (figures, rest) = bytes.as_chunks::<8>();
    let figures = <[[u8; 8]; 7]>::try_from(figures).map_err(|_| malformed())?;
    let profile = DeviceProfile::of_figures(figures.map(f64::from_le_bytes));
    match rest {
        [] => profile.map(Some).ok_or_else(malformed),
        _ => Err(malformed()),
    }
}

/// Reads names of tiers, with a byte 0 between two.
pub(in crate::levels) fn take_tier_names(
    group: &Group<'_>,
    tag: u32,
) -> Result<Vec<String>, FieldError> {
    let Some(bytes) = group.bytes_if_present(tag) else {
        return Ok(Vec::new());
    };
    let names = str::from_utf8(bytes).map_err(|_| group.malformed(tag))?;
    Ok(names.split('\0').map(str::to_owned).collect())
}

/// The tiers after an edit lists some: each takes the place of the one with its number.
pub(super) fn fold_tiers(
    tiers: &mut Vec<TierRecord>,
    listed: &[TierRecord],
) -> Result<(), StructureError> {
    for tier in listed {
        if tier.number == OWN_TIER && (tier.id != 0 || tier.state != TierUse::Open) {
            return Err(StructureError(
                "the store's own directory has no number of its own, and stays in use".to_owned(),
            ));
        }
        match tiers.iter_mut().find(|known| known.number == tier.number) {
            Some(known) if known.state == TierUse::Removed && *known != *tier => {
                return Err(StructureError(format!(
                    "tier {} was removed, and its number is not given again",
                    tier.number
                )));
            }
            Some(known) if known.id != tier.id => {
                return Err(StructureError(format!(
                    "tier {} cannot become another directory",
                    tier.number
                )));
            }
            Some(known) => *known = tier.clone(),
            None => {
                let at = tiers.partition_point(|known| known.number < tier.number);
                tiers.insert(at, tier.clone());
            }
        }
    }
    let in_use = |tier: &&TierRecord| tier.state != TierUse::Removed;
    let mut names: Vec<&str> = tiers
        .iter()
        .filter(in_use)
        .map(|tier| &*tier.name)
        .collect();
    names.sort_unstable();
    let mut neighbours = names.iter().zip(names.iter().skip(1));
    match neighbours.find(|(name, next)| name == next) {
        Some((name, _)) => Err(StructureError(format!("two tiers are named {name:?}"))),
        None => Ok(()),
    }
}

/// Checks that each table lies in a tier that is listed and in use.
pub(super) fn check_tiers(tiers: &[TierRecord], version: &Version) -> Result<(), StructureError> {
    let is_in_use = |table: &TableMeta| {
        let mut tiers = tiers.iter();
        table.tier == OWN_TIER
            || tiers.any(|tier| tier.number == table.tier && tier.state != TierUse::Removed)
    };
    let mut tables = version.tables().map(|(_, table)| table);
    match tables.find(|table| !is_in_use(table)) {
        Some(table) => Err(StructureError(format!(
            "table {} lies in tier {}, which the store does not have",
            table.number, table.tier
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(number: u8, name: &str, state: TierUse) -> TierRecord {
        TierRecord {
            number,
            id: u128::from(number),
            name: name.to_owned(),
            path: "/t".into(),
            capacity_bytes: 0,
            reserve_bytes: 0,
            profile: None,
            state,
        }
    }

    #[test]
    fn a_number_stays_with_its_directory_and_a_name_is_used_once() {
        let mut tiers = Vec::new();
        fold_tiers(&mut tiers, &[tier(2, "a", TierUse::Open)]).unwrap();
        fold_tiers(&mut tiers, &[tier(3, "b", TierUse::Open)]).unwrap();
        fold_tiers(&mut tiers, &[tier(2, "a", TierUse::Draining)]).unwrap();
        assert_eq!(tiers[0].state, TierUse::Draining);
        let refused = |listed: TierRecord| fold_tiers(&mut tiers.clone(), &[listed]).is_err();
        assert!(refused(tier(4, "b", TierUse::Open)));
        let other = TierRecord {
            id: 9,
            ..tier(2, "a", TierUse::Open)
        };
        assert!(refused(other));
        fold_tiers(&mut tiers, &[tier(3, "b", TierUse::Removed)]).unwrap();
        assert!(fold_tiers(&mut tiers.clone(), &[tier(3, "b", TierUse::Open)]).is_err());
        fold_tiers(&mut tiers, &[tier(4, "b", TierUse::Open)]).unwrap();
        assert_eq!(tiers.len(), 3);
    }
}
