//! The opening of a store with the socket at which its owner answers questions.

use std::path::Path;
use std::sync::Arc;

use terrace_storage::{Clock, SystemClock};

use crate::db::attendant::Attendance;
use crate::inspect::socket;
use crate::{Db, Options, Result};

impl Db {
    /// Opens the store in a directory, making one if there is none and
    /// [`Options::create_if_missing`] says so. After a crash this brings back all acknowledged writes:
    /// [`Statistics::recovery`](crate::Statistics::recovery) has the findings.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::Error::Busy) if the store is open elsewhere,
    /// [`Error::NoStore`](crate::Error::NoStore) if there is none or the directory holds other
    /// files, [`Error::Corruption`](crate::Error::Corruption) if acknowledged bytes are damaged,
    /// [`Error::RegionLost`](crate::Error::RegionLost) if unflushed writes are missing,
    /// [`Error::NoSpace`](crate::Error::NoSpace) if there is no room to recover into.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_on(path.as_ref(), options, Arc::new(SystemClock::new()))
    }

    pub(crate) fn open_on(path: &Path, options: Options, clock: Arc<dyn Clock>) -> Result<Db> {
        let attendance = options.inspect.then_some(Attendance {
            check: socket::check,
            start: socket::start,
        });
        Db::open_with(path, options, clock, attendance)
    }
}
