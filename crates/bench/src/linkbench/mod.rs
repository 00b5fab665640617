//! LinkBench: the load of a social graph on a database, as published with its tables, mix and distributions.
//!
//! The graph has nodes, and links of two types from one node to another. Four tables hold it: nodes, links,
//! the number of visible links of each node and type, and an index of the links by time. A request that
//! changes a link changes the number and the index with it, in one transaction. After each phase an audit
//! compares the tables with each other, and with the requests that were acknowledged.
//!
//! Source: T. Armstrong, V. Ponnekanti, D. Borthakur, M. Callaghan, "LinkBench: a database benchmark based
//! on the Facebook social graph", SIGMOD 2013, and its program's `FBWorkload.properties`. The links of a
//! node are drawn from the published cumulative shares; above 10,000 links they follow a power law that
//! gives the published mean. Unlike the program, a request's time is its number, so that every store gets
//! the same requests, and times of loaded links follow from their ids.

pub(crate) mod audit;
pub mod graph;
mod link_counts;
pub(crate) mod perform;
pub mod request;
pub mod rows;
pub(crate) mod stream;
#[cfg(test)]
mod tests;

pub use graph::Graph;
pub use request::Request;

/// Names of the tables, in the order of their numbers.
pub const TABLES: [&str; 4] = ["node", "link", "count", "index"];

/// Number of the table of nodes, by id.
pub const NODE: usize = 0;
/// Number of the table of links, by type and both ids.
pub const LINK: usize = 1;
/// Number of the table of counts, by id and type.
pub const COUNT: usize = 2;
/// Number of the index of links, by the first id, type, visibility and time.
pub const INDEX: usize = 3;

/// Nodes at full size.
pub const NODES: u64 = 10_000_000;
