//! Tables that are read and written past the page cache, on a real file system.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use terrace::{Db, IterOptions, KeyspaceOptions, Options};
use terrace_storage::{OpenMode, OpenOptions, RealStorage, Storage};

/// `O_DIRECT`: in `open`, and among the flags in `/proc/self/fdinfo`.
#[cfg(target_arch = "x86_64")]
const DIRECT: i32 = 0o40_000;
#[cfg(target_arch = "aarch64")]
const DIRECT: i32 = 0o200_000;

/// Returns whether the file system lets a file be opened so, without a store in between.
fn has_direct_io(directory: &Path) -> bool {
    let path = directory.join("probe");
    fs::write(&path, b"").unwrap();
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(DIRECT).open(&path).is_ok()
}

/// Returns the number of descriptors of tables in the directory that go past the page cache.
fn direct_descriptors(directory: &Path) -> usize {
    let is_direct_table = |descriptor: &std::ffi::OsStr| {
        let path = fs::read_link(Path::new("/proc/self/fd").join(descriptor)).ok()?;
        let info = Path::new("/proc/self/fdinfo").join(descriptor);
        let info = fs::read_to_string(info).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
        let is_table = path.extension().is_some_and(|name| name == "table");
        Some(is_table && path.starts_with(directory) && flags & DIRECT != 0)
    };
    fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter(|entry| is_direct_table(&entry.as_ref().unwrap().file_name()).unwrap_or(false))
        .count()
}

/// Returns the numbers of whole pages of tables in the directory: in the page cache, and in all.
fn pages_in_page_cache(directory: &Path) -> (usize, usize) {
    let files = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|name| name == "table"));
    let mut is_cached = Vec::new();
    for path in tables {
        let options = OpenOptions::buffered(OpenMode::Read);
        let file = RealStorage.open(&path, options).unwrap();
        let pages = file.length_bytes().unwrap() / 4096;
        // Backwards: asking may have the kernel read ahead.
        is_cached.extend(
            (0..pages)
                .rev()
                .map(|page| !file.start_read(page * 4096, 4096)),
        );
    }
    let cached = is_cached.iter().filter(|is_cached| **is_cached).count();
    (cached, is_cached.len())
}

#[test]
fn tables_are_written_past_the_page_cache_or_into_it() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let file_system = RealStorage.file_system(&directory).unwrap().name;
    if !has_direct_io(&directory) || !["ext4", "xfs"].contains(&&*file_system) {
        println!("{file_system} has no direct I/O, or does not say what is in the page cache");
        return;
    }
    for direct_io in [true, false] {
        let path = directory.join(direct_io.to_string());
        let options = Options {
            direct_io,
            ..Options::default()
        };
        let db = Db::open(&path, options).unwrap();
        for key in 0..5000u32 {
            db.put(key.to_be_bytes(), [7; 1000]).unwrap();
        }
        db.flush().unwrap();
        let (cached, pages) = pages_in_page_cache(&path);
        assert!(pages > 1000);
        assert_eq!(cached, if direct_io { 0 } else { pages });
        db.close().unwrap();
    }
}

#[test]
fn tables_are_read_past_the_page_cache_and_give_the_same() {
    // Under the target directory: a temporary one may be on a tmpfs.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directory = directory.path().canonicalize().unwrap();
    for poll_reads in [false, true] {
        let path = directory.join(format!("store-{poll_reads}"));
        what_is_read_past_the_page_cache_is_the_same(&directory, &path, poll_reads);
    }
}

fn what_is_read_past_the_page_cache_is_the_same(directory: &Path, path: &Path, poll_reads: bool) {
    let options = |direct_io| Options {
        direct_io,
        poll_reads: Some(poll_reads),
        default_keyspace: KeyspaceOptions {
            block_bytes: 1000,
            ..KeyspaceOptions::default()
        },
        cache_bytes: 8 << 10,
        ..Options::default()
    };
    let db = Db::open(path, options(true)).unwrap();
    let value = |key: u32| key.to_le_bytes().repeat(50);
    for key in 0..2000u32 {
        db.put(key.to_be_bytes(), value(key)).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    for key in (0..2000).rev() {
        let found = db.get(u32::to_be_bytes(key)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(key)[..]));
    }
    let rows = db.iter(IterOptions::default()).unwrap().entries();
    assert_eq!(rows.map(Result::unwrap).count(), 2000);
    let polls = db.statistics().can_poll_reads;
    assert_eq!(polls, poll_reads.then(|| RealStorage.can_poll()));
    assert_eq!(direct_descriptors(path) > 0, has_direct_io(directory));
    db.close().unwrap();
    drop(db);
    let db = Db::open(path, options(false)).unwrap();
    assert!(db.get(7u32.to_be_bytes()).unwrap().is_some());
    assert_eq!(direct_descriptors(path), 0);
    let polls = db.statistics().can_poll_reads;
    assert_eq!(
        polls,
        poll_reads.then_some(false),
        "not past the page cache"
    );
}
