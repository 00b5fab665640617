//! The read path, top to bottom: MemTables from the youngest, then the levels from the top, in
//! each the sub-levels from the youngest. The first version found at or below the reader's number
//! is the newest there is, because ages order everything.

use std::sync::Arc;

use terrace_storage::Purpose;

use crate::compaction::Versions;
use crate::cursor::Cursor;
use crate::db::Store;
use crate::db::value::Value;
use crate::db::view::View;
use crate::key::{Kind, Tag};
use crate::levels::{SubLevelCursor, Table, Version};
use crate::table::{CursorOptions, TableCursor, TableValue, key_hash};
use crate::write_buffer::memtable::{MemTable, ValuePlace};
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// Values up to this size are copied out of an arena: cheaper than sharing it.
const COPIED_VALUE_BYTES: u32 = 4 << 10;

impl Store {
    /// The value of a key as of `snapshot`, or now.
    pub(crate) fn get(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
    ) -> Result<Option<Value>> {
        self.check_open()?;
        let view = self.view.load();
        // After the view: see its invariant.
        let snapshot = snapshot.unwrap_or_else(|| self.visible());
        // One hash serves the indexes of MemTables and the filters of tables.
        let hash = key_hash(key, self.hash_seed);
        // One that is empty has nothing up to `snapshot`: records are counted before they are visible.
        for table in view.memtables.iter().filter(|table| !table.is_empty()) {
            if let Some((tag, place)) = table.get(keyspace, key, hash, snapshot) {
                return self.value_in_memtable(table, tag, place);
            }
        }
        match self.get_in_levels(&view.version, keyspace, key, hash, snapshot)? {
            Some((tag, value)) => Ok(self.is_put(tag)?.then(|| Value::in_block(value))),
            None => Ok(None),
        }
    }

    fn get_in_levels(
        &self,
        version: &Version,
        keyspace: KeyspaceId,
        key: &[u8],
        hash: u64,
        snapshot: SequenceNumber,
    ) -> Result<Option<(Tag, TableValue)>> {
        let Some(levels) = version.keyspace(keyspace) else {
            return Ok(None);
        };
        for table in levels.tables_for_key(key) {
            let table = table.open(&self.tables)?;
            if let Some(found) = table.get(key, hash, snapshot, CursorOptions::user_read())? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn value_in_memtable(
        &self,
        table: &Arc<MemTable>,
        tag: Tag,
        place: ValuePlace,
    ) -> Result<Option<Value>> {
        if !self.is_put(tag)? {
            return Ok(None);
        }
        let pinned = place.length_bytes > COPIED_VALUE_BYTES && self.pins.within_budget();
        Ok(Some(if pinned {
            Value::in_arena(table, place)
        } else {
            Value::copied(table.value(place))
        }))
    }

    /// Whether the newest version is a value. The one place where kinds decide what is read.
    pub(crate) fn is_put(&self, tag: Tag) -> Result<bool> {
        match tag.kind() {
            Some(Kind::Put) => Ok(true),
            Some(Kind::Delete) => Ok(false),
            kind => Err(Error::unsupported(
                &self.path,
                match kind {
                    Some(kind) => format!("a record of kind {kind:?}"),
                    None => format!("a record of kind {}", tag.0 as u8),
                },
            )),
        }
    }

    /// Opens cursors over tables, for sub-levels.
    pub(crate) fn opener(
        &self,
        options: CursorOptions,
    ) -> impl FnMut(&Arc<Table>) -> Result<TableCursor> + Send + use<> {
        let tables = Arc::clone(&self.tables);
        move |table| Ok(table.open(&tables)?.cursor(options))
    }

    /// All versions of a keyspace in order: MemTables and every sub-level, merged. The caller's
    /// snapshot is older than the view.
    pub(crate) fn versions(&self, view: &View, keyspace: KeyspaceId, fill_cache: bool) -> Versions {
        let options = CursorOptions {
            fill_cache,
            purpose: Purpose::Read,
        };
        let mut cursors: Vec<Box<dyn Cursor + Send>> = Vec::new();
        for table in view.memtables.iter().filter(|table| !table.is_empty()) {
            cursors.push(Box::new(table.cursor(keyspace)));
        }
        if let Some(levels) = view.version.keyspace(keyspace) {
            for (_, sub_level) in levels.sub_levels() {
                cursors.push(Box::new(SubLevelCursor::new(
                    sub_level,
                    self.opener(options),
                )));
            }
        }
        Versions::new(cursors)
    }
}
