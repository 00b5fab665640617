use super::*;
use crate::{ErrorKind, LockKind, OpenMode, OpenOptions, Purpose};

const PURPOSE: Purpose = Purpose::Other;

/// Returns bytes that tell positions apart.
fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length)
        .map(|index| ((index + salt) * 31 / 7) as u8)
        .collect()
}

fn kind_of<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn direct_files_take_any_length_at_any_offset() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let file = RealStorage
        .open(&path, OpenOptions::direct(OpenMode::CreateNew))
        .unwrap();
    if RealStorage.file_system(directory.path()).unwrap().name == "ext4" {
        assert!(file.is_direct());
    }
    let mut model = Vec::new();
    let calls = [
        (0, 1),
        (1, 4095),
        (4096, 4096),
        (8000, 500),
        (100, 20_000),
        (4096, 1 << 21),
        (5, (1 << 20) + 4096),
        (3 << 20, 12_345),
    ];
    for (salt, (offset, length)) in calls.into_iter().enumerate() {
        let bytes = pattern(length, salt);
        file.write_at(&bytes, offset as u64, PURPOSE).unwrap();
        model.resize(model.len().max(offset + length), 0);
        model[offset..offset + length].copy_from_slice(&bytes);
        assert_eq!(file.length_bytes().unwrap(), model.len() as u64);
    }
    let appended = pattern(10_001, 99);
    let offset = file.append(&appended, PURPOSE).unwrap();
    assert_eq!(offset, model.len() as u64);
    model.extend(appended);
    file.sync(PURPOSE).unwrap();

    let buffered = RealStorage
        .open(&path, OpenOptions::buffered(OpenMode::Read))
        .unwrap();
    for file in [file, buffered] {
        for (offset, length) in calls
            .into_iter()
            .chain([(0, model.len() + 5000), (4097, 1)])
        {
            let mut buffer = vec![0xEE; length];
            let count = file.read_at(&mut buffer, offset as u64, PURPOSE).unwrap();
            let end = model.len().min(offset + length);
            assert_eq!(count, end - offset);
            assert!(
                buffer[..count] == model[offset..end],
                "{length} at {offset}"
            );
        }
    }
}

#[test]
fn direct_reads_at_the_end_of_the_file_are_short() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let file = RealStorage
        .open(&path, OpenOptions::direct(OpenMode::CreateNew))
        .unwrap();
    file.append(&pattern(5000, 0), PURPOSE).unwrap();
    let read = |length, offset| file.read_at(&mut vec![0; length], offset, PURPOSE).unwrap();
    assert_eq!(read(8192, 0), 5000);
    assert_eq!(read(8192, 4096), 904);
    assert_eq!(read(10, 4999), 1);
    assert_eq!(read(10, 5000), 0);
    assert_eq!(read(4096, 8192), 0);
    assert_eq!(read(10, 1 << 40), 0);
    let short = file.read_exact_at(&mut [0; 10], 4995, PURPOSE);
    assert_eq!(kind_of(short), ErrorKind::UnexpectedEnd);
    assert!(file.read_at(&mut [0; 10], u64::MAX, PURPOSE).is_err());
    assert!(file.write_at(&[0; 10], u64::MAX, PURPOSE).is_err());
}

#[test]
fn locks_conflict_within_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("LOCK");
    let lock = |kind| RealStorage.lock(&path, kind);
    let exclusive = lock(LockKind::Exclusive).unwrap();
    assert_eq!(kind_of(lock(LockKind::Exclusive)), ErrorKind::Locked);
    assert_eq!(kind_of(lock(LockKind::Shared)), ErrorKind::Locked);
    drop(exclusive);
    let shared = [LockKind::Shared; 2].map(|kind| lock(kind).unwrap());
    assert_eq!(kind_of(lock(LockKind::Exclusive)), ErrorKind::Locked);
    drop(shared);
    lock(LockKind::Exclusive).unwrap();
}

#[test]
fn creates_missing_parents_and_accepts_existing_directories() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/c");
    RealStorage.create_directory(&path).unwrap();
    RealStorage.create_directory(&path).unwrap();
    assert!(path.is_dir());
    let file = path.join("file");
    fs::write(&file, b"x").unwrap();
    let outcome = RealStorage.create_directory(&file);
    assert_eq!(kind_of(outcome), ErrorKind::AlreadyExists);
    assert!(RealStorage.create_directory(&file.join("below")).is_err());
}

#[test]
fn lists_names_in_order() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["b", "a", "c"] {
        fs::write(directory.path().join(name), name.repeat(3)).unwrap();
    }
    fs::create_dir(directory.path().join("aa")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("dangling")).unwrap();
    let entries = RealStorage.list(directory.path()).unwrap();
    let seen: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.length_bytes, entry.is_directory))
        .collect();
    assert_eq!(
        seen,
        [
            ("a", 3, false),
            ("aa", 0, true),
            ("b", 3, false),
            ("c", 3, false),
            ("dangling", 0, false)
        ]
    );
}

#[test]
fn allocating_reserves_blocks_and_keeps_the_length() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let options = OpenOptions::buffered(OpenMode::CreateNew);
    let file = RealStorage.open(&path, options).unwrap();
    file.allocate(0).unwrap();
    match file.allocate(1 << 20) {
        Ok(()) => assert!(fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
    }
    assert_eq!(file.length_bytes().unwrap(), 0);
    file.append(b"x", PURPOSE).unwrap();
    assert_eq!(file.length_bytes().unwrap(), 1);
}

