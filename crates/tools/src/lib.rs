//! Tools for operators of Terrace stores, beside the engine that an application embeds.
//!
//! [`simulate`] computes the bytes that a compaction policy would write for a load of any size.
//!
//! ```
//! use terrace_tools::simulate::Simulation;
//!
//! let simulation = Simulation { keys: 10_000, writes: 50_000, ..Simulation::default() };
//! let outcome = simulation.run(&mut |_| ())?;
//! assert!(outcome.write_amplification > 0.0);
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

pub mod simulate;
