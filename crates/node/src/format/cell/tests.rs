use proptest::prelude::*;

use super::*;
use crate::format::fuzz::{SECRET, SEGMENT};
use crate::format::specimens::{for_each_flip, keys, patched};

fn key(number: u8) -> Key {
    Key::new(&[number; 3]).unwrap()
}

/// A segment with values of 0, 5 and 2,048 bytes, at 64, 104 and 152.
fn specimen() -> SegmentBuilder {
    let mut builder = SegmentBuilder::new(SECRET, SEGMENT, 9);
    for (number, value) in [(1, &b""[..]), (2, b"small"), (3, &[7; 2048])] {
        builder.push(&key(number), number.into(), value).unwrap();
    }
    builder
}

proptest! {
    #[test]
    fn cells_read_as_they_were_written(
        parts in prop::collection::vec(
            (keys(), 1..=MAX_SEQUENCE, prop::collection::vec(any::<u8>(), 0..=INLINE_MAX)),
            0..120,
        ),
        start in 0..1u64 << 40,
    ) {
        let mut builder = SegmentBuilder::new(SECRET, start, 4);
        let mut written = Vec::new();
        for (key, sequence, value) in &parts {
            let fits = cell_bytes(value.len()) <= builder.remaining();
            let location = builder.push(key, *sequence, value);
            prop_assert_eq!(location.is_some(), fits);
            written.extend(location.map(|location| Cell {
                location,
                key: *key,
                sequence: *sequence,
                value,
            }));
        }
        let segment = Segment::read(builder.bytes(), SECRET, start).unwrap();
        prop_assert_eq!(segment.sequence, 4);
        let cells: Vec<Cell> = segment.cells().map(Result::unwrap).collect();
        prop_assert_eq!(&cells, &written);
        for cell in cells {
            let (extent, at) = cell_blocks(cell.location, cell.value.len() as u32);
            let offset = (extent.start - start) as usize * BLOCK_BYTES;
            let blocks = &builder.bytes()[offset..offset + extent.bytes() as usize];
            prop_assert_eq!(&blocks[at..at + cell.value.len()], cell.value);
            prop_assert_eq!(read_cell(blocks, SECRET, cell.location).unwrap(), cell);
        }
    }
}

#[test]
fn a_cell_may_cross_blocks_and_fills_the_segment() {
    let location = CellLocation::new(100, 4088).unwrap();
    let two = Extent {
        start: 100,
        blocks: 2,
    };
    assert_eq!(cell_blocks(location, 0), (two, 4128));
    let location = CellLocation::new(100, 65_536 - 40).unwrap();
    let last = Extent {
        start: 115,
        blocks: 1,
    };
    assert_eq!(cell_blocks(location, 0), (last, 4096));
    let mut builder = SegmentBuilder::new(SECRET, SEGMENT, 0);
    while builder.push(&key(1), 1, b"").is_some() {}
    assert!(builder.remaining() < cell_bytes(0));
    assert_eq!(cells(builder.bytes(), SECRET, SEGMENT).count(), 1636);
    assert!(builder.push(&key(1), 1, &[0; INLINE_MAX + 1]).is_none());
}

#[test]
fn a_damaged_header_is_no_segment() {
    let builder = specimen();
    let read = |bytes: &[u8], start| Segment::read(bytes, SECRET, start).is_some();
    assert!(read(builder.bytes(), SEGMENT));
    assert!(!read(builder.bytes(), SEGMENT + 16));
    assert!(!read(&[0; SEGMENT_BYTES], SEGMENT));
    assert!(!read(&builder.bytes()[..SEGMENT_BYTES - 1], SEGMENT));
    for_each_flip(&builder.bytes()[..64], |header, bit| {
        assert!(
            !read(&patched(builder.bytes(), 0, header), SEGMENT),
            "bit {bit}"
        );
    });
    for (offset, patch) in [(8, 0), (12, 1), (23, 0x80), (24, 1), (63, 1)] {
        let mut header = patched(&builder.bytes()[..64], offset, &[patch]);
        let place = Place::Segment { start: SEGMENT };
        sum::seal(&mut header, |rest| place.sum(SECRET, rest));
        assert!(
            !read(&patched(builder.bytes(), 0, &header), SEGMENT),
            "{offset}"
        );
    }
}

#[test]
fn a_damaged_cell_is_one_error_and_hides_no_other() {
    let builder = specimen();
    let (second, third) = (104, 152);
    for_each_flip(&builder.bytes()[second..third], |cell, bit| {
        let segment = patched(builder.bytes(), second, cell);
        let found: Vec<_> = cells(&segment, SECRET, SEGMENT).collect();
        assert_eq!(found.len(), 3, "bit {bit}");
        assert_eq!(found[0].as_ref().unwrap().key, key(1));
        let error = found[1].as_ref().unwrap_err().to_string();
        let offset = SEGMENT * 4096 + second as u64;
        assert_eq!(error, format!("damage at byte {offset}: a cell is damaged"));
        assert_eq!(found[2].as_ref().unwrap().key, key(3));
        let location = CellLocation::new(SEGMENT, second).unwrap();
        assert!(read_cell(&segment[..4096], SECRET, location).is_err());
    });
}

#[test]
fn a_lost_sector_hides_no_cell_behind_it() {
    let mut builder = specimen();
    builder.push(&key(4), 4, b"behind").unwrap();
    // A sector of zeros within the third cell's value looks like the end.
    let segment = patched(builder.bytes(), 512, &[0; 512]);
    let found: Vec<_> = cells(&segment, SECRET, SEGMENT).collect();
    assert_eq!(found.len(), 4);
    assert!(found[2].is_err());
    assert_eq!(found[3].as_ref().unwrap().key, key(4));
}

/// A recovery puts live cells back, and no dead ones.
#[test]
fn a_gap_hides_no_cell_behind_it() {
    let segment = patched(specimen().bytes(), 64, &[0; 88]);
    let found: Vec<_> = cells(&segment, SECRET, SEGMENT).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].as_ref().unwrap().key, key(3));
}

#[test]
fn a_cell_is_valid_at_its_place_only() {
    let builder = specimen();
    let location = CellLocation::new(SEGMENT, 104).unwrap();
    let bytes = &builder.bytes()[..4096];
    assert_eq!(read_cell(bytes, SECRET, location).unwrap().value, b"small");
    assert!(read_cell(&bytes[..150], SECRET, location).is_err());
    assert!(read_cell(&[], SECRET, location).is_err());
    let elsewhere = CellLocation::new(SEGMENT + 1, 104).unwrap();
    assert!(read_cell(bytes, SECRET, elsewhere).is_err());
    assert!(read_cell(bytes, SECRET + 1, location).is_err());
}

#[test]
fn an_illegal_field_under_a_right_checksum_is_damage() {
    let builder = specimen();
    let location = CellLocation::new(SEGMENT, 104).unwrap();
    let place = Place::Cell {
        location: location.word(),
    };
    let is_whole = |offset, patch: &[u8]| {
        let mut block = patched(&builder.bytes()[..4096], 104 + offset, patch);
        sum::seal(&mut block[104..152], |rest| place.sum(SECRET, rest));
        read_cell(&block, SECRET, location).is_ok()
    };
    assert!(is_whole(44, b"L"));
    let illegal: [(usize, &[u8]); 8] = [
        (8, &[1]),
        (8, &[0xff; 4]),
        (12, &[0]),
        (12, &[17]),
        (13, &[2]),
        (14, &[1]),
        (16, &[0; 8]),
        (45, &[1]),
    ];
    for (offset, patch) in illegal {
        assert!(!is_whole(offset, patch), "{offset}");
    }
}
