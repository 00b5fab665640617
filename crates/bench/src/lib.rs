//! The store and the configuration that serve a workload best, and why.
//!
//! A *contest* runs *contestants* (stores, each with its settings) through the same *plan*: a list
//! of *phases*, each a workload with its own operations, clients and pace. Each run has a process
//! and a directory of its own, and contestants take turns. Every operation's outcome is checked
//! against the workload's own knowledge, so that a store cannot win by losing data.
//!
//! - [`draw`]: distributions, exactly as their sources define them
//! - [`keys`], [`values`]: a record's number made bytes, and checked again
//! - [`workload`]: YCSB, db_bench, mixgraph, the PlexDB update load
//! - [`linkbench`]: a social graph in four tables, and transactions on them
//! - [`store`], [`tables`], [`stores`]: the traits of a store under test, and Terrace behind them
//! - [`node`]: the storage node as a store, and Terrace on its blocks; [`flat`]: files on blocks
//! - [`run`], [`measure`]: one run of one contestant, and its counts
//! - [`contest`]: runs in processes that alternate
//! - [`reopen`]: a store that was killed, and how soon it answers again
//! - [`report`]: a table, JSON, and one HTML page
//! - [`reproduce`]: published experiments, with the published numbers beside ours
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod arguments;
pub mod conformance;
pub mod contest;
pub mod draw;
pub mod drive;
pub mod flat;
pub mod keys;
pub mod linkbench;
pub mod machine;
pub mod measure;
pub mod memory_limit;
pub mod node;
pub mod operation;
pub mod outcome;
mod output;
pub mod reopen;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod settings;
pub mod store;
pub mod stores;
pub mod tables;
mod told;
pub mod values;
mod work;
pub mod workload;

pub use store::{Error, Result};
