//! A second engine behind the trait: the LSM store of [`terrace`], on threads of its own.
//!
//! It suits namespaces with more keys than an index in memory allows, and lists them in the order of
//! their bytes. Its calls block, so an event loop hands them to threads: changes of a key always to
//! the same one, which makes groups of those that wait. A value of up to 64 KiB lies with its key.
//! A larger one lies in pieces under a version of its own, and the key names the version once all of
//! them are written.

mod commands;
mod engine;
mod head;
mod identifiers;
mod namespace;
mod store;
mod threads;

use std::path::PathBuf;

pub use self::engine::LsmEngine;
pub use self::store::LsmStore;
use crate::engine::DEFAULT_BUFFER_BYTES;
use crate::format::layout::DEFAULT_MAX_VALUE_BYTES;
use crate::format::namespace::Domain;

/// The largest value that lies with its key, in bytes.
pub const INLINE_BYTES: u32 = 64 << 10;

/// A namespace of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LsmNamespace {
    /// Its number, which also names its keyspaces in the store.
    pub nsid: u32,
    /// The failures that an acknowledged change survives.
    pub domain: Domain,
    /// The largest value, in bytes; 256 MiB at most.
    pub max_value_bytes: u32,
}

impl LsmNamespace {
    /// Describes a power-safe namespace with values of up to 32 MiB.
    pub fn new(nsid: u32) -> Self {
        LsmNamespace {
            nsid,
            domain: Domain::PowerSafe,
            max_value_bytes: DEFAULT_MAX_VALUE_BYTES,
        }
    }
}

/// The settings of [`LsmStore::open`] and [`LsmEngine::open`].
#[derive(Clone, Debug)]
pub struct LsmOptions {
    /// The store's directory.
    pub path: PathBuf,
    /// The options of the store.
    pub store: terrace::Options,
    /// The namespaces.
    pub namespaces: Vec<LsmNamespace>,
    /// Threads that change keys. Default: 2.
    pub write_threads: usize,
    /// Threads that read. Default: 4.
    pub read_threads: usize,
    /// The budget of buffers for values in [`LsmEngine::open`], in bytes. Beside it, a retrieve
    /// under way holds a value of up to 64 KiB, and each thread a piece. Default: 64 MiB.
    pub buffer_bytes: usize,
}

impl LsmOptions {
    /// Describes a store in the directory `path` with the defaults.
    pub fn new(path: impl Into<PathBuf>, namespaces: Vec<LsmNamespace>) -> Self {
        LsmOptions {
            path: path.into(),
            store: terrace::Options::default(),
            namespaces,
            write_threads: 2,
            read_threads: 4,
            buffer_bytes: DEFAULT_BUFFER_BYTES,
        }
    }
}

/// Reads options of a store as TOML.
///
/// # Errors
/// [`Error::Store`](crate::Error::Store) names the line, the option and its accepted values.
pub fn store_options(text: &str) -> crate::Result<terrace::Options> {
    Ok(terrace::Options::from_toml(text)?)
}
