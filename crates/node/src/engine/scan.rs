//! Rebuilding the index from the values themselves, where checkpoint and journal are lost.
//!
//! Each value says its key and its number, so the newest whole one of a key is taken. A delete leaves
//! no trace in a value: deleted keys may show again, and keys whose newest value is damaged show an
//! older one. Small values may be in the journal alone: where the namespace can still be recovered, that
//! is done first, for it writes them to their cells. Where it cannot, up to a segment of them is lost.

use std::collections::HashMap;

use super::blocking::Blocking;
use super::content::{Content, first_of};
use super::recovery;
use super::ring::Ring;
use super::values::verify_value;
use crate::block::{BLOCK_BYTES, Buffer, Extent};
use crate::device::Device;
use crate::format::cell::Segment;
use crate::format::checkpoint::{CheckpointHeader, StoredEntry, slot_bytes};
use crate::format::journal::read_any_block;
use crate::format::location::SEGMENT_BLOCKS;
use crate::format::namespace::{Description, Kind};
use crate::format::trailer::{Trailer, tail_of};
use crate::format::value::{piece_checksums, value_checksum};
use crate::index::{Found, Index, Place};
use crate::{Error, Key, Result};

/// Blocks that are read at once, besides those of a segment that crosses the end.
const BATCH_BLOCKS: u64 = 256;

/// The result of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// Keys in the new index.
    pub keys: u64,
    /// Whole values of which a newer one was found.
    pub older: u64,
    /// Places that look like a value but are damaged.
    pub damaged: u64,
    /// Whole values, the oldest ones, for which a checkpoint has no room.
    pub left_out: u64,
}

/// Rebuilds the index of every namespace and writes it as a checkpoint. `progress` is called with the
/// number of blocks read and of all blocks.
///
/// # Errors
/// The superblock is damaged at both ends, or the device cannot be read or written.
pub fn scan(device: &mut dyn Device, progress: &mut dyn FnMut(u64, u64)) -> Result<ScanReport> {
    let superblock = recovery::superblock(device)?;
    let mut report = ScanReport::default();
    for description in &superblock.namespaces {
        if description.kind == Kind::Keys {
            // Damage is the reason for the scan. The scan finds it by itself.
            drop(recovery::open(device, description));
            let mut scan = Scan {
                device: Blocking(device),
                description,
                newest: HashMap::new(),
                report: ScanReport::default(),
            };
            scan.read_all(progress)?;
            scan.write_index()?;
            report.keys += scan.report.keys;
            report.older += scan.report.older;
            report.damaged += scan.report.damaged;
            report.left_out += scan.report.left_out;
        }
    }
    Ok(report)
}

/// Keys that a checkpoint is to list.
#[derive(Clone, Copy, Default)]
struct Listed {
    keys: u64,
    extra_extents: u64,
    /// Bytes of their entries.
    bytes: u64,
}

impl Listed {
    /// Returns the sums with one more key.
    fn and(self, key: Key, found: &Found) -> Self {
        let entry = StoredEntry {
            key,
            value_bytes: found.value_bytes,
            check: found.check,
            place: found.place.clone(),
        };
        Listed {
            keys: self.keys + 1,
            extra_extents: self.extra_extents + found.extra_extents(),
            bytes: self.bytes + entry.encoded_len() as u64,
        }
    }

    /// Returns true if a slot has room for them: for everything that the namespace may have, or for
    /// any entries of that many bytes.
    fn fits(&self, description: &Description, slot: Extent) -> bool {
        let is_within_bounds = self.keys <= description.max_keys
            && self.extra_extents <= description.max_extra_extents();
        is_within_bounds || self.bytes <= slot_bytes(slot.blocks)
    }
}

struct Scan<'a> {
    device: Blocking<'a>,
    description: &'a Description,
    /// The newest value of each key, with its number.
    newest: HashMap<Key, (u64, Found)>,
    report: ScanReport,
}

