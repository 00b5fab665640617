//! Terrace: an ordered key-value store that puts every byte on the memory or device that suits it.
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

mod coding;
mod cursor;
mod error;
mod key;
mod table;

pub use error::{Error, Result};
pub use key::{KeyspaceId, SequenceNumber};
pub use table::Compression;

/// Entry points for fuzzers; not part of the interface.
#[doc(hidden)]
pub mod fuzz {
    pub use crate::table::fuzz::{fuzz_block, fuzz_table};
}
