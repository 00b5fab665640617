//! Loads simulated without a store: what a compaction policy would write, and the space that it would
//! take, for a load of any size.
//!
//! The policies are those of a store; what is made up is what tables hold. The figures are those of a
//! store whose merges take no time, unless [`Simulation::speeds`] says how fast it is. Compared with real
//! stores they are within a tenth (`tests/simulation.rs`).

pub use crate::compaction::simulator::description::{
    DELETE_SHARES, EXPONENTS, KeyDistribution, MAX_FLUSHES, MAX_KEY_BYTES, MAX_KEYS,
    MAX_VALUE_BYTES, MIN_ARENA_BYTES, Simulation, Speeds, TreeKind,
};
pub use crate::compaction::simulator::outcome::{
    MergesOfReason, Moment, Outcome, Seconds, SpaceAmplification, SubLevels,
};
pub use crate::compaction::simulator::trie::TrieForm;
