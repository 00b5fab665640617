use proptest::prelude::*;

use super::*;
use crate::format::fuzz::{BOUNDS, SECRET};
use crate::format::location::{CellLocation, INLINE_MAX};
use crate::format::specimens::{cell_locations, extent_lists, for_each_flip, keys, patched};
use crate::format::value::piece_checksum;
use crate::key::Key;

const OFFSET: u64 = 1 << 20;

/// A change that owns its value.
#[derive(Clone, Debug)]
enum Owned {
    Extents(u32, crate::block::Extents),
    Inline(CellLocation, Vec<u8>),
    Cell(CellLocation, u32),
    Delete,
}

fn record(key: Key, sequence: u64, change: &Owned) -> Record<'_> {
    let (value_bytes, checksum, what) = match change {
        Owned::Extents(length, extents) => (*length, 77, Change::Extents(extents.clone())),
        Owned::Inline(home, value) => {
            let checksum = piece_checksum(SECRET, 0, value);
            let (home, value) = (*home, &value[..]);
            (value.len() as u32, checksum, Change::Inline { home, value })
        }
        Owned::Cell(cell, length) => (*length, 78, Change::Cell(*cell)),
        Owned::Delete => (0, 0, Change::Delete),
    };
    Record {
        key,
        sequence,
        value_bytes,
        checksum,
        what,
    }
}

fn changes() -> impl Strategy<Value = Owned> {
    let value = prop::collection::vec(any::<u8>(), 0..=INLINE_MAX);
    prop_oneof![
        extent_lists().prop_map(|(length, extents)| Owned::Extents(length, extents)),
        (cell_locations(), value).prop_map(|(home, value)| Owned::Inline(home, value)),
        (cell_locations(), 0..=INLINE_MAX as u32).prop_map(|(cell, n)| Owned::Cell(cell, n)),
        Just(Owned::Delete),
    ]
}

proptest! {
    #[test]
    fn records_read_as_they_were_written(
        parts in prop::collection::vec((keys(), 1..=1u64 << 62, changes()), 0..120),
        number in 0..1u64 << 62,
        previous: u64,
    ) {
        let mut builder = BlockBuilder::new(SECRET, number, previous, number / 2);
        let mut written = Vec::new();
        for (key, sequence, change) in &parts {
            let record = record(*key, *sequence, change);
            let fits = record.encoded_len() <= builder.remaining();
            prop_assert_eq!(builder.push(&record), fits);
            if fits {
                written.push(record);
            }
        }
        let mut block = [0xff; BLOCK_BYTES];
        let checksum = builder.finish(&mut block);
        let read = read_block(&block, SECRET, number, OFFSET).unwrap().unwrap();
        prop_assert_eq!((read.previous, read.durable), (previous, number / 2));
        prop_assert_eq!((read.checksum, read.count), (checksum, written.len()));
        let records: Vec<Record> = read.records(&BOUNDS).map(Result::unwrap).collect();
        prop_assert_eq!(records, written);
    }
}

/// A block with a record of each kind, the second from byte 88 on.
fn specimen() -> Vec<u8> {
    let key = Key::new(b"key").unwrap();
    let cell = CellLocation::new(1600, 64).unwrap();
    let extents = crate::format::specimens::extents(5000, 1, 0);
    let changes = [
        Owned::Extents(5000, extents),
        Owned::Inline(cell, b"small".to_vec()),
        Owned::Cell(cell, 2048),
        Owned::Delete,
    ];
    let mut builder = BlockBuilder::new(SECRET, 12, 11, 9);
    for (index, change) in changes.iter().enumerate() {
        assert!(builder.push(&record(key, index as u64 + 1, change)));
    }
    assert_eq!(builder.count(), 4);
    let mut block = vec![0; BLOCK_BYTES];
    builder.finish(&mut block);
    block
}

