//! From a sealed arena to tables in level 0.
//!
//! Order: the frames' checksums are verified. The tables are written and synced, and their names
//! with the directory. One manifest edit adds the tables and retires the arena. Readers get the new
//! view. Only then is the arena recycled, because until the edit was durable it held the only copy.
//! Arenas are installed in the order of their generations: recovery takes frames from the last
//! number in tables on, and a younger arena's tables would hide an older one's frames from it.
//!
//! The oldest arena takes the youngest tables of level 0 along if they are tiny
//! ([`tiny_tables`](terrace_lsm::compaction::tiny_tables)): the same edit lists one table in their place.

use std::sync::Arc;

use terrace_lsm::compaction::drop_rules::{DropRules, Keys};
use terrace_lsm::compaction::merge::merge;
use terrace_lsm::compaction::slices::{Slice, table_bytes_within};
use terrace_lsm::compaction::table_ends::TableEnds;
use terrace_lsm::levels::{Edit, TableAdded, TableMeta};
use terrace_lsm::range_tombstones::RangeTombstones;
use terrace_lsm::sync::Instant;
use terrace_lsm::sync::atomic::{AtomicBool, Ordering};
use terrace_lsm::time_profile::{Path, Stage, enter_stage};
use terrace_region::Placement;
use terrace_storage::Purpose;

use crate::db::Store;
use crate::db::ledger::Ledger;
use crate::db::owners::{Files, Metrics};
use crate::db::recover::TakenArena;
use crate::db::table_files::{Expected, NewFiles, TableFiles};
use crate::db::taken_along::{Along, TakenAlong};
use crate::db::write::Writer;
use crate::event::EventKind;
use crate::write_buffer::memtable::MemTable;
use crate::{KeyspaceId, Result, SequenceNumber, parallel};

/// The sources of a flush, oldest first.
#[derive(Clone, Copy)]
pub(crate) enum ToFlush<'a> {
    /// MemTables that readers may have.
    Held(&'a [Arc<MemTable>]),
    /// Arenas that an opening found. Each is loaded, written and dropped before the next one.
    Found(&'a [TakenArena]),
}

impl ToFlush<'_> {
    fn len(&self) -> usize {
        match self {
            ToFlush::Held(memtables) => memtables.len(),
            ToFlush::Found(arenas) => arenas.len(),
        }
    }

    fn held(&self) -> &[Arc<MemTable>] {
        match self {
            ToFlush::Held(memtables) => memtables,
            ToFlush::Found(_) => &[],
        }
    }

    /// Returns the bytes of frames in each.
    fn frame_bytes(&self) -> Vec<u64> {
        match self {
            ToFlush::Held(memtables) => {
                let ends = memtables.iter().map(|table| table.arena().end_bytes());
                ends.map(|end| end as u64).collect()
            }
            ToFlush::Found(arenas) => arenas.iter().map(TakenArena::frame_bytes).collect(),
        }
    }
}

/// The tables that a flush wrote, and their bytes.
#[derive(Clone, Copy)]
struct Totals {
    tables: usize,
    bytes: u64,
}

impl Totals {
    fn of(tables: &[Vec<TableMeta>]) -> Self {
        let tables = tables.iter().flatten();
        Totals {
            tables: tables.clone().count(),
            bytes: tables.map(|table| table.size_bytes).sum(),
        }
    }
}

impl Store {
    /// Takes the flush worker's step: the oldest sealed arena goes to tables.
    pub(crate) fn flush_step(&self) -> Result<bool> {
        self.check_poison()?;
        let flushed = self.with_reserve(|| self.flush_oldest());
        if flushed.as_ref().is_err_and(|error| error.is_no_space()) {
            self.met_full_disk();
        }
        if let Ok(true) = flushed {
            // Not before this thread has dropped the flushed arena: a spare takes its slot.
            self.lifecycle.background.spare_wanted(self);
            self.lifecycle.background.compaction_wanted(self);
        }
        self.lifecycle.background.deletion_wanted(self);
        flushed
    }

    fn flush_oldest(&self) -> Result<bool> {
        let view = self.reads.view.load_full();
        let [_, .., oldest] = view.memtables.as_slice() else {
            return Ok(false);
        };
        if self.writes.persist_on_seal.load(Ordering::Relaxed) {
            // Ahead of the next `sync`, which must not find older arenas unpersisted.
            for sealed in view.memtables.iter().skip(1).rev() {
                let persisted = sealed.arena().persist();
                persisted.map_err(|error| self.persist_failed(error))?;
            }
        }
        let flushed_sequence = oldest.last_sequence();
        let generation = oldest.arena().generation();
        self.flush_all(
            ToFlush::Held(std::slice::from_ref(oldest)),
            vec![generation],
            flushed_sequence,
        )?;
        Ok(true)
    }

