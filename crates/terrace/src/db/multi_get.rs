//! Many keys at once, at one number. They go in key order, so that keys of one block find it at
//! hand. The device works on all blocks while the first ones are awaited.

use std::sync::Arc;

use terrace_lsm::table::{CursorOptions, TableReader, Unread};

use crate::db::Store;
use crate::db::owners::Files;
use crate::db::read::{Lookup, ReadOptions};
use crate::db::value::Value;
use crate::db::view::View;
use crate::{KeyspaceId, Result};

impl Store {
    /// Returns the values of keys, in the order of the keys given, all as of one moment.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: KeyspaceId,
        keys: &[K],
        options: &ReadOptions,
    ) -> Result<Vec<Option<Value>>> {
        self.lifecycle.check_open()?;
        if let Some(snapshot) = &options.snapshot {
            self.reads.check_snapshot(snapshot)?;
        }
        // Registered before the view is loaded: every later view has all that it sees.
        let snapshot = options.snapshot.clone().unwrap_or_else(|| self.snapshot());
        let point = snapshot.read_point();
        let mut values: Vec<Option<Value>> = keys.iter().map(|_| None).collect();
        let mut pending = Vec::new();
        for (key, value) in keys.iter().zip(&mut values) {
            let lookup = self.lookup(keyspace, key.as_ref(), Some(point.sequence()));
            match self.reads.get_buffered(&lookup).filter(|_| !options.verify) {
                Some(found) => *value = found,
                None => pending.push((lookup, value)),
            }
        }
        pending.sort_by(|(a, _), (b, _)| a.key.cmp(b.key));
        let view = self.reads.view.load();
        if pending.len() > 1 && !options.verify && !options.memory_only {
            let lookups = pending.iter().map(|(lookup, _)| lookup);
            // A hint: a read that fails shows its error where the block is needed.
            let _ = self.files.start_reads(&view, lookups, options.of_tables());
        }
        for (lookup, value) in pending {
            *value = self.get_in(&view, &lookup, point, options, &mut 0)?;
        }
        Ok(values)
    }
}

impl Files {
    /// Lets the device begin with every block that is in neither cache. A guess for each key: the
    /// first table whose filter does not rule it out. If the first block is in the page cache, the
    /// others are taken to be there, too.
    fn start_reads<'a>(
        &self,
        view: &View,
        lookups: impl Iterator<Item = &'a Lookup<'a>>,
        options: CursorOptions,
    ) -> Result<()> {
        let mut last: Option<(Arc<TableReader>, Unread)> = None;
        for lookup in lookups {
            let Some((table, unread)) = self.unread_block(view, lookup, options)? else {
                continue;
            };
            let is_same = |(other, block): &(Arc<TableReader>, Unread)| {
                Arc::ptr_eq(other, &table) && *block == unread
            };
            if last.as_ref().is_some_and(is_same) {
                continue;
            }
            let is_first = last.is_none();
            if !table.start_read(unread) && is_first {
                return Ok(());
            }
            last = Some((table, unread));
        }
        Ok(())
    }

    fn unread_block(
        &self,
        view: &View,
        lookup: &Lookup<'_>,
        options: CursorOptions,
    ) -> Result<Option<(Arc<TableReader>, Unread)>> {
        let levels = view.version.keyspace(lookup.keyspace).into_iter();
        for table in levels.flat_map(|levels| levels.tables_for_key(lookup.key)) {
            let open = table.open(&self.tables)?;
            if !open.may_contain(lookup.hash) {
                continue;
            }
            let unread = open.unread_block(lookup.key, lookup.hash, lookup.began_at, options)?;
            return Ok(unread.map(|unread| (Arc::clone(&open), unread)));
        }
        Ok(None)
    }
}
