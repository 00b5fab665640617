//! A real process, a real file system, and SIGKILL.
//!
//! A child (this test binary again, running [`child`]) opens a store with tiny arenas and writes
//! from several threads; each thread tells of a write through a pipe only after it was
//! acknowledged. The parent kills the child at a random moment, some of them inside the recovery
//! from the kill before, and opens the store itself. Batch `n` of a thread sets two keys and a
//! counter to `n` and removes the keys of batch `n - WINDOW`. So the keys that are there say
//! exactly which batches are: they must be the window that ends at the counter, and the counter
//! must be the last acknowledged batch or the one that was under way. All rounds use the same
//! directory. In a third of the rounds it meets a mishap. It is moved while the child writes, and
//! another store made in its place; its `LOCK` is removed; or its manifest ends in half a record.
//!
//! `TERRACE_KILLS` sets the number of kills for each kind of store (20 by default),
//! `TERRACE_KILL_SEED` the seed of the moments, `TERRACE_TEST_DIRECTORY` where the stores live.

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{
    Db, Durability, IterOptions, KeyspaceOptions, Options, PersistMethod, WriteBatch, WriteOptions,
};

const THREADS: u64 = 4;
/// Number of a thread's batches that are there at a time.
const WINDOW: u64 = 300;
const DIRECTORY: &str = "TERRACE_KILL_CHILD_DIRECTORY";
const KIND: &str = "TERRACE_KILL_CHILD_KIND";

/// A kind of store: its promise, and how often a write asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CrashSafe,
    CrashSafeWithSync,
    PowerSafe,
    Mapped,
    /// On a file system in memory.
    MappedMemory,
}

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::CrashSafe,
        Kind::CrashSafeWithSync,
        Kind::PowerSafe,
        Kind::Mapped,
        Kind::MappedMemory,
    ];

    fn method(self) -> PersistMethod {
        match self {
            Kind::Mapped | Kind::MappedMemory => PersistMethod::Mapped,
            _ => PersistMethod::Written,
        }
    }

    fn durability(self) -> Durability {
        match self {
            Kind::PowerSafe => Durability::PowerSafe,
            _ => Durability::CrashSafe,
        }
    }

    fn syncs(self, number: u64) -> bool {
        matches!(self, Kind::CrashSafeWithSync | Kind::Mapped) && number.is_multiple_of(8)
    }

    fn options(self) -> Options {
        Options {
            durability: Some(self.durability()),
            persist_method: self.method(),
            arena_bytes: 64 << 10,
            default_keyspace: KeyspaceOptions {
                table_bytes: 32 << 10,
                block_bytes: 1 << 10,
                level1_bytes: 64 << 10,
                level_ratio: 4,
                ..KeyspaceOptions::default()
            },
            level0_merge: 2,
            max_open_tables: Some(16),
            constants: terrace::Constants {
                manifest_bytes: 8 << 10,
                ..terrace::Constants::default()
            },
            ..Options::default()
        }
    }
}

/// Returns the keys of a thread's batch; the second prefix lands in other tables than the first.
fn keys(thread: u64, number: u64) -> [Vec<u8>; 2] {
    ["a", "z"].map(|prefix| format!("{prefix}/{thread}/{number:010}").into_bytes())
}

fn counter_key(thread: u64) -> Vec<u8> {
    format!("counter/{thread}").into_bytes()
}

/// Returns a value: mostly small, now and then too large to be copied out of an arena.
fn value(thread: u64, number: u64) -> Vec<u8> {
    let seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ thread;
    let length = if number.is_multiple_of(61) {
        6000
    } else {
        20 + seed % 200
    };
    (0..length).map(|at| (seed >> (at % 8 * 8)) as u8).collect()
}

fn batch(thread: u64, number: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in keys(thread, number) {
        batch.put(&key, value(thread, number)).unwrap();
    }
    batch
        .put(counter_key(thread), number.to_be_bytes())
        .unwrap();
    if let Some(old) = number.checked_sub(WINDOW) {
        for key in keys(thread, old) {
            batch.delete(&key).unwrap();
        }
    }
    batch
}

fn counter(db: &Db, thread: u64) -> u64 {
    let value = db.get(counter_key(thread)).unwrap();
    value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap()))
}

