//! The tier of a new table: pure functions of the levels and the tiers.
//!
//! A keyspace may name a tier for each level. Where it does not, levels go to the fastest tier whose capacity
//! takes them with all levels above. The level that takes only in part fills the rest, beside room for the
//! levels above to be written once more.

use crate::keyspace_options::KeyspaceOptions;

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

/// Returns the tiers for a table of a level, the best first: the one that the level is for, then slower ones,
/// then faster ones. `level_bytes` are the bytes in each level of the store, `tiers` go from the fastest to the
/// slowest.
///
/// ```
/// use terrace_lsm::compaction::placement::{TierFacts, tiers_for};
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
/// let tiers = [tier(1, "nvme"), tier(2, "disk")];
/// assert_eq!(tiers_for(&options, 1, &[], &tiers), [1, 2]);
/// assert_eq!(tiers_for(&options, 5, &[], &tiers), [2, 1]);
/// ```
pub fn tiers_for(
    options: &KeyspaceOptions,
    level: u8,
    level_bytes: &[u64],
    tiers: &[TierFacts],
) -> Vec<u8> {
    let named = options.tier_of(usize::from(level));
    let named = named.and_then(|name| tiers.iter().position(|tier| tier.name == name));
    let first = named.unwrap_or_else(|| by_capacity(level, level_bytes, tiers));
    let slower = tiers.iter().skip(first);
    let faster = tiers.iter().take(first).rev();
    let open = slower.chain(faster).filter(|tier| tier.is_open);
    open.map(|tier| tier.number).collect()
}

/// Returns the position of the tier that a level goes to by the capacities alone.
fn by_capacity(level: u8, level_bytes: &[u64], tiers: &[TierFacts]) -> usize {
    let bytes = |levels: &[u64]| {
        levels
            .iter()
            .fold(0u64, |sum, &bytes| sum.saturating_add(bytes))
    };
    let level = usize::from(level).min(level_bytes.len());
    let (above, own) = level_bytes.split_at(level);
    let above_bytes = bytes(above);
    let own_bytes = own.first().copied().unwrap_or(0);
    let mut faster_bytes = 0u64;
    for (at, tier) in tiers.iter().enumerate() {
        if !tier.is_open {
            continue;
        }
        let Some(capacity_bytes) = tier.capacity_bytes else {
            return at;
        };
        let takes_bytes = faster_bytes.saturating_add(capacity_bytes);
        let takes_all = above_bytes.saturating_add(own_bytes) <= takes_bytes;
        let takes_a_part = above_bytes < takes_bytes && tier.room_bytes > above_bytes;
        if takes_all || takes_a_part {
            return at;
        }
        faster_bytes = takes_bytes;
    }
    tiers.len().saturating_sub(1)
}

/// A table as placement sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFacts {
    /// The table's number.
    pub number: u64,
    /// The level that it is in.
    pub level: u8,
    /// The tier that its file lies in.
    pub tier: u8,
    /// The bytes of its file.
    pub size_bytes: u64,
}

/// A table that is to go to another tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Its keyspace names another tier for its level.
    LevelTier,
    /// A faster tier has room for its level.
    Room,
    /// The levels above need its room in the faster tier.
    LevelsAbove,
}

impl MigrationReason {
    /// Returns the reason in words.
    pub const fn name(self) -> &'static str {
        match self {
            MigrationReason::Draining => "its tier is drained",
            MigrationReason::LevelTier => "its level has another tier",
            MigrationReason::Room => "a faster tier has room for its level",
            MigrationReason::LevelsAbove => "levels above need its room",
        }
    }
}

/// Part of the bytes of the levels above that a tier keeps free before a table has to leave it. A table comes
/// only where all of these bytes stay free beside it, so the same table does not go to and fro.
const LEAVES_BELOW_PART: u64 = 4;

/// Returns the next table of a keyspace that is to go to another tier; `None` if all are in their places.
/// Tables of tiers that are drained go first, then those that make room, then those of named tiers. The deepest
/// level is the first to leave a fast tier, and the last to come.
pub fn next_migration(
    options: &KeyspaceOptions,
    level_bytes: &[u64],
    tiers: &[TierFacts],
    tables: impl Iterator<Item = TableFacts>,
) -> Option<Migration> {
    let moves = tables.filter_map(|table| migration_of(options, level_bytes, tiers, table));
    moves.min_by_key(|migration| {
        let level = u64::from(migration.table.level);
        let rank = match migration.why {
            MigrationReason::Draining => (0, level),
            MigrationReason::LevelsAbove => (1, u64::from(u8::MAX) - level),
            MigrationReason::LevelTier => (2, level),
            MigrationReason::Room => (3, level),
        };
        (rank, migration.table.number)
    })
}

