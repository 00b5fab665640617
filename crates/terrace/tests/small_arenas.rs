//! A store begins small, and the next arena is larger: the cost on the disk and in syncs, and the
//! state after power cuts and kills.

use std::path::Path;
use std::sync::Arc;

use terrace::{Background, Db, Durability, IterOptions, KeyspaceOptions, Options};
use terrace_storage::{CrashKind, CrashSwitch, SimulatedStorage, Storage};

const KIB: usize = 1 << 10;

fn bytes_below(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

fn arena_sizes(path: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    let arenas = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("arena-"));
    let mut sizes: Vec<u64> = arenas
        // A file that a flush has removed since.
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        // A file that a worker is making.
        .filter(|&bytes| bytes > 0)
        .collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn a_store_of_one_key_takes_less_than_a_megabyte() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let db = Db::open(directory.path(), Options::default()).unwrap();
        db.put(b"key", b"value").unwrap();
        db.close().unwrap();
        let bytes = bytes_below(directory.path());
        assert!(bytes < 1_000_000, "{bytes}");
    }
}

#[test]
fn an_opening_with_one_put_and_a_close_syncs_at_most_ten_times() {
    let directory = tempfile::tempdir().unwrap();
    for opening in 0..3 {
        let db = Db::open(directory.path(), Options::default()).unwrap();
        db.put(b"key", b"value").unwrap();
        db.close().unwrap();
        let syncs = db.statistics().io.total().syncs;
        assert!(syncs <= 10, "opening {opening}: {syncs}");
    }
}

#[test]
fn a_load_has_small_arenas_first_and_large_ones_soon() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        arena_bytes: 4 << 20,
        ..Options::default()
    };
    let db = Db::open(directory.path(), options).unwrap();
    let mut largest = 0;
    for number in 0..200_u32 {
        db.put(number.to_be_bytes(), vec![7; 64 * KIB]).unwrap();
        let arenas = arena_sizes(directory.path());
        let (first, last) = (arenas[0], arenas[arenas.len() - 1]);
        assert!(first >= 256 << 10 && last <= 4 << 20, "{arenas:?}");
        assert!(last <= (largest * 4).max(256 << 10), "{arenas:?}");
        largest = largest.max(last);
    }
    assert_eq!(largest, 4 << 20);
    db.flush().unwrap();
    db.put(b"one more", b"").unwrap();
    db.flush().unwrap();
    let arenas = arena_sizes(directory.path());
    assert!(
        arenas.iter().all(|&bytes| bytes == 4 << 20),
        "small ones are left: {arenas:?}"
    );
}

#[test]
fn a_batch_gets_an_arena_of_the_size_that_takes_it() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    db.put(b"large", vec![1; 10 << 20]).unwrap();
    let arenas = arena_sizes(directory.path());
    // A spare may be in the making by now, and the first arena flushed and gone.
    let its_own = |bytes: &&u64| (10 << 20..11 << 20).contains(*bytes);
    assert_eq!(arenas.iter().filter(its_own).count(), 1, "{arenas:?}");
    assert_eq!(db.get(b"large").unwrap().unwrap().len(), 10 << 20);
    db.close().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    let arenas = arena_sizes(directory.path());
    assert_eq!(arenas, [64 << 20], "four times what was recovered");
    assert_eq!(db.get(b"large").unwrap().unwrap().len(), 10 << 20);
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 30 * KIB + number as usize % 7 * KIB]
}

/// Writes rows until the disk dies, or there are as many as `rows`. Returns how many were acknowledged.
fn write(disk: &SimulatedStorage, from: u32, rows: u32) -> u32 {
    let options = Options {
        storage: Arc::new(disk.clone()),
        durability: Some(Durability::PowerSafe),
        background: Background::Inline,
        arena_bytes: 1 << 20,
        default_keyspace: KeyspaceOptions {
            table_bytes: 256 << 10,
            ..KeyspaceOptions::default()
        },
        level0_merge: 3,
        ..Options::default()
    };
    let Ok(db) = Db::open(Path::new("/store"), options) else {
        return from;
    };
    let entries = db.iter(IterOptions::default()).unwrap().entries();
    let found: Vec<_> = entries.map(Result::unwrap).collect();
    assert!(
        found.len() as u32 >= from,
        "{from} were acknowledged, {} are there",
        found.len()
    );
    for (number, (key, found)) in (0..).zip(&found) {
        assert_eq!(&key[..], u32::to_be_bytes(number), "no gap");
        assert_eq!(found[..], value(number)[..], "row {number}");
    }
    for number in found.len() as u32..rows {
        if db.put(number.to_be_bytes(), value(number)).is_err() {
            return number;
        }
        if number % 40 == 39 && db.flush().is_err() {
            return number + 1;
        }
    }
    rows
}

/// A crash may meet any step of making, filling, flushing and removing small arenas: all
/// acknowledged writes are there.
#[test]
fn crashes_among_arenas_that_grow_lose_nothing() {
    const ROWS: u32 = 100;
    let steps = {
        let switch = CrashSwitch::new();
        let disk = SimulatedStorage::new(1, switch.clone());
        disk.create_directory(Path::new("/store")).unwrap();
        assert_eq!(write(&disk, 0, ROWS), ROWS);
        switch.count()
    };
    let images = 60;
    for image in 0..images {
        let kind = [CrashKind::PowerCut, CrashKind::Kill][image as usize % 2];
        let switch = CrashSwitch::new();
        let mut disk = SimulatedStorage::new(image, switch.clone());
        disk.create_directory(Path::new("/store")).unwrap();
        switch.freeze_at(3 + image * steps / images);
        let mut acknowledged = write(&disk, 0, ROWS);
        // The opening after it dies, too.
        let switch = CrashSwitch::new();
        disk = disk.crash(kind, image, switch.clone());
        switch.freeze_at(switch.count() + 2 + image % 29);
        acknowledged = acknowledged.max(write(&disk, acknowledged, ROWS));
        let disk = disk.crash(kind, image + 1, CrashSwitch::new());
        assert_eq!(
            write(&disk, acknowledged, ROWS + 50),
            ROWS + 50,
            "image {image}"
        );
    }
}