/// The child's part: writes until it is killed.
#[test]
#[ignore = "the child process of the other tests"]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let kind: usize = std::env::var(KIND).unwrap().parse().unwrap();
    let kind = Kind::ALL[kind];
    let db = Db::open(directory, kind.options()).unwrap();
    // The descriptor itself: one `write` a line, which a pipe takes whole or not at all.
    let pipe = File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, mut pipe) = (&db, &pipe);
            scope.spawn(move || {
                for number in counter(db, thread) + 1.. {
                    let sync = kind.syncs(number);
                    db.write(batch(thread, number), WriteOptions::with_sync(sync))
                        .unwrap();
                    pipe.write_all(format!("ack {thread} {number}\n").as_bytes())
                        .unwrap();
                    if thread == 0 && number.is_multiple_of(500) {
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
}

fn spawn(directory: &Path, kind: Kind) -> Child {
    let position = Kind::ALL.iter().position(|&other| other == kind).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(KIND, position.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Moment at which a child is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Time since its start: mostly while it starts and recovers.
    Elapsed(Duration),
    /// Number of acknowledged writes.
    Acknowledged(u64),
}

/// A mishap of a store's directory while a child writes.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    None,
    /// It is renamed, and back when the child is dead. Another store is made in its place meanwhile.
    Moved,
    /// `LOCK` is removed, and a second owner tries to get in.
    LockRemoved,
    /// The child dies in the middle of a record of the manifest.
    TornManifest,
}

impl Mishap {
    fn befall(self, directory: &Path, kind: Kind) {
        match self {
            // Befalls it when the child is dead.
            Mishap::None | Mishap::TornManifest => {}
            Mishap::Moved => {
                std::fs::rename(directory, directory.with_extension("moved")).unwrap();
                let other = Db::open(directory, kind.options()).unwrap();
                other.put(b"another store's", b"").unwrap();
                other.close().unwrap();
            }
            Mishap::LockRemoved => {
                std::fs::remove_file(directory.join("LOCK")).unwrap();
                match Db::open(directory, kind.options()) {
                    Err(terrace::Error::Busy { .. }) => {}
                    opened => panic!("a second owner beside a live one: {opened:?}"),
                }
            }
        }
    }

    /// Carries out the rest when the child is dead.
    fn follow(self, directory: &Path) {
        match self {
            Mishap::None | Mishap::LockRemoved => {}
            Mishap::Moved => {
                std::fs::remove_dir_all(directory).unwrap();
                std::fs::rename(directory.with_extension("moved"), directory).unwrap();
            }
            Mishap::TornManifest => tear_manifest(directory),
        }
    }
}

/// Appends half a record to the manifest in use.
fn tear_manifest(directory: &Path) {
    let current = std::fs::read_to_string(directory.join("CURRENT")).unwrap();
    let name = current.split(' ').next().unwrap();
    let manifest = std::fs::OpenOptions::new()
        .append(true)
        .open(directory.join(name));
    let torn = support::half_a_record();
    manifest.unwrap().write_all(&torn).unwrap();
}

/// Runs a child and kills it. Returns the last batch that each thread acknowledged, 0 for none.
fn run_and_kill(
    directory: &Path,
    kind: Kind,
    moment: Moment,
    mishap: Mishap,
) -> [u64; THREADS as usize] {
    let mut child = spawn(directory, kind);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (send, acks) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let mut words = line.split(' ');
            if words.next() != Some("ack") {
                continue; // the test harness talks on the same pipe
            }
            let mut number = || words.next().unwrap().parse::<u64>().unwrap();
            send.send((number(), number())).unwrap();
        }
    });
    let mut acknowledged = [0; THREADS as usize];
    let mut take = |(thread, number): (u64, u64)| acknowledged[thread as usize] = number;
    match moment {
        Moment::Elapsed(time) => std::thread::sleep(time),
        // The iterator ends early only if the child died of itself, which is found below.
        Moment::Acknowledged(count) => {
            let half = (count / 2) as usize;
            acks.iter().take(half).for_each(&mut take);
            // Only a child that has acknowledged a write has its store open for sure.
            if half > 0 {
                mishap.befall(directory, kind);
            }
            acks.iter().take(half).for_each(&mut take);
        }
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    acks.iter().for_each(&mut take);
    reader.join().unwrap();
    if matches!(moment, Moment::Acknowledged(count) if count > 1) {
        mishap.follow(directory);
    }
    assert_eq!(
        status.code(),
        None,
        "the child ended of itself, see its output above"
    );
    acknowledged
}

/// Asserts that the store holds, for each thread, exactly the window of batches that ends at its
/// counter. Returns the counters.
fn check_content(db: &Db) -> [u64; THREADS as usize] {
    let mut expected = Vec::new();
    let mut counters = [0; THREADS as usize];
    for thread in 0..THREADS {
        let last = counter(db, thread);
        counters[thread as usize] = last;
        if last > 0 {
            expected.push((counter_key(thread), last.to_be_bytes().to_vec()));
        }
        for number in last.saturating_sub(WINDOW - 1).max(1)..=last {
            let value = value(thread, number);
            for key in keys(thread, number) {
                assert_eq!(
                    db.get(&key).unwrap().as_deref(),
                    Some(&value[..]),
                    "{} of {last}",
                    key.escape_ascii()
                );
                expected.push((key, value.clone()));
            }
        }
    }
    expected.sort();
    let entries = db.iter(IterOptions::default()).unwrap().entries();
    let found: Vec<_> = entries.collect::<terrace::Result<_>>().unwrap();
    let names = |entries: &[(Vec<u8>, Vec<u8>)]| {
        entries
            .iter()
            .map(|(key, _)| key.escape_ascii().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&found), names(&expected));
    assert!(found == expected, "a value read by the iterator differs");
    counters
}

fn test_directory() -> PathBuf {
    std::env::var_os("TERRACE_TEST_DIRECTORY")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from)
}

