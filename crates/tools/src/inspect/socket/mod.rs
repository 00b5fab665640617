//! The inspection socket: how the process that owns a store answers those who may not open it.
//!
//! The owner listens on a Unix socket in the store's directory. The file has mode 0600 from its first
//! moment, and each connection shows the user of its other end: that must be the owner's, or root. `protocol` says what a line holds, `address` where the socket is,
//! `server` who answers, `wire` how it reads and writes, `client` who asks, `administration` what is
//! asked to be done.
//!
//! The other end is not trusted: a request is one line of bounded length with a time limit, so is
//! the patience with a client that does not read, and so many connections are served at a time. All
//! of it happens in threads of the server's own; a writer or reader of the store waits for none of
//! them.

mod address;
mod administration;
mod client;
mod protocol;
mod server;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{
    Answers, checkpoint, compact, describe_compaction, drop_keyspace, events, explain_compaction,
    flush, levels, rename_keyspace, statistics,
};
pub use protocol::{Answer, EventLine, EventRequest, fuzz_request};
pub use server::{open, serve};
