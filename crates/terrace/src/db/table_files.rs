//! Tables being written, and written tables that no edit lists yet.

use std::sync::Arc;

use terrace_lsm::compaction::merge::TableSink;
use terrace_lsm::compaction::output::Output;
use terrace_lsm::compaction::placement::heat::HeatCut;
use terrace_lsm::data_files::{DataFiles, OWN_TIER, Placed, Stage};
use terrace_lsm::key::InternalKey;
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::{KeyspaceLevels, Place, TableMeta};
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};
use terrace_lsm::table::{TableOptions, TableTimes, TableWriter};
use terrace_storage::{File, Purpose};

use crate::db::Store;
use crate::db::owners::Files;
use crate::db::tiers::space::{Destination, Reservation, SpaceBook};
use crate::randomness::Randomness;
use crate::{KeyspaceId, Result, SequenceNumber};

/// Finished files that wait to be made durable together.
const MOST_UNSYNCED: usize = 4;
/// Most bytes that a table's sketches take, and its last block goes beyond the size of the table.
const MAX_BESIDE_BYTES: u64 = 16 << 10;
/// Least bytes that a table reserves in its tier: one of few entries has sketches and a footer, too.
const MIN_RESERVED_BYTES: u64 = 4 << 10;

/// Files that no edit names yet. Their holder settles them.
pub(crate) struct NewFiles {
    purpose: Purpose,
    /// Every file begun, each with its bytes once it is finished.
    begun: Vec<(Placed, u64)>,
    /// Those that are finished and not synced.
    unsynced: Vec<Arc<dyn File>>,
}

impl NewFiles {
    /// Makes the files durable. Their names are made so by syncing their directories.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for file in self.unsynced.drain(..) {
            file.sync(self.purpose)?;
        }
        Ok(())
    }

    /// Returns the tiers that the files lie in; without files the store's directory, since a sync there has
    /// btrfs give space back.
    pub(crate) fn tiers(&self) -> impl Iterator<Item = u8> {
        let own = self.begun.is_empty().then_some(OWN_TIER);
        let begun = self.begun.iter().map(|(placed, _)| placed.tier);
        begun.chain(own)
    }
}

/// The space that a job's tables are expected to take.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// Bytes of all together.
    pub(crate) bytes: u64,
    /// Bytes of the largest one.
    pub(crate) table_bytes: u64,
    /// Whether the job makes room, and may take what tiers reserve for that.
    pub(crate) makes_room: bool,
    /// The largest sequence number among their entries; `None` if these are new.
    pub(crate) max_sequence: Option<SequenceNumber>,
}

impl Expected {
    /// Returns the space of a flush, which makes its arena free.
    pub(crate) fn of_flush(bytes: u64, table_bytes: u64) -> Self {
        Expected {
            bytes,
            table_bytes,
            makes_room: true,
            max_sequence: None,
        }
    }
}

/// The tiers that new tables may go to, and the books in which they are entered.
struct Room {
    book: Arc<SpaceBook>,
    destination: Destination,
    /// The tiers of tables from these keys on, in their order, where they are not those of `destination`.
    from: Vec<(Vec<u8>, Vec<u8>)>,
    /// Tables that are still to be written.
    expected: Expected,
}

impl Room {
    /// Reserves the bytes of the next table, which begins at a key.
    fn reserve(&self, first_key: &[u8]) -> Result<Reservation> {
        let bytes = self.expected.table_bytes.min(self.expected.bytes);
        let bytes = bytes.max(MIN_RESERVED_BYTES);
        // Blocks, filter and sketches that the size of a table leaves out.
        let beside = MAX_BESIDE_BYTES.min(bytes / 2) + bytes / 16;
        let bytes = bytes.saturating_add(beside);
        let behind = self.from.partition_point(|(from, _)| **from <= *first_key);
        match behind.checked_sub(1).and_then(|at| self.from.get(at)) {
            None => self.book.reserve(&self.destination, bytes),
            Some((_, tiers)) => {
                let tiers = tiers.clone();
                let destination = Destination {
                    tiers,
                    ..self.destination
                };
                self.book.reserve(&destination, bytes)
            }
        }
    }
}

