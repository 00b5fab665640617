//! Functions that run as transactions, again and again until a commit is accepted.

use std::time::Duration;

use terrace_lsm::sync::thread;

use crate::transaction::{Transaction, TransactionOptions};
use crate::{Db, Error, Result};

/// The longest pause before the third attempt; it doubles with each one. The second one begins at once.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
/// The longest pause of all.
const MAX_PAUSE: Duration = Duration::from_millis(20);

impl Db {
    /// Runs a function as a transaction, and commits it if it returns `Ok`. Where another write came in
    /// between, it runs the function again, at a later moment. Returns the function's last answer.
    ///
    /// The function may run many times, so it does nothing that matters outside the transaction. Reads and
    /// writes of the [`Db`] itself are outside. Pauses between the attempts become longer, so that others come
    /// through.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// let visits = db.transact(|transaction| {
    ///     let visits = transaction.get("visits")?;
    ///     let visits = visits.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
    ///     transaction.put("visits", (visits + 1).to_le_bytes())?;
    ///     Ok(visits + 1)
    /// })?;
    /// assert_eq!(visits, 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of the function; then nothing was written. [`Error::Conflict`], which names a key, after
    /// [`TransactionOptions::max_attempts`] attempts. Otherwise those of [`Transaction::commit`].
    pub fn transact<T>(&self, run: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(TransactionOptions::default(), run)
    }

    /// Does [`Db::transact`] with options, for a function with an error type of its own.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// #[derive(Debug)]
    /// enum Refused {
    ///     Poor,
    ///     Store(terrace::Error),
    /// }
    ///
    /// impl From<terrace::Error> for Refused {
    ///     fn from(error: terrace::Error) -> Self {
    ///         Refused::Store(error)
    ///     }
    /// }
    ///
    /// let paid = db.transact_with(Default::default(), |transaction| {
    ///     let coins = transaction.get("coins")?.map_or(0, |bytes| bytes[0]);
    ///     let left = coins.checked_sub(1).ok_or(Refused::Poor)?;
    ///     transaction.put("coins", [left])?;
    ///     Ok(left)
    /// });
    /// assert!(matches!(paid, Err(Refused::Poor)));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::transact`].
    pub fn transact_with<T, E: From<Error>>(
        &self,
        options: TransactionOptions,
        mut run: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut transaction = self.transaction_with(options)?;
            let returned = run(&mut transaction)?;
            match transaction.commit() {
                Ok(()) => return Ok(returned),
                Err(Error::Conflict { .. }) if attempts < options.max_attempts => pause(attempts),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Waits before the next attempt: a random time, so that two that met do not meet again.
fn pause(attempts: u32) {
    let longest = FIRST_PAUSE
        .saturating_mul(1 << attempts.saturating_sub(2).min(16))
        .min(MAX_PAUSE);
    match attempts {
        1 => thread::yield_now(),
        _ => thread::sleep(longest.mul_f64(rand::random())),
    }
}
