//! A big merge in pieces: the keys of a piece, and the edit that installs it.
//!
//! Slices may be built in any order, several at a time, and are installed from the smallest keys to
//! the largest. The edit of a slice adds its outputs, removes the inputs that end in it and narrows
//! those that go on behind it. So after each edit every key is either merged or as before, and a
//! crash between two edits keeps the slices installed so far.

use crate::compaction::policy::Choice;
use crate::key::KeyspaceId;
use crate::levels::{Edit, KeyRange, TableAdded, TableMeta, TableNarrowed, TableRemoved};
use crate::range_tombstones::RangeTombstone;

/// The user keys from `from` on, up to `to`, which is excluded. `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub from: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
    /// About as many bytes of input.
    pub input_bytes: u64,
}

impl Slice {
    /// All keys.
    pub const ALL: Slice = Slice {
        from: None,
        to: None,
        input_bytes: 0,
    };

    /// Returns whether a range holds keys of the slice.
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        !self.ends_before_slice(range) && self.to.as_ref().is_none_or(|to| range.smallest < *to)
    }

    /// Returns the part of a range tombstone, in a table with these bounds, that belongs to the
    /// slice.
    pub fn clip(&self, tombstone: RangeTombstone, bounds: &KeyRange) -> Option<RangeTombstone> {
        tombstone
            .clipped(Some(&bounds.smallest), Some(&bounds.end()))?
            .clipped(self.from.as_deref(), self.to.as_deref())
    }

    /// Returns the keys of a range that are in the slice: the first, and the first behind them.
    pub fn part_of(&self, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
        let (smallest, end) = (range.smallest.clone(), range.end());
        let from = self.from.clone().unwrap_or_default().max(smallest);
        let to = self.to.clone().map_or(end.clone(), |to| to.min(end));
        (from, to)
    }

    /// Returns whether nothing of a range lies behind the slice.
    pub fn ends_behind(&self, range: &KeyRange) -> bool {
        self.to.as_ref().is_none_or(|to| range.ends_before(to))
    }

    fn ends_before_slice(&self, range: &KeyRange) -> bool {
        self.from
            .as_ref()
            .is_some_and(|from| range.ends_before(from))
    }

    /// Returns the size that divides the slice's output into tables of about `table_bytes` without
    /// a small one at the end.
    pub fn even_table_bytes(&self, table_bytes: u64) -> u64 {
        let tables = (self.input_bytes + table_bytes / 2) / table_bytes.max(1);
        if tables <= 1 {
            // A little more than a table: better one larger table than a second, tiny one.
            return table_bytes + table_bytes / 2;
        }
        let even = self.input_bytes / tables;
        even + even / 16
    }
}

/// A user key of an input, and about how many bytes of that input lie between it and the sample
/// before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub user_key: Vec<u8>,
    pub bytes: u64,
}

/// Returns the size of slices: large enough to be worth an edit, small enough that every worker
/// gets some, and never larger than `most_bytes`.
pub fn slice_bytes(total_bytes: u64, workers: usize, table_bytes: u64, most_bytes: u64) -> u64 {
    const SLICES_A_WORKER: u64 = 2;
    let share = total_bytes / (workers as u64 * SLICES_A_WORKER).max(1);
    share.clamp(table_bytes.min(most_bytes), most_bytes)
}

/// Returns the size of slices where `free_bytes` of the disk are free. Each is written beside its
/// inputs, as many at a time as there are workers, and twice that is to be there.
pub fn slice_bytes_within(each_bytes: u64, workers: usize, free_bytes: u64) -> u64 {
    const MIN_BYTES: u64 = 256 << 10;
    let share = free_bytes / (workers as u64 * 2).max(1);
    each_bytes.min(share.max(MIN_BYTES))
}

/// Returns the size of tables where `free_bytes` of the disk are free. A merge gives a table's
/// space back when it has read all of it. So a table that is large beside the free space could not
/// be merged any more.
pub fn table_bytes_within(table_bytes: u64, free_bytes: u64) -> u64 {
    const PART: u64 = 16;
    const MIN_BYTES: u64 = 1 << 20;
    table_bytes.min((free_bytes / PART).max(MIN_BYTES))
}

