//! The stores that need no other library: Terrace in each configuration, and one that does nothing.

mod nothing;
pub mod terrace;

pub use nothing::NOTHING;
