//! The next table that is to go to another tier.

use super::{NewTable, Surroundings, TableFacts, TierFacts, heat, levels, pins, tiers_for, total};
use crate::keyspace_options::Placement;

/// A table that is to go to another tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Migration {
    /// The table.
    pub table: TableFacts,
    /// The tier that it goes to.
    pub to: u8,
    /// The reason.
    pub why: MigrationReason,
}

/// The reason of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationReason {
    /// Its tier takes no files any more.
    Draining,
    /// Its keyspace keeps to other tiers.
    Pinned,
    /// Its keyspace names another tier for its level.
    LevelTier,
    /// A faster tier has room for its level.
    Room,
    /// The levels above need its room in the faster tier.
    LevelsAbove,
    /// Another tier is for tables of its age.
    Age,
    /// It is read more than tables of a faster tier.
    Hot,
    /// Tables of slower tiers are read more.
    Cold,
}

impl MigrationReason {
    /// Returns the reason in words.
    pub const fn name(self) -> &'static str {
        match self {
            MigrationReason::Draining => "its tier is drained",
            MigrationReason::Pinned => "its keyspace keeps to other tiers",
            MigrationReason::LevelTier => "its level has another tier",
            MigrationReason::Room => "a faster tier has room for its level",
            MigrationReason::LevelsAbove => "levels above need its room",
            MigrationReason::Age => "another tier is for its age",
            MigrationReason::Hot => "it is read more than tables of the faster tier",
            MigrationReason::Cold => "tables of slower tiers are read more",
        }
    }
}

/// Part of the bytes of the levels above that a tier keeps free before a table has to leave it. A table comes
/// only where all of these bytes stay free beside it, so the same table does not go to and fro.
const LEAVES_BELOW_PART: u64 = 4;

/// Returns the next table of a keyspace that is to go to another tier; `None` if all are in their places.
/// Tables of tiers that are drained go first, then those that make room, then all others. The deepest level
/// is the first to leave a fast tier, and the last to come; the coldest table leaves first, and the hottest
/// comes first.
pub fn next_migration(
    surroundings: &Surroundings<'_>,
    tables: impl Iterator<Item = TableFacts>,
) -> Option<Migration> {
    let tiers = pins::tiers_of(surroundings);
    let kept = surroundings.kept_to(&tiers);
    let tables: Vec<TableFacts> = tables.collect();
    let placement = surroundings.options.placement;
    let by_heat = placement.is_by_reads() && !surroundings.floors.is_empty();
    let hottest = by_heat.then(|| hottest_waiting(&kept, &tables)).flatten();
    let moves = tables.iter().filter_map(|table| {
        if let Some(leaving) = leaving(surroundings, &kept, table) {
            return leaving;
        }
        let migration = match placement {
            Placement::Age => by_age(&kept, table),
            _ if by_heat && heat::competes(table.level, kept.level_bytes) => {
                by_reads(&kept, table, hottest)
            }
            _ => by_level(&kept, table),
        };
        let by_its_reads = |why| matches!(why, MigrationReason::Hot | MigrationReason::Cold);
        migration.filter(|migration| !table.has_moved || by_its_reads(migration.why))
    });
    moves.min_by(|a, b| {
        a.rank()
            .cmp(&b.rank())
            .then(warmth(a).total_cmp(&warmth(b)))
            .then(a.table.number.cmp(&b.table.number))
    })
}

impl Migration {
    /// Returns the order of migrations, the most urgent first.
    pub fn rank(&self) -> (u8, u8) {
        let level = self.table.level;
        match self.why {
            MigrationReason::Draining => (0, level),
            MigrationReason::LevelsAbove => (1, u8::MAX - level),
            MigrationReason::Pinned => (2, level),
            MigrationReason::LevelTier | MigrationReason::Age => (3, level),
            MigrationReason::Hot => (4, 0),
            MigrationReason::Cold => (5, 0),
            MigrationReason::Room => (6, level),
        }
    }
}

/// Returns the order of tables that move for their reads: the coldest leaves and the hottest comes first.
fn warmth(migration: &Migration) -> f64 {
    let reads = heat::reads_per_byte(&migration.table);
    match migration.why {
        MigrationReason::Hot => -reads,
        MigrationReason::Cold => reads,
        _ => 0.0,
    }
}

/// Returns the migration of a table whose tier is not for its keyspace: `Some(None)` while no other has room.
fn leaving(
    all: &Surroundings<'_>,
    kept: &Surroundings<'_>,
    table: &TableFacts,
) -> Option<Option<Migration>> {
    let Some(present) = all.tiers.iter().find(|tier| tier.number == table.tier) else {
        return Some(None);
    };
    let is_kept = kept.tiers.iter().any(|tier| tier.number == table.tier);
    let why = match (present.is_open, is_kept) {
        (true, true) => return None,
        (false, _) => MigrationReason::Draining,
        (true, false) => MigrationReason::Pinned,
    };
    let order = tiers_for(all, described(table));
    let open = order.iter().filter_map(|number| {
        let mut tiers = kept.tiers.iter();
        tiers.find(|tier| tier.number == *number)
    });
    let first = open.clone().find(|tier| has_room(tier, table, 0));
    let first = first.or_else(|| {
        let mut open = open.filter(|_| why == MigrationReason::Draining);
        open.find(|tier| has_room_in_reserve(all, tier, table))
    });
    Some(first.and_then(|tier| to(table, tier, why)))
}

