//! Simulates loads without a store: the bytes that a compaction policy would write, and the space that it
//! would take, for a load of any size.
//!
//! The policies are those of a store; only the contents of tables are made up. The figures are those of a
//! store whose merges take no time, unless [`Simulation::speeds`] gives speeds. Compared with real stores
//! they are within a tenth (`tests/simulation.rs`).
//!
//! `description` has the inputs of a simulation and `outcome` its results. `load` counts distinct keys
//! among writes, `content` their share in each table, and `known` the part of it that a policy sees. `form`
//! has the sizes of tables and arenas, `levels` is the store, `board` its merges in time, and `run` drives
//! them. `trie` is a tree of another kind.
//!
//! A simulation leaves out snapshots, reads and the merges that scans pay for, deleted ranges, several
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
