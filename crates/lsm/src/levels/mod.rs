//! Which tables make which sub-level of which level, and the manifest that remembers it.
//!
//! A keyspace has [`LEVELS`] levels, a level a list of sub-levels, a sub-level a list of tables
//! that do not overlap. A sub-level's *number* is a name; its *age* says where it stands: for each
//! key, every version in a younger sub-level (larger age) is newer than every version in an older
//! one. Ages decrease strictly from the first sub-level of level 0 to the last of the last level,
//! so a reader that goes from the top down meets the newest version first.
//!
//! Ages are chosen so that they never have to be renumbered. A flush into level 0 takes the next
//! age above [`FIRST_FLUSH_AGE`]. A merge that makes a sub-level of its own in the next level gives
//! it the age of its oldest input less one. So a sub-level of level `i` whose oldest flush had the
//! age `f` has the age `f - i`. Flushes stay in their order, and there is always room between the
//! oldest sub-level of a level and the youngest of the next. The *base* of level `i` is the one
//! sub-level that the leveled policy keeps there. It has the fixed age `64 - i`, below every flush
//! and the older the deeper. Nothing but [`Place`] and [`ManifestState::next_flush_place`] knows
//! this scheme: all other code compares ages.

mod age_rule;
mod current;
mod dump;
mod edit;
mod edit_coding;
mod fields;
mod filter_memory;
pub mod fuzz;
mod manifest;
mod mark;
mod moments;
mod number_limits;
mod record;
mod state;
mod sub_level_cursor;
mod table_meta;
mod tail;
#[cfg(any(test, feature = "internal"))]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]
pub mod testing;
mod tiers;
mod traffic;
mod version;

pub use tail::ManifestTail;

#[cfg(test)]
pub use age_rule::AgeViolation;
pub use age_rule::check_age_rule;
pub use dump::{DumpItem, ManifestDump};
pub use edit::{
    ArenaEnd, ArenaHome, ArenaIssued, CleanClose, Domain, Edit, Identity, KeyspaceCreated,
    KeyspaceFormed, KeyspaceRenamed, TableAdded, TableMoved, TableNarrowed, TableRemoved,
};
pub use filter_memory::FilterMemory;
pub use manifest::{
    Manifest, ManifestError, ManifestOptions, load, lock_current, manifest_file_name,
    manifest_number, manifests, read_file, remains, write_manifest,
};
pub use moments::{Moment, Moments};
pub use number_limits::MAX_NUMBER;
pub use state::{LiveArena, ManifestState};
pub use sub_level_cursor::SubLevelCursor;
pub use table_meta::{Bounds, KeyRange, ObsoleteTables, OpenTable, Table, TableMeta};
pub use tiers::{TableMigrated, TierRecord, TierUse};
pub use traffic::LevelTraffic;
pub use version::{KeyspaceLevels, Level, Place, StructureError, SubLevel, Version};

/// The name of the keyspace that every store has.
pub const DEFAULT_NAME: &str = "default";

/// The number of levels of every keyspace.
pub const LEVELS: usize = 7;

/// The age of the first flush; every age below belongs to a level under level 0.
pub const FIRST_FLUSH_AGE: u64 = 1 << 32;

/// The number of the first sub-level made by a flush; smaller numbers name the base sub-levels.
pub const FIRST_SUB_LEVEL_NUMBER: u64 = 64;
