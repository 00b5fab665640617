//! The tiers of a store: the directories that tables may lie in, and the space that they have there.
//!
//! A tier is known by its number. The manifest lists the tiers, each directory says in its file `TIER` which
//! one it is (`home.rs`), and an opening brings the two together (`finding.rs`). `space.rs` keeps the books
//! of each tier, `meters.rs` counts and times its operations, and `level_times.rs` times those on each level's
//! tables. `outlook.rs` is the store as placement sees it, `heat.rs` has the reads of tables of late, and `cost.rs` has the costs choose tiers. `destination.rs` asks the
//! placement for the tiers of new tables. `migration.rs` moves tables in the parts of `parts.rs`, and
//! `explanation.rs` says why each lies where it lies. `changes.rs` adds, drains and removes tiers. `cache/` keeps
//! blocks of slow tiers on a faster one.

pub mod cache;
pub(crate) mod changes;
mod cost;
pub(crate) mod destination;
pub(crate) mod explanation;
pub(crate) mod finding;
mod handle;
pub(crate) mod heat;
pub mod home;
pub(crate) mod level_times;
mod loss;
pub(crate) mod meters;
pub(crate) mod migration;
mod outlook;
mod parts;
pub(crate) mod report;
pub(crate) mod space;
