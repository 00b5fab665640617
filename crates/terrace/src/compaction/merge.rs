//! Executing a merge: versions in, tables out.
//!
//! All versions of a user key go to one table, so that the tables of a sub-level are disjoint in
//! user keys and a reader needs to look into one of them only.

use crate::compaction::drop_rules::DropRules;
use crate::compaction::slices::Slice;
use crate::cursor::Cursor;
use crate::key::{InternalKey, Kind, MAX_SEQUENCE};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Error, Result};

/// Where the versions that stay are written.
pub(crate) trait TableSink {
    /// A finished table.
    type Table;

    /// Adds a version to the table being written, beginning one if there is none.
    fn add(&mut self, key: InternalKey<'_>, value: &[u8]) -> Result<()>;

    /// Bytes of the table being written, 0 if there is none.
    fn table_bytes(&self) -> u64;

    /// Completes the table being written; `None` if there is none.
    fn finish(&mut self) -> Result<Option<Self::Table>>;
}

/// Writes the versions of a slice that `rules` keep, in tables of about `table_bytes`, and gives the
/// tables.
///
/// # Errors
/// [`Error::Closed`] if `cancelled` becomes true; [`Error::Unsupported`] for a kind of record that
/// this version cannot merge; the sink's and the cursor's own. The caller removes the tables.
pub(crate) fn merge<S: TableSink>(
    versions: &mut impl Cursor,
    slice: &Slice,
    mut rules: DropRules<'_>,
    table_bytes: u64,
    cancelled: &AtomicBool,
    sink: &mut S,
) -> Result<Vec<S::Table>> {
    let mut tables = Vec::new();
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
            if sink.table_bytes() >= table_bytes {
                tables.extend(sink.finish()?);
            }
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        if rules.keeps(&key, mergeable(&key)?) {
            sink.add(key, versions.value())?;
        }
        versions.next()?;
    }
    tables.extend(sink.finish()?);
    Ok(tables)
}

fn mergeable(key: &InternalKey<'_>) -> Result<Kind> {
    match key.tag.kind() {
        Some(kind @ (Kind::Put | Kind::Delete)) => Ok(kind),
        _ => Err(Error::unsupported(
            "a merge's input".as_ref(),
            format!("a record {:?}", key.tag),
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::key::Tag;

    /// A version: user key, tag, value.
    pub(crate) type Version = (Vec<u8>, Tag, Vec<u8>);

    /// A cursor over versions in memory.
    pub(crate) struct VersionsCursor {
        versions: Vec<Version>,
        at: usize,
    }

    impl VersionsCursor {
        pub(crate) fn new(mut versions: Vec<Version>) -> Self {
            versions.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            VersionsCursor {
                at: usize::MAX,
                versions,
            }
        }
    }

    impl Cursor for VersionsCursor {
        fn valid(&self) -> bool {
            self.at < self.versions.len()
        }
        fn seek_to_first(&mut self) -> Result<()> {
            self.at = 0;
            Ok(())
        }
        fn seek_to_last(&mut self) -> Result<()> {
            self.at = self.versions.len().wrapping_sub(1);
            Ok(())
        }
        fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
            let below = |version: &Version| {
                InternalKey {
                    user_key: &version.0,
                    tag: version.1,
                } < target
            };
            self.at = self.versions.partition_point(below);
            Ok(())
        }
        fn next(&mut self) -> Result<()> {
            self.at += 1;
            Ok(())
        }
        fn prev(&mut self) -> Result<()> {
            self.at = self.at.wrapping_sub(1);
            Ok(())
        }
        fn key(&self) -> InternalKey<'_> {
            let (user_key, tag, _) = &self.versions[self.at];
            InternalKey {
                user_key,
                tag: *tag,
            }
        }
        fn value(&self) -> &[u8] {
            &self.versions[self.at].2
        }
    }

    /// User keys and sequence numbers.
    type Listed = Vec<(Vec<u8>, u64)>;

    #[derive(Default)]
    struct Tables {
        open: Listed,
    }

    impl TableSink for Tables {
        type Table = Listed;

        fn add(&mut self, key: InternalKey<'_>, _: &[u8]) -> Result<()> {
            self.open.push((key.user_key.to_vec(), key.sequence()));
            Ok(())
        }
        fn table_bytes(&self) -> u64 {
            self.open.len() as u64
        }
        fn finish(&mut self) -> Result<Option<Self::Table>> {
            let table = std::mem::take(&mut self.open);
            Ok((!table.is_empty()).then_some(table))
        }
    }

    fn run(versions: Vec<Version>, cancelled: bool) -> Result<Vec<Listed>> {
        let mut cursor = VersionsCursor::new(versions);
        let rules = DropRules::new(&[4, 9], &|_| true);
        merge(
            &mut cursor,
            &Slice::ALL,
            rules,
            2,
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
            let rules = DropRules::new(&[4, 9], &|_| true);
            let never = AtomicBool::new(false);
            let mut sink = Tables::default();
            let tables = merge(&mut cursor, &slice, rules, 100, &never, &mut sink).unwrap();
            slices.extend(tables);
        }
        let sizes: Vec<_> = slices.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 4, 2]);
        let all = versions()
            .into_iter()
            .map(|(key, tag, _)| (key, tag.sequence()));
        assert!(slices.concat().into_iter().eq(all));
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
