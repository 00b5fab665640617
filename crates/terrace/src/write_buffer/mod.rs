//! New writes: batches become frames in an arena, an index in DRAM makes them findable.
//!
//! A [`MemTable`](memtable::MemTable) is one arena and its index. The arena's frames are the log:
//! there is no other, and no index is ever stored. After a crash, [`recovery`], a pure function,
//! judges the contents of the arenas.

pub(crate) mod arena_size;
pub(crate) mod batch;
pub(crate) mod bench;
pub(crate) mod cursor;
pub(crate) mod frame_check;
pub(crate) mod fuzz;
pub(crate) mod index;
pub(crate) mod memtable;
pub(crate) mod range_deletes;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod room;
pub(crate) mod slowdown;
