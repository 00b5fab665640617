//! Settings that every store gets alike, each in its own way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Events that an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DurabilityClass {
    /// The death of the process; not a power cut.
    ProcessCrash,
    /// A power cut: each write asks for a sync.
    PowerCut,
}

/// The same memory, threads, filters, compression and durability for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Events that an acknowledged write survives.
    pub durability: DurabilityClass,
    /// Memory for cached blocks and records together, bytes.
    pub cache_bytes: u64,
    /// The same for a store that is advised to read past the page cache where memory is bounded, and so
    /// has the page cache's share, too.
    pub direct_cache_bytes: u64,
    /// One write buffer of such a store: its cache has the difference from `write_buffer_bytes`.
    pub direct_write_buffer_bytes: u64,
    /// Memory of one write buffer, bytes.
    pub write_buffer_bytes: u64,
    /// How many write buffers there may be.
    pub write_buffers: u32,
    /// Threads for flushes and compactions together, at least 2.
    pub background_threads: u32,
    /// Bits of filter a key.
    pub filter_bits_per_key: u32,
    /// Bytes of an uncompressed block.
    pub block_bytes: u32,
    /// Whether blocks are compressed (LZ4) below the first levels.
    pub compressed: bool,
    /// Whether tables are read past the page cache, where a store can do that.
    pub direct_io: bool,
    /// Bound of the process's memory below the size of the data, page cache included; `None` without
    /// one. Advice that only helps when data fits (read-ahead of a mapping, say) is then given the
    /// other way round.
    pub bound_bytes: Option<u64>,
    /// Whether the user chose the size of the cache, which then does not follow from the bound.
    pub cache_is_chosen: bool,
    /// Expected data, bytes of keys and values: a B-tree needs it as the size of its map.
    pub expected_data_bytes: u64,
    /// Number of its records.
    pub expected_records: u64,
    /// Names of the tables to make where a workload needs several: see [`crate::tables`]. None otherwise.
    pub tables: Vec<String>,
    /// Options of one contestant by its own names, from `--set NAME.OPTION=VALUE`. A contestant
    /// refuses an option it does not know.
    pub own: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            durability: DurabilityClass::ProcessCrash,
            cache_bytes: 256 << 20,
            direct_cache_bytes: 256 << 20,
            direct_write_buffer_bytes: 64 << 20,
            write_buffer_bytes: 64 << 20,
            write_buffers: 3,
            background_threads: 2,
            filter_bits_per_key: 10,
            block_bytes: 4096,
            compressed: false,
            direct_io: false,
            bound_bytes: None,
            cache_is_chosen: false,
            expected_data_bytes: 1 << 30,
            expected_records: 1 << 20,
            tables: Vec::new(),
            own: BTreeMap::new(),
        }
    }
}
