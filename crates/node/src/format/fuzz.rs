//! Entry points for fuzzers and the test that replays their inputs: hostile bytes in, nothing out; a
//! panic is the finding.
//!
//! Few random bytes have a good checksum. So each input is read as it is, and again under a checksum
//! that was made right. A structure that is read then is written again, and must be the same bytes.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::block::{BLOCK_BYTES, Extent};
use crate::format::cell::{CELL_HEAD_BYTES, SEGMENT_HEADER_BYTES, Segment, SegmentBuilder, cells};
use crate::format::checkpoint::{CheckpointHeader, CheckpointReader, CheckpointWriter};
use crate::format::extents::Bounds;
use crate::format::journal::{BlockBuilder, read_block};
use crate::format::location::{CellLocation, SEGMENT_BYTES};
use crate::format::sum::{self, Place};
use crate::format::superblock::Superblock;
use crate::format::trailer::{TAIL_BYTES, Trailer, tail_of};

/// The secret of the namespace that inputs are read in.
pub const SECRET: u64 = 0x7365_6372_6574;
/// Its limits.
pub const BOUNDS: Bounds = Bounds {
    data: Extent {
        start: 1000,
        blocks: 5000,
    },
    max_value_bytes: 1 << 20,
};
/// Blocks of the device of a superblock.
pub const DEVICE_BLOCKS: u64 = 10_000;
/// Number of a journal block.
pub const JOURNAL_NUMBER: u64 = 12;
/// First block of a segment.
pub const SEGMENT: u64 = 1600;
/// Last block of a value.
pub const LAST_BLOCK: u64 = 2000;
/// Slot of a checkpoint.
pub const SLOT: Extent = Extent {
    start: 100,
    blocks: 50,
};
/// Most keys of that checkpoint.
pub const MAX_KEYS: u64 = 3000;
/// Generation of a checkpoint, where no header says it.
pub const GENERATION: u64 = 5;

/// Returns `bytes` cut or filled with zeros to `length`, under a right checksum of all of it.
fn sealed(bytes: &[u8], length: usize, sum: impl FnOnce(&[u8]) -> u64) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    sealed.resize(length, 0);
    sum::seal(&mut sealed, sum);
    sealed
}

/// Reads `bytes` as a superblock.
pub fn node_superblock(bytes: &[u8]) {
    let _ = Superblock::decode(bytes, 0, DEVICE_BLOCKS);
    let _ = Superblock::decode(bytes, DEVICE_BLOCKS - 1, DEVICE_BLOCKS);
    let block = sealed(bytes, BLOCK_BYTES, |rest| xxh3_64_with_seed(rest, 0));
    if let Ok(superblock) = Superblock::decode(&block, 0, DEVICE_BLOCKS) {
        assert_eq!(superblock.encode(0)[..], block);
    }
}

/// Reads `bytes` as a journal block.
pub fn node_journal(bytes: &[u8]) {
    let number = JOURNAL_NUMBER;
    let read = |block: &[u8]| {
        let read = read_block(block, SECRET, number, 1 << 20).ok()??;
        let records: Result<Vec<_>, _> = read.records(&BOUNDS).collect();
        let mut builder = BlockBuilder::new(SECRET, number, read.previous, read.durable);
        for record in &records.ok()? {
            assert!(builder.push(record));
        }
        let mut again = [0; BLOCK_BYTES];
        assert_eq!(builder.finish(&mut again), read.checksum);
        assert_eq!(again[..], block[..BLOCK_BYTES]);
        Some(())
    };
    read(bytes);
    let sum = |rest: &[u8]| Place::Journal { number }.sum(SECRET, rest);
    read(&sealed(bytes, BLOCK_BYTES, sum));
}

/// Reads `bytes` as the blocks of a checkpoint, the header first.
pub fn node_checkpoint(bytes: &[u8]) {
    let _ = CheckpointHeader::decode(bytes, SECRET, SLOT);
    let place = Place::CheckpointHeader { slot: SLOT.start };
    let block = sealed(bytes, BLOCK_BYTES, |rest| place.sum(SECRET, rest));
    let header = match CheckpointHeader::decode(&block, SECRET, SLOT) {
        Ok(Some(header)) => {
            let mut again = [0; BLOCK_BYTES];
            header.encode(&mut again, SECRET, SLOT);
            assert_eq!(again[..], block);
            header
        }
        // The input may be without a header: its content is read all the same.
        _ => CheckpointHeader {
            generation: GENERATION,
            sequence: 0,
            journal_number: 0,
            journal_previous: 0,
            entries: MAX_KEYS,
            blocks: SLOT.blocks - 1,
        },
    };
    read_content(&header, bytes.get(BLOCK_BYTES..).unwrap_or(bytes));
}

