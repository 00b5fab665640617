//! Tables with range tombstones: written ones are read, alone and beside versions, and wrong ones
//! are refused.

use super::*;
use crate::range_tombstones::RangeTombstone;
use crate::range_tombstones::tests::tombstone;

fn ranges() -> Vec<RangeTombstone> {
    vec![
        tombstone("", "key/0003", 7),
        tombstone("key/0002", "key/0004", 150),
        tombstone("key/0002", "zz", 9),
        RangeTombstone {
            start: b"zzz".to_vec(),
            end: vec![0xff; 4],
            sequence: 1000,
        },
    ]
}

fn versions() -> Vec<Version> {
    (0..10u64)
        .map(|number| {
            let key = format!("key/{number:04}");
            version(key.as_bytes(), 100 + number, Kind::Put, b"value")
        })
        .collect()
}

fn write_with(
    storage: &dyn Storage,
    versions: &[Version],
    ranges: &[RangeTombstone],
) -> TableProperties {
    let options = options(Compression::None, 64);
    let mut writer = create_at(storage, PATH, options).unwrap();
    for version in versions {
        writer.add(internal(version), &version.2).unwrap();
    }
    for range in ranges {
        writer
            .add_range_tombstone(&range.start, &range.end, range.sequence)
            .unwrap();
    }
    writer.finish().unwrap()
}

fn read_ranges(table: &TableReader) -> Vec<RangeTombstone> {
    let set = table.range_tombstones().unwrap();
    let mut list: Vec<_> = set.iter().map(RangeTombstone::from).collect();
    list.sort_by(|a, b| a.start.cmp(&b.start).then(b.sequence.cmp(&a.sequence)));
    list
}

#[test]
fn ranges_are_read_as_they_were_written() {
    for versions in [versions(), Vec::new()] {
        let storage = memory();
        let properties = write_with(&storage, &versions, &ranges());
        let summary = properties.range_tombstones.clone().unwrap();
        assert_eq!((summary.start, summary.end), (Vec::new(), vec![0xff; 4]));
        let sequences = (properties.smallest_sequence, properties.largest_sequence);
        assert_eq!((properties.range_tombstones(), sequences), (4, (7, 1000)));
        let table = open(&storage).unwrap();
        assert_eq!(table.properties(), &properties);
        assert_eq!(read_ranges(&table), ranges());
        table.sketches(Purpose::Read).unwrap();
        assert_eq!(table.verify().unwrap().entries, versions.len() as u64);
        let found = get(&table, b"key/0002", u64::MAX >> 8).unwrap();
        assert_eq!(found.is_some(), !versions.is_empty());
        let mut cursor = table.cursor(CursorOptions::user_read());
        let mut count = 0;
        crate::cursor::Cursor::seek_to_first(&mut cursor).unwrap();
        while crate::cursor::Cursor::valid(&cursor) {
            crate::cursor::Cursor::next(&mut cursor).unwrap();
            count += 1;
        }
        assert_eq!(count, versions.len());
        crate::cursor::Cursor::seek_to_last(&mut cursor).unwrap();
        assert_eq!(crate::cursor::Cursor::valid(&cursor), !versions.is_empty());
    }
}

#[test]
fn a_flipped_bit_in_the_ranges_is_found() {
    let storage = memory();
    let properties = write_with(&storage, &[], &ranges());
    let handle = properties.range_tombstones.unwrap().handle;
    let whole = storage.bytes(PATH);
    let block = handle.offset as usize..(handle.offset + handle.length_bytes) as usize;
    for at in block {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        storage.put(PATH, bytes);
        assert!(open(&storage).is_err(), "byte {at}");
    }
}

#[test]
fn a_range_out_of_order_or_without_keys_is_refused() {
    let storage = memory();
    let options = options(Compression::None, 64);
    let mut writer = create_at(&storage, PATH, options).unwrap();
    writer.add_range_tombstone(b"b", b"c", 5).unwrap();
    for (start, end, sequence) in [("a", "b", 9), ("b", "c", 5), ("b", "c", 6), ("c", "c", 1)] {
        let added = writer.add_range_tombstone(start.as_bytes(), end.as_bytes(), sequence);
        assert!(added.is_err(), "{start} {end} {sequence}");
    }
    writer.add_range_tombstone(b"b", b"z", 4).unwrap();
}

