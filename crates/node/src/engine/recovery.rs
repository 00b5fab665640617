//! Opening a namespace: the newest checkpoint, then the journal.
//!
//! Records before the last flush mark are taken as they are. Behind it a record is taken only if its
//! value is on the device; else its key keeps the older value. A skipped record must not be taken
//! next time, when it lies before a mark: so the present state of such keys is written to the journal
//! again before anybody is served.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::blocking::Blocking;
use super::journal::{Journal, Member, Pending};
use super::namespace::Namespace;
use super::ring::{Ring, place_of};
use super::segments::Segments;
use super::values::verify_value;
use crate::block::{BLOCK_BYTES, Buffer, Extent};
use crate::device::Device;
use crate::format::cell::{SegmentImage, cell_blocks, cell_bytes, read_cell};
use crate::format::checkpoint::{CheckpointHeader, CheckpointReader};
use crate::format::extents::Bounds;
use crate::format::journal::{Change, JournalBlock, Record, read_block};
use crate::format::location::{CellLocation, SEGMENT_BLOCKS};
use crate::format::namespace::Description;
use crate::format::superblock::Superblock;
use crate::format::value::{piece_checksums, value_checksum};
use crate::index::{Found, Index, Place, WalkCursor};
use crate::space::Space;
use crate::{Error, Key, Result};

/// Blocks that are read at once: 1 MiB.
const BATCH_BLOCKS: u64 = 256;
/// The most entries of one step of a walk.
const MAX_ENTRIES: usize = 1 << 16;
/// The least blocks of a part of the map that has a lock of its own.
const PARTITION_BLOCKS: u64 = 1 << 16;
/// Segments that are rebuilt at one time.
const MAX_IMAGES: usize = 16;

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

struct Recovery<'a> {
    device: Blocking<'a>,
    description: &'a Description,
    bounds: Bounds,
    index: Index,
    sequence: u64,
    /// Flush mark: blocks below it are durable, and the values of their records.
    mark: u64,
    /// Keys with a record that was skipped.
    skipped: BTreeSet<Key>,
}

impl<'a> Recovery<'a> {
    fn new(device: &'a mut dyn Device, description: &'a Description) -> Self {
        Recovery {
            device: Blocking(device),
            description,
            bounds: description.bounds(),
            index: Index::new(description.secret, description.max_keys),
            sequence: 0,
            mark: 0,
            skipped: BTreeSet::new(),
        }
    }

    fn secret(&self) -> u64 {
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
            let max_keys = self.description.max_keys;
            let header = CheckpointHeader::decode(&bytes, self.secret(), slot, max_keys)?;
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
        if self.index.len() != header.entries {
            return Err(Error::damaged(
                slot.offset(),
                format!(
                    "the checkpoint holds {} keys for {}",
                    self.index.len(),
                    header.entries
                ),
            ));
        }
        self.sequence = header.sequence;
        Ok(header)
    }

    fn set(&mut self, key: &Key, found: Found, offset: u64) -> Result<()> {
        let hash = self.index.hash(key);
        let inserted = self
            .index
            .partition(hash)
            .lock()
            .insert(hash, key, found, 0);
        inserted.map(|_| ()).map_err(|full| {
            Error::damaged(offset, format!("more than the namespace allows: {full:?}"))
        })
    }

    /// Applies the journal's records from the checkpoint on.
    fn replay(&mut self, header: &CheckpointHeader) -> Result<Journal> {
        let mut waiting: VecDeque<(u64, Buffer)> = VecDeque::new();
        let mut previous = header.journal_previous;
        self.mark = header.journal_number;
        let mut next = header.journal_number;
        let mut in_doubt = false;
        let mut blocks = Ring::new(self.description.journal, next);
        while let Some(block) = blocks.next(&mut self.device)? {
            let offset = place_of(self.description.journal, next);
            let Some(read) = chained(block, self.secret(), next, previous, offset) else {
                break;
            };
            (previous, self.mark) = (read.checksum, self.mark.max(read.durable));
            in_doubt = read.count > 0 || read.durable < next;
            let mut copy = Buffer::zeroed(1);
            copy.copy_from_slice(block);
            waiting.push_back((next, copy));
            next += 1;
            while waiting
                .front()
                .is_some_and(|(number, _)| *number < self.mark)
            {
                if let Some((number, block)) = waiting.pop_front() {
                    self.apply(&block, number, false)?;
                }
            }
        }
        for (number, block) in waiting {
            self.apply(&block, number, true)?;
        }
        let ring = self.description.journal;
        let mut journal = Journal::new(self.secret(), ring, header, next, previous);
        if !in_doubt {
            journal.marked = next;
        }
        Ok(journal)
    }

    /// Applies one block's records, each only with its value if `verify` is set.
    fn apply(&mut self, block: &[u8], number: u64, verify: bool) -> Result<()> {
        let offset = place_of(self.description.journal, number);
        let Some(read) = read_block(block, self.secret(), number, offset)? else {
            return Ok(());
        };
        for record in read.records(&self.bounds) {
            let record = record?;
            self.sequence = self.sequence.max(record.sequence);
            if verify && !self.value_is_there(&record)? {
                self.skipped.insert(record.key);
                continue;
            }
            let place = match record.what {
                Change::Extents(extents) => Place::Extents(extents),
                Change::Inline { home, .. } => Place::Cell(home),
                Change::Cell(location) => Place::Cell(location),
                Change::Delete => {
                    let hash = self.index.hash(&record.key);
                    self.index.partition(hash).lock().remove(hash, &record.key);
                    continue;
                }
            };
            let found = Found {
                value_bytes: record.value_bytes,
                check: record.checksum as u32,
                place,
            };
            self.set(&record.key, found, offset)?;
        }
        Ok(())
    }

