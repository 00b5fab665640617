//! Terrace's storage node as a contestant: keys over the network, and a store on blocks over the network.
//!
//! The node serves in this process, in a thread of its own, on a loopback address; each command is one of
//! NVMe over TCP. So a run's processor time is that of host and node together, and a kill is one of both.
//!
//! - `served`: the node's file, and its server
//! - `clients`: connections of the host
//! - `keys`: a namespace of keys as a store
//! - `blocks`: a namespace of blocks, and Terrace's store on files in it

mod blocks;
mod clients;
mod keys;
mod served;
#[cfg(test)]
mod tests;

pub use blocks::ON_BLOCKS;
pub use keys::NODE;
pub use served::{Content, FILE_OPTION, NAMESPACE, Served, make_file};
