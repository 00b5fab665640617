//! The bytes of a device as they were when the format was fixed.
//!
//! `TERRACE_REGENERATE=1 cargo test -p terrace-node --test golden` writes `tests/golden/`. The need
//! to write it is a change of format and goes with a new version number. Zeros at the end of a file
//! are cut off.

mod specimen;

use std::path::{Path, PathBuf};

use terrace_node::format::cell::Segment;
use terrace_node::format::checkpoint::{CheckpointHeader, CheckpointReader};
use terrace_node::format::fuzz::{
    BOUNDS, DEVICE_BLOCKS, GENERATION, JOURNAL_NUMBER, LAST_BLOCK, SECRET, SEGMENT, SLOT,
};
use terrace_node::format::journal::read_block;
use terrace_node::format::superblock::Superblock;
use terrace_node::format::trailer::{Trailer, tail_of};

const BLOCK: usize = 4096;

/// Compares `built` with the golden file, and returns the file's bytes.
fn golden(name: &str, built: &[u8]) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = path.join(name);
    if std::env::var_os("TERRACE_REGENERATE").is_some() {
        let end = built
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        std::fs::write(&path, &built[..end]).unwrap();
    }
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.resize(built.len(), 0);
    assert!(bytes == built, "the bytes of {name} have changed");
    bytes
}

#[test]
fn superblocks_are_what_they_were() {
    let superblock = specimen::superblock();
    for (name, number) in [
        ("superblock-first", 0),
        ("superblock-last", DEVICE_BLOCKS - 1),
    ] {
        let bytes = golden(name, &superblock.encode(number));
        let decoded = Superblock::decode(&bytes, number, DEVICE_BLOCKS).unwrap();
        assert_eq!(decoded, superblock);
    }
}

#[test]
fn a_journal_block_is_what_it_was() {
    let bytes = golden("journal", &specimen::journal());
    let block = read_block(&bytes, SECRET, JOURNAL_NUMBER, 0)
        .unwrap()
        .unwrap();
    assert_eq!((block.previous, block.durable), (0x0102_0304_0506_0708, 10));
    let records: Vec<_> = block.records(&BOUNDS).map(Result::unwrap).collect();
    assert_eq!(records, specimen::records());
}

#[test]
fn a_checkpoint_is_what_it_was() {
    let bytes = golden("checkpoint", &specimen::checkpoint());
    let header = CheckpointHeader::decode(&bytes, SECRET, SLOT)
        .unwrap()
        .unwrap();
    assert_eq!((header.generation, header.sequence), (GENERATION, 5));
    assert_eq!((header.entries, header.blocks), (4, 1));
    assert_eq!(header.journal_number, JOURNAL_NUMBER + 1);
    assert_eq!(header.journal_previous, 0x0807_0605_0403_0201);
    let mut reader = CheckpointReader::new(&header, SECRET, SLOT, BOUNDS);
    let entries: Vec<_> = reader
        .read(&bytes[BLOCK..])
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(entries, specimen::entries());
}

#[test]
fn a_segment_is_what_it_was() {
    let mut bytes = golden("segment", &specimen::segment());
    bytes.resize(16 * BLOCK, 0);
    let segment = Segment::read(&bytes, SECRET, SEGMENT).unwrap();
    assert_eq!(segment.sequence, 2);
    let cells = segment.cells().map(Result::unwrap);
    let cells: Vec<_> = cells
        .map(|cell| (cell.key, cell.sequence, cell.value.to_vec()))
        .collect();
    assert_eq!(cells, specimen::cells());
}

#[test]
fn trailers_are_what_they_were() {
    for (name, trailer) in ["trailer-one-extent", "trailer"]
        .into_iter()
        .zip(specimen::trailers())
    {
        let bytes = golden(name, &specimen::last_block(&trailer));
        assert!(tail_of(&bytes, LAST_BLOCK, &BOUNDS).is_some());
        let decoded = Trailer::decode(&bytes, SECRET, LAST_BLOCK, &BOUNDS).unwrap();
        assert_eq!(decoded, trailer);
    }
}
