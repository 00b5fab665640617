//! The log-structured merge-tree of Terrace: tables, levels, and compaction as pure decisions.
//!
//! This crate has no threads, opens no store and reads no file of options. The crate `terrace`
//! shows its users the types that they need. Everything here may change with any release: use
//! `terrace`, which keeps its interface.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]
#![forbid(unsafe_code)]
// The readers of these documents work on this crate; they see its private items, too.
#![allow(rustdoc::private_intra_doc_links)]

pub mod block_value;
#[cfg(feature = "serde")]
pub mod byte_size;
pub mod coding;
pub mod compaction;
pub mod cursor;
pub mod data_files;
pub mod debug_expect;
pub mod error;
pub mod fold;
#[cfg(any(test, feature = "internal"))]
#[allow(clippy::unwrap_used, clippy::panic)]
pub mod golden;
pub mod guard;
pub mod key;
mod key_prefixes;
pub mod keyspace_options;
pub mod levels;
mod made_once;
mod open_files;
pub mod option_table;
pub mod peaks;
pub mod range_tombstones;
pub mod read_point;
pub mod region_loss;
#[cfg(feature = "serde")]
pub mod serial;
pub mod sync;
pub mod table;
pub mod things;
pub mod time_profile;
#[cfg(feature = "serde")]
pub mod toml_text;

pub use error::{Error, Result};
pub use key::{KeyspaceId, SequenceNumber};
pub use region_loss::RegionLoss;
