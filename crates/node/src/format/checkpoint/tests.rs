use proptest::prelude::*;

use super::*;
use crate::block::Extents;
use crate::format::fuzz::{BOUNDS, SECRET, SLOT};
use crate::format::location::{CellLocation, Place};
use crate::format::specimens::{
    cell_locations, extent_lists, extents, for_each_flip, keys, patched,
};
use crate::key::Key;

fn entries() -> impl Strategy<Value = StoredEntry> {
    let extents = extent_lists().prop_map(|(n, extents)| (n, Place::Extents(extents)));
    let cell = (0..=2048u32, cell_locations()).prop_map(|(n, cell)| (n, Place::Cell(cell)));
    let parts = (keys(), any::<u32>(), prop_oneof![extents, cell]);
    parts.prop_map(|(key, check, (value_bytes, place))| StoredEntry {
        key,
        value_bytes,
        check,
        place,
    })
}

/// Writes a checkpoint of generation 5 and returns its header and blocks.
fn written(entries: &[StoredEntry]) -> (CheckpointHeader, Vec<Vec<u8>>) {
    let mut writer = CheckpointWriter::new(SECRET, 5);
    let mut blocks = Vec::new();
    let mut finish = |writer: &mut CheckpointWriter| {
        let mut block = vec![0xff; BLOCK_BYTES];
        writer.finish_block(&mut block);
        blocks.push(block);
    };
    for entry in entries {
        if !writer.push(entry) {
            finish(&mut writer);
            assert!(writer.push(entry));
        }
    }
    if !writer.is_block_empty() {
        finish(&mut writer);
    }
    assert_eq!(writer.blocks(), blocks.len() as u64);
    (writer.header(100, 12, 34), blocks)
}

proptest! {
    #[test]
    fn entries_read_as_they_were_written(wanted in prop::collection::vec(entries(), 0..300)) {
        let (header, blocks) = written(&wanted);
        let mut block = [0xff; BLOCK_BYTES];
        header.encode(&mut block, SECRET, SLOT);
        let decoded = CheckpointHeader::decode(&block, SECRET, SLOT).unwrap().unwrap();
        prop_assert_eq!(decoded, header);
        let mut reader = CheckpointReader::new(&decoded, SECRET, SLOT, BOUNDS);
        let mut read = Vec::new();
        for block in &blocks {
            read.extend(reader.read(block).unwrap().map(Result::unwrap));
        }
        prop_assert_eq!(reader.blocks_left(), 0);
        prop_assert_eq!(read, wanted);
        prop_assert!(reader.read(&block).is_err());
    }
}

fn cell_entry() -> StoredEntry {
    StoredEntry {
        key: Key::new(b"small").unwrap(),
        value_bytes: 10,
        check: 1,
        place: Place::Cell(CellLocation::new(1600, 64).unwrap()),
    }
}

fn extents_entry(extents: Extents) -> StoredEntry {
    StoredEntry {
        key: Key::new(b"large").unwrap(),
        value_bytes: 1_000_000,
        check: 2,
        place: Place::Extents(extents),
    }
}

#[test]
fn a_slot_has_room_for_the_worst_packing() {
    // Long entries behind as many short ones as make them miss the end of a block.
    for max_keys in [1, 8, 64, 500, 5_000, 60_000] {
        for (extent_count, short) in [(64, 88), (64, 89), (33, 95), (2, 101), (3, 3), (9, 1)] {
            let long = extents_entry(extents(1_000_000, extent_count, 0));
            let mut extra = max_keys / 8;
            let mut writer = CheckpointWriter::new(SECRET, 1);
            let mut blocks = 1;
            for number in 0..max_keys {
                let is_long = number % (short + 1) == short && extra >= extent_count as u64 - 1;
                let entry = if is_long { long.clone() } else { cell_entry() };
                extra -= if is_long { extent_count as u64 - 1 } else { 0 };
                if !writer.push(&entry) {
                    writer.finish_block(&mut [0; BLOCK_BYTES]);
                    blocks += 1;
                    assert!(writer.push(&entry));
                }
            }
            assert!(blocks < slot_blocks(max_keys), "{max_keys} {extent_count}");
        }
    }
    assert_eq!(slot_blocks(3544 * 1000), 1 + 41_000);
    assert!(slot_blocks(u64::MAX) > 1 << 50);
}

#[test]
fn a_damaged_header_is_no_checkpoint() {
    let (header, _) = written(&[cell_entry()]);
    let mut block = vec![0; BLOCK_BYTES];
    header.encode(&mut block, SECRET, SLOT);
    let decode =
        |bytes: &[u8], secret, slot| CheckpointHeader::decode(bytes, secret, slot).unwrap();
    assert!(decode(&block, SECRET, SLOT).is_some());
    let other = Extent {
        start: SLOT.end(),
        ..SLOT
    };
    assert!(decode(&block, SECRET, other).is_none());
    assert!(decode(&block, SECRET + 1, SLOT).is_none());
    assert!(decode(&[0; BLOCK_BYTES], SECRET, SLOT).is_none());
    assert!(decode(&[], SECRET, SLOT).is_none());
    for_each_flip(&block, |flipped, bit| {
        assert!(decode(flipped, SECRET, SLOT).is_none(), "bit {bit}");
    });
}

