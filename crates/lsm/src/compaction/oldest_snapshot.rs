//! The superseded versions that the oldest snapshot keeps, in tables that would be due without it.

use crate::SequenceNumber;
use crate::levels::Table;

/// The oldest live snapshot, and the space that it keeps on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OldestSnapshot {
    /// Its number (`Snapshot::sequence`).
    pub sequence: SequenceNumber,
    /// Tables that keep superseded versions until it is dropped.
    pub tables: u64,
    /// About the bytes of these versions in the tables' files. A table is rewritten for all of them
    /// together: so versions that only later snapshots needed stay, too, and are counted.
    pub kept_bytes: u64,
}

impl OldestSnapshot {
    /// Counts the versions that stay in these tables for the snapshot of this number.
    #[doc(hidden)]
    pub fn of<'a>(sequence: SequenceNumber, tables: impl Iterator<Item = &'a Table>) -> Self {
        let kept = tables.filter(|table| table.min_sequence <= sequence);
        let kept = kept.filter_map(|table| table.superseded);
        let kept = kept.filter(|noted| sequence < noted.largest_by);
        let nothing = OldestSnapshot {
            sequence,
            tables: 0,
            kept_bytes: 0,
        };
        kept.fold(nothing, |sum, noted| OldestSnapshot {
            tables: sum.tables + 1,
            kept_bytes: sum.kept_bytes.saturating_add(noted.bytes),
            ..sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::testing::{added, flush_place, levels, version};
    use crate::table::Superseded;

    #[test]
    fn a_snapshot_keeps_what_was_superseded_after_it() {
        let noted = |number, first, largest_by| {
            let mut added = added(flush_place(number), number, "a", "b");
            (added.table.min_sequence, added.table.max_sequence) = (first, 100);
            added.table.superseded = Some(Superseded {
                versions: 1,
                bytes: 10 * number,
                largest_by,
            });
            added
        };
        let listed = vec![noted(1, 5, 20), noted(2, 5, 30), noted(3, 21, 40)];
        let version = version(listed);
        let of = |sequence| {
            let tables = levels(&version).tables().map(|(_, table)| &**table);
            let kept = OldestSnapshot::of(sequence, tables);
            (kept.tables, kept.kept_bytes)
        };
        assert_eq!((of(4), of(5), of(19)), ((0, 0), (2, 30), (2, 30)));
        assert_eq!((of(20), of(21), of(30)), ((1, 20), (2, 50), (1, 30)));
        assert_eq!(of(40), (0, 0));
    }
}
