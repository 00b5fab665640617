//! The queue under thousands of schedules: a hand-over that is lost shows as a deadlock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Plain, AtomicU64 as Count, Ordering::SeqCst};

use terrace_lsm::sync::schedules;

use super::*;

const SCHEDULES: usize = 3_000;

/// A queue, and a store's view of it.
struct Stage {
    queue: CommitQueue,
    occupied: Plain,
    written: Count,
}

impl Stage {
    fn new(records: u32) -> Arc<Self> {
        let bytes = 1 << 20;
        Arc::new(Stage {
            queue: CommitQueue::new(GroupLimits { bytes, records }, ForkMark::new().unwrap()),
            occupied: Plain::new(false),
            written: Count::new(0),
        })
    }

    /// Others run while the leader is inside.
    fn lead(&self, records: u64) {
        assert!(!self.occupied.swap(true, SeqCst), "two leaders");
        thread::yield_now();
        self.written.fetch_add(records, SeqCst);
        assert!(self.occupied.swap(false, SeqCst));
    }

    fn write(&self, sync: bool) -> Result<()> {
        self.queue.submit(
            request(sync),
            || Ok(()),
            |group| {
                self.lead(
                    group
                        .batches()
                        .map(|batch| u64::from(batch.records()))
                        .sum(),
                );
                Ok(())
            },
        )
    }
}

fn request(sync: bool) -> Request {
    let mut batch = WriteBatch::new();
    batch.put(b"key", b"value").unwrap();
    Request {
        batch,
        sync,
        ..Request::default()
    }
}

/// Runs the threads' bodies under many schedules, and `check` after each.
fn explore(records: u32, bodies: Vec<fn(&Stage)>, check: fn(&Stage)) {
    let run = move || {
        let stage = Stage::new(records);
        let threads: Vec<_> = bodies
            .iter()
            .map(|&body| {
                let stage = Arc::clone(&stage);
                thread::spawn(move || body(&stage))
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(stage.queue.role.load(Ordering::SeqCst), IDLE);
        let state = stage.queue.state.lock();
        assert!(state.waiting.is_empty() && state.failures.is_empty());
        drop(state);
        check(&stage);
    };
    schedules::check_random(run, SCHEDULES);
}

#[test]
fn every_write_is_written_once_and_answered() {
    let writer: fn(&Stage) = |stage| {
        let before = stage.written.load(SeqCst);
        stage.write(false).unwrap();
        assert!(
            stage.written.load(SeqCst) > before,
            "answered before written"
        );
        stage.write(false).unwrap();
    };
    explore(2, vec![writer; 4], |stage| {
        assert_eq!(stage.written.load(SeqCst), 8)
    });
}

#[test]
fn synced_writes_gather_and_end() {
    let writer: fn(&Stage) = |stage| (0..3).for_each(|_| stage.write(true).unwrap());
    explore(1000, vec![writer; 3], |stage| {
        assert_eq!(stage.written.load(SeqCst), 9)
    });
}

#[test]
fn whoever_wants_to_be_alone_is_and_all_others_go_on() {
    let writer: fn(&Stage) = |stage| (0..2).for_each(|_| stage.write(false).unwrap());
    let loner: fn(&Stage) = |stage| stage.queue.alone(|| stage.lead(100));
    explore(2, vec![writer, writer, loner, loner], |stage| {
        assert_eq!(stage.written.load(SeqCst), 204);
    });
}

#[test]
fn a_failure_reaches_its_group_only() {
    // The first write fails, from any writer; every member of its group gets the error.
    let writer: fn(&Stage) = |stage| {
        let answer = stage.queue.submit(
            request(false),
            || Ok(()),
            |group| {
                let members = group.batches().count() as u64;
                if stage.occupied.swap(true, SeqCst) {
                    return Ok(());
                }
                stage.written.fetch_add(members, SeqCst);
                thread::yield_now();
                Err(Error::Closed)
            },
        );
        if answer.is_err() {
            stage.written.fetch_sub(1, SeqCst);
        }
    };
    explore(2, vec![writer; 4], |stage| {
        assert_eq!(stage.written.load(SeqCst), 0)
    });
}

#[test]
fn a_leader_that_panics_leaves_nobody_waiting() {
    let writer: fn(&Stage) = |stage| (0..2).for_each(|_| stage.write(false).unwrap_or(()));
    let panics: fn(&Stage) = |stage| {
        let submit = || {
            stage.queue.submit(
                request(false),
                || Ok(()),
                |_| std::panic::resume_unwind(Box::new(())),
            )
        };
        let _ = catch_unwind(AssertUnwindSafe(submit));
    };
    explore(1000, vec![writer, writer, panics], |_| ());
}
