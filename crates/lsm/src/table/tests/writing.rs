use super::*;
use crate::Error;
use crate::cursor::Cursor;
use crate::key::MAX_KEY_BYTES;
use crate::table::walk::BlockRole;

fn names(storage: &SimulatedStorage) -> usize {
    storage.list(Path::new("/t")).unwrap().len()
}

fn writer(storage: &SimulatedStorage) -> TableWriter {
    let options = options(Compression::Lz4, 4096);
    create_at(storage, PATH, options).unwrap()
}

#[test]
fn entries_out_of_order_are_refused_and_do_no_harm() {
    let storage = memory();
    let mut writer = writer(&storage);
    writer
        .add(InternalKey::new(b"m", 5, Kind::Put), b"1")
        .unwrap();
    for wrong in [
        InternalKey::new(b"l", 9, Kind::Put),
        InternalKey::new(b"m", 5, Kind::Put),
        InternalKey::new(b"m", 6, Kind::Put),
    ] {
        assert!(matches!(
            writer.add(wrong, b""),
            Err(Error::InvalidArgument(_))
        ));
    }
    writer
        .add(InternalKey::new(b"m", 4, Kind::Put), b"2")
        .unwrap();
    assert_eq!(writer.finish().unwrap().entries, 2);
    assert_eq!(
        get(&open(&storage).unwrap(), b"m", 4).unwrap().unwrap().1,
        b"2"
    );
}

#[test]
fn a_key_too_long_is_refused_and_the_longest_is_not() {
    let storage = memory();
    let mut writer = writer(&storage);
    let key = vec![b'k'; MAX_KEY_BYTES + 1];
    let longest = InternalKey::new(&key[1..], 1, Kind::Put);
    assert!(
        writer
            .add(InternalKey::new(&key, 1, Kind::Put), b"")
            .is_err()
    );
    writer.add(longest, b"v").unwrap();
    writer.finish().unwrap();
    assert_eq!(
        get(&open(&storage).unwrap(), &key[1..], 1)
            .unwrap()
            .unwrap()
            .1,
        b"v"
    );
}

#[test]
fn an_unfinished_table_leaves_no_file() {
    let storage = memory();
    assert!(writer(&storage).finish().is_err());
    assert_eq!(names(&storage), 0);
    let mut dropped = writer(&storage);
    dropped
        .add(InternalKey::new(b"a", 1, Kind::Put), b"")
        .unwrap();
    assert_eq!(names(&storage), 1);
    drop(dropped);
    assert_eq!(names(&storage), 0);
}

/// Several writes to the file, many partitions, a value that fills several blocks.
#[test]
fn a_large_table_is_read_back_whole() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let storage = memory();
        let mut versions: Vec<Version> = (0..30_000u64)
            .map(|n| {
                let key = format!("user/{:08}", n * 7);
                let value = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
                version(key.as_bytes(), n + 1, Kind::Put, &value.repeat(4))
            })
            .collect();
        versions[15_000].2 = vec![b'x'; 3 << 20];
        let options = options(compression, 512);
        let mut writer = create_at(&storage, PATH, options).unwrap();
        for version in &versions {
            writer.add(internal(version), &version.2).unwrap();
        }
        let estimate = writer.estimated_bytes();
        let properties = writer.finish().unwrap();
        assert!(properties.file_bytes.abs_diff(estimate) < properties.file_bytes / 10);
        let (smallest, largest) = (&*versions[0].0, &*versions[29_999].0);
        assert_eq!(properties.user_keys(), Some((smallest, largest)));

        let cache = Arc::new(BlockCache::new(64 << 10, false));
        let table = open_at(&storage, PATH, 7, Arc::clone(&cache)).unwrap();
        let check = table.verify().unwrap();
        assert_eq!(check.entries, 30_000);
        assert!(check.index_partitions > 20);
        for version in versions.iter().step_by(61).chain(&versions[15_000..15_001]) {
            let found = get(&table, &version.0, u64::MAX >> 8).unwrap().unwrap();
            assert_eq!(found.1, version.2);
        }
        let mut cursor = table.cursor(CursorOptions::user_read());
        cursor.seek_to_last().unwrap();
        for version in versions.iter().rev() {
            assert_eq!(
                (cursor.key(), cursor.value()),
                (internal(version), &version.2[..])
            );
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        assert!(cache.used_bytes() <= cache.capacity_bytes());
        assert!(cache.used_bytes() > 0 && cache.misses() > 0);
    }
}

