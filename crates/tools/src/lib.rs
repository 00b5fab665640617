//! Tools for operators of Terrace stores, beside the engine that an application embeds.
//!
//! [`mod@advise`] predicts the speed and price of a store's levels on other tiers. [`explain`] shows the choice of a compaction policy and its reasons, for a store or for
//! described levels. [`inspect`] looks into a store from outside: its socket, its files, its
//! metrics. [`options`] describes each option of a store and of a keyspace. [`probe`] measures the
//! speed of a device. [`mod@repair`] makes a damaged store openable again. [`simulate`] computes the bytes that a compaction policy would
//! write for a load of any size.
//!
//! ```
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("store");
//! use terrace_tools::{explain, inspect};
//!
//! let db = inspect::open(&path, terrace::Options::default())?;
//! db.put(b"key", b"value")?;
//! db.flush()?;
//! let explanation = explain::explain_compaction(&db);
//! assert!(explanation.keyspaces[0].choice.is_none());
//!
//! // Elsewhere, in another process:
//! assert_eq!(inspect::statistics(&path)?.flushes, 1);
//! # Ok::<(), terrace::Error>(())
//! ```
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

pub mod advise;
pub mod explain;
pub mod inspect;
pub mod options;
pub mod probe;
pub mod repair;
pub mod simulate;
