//! Stores that hold nothing: policies choose merges of tables of which only sizes and spans of writes are
//! known, so that the costs of a load of any size are a matter of seconds.
//!
//! [`description`] says what is simulated and [`outcome`] what comes of it. [`load`] knows how many distinct
//! keys there are among some writes, [`content`] what tables hold of them, [`known`] what a policy would
//! be told of that. [`form`] has the sizes of tables and arenas, [`levels`] is the store, [`board`] its
//! merges in time, [`run`] lets it all go. [`trie`] is of another kind.
//!
//! What is not simulated: snapshots, reads and the merges that scans pay for, deleted ranges, several
//! keyspaces, compression, estimates that err, and clusters of updates, without which no range is merged alone.

pub(crate) mod board;
pub(crate) mod content;
pub(crate) mod description;
pub(crate) mod form;
pub(crate) mod known;
pub(crate) mod levels;
pub(crate) mod load;
pub(crate) mod outcome;
mod run;
pub(crate) mod trie;

#[cfg(test)]
mod tests;