fn migration_of(
    options: &KeyspaceOptions,
    level_bytes: &[u64],
    tiers: &[TierFacts],
    table: TableFacts,
) -> Option<Migration> {
    let at = tiers.iter().position(|tier| tier.number == table.tier)?;
    let present = tiers.get(at)?;
    let to = |to: u8, why| Some(Migration { table, to, why });
    let has_room = |tier: &&TierFacts, beside_bytes: u64| {
        tier.is_open && tier.room_bytes >= table.size_bytes.saturating_add(beside_bytes)
    };
    if !present.is_open {
        let order = tiers_for(options, table.level, level_bytes, tiers);
        let mut open = order.iter().filter_map(|number| {
            let mut tiers = tiers.iter();
            tiers.find(|tier| tier.number == *number)
        });
        let first = open.find(|tier| has_room(tier, 0))?;
        return to(first.number, MigrationReason::Draining);
    }
    let level = usize::from(table.level);
    let named = options.tier_of(level);
    let named = named.and_then(|name| tiers.iter().find(|tier| tier.name == name));
    if let Some(named) = named {
        return match named.number != table.tier && has_room(&named, 0) {
            true => to(named.number, MigrationReason::LevelTier),
            false => None,
        };
    }
    let above = level_bytes.iter().take(level);
    let above_bytes = above.fold(0u64, |sum, &bytes| sum.saturating_add(bytes));
    let mut faster = tiers.iter().take(at);
    if let Some(faster) = faster.find(|tier| has_room(tier, above_bytes)) {
        return to(faster.number, MigrationReason::Room);
    }
    let is_tight = present.capacity_bytes.is_some()
        && present.room_bytes < above_bytes / LEAVES_BELOW_PART
        && !fits_whole(level, level_bytes, tiers, at);
    let mut slower = tiers.iter().skip(at + 1);
    match slower.find(|tier| has_room(tier, 0)) {
        Some(slower) if is_tight => to(slower.number, MigrationReason::LevelsAbove),
        _ => None,
    }
}

