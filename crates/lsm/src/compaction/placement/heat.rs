//! Placement by reads: tables with the most reads for each byte lie in the fastest tier.
//!
//! The upper levels are small, are read by every lookup, and are soon written again, so they fill the fast
//! tiers from the top. The tables below compete for the rest. Each tier has a *floor*: the reads for each byte of
//! the coldest bytes that still fit there, if the hottest come first. A table below the floor leaves only for
//! one that is read well more, so two tables that are about as hot do not change places.

mod cuts;

pub use self::cuts::{HeatCut, cuts, gain_of_cuts};
use super::pins::Positions;
use super::{NewTable, Surroundings, TableFacts, TierFacts, levels, total};

/// Factor between the reads of two tables before they change places.
const HYSTERESIS: f64 = 1.5;
/// Part of all bytes that the upper levels have at most, all together. With a ratio of ten these are all but the last
/// two: the last but one has a tenth of the bytes, and seldom as much of the reads.
const UPPER_PART: u64 = 16;

/// Bytes of neighbouring keys with their reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heat {
    /// Bytes in the file of a table.
    pub bytes: u64,
    /// Reads from the file in a second.
    pub reads_per_second: f64,
    /// The tiers that its keyspace may go to, as [`tiers_of`](super::pinned_positions) returns them.
    pub positions: Positions,
}

impl Heat {
    /// Returns the reads for each byte; 0 of no bytes.
    pub fn reads_per_byte(&self) -> f64 {
        match self.bytes {
            0 => 0.0,
            bytes => self.reads_per_second / bytes as f64,
        }
    }
}

/// The reads for each byte in a second that each tier asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatFloors {
    /// By the number of the tier; the hottest tier first.
    floors: Vec<(u8, f64)>,
}

/// A tier to be filled with the hottest parts.
struct Filling {
    left_bytes: u64,
    floor: f64,
    is_full: bool,
}

impl Filling {
    /// Takes a part, unless it does not fit. One that is too large by itself keeps no smaller one out.
    fn takes(&mut self, part: &Heat) -> bool {
        let fits = part.bytes <= self.left_bytes;
        if self.is_full || !fits {
            self.is_full |= self.floor.is_finite();
            return false;
        }
        self.left_bytes -= part.bytes;
        // Parts that nobody reads make no floor of 0, which is for a tier that takes all.
        self.floor = part.reads_per_byte().max(f64::MIN_POSITIVE);
        true
    }
}

impl HeatFloors {
    /// Returns the floors of tiers, from the fastest to the slowest, each with the bytes that parts may take
    /// there; `None` without a limit. Empty if nothing was read.
    pub fn of(mut parts: Vec<Heat>, tiers: &[(u8, Option<u64>)]) -> HeatFloors {
        if parts.iter().all(|part| part.reads_per_second <= 0.0) {
            return HeatFloors::default();
        }
        parts.sort_by(|a, b| b.reads_per_byte().total_cmp(&a.reads_per_byte()));
        let floors = tiers.iter().enumerate().map(|(at, &(tier, room_bytes))| {
            let mut filling = Filling {
                left_bytes: room_bytes.unwrap_or(u64::MAX),
                floor: f64::INFINITY,
                is_full: false,
            };
            let mut takes_all = true;
            parts.retain(|part| {
                let goes_on = !part.positions.contains(at) || !filling.takes(part);
                takes_all &= !goes_on || !part.positions.contains(at);
                goes_on
            });
            (tier, if takes_all { 0.0 } else { filling.floor })
        });
        HeatFloors {
            floors: floors.collect(),
        }
    }

    /// Returns the floors, those of tiers that do not take all at least `least`.
    pub fn at_least(mut self, least: f64) -> HeatFloors {
        for (_, floor) in &mut self.floors {
            *floor = if *floor > 0.0 { floor.max(least) } else { 0.0 };
        }
        self
    }

    /// Returns whether no table is known to be read.
    pub fn is_empty(&self) -> bool {
        self.floors.is_empty()
    }

    /// Returns the reads for each byte that a tier asks for. One that came after the last look asks for more
    /// than any table has, until the next.
    pub fn of_tier(&self, tier: u8) -> f64 {
        let mut floors = self.floors.iter();
        let found = floors.find(|(number, _)| *number == tier);
        found.map_or(f64::INFINITY, |(_, floor)| *floor)
    }

    /// Returns the position of the fastest tier that takes a table with these reads for each byte.
    pub fn position(&self, reads_per_byte: f64, tiers: &[TierFacts]) -> usize {
        let mut tiers_with = tiers.iter();
        let takes = |tier: &TierFacts| tier.is_open && reads_per_byte >= self.of_tier(tier.number);
        let found = tiers_with.position(takes);
        found.unwrap_or(tiers.len().saturating_sub(1))
    }
}

/// Returns the position of the tier that a new table is for.
pub(super) fn position(surroundings: &Surroundings<'_>, table: NewTable) -> usize {
    let Surroundings {
        level_bytes,
        tiers,
        floors,
        ..
    } = *surroundings;
    match table.reads_per_byte {
        Some(reads) if competes(table.level, level_bytes) && !floors.is_empty() => {
            floors.position(reads, tiers)
        }
        _ => levels::position(surroundings, table.level),
    }
}