/// The checksum does not show a block that was never a writer's.
#[test]
fn a_block_that_the_footer_does_not_describe_is_refused() {
    use crate::table::block::Block;
    use crate::table::block_builder::BlockBuilder;
    use crate::table::range_block::{RangeSummary, decode};
    let summary = RangeSummary {
        handle: crate::table::format::BlockHandle {
            offset: 16,
            length_bytes: 60,
        },
        count: 2,
        start: b"a".to_vec(),
        end: b"m".to_vec(),
    };
    type Entry = (&'static str, u64, Kind, &'static str);
    let decoded = |entries: &[Entry], summary: &RangeSummary| {
        let mut builder = BlockBuilder::new(1);
        for (start, sequence, kind, end) in entries {
            let key = InternalKey::new(start.as_bytes(), *sequence, *kind);
            builder.add(key, end.as_bytes());
        }
        let block = Block::new(builder.finish(<[u8]>::to_vec)).unwrap();
        decode(&block, summary, 3..=9).map(|set| set.len())
    };
    let good = [
        ("a", 5, Kind::RangeDelete, "c"),
        ("b", 3, Kind::RangeDelete, "m"),
    ];
    assert_eq!(decoded(&good, &summary), Ok(2));
    let with = |at: usize, entry: Entry| {
        let mut entries = good;
        entries[at] = entry;
        decoded(&entries, &summary).is_err()
    };
    assert!(with(0, ("a", 5, Kind::Put, "c")), "a kind");
    assert!(with(0, ("a", 5, Kind::RangeDelete, "a")), "an empty range");
    assert!(with(0, ("b", 2, Kind::RangeDelete, "c")), "the order");
    assert!(
        with(1, ("b", 2, Kind::RangeDelete, "m")),
        "a number too low"
    );
    assert!(
        with(1, ("b", 10, Kind::RangeDelete, "m")),
        "a number too high"
    );
    assert!(with(1, ("b", 3, Kind::RangeDelete, "n")), "the end");
    assert!(with(0, ("aa", 5, Kind::RangeDelete, "c")), "the start");
    let three = RangeSummary {
        count: 3,
        ..summary.clone()
    };
    assert!(decoded(&good, &three).is_err(), "the count");
}

/// The file of format version 1 with range tombstones: written today byte for byte, and read.
#[test]
fn the_golden_table_with_ranges_is_what_is_written_and_read_today() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = manifest.join("tests/golden/table-v2-ranges.bin");
    let storage = memory();
    write_with(&storage, &versions(), &ranges());
    let written = storage.bytes(PATH);
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == written, "the table format has changed");
    storage.put(PATH, golden);
    let table = open(&storage).unwrap();
    table.verify().unwrap();
    assert_eq!(read_ranges(&table), ranges());
}

#[test]
fn a_note_of_superseded_versions_is_held_against_entries_and_ranges() {
    let versions = [
        version(b"a", 9, Kind::Put, b"new"),
        version(b"a", 4, Kind::Put, b"old"),
        version(b"b", 3, Kind::Put, b"hidden"),
    ];
    let verified = |range: RangeTombstone| {
        let storage = memory();
        let mut writer = create_at(&storage, PATH, options(Compression::None, 64)).unwrap();
        let [new, old, hidden] = &versions;
        writer.add(internal(new), &new.2).unwrap();
        writer.add(internal(old), &old.2).unwrap();
        writer
            .add_under(internal(hidden), &hidden.2, Some(7))
            .unwrap();
        writer
            .add_range_tombstone(&range.start, &range.end, range.sequence)
            .unwrap();
        let noted = writer.finish().unwrap().superseded.unwrap();
        assert_eq!((noted.versions, noted.bytes, noted.largest_by), (2, 11, 9));
        open(&storage).unwrap().verify()
    };
    verified(tombstone("b", "c", 7)).unwrap();
    let elsewhere = verified(tombstone("c", "d", 7)).unwrap_err();
    assert!(elsewhere.to_string().contains("figures"), "{elsewhere}");
}
