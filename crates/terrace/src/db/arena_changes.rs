//! The changes to a footprint since a number that lie in MemTables.
//!
//! Records have their numbers in the order of their arenas, so those after a number can be walked one by one.
//! Where there are many, keys and ranges are looked up instead. Both ways find the same.

use std::sync::Arc;

use terrace_lsm::cursor::Cursor;
use terrace_lsm::key::{InternalKey, MAX_KEY_BYTES, MAX_SEQUENCE};
use terrace_lsm::table::key_hash;

use crate::db::changes::{Found, deleted_in};
use crate::db::footprint::{Changed, Footprint, Span};
use crate::db::view::View;
use crate::write_buffer::memtable::MemTable;
use crate::{KeyspaceId, SequenceNumber};

/// Maximum number of records that are walked: some 0.1 ms.
pub(crate) const MAX_WALKED: u64 = 4096;
/// Number of records whose walk takes as long as the look up of a key.
const WALKED_A_KEY: u64 = 8;

/// Returns whether the records of a number of writes are looked at in a short time. A leader does no more.
pub(crate) fn is_short(footprint: &Footprint, records: u64) -> bool {
    records <= MAX_WALKED
        || looks_up_keys(footprint, records) && footprint.key_count() <= MAX_WALKED / WALKED_A_KEY
}

/// Returns whether all of a footprint are keys, and looking these up is quicker than a walk.
fn looks_up_keys(footprint: &Footprint, records: u64) -> bool {
    footprint.is_of_keys() && footprint.key_count().saturating_mul(WALKED_A_KEY) < records
}

/// Returns a key of a footprint that a record in an arena changed, with a number above `since` and up to
/// `up_to`, or perhaps above. Records up to `since` cost nothing.
pub(crate) fn changed_in_arenas(
    view: &View,
    footprint: &Footprint,
    since: SequenceNumber,
    up_to: SequenceNumber,
    hash_seed: u64,
) -> Found {
    let records = up_to.saturating_sub(since);
    // Each is asked: one that takes its first frame at this moment has no last number yet.
    let tables = view.memtables.iter();
    let newer = tables.filter(|table| table.last_sequence() > since);
    if looks_up_keys(footprint, records) {
        key_changed(newer, footprint, since, hash_seed)
    } else if records <= MAX_WALKED {
        walk(newer, footprint, since, up_to)
    } else {
        key_changed(newer.clone(), footprint, since, hash_seed)
            .or_else(|| span_changed(newer, footprint, since))
    }
}

fn walk<'a>(
    tables: impl Iterator<Item = &'a Arc<MemTable>>,
    footprint: &Footprint,
    since: SequenceNumber,
    up_to: SequenceNumber,
) -> Found {
    let mut records = tables.flat_map(|table| table.numbered(since, up_to));
    records.find_map(|record| {
        // The bytes under a mapping have changed, and any key may have been written.
        let Some(record) = record else {
            return Some((KeyspaceId::DEFAULT, Vec::new()));
        };
        let changed = Changed {
            keyspace: record.keyspace,
            kind: record.kind,
            key: record.key,
            value: record.value,
        };
        let touched = footprint.touched_by(&changed);
        touched.map(|key| (record.keyspace, key.to_vec()))
    })
}

fn key_changed<'a>(
    tables: impl Iterator<Item = &'a Arc<MemTable>> + Clone,
    footprint: &Footprint,
    since: SequenceNumber,
    hash_seed: u64,
) -> Found {
    let is_newer = |keyspace, key: &[u8]| {
        let hash = key_hash(key, hash_seed);
        let mut newest = tables
            .clone()
            .filter_map(|table| table.get(keyspace, key, hash, MAX_SEQUENCE));
        newest.any(|(tag, _)| tag.sequence() > since)
    };
    let mut keys = footprint.keys();
    let found = keys.find(|(keyspace, key)| is_newer(*keyspace, key));
    found.map(|(keyspace, key)| (keyspace, key.to_vec()))
}

fn span_changed<'a>(
    tables: impl Iterator<Item = &'a Arc<MemTable>> + Clone,
    footprint: &Footprint,
    since: SequenceNumber,
) -> Found {
    footprint.spans().find_map(|(keyspace, span)| {
        let mut tables = tables.clone();
        let key = tables.find_map(|table| changed_in_memtable(table, keyspace, span, since));
        Some((keyspace, key?))
    })
}

/// Returns a key of a span that a MemTable has with a number above `since`.
fn changed_in_memtable(
    table: &Arc<MemTable>,
    keyspace: KeyspaceId,
    span: &Span,
    since: SequenceNumber,
) -> Option<Vec<u8>> {
    /// Behind every key.
    static BEYOND: [u8; MAX_KEY_BYTES + 1] = [u8::MAX; MAX_KEY_BYTES + 1];
    let sets = table.range_tombstones(keyspace);
    if let Some(key) = sets.iter().find_map(|set| deleted_in(set, span, since)) {
        return Some(key);
    }
    let end = span.end.as_deref().unwrap_or(&BEYOND);
    let mut cursor = table.cursor(keyspace);
    // The moves of a MemTable's cursor cannot fail.
    cursor
        .seek(InternalKey::seek(&span.start, MAX_SEQUENCE))
        .ok()?;
    while cursor.valid() && cursor.key().user_key < end {
        if cursor.key().sequence() > since {
            return Some(cursor.key().user_key.to_vec());
        }
        cursor.pass_hidden(since + 1, end).ok()?;
    }
    None
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::write_buffer::batch::WriteBatch;
    use crate::write_buffer::memtable::tests::memtable;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..Default::default() })]

        /// The walk and the look up agree on whether anything has changed.
        #[test]
        fn both_ways_find_the_same(
            writes in prop::collection::vec((0u8..3, 0u8..20, 0u8..6), 1..60),
            since in 0u64..60,
            keys in prop::collection::vec(0u8..20, 0..4),
            spans in prop::collection::vec((0u8..20, 0u8..6), 0..3),
        ) {
            let mut batch = WriteBatch::new();
            for (kind, key, length) in writes {
                match kind {
                    0 => batch.put([key], [length]).unwrap(),
                    1 => batch.delete([key]).unwrap(),
                    _ => batch.delete_range([key], [key + 1 + length]).unwrap(),
                }
            }
            let last = u64::from(batch.records());
            let table = memtable(&[batch]);
            let mut footprint = Footprint::default();
            for key in keys {
                footprint.add_key(KeyspaceId::DEFAULT, &[key]);
            }
            for (start, length) in spans {
                let (start, end) = (vec![start], Some(vec![start + length]));
                footprint.add_span(KeyspaceId::DEFAULT, Span { start, end });
            }
            footprint.settle();
            let seed = crate::write_buffer::memtable::tests::SEED;
            let tables = [table];
            let walked = walk(tables.iter(), &footprint, since, last);
            let looked_up = key_changed(tables.iter(), &footprint, since, seed)
                .or_else(|| span_changed(tables.iter(), &footprint, since));
            prop_assert_eq!(walked.is_some(), looked_up.is_some());
            for (keyspace, key) in walked.into_iter().chain(looked_up) {
                prop_assert!(footprint.contains(keyspace, &key));
            }
        }
    }
}
