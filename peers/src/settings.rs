//! What every store is told: the same memory, the same threads, the same durability.

use serde::{Deserialize, Serialize};
use terrace::PersistMethod;

/// One store's share of the machine. Each store in `stores/` says how it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Cache of table blocks.
    pub cache_bytes: u64,
    /// One write buffer: arena, memtable.
    pub buffer_bytes: u64,
    /// Write buffers, the active one included.
    pub buffers: u32,
    pub background_threads: u32,
    pub block_bytes: u32,
    pub filter_bits_per_key: u32,
    /// Every write is going to wait for a sync. Terrace is opened as `PowerSafe`, which decides how
    /// its arenas take writes; the others are told with each write only.
    pub syncs_each_write: bool,
    /// Let Terrace take a sync for durable where the medium survives no power cut. The others do so
    /// without being told.
    pub emulate_power_safety: bool,
    /// Terrace's own choice, by name: how new writes reach the arenas.
    pub terrace_method: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cache_bytes: 256 << 20,
            buffer_bytes: 64 << 20,
            buffers: 3,
            background_threads: 2,
            block_bytes: 4 << 10,
            filter_bits_per_key: 10,
            syncs_each_write: false,
            emulate_power_safety: false,
            terrace_method: PersistMethod::Auto.to_string(),
        }
    }
}

impl Settings {
    /// The settings in words, for the head of a report.
    pub fn describe(&self) -> String {
        format!(
            "{} MiB cache, {} buffers of {} KiB, {} background threads, {}-byte blocks, \
             {}-bit filters, no compression",
            self.cache_bytes >> 20,
            self.buffers,
            self.buffer_bytes >> 10,
            self.background_threads,
            self.block_bytes,
            self.filter_bits_per_key,
        )
    }
}
