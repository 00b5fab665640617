//! The read path, top to bottom: the read buffer, MemTables from the youngest, then the levels from
//! the top, in each the sub-levels from the youngest. The first version found at or below the
//! reader's number is the newest there is, because ages order everything. A deleted range is a
//! version of every key in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_lsm::block_value::TableValue;
use terrace_lsm::fold::Step;
use terrace_lsm::key::{Kind, MAX_SEQUENCE, Tag};
use terrace_lsm::levels::{KeyspaceLevels, OpenTable, SubLevelCursor, Table};
use terrace_lsm::range_tombstones::RangeTombstones;
use terrace_lsm::read_point::ReadPoint;
use terrace_lsm::table::{CursorOptions, TableCursor, TableReader, key_hash};
use terrace_lsm::time_profile::{Path, Sampling, Stage, enter_stage, sample};

use crate::db::Store;
use crate::db::keyspaces::live;
use crate::db::owners::Files;
use crate::db::range_cover::Ranges;
use crate::db::snapshot::Snapshot;
use crate::db::sources::{Layer, Layers, MakeLayer, Source};
use crate::db::value::Value;
use crate::db::view::View;
use crate::write_buffer::memtable::{MemTable, ValuePlace};
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// Values up to this size are copied out of an arena: cheaper than sharing it.
const COPIED_VALUE_BYTES: u32 = 4 << 10;

/// Options of a read.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
/// use terrace::ReadOptions;
/// let before = db.snapshot();
/// db.put(b"key", b"value")?;
/// assert!(db.get_with(b"key", &ReadOptions::at(&before))?.is_none());
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The state to read. Default (`None`): as of the call.
    pub snapshot: Option<Snapshot>,
    /// Keep what has to be read from a table in memory. Default: true.
    pub fill_cache: bool,
    /// Read tables' blocks from their files and check them again, although they are in memory, to
    /// learn of damage that came after they were read. Default: false. (A block that is read from
    /// its file is always checked; this option is about the others.)
    pub verify: bool,
    /// Answer from memory, or fail with [`Error::WouldBlock`] where a table would have to be read. Default:
    /// false. For callers that must not wait for a device: an event loop, a thread with a lock. New writes
    /// lie in memory, but those in a mapped arena may have to be paged in. With `verify` no table answers.
    pub memory_only: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            snapshot: None,
            fill_cache: true,
            verify: false,
            memory_only: false,
        }
    }
}

impl ReadOptions {
    /// Reads the state that a snapshot holds.
    pub fn at(snapshot: &Snapshot) -> Self {
        ReadOptions {
            snapshot: Some(snapshot.clone()),
            ..ReadOptions::default()
        }
    }

    pub(crate) fn of_tables(&self) -> CursorOptions {
        let mut options = CursorOptions::of_reader(self.fill_cache, self.verify);
        options.memory_only = self.memory_only;
        options
    }
}

/// The key that a read looks for.
pub(crate) struct Lookup<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    /// One hash serves the read buffer, the indexes of MemTables and the filters of tables.
    pub(crate) hash: u64,
    /// The reader's snapshot; or a number that was visible before the view was loaded. That view
    /// has all changes up to it that wrote no records (an ingest, say).
    pub(crate) began_at: SequenceNumber,
}