#[test]
fn another_block_is_read_as_none() {
    let block = specimen();
    let is_read =
        |bytes: &[u8], secret, number| read_block(bytes, secret, number, OFFSET).unwrap().is_some();
    assert!(is_read(&block, SECRET, 12));
    assert!(!is_read(&block, SECRET, 13));
    assert!(!is_read(&block, SECRET + 1, 12));
    assert!(!is_read(&[0; BLOCK_BYTES], SECRET, 12));
    assert!(!is_read(&block[..BLOCK_BYTES - 1], SECRET, 12));
    assert!(!is_read(&[], SECRET, 12));
    for_each_flip(&block, |flipped, bit| {
        assert!(!is_read(flipped, SECRET, 12), "bit {bit}");
    });
}

#[test]
fn a_full_block_refuses_a_record() {
    let mut builder = BlockBuilder::new(SECRET, 0, 0, 0);
    let delete = record(Key::new(b"k").unwrap(), 1, &Owned::Delete);
    while builder.push(&delete) {}
    assert_eq!((builder.count(), builder.remaining()), (101, 16));
}

/// Returns the error of a block whose bytes were changed under a right checksum.
fn error(offset: usize, patch: &[u8]) -> String {
    let mut block = patched(&specimen(), offset, patch);
    let place = Place::Journal { number: 12 };
    sum::seal(&mut block, |rest| place.sum(SECRET, rest));
    let read = match read_block(&block, SECRET, 12, OFFSET) {
        Ok(read) => read.expect("the checksum is right"),
        Err(error) => return error.to_string(),
    };
    let mut records = read.records(&BOUNDS).skip_while(Result::is_ok);
    let error = records.next().expect("the patch is an error").unwrap_err();
    assert!(
        records.next().is_none(),
        "behind an error there is no record"
    );
    error.to_string()
}

#[test]
fn each_illegal_field_is_named_with_its_place() {
    let at = |offset: u64| format!("damage at byte {}: ", OFFSET + offset);
    // The header.
    assert_eq!(
        error(12, &[0xff, 0xff]),
        at(0) + "a journal block says that it is larger"
    );
    assert_eq!(
        error(14, &[3]),
        at(192) + "a journal block has more bytes than its records"
    );
    assert_eq!(error(14, &[5]), at(232) + "a record is cut off");
    assert!(error(32, &[13]).contains("flush mark"));
    assert!(error(4095, &[1]).contains("behind its records"));
    // The first record: extents.
    assert_eq!(error(40, &[0]), at(40) + "a record has an unknown kind");
    assert!(error(40, &[5]).contains("unknown kind"));
    for bytes in [0, 2, 17, 255] {
        assert_eq!(error(41, &[bytes]), at(40) + "a record has an illegal key");
    }
    assert!(error(42, &[0]).contains("illegal extents"));
    assert!(error(42, &[0xff, 0xff]).contains("cut off in its extents"));
    assert!(error(42, &[2]).contains("extent"));
    assert!(error(44, &[0xff; 4]).contains("larger than the namespace"));
    assert!(error(44, &[0, 8, 0]).contains("belongs in a cell"));
    assert!(error(44, &[0, 0x40]).contains("blocks that the value needs"));
    assert!(error(48, &[0; 8]).contains("sequence"));
    assert!(error(48, &[0xff; 8]).contains("sequence"));
    assert!(error(80, &[0; 8]).contains("illegal extents"));
    assert!(error(80, &[0xff; 8]).contains("illegal extents"));
    assert!(error(83, &[0xe7, 3]).contains("outside of the data"));
    // The second: a value.
    assert_eq!(
        error(104, &[1]),
        at(88) + "the value in a record does not match its checksum"
    );
    assert!(error(90, &[1]).contains("number of them"));
    assert!(error(128, &[1]).contains("location of a cell"));
    assert!(error(128, &[0xf8, 0xff]).contains("within its segment"));
    assert!(error(136 + 4, b"L").contains("checksum"));
    assert!(error(136 + 5, &[1]).contains("padding"));
    // The third: a cell. The last: a delete.
    assert!(error(144 + 4, &[1, 8]).contains("belongs in extents"));
    assert_eq!(error(192 + 4, &[1]), at(192) + "a delete has a value");
    assert!(error(192 + 16, &[1]).contains("a delete has a value"));
}
