//! A caller's code that forks in the middle of a call and returns in both processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{Db, Event, EventKind, EventListener, Options};

use crate::child::{exit, fork_here, in_own_process};
use crate::{METHODS, Place, check_reopened, inline, is_forked, key, options, put};

#[test]
fn an_update_that_forks_is_written_by_its_parent_alone() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            let db = Db::open(place.store(), options(method)).unwrap();
            put(&db, 0..10);
            let mut is_child = false;
            let updated = db.fetch_and_update(&key(10), |_| {
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

/// Forks at the first flush, which with inline work is in the middle of a write: the arena was full
/// and the write goes on in another.
#[derive(Debug, Default)]
struct ForksAtFlush {
    has_forked: AtomicBool,
    is_child: AtomicBool,
}

impl EventListener for ForksAtFlush {
    fn event(&self, event: &Event) {
        let is_flush = matches!(event.kind, EventKind::FlushBegun { .. });
        if is_flush && !self.has_forked.swap(true, Ordering::Relaxed) {
            self.is_child.store(fork_here(), Ordering::Relaxed);
        }
    }
}

#[test]
fn a_leader_that_forks_stores_no_frame_in_the_child() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            let listener = Arc::new(ForksAtFlush::default());
            let options = Options {
                event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
                ..inline(method)
            };
            let db = Db::open(place.store(), options).unwrap();
            let mut count = 0;
            while !listener.has_forked.load(Ordering::Relaxed) {
                let written = db.put(&key(count), &key(count));
                if listener.is_child.load(Ordering::Relaxed) {
                    exit(is_forked(written));
                }
                written.unwrap();
                count += 1;
            }
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
            let listener = Arc::new(ForksAtFlush::default());
            let options = Options {
                event_listener: Some(Arc::clone(&listener) as Arc<dyn EventListener>),
                ..options(method)
            };
            let db = Db::open(place.store(), options.clone()).unwrap();
            put(&db, 0..1_000);
            // The parent's listener returns when the child has ended.
            db.flush().unwrap();
            assert!(listener.has_forked.load(Ordering::Relaxed));
            assert_eq!(db.statistics().retries, 0);
            drop(db);
            check_reopened(&place.store(), options, 1_000);
        }
    });
}
