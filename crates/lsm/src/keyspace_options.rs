//! Options of a keyspace: the form of its tables and levels.

mod placement;
pub mod table;
#[cfg(feature = "serde")]
mod text;

pub use self::placement::Placement;
use crate::option_table::{check_numbers, check_ranges};
use crate::table::Compression;
use crate::{Error, Result};

/// The form of one keyspace's tables and levels.
///
/// The default keyspace takes them from `Options::default_keyspace` at each opening.
/// Any other keyspace keeps, in the store, the values that it was created with, and the values of
/// an opening do not change them. They apply to tables written from then on.
///
/// ```
/// use terrace::{Compression, KeyspaceOptions};
/// // Large values that are packed already, read one at a time.
/// let pictures = KeyspaceOptions {
///     block_bytes: 16 << 10,
///     compression: vec![Compression::None],
///     ..KeyspaceOptions::default()
/// };
/// # let _ = pictures;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct KeyspaceOptions {
    /// Bytes of a data block before compression. Default: 4 KiB.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::byte_size::deserialize")
    )]
    pub block_bytes: usize,
    /// Filter bits a key, on average; 0 for no filters. Each table has as many as make the fewest
    /// gets of absent keys look into a table in vain. Small sub-levels have more than large ones,
    /// which have a little less than the average. Default: 10 (with the leveled policy 0.3 to 0.8 %
    /// of such gets; half as many with one bit more).
    pub filter_bits_per_key: u32,
    /// Compression of levels 0, 1, 2, ...; the last one holds for all deeper levels. Default: none
    /// for levels 0 and 1, LZ4 below.
    pub compression: Vec<Compression>,
    /// Bytes of a table that a compaction writes. Default: 64 MiB.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::byte_size::deserialize")
    )]
    pub table_bytes: u64,
    /// Bytes of level 1 in a small store. In a larger one targets are counted from below. The
    /// deepest level takes the rest of the others, and level 1 may have from a quarter of this to
    /// `level_ratio` times a quarter. Of no effect with the policy `Tiered`. Default: 512 MiB, as much as goes
    /// down from level 0 at a time with arenas of 64 MiB.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::byte_size::deserialize")
    )]
    pub level1_bytes: u64,
    /// Size of a level as a multiple of the one above it; for the deepest level four fifths of that. With the
    /// policies `Tiered`, `Lazy`, `Dedup` and `Score` the number of sub-levels that send a level down.
    /// Default: 10.
    pub level_ratio: u64,
    /// Names of the tiers of levels 0, 1, 2, ...; the last one holds for all deeper levels. A tier without room
    /// passes a table on to the next slower one, or to a faster one. A name that no tier has is none.
    /// Default: none, and the upper levels fill the fast tiers up to their capacity.
    pub level_tiers: Vec<String>,
    /// Rule by which tables go to tiers. Default: `Levels`.
    pub placement: Placement,
    /// Names of the only tiers that tables may lie in. A name that no tier has is none. While none of these
    /// takes new tables, tables go where they would without. Default: none, and all tiers take them.
    pub pinned_tiers: Vec<String>,
    /// With the placement `Age`, maximum age in seconds of the youngest write of a table in the fastest tier,
    /// the next one, and so on. A tier without a number takes tables of every age. Default: one day for the
    /// fastest.
    pub tier_ages_seconds: Vec<u64>,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        KeyspaceOptions {
            block_bytes: 4 << 10,
            filter_bits_per_key: 10,
            compression: default_compression(),
            table_bytes: 64 << 20,
            level1_bytes: 512 << 20,
            level_ratio: 10,
            level_tiers: Vec::new(),
            placement: Placement::default(),
            pinned_tiers: Vec::new(),
            tier_ages_seconds: vec![24 * 60 * 60],
        }
    }
}

impl KeyspaceOptions {
    /// Returns the compression of a level's tables.
    #[doc(hidden)]
    pub fn compression_of(&self, level: usize) -> Compression {
        let given = self.compression.get(level).or(self.compression.last());
        given.copied().unwrap_or(Compression::None)
    }

    /// Returns the name of the tier that a level asks for.
    #[doc(hidden)]
    pub fn tier_of(&self, level: usize) -> Option<&str> {
        let given = self.level_tiers.get(level).or(self.level_tiers.last());
        given.map(String::as_str)
    }

    /// Refuses values that no keyspace can work with, naming the option and the values that it
    /// accepts.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        check_ranges(&[("compression.len()", self.compression.len() as u64, 0, 64)])?;
        check_ranges(&[("level_tiers.len()", self.level_tiers.len() as u64, 0, 64)])?;
        check_ranges(&[("pinned_tiers.len()", self.pinned_tiers.len() as u64, 0, 64)])?;
        check_tier_names("level_tiers", &self.level_tiers)?;
        check_tier_names("pinned_tiers", &self.pinned_tiers)?;
        check_ages(&self.tier_ages_seconds)?;
        let mut asked_for = self.compression.iter();
        if let Some(left_out) = asked_for.find(|asked_for| !asked_for.is_built_in()) {
            let name = left_out.name();
            return Err(Error::invalid(format!(
                "compression: \"{name}\" needs the feature `{name}`, without which this program was built"
            )));
        }
        let filter_bits = u64::from(self.filter_bits_per_key);
        check_numbers(
            table::KEYSPACE,
            &[
                ("block_bytes", self.block_bytes as u64),
                ("filter_bits_per_key", filter_bits),
                ("table_bytes", self.table_bytes),
                ("level1_bytes", self.level1_bytes),
                ("level_ratio", self.level_ratio),
            ],
        )
    }
}

/// Maximum age that an option may name, in seconds.
const MAX_AGE_SECONDS: u64 = 1 << 40;

fn check_tier_names(option: &str, names: &[String]) -> Result<()> {
    let mut names = names.iter();
    match names.find(|name| !is_tier_name(name)) {
        Some(name) => Err(Error::invalid(format!(
            "{option} has {name:?}; each must be 1 to {MAX_TIER_NAME_BYTES} letters, digits, '-', '_' and '.'"
        ))),
        None => Ok(()),
    }
}

/// Refuses ages that fall from one tier to the next slower one.
fn check_ages(ages: &[u64]) -> Result<()> {
    check_ranges(&[("tier_ages_seconds.len()", ages.len() as u64, 0, 64)])?;
    for &age in ages {
        check_ranges(&[("tier_ages_seconds", age, 1, MAX_AGE_SECONDS)])?;
    }
    match ages.is_sorted() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "tier_ages_seconds is {ages:?}; an age must be no smaller than the one before it"
        ))),
    }
}

/// Longest name of a tier, in bytes.
pub const MAX_TIER_NAME_BYTES: usize = 64;

/// Returns whether a tier may have a name.
pub fn is_tier_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_TIER_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Returns the default: young levels are written soon again, so only the deeper ones are compressed.
fn default_compression() -> Vec<Compression> {
    match Compression::Lz4.is_built_in() {
        true => vec![Compression::None, Compression::None, Compression::Lz4],
        false => vec![Compression::None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_compression_holds_for_deeper_levels() {
        let options = KeyspaceOptions::default();
        assert_eq!(options.compression_of(1), Compression::None);
        assert_eq!(options.compression_of(6), Compression::Lz4);
    }
}
