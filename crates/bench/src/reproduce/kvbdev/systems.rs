//! The systems, and the part of each.

use crate::contest::Program;
use crate::node::{NODE, ON_BLOCKS};

/// A system of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// The contestant.
    pub name: &'static str,
    /// Description in words.
    pub about: &'static str,
    /// Whether it goes over the network. One that does not is an upper bound of its store.
    pub has_network: bool,
}

/// A store of its own on the storage node, as the paper's.
pub const KEYS: System = System {
    name: NODE.name,
    about: "the storage node's keys, over NVMe/TCP",
    has_network: true,
};
/// The peer of the paper: an LSM tree on the host, its files on blocks of the storage node.
pub const BLOCKS: System = System {
    name: ON_BLOCKS.name,
    about: "Terrace on the host, its files on the storage node's blocks, over NVMe/TCP",
    has_network: true,
};
/// The same store without the network.
pub const DIRECT: System = System {
    name: "terrace",
    about: "Terrace on the file system that holds the node's file: an upper bound, without network",
    has_network: false,
};
/// The paper's baseline without the network.
pub const ROCKSDB: System = System {
    name: "rocksdb",
    about: "RocksDB on the file system that holds the node's file: an upper bound, without network",
    has_network: false,
};

/// Systems in the order of the report.
const ALL: [System; 4] = [KEYS, BLOCKS, DIRECT, ROCKSDB];

/// Contestants that only this reproduction knows.
pub const CONTESTANTS: [crate::store::Contestant; 2] = [NODE, ON_BLOCKS];

/// Returns the systems whose store the program has.
pub fn known(program: &Program) -> Vec<System> {
    let is_there = |system: &System| {
        let mut known = program.contestants.iter();
        known.any(|contestant| contestant.name == system.name)
    };
    ALL.into_iter().filter(is_there).collect()
}

/// Returns the system of a contestant.
pub fn named(name: &str) -> Option<System> {
    ALL.into_iter().find(|system| system.name == name)
}
