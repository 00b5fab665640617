//! The stores that need no other library: Terrace in each configuration, one that does nothing, and a
//! map in memory.

mod map;
mod nothing;
pub mod terrace;

pub(crate) use map::MAP;
pub use nothing::NOTHING;