    /// Writes MemTables, oldest first, to tables, installs them with one edit that retires
    /// `generations`, and recycles the arenas. Every number up to `last_sequence` is then in tables.
    pub(crate) fn flush_all(
        &self,
        memtables: ToFlush<'_>,
        generations: Vec<u64>,
        last_sequence: SequenceNumber,
    ) -> Result<()> {
        let frame_bytes = memtables.frame_bytes();
        let oldest_bytes = frame_bytes.first().copied().unwrap_or(0);
        let most_bytes = self.most_bytes_along(oldest_bytes, frame_bytes.iter().sum());
        let flushed = self.flush_with(memtables, generations.clone(), last_sequence, most_bytes);
        match flushed {
            // Tables that go along take space until the edit.
            Err(error) if error.is_no_space() && most_bytes > 0 => {
                self.flush_with(memtables, generations, last_sequence, 0)
            }
            flushed => flushed,
        }
    }

    /// Does the same as `flush_all`. Tiny tables of at most `most_bytes` go along.
    pub(crate) fn flush_with(
        &self,
        memtables: ToFlush<'_>,
        generations: Vec<u64>,
        last_sequence: SequenceNumber,
        most_bytes: u64,
    ) -> Result<()> {
        let arenas = memtables.len();
        if arenas > 0 {
            self.metrics.events.record(EventKind::FlushBegun { arenas });
        }
        let _watched = (arenas > 0).then(|| {
            self.metrics
                .time_profile
                .watch(Path::Flush, Stage::ArenaChecksums)
        });
        let began = Instant::now();
        let mut files = Vec::new();
        let mut along = Along::new(most_bytes);
        let written = self.write_tables(memtables, &mut files, &mut along);
        enter_stage(Stage::Install);
        let installed = written.and_then(|tables| {
            let totals = Totals::of(&tables);
            self.install_flush(memtables, tables, &along.taken, generations, last_sequence)?;
            Ok(totals)
        });
        for files in files {
            // The outcome is the same for all; each only keeps or removes its own.
            let _ = self.settle_files(files, installed.clone());
        }
        self.metrics.count_flush(arenas, installed?, began);
        self.free_arenas(memtables.held());
        self.reads.release_sources();
        Ok(())
    }

    /// Lists the tables of a flush by one edit, and shows them to readers in place of their MemTables.
    fn install_flush(
        &self,
        memtables: ToFlush<'_>,
        tables: Vec<Vec<TableMeta>>,
        taken: &[TakenAlong<'_>],
        generations: Vec<u64>,
        last_sequence: SequenceNumber,
    ) -> Result<()> {
        let mut ledger = self.manifest_log.ledger.lock();
        let (listed, unlisted) = split_off_dropped(&ledger, tables);
        let names = self
            .compactor
            .next_sub_level
            .fetch_add(listed.len() as u64, Ordering::Relaxed);
        let edit = flush_edit(&ledger, names, listed, taken, generations, last_sequence);
        self.record(&mut ledger, edit)?;
        self.show_flush(&ledger, memtables.held());
        for table in unlisted {
            self.files.remove_unlisted(table.placed(), table.size_bytes);
        }
        Ok(())
    }

    /// Gives readers the version of the ledger, without the MemTables that it has in tables.
    fn show_flush(&self, ledger: &Ledger, flushed: &[Arc<MemTable>]) {
        let version = Arc::clone(&ledger.state.version);
        let flushed_sequence = ledger.state.flushed_sequence;
        self.change_view(|view| {
            view.version = version;
            view.flushed_sequence = flushed_sequence;
            let is_flushed = |table: &Arc<MemTable>| {
                let mut flushed = flushed.iter();
                flushed.any(|flushed| Arc::ptr_eq(flushed, table))
            };
            view.memtables.retain(|table| !is_flushed(table));
        });
    }

    /// Pins flushed MemTables for the readers that have them, and recycles their arenas.
    fn free_arenas(&self, flushed: &[Arc<MemTable>]) {
        for table in flushed {
            self.reads.pins.flushed(table);
        }
        // An opening recycles its slots itself: they may be in another directory, and are open.
        for table in flushed {
            self.writes.recycle(table.arena().slot());
        }
    }

    /// Writes one table for each keyspace that each MemTable touches, and syncs it with its name.
    /// Several MemTables are there at the close of a store whose region keeps nothing: the caller
    /// waits, so they are written side by side. Arenas found by an opening are not in memory: one
    /// after the other.
    fn write_tables<'a>(
        &'a self,
        memtables: ToFlush<'_>,
        files: &mut Vec<NewFiles>,
        along: &mut Along<'a>,
    ) -> Result<Vec<Vec<TableMeta>>> {
        self.check_directory_is_there()?;
        let written = match memtables {
            ToFlush::Held(memtables) => self.write_side_by_side(memtables, files, along)?,
            ToFlush::Found(arenas) => self.write_one_by_one(arenas, files, along)?,
        };
        for files in files.iter_mut() {
            files.sync()?;
        }
        if !files.is_empty() {
            let tiers = files.iter().flat_map(NewFiles::tiers);
            self.files.data.sync_tiers(tiers)?;
        }
        Ok(written)
    }

