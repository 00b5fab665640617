//! Looks into a store from outside. [`verify()`] checks all of its files and [`dump()`] shows one,
//! without changing them. [`statistics`], [`levels`], [`explain_compaction`],
//! [`describe_compaction`] and [`events`] ask the process that owns the store, if that called
//! [`serve`] or [`open`]. [`flush`], [`compact`] and [`checkpoint`] have it put the store in order,
//! [`rename_keyspace`] and [`drop_keyspace`] have it change its keyspaces.

mod dump;
mod prometheus;
mod socket;
mod verify;

pub use dump::{Dump, DumpItem, dump};
pub use prometheus::prometheus;
#[doc(hidden)]
pub use socket::fuzz_request;
pub use socket::{
    Answer, Answers, EventLine, EventRequest, checkpoint, compact, describe_compaction,
    drop_keyspace, events, explain_compaction, flush, levels, open, rename_keyspace, serve,
    statistics,
};
pub use terrace::{Problem, VerifyReport};
pub use verify::verify;
