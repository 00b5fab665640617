//! The tiers of a store: the directories that tables may lie in, and the space that they have there.
//!
//! A tier is known by its number. The manifest lists the tiers, each directory says in its file `TIER` which
//! one it is (`home.rs`), and an opening brings the two together (`finding.rs`). `space.rs` keeps the books
//! of each tier, `destination.rs` asks the placement for the tiers of new tables. `migration.rs` moves
//! tables, `changes.rs` adds, drains and removes tiers.

pub(crate) mod changes;
pub(crate) mod destination;
pub(crate) mod finding;
mod handle;
pub mod home;
mod loss;
pub(crate) mod migration;
pub(crate) mod report;
pub(crate) mod space;
