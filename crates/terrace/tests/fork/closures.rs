//! A caller's code that forks in the middle of a call and returns in both processes.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use terrace::{Background, Db, Event, EventKind, EventListener, Options};
use terrace_storage::{FailingStorage, Fault, FaultFilter, FaultPlan, Purpose, RealStorage};

use crate::child::{exit, fork_here, in_child, in_own_process};
use crate::{METHODS, Place, check_reopened, inline, is_forked, key, options, put};

#[test]
fn an_update_that_forks_is_written_by_its_parent_alone() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            let db = Db::open(place.store(), options(method)).unwrap();
            put(&db, 0..10);
            let mut is_child = false;
            let updated = db.fetch_and_update(key(10), |_| {
                is_child = fork_here();
                Some(key(if is_child { 77 } else { 10 }).to_vec())
            });
            if is_child {
                exit(is_forked(updated));
            }
            updated.unwrap();
            let mut is_child = false;
            let checked = db.verify(|_, _| is_child = is_child || fork_here());
            if is_child {
                exit(is_forked(checked));
            }
            checked.unwrap();
            drop(db);
            check_reopened(&place.store(), options(method), 11);
        }
    });
}

/// Forks at the first event of a kind.
#[derive(Debug)]
struct ForksAt {
    is_awaited: fn(&EventKind) -> bool,
    has_forked: AtomicBool,
    is_child: AtomicBool,
    /// Whether the child has ended well: no caller sees a panic in a listener.
    has_succeeded: AtomicBool,
}

impl ForksAt {
    fn event(is_awaited: fn(&EventKind) -> bool) -> Arc<Self> {
        Arc::new(ForksAt {
            is_awaited,
            has_forked: AtomicBool::new(false),
            is_child: AtomicBool::new(false),
            has_succeeded: AtomicBool::new(false),
        })
    }

    /// Returns a listener that forks at the first flush. With inline work that is in the middle of
    /// a write: the arena was full and the write goes on in another.
    fn flush() -> Arc<Self> {
        ForksAt::event(|kind| matches!(kind, EventKind::FlushBegun { .. }))
    }

    fn is_child(&self) -> bool {
        self.is_child.load(Ordering::Relaxed)
    }

    fn has_succeeded(&self) -> bool {
        self.has_succeeded.load(Ordering::Relaxed)
    }
}

impl EventListener for ForksAt {
    fn event(&self, event: &Event) {
        if (self.is_awaited)(&event.kind) && !self.has_forked.swap(true, Ordering::Relaxed) {
            let is_child = fork_here();
            self.is_child.store(is_child, Ordering::Relaxed);
            self.has_succeeded.store(!is_child, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_leader_that_forks_stores_no_frame_in_the_child() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            let listener = ForksAt::flush();
            let options = Options {
                event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
                ..inline(method)
            };
            let db = Db::open(place.store(), options).unwrap();
            let mut count = 0;
            while !listener.has_forked.load(Ordering::Relaxed) {
                let written = db.put(key(count), key(count));
                if listener.is_child() {
                    exit(is_forked(written));
                }
                written.unwrap();
                count += 1;
            }
            assert!(listener.has_succeeded());
            put(&db, count..count + 100);
            db.flush().unwrap();
            drop(db);
            check_reopened(&place.store(), inline(method), count + 100);
        }
    });
}

/// The child is a copy of the thread that flushes, in the middle of that.
#[test]
fn a_worker_that_forks_changes_no_file_in_the_child() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            let listener = ForksAt::flush();
            let options = Options {
                event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
                ..options(method)
            };
            let db = Db::open(place.store(), options.clone()).unwrap();
            put(&db, 0..1_000);
            // The parent's listener returns when the child has ended.
            db.flush().unwrap();
            assert!(listener.has_succeeded());
            assert_eq!(db.statistics().step_failures, 0);
            drop(db);
            check_reopened(&place.store(), options, 1_000);
        }
    });
}

/// Forks at events of every kind until it has had enough children.
#[derive(Debug, Default)]
struct ForksOften {
    children: AtomicU32,
    ended_well: AtomicU32,
    has_failed: AtomicBool,
}

impl ForksOften {
    fn has_had_enough(&self) -> bool {
        self.children.load(Ordering::Relaxed) > MANY_CHILDREN
            || self.has_failed.load(Ordering::Relaxed)
    }
}

