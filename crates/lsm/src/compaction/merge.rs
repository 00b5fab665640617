//! Executing a merge: versions in, tables out.
//!
//! All versions of a user key go to one table, so that the tables of a sub-level are disjoint in
//! user keys and a reader needs to look into one of them only. Deleted ranges are cut where a table
//! ends.

use crate::compaction::drop_rules::DropRules;
use crate::compaction::output_ranges::OutputRanges;
use crate::compaction::slices::Slice;
use crate::compaction::table_ends::TableEnds;
use crate::cursor::Cursor;
use crate::key::{InternalKey, Kind, MAX_SEQUENCE};
use crate::range_tombstones::RangeTombstones;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Error, Result, SequenceNumber};

/// The place where a merge writes the versions that stay.
pub trait TableSink {
    /// A finished table.
    type Table;

    /// Adds a version to the table being written, beginning one if there is none. `range` is the lowest
    /// number of a younger range tombstone over it that the table will hold.
    fn add(
        &mut self,
        key: InternalKey<'_>,
        value: &[u8],
        range: Option<SequenceNumber>,
    ) -> Result<()>;

    /// Adds a range tombstone to the table being written, beginning one if there is none. They come
    /// by start, then from the newest, when the table has all its versions.
    fn add_range_tombstone(
        &mut self,
        start: &[u8],
        end: &[u8],
        sequence: SequenceNumber,
    ) -> Result<()>;

    /// Returns the bytes of the table being written, 0 if there is none.
    fn table_bytes(&self) -> u64;

    /// Completes the table being written; `None` if there is none.
    fn finish(&mut self) -> Result<Option<Self::Table>>;
}

