//! Why a store merges what it merges: what its policy would pick now, what it weighed against that, and
//! what is missing for the next merge to be due.
//!
//! An explanation is data, made by the policy's own code from a store's levels
//! ([`explain_compaction`]), from those of a store that another process
//! has open ([`inspect::explain_compaction`](crate::inspect::explain_compaction)), or from a
//! [`Description`] of levels that no store need have.
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

/// What a store's policy would begin now, keyspace by keyspace. The first keyspace that has a choice is
/// served first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explanation {
    /// In the order of their numbers.
    pub keyspaces: Vec<KeyspaceExplanation>,
}

/// What would begin in one keyspace, and what else was weighed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyspaceExplanation {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// What it is merged by.
    pub settings: Settings,
    /// Its levels that hold tables, from the top.
    pub levels: Vec<ExplainedLevel>,
    /// With `Leveled` the target of each level below level 0, down to the deepest. Counted from below, see
    /// [`Options::level1_bytes`](terrace::Options::level1_bytes).
    #[serde(default)]
    pub targets: Vec<LevelTarget>,
    /// What is being done, or waits to be done because somebody asked for it.
    pub under_way: Vec<UnderWay>,
    /// What would begin now.
    pub choice: Option<Plan>,
    /// If nothing may begin and something would if nothing were under way.
    pub waiting: Option<Waiting>,
    /// If nothing is due: of [`KeyspaceExplanation::candidates`] the one that is nearest to it.
    pub nearest: Option<usize>,
    /// What was weighed, in the order in which the policy would begin it. A policy that looks for
    /// the best run shows the best runs.
    pub candidates: Vec<Weighed>,
    /// Candidates that are not shown: none of them is due, or there are better ones.
    pub candidates_left_out: usize,
    /// Sub-levels whose last merge freed less than predicted.
    pub setbacks: Vec<Setback>,
    /// The oldest live snapshot and its superseded versions in this keyspace. `None` without a snapshot, and of a
    /// [`Description`].
    #[serde(default)]
    pub oldest_snapshot: Option<OldestSnapshot>,
}

/// The policy of a keyspace, with those of its settings that it looks at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// The policy.
    pub policy: CompactionPolicy,
    /// [`Options::level0_merge`](terrace::Options::level0_merge). With `Score` level 0 goes down, whatever
    /// merging it gives, when it has twice as many.
    pub level0_merge: usize,
    /// [`Options::level_ratio`](terrace::Options::level_ratio), or the keyspace's own.
    pub level_ratio: u64,
    /// [`Options::level1_bytes`](terrace::Options::level1_bytes), or the keyspace's own; for `Leveled` and
    /// `Lazy`.
    pub level1_bytes: Option<u64>,
    /// [`Options::dedup_threshold`](terrace::Options::dedup_threshold); for `Dedup`.
    pub dedup_threshold: Option<f64>,
    /// [`Options::least_score`](terrace::Options::least_score); for `Score`.
    pub least_score: Option<f64>,
}

/// The target of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelTarget {
    /// From 1 on.
    pub level: u8,
    /// Bytes of tables; 0 for a level that is not used in a store of this size.
    pub bytes: u64,
}

/// A level that holds tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExplainedLevel {
    /// From 0 on.
    pub level: u8,
    /// From the youngest.
    pub sub_levels: Vec<ExplainedSubLevel>,
    /// Its versions for each that would stay if it were merged into one sub-level, at least 1, estimated from
    /// sketches; `None` if that is not known.
    pub duplicate_rate: Option<f64>,
}

/// A sub-level, all of its tables together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExplainedSubLevel {
    /// Its name.
    pub number: u64,
    /// Larger is younger.
    pub age: u64,
    /// Its tables.
    pub tables: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Versions in them.
    pub entries: u64,
    /// Those that are tombstones.
    pub tombstones: u64,
}