#[test]
fn an_impossible_header_is_an_error() {
    let (header, _) = written(&[cell_entry()]);
    let mut block = vec![0; BLOCK_BYTES];
    header.encode(&mut block, SECRET, SLOT);
    let error = |offset, patch: &[u8]| {
        let mut block = patched(&block, offset, patch);
        sum::seal(&mut block, |rest| header_sum(SECRET, SLOT, rest));
        let decoded = CheckpointHeader::decode(&block, SECRET, SLOT);
        let error = decoded.unwrap_err().to_string();
        error
            .strip_prefix("damage at byte 409600: ")
            .unwrap()
            .to_owned()
    };
    for (offset, patch) in [(12, 1), (64, 1), (4095, 1)] {
        assert!(error(offset, &[patch]).contains("padding"));
    }
    for offset in [16, 24, 32] {
        assert!(error(offset, &[0xff; 8]).contains("illegal number"));
    }
    assert!(error(16, &[0; 8]).contains("illegal number"));
    assert!(error(48, &[0xff; 8]).contains("another number of entries"));
    assert!(error(56, &[50]).contains("larger than its slot"));
    assert!(error(48, &[103]).contains("another number of entries"));
    assert!(error(48, &[0]).contains("another number of entries"));
    assert!(error(56, &[2]).contains("another number of entries"));
}

#[test]
fn a_damaged_content_block_is_an_error() {
    let (header, blocks) = written(&[cell_entry(), extents_entry(extents(1_000_000, 2, 0))]);
    let read = |bytes: &[u8], generation, blocks_before| {
        let header = CheckpointHeader {
            generation,
            blocks: header.blocks + blocks_before,
            ..header
        };
        CheckpointReader::new(&header, SECRET, SLOT, BOUNDS)
            .read(bytes)
            .map(Entries::count)
    };
    assert_eq!(read(&blocks[0], 5, 0).unwrap(), 2);
    assert!(read(&blocks[0], 6, 0).is_err());
    assert!(read(&blocks[0], 5, 1).is_err(), "another block is missing");
    assert!(read(&[], 5, 0).is_err());
    for_each_flip(&blocks[0], |flipped, bit| {
        assert!(read(flipped, 5, 0).is_err(), "bit {bit}");
    });
}

#[test]
fn each_illegal_field_of_an_entry_is_named_with_its_place() {
    let (header, blocks) = written(&[cell_entry(), extents_entry(extents(1_000_000, 2, 0))]);
    let error = |offset, patch: &[u8]| {
        let mut block = patched(&blocks[0], offset, patch);
        let place = sum::Place::CheckpointContent {
            generation: 5,
            index: 0,
        };
        sum::seal(&mut block, |rest| place.sum(SECRET, rest));
        let mut reader = CheckpointReader::new(&header, SECRET, SLOT, BOUNDS);
        let error = match reader.read(&block) {
            Ok(entries) => entries.filter_map(Result::err).next().unwrap(),
            Err(error) => error,
        };
        error.to_string()
    };
    let at = |offset: u64| format!("damage at byte {}: ", SLOT.offset() + 4096 + offset);
    assert!(error(8, &[0xff, 0xff]).contains("larger"));
    assert_eq!(
        error(8, &[40]),
        at(0) + "a content block has bytes behind its entries"
    );
    assert!(error(10, &[1]).contains("another number of entries"));
    assert!(error(10, &[3]).contains("another number of entries"));
    assert!(error(12, &[1]).contains("behind"));
    assert!(error(4095, &[1]).contains("behind"));
    // The cell.
    assert_eq!(error(32, &[0]), at(16) + "an entry has an illegal key");
    assert_eq!(error(33, &[3]), at(16) + "an entry has an unknown kind");
    assert!(error(33, &[1]).contains("number of extents"));
    assert!(error(34, &[1]).contains("number of extents"));
    assert!(error(36, &[1, 8]).contains("belongs in extents"));
    assert!(error(44, &[1]).contains("padding"));
    assert!(error(48, &[1]).contains("location"));
    // The extents.
    assert_eq!(error(73, &[0]), at(56) + "an entry has an unknown kind");
    assert!(error(74, &[65]).contains("number of extents"));
    assert!(error(74, &[64]).contains("cut off"));
    assert!(error(74, &[1]).contains("blocks that the value needs"));
    assert!(error(76, &[0; 4]).contains("belongs in a cell"));
    assert!(error(88, &[0; 8]).contains("illegal extents"));
    assert!(error(91, &[0; 5]).contains("outside"));
}
