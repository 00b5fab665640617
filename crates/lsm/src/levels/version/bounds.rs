//! The bounds of a sub-level's tables, laid flat for lookups.

use std::sync::Arc;

use crate::key_prefixes::KeyPrefixes;
use crate::levels::table_meta::Table;

/// Made once for a list of tables; the list must not change afterwards.
#[derive(Clone, Debug)]
pub(super) struct FlatBounds {
    smallest: KeyPrefixes,
    largest: KeyPrefixes,
    /// Positions of the tables that hold range tombstones.
    with_ranges: Box<[u32]>,
}

impl FlatBounds {
    pub(super) fn new(tables: &[Arc<Table>]) -> Self {
        let bounds = tables.iter().map(|table| &table.bounds);
        let with_ranges = tables.iter().zip(0u32..);
        let with_ranges = with_ranges.filter(|(table, _)| table.range_tombstones > 0);
        FlatBounds {
            smallest: KeyPrefixes::new(bounds.clone().map(|bounds| bounds.smallest.as_slice())),
            largest: KeyPrefixes::new(bounds.map(|bounds| bounds.largest.as_slice())),
            with_ranges: with_ranges.map(|(_, at)| at).collect(),
        }
    }

    /// Returns the positions of the tables that hold range tombstones.
    pub(super) fn with_ranges(&self) -> &[u32] {
        &self.with_ranges
    }

    /// Returns the position of the first table that does not end before `key`.
    pub(super) fn not_ending_before(&self, tables: &[Arc<Table>], key: &[u8]) -> usize {
        let bounds = |at: usize| tables.get(at).map(|table| &table.bounds);
        self.largest.partition_point(key, |at| {
            bounds(at).is_some_and(|bounds| bounds.ends_before(key))
        })
    }

    /// Returns the one table whose bounds hold `key`.
    pub(super) fn table_for_key<'a>(
        &self,
        tables: &'a [Arc<Table>],
        key: &[u8],
    ) -> Option<&'a Arc<Table>> {
        let bounds = |at: usize| tables.get(at).map(|table| &table.bounds);
        let begun = self.smallest.partition_point(key, |at| {
            bounds(at).is_some_and(|bounds| bounds.smallest.as_slice() <= key)
        });
        // The last one begun; those before it have ended.
        let at = begun.checked_sub(1)?;
        let ended = self.not_ending_before(tables, key) > at;
        tables.get(at).filter(|_| !ended)
    }
}