/// Divides all keys into slices of about `slice_bytes` each, the last one up to half as large
/// again.
pub fn divide(mut samples: Vec<Sample>, slice_bytes: u64) -> Vec<Slice> {
    samples.sort_by(|a, b| a.user_key.cmp(&b.user_key));
    let mut left_bytes: u64 = samples.iter().map(|sample| sample.bytes).sum();
    let mut slices = Vec::new();
    let (mut from, mut input_bytes) = (None::<Vec<u8>>, 0);
    for sample in samples {
        // The bytes of a sample lie before its key, so a slice may end there.
        input_bytes += sample.bytes;
        left_bytes -= sample.bytes;
        let is_new_key = *from.as_deref().unwrap_or_default() < *sample.user_key;
        if input_bytes >= slice_bytes && left_bytes > slice_bytes / 2 && is_new_key {
            slices.push(Slice {
                from: from.replace(sample.user_key.clone()),
                to: Some(sample.user_key),
                input_bytes,
            });
            input_bytes = 0;
        }
    }
    slices.push(Slice {
        from,
        to: None,
        input_bytes,
    });
    slices
}

/// Counts the bytes of slices again, after their ends were moved.
pub fn recount(slices: &mut [Slice], samples: &[Sample]) {
    let counted = bytes_of(slices, samples);
    for (slice, bytes) in slices.iter_mut().zip(counted) {
        slice.input_bytes = bytes;
    }
}

/// Returns the bytes of samples that lie in each slice. As where slices are divided, the bytes of a
/// sample lie before its key.
pub fn bytes_of(slices: &[Slice], samples: &[Sample]) -> Vec<u64> {
    let mut bytes = vec![0; slices.len()];
    for sample in samples {
        let ends_before = |slice: &Slice| slice.to.as_ref().is_some_and(|to| *to < sample.user_key);
        let at = slices.partition_point(ends_before);
        if let Some(bytes) = bytes.get_mut(at) {
            *bytes += sample.bytes;
        }
    }
    bytes
}

