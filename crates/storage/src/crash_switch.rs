//! One counter over everything that can be interrupted, and the moment at which it is.
//!
//! A simulated machine dies between two operations or in the middle of one. Every simulated medium
//! (files here, memory elsewhere) asks the same switch before each operation that changes
//! something. So a test can run a scenario once, read [`CrashSwitch::count`], and then run it again
//! frozen at each of the operations in turn.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Error, Operation};

/// The switch's answer to an operation that is about to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The machine lives: the operation takes place.
    Alive,
    /// The machine dies in this very operation, which may take place in part.
    Interrupted,
    /// The machine is dead: nothing takes place.
    Frozen,
}

/// Counts operations and ends the machine's life at a chosen one. Clones share the counter.
///
/// ```
/// use terrace_storage::CrashSwitch;
///
/// let switch = CrashSwitch::new();
/// switch.freeze_at(2);
/// assert!(switch.step());
/// assert!(switch.step());
/// assert!(!switch.step(), "two operations live, the third is interrupted");
/// assert_eq!(switch.count(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CrashSwitch(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    steps: u64,
    freeze_at: Option<u64>,
    frozen: bool,
}

impl CrashSwitch {
    /// Returns a switch that never freezes by itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a switch that lets `steps` operations live and interrupts the next.
    pub fn frozen_at(steps: u64) -> Self {
        let switch = Self::new();
        switch.freeze_at(steps);
        switch
    }

    /// Takes a step and says how it ends.
    pub fn advance(&self) -> Step {
        let mut state = self.0.lock();
        if state.frozen {
            return Step::Frozen;
        }
        if state.freeze_at.is_some_and(|limit| state.steps >= limit) {
            state.frozen = true;
            return Step::Interrupted;
        }
        state.steps += 1;
        Step::Alive
    }

    /// Takes a step and says whether the machine still lives.
    pub fn step(&self) -> bool {
        self.advance() == Step::Alive
    }

    /// Lets `steps` operations live, counted since the switch was made, and interrupts the next.
    pub fn freeze_at(&self, steps: u64) {
        self.0.lock().freeze_at = Some(steps);
    }

    /// Ends the machine's life now, between two operations.
    pub fn freeze_now(&self) {
        self.0.lock().frozen = true;
    }

    /// Returns whether the machine is dead.
    pub fn is_frozen(&self) -> bool {
        self.0.lock().frozen
    }

    /// Returns the number of operations that have lived.
    pub fn count(&self) -> u64 {
        self.0.lock().steps
    }

    /// Returns the error of an operation on a dead machine: `ErrorKind::Other`, its source says
    /// "frozen".
    pub fn error(operation: Operation, path: &Path) -> Error {
        Error::new(operation, path, io::Error::other("frozen"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_interrupted_once_and_frozen_from_then_on() {
        let switch = CrashSwitch::frozen_at(1);
        assert_eq!(switch.advance(), Step::Alive);
        assert!(!switch.is_frozen());
        assert_eq!(switch.clone().advance(), Step::Interrupted);
        assert_eq!(switch.advance(), Step::Frozen);
        assert!(switch.is_frozen());
        assert_eq!(switch.count(), 1);
    }

    #[test]
    fn freezing_now_interrupts_nothing() {
        let switch = CrashSwitch::new();
        assert!(switch.step());
        switch.freeze_now();
        assert_eq!(switch.advance(), Step::Frozen);
    }
}
