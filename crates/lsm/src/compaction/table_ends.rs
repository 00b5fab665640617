//! The ends of the tables that a merge writes: at a size and, if possible, where other tables end.
//!
//! A merge of some keys only takes whole tables ([`parts`](super::parts)), so it needs keys at
//! which no sub-level has a table that goes on. Left to their sizes, tables of two sub-levels never
//! end together. So outputs end where tables of the largest sub-level that is not merged begin, as
//! nearly full as these allow: the largest has the most tables and keeps them longest. (RocksDB and
//! Pebble cut at the tables of the next level to the same end, but only to bound the bytes that a
//! later merge drags along.)
//!
//! The samples that slices are made of tell about how many bytes come before the next such key. So
//! a table ends early only if it could not reach the next one. Where the keys before it are few and
//! those behind it many, as at the edge of the keys that are updated most, that may be at an
//! eighth. A table across that edge would tie all that it holds of the many to a large part of the
//! few.

use crate::compaction::placement::heat::HeatCut;
use crate::compaction::policy::Choice;
use crate::compaction::slices::{Sample, Slice};
use crate::levels::{KeyRange, KeyspaceLevels};

/// A table is not ended at less than this part of its size.
const LEAST_PART: u64 = 8;
/// A table goes on beyond its size for less than this part of it, if it then can end where it should.
const MOST_OVER: u64 = 4;

/// A key at which a table had better end, and about how many bytes are written from there to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub(crate) key: Vec<u8>,
    pub(crate) next_bytes: u64,
}

/// The keys at which the tables of a merge end before they are full.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ends {
    /// Those at which a table had better end.
    pub near: Vec<End>,
    /// Parts of the output that differ in their tier: a table ends where one begins.
    pub heat: Vec<HeatCut>,
}

/// Returns the first keys of the tables of the largest sub-level below level 0, as far as they are
/// not merged. Tables that are merged into level 0 live too briefly.
pub fn wanted(levels: &KeyspaceLevels, choice: &Choice) -> Vec<Vec<u8>> {
    let mut hull = KeyRange::hull(choice.inputs.iter().map(|input| &input.table.bounds));
    let Some(hull) = hull.take_if(|_| choice.output.level > 0) else {
        return Vec::new();
    };
    let is_input = |number| {
        choice
            .inputs
            .iter()
            .any(|input| input.table.number == number)
    };
    let beside = levels.sub_levels().filter(|(place, _)| place.level > 0);
    let beside = beside.map(|(_, sub_level)| {
        let tables = sub_level.overlapping(&hull).iter();
        tables.filter(|table| !is_input(table.number)).collect()
    });
    let largest = beside
        .max_by_key(|tables: &Vec<_>| tables.iter().map(|table| table.size_bytes).sum::<u64>());
    let tables = largest.unwrap_or_default().into_iter();
    let keys = tables.map(|table| table.bounds.smallest.clone());
    // No table ends before the first key that is merged.
    keys.filter(|key| *key > hull.smallest).collect()
}

/// Returns the ends at these keys, ascending; `stays` is the part of the inputs that is written.
pub fn with_distances(keys: Vec<Vec<u8>>, samples: &[Sample], stays: f64) -> Vec<End> {
    let mut ends: Vec<End> = keys
        .into_iter()
        .map(|key| End { key, next_bytes: 0 })
        .collect();
    for sample in samples {
        let behind = ends.partition_point(|end| end.key < sample.user_key);
        let end = behind.checked_sub(1).and_then(|at| ends.get_mut(at));
        if let Some(end) = end {
            end.next_bytes += sample.bytes;
        }
    }
    for end in &mut ends {
        end.next_bytes = (end.next_bytes as f64 * stays) as u64;
    }
    ends
}

/// Moves the ends of slices to such keys, if there are any in them: a slice ends its last table, too.
pub fn align(slices: &mut [Slice], ends: &[End]) {
    for at in 1..slices.len() {
        let Some([before, behind]) = slices.get_mut(at - 1..=at) else {
            continue;
        };
        let Some(border) = &before.to else { continue };
        let below = ends.partition_point(|end| end.key <= *border);
        let end = below.checked_sub(1).and_then(|at| ends.get(at));
        let from = before.from.as_deref().unwrap_or_default();
        if let Some(end) = end.filter(|end| *end.key > *from) {
            before.to = Some(end.key.clone());
            behind.from = Some(end.key.clone());
        }
    }
}

/// The rule that ends the tables of a slice.
pub struct TableEnds<'a> {
    most_bytes: u64,
    /// Those that lie ahead.
    ahead: &'a [End],
    /// Parts of another tier that lie ahead.
    cuts: &'a [HeatCut],
    /// Bytes that the table is expected to have at the next one, once one is passed.
    bytes_at_next: Option<u64>,
}

