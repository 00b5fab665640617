//! The reads and the memory of an opening: after a clean close, after a kill, and with files of a
//! wrong length.

mod replaced_names;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace::{
    Background, Db, Durability, Error, Options, PersistMethod, WriteBatch, WriteOptions,
};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, FaultFilter, FaultPlan, Operation, Purpose,
    RealStorage, SimulatedStorage, Storage,
};
use terrace_tools::repair::repair;

use replaced_names::ReplacedNames;

const MIB: u64 = 1 << 20;
const ARENA_BYTES: u64 = 4 * MIB;

fn simulated(disk: &SimulatedStorage) -> Options {
    Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        durability: Some(Durability::CrashSafe),
        persist_method: PersistMethod::Written,
        arena_bytes: ARENA_BYTES,
        ..Options::default()
    }
}

fn new_disk() -> SimulatedStorage {
    SimulatedStorage::new(0, CrashSwitch::new())
}

fn killed(disk: &SimulatedStorage) -> SimulatedStorage {
    disk.crash(CrashKind::Kill, 1, CrashSwitch::new())
}

fn open(disk: &SimulatedStorage) -> terrace::Result<Db> {
    Db::open(Path::new("/store"), simulated(disk))
}

fn open_to_read(disk: &SimulatedStorage) -> terrace::Result<Db> {
    let options = Options {
        read_only: true,
        ..simulated(disk)
    };
    Db::open(Path::new("/store"), options)
}

/// Returns the bytes of arenas that the opening read.
fn recovery_bytes(db: &Db) -> u64 {
    db.statistics().io.of(Purpose::Recovery).read_bytes
}

fn has(db: &Db, key: &[u8]) -> bool {
    db.get(key).unwrap().is_some()
}

#[test]
fn an_opening_after_a_clean_close_reads_no_further_than_the_frames() {
    let disk = new_disk();
    let db = open(&disk).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    for read_only in [true, false] {
        let opened = if read_only {
            open_to_read(&disk)
        } else {
            open(&disk)
        };
        let db = opened.unwrap();
        assert!(has(&db, b"key"));
        assert!(db.statistics().recovery.clean_close);
        let read = recovery_bytes(&db);
        assert!(read <= 16 << 10, "{read} bytes, read only: {read_only}");
        let read = db.statistics().io.total().read_bytes;
        assert!(read <= 64 << 10, "{read} bytes, read only: {read_only}");
        db.close().unwrap();
    }
}

/// Frames behind a gap tell damage from a tail, and no note says where they end.
#[test]
fn an_opening_after_a_kill_searches_arenas_to_their_ends() {
    let disk = new_disk();
    let db = open(&disk).unwrap();
    db.put(b"key", b"value").unwrap();
    let disk = killed(&disk);
    let db = open_to_read(&disk).unwrap();
    assert!(has(&db, b"key") && !db.statistics().recovery.clean_close);
    // The first arena of a store.
    assert!(recovery_bytes(&db) >= 256 << 10);
}

/// The note of a close is void from the first edit of the next opening on. Killed at each of its steps,
/// the store has the rows of the close and all later writes.
#[test]
fn the_note_of_a_close_hides_nothing_that_is_written_after_it() {
    let disk = new_disk();
    let db = open(&disk).unwrap();
    db.put(b"before", b"").unwrap();
    db.close().unwrap();
    for cut in [CrashKind::Kill, CrashKind::PowerCut] {
        for steps in 1.. {
            let switch = CrashSwitch::new();
            let life = disk.crash(CrashKind::Kill, steps, switch.clone());
            switch.freeze_at(switch.count() + steps);
            let synced = WriteOptions::with_sync(true);
            let write = |db: &Db, key: &[u8]| {
                let mut batch = WriteBatch::new();
                batch.put(key, b"").unwrap();
                db.write(batch, synced).is_ok()
            };
            let (mut first, mut second, mut is_closed) = (false, false, false);
            if let Ok(db) = open(&life) {
                first = write(&db, b"first");
                second = write(&db, b"second");
                is_closed = db.close().is_ok();
            }
            let after = life.crash(cut, steps, CrashSwitch::new());
            for read_only in [true, false] {
                let opened = if read_only {
                    open_to_read(&after)
                } else {
                    open(&after)
                };
                let db = opened.unwrap();
                let context = format!("{cut:?} at step {steps}");
                assert!(has(&db, b"before"), "{context}");
                assert!(has(&db, b"first") || !first, "{context}");
                assert!(has(&db, b"second") || !second, "{context}");
            }
            if is_closed {
                break;
            }
        }
    }
}

fn small(read_only: bool) -> Options {
    Options {
        read_only,
        persist_method: PersistMethod::Written,
        arena_bytes: 64 << 10,
        ..Options::default()
    }
}

/// An opening beside an owner that rewrote its manifest meanwhile took the store for a damaged one.
#[test]
fn a_listing_that_misses_current_makes_no_store_damaged() {
    let disk = new_disk();
    let db = open(&disk).unwrap();
    db.put(b"key", b"value").unwrap();
    let beside = Options {
        storage: Arc::new(ReplacedNames(Arc::new(disk.clone()))),
        ..simulated(&disk)
    };
    let opened = Db::open("/store", beside.clone());
    assert!(matches!(opened, Err(Error::Busy { .. })), "{opened:?}");
    let refusing = Options {
        error_if_exists: true,
        ..beside.clone()
    };
    let opened = Db::open("/store", refusing);
    assert!(
        matches!(opened, Err(Error::InvalidArgument { .. })),
        "{opened:?}"
    );
    db.close().unwrap();
    assert!(has(&Db::open("/store", beside).unwrap(), b"key"));
}

