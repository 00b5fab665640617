//! An opened store, for any number of event loops.

use std::path::PathBuf;
use std::sync::Arc;

use terrace::Db;

use super::LsmOptions;
use super::identifiers::{nguid_of, uuid_of};
use super::namespace::Namespace;
use super::threads::Threads;
use crate::engine::NamespaceInfo;
use crate::format::namespace::Kind;
use crate::format::value::MAX_VALUE_BYTES;
use crate::{Error, Result};

/// An opened store: its namespaces and its threads, which the [`LsmEngine`](super::LsmEngine)s of all
/// event loops share.
///
/// ```
/// use terrace_node::lsm::{LsmEngine, LsmNamespace, LsmOptions, LsmStore};
///
/// let directory = tempfile::tempdir().unwrap();
/// let options = LsmOptions::new(directory.path().join("store"), vec![LsmNamespace::new(1)]);
/// let store = LsmStore::open(options)?;
/// let loops = [LsmEngine::new(&store, 4 << 20)?, LsmEngine::new(&store, 4 << 20)?];
/// assert_eq!(loops[0].namespaces()?[0].nsid, 1);
/// # Ok::<(), terrace_node::Error>(())
/// ```
pub struct LsmStore {
    db: Db,
    path: PathBuf,
    namespaces: Vec<Arc<Namespace>>,
    threads: Threads,
}

/// The least limit of a batch: a group of changes, or a piece, fits.
const MIN_BATCH_BYTES: u64 = 4 << 20;
/// Stands for the store itself where identifiers are made: no namespace has the number.
const NO_NAMESPACE: u32 = 0;

impl LsmStore {
    /// Opens the store, or makes it, and its namespaces. `buffer_bytes` of the options is left to
    /// each loop.
    ///
    /// # Errors
    /// The store cannot be opened ([`Error::Store`] says why), two namespaces have one number, a
    /// largest value is 0 or above 256 MiB, or the store's batches are below 4 MiB.
    pub fn open(options: LsmOptions) -> Result<Arc<Self>> {
        check(&options)?;
        let db = Db::open(&options.path, options.store)?;
        let mut namespaces = Vec::new();
        for settings in options.namespaces {
            namespaces.push(Arc::new(Namespace::open(&db, settings)?));
        }
        let threads = Threads::start(&db, options.write_threads, options.read_threads)
            .map_err(|source| Error::io("start the thread", source))?;
        Ok(Arc::new(LsmStore {
            threads,
            namespaces,
            db,
            path: options.path,
        }))
    }

    /// Returns the store's handle, for its statistics and its upkeep.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the UUID of the store; the same each time it is opened.
    ///
    /// # Errors
    /// The process is a child of the one that opened the store.
    pub fn uuid(&self) -> Result<[u8; 16]> {
        Ok(uuid_of(self.db.store_id()?, NO_NAMESPACE))
    }

    /// Returns all namespaces, in the order of the options. They share the free space of the store's
    /// file system, so that it counts in the size of each. The bytes in use are those of tables,
    /// estimated; a namespace is named after its keyspaces.
    ///
    /// # Errors
    /// The store's tables or its file system cannot be read.
    pub fn namespaces(&self) -> Result<Vec<NamespaceInfo>> {
        let store = self.db.store_id()?;
        let status = rustix::fs::statvfs(&self.path)
            .map_err(|error| Error::io("look for free space", error.into()))?;
        let free_bytes = status.f_bavail.saturating_mul(status.f_frsize);
        let mut all = Vec::with_capacity(self.namespaces.len());
        for namespace in &self.namespaces {
            let settings = &namespace.settings;
            let used_bytes = namespace.used_bytes()?;
            all.push(NamespaceInfo {
                nsid: settings.nsid,
                kind: Kind::Keys,
                domain: settings.domain,
                name: format!("node-{}", settings.nsid),
                size_bytes: used_bytes.saturating_add(free_bytes),
                used_bytes,
                max_value_bytes: settings.max_value_bytes,
                max_keys: None,
                uuid: uuid_of(store, settings.nsid),
                nguid: nguid_of(store, settings.nsid),
            });
        }
        Ok(all)
    }

    pub(super) fn namespace(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        let mut all = self.namespaces.iter();
        all.find(|namespace| namespace.settings.nsid == nsid)
    }

    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }
}

fn check(options: &LsmOptions) -> Result<()> {
    let illegal = |what: String| Err(Error::InvalidArgument(what));
    if options.store.max_batch_bytes() < MIN_BATCH_BYTES {
        let what = "the store of a node needs batches of 4 MiB";
        return illegal(what.to_owned());
    }
    let mut numbers: Vec<u32> = options.namespaces.iter().map(|each| each.nsid).collect();
    numbers.sort_unstable();
    if numbers.windows(2).any(|two| two[0] == two[1]) {
        return illegal("two namespaces have one number".to_owned());
    }
    let mut namespaces = options.namespaces.iter();
    let is_legal = |bytes: u32| (1..=MAX_VALUE_BYTES).contains(&bytes);
    match namespaces.find(|each| !is_legal(each.max_value_bytes)) {
        Some(wrong) => illegal(format!(
            "namespace {}: the largest value is 1 byte to 256 MiB",
            wrong.nsid
        )),
        None => Ok(()),
    }
}
