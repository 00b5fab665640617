//! The start of every thread of a store.

use std::thread::{Scope, ScopedJoinHandle};

use terrace_lsm::sync::thread::{Builder, JoinHandle};
use terrace_storage::NoThread;

use crate::{Error, Result};

/// Starts a thread.
///
/// # Errors
/// [`Error::NoThread`] if the system has none left.
pub(crate) fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    refused_for_test(name)?;
    let builder = Builder::new().name(name.to_owned());
    builder.spawn(work).map_err(|error| no_thread(name, error))
}

/// Starts a thread that ends within a scope.
///
/// # Errors
/// As [`start`].
pub(crate) fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    refused_for_test(name)?;
    let builder = std::thread::Builder::new().name(name.to_owned());
    let started = builder.spawn_scoped(scope, work);
    started.map_err(|error| no_thread(name, error))
}

fn no_thread(name: &str, error: std::io::Error) -> Error {
    Error::from(NoThread::new(name, error))
}

#[cfg(not(test))]
fn refused_for_test(_name: &str) -> Result<()> {
    Ok(())
}

#[cfg(test)]
use self::tests::refused_for_test;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{Background, Db, Options};

    thread_local! {
        /// Number of threads that this thread may still start; `None`: no limit.
        static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    pub(super) fn refused_for_test(name: &str) -> Result<()> {
        match LEFT.get() {
            None => Ok(()),
            Some(0) => {
                let error = std::io::Error::from_raw_os_error(11);
                Err(no_thread(name, error))
            }
            Some(left) => {
                LEFT.set(Some(left - 1));
                Ok(())
            }
        }
    }

    #[test]
    #[cfg_attr(feature = "shuttle", ignore = "shuttle knows its own threads only")]
    fn a_store_without_a_thread_is_told_so_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let options = || Options {
            background: Background::Threads,
            persist_every: Some(std::time::Duration::from_secs(60)),
            ..Options::default()
        };
        let mut refused = 0;
        loop {
            LEFT.set(Some(refused));
            let opened = Db::open(directory.path(), options());
            LEFT.set(None);
            match opened {
                Ok(db) => {
                    db.close().unwrap();
                    break;
                }
                Err(error) => {
                    assert!(matches!(error, Error::NoThread(_)), "{error:?}");
                    let text = error.to_string();
                    assert!(text.contains("RLIMIT_NPROC"), "{text}");
                    assert!(text.contains("pids.max"), "{text}");
                }
            }
            // Neither its lock nor a thread is left: a store opens there.
            let db = Db::open(directory.path(), options()).unwrap();
            db.put(refused.to_be_bytes(), b"").unwrap();
            db.close().unwrap();
            refused += 1;
        }
        assert!(refused >= 6, "a store has several threads: {refused}");
    }
}
