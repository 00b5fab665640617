//! Reads from devices: the blocks of a table that no memory held, counted for the table and for the
//! level that lists it.
//!
//! A block that a cache holds costs nothing here. Blocks of entries and partitions of the index count. The
//! filter, the top index and the footer, which the opening of a table reads, do not: a table may be opened
//! for a compaction or for a get. Sketches, which reports read, too, do not either.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_storage::{Operation, Purpose};

use super::times::TableTimes;
use crate::sync::Instant;

/// Parts of a table's file whose reads are counted apart.
pub const READ_PARTS: usize = 64;

/// Reads of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceReads {
    /// Reads for users. One that takes in many blocks counts once.
    pub operations: u64,
    /// Bytes that these read.
    pub bytes: u64,
    /// Bytes that compactions read, the flushes among them that take tables along.
    pub compaction_bytes: u64,
}

/// The same, counted. Each number only grows.
#[derive(Debug, Default)]
pub(crate) struct ReadCounter {
    operations: AtomicU64,
    bytes: AtomicU64,
    compaction_bytes: AtomicU64,
}

impl ReadCounter {
    fn count(&self, bytes: u64, purpose: Purpose) {
        match purpose {
            Purpose::Read => {
                self.operations.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Purpose::Compaction => {
                self.compaction_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    pub(crate) fn reads(&self) -> DeviceReads {
        DeviceReads {
            operations: self.operations.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            compaction_bytes: self.compaction_bytes.load(Ordering::Relaxed),
        }
    }
}

/// The reads of levels 0, 1, 2, ..., which all tables of a store share.
#[derive(Debug, Default)]
pub(crate) struct LevelReads {
    counters: Box<[ReadCounter]>,
    /// Empty while no read is timed: reading the clock costs more than counting.
    times: OnceLock<Arc<dyn TableTimes>>,
}

impl LevelReads {
    pub(crate) fn new(levels: usize) -> Self {
        LevelReads {
            counters: (0..levels).map(|_| ReadCounter::default()).collect(),
            times: OnceLock::new(),
        }
    }

    /// Has each read timed from now on. A second call changes nothing.
    pub(crate) fn time(&self, times: Arc<dyn TableTimes>) {
        self.times.get_or_init(|| times);
    }

    pub(crate) fn of_levels(&self) -> impl Iterator<Item = DeviceReads> {
        self.counters.iter().map(ReadCounter::reads)
    }
}

/// The reads of one table: all readers of its file share them, and so do its listings. It goes with
/// the table to another level, and to another tier.
#[derive(Debug)]
pub(crate) struct TableReads {
    own: ReadCounter,
    /// Reads for users by the place of their first byte, in parts of equal length.
    parts: [AtomicU32; READ_PARTS],
    part_bytes: u64,
    /// Level that lists the table, or listed it last.
    level: AtomicUsize,
    levels: Arc<LevelReads>,
}

impl TableReads {
    /// Makes the counts of a new table with a file of this length. Its reads count for its level, too.
    pub(crate) fn new(levels: &Arc<LevelReads>, file_bytes: u64) -> Self {
        TableReads {
            own: ReadCounter::default(),
            parts: [const { AtomicU32::new(0) }; READ_PARTS],
            part_bytes: file_bytes.div_ceil(READ_PARTS as u64).max(1),
            level: AtomicUsize::new(0),
            levels: Arc::clone(levels),
        }
    }

    /// Returns the time at which a read begins; `None` while none is timed.
    pub(crate) fn begin(&self) -> Option<Instant> {
        self.levels.times.get().map(|_| Instant::now())
    }

    /// Counts a read that has ended.
    pub(crate) fn count(&self, offset: u64, bytes: u64, purpose: Purpose, began: Option<Instant>) {
        self.own.count(bytes, purpose);
        let part = self.parts.get((offset / self.part_bytes) as usize);
        if let Some(part) = part.filter(|_| purpose == Purpose::Read) {
            part.fetch_add(1, Ordering::Relaxed);
        }
        let level = self.level.load(Ordering::Relaxed);
        if let Some(counter) = self.levels.counters.get(level) {
            counter.count(bytes, purpose);
        }
        if let (Some(began), Some(times)) = (began, self.levels.times.get()) {
            times.record(level, Operation::Read, purpose, began.elapsed());
        }
    }

    /// Counts later reads for this level.
    pub(crate) fn enter_level(&self, level: u8) {
        self.level.store(usize::from(level), Ordering::Relaxed);
    }

    pub(crate) fn reads(&self) -> DeviceReads {
        self.own.reads()
    }

    /// Returns the reads for users in each part of the file. Behind the last number they go on from 0.
    pub(crate) fn by_part(&self) -> [u32; READ_PARTS] {
        self.parts
            .each_ref()
            .map(|part| part.load(Ordering::Relaxed))
    }
}

/// The counts of a table that no level lists.
#[cfg(test)]
impl Default for TableReads {
    fn default() -> Self {
        TableReads::new(&Arc::default(), 0)
    }
}