/// The place of new tables, and the settings that all tables of a store share.
#[derive(Clone, Copy)]
pub struct TableHome<'a> {
    /// The places of the tables.
    pub data: &'a DataFiles,
    /// The stage that the names of new tables show.
    pub stage: Stage,
    /// The next number of a table.
    pub next_table: &'a AtomicU64,
    /// The seed of the hashes in filters.
    pub hash_seed: u64,
    /// The source of identities.
    pub randomness: &'a Randomness,
    /// Whether files are written past the page cache.
    pub direct: bool,
    /// Entries from one whole key in a data block to the next.
    pub restart_interval: usize,
    /// Keys of a table whose filter takes as much memory as it may.
    pub max_filter_keys: u64,
}

impl Store {
    /// Returns the writer of tables for a place.
    pub(crate) fn table_files(
        &self,
        levels: &KeyspaceLevels,
        place: Place,
        purpose: Purpose,
        expected: Expected,
    ) -> TableFiles<'_> {
        let home = TableHome {
            data: &self.files.data,
            stage: Stage::Listed,
            next_table: &self.files.next_table,
            hash_seed: self.writes.hash_seed,
            randomness: &self.options.randomness,
            direct: self.options.direct_io,
            restart_interval: self.options.constants.restart_interval,
            max_filter_keys: self.options.max_filter_keys(),
        };
        let form = self.form_of(levels).clone();
        let output = Output::among(levels, &form, self.options.arena_bytes, place);
        let room = Room {
            book: Arc::clone(&self.files.space),
            destination: self.destination(levels, place.level, expected),
            from: Vec::new(),
            expected,
        };
        TableFiles {
            room: Some(room),
            times: self.files.times_of_levels(),
            ..TableFiles::new(home, levels.id, form, output, purpose)
        }
    }

    /// Removes the files if they were not installed. After a poisoned edit they stay: it is not
    /// known whether the manifest lists them.
    pub(crate) fn settle_files<T>(&self, files: NewFiles, installed: Result<T>) -> Result<T> {
        drop(files.unsynced);
        if installed.is_err() && self.lifecycle.poisoned().is_none() {
            for (placed, bytes) in files.begun {
                self.files.remove_unlisted(placed, bytes);
            }
        }
        installed
    }
}

impl Files {
    /// Removes a finished file of a keyspace that was dropped meanwhile.
    pub(crate) fn remove_unlisted(&self, placed: Placed, bytes: u64) {
        self.tables.remove(placed);
        if self.data.remove(placed, Stage::Listed).is_ok() {
            self.space.forget_file(placed, bytes);
        }
    }
}

/// Writes tables for one place of one keyspace.
pub struct TableFiles<'a> {
    home: TableHome<'a>,
    keyspace: KeyspaceId,
    form: KeyspaceOptions,
    output: Output,
    /// Time at which the oldest tombstone reached its first table, for tables with tombstones.
    oldest_tombstone_seconds: Option<u64>,
    /// `None` for a repair, whose tables go to the store's directory.
    room: Option<Room>,
    /// `None` for writes that are not timed.
    times: Option<Arc<dyn TableTimes>>,
    open: Option<(Placed, TableWriter)>,
    /// The bytes of the open table in its tier.
    reserved: Option<Reservation>,
    files: NewFiles,
}

impl<'a> TableFiles<'a> {
    /// Returns the writer of tables of one form.
    pub fn new(
        home: TableHome<'a>,
        keyspace: KeyspaceId,
        form: KeyspaceOptions,
        output: Output,
        purpose: Purpose,
    ) -> Self {
        TableFiles {
            home,
            keyspace,
            output,
            form,
            oldest_tombstone_seconds: None,
            room: None,
            times: None,
            open: None,
            reserved: None,
            files: NewFiles {
                purpose,
                begun: Vec::new(),
                unsynced: Vec::new(),
            },
        }
    }

    /// Returns the same, whose tables go to tiers by the reads of their keys.
    pub(crate) fn with_heat(
        mut self,
        store: &Store,
        levels: &KeyspaceLevels,
        cuts: &[HeatCut],
    ) -> Self {
        let level = self.output.place.level;
        if let Some(room) = &mut self.room {
            room.from = store.destinations_by_heat(levels, level, room.expected, cuts);
        }
        self
    }

    /// Returns the same, for tombstones of which the oldest reached its first table then.
    pub fn with_oldest_tombstone(self, seconds: Option<u64>) -> Self {
        TableFiles {
            oldest_tombstone_seconds: seconds,
            ..self
        }
    }

    /// Returns the same for tables of a level that is not known yet.
    pub(crate) fn untimed(self) -> Self {
        TableFiles {
            times: None,
            ..self
        }
    }

    /// Ends the writing: an unfinished table is removed.
    pub(crate) fn into_files(self) -> NewFiles {
        drop(self.open);
        self.files
    }

