use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_storage::{CrashSwitch, SimulatedStorage};

use super::*;
use crate::Db;

static STEPS: AtomicU64 = AtomicU64::new(0);
/// Met when the first step has looked, when it is to end, and when the last one is.
static LOOKED: Barrier = Barrier::new(2);
static ENDS: Barrier = Barrier::new(2);
static IS_ANSWERED: Barrier = Barrier::new(2);

/// Finds work in the second step alone.
fn step(_: &Store) -> Result<bool> {
    let number = STEPS.fetch_add(1, Ordering::Relaxed);
    match number {
        0 => {
            LOOKED.wait();
            ENDS.wait();
        }
        2 => {
            IS_ANSWERED.wait();
        }
        _ => {}
    }
    Ok(number == 1)
}

/// `wait_for_migration` said that all tables were in their places, after a look at the options of before.
#[test]
fn a_step_that_looked_before_does_not_answer_that_nothing_is_left() {
    let options = crate::Options {
        storage: Arc::new(SimulatedStorage::new(1, CrashSwitch::new())),
        background: options::Background::Inline,
        ..crate::Options::default()
    };
    let db = Db::open("/store", options).unwrap();
    let store = Arc::clone(db.own_store().unwrap());
    let worker = Arc::new(Worker::new(false, "test", step, 1));
    worker.start(&store).unwrap();
    worker.kick(&store);
    LOOKED.wait();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| worker.wait(&store).unwrap());
        while worker.state.lock().wishes < 2 {
            std::thread::yield_now();
        }
        ENDS.wait();
        assert!(waiter.join().unwrap(), "the second step finds work");
    });
    IS_ANSWERED.wait();
    worker.stop();
}

#[test]
fn a_step_answers_waiters_of_before_and_of_its_time() {
    let mut state = State::default();
    let first = state.begin();
    let waits_since = state.begun;
    assert!(state.answer_since(waits_since).is_none());
    state.end(first, Ok(false));
    assert!(
        state.answer_since(waits_since).is_none(),
        "it may have looked before"
    );
    let second = state.begin();
    state.end(second, Ok(false));
    assert!(matches!(state.answer_since(waits_since), Some(Ok(false))));
    // A step that did something, or failed, answers all: the reason of a wait may be gone.
    let waits_since = state.begun + 1;
    let third = state.begin();
    state.end(third, Ok(true));
    assert!(matches!(state.answer_since(waits_since), Some(Ok(true))));
    let fourth = state.begin();
    state.end(fourth, Err(Error::Closed));
    assert!(matches!(
        state.answer_since(waits_since + 1),
        Some(Err(Error::Closed))
    ));
}
