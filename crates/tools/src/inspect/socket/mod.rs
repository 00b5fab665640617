//! The inspection socket: the owner of a store answers processes that may not open the store.
//!
//! The owner listens on a Unix socket in the store's directory. The file has mode 0600 from its
//! first moment. Each connection shows the user of its other end: that must be the owner's, or
//! root. `protocol` has the lines, `address` the place of the socket, `server` the owner's end, and
//! `wire` its reads and writes. `client` has the other end, and `administration` the requests that
//! the owner carries out.
//!
//! The owner does not trust the other end. A request is one line of bounded length with a time
//! limit. A client that does not read is cut off after a time limit, too. The number of connections
//! is bounded. All of it happens in threads of the server's own; writers and readers of the store
//! wait for none of them.

mod address;
mod administration;
mod client;
mod protocol;
mod server;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{
    Answers, add_tier, checkpoint, compact, describe_compaction, drain_tier, drop_keyspace, events,
    explain_compaction, flush, levels, placed_tables, remove_tier, rename_keyspace, statistics,
};
pub use protocol::{Answer, EventLine, EventRequest, fuzz_request};
pub use server::{open, serve};