impl Store {
    /// Returns the value of a key as of `options.snapshot`, or now. A few gets are timed, and a few
    /// watched.
    pub(crate) fn get(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Value>> {
        match sample() {
            Sampling::Nothing => self.find(keyspace, key, options, &mut 0),
            sampled => self.get_sampled(keyspace, key, options, sampled),
        }
    }

    #[cold]
    fn get_sampled(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: &ReadOptions,
        sampled: Sampling,
    ) -> Result<Option<Value>> {
        let mut asked = 0;
        if sampled == Sampling::Watched {
            let _watched = self
                .metrics
                .time_profile
                .watch(Path::Get, Stage::ReadBuffer);
            return self.find(keyspace, key, options, &mut asked);
        }
        let get = || self.find(keyspace, key, options, &mut asked);
        let found = self.metrics.latencies.get.time(get);
        self.metrics
            .counters
            .sampled_gets
            .fetch_add(1, Ordering::Relaxed);
        self.metrics
            .counters
            .tables_asked
            .fetch_add(asked, Ordering::Relaxed);
        found
    }

    /// Finds the value of a key. `asked` counts the tables whose filters were asked.
    fn find(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: &ReadOptions,
        asked: &mut u64,
    ) -> Result<Option<Value>> {
        self.lifecycle.check_open()?;
        if let Some(snapshot) = &options.snapshot {
            self.reads.check_snapshot(snapshot)?;
        }
        let held = options.snapshot.as_ref().map(Snapshot::read_point);
        let lookup = self.lookup(keyspace, key, held.map(ReadPoint::sequence));
        if !options.verify
            && let Some(found) = self.reads.get_buffered(&lookup)
        {
            return Ok(found);
        }
        enter_stage(Stage::MemTables);
        let view = self.reads.view.load();
        // After the view: see its invariant.
        let point = held.unwrap_or_else(|| ReadPoint::at(self.reads.visible()));
        self.get_in(&view, &lookup, point, options, asked)
    }

    /// Returns the lookup of a key. To be made before the view is loaded.
    pub(crate) fn lookup<'a>(
        &self,
        keyspace: KeyspaceId,
        key: &'a [u8],
        snapshot: Option<SequenceNumber>,
    ) -> Lookup<'a> {
        Lookup {
            keyspace,
            key,
            hash: key_hash(key, self.writes.hash_seed),
            began_at: snapshot.unwrap_or_else(|| self.reads.visible()),
        }
    }

    /// Returns the value of a key as of `point`. The writes up to it are visible in `view`.
    pub(crate) fn get_in(
        &self,
        view: &View,
        lookup: &Lookup<'_>,
        point: ReadPoint,
        options: &ReadOptions,
        asked: &mut u64,
    ) -> Result<Option<Value>> {
        let &Lookup {
            keyspace,
            key,
            hash,
            ..
        } = lookup;
        let levels = live(&view.version, keyspace)?;
        // One that is empty has nothing up to `point`: records are counted before they are visible.
        for table in view.memtables.iter().filter(|table| !table.is_empty()) {
            if let Some((tag, place)) = table.get(keyspace, key, hash, point.sequence()) {
                return self.value_in_memtable(table, tag, place, point);
            }
        }
        enter_stage(Stage::Filters);
        let options = options.of_tables();
        let Some((tag, value)) = self
            .files
            .get_in_levels(levels, key, hash, point, options, asked)?
        else {
            return Ok(None);
        };
        let file = || self.files.file_with(levels, lookup, point, options);
        let is_value = self.folds_to_value(tag, &mut { point }, || &value, file)?;
        let value = is_value.then_some(value);
        if options.fill_cache {
            self.fill_buffer(lookup, tag, value.as_deref());
        }
        Ok(value.map(Value::in_block))
    }

    fn value_in_memtable(
        &self,
        table: &Arc<MemTable>,
        tag: Tag,
        place: ValuePlace,
        point: ReadPoint,
    ) -> Result<Option<Value>> {
        let file = || Some(table.arena().file().to_path_buf());
        if !self.folds_to_value(tag, &mut { point }, || table.value(place), file)? {
            return Ok(None);
        }
        enter_stage(Stage::ValueCopy);
        let pinned = place.length_bytes > COPIED_VALUE_BYTES && self.reads.pins.within_budget();
        Ok(Some(if pinned {
            Value::in_arena(table, place)
        } else {
            Value::copied(table.value(place))
        }))
    }

    /// Returns whether the newest version for a reader, which lies in `file`, is a value.
    pub(crate) fn folds_to_value<'v>(
        &self,
        tag: Tag,
        point: &mut ReadPoint,
        value: impl FnOnce() -> &'v [u8],
        file: impl FnOnce() -> Option<PathBuf>,
    ) -> Result<bool> {
        let clock = &*self.lifecycle.clock;
        let step = |kind: Kind| kind.step_at(point, clock, value);
        match tag.kind().and_then(step) {
            Some(Step::Value) => Ok(true),
            Some(Step::Nothing) => Ok(false),
            None => Err(Error::unsupported(
                file().as_deref().unwrap_or(&self.files.path),
                match tag.kind() {
                    Some(kind) => format!("a record of kind {kind:?}"),
                    None => format!("a record of kind {}", tag.0 as u8),
                },
            )),
        }
    }
}

