//! Background writes keep to their rate, and no writer is held back by it. Time is simulated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use terrace::{
    Background, Compression, Db, EventKind, KeyspaceOptions, Options, StallCause,
    WriteRateStatistics, internal,
};
use terrace_storage::{
    Clock, CountingStorage, CrashSwitch, IoStatistics, Purpose, SimulatedStorage, Storage,
};

const STORE: &str = "/store";
const ROWS: u32 = 1500;
const RATE: u64 = 1 << 20;
/// More than the largest write of a table.
const WRITE_BYTES: u64 = 512 << 10;

fn options(storage: Arc<dyn Storage>) -> Options {
    Options {
        storage,
        arena_bytes: 4 << 20,
        default_keyspace: KeyspaceOptions {
            table_bytes: 128 << 10,
            level1_bytes: 64 << 20,
            compression: vec![Compression::None],
            ..KeyspaceOptions::default()
        },
        compaction_threads: 2,
        level0_merge: 2,
        background: Background::Inline,
        background_bytes_per_second: Some(RATE),
        constants: terrace::Constants {
            slice_bytes: 128 << 10,
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

fn disk() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

fn key(row: u32) -> Vec<u8> {
    format!("key-{:05}", row.wrapping_mul(7) % ROWS).into_bytes()
}

fn put_all(db: &Db, round: u8) {
    for row in 0..ROWS {
        db.put(key(row), [round; 1000]).unwrap();
    }
}

fn check_all(db: &Db, round: u8) {
    for row in 0..ROWS {
        let found = db.get(key(row)).unwrap();
        assert_eq!(found.as_deref(), Some(&[round; 1000][..]), "row {row}");
    }
    internal::check_ages(db).unwrap();
}

fn background_bytes(io: &IoStatistics) -> u64 {
    io.of(Purpose::Flush).written_bytes + io.of(Purpose::Compaction).written_bytes
}

fn write_rate(db: &Db) -> WriteRateStatistics {
    db.statistics().write_rate.unwrap()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[derive(Clone, Copy, Debug)]
struct Noted {
    now_ns: u64,
    flushed_bytes: u64,
    merged_bytes: u64,
}

/// A clock that moves only while a merge sleeps; it notes the bytes written up to then.
#[derive(Debug, Default)]
struct SleepingClock {
    now_ns: AtomicU64,
    disk: OnceLock<Arc<CountingStorage>>,
    noted: Mutex<Vec<Noted>>,
}

impl Clock for SleepingClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn sleep(&self, time: Duration) {
        if let Some(disk) = self.disk.get() {
            let io = disk.snapshot();
            self.noted.lock().unwrap().push(Noted {
                now_ns: self.now_ns(),
                flushed_bytes: io.of(Purpose::Flush).written_bytes,
                merged_bytes: io.of(Purpose::Compaction).written_bytes,
            });
        }
        let time_ns = time.as_nanos() as u64;
        self.now_ns.fetch_add(time_ns, Ordering::SeqCst);
    }
}

/// Time that the test moves.
#[derive(Debug, Default)]
struct StandingClock {
    now_ns: AtomicU64,
    sleeps: AtomicU64,
}

impl StandingClock {
    fn advance(&self, time: Duration) {
        self.now_ns
            .fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Waits until a merge waits.
    fn wait_for_sleep(&self) {
        let before = self.sleeps.load(Ordering::SeqCst);
        wait_until("a merge waits", || {
            self.sleeps.load(Ordering::SeqCst) > before + 2
        });
    }
}

impl Clock for StandingClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn sleep(&self, _: Duration) {
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn merges_and_flushes_together_keep_to_the_rate() {
    let disk = Arc::new(CountingStorage::new(Arc::new(disk())));
    let clock = Arc::new(SleepingClock::default());
    clock.disk.set(Arc::clone(&disk)).unwrap();
    let db = internal::open_on(STORE, options(disk.clone()), clock.clone()).unwrap();
    for round in 1..=4 {
        put_all(&db, round);
        // Merges, too: all work is done inside the calls.
        db.flush().unwrap();
    }
    // A flush does not wait: the last to write is a merge.
    db.keyspace("default").unwrap().compact_range(..).unwrap();
    check_all(&db, 4);
    let statistics = db.statistics();
    assert!(statistics.merges >= 2 && statistics.slices >= 8);
    let written = background_bytes(&statistics.io);
    assert!(written > 5 * RATE, "{written} bytes");

    let allowed = |now_ns: u64| (u128::from(RATE) * u128::from(now_ns) / 1_000_000_000) as u64;
    let noted = clock.noted.lock().unwrap().clone();
    let mut merge_writes = 0;
    for pair in noted.windows(2) {
        let [before, after] = [pair[0], pair[1]];
        // A merge wrote in between, so nothing was owed; a flush may have come after it.
        if after.merged_bytes > before.merged_bytes {
            let written = before.flushed_bytes + after.merged_bytes;
            assert!(written <= allowed(after.now_ns) + WRITE_BYTES, "{after:?}");
            merge_writes += 1;
        }
    }
    assert!(merge_writes > 10, "{merge_writes}");
    // Nor slower: all allowed bytes were written.
    let now_ns = clock.now_ns();
    assert!(allowed(now_ns) <= written, "{now_ns} ns");
    assert!(written <= allowed(now_ns) + WRITE_BYTES, "{now_ns} ns");
    let rate = write_rate(&db);
    assert_eq!(rate.configured_bytes_per_second, RATE);
    assert_eq!(rate.present_bytes_per_second, Some(RATE));
    assert_eq!(rate.waited.as_nanos(), u128::from(now_ns));
    assert!(rate.waits > 0);
    db.close().unwrap();
}

/// While the clock stands no merge gets on, and flushes do. Each sub-level of level 0 raises the
/// rate, until there is no limit: before writers would be slowed down the merges are done.
#[test]
fn the_rate_rises_with_what_is_owed_until_no_writer_is_held_back() {
    let clock = Arc::new(StandingClock::default());
    let options = Options {
        background: Background::Threads,
        level0_slowdown: 8,
        constants: terrace::Constants {
            level0_stop: Some(9),
            slice_bytes: 128 << 10,
            ..terrace::Constants::default()
        },
        ..options(Arc::new(disk()))
    };
    let db = internal::open_on(STORE, options, clock.clone()).unwrap();
    let mut rates = Vec::new();
    for round in 1.. {
        put_all(&db, round);
        db.flush().unwrap();
        let sub_levels = db.levels().keyspaces[0].levels[0].len();
        rates.push((sub_levels, write_rate(&db).present_bytes_per_second));
        if sub_levels == 6 {
            break;
        }
    }
    let expected = [
        None,
        Some(1),
        Some(1),
        Some(2),
        Some(4),
        Some(8),
        Some(16),
        None,
    ];
    for (sub_levels, rate) in &rates {
        let factor: Option<u64> = expected[*sub_levels];
        assert_eq!(*rate, factor.map(|factor| factor * RATE), "{rates:?}");
    }
    assert!(rates.len() >= 4, "{rates:?}");
    clock.wait_for_sleep();
    assert_eq!(db.statistics().slices, 0);
    put_all(&db, 7);
    db.flush().unwrap();
    wait_until("a merge is done, the clock still standing", || {
        db.statistics().merges > 0
    });
    let settled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the store is settled", || {
                clock.advance(Duration::from_secs(1));
                settled.load(Ordering::SeqCst)
            });
        });
        db.compact().unwrap();
        settled.store(true, Ordering::SeqCst);
    });
    check_all(&db, 7);
    let statistics = db.statistics();
    let stalled = |(cause, time): &(StallCause, Duration)| {
        matches!(cause, StallCause::Level0 | StallCause::Debt) && !time.is_zero()
    };
    assert!(!statistics.stalls.iter().any(stalled), "{statistics:?}");
    // Nothing is owed any more, and bytes written without a limit are not paid for.
    assert_eq!(write_rate(&db).present_bytes_per_second, Some(RATE));
    db.close().unwrap();
}