    fn write_one_by_one<'a>(
        &'a self,
        arenas: &[TakenArena],
        files: &mut Vec<NewFiles>,
        along: &mut Along<'a>,
    ) -> Result<Vec<Vec<TableMeta>>> {
        let mut written = Vec::with_capacity(arenas.len());
        for (at, arena) in arenas.iter().enumerate() {
            let memtable = arena.load(Placement::Memory)?;
            // As in `write_side_by_side`.
            let along = (at == 0).then_some(&mut *along);
            written.push(self.write_tables_of(&memtable, files, along)?);
        }
        Ok(written)
    }

    fn write_side_by_side<'a>(
        &'a self,
        memtables: &[Arc<MemTable>],
        files: &mut Vec<NewFiles>,
        along: &mut Along<'a>,
    ) -> Result<Vec<Vec<TableMeta>>> {
        let Some((oldest, younger)) = memtables.split_first() else {
            return Ok(Vec::new());
        };
        // No older arena waits for a flush, so the oldest follows level 0 in age.
        if younger.is_empty() {
            return Ok(vec![self.write_tables_of(oldest, files, Some(along))?]);
        }
        let threads = parallel::threads(&self.options);
        let all = parallel::map("write tables", memtables, threads, |memtable| {
            let mut files = Vec::new();
            let tables = self.write_tables_of(memtable, &mut files, None);
            (tables, files)
        })?;
        let mut written = Vec::with_capacity(all.len());
        for (tables, of_one) in all {
            files.extend(of_one);
            written.push(tables);
        }
        written.into_iter().collect()
    }

    /// Writes a MemTable's tables. Takes tiny tables along if the caller asks for a list of them.
    fn write_tables_of<'a>(
        &'a self,
        memtable: &Arc<MemTable>,
        files: &mut Vec<NewFiles>,
        mut along: Option<&mut Along<'a>>,
    ) -> Result<Vec<TableMeta>> {
        let snapshots = self.reads.snapshots.stripes(|| self.reads.visible());
        // Again, behind the last one's tables.
        enter_stage(Stage::ArenaChecksums);
        memtable
            .arena()
            .verify()
            .map_err(|error| self.region_error(error))?;
        let mut tables = Vec::new();
        let version = Arc::clone(&self.reads.view.load().version);
        enter_stage(Stage::Sort);
        let keyspaces = memtable.keyspaces();
        enter_stage(Stage::Merging);
        for keyspace in keyspaces {
            // Entries of a keyspace that has been dropped go nowhere.
            let Some(levels) = version.keyspace(keyspace) else {
                continue;
            };
            if let Some(along) = along.as_deref_mut()
                && let Some((merged, merged_files)) =
                    self.write_along(memtable, keyspace, &snapshots, along)?
            {
                tables.extend(merged);
                files.push(merged_files);
                continue;
            }
            // The name and the age that the edit gives it may be others: only the level counts here.
            let name = self.compactor.next_sub_level.load(Ordering::Relaxed);
            let place = self
                .manifest_log
                .ledger
                .lock()
                .state
                .next_flush_place(keyspace, name);
            let table_bytes = self.files.flushed_table_bytes();
            let expected = Expected::of_flush(memtable.arena().end_bytes() as u64, table_bytes);
            let mut sink = self
                .table_files(levels, place, Purpose::Flush, expected)
                .with_oldest_tombstone(Some(self.lifecycle.clock.unix_seconds()));
            let merged = write_memtable(memtable, keyspace, &snapshots, table_bytes, &mut sink);
            files.push(sink.into_files());
            tables.extend(merged?);
        }
        Ok(tables)
    }

    /// Seals the active arena, although it is not full.
    pub(crate) fn seal_active(&self, writer: &mut Writer) -> Result<()> {
        let fresh = match self.take_spare() {
            // The flush makes room.
            Err(error) if error.is_no_space() => {
                self.met_full_disk();
                self.with_reserve(|| self.smallest_arena(0, 0))?
            }
            spare => MemTable::new(
                spare?,
                self.options.arena_index_bytes(),
                self.writes.hash_seed,
            ),
        };
        self.roll_over(writer, Arc::new(fresh))
    }

    /// Flushes everything acknowledged so far and waits for it.
    pub(crate) fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let sealed = self.as_leader(|writer| {
            if writer.active.is_empty() {
                return Ok(None);
            }
            // Not the MemTable itself: a thread that holds it keeps its slot from the next spare.
            let sealed = writer.active.arena().generation();
            self.seal_active(writer)?;
            Ok(Some(sealed))
        })?;
        let waits = || {
            let view = self.reads.view.load();
            match sealed {
                Some(sealed) => view
                    .memtables
                    .iter()
                    .any(|table| table.arena().generation() == sealed),
                None => view.memtables.len() > 1,
            }
        };
        while waits() {
            let waited = self.lifecycle.background.wait_for_flush(self);
            self.lifecycle.check_process()?;
            waited?;
            self.check_writable()?;
        }
        Ok(())
    }
}

