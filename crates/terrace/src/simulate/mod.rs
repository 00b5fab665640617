//! Loads simulated without a store: what a compaction policy would write, and the space that it would
//! take, for a load of any size.
//!
//! The policies are those of a store; what is made up is what tables hold. The figures are those of a
//! store whose merges take no time, unless [`Simulation::speeds`] says how fast it is. Compared with real
//! stores they are within a tenth (`tests/simulation.rs`).
//!
//! `description` says what is simulated and `outcome` what comes of it. `load` knows how many distinct keys
//! there are among some writes, `content` what tables hold of them, `known` what a policy would be told of
//! that. `form` has the sizes of tables and arenas, `levels` is the store, `board` its merges in time, `run`
//! lets it all go. `trie` is of another kind.
//!
//! What is not simulated: snapshots, reads and the merges that scans pay for, deleted ranges, several
//! keyspaces, compression, estimates that err, and clusters of updates, without which no range is merged
//! alone.

mod board;
mod content;
mod description;
mod form;
mod known;
mod levels;
mod load;
mod outcome;
mod run;
#[cfg(test)]
mod tests;
mod trie;

pub use description::{
    DELETE_SHARES, EXPONENTS, KeyDistribution, MAX_FLUSHES, MAX_KEY_BYTES, MAX_KEYS,
    MAX_VALUE_BYTES, MIN_ARENA_BYTES, Simulation, Speeds, TreeKind,
};
pub use outcome::{MergesOfReason, Moment, Outcome, Seconds, SpaceAmplification, SubLevels};
pub use trie::TrieForm;