/// Returns the edit that replaces a slice's part of a merge's inputs by `tables`. All slices before
/// it must be installed.
pub fn slice_edit(
    keyspace: KeyspaceId,
    choice: &Choice,
    slice: &Slice,
    tables: &[TableMeta],
) -> Edit {
    let mut edit = Edit {
        tables_added: tables
            .iter()
            .map(|table| TableAdded {
                place: choice.output,
                table: table.clone(),
            })
            .collect(),
        ..Edit::default()
    };
    for input in &choice.inputs {
        let (number, bounds) = (input.table.number, &input.table.bounds);
        if !slice.overlaps(bounds) {
            continue;
        }
        match &slice.to {
            Some(to) if !slice.ends_behind(bounds) => edit.tables_narrowed.push(TableNarrowed {
                keyspace,
                number,
                bounds: KeyRange {
                    smallest: to.clone(),
                    ..bounds.clone()
                },
            }),
            _ => edit.tables_removed.push(TableRemoved { keyspace, number }),
        }
    }
    edit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compaction::policy::{ChoiceKind, Input, Reason};
    use crate::levels::testing::{added, flush_place, levels, version};
    use crate::levels::{Place, Version};

    fn samples(keys: &[(u8, u64)]) -> Vec<Sample> {
        let sample = |&(key, bytes)| Sample {
            user_key: vec![key],
            bytes,
        };
        keys.iter().map(sample).collect()
    }

    #[test]
    fn tables_are_small_where_space_is_short() {
        const MIB: u64 = 1 << 20;
        let within = |free_bytes| table_bytes_within(64 * MIB, free_bytes);
        assert_eq!(within(u64::MAX), 64 * MIB);
        assert_eq!(within(1024 * MIB), 64 * MIB);
        assert_eq!(within(64 * MIB), 4 * MIB);
        assert_eq!(within(0), MIB);
        assert_eq!(
            table_bytes_within(MIB / 4, 0),
            MIB / 4,
            "the options say so"
        );
    }

    #[test]
    fn on_a_full_disk_slices_are_small() {
        const MIB: u64 = 1 << 20;
        assert_eq!(slice_bytes_within(64 * MIB, 2, 1000 * MIB), 64 * MIB);
        assert_eq!(slice_bytes_within(64 * MIB, 2, 40 * MIB), 10 * MIB);
        assert_eq!(slice_bytes_within(64 * MIB, 2, 0), MIB / 4);
        assert_eq!(slice_bytes_within(100, 2, 0), 100);
    }

    #[test]
    fn slices_whose_ends_were_moved_are_counted_anew() {
        let keys = [(10, 1), (20, 2), (30, 4), (40, 8)];
        let bytes =
            |slices: &[Slice]| -> Vec<u64> { slices.iter().map(|s| s.input_bytes).collect() };
        let mut slices = divide(samples(&keys), 3);
        assert_eq!(bytes(&slices), [3, 4, 8]);
        recount(&mut slices, &samples(&keys));
        assert_eq!(bytes(&slices), [3, 4, 8], "nothing was moved");
        slices[0].to = Some(vec![15]);
        slices[1].from = Some(vec![15]);
        recount(&mut slices, &samples(&keys));
        assert_eq!(bytes(&slices), [1, 6, 8]);
    }

    proptest! {
        #[test]
        fn slices_follow_one_another_and_hold_every_byte(
            keys in prop::collection::vec((any::<u8>(), 1u64..100), 0..60),
            slice_bytes in 1u64..500,
        ) {
            let slices = divide(samples(&keys), slice_bytes);
            prop_assert_eq!((&slices[0].from, &slices.last().unwrap().to), (&None, &None));
            for pair in slices.windows(2) {
                prop_assert_eq!(&pair[0].to, &pair[1].from);
                prop_assert!(pair[0].input_bytes >= slice_bytes);
                prop_assert!(pair[0].from < pair[0].to && (pair[1].to.is_none() || pair[1].from < pair[1].to));
            }
            let total: u64 = keys.iter().map(|&(_, bytes)| bytes).sum();
            prop_assert_eq!(slices.iter().map(|slice| slice.input_bytes).sum::<u64>(), total);
        }
    }

    #[test]
    fn a_merge_of_two_tables_keeps_two_workers_busy() {
        let (table, most) = (64 << 20, 256 << 20);
        assert_eq!(slice_bytes(2 * table, 2, table, most), table);
        assert_eq!(slice_bytes(8 * table, 2, table, most), 2 * table);
        assert_eq!(slice_bytes(100 * table, 2, table, most), most);
        // One worker still stops between slices for more urgent work.
        assert_eq!(slice_bytes(8 * table, 1, table, most), most);
        assert_eq!(slice_bytes(8 * table, 2, table, 1000), 1000);
    }

    #[test]
    fn tables_of_a_slice_are_even() {
        let slice = |input_bytes| Slice {
            input_bytes,
            ..Slice::ALL
        };
        let tables = |input_bytes: u64| {
            let each = slice(input_bytes).even_table_bytes(64);
            input_bytes.div_ceil(each)
        };
        assert_eq!(
            [10, 64, 80, 128, 140, 190, 256].map(tables),
            [1, 1, 1, 2, 2, 3, 4]
        );
    }

    fn choice(version: &Version, output: Place) -> Choice {
        let inputs = levels(version).tables().map(|(place, table)| Input {
            place,
            table: table.clone(),
        });
        Choice {
            reason: Reason::Level0SubLevels(2),
            kind: ChoiceKind::Merge,
            inputs: inputs.collect(),
            output,
            predicted: None,
        }
    }

    fn slice(from: Option<&str>, to: Option<&str>) -> Slice {
        let key = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        Slice {
            from: key(from),
            to: key(to),
            input_bytes: 1,
        }
    }

    #[test]
    fn an_edit_narrows_what_goes_on_and_removes_what_ends() {
        let mut present = version(vec![
            added(flush_place(1), 1, "a", "m"),
            added(flush_place(2), 2, "c", "z"),
            added(Place::base(1), 3, "a", "c"),
            added(Place::base(1), 4, "d", "f"),
            added(Place::base(1), 5, "x", "z"),
        ]);
        let choice = choice(&present, Place::base(1));
        let slices = [
            slice(None, Some("d")),
            slice(Some("d"), Some("n")),
            slice(Some("n"), Some("o")),
            slice(Some("o"), None),
        ];
        let outputs = [
            Some((6, "a", "c")),
            Some((7, "d", "m")),
            None,
            Some((8, "o", "z")),
        ];
        let mut listed = Vec::new();
        for (slice, output) in slices.iter().zip(outputs) {
            let table = output.map(|(n, from, to)| added(Place::base(1), n, from, to).table);
            let edit = slice_edit(KeyspaceId::DEFAULT, &choice, slice, table.as_slice());
            present = present.apply(&edit).unwrap();
            let tables = levels(&present).tables();
            listed.push(
                tables
                    .map(|(_, t)| format!("{}{:?}", t.number, t.bounds))
                    .collect::<Vec<_>>()
                    .join(" "),
            );
        }
        assert_eq!(
            listed,
            [
                "2[d, z] 1[d, m] 6[a, c] 4[d, f] 5[x, z]",
                "2[n, z] 6[a, c] 7[d, m] 5[x, z]",
                "2[o, z] 6[a, c] 7[d, m] 5[x, z]",
                "6[a, c] 7[d, m] 8[o, z]",
            ]
        );
    }
}
