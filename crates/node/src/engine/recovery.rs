//! Opening a namespace: the newest checkpoint, then the journal.
//!
//! Records before the last flush mark are taken as they are. Behind it a record is taken only if its
//! value is on the device; else its key keeps the older value. A skipped record must not be taken
//! next time, when it lies before a mark: so the present state of such keys is written to the journal
//! again before anybody is served.
//!
//! The bounds of keys and extents do not hold here. A checkpoint beside stores has keys that went and
//! keys that came for them, some of them twice. A skipped record leaves a value of more extents than the
//! one that replaced it. Where a bound is passed at the end, stores are refused until it holds again.

use std::collections::BTreeSet;

use super::blocking::Blocking;
use super::journal::{Journal, Member, Pending};
use super::namespace::Namespace;
use super::share::Share;
use crate::block::{BLOCK_BYTES, Extent};
use crate::device::Device;
use crate::format::checkpoint::{CheckpointHeader, CheckpointReader};
use crate::format::extents::Bounds;
use crate::format::location::SEGMENT_BLOCKS;
use crate::format::namespace::Description;
use crate::format::superblock::Superblock;
use crate::index::{Found, Index, Place};
use crate::space::Space;
use crate::{Error, Key, Result};

/// Blocks that are read at once: 1 MiB.
const BATCH_BLOCKS: u64 = 256;
/// The least blocks of a part of the map that has a lock of its own.
const PARTITION_BLOCKS: u64 = 1 << 16;

/// Reads the superblock: the first copy, or the last one if the first is damaged.
///
/// # Errors
/// Both copies are damaged, or the format is a newer one.
pub fn superblock(device: &mut dyn Device) -> Result<Superblock> {
    let blocks = device.bytes() / BLOCK_BYTES as u64;
    let mut device = Blocking(device);
    let mut read = |start: u64| {
        let bytes = device.read(&[Extent { start, blocks: 1 }])?;
        Superblock::decode(&bytes, start, blocks)
    };
    match read(0) {
        Ok(superblock) => Ok(superblock),
        Err(unsupported @ Error::Unsupported { .. }) => Err(unsupported),
        Err(first) => read(blocks - 1).map_err(|_| first),
    }
}

/// Recovers a namespace.
pub(super) fn open(device: &mut dyn Device, description: &Description) -> Result<Namespace> {
    let mut recovery = Recovery::new(device, description);
    let header = recovery.load_checkpoint()?;
    let mut journal = recovery.replay(&header)?;
    recovery.rebuild_segments(&header, journal.next)?;
    let (space, segments) = recovery.count_space()?;
    recovery.device.flush()?;
    recovery.write_corrections(&mut journal)?;
    let Recovery {
        index,
        sequence,
        skipped,
        ..
    } = recovery;
    let description = description.clone();
    let mut namespace = Namespace::new(description, index, space, segments, journal, sequence);
    namespace.skipped = skipped.into_iter().collect();
    Ok(namespace)
}

pub(super) struct Recovery<'a> {
    pub(super) device: Blocking<'a>,
    pub(super) description: &'a Description,
    pub(super) bounds: Bounds,
    pub(super) index: Index,
    pub(super) sequence: u64,
    /// Flush mark: blocks below it are durable, and the values of their records.
    pub(super) mark: u64,
    /// Keys with a record that was skipped.
    pub(super) skipped: BTreeSet<Key>,
}

impl<'a> Recovery<'a> {
    fn new(device: &'a mut dyn Device, description: &'a Description) -> Self {
        Recovery {
            device: Blocking(device),
            description,
            bounds: description.bounds(),
            index: Index::new(description.secret),
            sequence: 0,
            mark: 0,
            skipped: BTreeSet::new(),
        }
    }

    pub(super) fn secret(&self) -> u64 {
        self.description.secret
    }