    /// Returns true if the device holds the value of a record.
    fn value_is_there(&mut self, record: &Record<'_>) -> Result<bool> {
        match &record.what {
            Change::Inline { .. } | Change::Delete => Ok(true),
            Change::Cell(location) => {
                let secret = self.secret();
                let (extent, _) = cell_blocks(*location, record.value_bytes);
                let bytes = self.device.read(&[extent])?;
                Ok(read_cell(&bytes, secret, *location).is_ok_and(|cell| {
                    let check = value_checksum(secret, &piece_checksums(secret, cell.value));
                    cell.key == record.key
                        && cell.value.len() == record.value_bytes as usize
                        && check as u32 == record.checksum as u32
                }))
            }
            Change::Extents(extents) => {
                let found = Found {
                    value_bytes: record.value_bytes,
                    check: record.checksum as u32,
                    place: Place::Extents(extents.clone()),
                };
                verify_value(&mut self.device, self.description, &record.key, &found)
                    .map(|damage| damage.is_none())
            }
        }
    }

    /// Writes the homes of small values that the journal holds, where a crash left them unwritten.
    fn rebuild_segments(&mut self, header: &CheckpointHeader, end: u64) -> Result<()> {
        let mut images: BTreeMap<u64, SegmentImage> = BTreeMap::new();
        let mut blocks = Ring::new(self.description.journal, header.journal_number);
        for number in header.journal_number..end {
            let offset = place_of(self.description.journal, number);
            let Some(block) = blocks.next(&mut self.device)? else {
                break;
            };
            let block = block.to_vec();
            let Some(read) = read_block(&block, self.secret(), number, offset)? else {
                break;
            };
            for record in read.records(&self.bounds) {
                let record = record?;
                let Change::Inline { home, value } = record.what else {
                    continue;
                };
                if !self.lives_at(&record.key, home, record.checksum as u32) {
                    continue;
                }
                if !images.contains_key(&home.segment()) {
                    if images.len() >= MAX_IMAGES
                        && let Some((_, image)) = images.pop_first()
                    {
                        self.write_image(image)?;
                    }
                    let bytes = self.device.read(&[home.segment_extent()])?;
                    let image = SegmentImage::new(bytes, self.description.secret, home.segment());
                    images.insert(home.segment(), image);
                }
                if let Some(image) = images.get_mut(&home.segment()) {
                    image.put(home, &record.key, record.sequence, value);
                }
            }
        }
        images
            .into_values()
            .try_for_each(|image| self.write_image(image))
    }

    fn write_image(&mut self, image: SegmentImage) -> Result<()> {
        let extent = image.extent();
        match image.changed(self.sequence) {
            Some(bytes) => self.device.write(&[extent], bytes),
            None => Ok(()),
        }
    }

    fn lives_at(&self, key: &Key, home: CellLocation, check: u32) -> bool {
        let hash = self.index.hash(key);
        let found = self.index.partition(hash).lock().get(hash, key);
        found.is_some_and(|found| found.place == Place::Cell(home) && found.check == check)
    }

    /// Finds out which blocks are in use.
    fn count_space(&mut self) -> Result<(Space, Segments)> {
        let space = new_space(self.description);
        let segments = Segments::new(self.secret());
        let mut live: BTreeMap<u64, u32> = BTreeMap::new();
        let mut trouble = None;
        let mut cursor = WalkCursor::default();
        let mut reserve = |extent: Extent, key: &Key| {
            if space.reserve(extent).is_err() && trouble.is_none() {
                let what = format!("{extent} hold the value of {key:?} and another one's");
                trouble = Some(Error::damaged(extent.offset(), what));
            }
        };
        let mut done = false;
        while !done {
            done = self
                .index
                .walk(&mut cursor, MAX_ENTRIES, |key, found| match &found.place {
                    Place::Extents(extents) => {
                        extents.iter().for_each(|extent| reserve(extent, key))
                    }
                    Place::Cell(location) => {
                        let bytes = live.entry(location.segment()).or_insert_with(|| {
                            reserve(location.segment_extent(), key);
                            0
                        });
                        *bytes += cell_bytes(found.value_bytes as usize) as u32;
                    }
                });
        }
        if let Some(error) = trouble {
            return Err(error);
        }
        for (segment, bytes) in live {
            segments.adopt(segment, bytes);
        }
        Ok((space, segments))
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
        journal.durable = journal.next;
        journal.written = journal.next;
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
        waiter: None,
    }
}

/// Returns a block of the journal if it is the one behind the block with the checksum `previous`.
fn chained(
    block: &[u8],
    secret: u64,
    number: u64,
    previous: u64,
    offset: u64,
) -> Option<JournalBlock<'_>> {
    let read = read_block(block, secret, number, offset).ok().flatten()?;
    (read.previous == previous).then_some(read)
}