/// A merge or a move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// What is done with the tables.
    pub kind: PlanKind,
    /// Why, in words.
    pub reason: String,
    /// What takes part, from the youngest.
    pub inputs: Vec<PlanInput>,
    /// The level that takes the outputs.
    pub output_level: u8,
    /// The age of the sub-level there.
    pub output_age: u64,
    /// Its name; `None` if it is made by this.
    pub output_sub_level: Option<u64>,
    /// Bytes of the inputs.
    pub read_bytes: u64,
    /// Versions in them.
    pub entries: u64,
    /// Bytes that it is expected to write, 0 for a move; `None` if that is not known, at most what it reads.
    pub written_bytes: Option<u64>,
    /// Versions that it is expected to drop; `None` if that is not known.
    pub dropped_entries: Option<u64>,
    /// What it gives for each byte that it writes, for `Score`.
    pub score: Option<f64>,
}

/// What is done with tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanKind {
    /// They are read and written anew.
    Merge,
    /// Their files stay as they are, and are listed in another place.
    Move,
    /// They go by an edit alone: deleted ranges hide all that they hold.
    Removal,
}

/// What takes part of a sub-level.
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

/// Something that a policy weighs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Weighed {
    /// What it goes by.
    pub measure: Measured,
    /// How much of what makes it due is there; about 1 is due.
    pub due_share: f64,
    /// Where it stands.
    pub standing: WeighedStanding,
    /// What would be done, if it may begin.
    pub plan: Option<Plan>,
}

/// What a policy goes by.
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
        /// So many make it due.
        due_at: usize,
    },
    /// A level has bytes.
    Size {
        /// The level.
        level: u8,
        /// Bytes that are not on their way down.
        bytes: u64,
        /// It is to have no more; 0 if it is not used.
        due_at: u64,
    },
    /// A level has versions that a merge would drop.
    Duplicates {
        /// The level.
        level: u8,
        /// Versions for each that would stay.
        rate: f64,
        /// Such a rate makes it due.
        due_at: f64,
    },
    /// Merging neighbouring sub-levels gives something for each byte written.
    Score {
        /// The sub-levels from the youngest, each as its level and its age.
        sub_levels: Vec<(u8, u64)>,
        /// What it gives.
        score: f64,
        /// Such a score makes it due.
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
        /// The share of their entries that are, in percent; what a deleted range hides counts.
        percent: u64,
        /// Such a share makes them due.
        due_at: u64,
    },
    /// Tables of a level hold superseded versions that no snapshot needs any more.
    Superseded {
        /// The level.
        level: u8,
        /// Their share of the tables' bytes, in percent.
        percent: u64,
        /// Such a share makes them due.
        due_at: u64,
    },
    /// Iterators have passed over tombstones of a level so often that a merge is worth it.
    PassedOver {
        /// The level.
        level: u8,
    },
    /// Tables of a level hold an old tombstone.
    TombstoneAge {
        /// The level.
        level: u8,
        /// How long it has been in tables.
        seconds: u64,
        /// Such an age makes it due.
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

/// Where something that is weighed stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WeighedStanding {
    /// It is what would begin now.
    Chosen,
    /// It may begin, and comes after what is chosen.
    MayBegin,
    /// It is due, and something under way keeps it from beginning.
    Waits,
    /// It seems to be due; what snapshots keep was not looked at, because others are better.
    NotLookedAt,
    /// It is not due.
    NotDue,
}

/// What would begin, if nothing were under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// What would be done.
    pub plan: Plan,
    /// Of [`KeyspaceExplanation::under_way`] those that keep it from beginning.
    pub until: Vec<usize>,
}

/// Something that is being done with tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnderWay {
    /// The number under which events speak of it; `None` if it has not begun.
    pub job: Option<u64>,
    /// Why, in words.
    pub reason: String,
    /// The numbers of the tables that take part, those included that are done with.
    pub tables: Vec<u64>,
    /// The level that takes the outputs.
    pub output_level: u8,
    /// Slices that are installed.
    pub installed_slices: usize,
    /// Slices in all; 0 before it is divided, and for a move.
    pub slices: usize,
}

/// A sub-level whose last merge freed less than half of what was predicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Setback {
    /// Its level.
    pub level: u8,
    /// Its name.
    pub sub_level: u64,
    /// Its age.
    pub age: u64,
    /// Versions that a run with it must have to be tried again for what a merge would drop.
    pub needed_entries: u64,
    /// Versions of the largest run with it.
    pub present_entries: u64,
}