#[test]
fn tells_about_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    assert!(RealStorage.free_space_bytes(directory.path()).unwrap() > 0);
    assert!(
        !RealStorage
            .file_system(directory.path())
            .unwrap()
            .name
            .is_empty()
    );
    let boot_id = RealStorage.boot_id().unwrap();
    assert_eq!(boot_id, RealStorage.boot_id().unwrap());
    assert_ne!(boot_id, [0; 16]);
    let missing = directory.path().join("missing");
    assert_eq!(
        kind_of(RealStorage.free_space_bytes(&missing)),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind_of(RealStorage.file_system(&missing)),
        ErrorKind::NotFound
    );
}

#[test]
fn a_boot_id_is_a_uuid_or_an_error() {
    let id = parse_boot_id("00112233-4455-6677-8899-aabbccddeeff\n").unwrap();
    assert_eq!(id[..4], [0x00, 0x11, 0x22, 0x33]);
    assert_eq!(id[15], 0xFF);
    for text in [
        "",
        "0011",
        "g0112233-4455-6677-8899-aabbccddeeff",
        "+0112233-4455-6677-8899-aabbccddeeff",
    ] {
        assert!(parse_boot_id(text).is_err(), "{text}");
    }
}

#[test]
fn memory_of_their_own_holds_the_bytes_asked_for_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = pattern(20_000, 3);
    for (name, mode) in [
        ("buffered", OpenOptions::buffered(OpenMode::CreateNew)),
        ("direct", OpenOptions::direct(OpenMode::CreateNew)),
    ] {
        let file = RealStorage
            .open(&directory.path().join(name), mode)
            .unwrap();
        file.write_at(&bytes, 0, PURPOSE).unwrap();
        for (offset, length) in [(0, 0), (0, 20_000), (4_095, 2), (19_999, 1), (20_000, 0)] {
            let read = file.read_vec_at(length, offset as u64, PURPOSE).unwrap();
            assert_eq!(read, bytes[offset..offset + length], "{name}");
        }
        for (offset, length) in [(19_999, 2), (20_000, 1), (50_000, 1)] {
            let past_the_end = file.read_vec_at(length, offset, PURPOSE);
            assert_eq!(kind_of(past_the_end), ErrorKind::UnexpectedEnd, "{name}");
        }
    }
}

#[test]
fn reading_is_started_only_for_what_is_not_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let options = OpenOptions::buffered(OpenMode::CreateNew);
    let file = RealStorage.open(&path, options).unwrap();
    file.write_at(&[7; 1 << 20], 0, Purpose::Other).unwrap();
    file.sync(Purpose::Other).unwrap();
    assert!(!file.start_read(0, 4096), "just written");
    let handle = std::fs::File::open(&path).unwrap();
    rustix::fs::fadvise(&handle, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    // A file system may ignore the advice and keep its pages (tmpfs, overlay).
    if file.start_read(512 << 10, 4096) {
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, 512 << 10, Purpose::Read)
            .unwrap();
        assert_eq!(bytes, [7; 4096]);
        assert!(!file.start_read(512 << 10, 4096), "read by now");
    }
}

/// Returns the bytes of a file that the page cache holds.
fn cached_bytes(path: &std::path::Path, length_bytes: u64) -> u64 {
    use std::io::IoSliceMut;

    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let handle = std::fs::File::open(path).unwrap();
    let is_cached = |offset: &u64| {
        let mut byte = [0];
        let mut buffers = [IoSliceMut::new(&mut byte)];
        let read = preadv2(&handle, &mut buffers, *offset, ReadWriteFlags::NOWAIT);
        read != Err(Errno::AGAIN)
    };
    // From the end: a probe makes the kernel fetch the pages behind it.
    let pages = (0..length_bytes / 4096).rev().map(|page| page * 4096);
    pages.filter(is_cached).count() as u64 * 4096
}

#[test]
fn what_a_merge_reads_of_a_direct_file_does_not_stay_in_the_page_cache() {
    const WINDOW_BYTES: usize = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let options = OpenOptions::direct(OpenMode::CreateNew);
    let file = RealStorage.open(&path, options).unwrap();
    let bytes = pattern(4 << 20, 5);
    file.write_at(&bytes, 0, Purpose::Compaction).unwrap();
    file.sync(Purpose::Compaction).unwrap();
    // A tmpfs is nothing but page cache.
    let name = RealStorage.file_system(directory.path()).unwrap().name;
    let leaves = name == "ext4" || name == "xfs";
    for (number, part) in bytes.chunks(WINDOW_BYTES).enumerate() {
        let offset = (number * WINDOW_BYTES) as u64;
        let read = file.read_vec_at(part.len(), offset, Purpose::Compaction);
        assert_eq!(read.unwrap(), part);
        if number == 20 && leaves {
            let cached = cached_bytes(&path, bytes.len() as u64);
            assert!(cached < 1 << 20, "{cached} bytes");
        }
    }
    let past_the_end = file.read_vec_at(2, bytes.len() as u64 - 1, Purpose::Compaction);
    assert_eq!(kind_of(past_the_end), ErrorKind::UnexpectedEnd);
    let far = file.read_vec_at(2, u64::MAX - 1, Purpose::Compaction);
    assert!(far.is_err());
}