fn survives_kills(kind: Kind) {
    let kills = support::scale("TERRACE_KILLS", 20);
    let seed = support::scale("TERRACE_KILL_SEED", 1);
    let home = match kind {
        Kind::MappedMemory => PathBuf::from("/dev/shm"),
        _ => test_directory(),
    };
    let directory = tempfile::tempdir_in(home).unwrap();
    let path = directory.path().join("store");
    let mut counters = [0; THREADS as usize];
    for round in 0..kills {
        let mut random = SmallRng::seed_from_u64(seed << 32 ^ round);
        let moment = if round % 4 == 3 {
            Moment::Elapsed(Duration::from_micros(random.random_range(0..40_000)))
        } else {
            Moment::Acknowledged(random.random_range(0..3_000))
        };
        let mishap = match random.random_range(0..8) {
            0 => Mishap::Moved,
            1 => Mishap::LockRemoved,
            2 => Mishap::TornManifest,
            _ => Mishap::None,
        };
        let acknowledged = run_and_kill(&path, kind, moment, mishap);
        let context = format!("{kind:?}, kill {round} at {moment:?}, {mishap:?}");

        // A reader decides as the owner does and writes nothing, so the next child, or the owner
        // below, recovers from the same kill.
        let read_only = Options {
            read_only: true,
            create_if_missing: false,
            // It need not be the method that wrote the arenas.
            persist_method: PersistMethod::Written,
            ..kind.options()
        };
        match Db::open(&path, read_only) {
            Ok(db) => {
                let found = check_content(&db);
                for thread in 0..THREADS as usize {
                    let promised = acknowledged[thread].max(counters[thread]);
                    assert!(
                        (promised..=promised + 1).contains(&found[thread]),
                        "{context}: thread {thread} was promised batch {promised}, found {}",
                        found[thread]
                    );
                }
                assert_eq!(db.statistics().recovery.dropped, None, "{context}");
                counters = found;
            }
            // Killed before the store was there.
            Err(terrace::Error::NoStore { .. }) => {
                assert_eq!((counters, acknowledged), Default::default(), "{context}");
            }
            Err(error) => panic!("{context}: {error}"),
        }
        if round % 2 == 0 {
            let db = Db::open(&path, kind.options()).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(
                check_content(&db),
                counters,
                "{context}: owner and reader disagree"
            );
        }
    }
    let report = terrace_tools::inspect::verify(&path, kind.options(), |_, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    assert!(
        counters.iter().sum::<u64>() > 0,
        "no child lived long enough to write"
    );
}

#[test]
fn crash_safe_writes_survive_sigkill() {
    survives_kills(Kind::CrashSafe);
}

#[test]
fn synced_writes_survive_sigkill() {
    survives_kills(Kind::CrashSafeWithSync);
}

#[test]
fn power_safe_writes_survive_sigkill() {
    survives_kills(Kind::PowerSafe);
}

/// Returns whether a store in this directory can be opened with the method `mapped`.
fn takes_mappings(directory: &Path) -> bool {
    let Ok(directory) = tempfile::tempdir_in(directory) else {
        return false;
    };
    match Db::open(directory.path(), Kind::Mapped.options()) {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().contains("cannot be used on"), "{error}");
            false
        }
    }
}

#[test]
fn mapped_writes_survive_sigkill() {
    if takes_mappings(&test_directory()) {
        survives_kills(Kind::Mapped);
    }
}

#[test]
fn writes_mapped_in_memory_survive_sigkill() {
    if takes_mappings(Path::new("/dev/shm")) {
        survives_kills(Kind::MappedMemory);
    }
}
