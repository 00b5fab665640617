//! The filter that a table is written with, and its bits a key. It is a pure function of the
//! levels, of the table's place in them and of the average bits a key.
//!
//! A get of an absent key asks the filter of one table in every sub-level, whatever the policy. A
//! get that finds its record asks those above it in vain. The division makes the sum of their
//! chances of a false positive least, under the memory of all filters together (Dayan,
//! Athanassoulis, Idreos: Monkey, SIGMOD 2017). Gets of absent keys alone are weighed. The others
//! ask the upper sub-levels only, where this division has the chances small anyway. A bit a key
//! more costs memory for every entry of the sub-level. So where the sum is least, a bit of memory
//! is worth the same everywhere. The chance in a sub-level is in proportion to its entries. A
//! sub-level that is ten times smaller has 3.6 bits a key more. The true curves of the filters
//! count, not the classic formula.
//!
//! Written tables keep their bits, while the levels change around them. That costs little, for
//! three reasons. Tables are written for the levels above as they will be on average. A table of
//! level *i* is written when level *i - 1* is full. Where that level has little, room is kept for
//! it. Outdated tables are mostly small and soon merged. And bits depend on the logarithm of the
//! entries.

use super::version::{KeyspaceLevels, Place};
use crate::made_once::MadeOnce;
use crate::table::{FilterForm, FilterKind};

/// Bits a key from one to the next of which a filter's chance is looked at.
const STEP: f64 = 1.0 / 16.0;
/// The most bits a key that any table has.
const MOST_BITS: f64 = 32.0;
/// The fewest, unless they are fewer on average: below, split-block filters let nearly all pass.
const LEAST_BITS: f64 = 4.0;
/// Level 0 is soon merged, and to build fuse filters for it costs more than their errors less are
/// worth. A level 0 with more than 1 / `LARGE_LEVEL0` of all entries gets them, as in a store that
/// is small beside its arenas.
const LARGE_LEVEL0: u64 = 8;

/// The figures by which the memory of a keyspace's filters is divided.
#[derive(Clone, Copy, Debug)]
pub struct FilterMemory {
    /// On average over all entries; 0 for no filters.
    pub bits_per_key: f64,
    /// How many times larger a level is than the one above it.
    pub level_ratio: u64,
    /// Bytes that a flush brings into level 0, about.
    pub flush_bytes: u64,
}

impl FilterMemory {
    /// Returns the filter of a table that is written to a place.
    pub fn form_at(&self, levels: &KeyspaceLevels, place: Place) -> FilterForm {
        let mut parts = Vec::new();
        let mut listed_entries = 0;
        let mut keys_per_table = 0;
        for (at, sub_level) in levels.sub_levels() {
            let entries: u64 = sub_level.tables.iter().map(|table| table.entries).sum();
            keys_per_table = keys_per_table.max(entries / sub_level.tables.len().max(1) as u64);
            let level = at.level;
            match (level, at.sub_level) == (place.level, place.sub_level) {
                true => listed_entries = entries,
                false => parts.push(Part { level, entries }),
            }
        }
        let entries = match (place.level, listed_entries) {
            (0, 0) => self.flush_entries(levels, &parts),
            (0, entries) => entries,
            (level, entries) => entries + take_over(&mut parts, level),
        };
        let level = place.level;
        parts.push(Part { level, entries });
        let written = parts.len() - 1;
        FilterForm {
            kind: kind_of(place.level, &parts),
            bits_per_key: self.bits_of(parts, written, keys_per_table),
        }
    }

    /// Returns the entries that a flush brings, by those before; without any, by the bytes of an
    /// arena.
    fn flush_entries(&self, levels: &KeyspaceLevels, parts: &[Part]) -> u64 {
        let of_level0: Vec<u64> = of_level(parts, 0).collect();
        let sum: u64 = of_level0.iter().sum();
        if let Some(mean) = sum.checked_div(of_level0.len() as u64) {
            return mean;
        }
        let entries: u64 = parts.iter().map(|part| part.entries).sum();
        let bytes: u64 = levels.levels.iter().map(|level| level.size_bytes()).sum();
        let of_arena = u128::from(self.flush_bytes) * u128::from(entries);
        let of_arena = of_arena.checked_div(u128::from(bytes)).unwrap_or(0);
        u64::try_from(of_arena).unwrap_or(u64::MAX)
    }

    /// Returns the bits a key of the part at `written`.
    fn bits_of(&self, mut parts: Vec<Part>, written: usize, keys_per_table: u64) -> f64 {
        let Some(&Part { level, entries }) = parts.get(written) else {
            return self.bits_per_key;
        };
        if entries == 0 || self.bits_per_key <= LEAST_BITS {
            return self.bits_per_key;
        }
        if let Some(above) = level.checked_sub(1) {
            let room = of_level(&parts, level).sum::<u64>() / self.level_ratio.max(1);
            let missing = room.saturating_sub(of_level(&parts, above).sum());
            parts.push(Part {
                level: above,
                entries: missing,
            });
        }
        let bits = divide(&parts, self.bits_per_key, keys_per_table);
        bits.get(written).copied().unwrap_or(self.bits_per_key)
    }
}