    /// Ends the writing and touches no file any more: the directory is not this store's.
    pub(crate) fn leave(self) {
        if let Some((_, writer)) = self.open {
            writer.leave();
        }
    }

    /// Returns the tiers that the files lie in.
    pub(crate) fn tiers(&self) -> impl Iterator<Item = u8> {
        self.files.tiers()
    }

    /// Makes the files durable. Their names are made so by syncing the directory.
    pub fn sync(&mut self) -> Result<()> {
        self.files.sync()
    }

    fn begin(&mut self, first_key: &[u8]) -> Result<&mut TableWriter> {
        if self.open.is_none() {
            let home = self.home;
            let number = home.next_table.fetch_add(1, Ordering::Relaxed);
            let form = &self.form;
            let options = TableOptions {
                block_bytes: form.block_bytes,
                restart_interval: home.restart_interval,
                compression: self.output.compression,
                filter: self.output.filter,
                hash_seed: home.hash_seed,
                identity: u128::from_le_bytes(home.randomness.bytes16()),
                keyspace: self.keyspace,
                age_hint: self.output.place.age,
                oldest_tombstone_seconds: self.oldest_tombstone_seconds,
                direct: home.direct,
                purpose: self.files.purpose,
            };
            let room = self.room.as_ref();
            let reserved = room.map(|room| room.reserve(first_key));
            let reserved = reserved.transpose()?;
            let tier = reserved.as_ref().map_or(OWN_TIER, Reservation::tier);
            let placed = Placed::table(number, tier);
            let (place, name) = home.data.place(placed, home.stage)?;
            let mut writer = TableWriter::create(place, name, options)?;
            if let Some(times) = &self.times {
                writer = writer.timed(self.output.place.level, Arc::clone(times));
            }
            // Not before: a file that was there is not this store's to remove.
            self.files.begun.push((placed, 0));
            self.reserved = reserved;
            self.open = Some((placed, writer));
        }
        match &mut self.open {
            Some((_, writer)) => Ok(writer),
            None => Err(crate::Error::Closed),
        }
    }
}

impl TableFiles<'_> {
    /// Enters a finished table into the books of its tier. Without room there its file is removed.
    fn enter(&mut self, placed: Placed, bytes: u64) -> Result<()> {
        let Some(reserved) = self.reserved.take() else {
            return Ok(());
        };
        if let Some(room) = &mut self.room {
            let expected = &mut room.expected;
            expected.bytes = expected.bytes.saturating_sub(bytes);
        }
        let entered = reserved.into_file(bytes);
        let noted = self.files.begun.iter_mut();
        for (_, noted_bytes) in noted.filter(|(begun, _)| *begun == placed) {
            *noted_bytes = if entered.is_ok() { bytes } else { 0 };
        }
        entered
    }
}

impl TableSink for TableFiles<'_> {
    type Table = TableMeta;

    fn add(
        &mut self,
        key: InternalKey<'_>,
        value: &[u8],
        range: Option<SequenceNumber>,
    ) -> Result<()> {
        self.begin(key.user_key)?.add_under(key, value, range)
    }

    fn add_range_tombstone(
        &mut self,
        start: &[u8],
        end: &[u8],
        sequence: SequenceNumber,
    ) -> Result<()> {
        self.begin(start)?.add_range_tombstone(start, end, sequence)
    }

    /// A table with as many keys as its filter may have is a full one.
    fn table_bytes(&self) -> u64 {
        let Some((_, writer)) = &self.open else {
            return 0;
        };
        let by_keys = writer.filter_keys().saturating_mul(self.form.table_bytes);
        let by_keys = by_keys / self.home.max_filter_keys.max(1);
        writer.estimated_bytes().max(by_keys)
    }

    fn finish(&mut self) -> Result<Option<TableMeta>> {
        let Some((placed, writer)) = self.open.take() else {
            return Ok(None);
        };
        let (properties, file) = writer.finish_unsynced()?;
        self.enter(placed, properties.file_bytes)?;
        self.files.unsynced.push(file);
        // Each holds a descriptor, and a merge may write any number of tables.
        if self.files.unsynced.len() > MOST_UNSYNCED {
            self.files.sync()?;
        }
        let table = TableMeta::of_file(placed.file.number, &properties);
        let in_tier = |table| TableMeta {
            tier: placed.tier,
            ..table
        };
        table
            .map(|table| Some(in_tier(table)))
            .ok_or_else(|| crate::Error::invalid("a table without keys"))
    }
}