impl Scan<'_> {
    fn read_all(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let data = self.description.data;
        let mut at = data.start;
        while at < data.end() {
            let own = BATCH_BLOCKS.min(data.end() - at);
            // A segment that begins in this batch may end behind it.
            let blocks = (own + SEGMENT_BLOCKS).min(data.end() - at);
            let bytes = self.device.read(&[Extent { start: at, blocks }])?;
            for block in 0..own {
                self.look_at(&bytes, at, block)?;
            }
            at += own;
            progress(at - data.start, data.blocks);
        }
        Ok(())
    }

    /// Looks for the start of a segment and the end of a value in one block.
    fn look_at(&mut self, bytes: &Buffer, start: u64, block: u64) -> Result<()> {
        let from = block as usize * BLOCK_BYTES;
        let secret = self.description.secret;
        if let Some(segment) = Segment::read(&bytes[from..], secret, start + block) {
            for cell in segment.cells() {
                let Ok(cell) = cell else {
                    self.report.damaged += 1;
                    continue;
                };
                let check = value_checksum(secret, &piece_checksums(secret, cell.value));
                let found = Found {
                    value_bytes: cell.value.len() as u32,
                    check: check as u32,
                    place: Place::Cell(cell.location),
                };
                self.take(cell.key, cell.sequence, found);
            }
        }
        let last = start + block;
        let bounds = self.description.bounds();
        let Some(candidate) = tail_of(&bytes[from..from + BLOCK_BYTES], last, &bounds) else {
            return Ok(());
        };
        let tail_blocks = candidate.trailer_bytes.div_ceil(BLOCK_BYTES) as u64;
        let Some(first) = (last + 1).checked_sub(tail_blocks) else {
            return Ok(());
        };
        let tail = self.device.read(&[Extent {
            start: first,
            blocks: tail_blocks,
        }])?;
        let Ok(trailer) = Trailer::decode(&tail, secret, last, &bounds) else {
            return Ok(());
        };
        let found = Found {
            value_bytes: trailer.value_bytes,
            check: trailer.value_checksum as u32,
            place: Place::Extents(trailer.extents.clone()),
        };
        match verify_value(&mut self.device, self.description, &trailer.key, &found)? {
            None => self.take(trailer.key, trailer.sequence, found),
            Some(_) => self.report.damaged += 1,
        }
        Ok(())
    }

    fn take(&mut self, key: Key, sequence: u64, found: Found) {
        let known = self.newest.get(&key).map(|(known, _)| *known);
        if known.is_some_and(|known| known > sequence) {
            self.report.older += 1;
            return;
        }
        self.report.older += u64::from(known.is_some());
        self.newest.insert(key, (sequence, found));
    }

    /// Writes the keys that were found as the newest checkpoint, with an empty journal behind it.
    fn write_index(&mut self) -> Result<()> {
        let (description, secret) = (self.description, self.description.secret);
        let index = Index::new(secret);
        let generation = 1 + self.newest_generation()?;
        let slot = description.checkpoints[(generation % 2) as usize];
        let mut listed = Listed::default();
        let space = recovery::new_space(description);
        let mut newest: Vec<(Key, (u64, Found))> = self.newest.drain().collect();
        // Newer ones first: where two claim a block, the older one is gone.
        newest.sort_by_key(|(_, (sequence, _))| std::cmp::Reverse(*sequence));
        let mut sequence = 0;
        for (key, (number, found)) in newest {
            sequence = sequence.max(number);
            // Deleted keys may come back, so there may be more than the namespace may have.
            let with_it = listed.and(key, &found);
            if !with_it.fits(description, slot) {
                self.report.left_out += 1;
                continue;
            }
            if let Place::Extents(extents) = &found.place
                && extents.iter().any(|extent| space.reserve(extent).is_err())
            {
                self.report.damaged += 1;
                continue;
            }
            listed = with_it;
            let hash = index.hash(&key);
            let inserted = index.partition(hash).lock().insert(hash, &key, found, 0);
            self.report.keys += u64::from(inserted.is_ok());
        }
        // No block of the old journal continues this chain, or tells of a block in it.
        let start = (1 + self.newest_block()?, rand::random());
        let mut content = Content::new(secret, generation, start);
        let outgrown = |_| Error::damaged(slot.offset(), "the slot has no room for the index");
        while let Some((buffer, place)) = content.next(&index, slot).map_err(outgrown)? {
            self.device.write(&[place], buffer)?;
        }
        self.device.flush()?;
        let mut block = Buffer::zeroed(1);
        content.header(sequence).encode(&mut block, secret, slot);
        self.device.write(&[first_of(slot)], block)?;
        self.device.flush()
    }

    /// Returns the highest number of a block in the journal's ring.
    fn newest_block(&mut self) -> Result<u64> {
        let (description, mut newest) = (self.description, 0);
        let mut ring = Ring::new(description.journal, 0);
        while let Some(block) = ring.next(&mut self.device)? {
            let read = read_any_block(block, description.secret);
            newest = newest.max(read.map_or(0, |read| read.number));
        }
        Ok(newest)
    }

    fn newest_generation(&mut self) -> Result<u64> {
        let (description, mut newest) = (self.description, 0);
        for slot in description.checkpoints {
            let block = self.device.read(&[first_of(slot)])?;
            let header = CheckpointHeader::decode(&block, description.secret, slot);
            if let Ok(Some(header)) = header {
                newest = newest.max(header.generation);
            }
        }
        Ok(newest)
    }
}