impl TableEnds<'_> {
    /// Ends tables when they have `most_bytes`.
    pub fn at_size(most_bytes: u64) -> Self {
        TableEnds {
            most_bytes,
            ahead: &[],
            cuts: &[],
            bytes_at_next: None,
        }
    }
}

impl<'a> TableEnds<'a> {
    /// Ends tables when they have about `most_bytes`, at one of these keys if there is one, and where a part
    /// of another tier begins.
    pub fn near(most_bytes: u64, ends: &'a Ends) -> Self {
        TableEnds {
            ahead: &ends.near,
            cuts: &ends.heat,
            ..TableEnds::at_size(most_bytes)
        }
    }

    /// Returns the size from which on a table ends at any next key.
    pub(crate) fn full_bytes(&self) -> u64 {
        let most_bytes = self.most_bytes.saturating_add(self.most_bytes / MOST_OVER);
        match self.bytes_at_next {
            Some(at_next) if at_next < most_bytes => most_bytes,
            _ => self.most_bytes,
        }
    }

    /// Passes the ends at or before `key`, the next one of a merge whose table has `table_bytes`.
    /// Returns the key at which the table is to end, if it is.
    pub(crate) fn pass(&mut self, key: &[u8], table_bytes: u64) -> Option<&'a [u8]> {
        let wanted = self.pass_ends(key, table_bytes);
        let cut = self.pass_cuts(key).filter(|_| table_bytes > 0);
        if cut.is_some() {
            self.bytes_at_next = None;
        }
        cut.or(wanted)
    }

    fn pass_cuts(&mut self, key: &[u8]) -> Option<&'a [u8]> {
        let passed = self.cuts.partition_point(|cut| *cut.from <= *key);
        let (passed, ahead) = self.cuts.split_at(passed);
        self.cuts = ahead;
        passed.last().map(|cut| &*cut.from)
    }

    fn pass_ends(&mut self, key: &[u8], table_bytes: u64) -> Option<&'a [u8]> {
        let mut passed = None;
        while let Some((next, rest)) = self.ahead.split_first()
            && *next.key <= *key
        {
            passed = Some(next);
            self.ahead = rest;
        }
        let passed = passed?;
        let bytes_at_next = table_bytes.saturating_add(passed.next_bytes);
        self.bytes_at_next = Some(bytes_at_next);
        let is_too_far =
            bytes_at_next > self.most_bytes.saturating_add(self.most_bytes / MOST_OVER);
        if table_bytes < (self.most_bytes / LEAST_PART).max(1) || !is_too_far {
            return None;
        }
        self.bytes_at_next = Some(passed.next_bytes);
        Some(&passed.key)
    }

    /// Notes that a table has ended for its size.
    pub(crate) fn ended(&mut self, table_bytes: u64) {
        let left = |at_next: u64| at_next.saturating_sub(table_bytes);
        self.bytes_at_next = self.bytes_at_next.map(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::policy::{ChoiceKind, Input, Reason};
    use crate::levels::testing::{added, flush_place, levels, sub_level_place, version};

    fn ends(list: &[(u8, u64)]) -> Vec<End> {
        let end = |&(key, next_bytes)| End {
            key: vec![key],
            next_bytes,
        };
        list.iter().map(end).collect()
    }

    /// Returns the first keys and the sizes of tables of keys from 0 on, as large as the ends say
    /// up to each next one.
    fn tables(most_bytes: u64, list: &[(u8, u64)]) -> Vec<(u8, u64)> {
        let near = ends(list);
        let wanted = Ends {
            near: near.clone(),
            heat: Vec::new(),
        };
        let list = near;
        let mut ends = TableEnds::near(most_bytes, &wanted);
        let (mut begin, mut bytes, mut tables) = (0, 0, Vec::new());
        for key in 0..=u8::MAX {
            if let Some(end) = ends.pass(&[key], bytes) {
                assert_eq!(end, [key]);
                tables.push((begin, std::mem::take(&mut bytes)));
                begin = key;
            } else if bytes >= ends.full_bytes() {
                ends.ended(bytes);
                tables.push((begin, std::mem::take(&mut bytes)));
                begin = key;
            }
            let at = list.partition_point(|end| end.key[0] <= key);
            let from = list[at - 1].key[0];
            let to = list.get(at).map_or(256, |end| u64::from(end.key[0]));
            bytes += list[at - 1].next_bytes / (to - u64::from(from));
        }
        tables.push((begin, bytes));
        tables
    }

    #[test]
    fn tables_end_at_the_last_key_that_they_can_reach() {
        let every = |step: u8, bytes| -> Vec<(u8, u64)> {
            (0..=u8::MAX)
                .step_by(step.into())
                .map(|k| (k, bytes))
                .collect()
        };
        assert_eq!(
            tables(1000, &every(32, 320)),
            [(0, 960), (96, 960), (192, 640)]
        );
        // A little more than a table each: no table for the rest.
        let one_each = [(0, 1088), (64, 1088), (128, 1088), (192, 1088)];
        assert_eq!(tables(1000, &every(64, 1088)), one_each);
        // Several tables each: every one of these keys is an end.
        let begins: Vec<u8> = tables(1000, &every(128, 2560))
            .iter()
            .map(|t| t.0)
            .collect();
        assert!(begins.contains(&128), "{begins:?}");
    }

    #[test]
    fn an_edge_between_few_and_many_is_an_end() {
        let edge = [(0, 64), (64, 128), (128, 6400), (192, 64)];
        let begins: Vec<u8> = tables(1000, &edge).iter().map(|t| t.0).collect();
        assert!(begins.contains(&128) && !begins.contains(&64), "{begins:?}");
    }

    #[test]
    fn a_table_ends_where_a_part_of_another_tier_begins() {
        let cut = |from: u8| HeatCut {
            from: vec![from],
            bytes: 1,
            reads_per_byte: 1.0,
        };
        let wanted = Ends {
            near: ends(&[(30, 100)]),
            heat: vec![cut(10), cut(20), cut(22), cut(40)],
        };
        let mut ends = TableEnds::near(1000, &wanted);
        assert_eq!(ends.pass(&[9], 500), None);
        assert_eq!(ends.pass(&[12], 600), Some(&[10][..]), "small as it is");
        // Both parts begin before this key, and the table holds none of the first.
        assert_eq!(ends.pass(&[25], 100), Some(&[22][..]));
        assert_eq!(ends.pass(&[41], 0), None, "a table without entries");
        assert_eq!(ends.pass(&[50], 100), None);
    }

    #[test]
    fn slices_end_there_too_unless_there_is_none() {
        let slice = |from: Option<u8>, to: Option<u8>| Slice {
            from: from.map(|key| vec![key]),
            to: to.map(|key| vec![key]),
            input_bytes: 1,
        };
        let mut slices = [
            slice(None, Some(20)),
            slice(Some(20), Some(25)),
            slice(Some(25), None),
        ];
        align(&mut slices, &ends(&[(5, 0), (15, 0), (30, 0)]));
        assert_eq!(
            slices,
            [
                slice(None, Some(15)),
                slice(Some(15), Some(25)),
                slice(Some(25), None)
            ]
        );
    }

    #[test]
    fn the_largest_that_is_not_merged_says_where() {
        let place = |flush| sub_level_place(1, flush);
        let sized = |place, number, from, to, bytes| {
            let mut added = added(place, number, from, to);
            added.table.size_bytes = bytes;
            added
        };
        let version = version(vec![
            sized(flush_place(9), 9, "a", "z", 9000),
            sized(place(5), 5, "b", "d", 10),
            sized(place(3), 3, "a", "c", 100),
            sized(place(3), 4, "f", "k", 100),
            sized(place(1), 1, "m", "z", 300),
        ]);
        let levels = levels(&version);
        let choice = |numbers: &[u64]| {
            let inputs = numbers.iter().map(|&number| {
                let (place, table) = levels.find(number).unwrap();
                Input::new(place, table)
            });
            let inputs: Vec<Input> = inputs.collect();
            Choice {
                reason: Reason::AskedFor,
                kind: ChoiceKind::Merge,
                output: inputs.last().unwrap().place,
                inputs,
                predicted: None,
            }
        };
        assert_eq!(wanted(levels, &choice(&[9])), [b""; 0], "into level 0");
        assert_eq!(wanted(levels, &choice(&[5])), [b""; 0], "it begins before");
        assert_eq!(wanted(levels, &choice(&[9, 5])), [b"m"]);
        assert_eq!(wanted(levels, &choice(&[9, 5, 3, 4, 1])), [b""; 0]);
        let samples = [(b"a", 1), (b"b", 2), (b"g", 4), (b"h", 8)];
        let samples = samples.map(|(key, bytes)| Sample {
            user_key: key.to_vec(),
            bytes: 10 * bytes,
        });
        let keys = vec![b"a".to_vec(), b"f".to_vec()];
        let ends = with_distances(keys, &samples, 0.5);
        assert_eq!(
            ends.iter().map(|e| e.next_bytes).collect::<Vec<_>>(),
            [10, 60]
        );
    }
}
