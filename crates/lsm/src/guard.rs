//! The guard around each step of the store: a panic in it becomes an error.
//!
//! A panic is a bug, in the engine or in the storage, region or clock that a caller supplies. It
//! must not leave a thread that waits for the step. [`catch`] turns it into [`Error::Panicked`].
//! `Store::guard` then poisons the store with that error, which answers every waiter.
//!
//! No lock outlives the panic, since unwinding releases it. So a step may leave half a change behind
//! only where a poisoned store does not look again: in the manifest, an arena, the board of jobs.
//! Readers see the view and the visible number, and a step replaces each of them at once.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use crate::{Error, Result};

/// Runs `work`. Returns [`Error::Panicked`], which names `step`, if it panics.
pub fn catch<T>(step: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // A whole result that leaves the closure is copied several times, which each write would pay.
    let (mut value, mut failure) = (None, None);
    let step_runs = AssertUnwindSafe(|| match work() {
        Ok(result) => value = Some(result),
        Err(error) => failure = Some(error),
    });
    match catch_unwind(step_runs) {
        Ok(()) => value.ok_or_else(|| failure.unwrap_or(Error::Closed)),
        Err(payload) => Err(panicked(step, payload)),
    }
}

/// Returns the error for a step that a panic ended.
#[cold]
pub fn panicked(step: &str, payload: Box<dyn Any + Send>) -> Error {
    Error::Panicked {
        step: step.to_owned(),
        message: message(payload),
    }
}

/// Payloads that are no words, never dropped.
static KEPT: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

/// Returns the words that the panic was raised with.
fn message(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<String>() {
        Ok(words) => return *words,
        Err(payload) => payload,
    };
    match payload.downcast::<&'static str>() {
        Ok(words) => (*words).to_owned(),
        Err(unknown) => {
            // Its drop is a stranger's code, and may panic in turn.
            KEPT.lock().push(unknown);
            "no message".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    fn message_of(work: fn()) -> String {
        let caught = catch("the test", || {
            work();
            Ok(())
        });
        match caught {
            Err(Error::Panicked { step, message }) if step == "the test" => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        let number = 7;
        assert_eq!(message_of(|| panic!("words")), "words");
        assert_eq!(message_of(|| panic_any(format!("word {}", 7))), "word 7");
        assert_eq!(message_of(|| panic_any(3)), "no message");
        assert_eq!(catch("the test", || Ok(number)).unwrap(), 7);
    }

    #[test]
    fn the_drop_of_a_payload_does_not_run() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("a second panic");
            }
        }
        assert_eq!(message_of(|| panic_any(Bomb)), "no message");
    }
}