impl EventListener for ForksOften {
    fn event(&self, _: &Event) {
        if self.children.fetch_add(1, Ordering::Relaxed) >= MANY_CHILDREN {
            return;
        }
        match catch_unwind(fork_here) {
            Ok(true) => {}
            Ok(false) => {
                self.ended_well.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => self.has_failed.store(true, Ordering::Relaxed),
        }
    }
}

const MANY_CHILDREN: u32 = 60;

/// The other threads take locks of the store all the time, and a child may find any of them held.
#[test]
fn workers_that_fork_wait_for_no_lock_in_the_child() {
    in_own_process(|| {
        let place = Place::new();
        let listener = Arc::new(ForksOften::default());
        let options = Options {
            event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
            level0_merge: 1,
            ..options(METHODS[0])
        };
        let db = Db::open(place.store(), options.clone()).unwrap();
        let mut count = 0;
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !listener.has_had_enough() {
                        db.statistics();
                    }
                });
            }
            threads.spawn(|| {
                while !listener.has_had_enough() {
                    db.flush().unwrap();
                }
            });
            while !listener.has_had_enough() {
                put(&db, count..count + 10);
                count += 10;
            }
        });
        db.flush().unwrap();
        assert_eq!(listener.ended_well.load(Ordering::Relaxed), MANY_CHILDREN);
        drop(db);
        check_reopened(&place.store(), options, count);
    });
}

/// The store is still behind when its leader is told to go on: in the child no thread catches up.
#[test]
fn a_stopped_leader_that_forks_waits_for_no_thread_in_the_child() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            let listener = ForksAt::event(|kind| matches!(kind, EventKind::WritersStopped { .. }));
            let filter = FaultFilter::everything().purpose(Purpose::Compaction);
            let merges = FaultPlan::new(filter);
            let options = Options {
                event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
                storage: Arc::new(FailingStorage::new(Arc::new(RealStorage), merges.clone())),
                background: Background::Threads,
                compaction_threads: 1,
                level0_merge: 1,
                level0_slowdown: 2,
                constants: terrace::Constants {
                    level0_stop: Some(3),
                    ..terrace::Constants::default()
                },
                ..options(method)
            };
            let db = Db::open(place.store(), options).unwrap();
            let keyspaces: Vec<_> = (0..8)
                .map(|n| {
                    db.create_keyspace(&format!("k{n}"), Default::default())
                        .unwrap()
                })
                .collect();
            for round in 0..4 {
                for keyspace in &keyspaces {
                    keyspace.put(key(1), [7; 10_000]).unwrap();
                }
                db.flush().unwrap();
                if round == 0 {
                    // Down to the level that the next ones are merged with.
                    db.compact().unwrap();
                    merges.fail_from(merges.count(), Fault::Io);
                }
            }
            merges.heal();
            let mut number = 0;
            while !listener.has_forked.load(Ordering::Relaxed) {
                let written = db.put(key(number), key(number));
                if listener.is_child() {
                    exit(is_forked(written));
                }
                // The last failure of a merge may be reported once more.
                number += u32::from(written.is_ok());
            }
            assert!(listener.has_succeeded());
            db.compact().unwrap();
            drop((db, keyspaces));
            check_reopened(&place.store(), inline(method), number);
        }
    });
}

/// With inline work the flush is in the thread that serves the client.
#[test]
fn a_request_whose_thread_forks_is_answered_by_the_parent_alone() {
    in_own_process(|| {
        let place = Place::new();
        let listener = ForksAt::flush();
        let options = Options {
            event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
            ..inline(METHODS[0])
        };
        let db = terrace_tools::inspect::open(place.store(), options).unwrap();
        put(&db, 0..10);
        terrace_tools::inspect::flush(&place.store()).unwrap();
        assert!(listener.has_succeeded());
        drop(db);
        check_reopened(&place.store(), inline(METHODS[0]), 10);
    });
}

#[test]
fn a_repair_that_forks_changes_no_file_in_the_child() {
    in_own_process(|| {
        let place = Place::new();
        let options = inline(METHODS[0]);
        let db = Db::open(place.store(), options.clone()).unwrap();
        put(&db, 0..1_000);
        db.flush().unwrap();
        drop(db);
        std::fs::remove_file(place.store().join("CURRENT")).unwrap();
        let mut forks = 0;
        let mut is_child = false;
        let repaired = terrace_tools::repair::repair(&place.store(), options.clone(), |_, _| {
            if !is_child && forks == 0 {
                forks += 1;
                is_child = fork_here();
            }
        });
        if is_child {
            exit(is_forked(repaired));
        }
        repaired.unwrap();
        assert_eq!(forks, 1);
        check_reopened(&place.store(), options, 1_000);
    });
}

/// A thread of the parent's own may have waited for a lock of the store's.
#[test]
fn a_child_of_a_store_without_threads_has_none_either() {
    in_own_process(|| {
        let place = Place::new();
        let db = Db::open(place.store(), inline(METHODS[0])).unwrap();
        put(&db, 0..10);
        in_child(|| {
            let refused = |read_only| {
                let options = Options {
                    read_only,
                    ..options(METHODS[0])
                };
                let opened = Db::open(place.other("child's"), options);
                matches!(opened, Err(terrace::Error::InvalidArgument(_)))
            };
            drop(Db::open(place.other("child's"), inline(METHODS[0])).unwrap());
            refused(false) && refused(true)
        });
        drop(db);
    });
}