/// Returns whether a level and all above fit into the tiers up to a position.
fn fits_whole(level: usize, level_bytes: &[u64], tiers: &[TierFacts], at: usize) -> bool {
    let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0u64, u64::saturating_add);
    let bytes = sum(&mut level_bytes.iter().take(level + 1).copied());
    let capacities = tiers.iter().take(at + 1).filter(|tier| tier.is_open);
    let capacity = sum(&mut capacities.map(|tier| tier.capacity_bytes.unwrap_or(u64::MAX)));
    bytes <= capacity
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(number: u8, capacity_bytes: Option<u64>, room_bytes: u64) -> TierFacts {
        TierFacts {
            number,
            name: format!("t{number}"),
            capacity_bytes,
            room_bytes,
            is_open: true,
        }
    }

    fn by_default(level: u8, level_bytes: &[u64], tiers: &[TierFacts]) -> Vec<u8> {
        tiers_for(&KeyspaceOptions::default(), level, level_bytes, tiers)
    }

    #[test]
    fn levels_fill_the_fast_tiers_from_the_top() {
        let tiers = [
            tier(1, Some(100), 90),
            tier(2, Some(1000), 900),
            tier(3, None, 9000),
        ];
        let levels = [10, 50, 500, 5000];
        assert_eq!(by_default(0, &levels, &tiers), [1, 2, 3]);
        assert_eq!(by_default(1, &levels, &tiers), [1, 2, 3]);
        assert_eq!(by_default(2, &levels, &tiers), [1, 2, 3], "a part of it");
        assert_eq!(by_default(3, &levels, &tiers), [2, 3, 1], "a part of it");
        // The first tier keeps room for another copy of levels 0 and 1.
        let full = [
            tier(1, Some(100), 60),
            tier(2, Some(1000), 500),
            tier(3, None, 9000),
        ];
        assert_eq!(by_default(2, &levels, &full), [2, 3, 1]);
        assert_eq!(by_default(3, &levels, &full), [3, 2, 1]);
        assert_eq!(
            by_default(6, &levels, &full),
            [3, 2, 1],
            "a level without tables"
        );
    }

    #[test]
    fn a_level_that_asks_for_a_tier_gets_it_before_the_others() {
        let options = KeyspaceOptions {
            level_tiers: vec!["t2".into(), "t3".into(), "gone".into()],
            ..KeyspaceOptions::default()
        };
        let tiers = [
            tier(1, Some(100), 90),
            tier(2, None, 900),
            tier(3, None, 9000),
        ];
        let of = |level| tiers_for(&options, level, &[5, 5, 5], &tiers);
        assert_eq!(of(0), [2, 3, 1]);
        assert_eq!(of(1), [3, 2, 1]);
        assert_eq!(of(2), [1, 2, 3], "a name that no tier has is none");
    }

    #[test]
    fn a_tier_that_is_not_open_gets_nothing() {
        let mut tiers = [tier(1, None, 90), tier(2, None, 900)];
        tiers[0].is_open = false;
        assert_eq!(by_default(0, &[1], &tiers), [2]);
        tiers[1].is_open = false;
        assert_eq!(by_default(0, &[1], &tiers), [0u8; 0]);
        assert_eq!(by_default(0, &[1], &[]), [0u8; 0]);
    }

    fn table(number: u64, level: u8, tier: u8, size_bytes: u64) -> TableFacts {
        TableFacts {
            number,
            level,
            tier,
            size_bytes,
        }
    }

    /// Returns the number, the tier and the reason of the next migration.
    fn next(
        options: &KeyspaceOptions,
        tiers: &[TierFacts],
        tables: &[TableFacts],
    ) -> Option<(u64, u8, MigrationReason)> {
        let mut level_bytes = [0; 7];
        for table in tables {
            level_bytes[usize::from(table.level)] += table.size_bytes;
        }
        let migration = next_migration(options, &level_bytes, tiers, tables.iter().copied())?;
        Some((migration.table.number, migration.to, migration.why))
    }

    #[test]
    fn tables_leave_a_tier_that_is_drained_first_of_all() {
        let options = KeyspaceOptions::default();
        let mut tiers = [tier(1, Some(100), 100), tier(2, None, 900)];
        tiers[1].is_open = false;
        let tables = [table(1, 3, 2, 70), table(2, 0, 2, 10)];
        assert_eq!(
            next(&options, &tiers, &tables),
            Some((2, 1, MigrationReason::Draining))
        );
        // Without room they wait.
        tiers[0].room_bytes = 9;
        assert_eq!(next(&options, &tiers, &tables), None);
    }

    #[test]
    fn tables_go_to_the_tier_that_their_level_names() {
        let options = KeyspaceOptions {
            level_tiers: vec!["t1".into(), "t2".into()],
            ..KeyspaceOptions::default()
        };
        let tiers = [tier(1, None, 900), tier(2, None, 900)];
        let tables = [table(1, 0, 1, 10), table(2, 1, 1, 10), table(3, 4, 2, 10)];
        assert_eq!(
            next(&options, &tiers, &tables),
            Some((2, 2, MigrationReason::LevelTier))
        );
        let placed = [table(1, 0, 1, 10), table(2, 1, 2, 10), table(3, 4, 2, 10)];
        assert_eq!(next(&options, &tiers, &placed), None);
    }

    #[test]
    fn a_fast_tier_is_filled_and_keeps_room_for_the_levels_above() {
        let options = KeyspaceOptions::default();
        let upper = table(1, 1, 1, 40);
        let deep = |number, tier| table(number, 3, tier, 20);
        // 100 bytes, 40 of them taken by level 1, which needs another 40 to be written again.
        let with_room = |room| [tier(1, Some(100), room), tier(2, None, 9000)];
        let tables = [upper, deep(2, 2), deep(3, 2), deep(4, 2), deep(5, 2)];
        assert_eq!(
            next(&options, &with_room(60), &tables),
            Some((2, 1, MigrationReason::Room))
        );
        let tables = [upper, deep(2, 1), deep(3, 2), deep(4, 2), deep(5, 2)];
        assert_eq!(next(&options, &with_room(40), &tables), None);
        // Level 1 has grown: a table of level 3 makes room, and does not come back at once.
        assert_eq!(
            next(&options, &with_room(9), &tables),
            Some((2, 2, MigrationReason::LevelsAbove))
        );
        assert_eq!(next(&options, &with_room(29), &tables), None);
    }
}
