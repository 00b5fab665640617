//! An event listener runs in the store's threads: its panic ends its calls only, and a call that would
//! wait for the store from there is an error.

mod support;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::within::{wait_until, within};
use terrace::{
    Background, Compression, Db, Error, Event, EventKind, EventListener, IterOptions,
    KeyspaceOptions, Options, Result, WriteBatch, WriteOptions,
};
use terrace_storage::{CrashSwitch, SimulatedStorage};

const STORE: &str = "/store";
const ROWS: u32 = 200;

/// Runs a test's code at each event, once the store is there.
struct Calls<F> {
    db: Mutex<Option<Db>>,
    call: F,
}

impl<F> fmt::Debug for Calls<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calls")
    }
}

impl<F: Fn(&Event, Option<Db>) + Send + Sync> EventListener for Calls<F> {
    fn event(&self, event: &Event) {
        let db = self.db.lock().unwrap().clone();
        (self.call)(event, db);
    }
}

fn options(disk: &SimulatedStorage) -> Options {
    Options {
        storage: Arc::new(disk.clone()),
        arena_bytes: 64 << 10,
        max_arenas: 2,
        default_keyspace: KeyspaceOptions {
            table_bytes: 8 << 10,
            compression: vec![Compression::None, Compression::Lz4],
            ..KeyspaceOptions::default()
        },
        level0_merge: 2,
        level0_slowdown: 3,
        constants: terrace::Constants {
            level0_stop: Some(4),
            slice_bytes: 8 << 10,
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

fn key(row: u32) -> [u8; 4] {
    row.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

/// Opens a store whose listener makes a call, and has it do all kinds of background work.
fn work<F>(disk: &SimulatedStorage, background: Background, call: F) -> (Db, Arc<Calls<F>>)
where
    F: Fn(&Event, Option<Db>) + Send + Sync + 'static,
{
    let listener = Arc::new(Calls {
        db: Mutex::new(None),
        call,
    });
    let options = Options {
        event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
        background,
        ..options(disk)
    };
    let db = Db::open(STORE, options).unwrap();
    *listener.db.lock().unwrap() = Some(db.clone());
    for round in 0..6u8 {
        for row in 0..ROWS {
            db.put(key(row), [round; 400]).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact().unwrap();
    db.compact_range(..).unwrap();
    wait_until("tables are deleted", || {
        db.statistics().tables_to_delete == 0
    });
    (db, listener)
}

fn disk() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

fn in_both(what: &str, test: fn(Background)) {
    for background in [Background::Threads, Background::Inline] {
        within(what, move || test(background));
    }
}

/// Checks that the store has all rows, closes it, and opens it again.
fn check_and_close(disk: &SimulatedStorage, db: Db) {
    for row in 0..ROWS {
        assert!(db.get(key(row)).unwrap().is_some(), "row {row}");
    }
    db.close().unwrap();
    Db::open(STORE, options(disk)).unwrap().close().unwrap();
}

#[test]
fn a_listener_that_panics_is_not_called_again_and_nothing_else_ends() {
    in_both("a panic", |background| {
        let (disk, calls) = (disk(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&calls);
        let (db, listener) = work(&disk, background, move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("a bug of the listener's");
        });
        listener.db.lock().unwrap().take();
        assert!(db.statistics().poisoned.is_none());
        // Two threads may have been in it.
        let calls = calls.load(Ordering::Relaxed);
        assert!((1..=4).contains(&calls), "{calls}");
        let shown: Vec<_> = db.events();
        let shown = shown.iter().filter_map(|event| match &event.kind {
            EventKind::ListenerPanicked { message } => Some(message.as_str()),
            _ => None,
        });
        assert_eq!(shown.collect::<Vec<_>>(), ["a bug of the listener's"]);
        check_and_close(&disk, db);
    });
}

type Call = fn(&Db) -> Result<()>;

/// Everything that waits for the store.
const CALLS: [(&str, Call); 9] = [
    ("flush", Db::flush),
    ("compact", Db::compact),
    ("compact_range", |db| db.compact_range(..)),
    ("checkpoint", |db| db.checkpoint("/copy").map(drop)),
    ("rename_keyspace", |db| db.rename_keyspace("none", "other")),
    ("drop_keyspace", |db| db.drop_keyspace("none")),
    ("persist", Db::persist),
    ("ingest", |db| {
        let mut load = db.ingest()?;
        load.put(b"loaded", b"")?;
        load.finish()
    }),
    ("close", Db::close),
];

#[test]
fn a_call_that_waits_for_the_store_is_an_error_in_its_listener() {
    in_both("calls", |background| {
        let disk = disk();
        let answers = Arc::new(Mutex::new(BTreeMap::<_, Vec<Result<()>>>::new()));
        let noted = Arc::clone(&answers);
        let (db, listener) = work(&disk, background, move |event, db| {
            let Some(db) = db else { return };
            for (name, call) in CALLS {
                let answer = call(&db);
                let mut answers = noted.lock().unwrap();
                let of_call = answers.entry((event.kind.name(), name)).or_default();
                of_call.push(answer);
            }
        });
        listener.db.lock().unwrap().take();
        let answers = std::mem::take(&mut *answers.lock().unwrap());
        for kind in [
            "flush_begun",
            "slice_begun",
            "slice_installed",
            "tables_deleted",
        ] {
            for (name, _) in CALLS {
                assert!(answers.contains_key(&(kind, name)), "{name} at {kind}");
            }
        }
        for ((kind, name), answers) in answers {
            for answer in answers {
                let is_right = match (name, &answer) {
                    // It writes, which waits only sometimes.
                    ("persist", Ok(())) => true,
                    (_, Err(Error::CalledFromListener)) => true,
                    _ => false,
                };
                assert!(is_right, "{name} at {kind}: {answer:?}");
            }
        }
        check_and_close(&disk, db);
    });
}

#[test]
fn a_listener_reads_and_writes_as_long_as_nothing_has_to_wait() {
    in_both("reads and writes", |background| {
        let (disk, written) = (disk(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&written);
        let (db, listener) = work(&disk, background, move |event, db| {
            let Some(db) = db else { return };
            assert!(db.get(key(0)).unwrap().is_some());
            let entries = db.iter(IterOptions::default()).unwrap().entries();
            assert!(entries.map(Result::unwrap).count() > 0);
            assert!(db.statistics().poisoned.is_none());
            match db.put(event.number.to_be_bytes(), [1; 4000]) {
                Ok(()) => {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                Err(Error::CalledFromListener) => {}
                Err(error) => panic!("{error:?}"),
            }
        });
        listener.db.lock().unwrap().take();
        let panicked = |event: &Event| matches!(event.kind, EventKind::ListenerPanicked { .. });
        assert!(!db.events().iter().any(panicked), "{:?}", db.events());
        // Inline work is done by writers as a rule, while they lead.
        let written = written.load(Ordering::Relaxed);
        assert!(written > 0 || background == Background::Inline);
        check_and_close(&disk, db);
    });
}

/// Another store's calls may wait, and so may another thread's.
#[test]
fn only_the_listeners_own_store_refuses() {
    in_both("another store", |background| {
        let (disk, other_disk) = (disk(), disk());
        let other = Db::open(STORE, options(&other_disk)).unwrap();
        let flushed = other.clone();
        let (db, listener) = work(&disk, background, move |event, db| {
            let of_event = event.number.to_be_bytes();
            flushed.put(of_event, b"").unwrap();
            flushed.flush().unwrap();
            let Some(db) = db else { return };
            std::thread::spawn(move || db.persist());
        });
        listener.db.lock().unwrap().take();
        assert!(
            other
                .iter(IterOptions::default())
                .unwrap()
                .entries()
                .count()
                > 10
        );
        other.close().unwrap();
        check_and_close(&disk, db);
    });
}

/// The leader reports the event of a stopped writer.
#[test]
fn a_leader_in_a_listener_does_not_wait_for_itself() {
    within("a leader", || {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&answers);
        let disk = disk();
        let (db, listener) = work(&disk, Background::Threads, move |event, db| {
            if let EventKind::SliceBegun { .. } = event.kind {
                // Merges fall behind.
                std::thread::sleep(Duration::from_millis(30));
            }
            if let (EventKind::WritersStopped { .. }, Some(db)) = (&event.kind, db) {
                noted.lock().unwrap().push(db.put(b"again", b""));
            }
        });
        listener.db.lock().unwrap().take();
        let answers = std::mem::take(&mut *answers.lock().unwrap());
        assert!(!answers.is_empty(), "writers were not stopped");
        for answer in answers {
            assert!(
                matches!(answer, Err(Error::CalledFromListener)),
                "{answer:?}"
            );
        }
        check_and_close(&disk, db);
    });
}

/// The listener waits at an event until it has the only handle, and drops it.
#[test]
fn the_last_handle_may_be_dropped_in_a_listener() {
    for kind in [
        "flush_begun",
        "slice_begun",
        "slice_installed",
        "tables_deleted",
    ] {
        within(kind, move || {
            let disk = disk();
            let is_armed = Arc::new(AtomicBool::new(false));
            let is_there = Arc::new(AtomicBool::new(false));
            let (armed, there) = (Arc::clone(&is_armed), Arc::clone(&is_there));
            let (sender, last) = channel::<Db>();
            let last = Mutex::new(last);
            let (db, listener) = work(&disk, Background::Threads, move |event, db| {
                drop(db);
                if event.kind.name() == kind && armed.swap(false, Ordering::SeqCst) {
                    there.store(true, Ordering::SeqCst);
                    drop(last.lock().unwrap().recv().unwrap());
                }
            });
            listener.db.lock().unwrap().take();
            is_armed.store(true, Ordering::SeqCst);
            let mut row = 0;
            wait_until("the listener waits", || {
                row += 1;
                let mut batch = WriteBatch::new();
                batch.put(key(row % ROWS), [7; 400]).unwrap();
                let no_stall = WriteOptions {
                    no_stall: true,
                    ..WriteOptions::default()
                };
                let written = db.write(batch, no_stall);
                assert!(matches!(written, Ok(()) | Err(Error::WouldStall)));
                is_there.load(Ordering::SeqCst)
            });
            sender.send(db).unwrap();
            let mut reopened = None;
            wait_until("the store is closed", || {
                reopened = Db::open(STORE, options(&disk)).ok();
                reopened.is_some()
            });
            check_and_close(&disk, reopened.unwrap());
        });
    }
}
