//! Which operation fails, and how.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use crate::{Error, Operation, Purpose};

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An input/output error; nothing takes place.
    Io,
    /// The medium is full; nothing takes place.
    NoSpace,
    /// The process has as many files open as it may; nothing takes place.
    TooManyFiles,
    /// The machine has as many files open as it may; nothing takes place.
    TooManyFilesInSystem,
    /// The file would be longer than the process or the file system allows; nothing takes place.
    FileTooLarge,
    /// The file system cannot do this; nothing takes place.
    Unsupported,
    /// A write or append leaves the first half of its bytes, then an input/output error. Any
    /// other operation: as [`Fault::Io`].
    ShortWrite,
    /// A write or append leaves all of its bytes, then an input/output error. Any other operation:
    /// as [`Fault::Io`].
    WriteKept,
    /// A sync fails and makes nothing durable. Later syncs of the same open file succeed without
    /// making anything durable either, as where the kernel has marked the pages clean and reported
    /// the error once. Any other operation: as [`Fault::Io`].
    SyncLost,
    /// A sync makes everything durable and fails all the same. Any other operation: as
    /// [`Fault::Io`].
    SyncKept,
    /// The call panics and nothing takes place, as in a storage with a bug.
    Panic,
}

impl Fault {
    pub(super) fn error(self, operation: Operation, path: &Path) -> Error {
        let errno = match self {
            Fault::NoSpace => Errno::NOSPC,
            Fault::TooManyFiles => Errno::MFILE,
            Fault::TooManyFilesInSystem => Errno::NFILE,
            Fault::FileTooLarge => Errno::FBIG,
            Fault::Unsupported => Errno::OPNOTSUPP,
            Fault::Io
            | Fault::ShortWrite
            | Fault::WriteKept
            | Fault::SyncLost
            | Fault::SyncKept
            | Fault::Panic => Errno::IO,
        };
        Error::new(operation, path, io::Error::from(errno))
    }
}

/// Which operations a plan counts and may fail.
///
/// ```
/// use terrace_storage::{FaultFilter, Operation, Purpose};
///
/// let syncs_of_tables = FaultFilter::everything()
///     .operations(&[Operation::Sync])
///     .purpose(Purpose::Flush)
///     .path_contains(".table");
/// ```
#[derive(Clone, Debug, Default)]
pub struct FaultFilter {
    operations: Option<Vec<Operation>>,
    purpose: Option<Purpose>,
    path_part: Option<String>,
}

impl FaultFilter {
    /// Returns the filter that matches every operation on every path.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches only these operations. An append is a [`Operation::Write`].
    #[must_use]
    pub fn operations(mut self, operations: &[Operation]) -> Self {
        self.operations = Some(operations.to_vec());
        self
    }

    /// Matches only reads, writes, appends and syncs of files for this purpose.
    #[must_use]
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = Some(purpose);
        self
    }

    /// Matches only operations on a path (for a rename or link: one of the two) that contains
    /// `part`.
    #[must_use]
    pub fn path_contains(mut self, part: &str) -> Self {
        self.path_part = Some(part.to_owned());
        self
    }

    fn matches(&self, operation: Operation, purpose: Option<Purpose>, paths: &[&Path]) -> bool {
        let operation_matches = match &self.operations {
            Some(operations) => operations.contains(&operation),
            None => true,
        };
        let path_matches = match &self.path_part {
            Some(part) => paths
                .iter()
                .any(|path| path.to_string_lossy().contains(part)),
            None => true,
        };
        operation_matches && path_matches && (self.purpose.is_none() || self.purpose == purpose)
    }
}

/// Counts the operations that match a filter and fails or holds the chosen ones. Clones share the
/// count.
///
/// A test runs a scenario with a plan that fails nothing, reads [`FaultPlan::count`], and runs it
/// again once for each number below that.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    filter: FaultFilter,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    healed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    failures: u64,
    planned: Option<Planned>,
    /// The first operation that is not let through.
    held_from: Option<u64>,
    /// Operations that wait.
    held: u64,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: u64,
    repeated: bool,
    fault: Fault,
}

impl FaultPlan {
    /// Returns a plan that counts and fails nothing yet.
    pub fn new(filter: FaultFilter) -> Self {
        FaultPlan {
            filter,
            shared: Arc::default(),
        }
    }

    /// Fails one matching operation: the one before which [`FaultPlan::count`] is `at`.
    pub fn fail_at(&self, at: u64, fault: Fault) {
        self.plan(at, false, fault);
    }

    /// Fails that operation and all matching ones after it, until healed.
    pub fn fail_from(&self, at: u64, fault: Fault) {
        self.plan(at, true, fault);
    }

    /// Holds that operation and all matching ones after it: none returns until the plan is healed.
    pub fn hold_from(&self, at: u64) {
        self.shared.state.lock().held_from = Some(at);
    }

    fn plan(&self, at: u64, repeated: bool, fault: Fault) {
        self.shared.state.lock().planned = Some(Planned {
            at,
            repeated,
            fault,
        });
    }

    /// Releases the operations that are held, and holds no more. They fail if they were to fail.
    pub fn release(&self) {
        self.shared.state.lock().held_from = None;
        self.shared.healed.notify_all();
    }

    /// Fails and holds nothing from now on. Writes that a failed sync has lost stay lost.
    pub fn heal(&self) {
        let mut state = self.shared.state.lock();
        state.planned = None;
        state.held_from = None;
        self.shared.healed.notify_all();
    }

    /// Returns the number of matching operations, failed ones included.
    pub fn count(&self) -> u64 {
        self.shared.state.lock().count
    }

    /// Returns the number of operations that were made to fail.
    pub fn failures(&self) -> u64 {
        self.shared.state.lock().failures
    }

    /// Returns the number of operations that are held.
    pub fn held(&self) -> u64 {
        self.shared.state.lock().held
    }

    /// Counts an operation and says how it is to fail, if it is.
    ///
    /// # Panics
    /// If that is [`Fault::Panic`].
    #[expect(clippy::panic, reason = "the fault is a panic")]
    pub(super) fn next(
        &self,
        operation: Operation,
        purpose: Option<Purpose>,
        paths: &[&Path],
    ) -> Option<Fault> {
        if !self.filter.matches(operation, purpose, paths) {
            return None;
        }
        let mut state = self.shared.state.lock();
        let number = state.count;
        state.count += 1;
        while state.held_from.is_some_and(|from| number >= from) {
            state.held += 1;
            self.shared.healed.wait(&mut state);
            state.held -= 1;
        }
        let planned = state.planned?;
        let due = number == planned.at || (planned.repeated && number > planned.at);
        if !due {
            return None;
        }
        state.failures += 1;
        if planned.fault == Fault::Panic {
            drop(state);
            panic!("planned for {operation:?} {number} of {paths:?}");
        }
        Some(planned.fault)
    }
}
