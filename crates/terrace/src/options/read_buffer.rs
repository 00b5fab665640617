//! Options of the read buffer.

use serde::{Deserialize, Serialize};

/// Settings of the read buffer; see [`Options::read_buffer`](crate::Options::read_buffer).
///
/// ```
/// use terrace::{ForwardPolicy, Options, ReadBufferOptions};
///
/// let options = Options {
///     cache_bytes: 256 << 20,
///     read_buffer: ReadBufferOptions {
///         policy: ForwardPolicy::All,
///         ..ReadBufferOptions::default()
///     },
///     ..Options::default()
/// };
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadBufferOptions {
    /// Writes that enter the buffer. Default: [`ForwardPolicy::Resident`].
    pub policy: ForwardPolicy,
    /// Structure of the entries. Default: [`ReadBufferStructure::Hash`].
    pub structure: ReadBufferStructure,
    /// Maximum share of [`Options::cache_bytes`](crate::Options::cache_bytes) that the buffer may
    /// take, in percent, from 0 (off: reads and writes pass it by) to 90. The share is set aside
    /// once the buffer holds entries; while it sleeps, an eighth of it at most (with
    /// `borrows_arenas` up to a quarter). While there are at least eight seeks for each get, the
    /// buffer is limited to a fifth of it, and blocks have the rest. A small buffer is limited to a
    /// half, an ordered one not at all. Values over 8 KiB never enter: where all are so large, 0 is
    /// right. Default: 50.
    pub share_percent: u32,
    /// Whether to take the memory of idle arenas, too, up to as much again: all but the active one,
    /// once that takes longer than ten seconds to fill, and all but two from five seconds on. Once
    /// one fills faster, arenas have their memory back as they fill. This is for a store that is to
    /// stay within an amount of memory, as in a container: where the page cache is free to grow, it
    /// uses that memory by itself. Of no effect where arenas are in persistent memory or in a
    /// tmpfs, and with [`ReadBufferStructure::Ordered`], which cannot give memory back. Default:
    /// false.
    pub borrows_arenas: bool,
    /// Whether to keep entries even where `cache_bytes` could hold every block of the store. A copy
    /// of data that is in memory saves little then, and takes the memory of other blocks. Default:
    /// false. Of no effect under other policies than [`ForwardPolicy::Resident`], which always keep
    /// them.
    pub while_blocks_fit: bool,
}

impl Default for ReadBufferOptions {
    fn default() -> Self {
        ReadBufferOptions {
            policy: ForwardPolicy::Resident,
            structure: ReadBufferStructure::Hash,
            share_percent: 50,
            borrows_arenas: false,
            while_blocks_fit: false,
        }
    }
}

/// The writes that enter the read buffer. Reads see the same under each policy; only speed differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ForwardPolicy {
    /// A write brings the buffer's entry for its key up to date, if there is one. New writes are in
    /// memory anyway.
    Resident,
    /// Every write enters the buffer: for a store whose new writes are in memory that is slower
    /// than DRAM.
    All,
    /// As `All`, and the entry is removed before the write is stored. For comparison with published
    /// results.
    InvalidateFirst,
}

/// The structure in which the read buffer keeps its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReadBufferStructure {
    /// A hash table over rings of bytes, in shards.
    Hash,
    /// One balanced tree under a lock: slower. For comparison.
    Ordered,
}