/// A sub-level.
#[derive(Clone, Copy, Debug)]
struct Part {
    level: u8,
    entries: u64,
}

fn of_level(parts: &[Part], level: u8) -> impl Iterator<Item = u64> {
    let of_level = parts.iter().filter(move |part| part.level == level);
    of_level.map(|part| part.entries)
}

/// Returns the entries that a sub-level takes over from the level above. That level is empty then
/// and has half of its sub-levels on average until the next such merge. (Where it has one, it is
/// always about as full.)
fn take_over(parts: &mut Vec<Part>, level: u8) -> u64 {
    let above = parts.iter().filter(|part| part.level < level);
    let Some(above) = above.map(|part| part.level).max() else {
        return 0;
    };
    let entries = of_level(parts, above).sum();
    let mut kept = false;
    parts.retain(|part| {
        kept ^= part.level == above;
        part.level != above || kept
    });
    entries
}

/// Returns the kind of filter that tables of a level have.
fn kind_of(level: u8, parts: &[Part]) -> FilterKind {
    let all: u64 = parts.iter().map(|part| part.entries).sum();
    let of_level0: u64 = of_level(parts, 0).sum();
    if level == 0 && of_level0.saturating_mul(LARGE_LEVEL0) < all {
        FilterKind::SplitBlock
    } else {
        FilterKind::Fuse
    }
}

/// Returns the bits a key of each part, for which the sum of their chances is least. Each has as
/// many as are worth a common price. The search finds the price that takes the memory there is.
fn divide(parts: &[Part], bits_per_key: f64, keys_per_table: u64) -> Vec<f64> {
    let fuse = Gains::of(FilterKind::Fuse, keys_per_table);
    let own;
    let of_level0 = match kind_of(0, parts) {
        FilterKind::SplitBlock => match SPLIT_BLOCK.get(Gains::of_split_block) {
            Some(known) => known,
            None => {
                own = Gains::of_split_block();
                &own
            }
        },
        FilterKind::Fuse => &fuse,
    };
    let gains = |part: &Part| if part.level == 0 { of_level0 } else { &fuse };
    let at_price = |price: f64| {
        let bits = parts
            .iter()
            .map(|part| gains(part).bits_worth(price * part.entries as f64));
        bits.collect::<Vec<f64>>()
    };
    let memory = |bits: &[f64]| {
        let taken = parts.iter().zip(bits);
        taken.map(|(part, b)| part.entries as f64 * b).sum::<f64>()
    };
    let all = bits_per_key * parts.iter().map(|part| part.entries as f64).sum::<f64>();
    // Logarithms of the chance that a bit of memory takes away.
    let (mut too_low, mut enough) = (-150.0f64, 0.0f64);
    for _ in 0..48 {
        let middle = f64::midpoint(too_low, enough);
        if memory(&at_price(middle.exp2())) <= all {
            enough = middle;
        } else {
            too_low = middle;
        }
    }
    // Prices next to each other: a part of one step takes the memory that is left between them.
    let (fewer, more) = (at_price(enough.exp2()), at_price(too_low.exp2()));
    let (taken, most) = (memory(&fewer), memory(&more));
    let share = match most > taken {
        true => ((all - taken) / (most - taken)).clamp(0.0, 1.0),
        false => 0.0,
    };
    let between = |(fewer, more): (&f64, &f64)| fewer + share * (more - fewer);
    fewer.iter().zip(&more).map(between).collect()
}

/// Decrease of the chance of one kind of filter by each step of bits, a bit; it only falls.
struct Gains(Vec<f64>);

static SPLIT_BLOCK: MadeOnce<Gains> = MadeOnce::new();

impl Gains {
    /// Returns the gains of split-block filters. They do not depend on the number of keys.
    fn of_split_block() -> Self {
        Gains::of(FilterKind::SplitBlock, 0)
    }

    fn of(kind: FilterKind, keys_per_table: u64) -> Self {
        let keys = usize::try_from(keys_per_table).unwrap_or(usize::MAX);
        let steps = ((MOST_BITS - LEAST_BITS) / STEP) as u32;
        let chance = |step: u32| kind.chance(LEAST_BITS + f64::from(step) * STEP, keys);
        let gain = |step| (chance(step) - chance(step + 1)) / STEP;
        Gains((0..steps).map(gain).collect())
    }

    /// Returns the bits up to which each takes away more than that.
    fn bits_worth(&self, least_gain: f64) -> f64 {
        let steps = self.0.partition_point(|gain| *gain > least_gain);
        LEAST_BITS + steps as f64 * STEP
    }
}

#[cfg(test)]
mod tests;
