//! What a keyspace can be given of its own: the form of its tables and levels.

use serde::{Deserialize, Serialize};

use crate::table::Compression;
use crate::{Error, Result};

/// The form of one keyspace's tables and levels.
///
/// The default keyspace takes these values from the [`Options`](crate::Options) of each opening.
/// Any other keyspace keeps, in the store, those that it was created with; what an opening says of
/// them then does not matter. They apply to tables written from then on.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyspaceOptions {
    /// Bytes of a data block before compression. Default: 4 KiB.
    pub block_bytes: usize,
    /// Entries between two whole keys in a block. Default: 16.
    pub restart_interval: usize,
    /// Filter bits a key in the lowest level, where nearly all keys are; 0 for no filter. Tables of
    /// level 0 have twice, those of levels between one and a half times as many; what comes in the
    /// order of its keys is moved down as it is, and keeps them. Default: 10 (about 1 % false
    /// positives; 0.2 % with 15 bits, 0.04 % with 20).
    pub filter_bits_per_key: u32,
    /// Compression of levels 0, 1, 2, ...; the last one holds for all deeper levels. Default: none
    /// for levels 0 and 1, LZ4 below.
    pub compression: Vec<Compression>,
    /// Bytes of a table that a compaction writes. Default: 64 MiB.
    pub table_bytes: u64,
    /// Target size of level 1. Default: 512 MiB.
    pub level1_bytes: u64,
    /// How many times larger a level is than the one above it. Default: 10.
    pub level_ratio: u64,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        KeyspaceOptions {
            block_bytes: 4 << 10,
            restart_interval: 16,
            filter_bits_per_key: 10,
            compression: vec![Compression::None, Compression::None, Compression::Lz4],
            table_bytes: 64 << 20,
            level1_bytes: 512 << 20,
            level_ratio: 10,
        }
    }
}

impl KeyspaceOptions {
    /// The compression of a level's tables.
    pub(crate) fn compression_of(&self, level: usize) -> Compression {
        let given = self.compression.get(level).or(self.compression.last());
        given.copied().unwrap_or(Compression::None)
    }

    /// The filter bits of a level's tables, `deepest_level` being the lowest that holds any.
    ///
    /// A get that finds its record far down asks each level above it in vain with that level's chance
    /// of a false positive, and those levels hold little: a bit a key costs least there. The best
    /// use of a given memory makes the chance ten times smaller in a level that is ten times smaller
    /// (Dayan, Athanassoulis, Idreos: Monkey, SIGMOD 2017), for which half of the usual 10 bits are
    /// about right. Of level 0 a get may have to ask several tables, each a fraction of level 1.
    pub(crate) fn filter_bits_of(&self, level: u8, deepest_level: u8) -> u32 {
        let asked = self.filter_bits_per_key;
        match level {
            0 => 2 * asked,
            _ if level < deepest_level => asked + asked / 2,
            _ => asked,
        }
    }

    /// Refuses values that no keyspace can work with, naming the option and what it accepts.
    pub(crate) fn check(&self) -> Result<()> {
        check_ranges(&[
            ("block_bytes", self.block_bytes as u64, 64, 16 << 20),
            ("restart_interval", self.restart_interval as u64, 1, 1024),
            (
                "filter_bits_per_key",
                u64::from(self.filter_bits_per_key),
                0,
                64,
            ),
            ("compression.len()", self.compression.len() as u64, 0, 64),
            ("table_bytes", self.table_bytes, 1 << 10, 1 << 40),
            ("level1_bytes", self.level1_bytes, 1 << 10, 1 << 50),
            ("level_ratio", self.level_ratio, 2, 1000),
        ])
    }
}

/// Refuses the first value outside of its range, both ends included.
pub(crate) fn check_ranges(ranges: &[(&str, u64, u64, u64)]) -> Result<()> {
    for &(name, value, least, most) in ranges {
        if value < least || value > most {
            return Err(Error::invalid(format!(
                "{name} is {value}; it must be from {least} to {most}"
            )));
        }
    }
    Ok(())
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

    #[test]
    fn tables_that_a_get_asks_in_vain_have_the_better_filters() {
        let options = KeyspaceOptions::default();
        let bits = |level| options.filter_bits_of(level, 3);
        assert_eq!([0, 1, 2, 3, 6].map(bits), [20, 15, 15, 10, 10]);
        assert_eq!(options.filter_bits_of(0, 0), 20);
        assert_eq!(options.filter_bits_of(1, 0), 10);
        let unfiltered = KeyspaceOptions {
            filter_bits_per_key: 0,
            ..options
        };
        assert_eq!([0, 1, 3].map(|l| unfiltered.filter_bits_of(l, 3)), [0; 3]);
    }
}
