//! Explains why a store merges: the merge that its policy would pick now, the alternatives that it
//! weighed, and the distance to the next merge that is due.
//!
//! An explanation is data that the policy's own code makes. It explains a store's levels
//! ([`explain_compaction`]), those of a store that another process has open
//! ([`inspect::explain_compaction`](crate::inspect::explain_compaction)), or a [`Description`] of
//! levels that no store need have.
//!
//! ```
//! use terrace_tools::explain::Description;
//! let description = Description::from_toml(
//!     r#"
//!     keys = 1_000_000
//!     [options]
//!     compaction_policy = "dedup"
//!     [[sub_levels]]
//!     level = 1
//!     entries = 500_000
//!     bytes = 50_000_000
//!     [[sub_levels]]
//!     level = 1
//!     entries = 1_000_000
//!     bytes = 100_000_000
//!     "#,
//! )?;
//! let explanation = description.explain()?;
//! let choice = explanation.keyspaces[0].choice.as_ref().unwrap();
//! assert_eq!(choice.reason, "level 1 has 150 versions for 100 that would stay");
//! assert_eq!(choice.dropped_entries, Some(500_000));
//! # Ok::<(), terrace::Error>(())
//! ```

pub(crate) mod described;
pub(crate) mod description;
pub(crate) mod keyspace;
pub(crate) mod record;
mod store;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use terrace::CompactionPolicy;

pub use self::description::Description;
pub use self::store::{describe_compaction, explain_compaction};
pub use terrace_lsm::compaction::oldest_snapshot::OldestSnapshot;

/// Next choice of a store's policy in each keyspace. The first keyspace that has a choice is served
/// first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explanation {
    /// Keyspaces in the order of their numbers.
    pub keyspaces: Vec<KeyspaceExplanation>,
}

/// Next choice in one keyspace, and the alternatives that were weighed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyspaceExplanation {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Policy and settings of its merges.
    pub settings: Settings,
    /// Its levels that hold tables, from the top.
    pub levels: Vec<ExplainedLevel>,
    /// With `Leveled` the target of each level below level 0, down to the deepest. Counted from below, see
    /// [`KeyspaceOptions::level1_bytes`](terrace::KeyspaceOptions::level1_bytes).
    #[serde(default)]
    pub targets: Vec<LevelTarget>,
    /// Work that runs, or that waits after a caller asked for it.
    pub under_way: Vec<UnderWay>,
    /// Work that would begin now.
    pub choice: Option<Plan>,
    /// Work that would begin if nothing were under way; only if nothing may begin now.
    pub waiting: Option<Waiting>,
    /// Index in [`KeyspaceExplanation::candidates`] of the one nearest to due, if nothing is due.
    pub nearest: Option<usize>,
    /// Candidates that were weighed, in the order in which the policy would begin them. A policy
    /// that looks for the best run shows the best runs.
    pub candidates: Vec<Weighed>,
    /// Candidates that are not shown: none of them is due, or there are better ones.
    pub candidates_left_out: usize,
    /// Sub-levels whose last merge freed less than predicted.
    pub setbacks: Vec<Setback>,
    /// The oldest live snapshot and its superseded versions in this keyspace. `None` without a
    /// snapshot, and of a [`Description`].
    #[serde(default)]
    pub oldest_snapshot: Option<OldestSnapshot>,
}

/// The policy of a keyspace, with those of its settings that it looks at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// The policy.
    pub policy: CompactionPolicy,
    /// [`Options::level0_merge`](terrace::Options::level0_merge). With `Score` level 0 goes down
    /// when it has twice as many, however little the merge gives.
    pub level0_merge: usize,
    /// [`KeyspaceOptions::level_ratio`](terrace::KeyspaceOptions::level_ratio).
    pub level_ratio: u64,
    /// [`KeyspaceOptions::level1_bytes`](terrace::KeyspaceOptions::level1_bytes); for `Leveled` and
    /// `Lazy`.
    pub level1_bytes: Option<u64>,
    /// [`Options::dedup_threshold`](terrace::Options::dedup_threshold); for `Dedup`.
    pub dedup_threshold: Option<f64>,
    /// [`Options::min_score`](terrace::Options::min_score); for `Score`.
    pub min_score: Option<f64>,
}

/// The target of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelTarget {
    /// Level, from 1 on.
    pub level: u8,
    /// Bytes of tables; 0 for a level that is not used in a store of this size.
    pub bytes: u64,
}

/// A level that holds tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExplainedLevel {
    /// Level, from 0 on.
    pub level: u8,
    /// Sub-levels, from the youngest.
    pub sub_levels: Vec<ExplainedSubLevel>,
    /// Its versions for each that would stay if it were merged into one sub-level, at least 1,
    /// estimated from sketches; `None` if that is not known.
    pub duplicate_rate: Option<f64>,
}

/// A sub-level, all of its tables together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExplainedSubLevel {
    /// Its name.
    pub number: u64,
    /// Age; a larger one is younger.
    pub age: u64,
    /// Its tables.
    pub tables: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Versions in them.
    pub entries: u64,
    /// Versions that are tombstones.
    pub tombstones: u64,
}

