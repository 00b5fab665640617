//! The stores that need no other library: Terrace in each configuration, one that does nothing, and a
//! map in memory.

mod map;
mod map_tables;
mod nothing;
pub mod terrace;

pub(crate) use map::MAP;
#[cfg(test)]
pub(crate) use map_tables::MapTables;
pub use nothing::NOTHING;