fn by_level(kept: &Surroundings<'_>, table: &TableFacts) -> Option<Migration> {
    let tiers = kept.tiers;
    if let Some(named) = levels::named_position(kept, table.level) {
        let named = tiers.get(named)?;
        return match has_room(named, table, 0) {
            true => to(table, named, MigrationReason::LevelTier),
            false => None,
        };
    }
    let at = tiers.iter().position(|tier| tier.number == table.tier)?;
    let present = tiers.get(at)?;
    let above_bytes = bytes_above(kept, table);
    let mut faster = tiers.iter().take(at);
    if let Some(faster) = faster.find(|tier| has_room(tier, table, above_bytes)) {
        return to(table, faster, MigrationReason::Room);
    }
    let is_tight = is_tight(present, above_bytes)
        && !levels::fits_whole(table.level, kept.level_bytes, tiers, at);
    let mut slower = tiers.iter().skip(at + 1);
    match slower.find(|tier| has_room(tier, table, 0)) {
        Some(slower) if is_tight => to(table, slower, MigrationReason::LevelsAbove),
        _ => None,
    }
}

fn by_age(kept: &Surroundings<'_>, table: &TableFacts) -> Option<Migration> {
    let wanted = kept.tiers.get(kept.position(described(table)))?;
    match has_room(wanted, table, 0) {
        true => to(table, wanted, MigrationReason::Age),
        false => None,
    }
}

/// Moves a table of a level that competes by its reads. A cold one leaves only where that is of use:
/// if one waits for room with `hottest` reads for each byte, or if the upper levels are short of it.
fn by_reads(
    kept: &Surroundings<'_>,
    table: &TableFacts,
    hottest: Option<f64>,
) -> Option<Migration> {
    let tiers = kept.tiers;
    let at = tiers.iter().position(|tier| tier.number == table.tier)?;
    let present = tiers.get(at)?;
    let above_bytes = heat::headroom_bytes(kept.level_bytes);
    let mut faster = tiers.iter().take(at);
    let rises = |tier: &&TierFacts| {
        heat::rises_to(kept.floors, tier.number, table) && has_room(tier, table, above_bytes)
    };
    if let Some(faster) = faster.find(rises) {
        return to(table, faster, MigrationReason::Hot);
    }
    let mut slower = tiers.iter().skip(at + 1);
    let slower = slower.find(|tier| has_room(tier, table, 0))?;
    let is_too_cold = heat::is_cold(kept.floors, table) && is_tight(present, above_bytes);
    if is_too_cold && !table.has_moved {
        return to(table, slower, MigrationReason::LevelsAbove);
    }
    match hottest.is_some_and(|hottest| heat::yields_to(kept.floors, hottest, table)) {
        true => to(table, slower, MigrationReason::Cold),
        false => None,
    }
}

/// Returns the reads for each byte of the hottest table that would go to a faster tier if that had room.
fn hottest_waiting(kept: &Surroundings<'_>, tables: &[TableFacts]) -> Option<f64> {
    let above_bytes = heat::headroom_bytes(kept.level_bytes);
    let waits = |table: &&TableFacts| {
        let mut faster = kept
            .tiers
            .iter()
            .take_while(|tier| tier.number != table.tier);
        heat::competes(table.level, kept.level_bytes)
            && faster.any(|tier| {
                let rises = heat::rises_to(kept.floors, tier.number, table);
                tier.is_open && rises && !has_room(tier, table, above_bytes)
            })
    };
    let waiting = tables.iter().filter(waits);
    waiting.map(heat::reads_per_byte).max_by(f64::total_cmp)
}

fn described(table: &TableFacts) -> NewTable {
    NewTable {
        level: table.level,
        age_seconds: table.age_seconds,
        reads_per_byte: Some(heat::reads_per_byte(table)),
    }
}

/// Returns the migration of a table; `None` if it is there.
fn to(table: &TableFacts, tier: &TierFacts, why: MigrationReason) -> Option<Migration> {
    (tier.number != table.tier).then_some(Migration {
        table: *table,
        to: tier.number,
        why,
    })
}

fn has_room(tier: &TierFacts, table: &TableFacts, beside_bytes: u64) -> bool {
    tier.is_open && tier.room_bytes >= table.size_bytes.saturating_add(beside_bytes)
}

/// Returns whether a table of a drained tier has room with the reserve of another.
fn has_room_in_reserve(all: &Surroundings<'_>, tier: &TierFacts, table: &TableFacts) -> bool {
    let mut rooms = all.reserve_rooms.iter();
    let room = rooms.find(|(number, _)| *number == tier.number);
    tier.is_open && room.is_some_and(|(_, room_bytes)| *room_bytes >= table.size_bytes)
}

fn is_tight(tier: &TierFacts, above_bytes: u64) -> bool {
    tier.capacity_bytes.is_some() && tier.room_bytes < above_bytes / LEAVES_BELOW_PART
}

fn bytes_above(kept: &Surroundings<'_>, table: &TableFacts) -> u64 {
    let above = kept.level_bytes.iter().take(usize::from(table.level));
    total(above.copied())
}