    /// Fills the index from the newest checkpoint.
    fn load_checkpoint(&mut self) -> Result<CheckpointHeader> {
        let mut newest: Option<(CheckpointHeader, Extent)> = None;
        for slot in self.description.checkpoints {
            let first = Extent {
                start: slot.start,
                blocks: 1,
            };
            let bytes = self.device.read(&[first])?;
            let header = CheckpointHeader::decode(&bytes, self.secret(), slot)?;
            let Some(header) = header else {
                continue;
            };
            if newest
                .as_ref()
                .is_none_or(|(known, _)| header.generation > known.generation)
            {
                newest = Some((header, slot));
            }
        }
        let (header, slot) = newest.ok_or_else(|| {
            Error::damaged(
                self.description.checkpoints[0].offset(),
                "neither checkpoint has a header that checks; `recover --scan` rebuilds the index",
            )
        })?;
        let mut reader = CheckpointReader::new(&header, self.secret(), slot, self.bounds);
        while reader.blocks_left() > 0 {
            let start = slot.start + 1 + header.blocks - reader.blocks_left();
            let blocks = BATCH_BLOCKS.min(reader.blocks_left());
            let bytes = self.device.read(&[Extent { start, blocks }])?;
            for block in bytes.chunks_exact(BLOCK_BYTES) {
                for entry in reader.read(block)? {
                    let entry = entry?;
                    let found = Found {
                        value_bytes: entry.value_bytes,
                        check: entry.check,
                        place: entry.place,
                    };
                    self.set(&entry.key, found, start * BLOCK_BYTES as u64)?;
                }
            }
        }
        self.sequence = header.sequence;
        Ok(header)
    }

    pub(super) fn set(&mut self, key: &Key, found: Found, offset: u64) -> Result<()> {
        let hash = self.index.hash(key);
        let inserted = self
            .index
            .partition(hash)
            .lock()
            .insert(hash, key, found, 0);
        let full = |_| Error::damaged(offset, "more keys than the index takes");
        inserted.map(|_| ()).map_err(full)
    }

    /// Writes the present state of the keys with skipped records to the journal.
    fn write_corrections(&mut self, journal: &mut Journal) -> Result<()> {
        journal.durable = self.mark;
        for &key in &self.skipped {
            let hash = self.index.hash(&key);
            let found = self.index.partition(hash).lock().get(hash, &key);
            journal
                .open
                .push(correction(key, hash, found.as_ref(), self.sequence));
        }
        while !journal.open.is_empty() {
            let Some((_, buffer, parts)) = journal.close_correction() else {
                return Err(Error::damaged(
                    self.description.journal.offset(),
                    "the journal has no room for the corrections of this recovery; use `recover --scan`",
                ));
            };
            let places: Vec<Extent> = parts
                .iter()
                .map(|part| Extent {
                    start: part.offset / BLOCK_BYTES as u64,
                    blocks: part.bytes as u64 / BLOCK_BYTES as u64,
                })
                .collect();
            self.device.write(&places, buffer)?;
            self.device.flush()?;
            journal.is_writing = false;
        }
        let has_corrections = !self.skipped.is_empty();
        journal.durable = journal.next;
        journal.written = journal.next;
        // So that the next recovery has nothing to correct.
        if has_corrections && let Some((group, buffer, parts)) = journal.close_mark() {
            self.device.write_parts(buffer, parts)?;
            self.device.flush()?;
            journal.is_writing = false;
            (journal.written, journal.durable) = (group.end, group.end);
        }
        Ok(())
    }
}

/// Makes the map of a namespace's blocks, all free. Some are kept back for the cleaner.
pub(super) fn new_space(description: &Description) -> Space {
    let blocks = description.data.blocks;
    let space = Space::new(
        description.data,
        (blocks / PARTITION_BLOCKS).clamp(1, 16) as usize,
    );
    space.keep_back((blocks / 16).clamp(SEGMENT_BLOCKS, 4 * SEGMENT_BLOCKS));
    space
}

fn correction(key: Key, hash: u64, found: Option<&Found>, sequence: u64) -> Member {
    let change = match found.map(|found| &found.place) {
        None => Pending::Delete,
        Some(Place::Extents(extents)) => Pending::Extents(extents.clone()),
        Some(Place::Cell(location)) => Pending::Cell(*location),
    };
    Member {
        key,
        hash,
        sequence,
        value_bytes: found.map_or(0, |found| found.value_bytes),
        checksum: found.map_or(0, |found| u64::from(found.check)),
        change,
        share: Share::default(),
        waiter: None,
    }
}
