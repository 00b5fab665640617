//! The bytes stored in a range, estimated from the indexes of tables.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use terrace_lsm::levels::{Bounds, Table};
use terrace_lsm::table::CursorOptions;
use terrace_storage::Purpose;

use crate::db::Store;
use crate::db::keyspaces::live;
use crate::db::owners::Files;
use crate::{KeyspaceId, Result};

impl Store {
    /// Returns the bytes of tables that keys in the range take. Tables inside it count whole, those
    /// at its ends by the share of their index entries that is inside.
    pub(crate) fn approximate_bytes(&self, keyspace: KeyspaceId, range: Bounds<'_>) -> Result<u64> {
        self.lifecycle.check_open()?;
        let version = Arc::clone(&self.reads.view.load().version);
        let tables = live(&version, keyspace)?.tables();
        let inside = tables.filter(|(_, table)| table.bounds.meets(range));
        inside
            .map(|(_, table)| self.files.bytes_inside(table, range))
            .sum()
    }
}

impl Files {
    fn bytes_inside(&self, table: &Arc<Table>, (from, to): Bounds<'_>) -> Result<u64> {
        let starts_inside = match from {
            Bound::Unbounded => true,
            Bound::Included(from) | Bound::Excluded(from) => {
                table.bounds.smallest.as_slice() >= from
            }
        };
        let ends_inside = match to {
            Bound::Unbounded => true,
            Bound::Included(to) | Bound::Excluded(to) => table.bounds.ends_before(to),
        };
        if starts_inside && ends_inside && !table.narrowed {
            return Ok(table.size_bytes);
        }
        let options = CursorOptions::uncached(Purpose::Read);
        let keys = table.open(&self.tables)?.sampled_keys(options)?;
        let count = keys.len().max(1) as u64;
        let is_inside = |key: &Vec<u8>| {
            RangeBounds::<[u8]>::contains(&(from, to), key.as_slice()) && table.bounds.contains(key)
        };
        let inside = keys.iter().filter(|key| is_inside(key)).count() as u64;
        // A range between two samples holds something, too.
        Ok(table.size_bytes * inside.max(1) / count)
    }
}