#[test]
fn an_arena_of_another_length_is_damage_before_a_frame_of_it_is_read() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = directory.path().join("store");
    let db = Db::open(&store, small(false)).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    let arenas = || {
        let entries = std::fs::read_dir(&store)
            .unwrap()
            .map(|entry| entry.unwrap());
        entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with("arena-"))
    };
    for arena in arenas() {
        let file = std::fs::OpenOptions::new().write(true).open(arena.path());
        file.unwrap().set_len((1 << 32) - 4096).unwrap();
    }
    for read_only in [true, false] {
        let counting = Arc::new(terrace_storage::CountingStorage::new(Arc::new(RealStorage)));
        let options = Options {
            storage: Arc::clone(&counting) as Arc<dyn Storage>,
            ..small(read_only)
        };
        let error = Db::open(&store, options).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{error}");
        assert!(error.to_string().contains("another length"), "{error}");
        // The header of each arena, to see its owner.
        let read = counting.snapshot().of(Purpose::Recovery).read_bytes;
        assert!(read <= 4096, "{read}");
    }
    // The file in the arena's place is kept.
    repair(&store, small(false), |_, _| {}).unwrap();
    let db = Db::open(&store, small(false)).unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

const DIRECTORY: &str = "TERRACE_OPENINGS_CHILD_DIRECTORY";
/// The part of a child: `fill`, `one`, `read` or `write`.
const PART: &str = "TERRACE_OPENINGS_CHILD_PART";
const VALUE_BYTES: u64 = 1000;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Returns the peak of this process's resident memory.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// Returns the number of bytes that this process has read, through any call.
fn read_bytes() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar:"));
    line.unwrap().trim().parse().unwrap()
}

/// Fills all arenas while nothing can be flushed, and dies.
fn fill(directory: &str) -> ! {
    let flushes = FaultFilter::everything().operations(&[Operation::Write]);
    let gate = FaultPlan::new(flushes.purpose(Purpose::Flush));
    let options = Options {
        storage: Arc::new(FailingStorage::new(Arc::new(RealStorage), gate.clone())),
        ..Options::default()
    };
    let arenas_bytes = options.arena_bytes * options.max_arenas as u64;
    let db = Db::open(directory, options).unwrap();
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let mut batch = WriteBatch::new();
                let first = written.load(Ordering::Relaxed);
                for number in first..first + 256 {
                    batch.put(key(number), [7; VALUE_BYTES as usize]).unwrap();
                }
                db.write(batch, WriteOptions::default()).unwrap();
                written.store(first + 256, Ordering::Relaxed);
            }
        });
        let until = |is_done: &dyn Fn() -> bool| {
            while !is_done() {
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        // Some are flushed, so that the next ones are as large as they get.
        until(&|| written.load(Ordering::Relaxed) * VALUE_BYTES > 100 * MIB);
        gate.hold_from(0);
        until(&|| {
            let statistics = db.statistics();
            statistics.arenas.sealed == 2 && statistics.memory.arena_bytes >= arenas_bytes
        });
        // The last one fills, until the writer is held up for good.
        until(&|| {
            let before = written.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(1));
            written.load(Ordering::Relaxed) == before
        });
        println!("\nwritten {}", written.load(Ordering::Relaxed));
        std::process::abort()
    })
}

/// The part of a child process of the next test.
#[test]
#[ignore = "the child process of another test"]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let part = std::env::var(PART).unwrap();
    if part == "fill" {
        fill(&directory);
    }
    let options = Options {
        read_only: part == "read",
        ..Options::default()
    };
    if part == "one" {
        let db = Db::open(&directory, options).unwrap();
        db.put(key(0), b"").unwrap();
        db.close().unwrap();
        println!("\npeak {}", peak_bytes());
        return;
    }
    let read_before = read_bytes();
    let db = Db::open(&directory, options).unwrap();
    let recovery = db.statistics().recovery;
    let last = recovery.writes;
    for number in (0..last).step_by(1009) {
        assert!(has(&db, &key(number)), "{number}");
    }
    if part == "write" {
        db.put(b"after", b"").unwrap();
        assert!(has(&db, b"after"));
    }
    let read = read_bytes() - read_before;
    println!("\npeak {} {} {read}", peak_bytes(), recovery.arenas);
    db.close().unwrap();
}

fn run(directory: &Path, part: &str) -> (Option<i32>, Vec<u64>) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(PART, part)
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let text = String::from_utf8(child.stdout).unwrap();
    let told = text
        .lines()
        .find(|line| line.starts_with("peak ") || line.starts_with("written "));
    let told = told.unwrap_or_else(|| panic!("{part}: {text}"));
    let numbers = told
        .split(' ')
        .skip(1)
        .map(|number| number.parse().unwrap());
    (child.status.signal(), numbers.collect())
}

/// An arena is 64 MiB, and a get of its one row reads a few pages.
#[test]
fn a_row_of_a_closed_store_is_read_with_little_memory_and_few_bytes() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    run(directory.path(), "one");
    let (signal, told) = run(directory.path(), "read");
    let [peak, arenas, read] = told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((signal, arenas), (None, 1));
    assert!(peak <= 15 * MIB && read <= 64 << 10, "{told:?}");
}

/// Recovered arenas are loaded one after the other, and a reader maps them.
#[test]
fn a_store_killed_with_all_arenas_full_opens_in_the_memory_of_one() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (signal, written) = run(directory.path(), "fill");
    assert!(
        signal.is_some() && written[0] * VALUE_BYTES > 170 * MIB,
        "{written:?}"
    );
    for part in ["read", "write"] {
        let (signal, told) = run(directory.path(), part);
        assert_eq!((signal, told[1]), (None, 3), "{part}");
        assert!(part == "read" || told[0] <= 110 * MIB, "{part}: {told:?}");
    }
}
