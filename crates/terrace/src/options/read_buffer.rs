//! Options of the read buffer.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct ReadBufferOptions {
    /// Writes that enter the buffer. Default: [`ForwardPolicy::Resident`].
    pub policy: ForwardPolicy,
    /// Maximum share of [`Options::cache_bytes`](crate::Options::cache_bytes) that the buffer may
    /// take, in percent, from 0 (off: reads and writes pass it by) to 90. The share is set aside
    /// once the buffer holds entries. While it sleeps, an eighth of it at most (up to
    /// a quarter where memory is bounded). While there are at least eight seeks for each get, the
    /// buffer is limited to a fifth of it, and blocks have the rest. A small buffer is limited to a
    /// half. Values over 8 KiB never enter: where all are so large, 0 is
    /// right. Default: 50.
    pub share_percent: u32,
}

impl Default for ReadBufferOptions {
    fn default() -> Self {
        ReadBufferOptions {
            policy: ForwardPolicy::Resident,
            share_percent: 50,
        }
    }
}

/// The writes that enter the read buffer. Reads see the same under each policy; only speed differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ForwardPolicy {
    /// A write brings the buffer's entry for its key up to date, if there is one. New writes are in
    /// memory anyway.
    Resident,
    /// Every write enters the buffer: for a store whose new writes are in memory that is slower
    /// than DRAM.
    All,
}

/// The structure in which the read buffer keeps its entries: a constant that measurements replace.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ReadBufferStructure {
    /// A hash table over rings of bytes, in shards.
    Hash,
    /// One balanced tree under a lock: slower. For comparison.
    Ordered,
}
