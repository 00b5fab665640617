//! Settings of a store that its compaction policy goes by.

use std::fmt;

/// The rule that chooses the tables to merge, and when. Reads are right under each rule. The rules
/// differ in the bytes written for each byte that comes in, the space that stale versions take, and
/// the number of tables that a read has to ask.
///
/// ```
/// use terrace::{CompactionPolicy, Options};
/// // Little is read, and what is written is to be written as seldom as possible.
/// let options = Options {
///     compaction_policy: CompactionPolicy::Tiered,
///     ..Options::in_memory()
/// };
/// let db = terrace::Db::open("/store", options)?;
/// # db.close()?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum CompactionPolicy {
    /// Each level below level 0 is one sorted run, `level_ratio` times as large as the one above.
    /// There are few stale versions and few tables to ask, and every byte is written several times
    /// on each level.
    #[default]
    Leveled,
    /// Each level holds up to `level_ratio` sorted runs and goes down as one. Every byte is written
    /// once on each level, and there may be as many versions of a key as runs.
    Tiered,
    /// As `Tiered`, but the lowest level is one run, where most stale versions would be: between
    /// the two in bytes written and bytes kept.
    Lazy,
    /// As `Tiered`, but a level becomes one run before it is full once it has
    /// `Options::dedup_threshold` versions for each that would be left: the space that stale
    /// versions may take is a setting. (PlexDB.)
    Dedup,
    /// As `Tiered`, but neighbouring sub-levels of any level are merged before it is full once that frees
    /// `Options::min_score` bytes, or saves probes worth as much, for
    /// each byte written: the best such merge first. It writes less than `Dedup` for the same space.
    Score,
}

impl CompactionPolicy {
    /// Returns whether it goes by the versions that merges would drop, and may merge a range of
    /// keys only.
    #[doc(hidden)]
    pub fn is_by_duplicates(self) -> bool {
        matches!(self, CompactionPolicy::Dedup | CompactionPolicy::Score)
    }
}

impl fmt::Display for CompactionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompactionPolicy::Leveled => "leveled",
            CompactionPolicy::Tiered => "tiered",
            CompactionPolicy::Lazy => "lazy",
            CompactionPolicy::Dedup => "dedup",
            CompactionPolicy::Score => "score",
        })
    }
}

/// Settings of the compaction policy of a store; its keyspaces' own stand in
/// [`KeyspaceOptions`](crate::keyspace_options::KeyspaceOptions).
#[derive(Clone, Copy, Debug)]
pub struct PolicySettings {
    /// The policy.
    pub policy: CompactionPolicy,
    /// Sub-levels of level 0 that start a compaction.
    pub level0_merge: usize,
    /// Sub-levels of level 0 that slow writers down.
    pub level0_slowdown: usize,
    /// Maximum bytes of input of a subcompaction.
    pub slice_bytes: u64,
    /// Versions for each that a compaction would leave, from which on `Dedup` compacts.
    pub dedup_threshold: f64,
    /// Minimum gain for each byte written, for `Score`.
    pub min_score: f64,
}
