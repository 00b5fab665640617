//! Looks into a store from outside. [`verify()`] checks all of its files and [`dump()`] shows one,
//! without changing them. [`statistics`], [`levels`], [`explain_compaction`],
//! [`describe_compaction`], [`placed_tables`] and [`events`] ask the process that owns the store, if
//! that called [`serve`] or [`open`]. [`flush`], [`compact`] and [`checkpoint`] have it put the store
//! in order. [`rename_keyspace`] and [`drop_keyspace`] have it change its keyspaces; [`add_tier`],
//! [`drain_tier`] and [`remove_tier`] its tiers.

mod dump;
mod prometheus;
mod socket;
pub mod tiers;
mod verify;

pub use dump::{Dump, DumpItem, dump};
pub use prometheus::prometheus;
#[doc(hidden)]
pub use socket::fuzz_request;
pub use socket::{
    Answer, Answers, EventLine, EventRequest, add_tier, checkpoint, compact, describe_compaction,
    drain_tier, drop_keyspace, events, explain_compaction, flush, levels, open, placed_tables,
    remove_tier, rename_keyspace, serve, statistics,
};
pub use terrace::{Problem, VerifyReport};
pub use verify::verify;
