//! The end of changes to a namespace, and its cause.

use std::sync::OnceLock;

use super::Failure;

/// Empty as long as changes are taken.
#[derive(Default)]
pub(super) struct Poison(OnceLock<String>);

impl Poison {
    /// Returns the error of a change if none is taken.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.0.get() {
            Some(why) => Err(Failure::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    /// Returns the cause if changes are refused.
    pub(super) fn cause(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Refuses changes from now on. Returns the error of those in flight; the first cause stays.
    pub(super) fn set(&self, why: String) -> Failure {
        Failure::Poisoned(self.0.get_or_init(|| why).clone())
    }
}