/// Piece by piece, the rest of it would move to the front each time.
#[test]
fn a_large_value_is_written_at_once() {
    let storage = CountingStorage::new(Arc::new(memory()));
    let options = options(Compression::None, 512);
    let mut writer = create_at(&storage, PATH, options).unwrap();
    let value = vec![7; 16 << 20];
    writer
        .add(InternalKey::new(b"k", 1, Kind::Put), &value)
        .unwrap();
    writer.finish().unwrap();
    let written = storage.snapshot().of(Purpose::Flush);
    assert!(written.writes <= 3, "{written:?}");
}

/// The write-back of a large table starts while it is written, and a medium that cannot do it does
/// no harm.
#[test]
fn a_large_table_is_sent_to_the_medium_as_it_grows() {
    use terrace_storage::{FailingStorage, Fault, FaultFilter, FaultPlan, Operation};

    let filter = FaultFilter::everything().operations(&[Operation::WriteBack]);
    let plan = FaultPlan::new(filter);
    plan.fail_from(1, Fault::Io);
    let inner = memory();
    let storage = FailingStorage::new(Arc::new(inner.clone()), plan.clone());
    let value = vec![7; 1 << 20];
    let versions: Vec<Version> = (0..20u8)
        .map(|key| version(&[key], 1, Kind::Put, &value))
        .collect();
    write(&storage, &versions, options(Compression::None, 4096));
    assert_eq!((plan.count(), plan.failures()), (20, 19));
    let table = open(&inner).unwrap();
    assert_eq!(get(&table, &[19], 1).unwrap().unwrap().1, value);
}

/// Rows of a given size, the pages of each block's place, and the table.
fn paged(value_bytes: usize, rows: u32) -> (Arc<TableReader>, SimulatedStorage, f64) {
    let storage = memory();
    let options = TableOptions {
        direct: true,
        ..options(Compression::None, 4096)
    };
    let value = |row: u32| vec![row as u8 | 1; value_bytes];
    let versions: Vec<Version> = (0..rows)
        .map(|row| {
            version(
                format!("user{row:019}").as_bytes(),
                9,
                Kind::Put,
                &value(row),
            )
        })
        .collect();
    write(&storage, &versions, options);
    let table = open(&storage).unwrap();
    assert_eq!(table.verify().unwrap().entries, u64::from(rows));
    let mut cursor = table.cursor(CursorOptions::user_read());
    cursor.seek_to_first().unwrap();
    for version in &versions {
        assert_eq!(
            (cursor.key(), cursor.value()),
            (internal(version), &*version.2)
        );
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    let (mut pages, mut entries) = (0, 0);
    let walked = table.walk(&mut |visit| {
        if visit.role == BlockRole::Data {
            let (start, end) = (visit.handle.offset, visit.handle.end().unwrap());
            let mut rows = 0;
            table.for_each_entry(visit.handle, visit.block, &mut |_| {
                rows += 1;
                Ok(())
            })?;
            pages += rows * ((end - 1) / 4096 - start / 4096 + 1);
            entries += rows;
        }
        Ok(())
    });
    walked.unwrap();
    (table, storage, pages as f64 / entries as f64)
}

#[test]
fn blocks_that_are_read_past_the_page_cache_keep_to_pages() {
    for (value_bytes, most_pages) in [
        (10, 1.01),
        (100, 1.02),
        (240, 1.06),
        (1000, 1.3),
        (3000, 1.8),
    ] {
        let (table, _, pages) = paged(value_bytes, 2000);
        assert!(pages < most_pages, "{value_bytes}: {pages} pages a row");
        let row_bytes = 2000 * (value_bytes as u64 + 36);
        let file_bytes = table.properties().file_bytes;
        assert!(
            file_bytes < row_bytes + row_bytes / 16 + 8192,
            "{value_bytes}: {file_bytes}"
        );
    }
}

#[test]
fn padding_that_is_not_zeros_is_found() {
    let (_, storage, _) = paged(100, 200);
    let bytes = storage.bytes(PATH);
    let mut padded = 0;
    for page_end in (4096..bytes.len()).step_by(4096) {
        let zeros = bytes[..page_end]
            .iter()
            .rev()
            .take_while(|byte| **byte == 0)
            .count();
        // A checksum may end with a zero; two in a row would be chance.
        if zeros > 8 {
            padded += 1;
            for at in [page_end - 1, page_end - zeros + 2] {
                let mut damaged = bytes.clone();
                damaged[at] = 1;
                storage.put(PATH, damaged);
                let error = open(&storage).unwrap().verify().unwrap_err().to_string();
                assert!(error.contains("more than zeros"), "{error}");
            }
        }
    }
    assert!(padded > 2, "{padded}");
}
