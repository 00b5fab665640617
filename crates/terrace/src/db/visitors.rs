//! Callers that work on the store's files over several calls, or for long: bulk loads, checkpoints.
//!
//! They are no leaders and no workers, so closing does not end them by itself. When the store is
//! closed, another owner may have the directory and give the same numbers to other files. So each
//! visitor says when it touches files. A close waits for those inside and lets none in again.

use terrace_lsm::sync::{Condvar, Mutex};

use crate::{Error, Result};

#[derive(Default)]
pub(crate) struct Visitors {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    inside: usize,
    is_closed: bool,
}

/// As long as it is held, the directory is this store's.
pub(crate) struct Visit<'a>(&'a Visitors);

impl Visitors {
    /// # Errors
    /// [`Error::Closed`]: no file may be touched any more.
    pub(crate) fn enter(&self) -> Result<Visit<'_>> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        state.inside += 1;
        Ok(Visit(self))
    }

    /// Closes the store to visitors: none is inside when this returns, or will be.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        while state.inside > 0 {
            self.left.wait(&mut state);
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.state.lock().inside -= 1;
        self.0.left.notify_all();
    }
}