fn read_content(header: &CheckpointHeader, bytes: &[u8]) {
    let generation = header.generation;
    let mut reader = CheckpointReader::new(header, SECRET, SLOT, BOUNDS);
    for (index, input) in (0u64..).zip(bytes.chunks(BLOCK_BYTES)) {
        let place = Place::CheckpointContent { generation, index };
        let block = sealed(input, BLOCK_BYTES, |rest| place.sum(SECRET, rest));
        let Ok(entries) = reader.read(&block) else {
            return;
        };
        let entries: Result<Vec<_>, _> = entries.collect();
        let Ok(entries) = entries else {
            return;
        };
        let mut writer = CheckpointWriter::new(SECRET, generation);
        assert!(entries.iter().all(|entry| writer.push(entry)));
        let mut again = [0; BLOCK_BYTES];
        writer.finish_block(&mut again);
        // The checksum is that of another index, so that only the first block has the same.
        assert_eq!(again[sum::SUM_BYTES..], block[sum::SUM_BYTES..]);
    }
}

/// Reads `bytes` as a segment.
pub fn node_segment(bytes: &[u8]) {
    cells(bytes, SECRET, SEGMENT).for_each(drop);
    if let Some(segment) = Segment::read(bytes, SECRET, SEGMENT) {
        segment.cells().for_each(drop);
    }
    let mut segment = bytes.to_vec();
    segment.resize(SEGMENT_BYTES, 0);
    let place = Place::Segment { start: SEGMENT };
    sum::seal(&mut segment[..SEGMENT_HEADER_BYTES], |rest| {
        place.sum(SECRET, rest)
    });
    seal_cells(&mut segment);
    let Some(read) = Segment::read(&segment, SECRET, SEGMENT) else {
        return;
    };
    let mut builder = SegmentBuilder::new(SECRET, SEGMENT, read.sequence);
    for cell in read.cells() {
        let Ok(cell) = cell else {
            return;
        };
        let location = builder.push(&cell.key, cell.sequence, cell.value);
        assert_eq!(location, Some(cell.location));
    }
    let used = builder.used();
    assert_eq!(builder.bytes()[..used], segment[..used]);
}

/// Makes the checksums of cells right, as far as their lengths lead from one to the next.
fn seal_cells(segment: &mut [u8]) {
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(head) = segment.get(at..at + CELL_HEAD_BYTES) {
        let value_bytes = u16::from_le_bytes([head[8], head[9]]);
        let length = CELL_HEAD_BYTES + usize::from(value_bytes).next_multiple_of(8);
        let location = CellLocation::new(SEGMENT, at);
        let cell = segment
            .get_mut(at..at + length)
            .filter(|cell| cell[13] != 0);
        let (Some(cell), Some(location)) = (cell, location) else {
            return;
        };
        let location = location.word();
        sum::seal(cell, |rest| Place::Cell { location }.sum(SECRET, rest));
        at += length;
    }
}

/// Reads `bytes` as the last blocks of a value: they end with the trailer.
pub fn node_trailer(bytes: &[u8]) {
    let _ = Trailer::decode(bytes, SECRET, LAST_BLOCK, &BOUNDS);
    let Some(candidate) = tail_of(bytes, LAST_BLOCK, &BOUNDS) else {
        return;
    };
    let Some(start) = bytes.len().checked_sub(candidate.trailer_bytes) else {
        return;
    };
    let mut trailer = bytes[start..].to_vec();
    let tail = trailer.len() - TAIL_BYTES;
    let covered = [&trailer[..tail], &trailer[tail + sum::SUM_BYTES..]].concat();
    let place = Place::Trailer {
        last_block: LAST_BLOCK,
    };
    let sum = place.sum(SECRET, &covered).to_le_bytes();
    trailer[tail..tail + sum::SUM_BYTES].copy_from_slice(&sum);
    if let Ok(decoded) = Trailer::decode(&trailer, SECRET, LAST_BLOCK, &BOUNDS) {
        let mut again = vec![0; trailer.len()];
        assert_eq!(
            decoded.encode_into(&mut again, SECRET, LAST_BLOCK),
            again.len()
        );
        assert_eq!(again, trailer);
    }
}