#[test]
fn a_close_does_not_wait_for_the_rate_and_keeps_the_finished_slices() {
    let disk = disk();
    let clock = Arc::new(StandingClock::default());
    let options = |background| {
        let base = options(Arc::new(disk.clone()));
        Options {
            background,
            compaction_threads: 1,
            default_keyspace: KeyspaceOptions {
                table_bytes: 32 << 10,
                ..base.default_keyspace
            },
            ..base
        }
    };
    let db = internal::open_on(STORE, options(Background::Threads), clock.clone()).unwrap();
    put_all(&db, 1);
    db.flush().unwrap();
    put_all(&db, 2);
    db.flush().unwrap();
    // The merge writes a part of its bytes; then the clock stands.
    wait_until("the merge has written something", || {
        clock.advance(Duration::from_millis(20));
        db.statistics().io.of(Purpose::Compaction).written_bytes > 500_000
    });
    wait_until("a slice is installed", || db.statistics().slices > 0);
    clock.wait_for_sleep();
    let (sender, receiver) = channel();
    let closing = db.clone();
    std::thread::spawn(move || sender.send(closing.close()));
    let closed = receiver.recv_timeout(Duration::from_secs(60));
    closed.expect("the close waits for the rate").unwrap();

    let (mut begun, mut installed) = (0, 0);
    for event in db.events() {
        match event.kind {
            EventKind::MergeBegun { slices, .. } => begun += slices,
            EventKind::SliceInstalled { .. } => installed += 1,
            _ => {}
        }
    }
    assert!((1..begun).contains(&installed), "{installed} of {begun}");
    drop(db);
    let reader = Options {
        read_only: true,
        ..options(Background::Inline)
    };
    let reader = Db::open(STORE, reader).unwrap();
    let levels = reader.levels().keyspaces.into_iter().flat_map(|k| k.levels);
    let mut tables = levels.flatten().flat_map(|sub_level| sub_level.tables);
    assert!(tables.any(|table| table.narrowed), "a part is merged");
    check_all(&reader, 2);
    drop(reader);
    let db = Db::open(
        STORE,
        Options {
            background_bytes_per_second: None,
            ..options(Background::Inline)
        },
    )
    .unwrap();
    assert_eq!(db.statistics().write_rate, None);
    db.compact().unwrap();
    check_all(&db, 2);
}
