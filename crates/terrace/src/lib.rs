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
mod compaction;
mod cursor;
mod error;
mod key;
mod levels;

pub use error::{Error, Result};
pub use key::{KeyspaceId, SequenceNumber};
