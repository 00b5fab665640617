//! Files of format version 2 that every later version must read. Today's writer writes the
//! uncompressed one byte for byte. `TERRACE_BLESS=1` writes them again.

use super::*;
use crate::cursor::Cursor;

fn golden_versions() -> Vec<Version> {
    let mut versions = vec![
        version(b"", 12, Kind::Put, b"the empty key"),
        version(b"a", 30, Kind::Delete, b""),
        version(b"a", 20, Kind::Put, b""),
        version(b"a", 4, Kind::Put, b"older"),
    ];
    for number in 0..24u64 {
        let key = format!("key/{number:04}");
        let value = format!("value {number} ").repeat(3);
        versions.push(version(
            key.as_bytes(),
            100 + number,
            Kind::Put,
            value.as_bytes(),
        ));
    }
    versions.push(version(&[0xff; 3], 99, Kind::Put, &[0; 300]));
    versions
}

fn golden_options(compression: Compression) -> TableOptions {
    TableOptions {
        restart_interval: 4,
        ..options(compression, 200)
    }
}

fn golden_path(name: &str) -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.join("tests/golden").join(name)
}

/// Returns the golden file, written first if that is asked for.
fn golden(name: &str, options: TableOptions) -> (Vec<u8>, Vec<u8>) {
    golden_of(&golden_versions(), name, options)
}

fn golden_of(versions: &[Version], name: &str, options: TableOptions) -> (Vec<u8>, Vec<u8>) {
    let storage = memory();
    write(&storage, versions, options);
    let written = storage.bytes(PATH);
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(golden_path(name), &written).unwrap();
    }
    (std::fs::read(golden_path(name)).unwrap(), written)
}

fn assert_reads(bytes: Vec<u8>) {
    assert_reads_of(&golden_versions(), bytes);
}

fn assert_reads_of(versions: &[Version], bytes: Vec<u8>) {
    let storage = memory();
    storage.put(PATH, bytes);
    let table = open(&storage).unwrap();
    table.verify().unwrap();
    let mut cursor = table.cursor(CursorOptions::user_read());
    cursor.seek_to_first().unwrap();
    for expected in versions {
        assert_eq!(cursor.key(), internal(expected));
        assert_eq!(cursor.value(), expected.2);
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
}

#[test]
fn the_golden_table_is_what_is_written_and_read_today() {
    let (golden, written) = golden("table-v2.bin", golden_options(Compression::None));
    assert!(golden == written, "the table format has changed");
    assert_reads(golden.clone());
    let storage = memory();
    storage.put(PATH, golden);
    let noted = open(&storage).unwrap().properties().superseded.unwrap();
    // The versions 20 and 4 of "a".
    assert_eq!((noted.versions, noted.bytes, noted.largest_by), (2, 7, 30));
}

/// Their footers note no superseded versions, as those of before the note.
/// Compressors may find other encodings in later releases; their old encodings must still be read.
#[test]
fn compressed_golden_tables_are_still_read() {
    assert_reads(golden("table-v2-lz4.bin", golden_options(Compression::Lz4)).0);
    assert_reads(golden("table-v2-zstd.bin", golden_options(Compression::Zstd)).0);
}

/// A table that keeps to pages, with zeros before the second and the third.
#[test]
fn the_golden_table_in_pages_is_what_is_written_and_read_today() {
    let value = |number: u64| vec![number as u8; 230];
    let versions: Vec<Version> = (0..45u64)
        .map(|number| (format!("key/{number:04}"), number))
        .map(|(key, number)| version(key.as_bytes(), 100 + number, Kind::Put, &value(number)))
        .collect();
    let options = TableOptions {
        direct: true,
        ..options(Compression::None, 4096)
    };
    let (golden, written) = golden_of(&versions, "table-v2-pages.bin", options);
    assert!(golden == written, "the table format has changed");
    assert!(golden[4090..4096] == [0; 6] && golden[8186..8192] == [0; 6]);
    assert_reads_of(&versions, golden);
}

/// A table with a fuse filter.
#[test]
fn the_golden_table_with_a_fuse_filter_is_what_is_written_and_read_today() {
    let key = |number: u64| format!("key/{number:04}").into_bytes();
    let versions: Vec<Version> = (0..300)
        .map(|number| version(&key(number), 100 + number, Kind::Put, b""))
        .collect();
    let options = TableOptions {
        filter: FilterForm {
            kind: FilterKind::Fuse,
            bits_per_key: 15.5,
        },
        ..options(Compression::None, 4096)
    };
    let (golden, written) = golden_of(&versions, "table-v2-fuse.bin", options);
    assert!(golden == written, "the table format has changed");
    assert_reads_of(&versions, golden);
}

/// A table that says how old its tombstones are.
#[test]
fn the_golden_table_with_an_oldest_tombstone_is_what_is_written_and_read_today() {
    let options = TableOptions {
        oldest_tombstone_seconds: Some(1_764_000_000),
        ..golden_options(Compression::None)
    };
    let (golden, written) = golden("table-v2-oldest-tombstone.bin", options);
    assert!(golden == written, "the table format has changed");
    assert_reads(golden.clone());
    let storage = memory();
    storage.put(PATH, golden);
    let properties = open(&storage).unwrap().properties().clone();
    assert_eq!(properties.oldest_tombstone_seconds, Some(1_764_000_000));
}