/// Writes the versions of a slice that `rules` keep, in tables that end as `ends` say, and returns
/// them.
///
/// # Errors
/// [`Error::Closed`] if `cancelled` becomes true; [`Error::Unsupported`] for a kind of record that
/// this version cannot merge; the sink's and the cursor's own. The caller removes the tables.
pub fn merge<S: TableSink>(
    versions: &mut impl Cursor,
    slice: &Slice,
    mut rules: DropRules<'_>,
    mut ends: TableEnds<'_>,
    cancelled: &AtomicBool,
    sink: &mut S,
) -> Result<Vec<S::Table>> {
    let mut tables = Vec::new();
    let kept = rules.ranges_kept();
    let hiding = RangeTombstones::new(kept.clone());
    let mut ranges = OutputRanges::new(kept);
    match &slice.from {
        Some(from) => versions.seek(InternalKey::seek(from, MAX_SEQUENCE))?,
        None => versions.seek_to_first()?,
    }
    while versions.valid() {
        let key = versions.key();
        if rules.is_new_user_key(&key) {
            if slice.to.as_deref().is_some_and(|to| to <= key.user_key) {
                break;
            }
            if let Some(end) = ends.pass(key.user_key, sink.table_bytes()) {
                ranges.pass(Some(end), ends.full_bytes(), sink, &mut tables)?;
                tables.extend(ranges.end_table(Some(end), sink)?);
            }
            let (bytes, written) = (sink.table_bytes(), tables.len());
            let full_bytes = ends.full_bytes();
            ranges.pass(Some(key.user_key), full_bytes, sink, &mut tables)?;
            if tables.len() > written {
                ends.ended(bytes);
            }
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        // A source may list these among its versions, too, at their first keys.
        let is_range =
            key.tag.kind().is_some_and(Kind::is_of_range) && rules.is_range_tombstone(&key);
        if !is_range && rules.keeps(&key, mergeable(&key, versions)?) {
            let range = hiding.oldest_above(key.user_key, key.sequence());
            sink.add(key, versions.value(), range)?;
        }
        versions.next()?;
    }
    ranges.pass(None, ends.full_bytes(), sink, &mut tables)?;
    tables.extend(ranges.end_table(None, sink)?);
    Ok(tables)
}

fn mergeable(key: &InternalKey<'_>, versions: &impl Cursor) -> Result<Kind> {
    match key.tag.kind() {
        Some(kind) if kind.is_entry() => Ok(kind),
        _ => Err(Error::unsupported(
            versions
                .file()
                .as_deref()
                .unwrap_or("a merge's input".as_ref()),
            format!("a record {:?}", key.tag),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::testing::{Version, VersionsCursor};
    use crate::key::Tag;
    use crate::range_tombstones::RangeTombstone;
    use crate::range_tombstones::tests::tombstone;

    /// User keys and sequence numbers.
    type Listed = Vec<(Vec<u8>, u64)>;

    #[derive(Default)]
    struct Tables {
        open: Listed,
        /// The range tombstones of each table.
        ranges: Vec<Vec<RangeTombstone>>,
        open_ranges: Vec<RangeTombstone>,
    }

    impl TableSink for Tables {
        type Table = Listed;

        fn add(&mut self, key: InternalKey<'_>, _: &[u8], _: Option<u64>) -> Result<()> {
            self.open.push((key.user_key.to_vec(), key.sequence()));
            Ok(())
        }
        fn add_range_tombstone(&mut self, start: &[u8], end: &[u8], sequence: u64) -> Result<()> {
            let tombstone = RangeTombstone {
                start: start.to_vec(),
                end: end.to_vec(),
                sequence,
            };
            self.open_ranges.push(tombstone);
            Ok(())
        }
        fn table_bytes(&self) -> u64 {
            self.open.len() as u64
        }
        fn finish(&mut self) -> Result<Option<Self::Table>> {
            let table = std::mem::take(&mut self.open);
            let ranges = std::mem::take(&mut self.open_ranges);
            let is_empty = table.is_empty() && ranges.is_empty();
            self.ranges.extend((!is_empty).then_some(ranges));
            Ok((!is_empty).then_some(table))
        }
    }

    fn run(versions: Vec<Version>, cancelled: bool) -> Result<Vec<Listed>> {
        let mut cursor = VersionsCursor::new(versions);
        let ranges = RangeTombstones::default();
        let rules = DropRules::new(&[4, 9], &|_| true, &ranges);
        merge(
            &mut cursor,
            &Slice::ALL,
            rules,
            TableEnds::at_size(2),
            &AtomicBool::new(cancelled),
            &mut Tables::default(),
        )
    }

    fn version(key: &str, sequence: u64, kind: Kind) -> Version {
        (key.into(), Tag::new(sequence, kind), Vec::new())
    }

    #[test]
    fn versions_of_a_key_are_never_split_over_tables() {
        let versions = vec![
            version("a", 1, Kind::Put),
            version("b", 8, Kind::Put),
            version("b", 3, Kind::Put),
            version("c", 2, Kind::Put),
        ];
        let tables = run(versions, false).unwrap();
        let a_b = vec![(b"a".to_vec(), 1), (b"b".to_vec(), 8), (b"b".to_vec(), 3)];
        assert_eq!(tables, [a_b, vec![(b"c".to_vec(), 2)]]);
    }

    #[test]
    fn slices_together_are_the_whole() {
        let versions = || {
            let keys = ["a", "b", "b\0", "c"]
                .into_iter()
                .flat_map(|key| [(key, 9), (key, 4)]);
            keys.map(|(key, sequence)| version(key, sequence, Kind::Put))
                .collect::<Vec<_>>()
        };
        let mut slices = Vec::new();
        for (from, to) in [(None, Some("b")), (Some("b"), Some("c")), (Some("c"), None)] {
            let key = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
            let slice = Slice {
                from: key(from),
                to: key(to),
                input_bytes: 0,
            };
            let mut cursor = VersionsCursor::new(versions());
            let ranges = RangeTombstones::default();
            let rules = DropRules::new(&[4, 9], &|_| true, &ranges);
            let never = AtomicBool::new(false);
            let mut sink = Tables::default();
            let tables = merge(
                &mut cursor,
                &slice,
                rules,
                TableEnds::at_size(100),
                &never,
                &mut sink,
            )
            .unwrap();
            slices.extend(tables);
        }
        let sizes: Vec<_> = slices.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 4, 2]);
        let all = versions()
            .into_iter()
            .map(|(key, tag, _)| (key, tag.sequence()));
        assert!(slices.concat().into_iter().eq(all));
    }

    /// Merges into tables that two versions make full; so do the ranges that begin in one.
    fn merged_with_ranges(
        versions: Vec<Version>,
        ranges: Vec<RangeTombstone>,
        table_bytes: u64,
    ) -> (Vec<Listed>, Vec<Vec<RangeTombstone>>) {
        let ranges = RangeTombstones::new(ranges);
        let rules = DropRules::new(&[99], &|_| true, &ranges);
        let mut sink = Tables::default();
        let tables = merge(
            &mut VersionsCursor::new(versions),
            &Slice::ALL,
            rules,
            TableEnds::at_size(table_bytes),
            &AtomicBool::new(false),
            &mut sink,
        );
        (tables.unwrap(), sink.ranges)
    }

    #[test]
    fn a_deleted_range_is_cut_where_a_table_ends() {
        let keys = ["a", "b", "c", "d", "e"];
        let versions = keys.map(|key| version(key, 9, Kind::Put)).to_vec();
        let (tables, ranges) = merged_with_ranges(versions, vec![tombstone("aa", "dd", 5)], 20);
        // A range that begins in the first table fills it; its rest in the next does not.
        assert_eq!(tables.iter().map(Vec::len).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(
            ranges,
            [vec![tombstone("aa", "b", 5)], vec![tombstone("b", "dd", 5)]]
        );
    }

    #[test]
    fn ranges_alone_make_tables_of_the_size_asked_for() {
        let list: Vec<_> = (b'a'..b'j')
            .map(|start| RangeTombstone {
                start: vec![start],
                end: vec![start + 3],
                sequence: u64::from(start),
            })
            .collect();
        let (tables, ranges) = merged_with_ranges(Vec::new(), list.clone(), 50);
        assert!(tables.len() > 2 && tables.iter().all(Vec::is_empty));
        let (before, after) = (
            RangeTombstones::new(list),
            RangeTombstones::new(ranges.concat()),
        );
        for key in b'a'..=b'z' {
            let newest = |set: &RangeTombstones| {
                set.newest_covering(&[key], 999).map(|found| found.sequence)
            };
            assert_eq!(newest(&after), newest(&before));
        }
        for pair in ranges.windows(2) {
            let end = pair[0].iter().map(|range| &range.end).max();
            assert!(end <= pair[1].iter().map(|range| &range.start).min());
        }
    }

    #[test]
    fn a_range_delete_among_versions_is_only_taken_for_what_the_ranges_have() {
        let versions = || {
            vec![
                version("b", 5, Kind::RangeDelete),
                version("b", 3, Kind::Put),
            ]
        };
        let (tables, ranges) = merged_with_ranges(versions(), vec![tombstone("b", "c", 5)], 999);
        assert_eq!(
            (tables, ranges),
            (vec![vec![]], vec![vec![tombstone("b", "c", 5)]])
        );
        assert!(matches!(
            run(versions(), false),
            Err(Error::Unsupported { .. })
        ));
    }

    #[test]
    fn a_cancelled_merge_and_a_reserved_kind_are_errors() {
        let versions = vec![version("a", 1, Kind::Put)];
        assert!(matches!(run(versions, true), Err(Error::Closed)));
        let versions = vec![version("a", 1, Kind::Merge)];
        assert!(matches!(
            run(versions, false),
            Err(Error::Unsupported { .. })
        ));
    }
}
