//! The tiers of tables: pure functions of the levels, the tables and the tiers.
//!
//! The options of a keyspace name a rule. `levels` goes by the level alone, `age` by the youngest write of a
//! table, and `heat` by its reads. `auto` is `heat` where the costs choose the tiers of upper levels. A keyspace
//! may be kept to some tiers by all of them. Each rule gives the position of a tier; a tier without room passes a table on to
//! the next slower one, or to a faster one.

mod age;
pub mod auto;
pub mod heat;
mod levels;
mod migration;
mod pins;

use std::borrow::Cow;

pub use self::heat::HeatFloors;
pub use self::migration::{Migration, MigrationReason, next_migration};
pub use self::pins::{Positions, pinned_positions, pinned_tiers};
use crate::keyspace_options::{KeyspaceOptions, Placement};

/// A tier as placement sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierFacts {
    /// The tier's number.
    pub number: u8,
    /// The tier's name.
    pub name: String,
    /// Bytes that tables may take there; `None` without a limit.
    pub capacity_bytes: Option<u64>,
    /// Bytes that are left of that.
    pub room_bytes: u64,
    /// Whether new tables may go there.
    pub is_open: bool,
}

/// A table as placement sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableFacts {
    /// The table's number.
    pub number: u64,
    /// The level that it is in.
    pub level: u8,
    /// The tier that its file lies in.
    pub tier: u8,
    /// The bytes of its file.
    pub size_bytes: u64,
    /// The age of its youngest write.
    pub age_seconds: u64,
    /// Reads from its file in a second, of late.
    pub reads_per_second: f64,
    /// Whether it moved of late. Then only its reads move it again.
    pub has_moved: bool,
}

/// A new table, before it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewTable {
    /// The level that it goes to.
    pub level: u8,
    /// The age of its youngest write.
    pub age_seconds: u64,
    /// Reads that its keys had for each byte in a second, of late; `None` if that is unknown.
    pub reads_per_byte: Option<f64>,
}

impl NewTable {
    /// Returns a table of a level of which nothing else is known.
    pub const fn of_level(level: u8) -> NewTable {
        NewTable {
            level,
            age_seconds: 0,
            reads_per_byte: None,
        }
    }
}

/// A keyspace and its surroundings, as placement sees them.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The options of the keyspace.
    pub options: &'a KeyspaceOptions,
    /// The bytes in each level of the store.
    pub level_bytes: &'a [u64],
    /// The tiers from the fastest to the slowest.
    pub tiers: &'a [TierFacts],
    /// Bytes that tables of a drained tier may take, by the number of the tier that they go to: the room there with
    /// its reserve. A tier that is not listed has only its room.
    pub reserve_rooms: &'a [(u8, u64)],
    /// The reads that a table needs for its tier.
    pub floors: &'a HeatFloors,
    /// With the placement `Auto`, the names of the tiers of levels 0, 1, 2, ..., as the costs chose them; the
    /// last one holds for all deeper levels. Empty while none are chosen.
    pub chosen: &'a [String],
}

impl<'a> Surroundings<'a> {
    /// Returns the same for the tiers that the keyspace keeps to.
    fn kept_to(&self, tiers: &'a [TierFacts]) -> Surroundings<'a> {
        Surroundings { tiers, ..*self }
    }

    /// Returns the position of the tier that a new table is for.
    fn position(&self, table: NewTable) -> usize {
        let position = match self.options.placement {
            Placement::Levels => levels::position(self, table.level),
            Placement::Age => age::position(self, table.age_seconds),
            Placement::Heat | Placement::Auto => heat::position(self, table),
        };
        position.min(self.tiers.len().saturating_sub(1))
    }
}

/// Returns the tiers for a new table, the best first: the one that it is for, then slower ones, then faster
/// ones.
///
/// ```
/// use terrace_lsm::compaction::placement::{
///     HeatFloors, NewTable, Surroundings, TierFacts, tiers_for,
/// };
/// use terrace_lsm::keyspace_options::KeyspaceOptions;
/// let tier = |number, name: &str| TierFacts {
///     number,
///     name: name.to_owned(),
///     capacity_bytes: None,
///     room_bytes: 1 << 40,
///     is_open: true,
/// };
/// let options = KeyspaceOptions {
///     level_tiers: vec!["nvme".into(), "nvme".into(), "disk".into()],
///     ..KeyspaceOptions::default()
/// };
/// let surroundings = Surroundings {
///     options: &options,
///     level_bytes: &[],
///     tiers: &[tier(1, "nvme"), tier(2, "disk")],
///     reserve_rooms: &[],
///     floors: &HeatFloors::default(),
///     chosen: &[],
/// };
/// assert_eq!(tiers_for(&surroundings, NewTable::of_level(1)), [1, 2]);
/// assert_eq!(tiers_for(&surroundings, NewTable::of_level(5)), [2, 1]);
/// ```
pub fn tiers_for(surroundings: &Surroundings<'_>, table: NewTable) -> Vec<u8> {
    let tiers = pins::tiers_of(surroundings);
    let kept = surroundings.kept_to(&tiers);
    let first = kept.position(table);
    let slower = tiers.iter().skip(first);
    let faster = tiers.iter().take(first).rev();
    let open = slower.chain(faster).filter(|tier| tier.is_open);
    open.map(|tier| tier.number).collect()
}

/// Returns the sum of bytes.
fn total(bytes: impl IntoIterator<Item = u64>) -> u64 {
    bytes.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
