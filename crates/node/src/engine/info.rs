//! The namespaces that a node announces.

use crate::format::namespace::{Domain, Kind};

/// A namespace, as a host hears of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Number of the namespace.
    pub nsid: u32,
    /// Keys or blocks.
    pub kind: Kind,
    /// The failures that an acknowledged change survives.
    pub domain: Domain,
    /// Name of 1 to 32 bytes.
    pub name: String,
    /// Bytes that values, or blocks, may take.
    pub size_bytes: u64,
    /// Bytes that they take now; all of them in a namespace of blocks.
    pub used_bytes: u64,
    /// The largest value, in bytes; 0 in a namespace of blocks.
    pub max_value_bytes: u32,
    /// The most keys; none if space alone limits them, or in a namespace of blocks.
    pub max_keys: Option<u64>,
    /// UUID; the same each time the node is opened.
    pub uuid: [u8; 16],
    /// Globally unique identifier; the same each time the node is opened.
    pub nguid: [u8; 16],
}
