//! Memory of idle arenas in the hands of the read buffer.

use std::time::{Duration, Instant};

use terrace::{Constants, Db, ForwardPolicy, Options, ReadBufferOptions};

const ARENA_BYTES: u64 = 256 << 10;
const OWN_BYTES: u64 = 2_000_000;
/// An arena that fills for longer lends the memory of the others, but for the next one; after as
/// long again that, too.
const LONG: Duration = Duration::from_millis(5_100);

fn options(borrows_arenas: bool) -> Options {
    Options {
        arena_bytes: ARENA_BYTES,
        max_arenas: 3,
        cache_bytes: 2 * OWN_BYTES,
        read_buffer: ReadBufferOptions {
            policy: ForwardPolicy::All,
            ..ReadBufferOptions::default()
        },
        constants: Constants {
            borrows_arenas: Some(borrows_arenas),
            ..Constants::default()
        },
        ..Options::default()
    }
}

fn write(db: &Db, rows: std::ops::Range<u32>) {
    for row in rows {
        db.put(row.to_be_bytes(), [row as u8; 1000]).unwrap();
    }
}

fn read(db: &Db, rows: std::ops::Range<u32>) {
    for row in rows {
        let value = db.get(row.to_be_bytes()).unwrap().unwrap();
        assert_eq!(&*value, [row as u8; 1000]);
    }
}

fn capacity_bytes(db: &Db) -> u64 {
    db.statistics().read_buffer.unwrap().capacity_bytes
}

#[test]
fn arenas_lend_while_writes_are_few_and_have_their_memory_back_before_they_need_it() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), options(true)).unwrap();
    write(&db, 0..5_000);
    assert_eq!(capacity_bytes(&db), OWN_BYTES);
    std::thread::sleep(LONG);
    assert_eq!(capacity_bytes(&db), OWN_BYTES, "nobody has asked for it");
    read(&db, 0..100);
    assert_eq!(capacity_bytes(&db), OWN_BYTES + ARENA_BYTES);
    std::thread::sleep(LONG);
    read(&db, 0..5_000);
    assert_eq!(capacity_bytes(&db), OWN_BYTES + 2 * ARENA_BYTES);
    let held_bytes = db.statistics().read_buffer.unwrap().bytes;
    assert!(held_bytes > OWN_BYTES, "{held_bytes}");
    // The arena that has filled for long is sealed, and then some that have not.
    write(&db, 5_000..6_000);
    assert_eq!(capacity_bytes(&db), OWN_BYTES);
    let held_bytes = db.statistics().read_buffer.unwrap().bytes;
    assert!(held_bytes <= OWN_BYTES, "{held_bytes}");
    read(&db, 0..6_000);
    db.close().unwrap();
}

/// No read asks here: the sealed arena tells how long it took, and its flush has the rest lent.
#[test]
fn the_next_arena_is_kept_while_one_fills_in_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), options(true)).unwrap();
    write(&db, 0..100);
    std::thread::sleep(LONG);
    // An arena takes 244.
    write(&db, 100..400);
    let deadline = Instant::now() + Duration::from_secs(4);
    let is_lent = || db.statistics().flushes > 0 && capacity_bytes(&db) > OWN_BYTES;
    while !is_lent() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(capacity_bytes(&db), OWN_BYTES + ARENA_BYTES);
}

#[test]
fn arenas_lend_nothing_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), options(false)).unwrap();
    write(&db, 0..5_000);
    std::thread::sleep(LONG);
    read(&db, 0..5_000);
    assert_eq!(capacity_bytes(&db), OWN_BYTES);
}
