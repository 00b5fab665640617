//! An opened node, whichever engine it has.

use std::sync::Arc;

use terrace_node::engine::{Engine, NamespaceInfo, Node, Statistics, Worker};
use terrace_node::lsm::{LsmEngine, LsmOptions, LsmStore};

use crate::config::{Config, NamespaceOptions};
use crate::error::{Error, Result};

/// The questions of a server to an opened node. Commands do not come this way.
pub trait Opened: Send + Sync {
    /// Returns the name of the engine.
    fn engine(&self) -> &'static str;

    /// Returns the node's UUID, the same each time it is opened.
    ///
    /// # Errors
    /// The node cannot tell it.
    fn uuid(&self) -> Result<[u8; 16]>;

    /// Returns all namespaces.
    ///
    /// # Errors
    /// The node cannot read the space in use.
    fn namespaces(&self) -> Result<Vec<NamespaceInfo>>;

    /// Returns the counters of a namespace of keys, as far as the engine has any.
    fn statistics(&self, nsid: u32) -> Option<Statistics>;

    /// Returns the bytes in use of a namespace, as Identify tells them.
    fn used_bytes(&self, nsid: u32) -> u64;

    /// Returns the cause if the node refuses changes until it is opened again.
    fn refusal(&self) -> Option<String>;

    /// Returns metrics of the engine itself in the text format of Prometheus; empty if it has none.
    fn metrics(&self) -> String {
        String::new()
    }

    /// Ends the node, when no loop has it any more.
    ///
    /// # Errors
    /// Written changes cannot be made durable.
    fn close(&self) -> Result<()>;
}

impl Opened for Node {
    fn engine(&self) -> &'static str {
        "hash"
    }

    fn uuid(&self) -> Result<[u8; 16]> {
        Ok(self.superblock.uuid)
    }

    fn namespaces(&self) -> Result<Vec<NamespaceInfo>> {
        Ok(Node::namespaces(self))
    }

    fn statistics(&self, nsid: u32) -> Option<Statistics> {
        Node::statistics(self, nsid)
    }

    fn used_bytes(&self, nsid: u32) -> u64 {
        let statistics = Node::statistics(self, nsid);
        statistics.map_or(0, |statistics| statistics.value_bytes)
    }

    fn refusal(&self) -> Option<String> {
        Node::refusal(self)
    }

    fn close(&self) -> Result<()> {
        // Each loop has ended its part in order.
        Ok(())
    }
}

impl Opened for LsmStore {
    fn engine(&self) -> &'static str {
        "lsm"
    }

    fn uuid(&self) -> Result<[u8; 16]> {
        Ok(LsmStore::uuid(self)?)
    }

    fn namespaces(&self) -> Result<Vec<NamespaceInfo>> {
        Ok(LsmStore::namespaces(self)?)
    }

    fn statistics(&self, _: u32) -> Option<Statistics> {
        None
    }

    fn used_bytes(&self, nsid: u32) -> u64 {
        let all = LsmStore::namespaces(self).unwrap_or_default();
        let mut all = all.iter();
        let found = all.find(|namespace| namespace.nsid == nsid);
        found.map_or(0, |namespace| namespace.used_bytes)
    }

    fn refusal(&self) -> Option<String> {
        let poisoned = self.db().statistics().poisoned;
        poisoned.map(|cause| cause.to_string())
    }

    fn metrics(&self) -> String {
        terrace_tools::inspect::prometheus(&self.db().statistics())
    }

    fn close(&self) -> Result<()> {
        Ok(self.db().close().map_err(terrace_node::Error::from)?)
    }
}

/// An engine as one loop has it.
pub(crate) trait LoopEngine: Engine + 'static {
    /// Ends the loop's part in order.
    fn end(self) -> Result<()>;
}

impl LoopEngine for Worker {
    fn end(self) -> Result<()> {
        Ok(self.close()?)
    }
}

impl LoopEngine for LsmEngine {
    fn end(self) -> Result<()> {
        Ok(())
    }
}

/// Opens the store that the options name.
pub(crate) fn open_store(config: &Config) -> Result<Arc<LsmStore>> {
    let only = [NamespaceOptions::new(1)];
    let namespaces = match config.namespaces.is_empty() {
        true => &only[..],
        false => &config.namespaces,
    };
    let namespaces = namespaces.iter().map(NamespaceOptions::to_engine).collect();
    let path = config.store.clone().unwrap_or_default();
    let mut options = LsmOptions::new(path, namespaces);
    options.write_threads = config.write_threads;
    options.read_threads = config.read_threads;
    if let Some(file) = &config.store_options {
        let refused = |what: String| Error::File {
            path: file.clone(),
            what,
        };
        let text = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
        let store = terrace_node::lsm::store_options(&text);
        options.store = store.map_err(|error| refused(error.to_string()))?;
    }
    Ok(LsmStore::open(options)?)
}
