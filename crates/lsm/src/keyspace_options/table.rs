//! The table of a keyspace's options.

use crate::keyspace_options::{KeyspaceOptions, Placement};
use crate::option_table::Applies::{Live, NextTable};
use crate::option_table::{OptionEntry, Values, bytes, whole};
use crate::table::MAX_BLOCK_BYTES;

/// Block size.
pub const BLOCK_BYTES: OptionEntry = OptionEntry::new(
    "Size of a data block before compression",
    bytes(64, MAX_BLOCK_BYTES),
    NextTable,
);

/// Memory of filters.
pub const FILTER_BITS_PER_KEY: OptionEntry = OptionEntry::new(
    "Filter memory of a key, on average over all tables; 0 for no filters",
    whole("bits", 0, 64),
    NextTable,
);

/// Compression of each level.
pub const COMPRESSION: OptionEntry = OptionEntry::new(
    "Compression of levels 0, 1, 2 and so on; the last one holds for all deeper levels",
    Values::Names(&["none", "lz4", "zstd"]),
    NextTable,
);

/// Table size.
pub const TABLE_BYTES: OptionEntry = OptionEntry::new(
    "Size of a table that a compaction writes",
    bytes(1 << 10, 1 << 40),
    NextTable,
);

/// Size of level 1. A policy takes it from the options of the keyspace whenever it chooses.
pub const LEVEL1_BYTES: OptionEntry = OptionEntry::new(
    "Target size of level 1 in a small store; policies leveled and lazy alone ask for it",
    bytes(1 << 10, 1 << 50),
    Live,
);

/// Ratio of levels. A policy takes it from the options of the keyspace whenever it chooses.
pub const LEVEL_RATIO: OptionEntry = OptionEntry::new(
    "Size of a level in multiples of the one above; but for leveled, sub-levels of a full level",
    whole("times", 2, 1000),
    Live,
);

/// Tiers of levels. New tables go there, and older ones move there in the background.
pub const LEVEL_TIERS: OptionEntry = OptionEntry::new(
    "Tiers of levels 0, 1, 2 and so on; the last one holds for all deeper levels",
    Values::Other("a list of names of tiers"),
    Live,
);

/// Rule of placement.
pub const PLACEMENT: OptionEntry = OptionEntry::new(
    "Rule by which tables go to tiers",
    Values::Name(Placement::NAMES),
    Live,
);

/// Tiers that a keyspace keeps to.
pub const PINNED_TIERS: OptionEntry = OptionEntry::new(
    "The only tiers that tables may lie in; none for all tiers",
    Values::Other("a list of names of tiers"),
    Live,
);

/// Ages of tables in tiers.
pub const TIER_AGES_SECONDS: OptionEntry = OptionEntry::new(
    "With the placement age, age up to which tables lie in the fastest tier, the next one, and so on",
    Values::Other("a list of seconds, none smaller than the one before it"),
    Live,
);

crate::option_table! {
    /// Options of a keyspace.
    pub static KEYSPACE: KeyspaceOptions as "" {
        block_bytes: BLOCK_BYTES;
        filter_bits_per_key: FILTER_BITS_PER_KEY;
        compression: COMPRESSION;
        table_bytes: TABLE_BYTES;
        level1_bytes: LEVEL1_BYTES;
        level_ratio: LEVEL_RATIO;
        level_tiers: LEVEL_TIERS;
        placement: PLACEMENT;
        pinned_tiers: PINNED_TIERS;
        tier_ages_seconds: TIER_AGES_SECONDS;
    } without { }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_in_toml_has_one_entry_and_every_entry_is_an_option() {
        let text = KeyspaceOptions::default().to_toml().unwrap();
        let written: toml::Table = text.parse().unwrap();
        let mut listed: Vec<_> = KEYSPACE.iter().map(|entry| entry.name).collect();
        listed.sort_unstable();
        assert_eq!(listed, written.keys().collect::<Vec<_>>());
    }
}