/// A merge or a move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// Kind of work.
    pub kind: PlanKind,
    /// Reason, in words.
    pub reason: String,
    /// Inputs by sub-level, from the youngest.
    pub inputs: Vec<PlanInput>,
    /// The level that takes the outputs.
    pub output_level: u8,
    /// The age of the sub-level there.
    pub output_age: u64,
    /// Name of that sub-level; `None` if this plan makes it.
    pub output_sub_level: Option<u64>,
    /// Bytes of the inputs.
    pub read_bytes: u64,
    /// Versions in them.
    pub entries: u64,
    /// Bytes that it is expected to write, 0 for a move or a removal; `None` if unknown, at most `read_bytes`.
    pub written_bytes: Option<u64>,
    /// Versions that it is expected to drop; `None` if that is not known.
    pub dropped_entries: Option<u64>,
    /// Gain for each byte that it writes, for `Score`.
    pub score: Option<f64>,
}

/// Kinds of work on tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanKind {
    /// Their versions are read and written to new tables.
    Merge,
    /// Their files stay as they are, and are listed in another place.
    Move,
    /// They go by an edit alone: deleted ranges hide all that they hold.
    Removal,
}

/// Tables of one sub-level that take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanInput {
    /// Its level.
    pub level: u8,
    /// Its name.
    pub sub_level: u64,
    /// Its age.
    pub age: u64,
    /// The numbers of the tables.
    pub tables: Vec<u64>,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Candidate that a policy weighs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Weighed {
    /// Measure that makes it due.
    pub measure: Measured,
    /// Share of the due amount that is there; about 1 is due.
    pub due_share: f64,
    /// Standing among the candidates.
    pub standing: WeighedStanding,
    /// Plan that would be carried out, if it may begin.
    pub plan: Option<Plan>,
}

/// Measures that a policy goes by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Measured {
    /// A level has a number of sub-levels.
    SubLevels {
        /// The level.
        level: u8,
        /// Sub-levels that are not on their way down.
        sub_levels: usize,
        /// Number of sub-levels that makes it due.
        due_at: usize,
    },
    /// A level has bytes.
    Size {
        /// The level.
        level: u8,
        /// Bytes that are not on their way down.
        bytes: u64,
        /// Maximum number of bytes; 0 for a level that is not used.
        due_at: u64,
    },
    /// A level has versions that a merge would drop.
    Duplicates {
        /// The level.
        level: u8,
        /// Versions for each that would stay.
        rate: f64,
        /// Rate that makes it due.
        due_at: f64,
    },
    /// Merging neighbouring sub-levels gives something for each byte written.
    Score {
        /// The sub-levels from the youngest, each as its level and its age.
        sub_levels: Vec<(u8, u64)>,
        /// Gain for each byte written.
        score: f64,
        /// Score that makes it due.
        due_at: f64,
    },
    /// A level has sub-levels that the policy would not have made.
    OtherPolicy {
        /// The level.
        level: u8,
        /// Its sub-levels.
        sub_levels: usize,
    },
    /// Tables of a level are full of tombstones.
    Tombstones {
        /// The level.
        level: u8,
        /// Share of their entries that are tombstones, in percent; entries that a deleted range
        /// hides count.
        percent: u64,
        /// Share that makes them due.
        due_at: u64,
    },
    /// Tables of a level hold superseded versions that no snapshot needs any more.
    Superseded {
        /// The level.
        level: u8,
        /// Their share of the tables' bytes, in percent.
        percent: u64,
        /// Share that makes them due.
        due_at: u64,
    },
    /// Iterators have passed over tombstones of a level so often that a merge is worth it.
    PassedOver {
        /// The level.
        level: u8,
    },
    /// Neighbouring tables of a level have parts that are worth different tiers by their reads.
    MixedReads {
        /// The level.
        level: u8,
        /// Number of tables.
        tables: usize,
    },
    /// Tables of a level hold an old tombstone.
    TombstoneAge {
        /// The level.
        level: u8,
        /// Time that it has been in tables.
        seconds: u64,
        /// Age that makes it due.
        due_at: u64,
    },
    /// Deleted ranges hide all that tables hold; they go by an edit alone.
    Hidden {
        /// The level.
        level: u8,
        /// Number of tables.
        tables: usize,
    },
}

/// Standing of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WeighedStanding {
    /// It would begin now.
    Chosen,
    /// It may begin, after the chosen one.
    MayBegin,
    /// It is due, and work under way keeps it from beginning.
    Waits,
    /// It seems to be due; versions that snapshots keep were not looked at, because others are
    /// better.
    NotLookedAt,
    /// It is not due.
    NotDue,
}

/// Work that would begin if nothing were under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// Plan that waits.
    pub plan: Plan,
    /// Indexes in [`KeyspaceExplanation::under_way`] of the work that keeps it from beginning.
    pub until: Vec<usize>,
}

/// Work on tables that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnderWay {
    /// The number under which events speak of it; `None` if it has not begun.
    pub job: Option<u64>,
    /// Reason, in words.
    pub reason: String,
    /// Numbers of the tables that take part, finished ones included.
    pub tables: Vec<u64>,
    /// The level that takes the outputs.
    pub output_level: u8,
    /// Slices that are installed.
    pub installed_slices: usize,
    /// Slices in all; 0 before it is divided, and for a move.
    pub slices: usize,
}

/// A sub-level whose last merge freed less than half of the prediction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Setback {
    /// Its level.
    pub level: u8,
    /// Its name.
    pub sub_level: u64,
    /// Its age.
    pub age: u64,
    /// Versions that a run with it needs before a merge is tried again for its drops.
    pub needed_entries: u64,
    /// Versions of the largest run with it.
    pub present_entries: u64,
}
