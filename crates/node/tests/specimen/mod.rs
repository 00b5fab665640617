//! One of each structure on a device, built from constants: golden files and seeds for fuzzers.

use terrace_node::Key;
use terrace_node::block::Extent;
use terrace_node::block::Extents;
use terrace_node::format::cell::SegmentBuilder;
use terrace_node::format::checkpoint::{CheckpointWriter, StoredEntry};
use terrace_node::format::fuzz::{
    DEVICE_BLOCKS, GENERATION, JOURNAL_NUMBER, LAST_BLOCK, SECRET, SEGMENT, SLOT,
};
use terrace_node::format::journal::{BlockBuilder, Change, Record};
use terrace_node::format::location::{CellLocation, Place};
use terrace_node::format::namespace::{Description, Domain, Kind, NO_EXTENT, WhenFull};
use terrace_node::format::superblock::Superblock;
use terrace_node::format::trailer::Trailer;
use terrace_node::format::value::{piece_checksum, piece_checksums, value_checksum};

const BLOCK: usize = 4096;

fn extent(start: u64, blocks: u64) -> Extent {
    Extent { start, blocks }
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes()).unwrap()
}

/// Returns a device with a namespace of each kind.
pub fn superblock() -> Superblock {
    let keys = Description {
        nsid: 1,
        kind: Kind::Keys,
        domain: Domain::PowerSafe,
        when_full: WhenFull::Evict,
        nguid: *b"0123456789abcdef",
        uuid: *b"fedcba9876543210",
        secret: SECRET,
        whole: extent(1, 6000),
        journal: extent(1, 99),
        checkpoints: [SLOT, extent(150, 50)],
        data: extent(1000, 5000),
        max_keys: 3000,
        max_value_bytes: 1 << 20,
        name: "keys".into(),
    };
    let blocks = Description {
        nsid: 2,
        kind: Kind::Blocks,
        domain: Domain::CrashSafe,
        when_full: WhenFull::Refuse,
        nguid: [2; 16],
        uuid: [3; 16],
        secret: 4,
        whole: extent(6001, 3000),
        journal: NO_EXTENT,
        checkpoints: [NO_EXTENT; 2],
        data: extent(6001, 3000),
        max_keys: 0,
        max_value_bytes: 0,
        name: "a disk".into(),
    };
    Superblock {
        uuid: *b"device of a node",
        device_blocks: DEVICE_BLOCKS,
        namespaces: vec![keys, blocks],
    }
}

/// Returns the records of the journal block: one of each kind, and one with two extents.
pub fn records() -> Vec<Record<'static>> {
    let cell = |offset| CellLocation::new(SEGMENT, offset).unwrap();
    let store = |name, sequence, value_bytes, checksum, what| Record {
        key: key(name),
        sequence,
        value_bytes,
        checksum,
        what,
    };
    let one = Extents::from(extent(1700, 2));
    let two = Extents::new(&[extent(1900, 1), extent(1800, 1)]).unwrap();
    let (home, value) = (cell(64), &b"small"[..]);
    let checksum = piece_checksum(SECRET, 0, value);
    let inline = Change::Inline { home, value };
    vec![
        store("one extent", 1, 5000, 11, Change::Extents(one)),
        store("two extents", 2, 8000, 12, Change::Extents(two)),
        store("in the record", 3, value.len() as u32, checksum, inline),
        store("in a cell", 4, 2048, 13, Change::Cell(cell(112))),
        store("gone", 5, 0, 0, Change::Delete),
    ]
}

/// Returns a journal block.
pub fn journal() -> Vec<u8> {
    let mut builder = BlockBuilder::new(SECRET, JOURNAL_NUMBER, 0x0102_0304_0506_0708, 10);
    assert!(records().iter().all(|record| builder.push(record)));
    let mut block = vec![0; BLOCK];
    builder.finish(&mut block);
    block
}

/// Returns the entries of the checkpoint.
pub fn entries() -> Vec<StoredEntry> {
    let entry = |record: &Record<'_>| {
        let place = match &record.what {
            Change::Extents(extents) => Place::Extents(extents.clone()),
            Change::Inline { home, .. } => Place::Cell(*home),
            Change::Cell(cell) => Place::Cell(*cell),
            Change::Delete => return None,
        };
        Some(StoredEntry {
            key: record.key,
            value_bytes: record.value_bytes,
            check: record.checksum as u32,
            place,
        })
    };
    records().iter().filter_map(entry).collect()
}

/// Returns a checkpoint: its header and one content block.
pub fn checkpoint() -> Vec<u8> {
    let mut writer = CheckpointWriter::new(SECRET, GENERATION);
    assert!(entries().iter().all(|entry| writer.push(entry)));
    let mut blocks = vec![0; 2 * BLOCK];
    let (header, content) = blocks.split_at_mut(BLOCK);
    writer.finish_block(content);
    let made = writer.header(5, JOURNAL_NUMBER + 1, 0x0807_0605_0403_0201);
    made.encode(header, SECRET, SLOT);
    blocks
}

/// Returns the cells of the segment.
pub fn cells() -> [(Key, u64, Vec<u8>); 3] {
    [
        (key("in the record"), 3, b"small".to_vec()),
        (key("in a cell"), 4, vec![7; 2048]),
        (key("empty"), 6, Vec::new()),
    ]
}

/// Returns a segment, as far as it is filled.
pub fn segment() -> Vec<u8> {
    let mut builder = SegmentBuilder::new(SECRET, SEGMENT, 2);
    for (key, sequence, value) in cells() {
        builder.push(&key, sequence, &value).unwrap();
    }
    builder.bytes()[..builder.used()].to_vec()
}

/// Returns the trailer of a value of two pieces, in one extent or in three.
pub fn trailer(extents: &[Extent]) -> Trailer {
    let value_bytes: u32 = 70_000;
    let value: Vec<u8> = (0..value_bytes).map(|at| (at / 7) as u8).collect();
    let pieces = piece_checksums(SECRET, &value);
    Trailer {
        key: key("large"),
        sequence: 8,
        value_bytes,
        value_checksum: value_checksum(SECRET, &pieces),
        pieces,
        extents: Extents::new(extents).unwrap(),
    }
}

/// Returns the two trailers; their extents each end with the block that fuzzers expect.
pub fn trailers() -> [Trailer; 2] {
    let one = [extent(LAST_BLOCK - 17, 18)];
    let three = [extent(3000, 10), extent(2500, 6), extent(LAST_BLOCK - 1, 2)];
    [trailer(&one), trailer(&three)]
}

/// Returns the last block of a value: zeros and the trailer.
pub fn last_block(trailer: &Trailer) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    trailer.encode_into(&mut block, SECRET, LAST_BLOCK);
    block
}
