//! The storage node's engine: a hash-indexed key-value store on a raw block device.
//!
//! Keys have 1 to 16 bytes, values up to 256 MiB. The index is in memory and holds whole keys; values
//! lie in extents of the device. An acknowledged store survives a crash in the domain of its
//! namespace. The design follows KVBDEV (2022); `docs/decisions/node.md` says where it differs.
//!
//! Layers, each of which knows only those before it: [`block`] and [`key`]; [`device`], which moves
//! blocks and completes later; [`mod@format`], the bytes on the device; [`space`], which blocks are free;
//! [`index`], where the value of a key is; [`engine`], commands and their order; [`lsm`], the same
//! commands on the store of [`terrace`].

#![deny(unsafe_code)]

pub mod block;
pub mod device;
pub mod engine;
pub mod error;
pub mod format;
pub mod index;
pub mod key;
pub mod lsm;
pub mod space;
#[doc(hidden)]
pub mod thread_start;

pub use error::{Error, Result};
pub use key::Key;
pub use terrace::Escaped;
#[doc(hidden)]
pub use terrace::internal::toml_refusal;