/// Returns whether tables of a level have to be read to lie in a fast tier.
pub fn competes(level: u8, level_bytes: &[u64]) -> bool {
    let all_bytes = total(level_bytes.iter().copied());
    let down_to = total(level_bytes.iter().take(usize::from(level) + 1).copied());
    down_to > all_bytes / UPPER_PART
}

/// Returns the bytes that a fast tier keeps free for the upper levels to be written once more. An output without room
/// goes to a slower tier, and every lookup asks it there.
pub fn headroom_bytes(level_bytes: &[u64]) -> u64 {
    upper_bytes(level_bytes)
}

/// Returns the bytes of the levels that do not compete.
fn upper_bytes(level_bytes: &[u64]) -> u64 {
    let upper = (0u8..).zip(level_bytes);
    let upper = upper.take_while(|(level, _)| !competes(*level, level_bytes));
    total(upper.map(|(_, bytes)| *bytes))
}

/// Returns whether a table is hot enough for a faster tier, where there is room.
pub(super) fn rises_to(floors: &HeatFloors, tier: u8, table: &TableFacts) -> bool {
    reads_per_byte(table) >= floors.of_tier(tier)
}

/// Returns whether a table makes room for one that waits with `hottest` reads for each byte.
pub(super) fn yields_to(floors: &HeatFloors, hottest: f64, table: &TableFacts) -> bool {
    let reads = reads_per_byte(table);
    reads < floors.of_tier(table.tier) && hottest >= reads * HYSTERESIS
}

/// Returns whether a table is so cold that it leaves its tier to the upper levels.
pub(super) fn is_cold(floors: &HeatFloors, table: &TableFacts) -> bool {
    reads_per_byte(table) < floors.of_tier(table.tier) / HYSTERESIS
}

/// Returns the reads for each byte of a table.
pub(super) fn reads_per_byte(table: &TableFacts) -> f64 {
    match table.size_bytes {
        0 => 0.0,
        bytes => table.reads_per_second / bytes as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[(u64, f64)]) -> Vec<Heat> {
        let part = |&(bytes, reads_per_second)| Heat {
            bytes,
            reads_per_second,
            positions: Positions::ALL,
        };
        list.iter().map(part).collect()
    }

    #[test]
    fn the_hottest_bytes_fill_the_fastest_tier() {
        let list = parts(&[(100, 10.0), (100, 1000.0), (100, 100.0), (100, 1.0)]);
        let floors = HeatFloors::of(list.clone(), &[(1, Some(250)), (2, Some(100)), (3, None)]);
        assert_eq!(
            [1, 2, 3].map(|tier| floors.of_tier(tier)),
            [1.0, 0.1, 0.0],
            "1000 and 100 reads of 100 bytes fit into the first"
        );
        let few = HeatFloors::of(list.clone(), &[(1, Some(50)), (2, None)]);
        assert_eq!([1, 2].map(|tier| few.of_tier(tier)), [f64::INFINITY, 0.0]);
        let raised = floors.at_least(0.5);
        assert_eq!([1, 2, 3].map(|tier| raised.of_tier(tier)), [1.0, 0.5, 0.0]);
        // All fits: even a table that nobody reads may come.
        let floors = HeatFloors::of(list, &[(1, Some(1000)), (2, None)]);
        assert_eq!(floors.of_tier(1), 0.0);
        assert!(HeatFloors::of(parts(&[(100, 0.0)]), &[(1, Some(50))]).is_empty());
    }

    #[test]
    fn parts_that_nobody_reads_make_no_floor_of_a_tier_that_takes_all() {
        let unread = parts(&[(100, 10.0), (100, 0.0), (100, 0.0)]);
        let floors = HeatFloors::of(unread, &[(1, Some(200)), (2, None)]);
        assert!(floors.of_tier(1) > 0.0);
        let table = |reads_per_second| TableFacts {
            number: 1,
            level: 6,
            tier: 1,
            size_bytes: 100,
            age_seconds: 0,
            reads_per_second,
            has_moved: false,
        };
        assert!(is_cold(&floors, &table(0.0)) && !rises_to(&floors, 1, &table(0.0)));
        assert!(rises_to(&floors, 1, &table(0.1)));
    }

    #[test]
    fn a_part_that_is_too_large_keeps_no_other_out() {
        let list = parts(&[(1000, 100_000.0), (100, 10.0), (100, 1.0)]);
        let floors = HeatFloors::of(list, &[(1, Some(150)), (2, None)]);
        assert_eq!([1, 2].map(|tier| floors.of_tier(tier)), [0.1, 0.0]);
        assert_eq!(floors.of_tier(3), f64::INFINITY, "a tier that came later");
    }

    #[test]
    fn parts_that_may_not_lie_in_a_tier_make_no_floor_there() {
        let mut list = parts(&[(100, 1000.0), (100, 10.0), (100, 1.0)]);
        list[0].positions = Positions::of([1]);
        let floors = HeatFloors::of(list, &[(1, Some(150)), (2, None)]);
        assert_eq!([1, 2].map(|tier| floors.of_tier(tier)), [0.1, 0.0]);
    }

    #[test]
    fn upper_levels_do_not_compete() {
        let levels = [1, 9, 90, 900, 0, 0, 0];
        let compete = [0, 1, 2, 3, 6].map(|level| competes(level, &levels));
        assert_eq!(compete, [false, false, true, true, true]);
        assert_eq!((upper_bytes(&levels), headroom_bytes(&levels)), (10, 10));
        assert!(competes(0, &[5]), "one level alone");
    }
}