impl Metrics {
    /// Counts an installed flush, and records an event unless it had no arena.
    fn count_flush(&self, arenas: usize, written: Totals, began: Instant) {
        if arenas > 0 {
            self.latencies.flush.record(began.elapsed());
            self.events.record(EventKind::FlushEnded {
                arenas,
                tables: written.tables,
                written_bytes: written.bytes,
            });
        }
        self.counters
            .flushes
            .fetch_add(arenas as u64, Ordering::Relaxed);
    }
}

impl Files {
    /// Returns the maximum bytes of a table of a flush: one takes all, unless space is short.
    pub(crate) fn flushed_table_bytes(&self) -> u64 {
        let free_bytes = self.largest_room_bytes(true);
        table_bytes_within(u64::MAX, free_bytes.unwrap_or(u64::MAX))
    }
}

/// Writes a keyspace's entries of a MemTable.
pub(crate) fn write_memtable(
    memtable: &Arc<MemTable>,
    keyspace: KeyspaceId,
    snapshots: &[SequenceNumber],
    table_bytes: u64,
    sink: &mut TableFiles<'_>,
) -> Result<Vec<TableMeta>> {
    // A flush sees one arena; the layers below may hold older versions.
    let older = |_: Keys<'_>| true;
    let ranges = RangeTombstones::new(memtable.range_list(keyspace));
    let rules = DropRules::new(snapshots, &older, &ranges);
    let never = AtomicBool::new(false);
    let mut versions = memtable.cursor(keyspace);
    merge(
        &mut versions,
        &Slice::ALL,
        rules,
        TableEnds::at_size(table_bytes),
        &never,
        sink,
    )
}

/// Splits off the tables of keyspaces that were dropped while the tables were written.
fn split_off_dropped(
    ledger: &Ledger,
    flushed: Vec<Vec<TableMeta>>,
) -> (Vec<Vec<TableMeta>>, Vec<TableMeta>) {
    let is_dropped = |table: &TableMeta| ledger.state.version.keyspace(table.keyspace).is_none();
    let (mut listed, mut unlisted) = (Vec::new(), Vec::new());
    for tables in flushed {
        let (of_dropped, tables): (Vec<_>, Vec<_>) = tables.into_iter().partition(is_dropped);
        listed.push(tables);
        unlisted.extend(of_dropped);
    }
    (listed, unlisted)
}

/// Returns the edit of a flush. Each MemTable's tables form a sub-level of their keyspace, younger
/// than all before. The first one has the name `names`. MemTables with tables taken along replace
/// these tables.
fn flush_edit(
    ledger: &Ledger,
    names: u64,
    tables: Vec<Vec<TableMeta>>,
    taken: &[TakenAlong<'_>],
    generations: Vec<u64>,
    last_sequence: SequenceNumber,
) -> Edit {
    let mut edit = Edit {
        arenas_retired: generations,
        flushed_sequence: Some(last_sequence.max(ledger.state.flushed_sequence)),
        ..Edit::default()
    };
    for (above, tables) in (0..).zip(tables) {
        for table in tables {
            let name = names + above;
            let mut place = ledger.state.next_flush_place(table.keyspace, name);
            place.age += above;
            let mut taken = taken.iter().filter(|_| above == 0);
            if let Some(taken) = taken.find(|taken| taken.keyspace == table.keyspace) {
                place = taken.choice.output;
            }
            edit.tables_added.push(TableAdded { place, table });
        }
    }
    // Except those of a keyspace that was dropped meanwhile.
    let is_listed =
        |taken: &&TakenAlong<'_>| ledger.state.version.keyspace(taken.keyspace).is_some();
    let removed = taken.iter().filter(is_listed).flat_map(TakenAlong::removed);
    edit.tables_removed.extend(removed);
    edit
}