impl Files {
    /// Returns all versions of a keyspace in order, with deleted ranges: those of the layers `on_top`, of
    /// MemTables and of every sub-level, merged. The caller's read point is older than the view.
    pub(crate) fn source(
        &self,
        view: Arc<View>,
        keyspace: KeyspaceId,
        options: CursorOptions,
        on_top: &[MakeLayer],
    ) -> Result<Source> {
        let levels = live(&view.version, keyspace)?;
        let mut layers = Layers::new(on_top);
        let first_arena = layers.len();
        for table in view.memtables.iter().filter(|table| !table.is_empty()) {
            layers.push(Layer {
                ranges: Ranges::of_sets(table.range_tombstones(keyspace)),
                cursor: Box::new(table.cursor(keyspace)),
            });
        }
        let arenas = first_arena..layers.len();
        for (_, sub_level) in levels.sub_levels() {
            layers.push(Layer {
                ranges: Ranges::of_sub_level(sub_level),
                cursor: Box::new(SubLevelCursor::new(sub_level, self.opener(options))),
            });
        }
        Ok(layers.into_source(view, arenas))
    }
}

impl Files {
    /// Returns the table in which a lookup ends, for messages.
    #[cold]
    fn file_with(
        &self,
        levels: &KeyspaceLevels,
        lookup: &Lookup<'_>,
        point: ReadPoint,
        options: CursorOptions,
    ) -> Option<PathBuf> {
        levels.tables_for_key(lookup.key).find_map(|table| {
            let open = self.open_for(table, options).ok()?;
            let found = get_in_table(table, &open, lookup.key, lookup.hash, point, options);
            found.ok()??;
            Some(open.path().to_path_buf())
        })
    }

    /// Returns a table's file, opened if the reader may wait for that.
    #[inline]
    fn open_for<'a>(&self, table: &'a Table, options: CursorOptions) -> Result<OpenTable<'a>> {
        match options.memory_only {
            false => table.open(&self.tables),
            true => table.if_open(&self.tables).ok_or(Error::WouldBlock),
        }
    }

    #[inline]
    fn get_in_levels(
        &self,
        levels: &KeyspaceLevels,
        key: &[u8],
        hash: u64,
        point: ReadPoint,
        options: CursorOptions,
        asked: &mut u64,
    ) -> Result<Option<(Tag, TableValue)>> {
        for table in levels.tables_for_key(key) {
            let open = self.open_for(table, options)?;
            *asked += 1;
            // Only a table that is listed with range tombstones is asked for them.
            let deleted = match table.range_tombstones {
                0 => None,
                _ => newest_range(&open, key, point.sequence()),
            };
            let found = get_in_table(table, &open, key, hash, point, options)?;
            match (found, deleted) {
                (Some((tag, _)), Some(deleted)) if tag.sequence() < deleted => return Ok(None),
                (Some(found), _) => return Ok(Some(found)),
                (None, Some(_)) => return Ok(None),
                (None, None) => {}
            }
        }
        Ok(None)
    }

    /// Opens cursors over tables, for sub-levels.
    pub(crate) fn opener(
        &self,
        options: CursorOptions,
    ) -> impl FnMut(&Arc<Table>) -> Result<TableCursor> + Send + use<> {
        let tables = Arc::clone(&self.tables);
        move |table| {
            let cursor = table.open(&tables)?.cursor(options);
            Ok(cursor.with_assigned(table.assigned_sequence()))
        }
    }

    /// Reads the range tombstones of tables, for checks.
    pub(crate) fn range_reader(
        &self,
    ) -> impl FnMut(&Arc<Table>) -> Result<Option<Arc<RangeTombstones>>> + use<> {
        let tables = Arc::clone(&self.tables);
        move |table| Ok(table.open(&tables)?.range_tombstones().cloned())
    }
}

/// Returns the number of a table's newest range tombstone over a key. The key lies within the
/// table's bounds, outside of which its tombstones do not count.
#[cold]
pub(crate) fn newest_range(
    table: &TableReader,
    key: &[u8],
    snapshot: SequenceNumber,
) -> Option<SequenceNumber> {
    let ranges = table.range_tombstones()?;
    let newest = ranges.newest_covering(key, snapshot);
    newest.map(|newest| newest.sequence)
}

/// Returns the newest version of a key that one table has for a reader.
pub(crate) fn get_in_table(
    table: &Table,
    open: &TableReader,
    key: &[u8],
    hash: u64,
    point: ReadPoint,
    options: CursorOptions,
) -> Result<Option<(Tag, TableValue)>> {
    match table.assigned_sequence() {
        None => open.get(key, hash, point.sequence(), options),
        Some(sequence) if sequence > point.sequence() => Ok(None),
        Some(sequence) => {
            let found = open.get(key, hash, MAX_SEQUENCE, options)?;
            Ok(found.map(|(tag, value)| (tag.with_sequence(sequence), value)))
        }
    }
}
