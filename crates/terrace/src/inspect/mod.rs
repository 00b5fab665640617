//! Looking into a store from outside. [`verify()`] checks all of its files and [`dump()`] shows one,
//! without changing them; [`statistics`], [`levels`], [`explain_compaction`], [`describe_compaction`] and
//! [`events`] ask the process that owns the store, if it was opened with [`Options::inspect`](crate::Options::inspect), and [`flush`],
//! [`compact`] and [`checkpoint`] have it put the store in order, [`rename_keyspace`] and [`drop_keyspace`]
//! have it change its keyspaces.

mod dump;
mod open;
mod prometheus;
pub(crate) mod socket;

pub use crate::db::verify::{Problem, VerifyReport, verify};
pub use dump::{Dump, DumpItem, dump};
pub use socket::{
    Answer, Answers, EventLine, EventRequest, checkpoint, compact, describe_compaction,
    drop_keyspace, events, explain_compaction, flush, levels, rename_keyspace, statistics,
};
