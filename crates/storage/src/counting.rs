//! Counts the bytes and operations that pass through a storage, by purpose and direction.
//!
//! Everything that a store does to files comes through here. So here a forked child is kept from
//! changing the files of its parent, at any point of a call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::layered::{DirectoryLayer, LayeredStorage};
use crate::layered_file::{FileCall, FileLayer, LayeredFile};
use crate::{Error, File, ForkMark, Operation, Purpose, Result, Storage};

/// A storage that counts its bytes and operations. Failed operations are not counted.
///
/// ```
/// # fn main() -> terrace_storage::Result<()> {
/// use std::{path::Path, sync::Arc};
/// use terrace_storage::*;
///
/// let inner = Arc::new(SimulatedStorage::new(1, CrashSwitch::new()));
/// let storage = CountingStorage::new(inner);
/// let file = storage.open(Path::new("/f"), OpenOptions::buffered(OpenMode::CreateNew))?;
/// let before = storage.snapshot();
/// file.append(b"12345", Purpose::Flush)?;
/// let statistics = storage.snapshot().since(&before);
/// assert_eq!(statistics.of(Purpose::Flush).written_bytes, 5);
/// # Ok(())
/// # }
/// ```
pub type CountingStorage = LayeredStorage<CountingLayer>;

/// The process that may change files; any process if there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Owner(Option<ForkMark>);

impl Owner {
    fn check(self, operation: Operation, path: &Path) -> Result<()> {
        match self.0 {
            Some(mark) if mark.is_inherited() => Err(Error::forked(operation, path)),
            _ => Ok(()),
        }
    }
}

impl CountingStorage {
    /// Counts the bytes and operations that pass to `inner`, from zero.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        LayeredStorage::within(inner, CountingLayer::default())
    }

    /// Refuses every change of a file, every call on a directory, and the boot id, in a child of the
    /// process that made the mark.
    #[must_use]
    pub fn owned_by(mut self, mark: ForkMark) -> Self {
        self.layer.owner = Owner(Some(mark));
        self
    }

    /// Returns the counts up to now. Operations that run meanwhile may be counted in part.
    pub fn snapshot(&self) -> IoStatistics {
        self.layer.snapshot()
    }
}

/// Bytes and operations of one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes written or appended.
    pub written_bytes: u64,
    /// Writes and appends.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
}

impl IoCounts {
    /// Applies a function to each pair of counts.
    fn combine(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        IoCounts {
            read_bytes: combine(self.read_bytes, other.read_bytes),
            reads: combine(self.reads, other.reads),
            written_bytes: combine(self.written_bytes, other.written_bytes),
            writes: combine(self.writes, other.writes),
            syncs: combine(self.syncs, other.syncs),
        }
    }
}

/// Operations and bytes of a storage up to one moment, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStatistics {
    counts: [IoCounts; Purpose::ALL.len()],
    /// Syncs of directories, which have no purpose.
    pub directory_syncs: u64,
}

impl IoStatistics {
    /// Takes counts that were kept elsewhere, in the order of [`Purpose::ALL`].
    pub fn new(counts: [IoCounts; Purpose::ALL.len()], directory_syncs: u64) -> Self {
        IoStatistics {
            counts,
            directory_syncs,
        }
    }

    /// Returns the counts of one purpose.
    pub fn of(&self, purpose: Purpose) -> IoCounts {
        let counts = self.counts.get(purpose.index());
        counts.copied().unwrap_or_default()
    }

    /// Returns the counts of all purposes together.
    pub fn total(&self) -> IoCounts {
        let sum = |sum: IoCounts, counts: &IoCounts| sum.combine(*counts, u64::wrapping_add);
        self.counts.iter().fold(IoCounts::default(), sum)
    }

    /// Returns the counts of these purposes; the others are 0.
    #[must_use]
    pub fn only(&self, purposes: &[Purpose]) -> IoStatistics {
        IoStatistics {
            counts: Purpose::ALL.map(|purpose| match purposes.contains(&purpose) {
                true => self.of(purpose),
                false => IoCounts::default(),
            }),
            directory_syncs: 0,
        }
    }

    /// Returns the counts after `earlier`, a snapshot of the same storage.
    #[must_use]
    pub fn since(&self, earlier: &IoStatistics) -> IoStatistics {
        IoStatistics {
            counts: Purpose::ALL.map(|purpose| {
                let (now, before) = (self.of(purpose), earlier.of(purpose));
                now.combine(before, u64::saturating_sub)
            }),
            directory_syncs: self.directory_syncs.saturating_sub(earlier.directory_syncs),
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    arena: PurposeCounters,
    flush: PurposeCounters,
    compaction: PurposeCounters,
    migration: PurposeCounters,
    manifest: PurposeCounters,
    read: PurposeCounters,
    recovery: PurposeCounters,
    other: PurposeCounters,
    directory_syncs: AtomicU64,
}

impl Counters {
    fn of(&self, purpose: Purpose) -> &PurposeCounters {
        match purpose {
            Purpose::Arena => &self.arena,
            Purpose::Flush => &self.flush,
            Purpose::Compaction => &self.compaction,
            Purpose::Migration => &self.migration,
            Purpose::Manifest => &self.manifest,
            Purpose::Read => &self.read,
            Purpose::Recovery => &self.recovery,
            Purpose::Other => &self.other,
        }
    }
}

/// The counters of one purpose, on cache lines of their own so that readers do not slow writers.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PurposeCounters {
    read_bytes: AtomicU64,
    reads: AtomicU64,
    written_bytes: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl PurposeCounters {
    fn count_read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn count_write(&self, bytes: usize) {
        self.written_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    fn count_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    fn snapshot(&self) -> IoCounts {
        IoCounts {
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}

/// The layer of a [`CountingStorage`].
#[derive(Clone, Debug, Default)]
pub struct CountingLayer {
    counters: Arc<Counters>,
    owner: Owner,
}

impl CountingLayer {
    /// Returns the counts up to now, as [`CountingStorage::snapshot`]. All clones of a layer count together.
    pub fn snapshot(&self) -> IoStatistics {
        let counters = &self.counters;
        IoStatistics {
            counts: Purpose::ALL.map(|purpose| counters.of(purpose).snapshot()),
            directory_syncs: counters.directory_syncs.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug)]
struct CountingFile {
    path: PathBuf,
    layer: CountingLayer,
}

impl FileLayer for CountingFile {
    type Call = ();

    fn begin(&self, call: FileCall) -> Result<()> {
        match call.change() {
            Some(operation) => self.layer.owner.check(operation, &self.path),
            None => Ok(()),
        }
    }

    fn succeeded(&self, call: FileCall) {
        let counters = &self.layer.counters;
        match call {
            FileCall::Read { bytes, purpose, .. } => counters.of(purpose).count_read(bytes),
            FileCall::Write { bytes, purpose, .. } => counters.of(purpose).count_write(bytes),
            FileCall::Sync(purpose) => counters.of(purpose).count_sync(),
            FileCall::WriteDurable { bytes, purpose, .. } => {
                counters.of(purpose).count_write(bytes);
                counters.of(purpose).count_sync();
            }
            FileCall::StartRead
            | FileCall::StartWriteBack
            | FileCall::Allocate { .. }
            | FileCall::Truncate { .. }
            | FileCall::Examine
            | FileCall::Lock => {}
        }
    }
}

impl DirectoryLayer for CountingLayer {
    type Call = ();

    fn begin(&self, operation: Operation, directory: &Path, _: &[&str]) -> Result<()> {
        self.owner.check(operation, directory)
    }

    fn wrap(&self, file: Arc<dyn File>, directory: &Path, name: &str) -> Arc<dyn File> {
        let layer = CountingFile {
            path: directory.join(name),
            layer: self.clone(),
        };
        Arc::new(LayeredFile::new(file, layer))
    }

    fn synced(&self) {
        self.counters
            .directory_syncs
            .fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::tests as fork;
    use crate::{
        Access, CrashSwitch, ErrorKind, OpenMode, OpenOptions, RealStorage, SimulatedStorage,
    };

    #[test]
    fn counts_by_purpose_and_direction() {
        let inner = SimulatedStorage::new(1, CrashSwitch::new());
        let storage = CountingStorage::new(Arc::new(inner.clone()));
        let path = Path::new("/f");
        let options = OpenOptions::buffered(OpenMode::CreateNew);
        let file = storage.open(path, options).unwrap();
        file.append(&[1; 100], Purpose::Arena).unwrap();
        file.write_at(&[2; 10], 5, Purpose::Arena).unwrap();
        file.sync(Purpose::Manifest).unwrap();
        file.write_durable_at(&[3; 7], 0, Purpose::Other).unwrap();
        let before = storage.snapshot();
        file.read_at(&mut [0; 30], 90, Purpose::Read).unwrap();
        file.read_exact_at(&mut [0; 30], 0, Purpose::Read).unwrap();
        assert_eq!(
            file.read_vec_at(10, 0, Purpose::Read).unwrap()[..6],
            [3, 3, 3, 3, 3, 3]
        );
        storage.sync_directory(Path::new("/")).unwrap();

        let arena = IoCounts {
            written_bytes: 110,
            writes: 2,
            ..IoCounts::default()
        };
        let manifest = IoCounts {
            syncs: 1,
            ..IoCounts::default()
        };
        let read = IoCounts {
            read_bytes: 50,
            reads: 3,
            ..IoCounts::default()
        };
        let now = storage.snapshot();
        assert_eq!(now.of(Purpose::Arena), arena);
        assert_eq!(now.of(Purpose::Manifest), manifest);
        let other = IoCounts {
            written_bytes: 7,
            writes: 1,
            syncs: 1,
            ..IoCounts::default()
        };
        assert_eq!(now.of(Purpose::Other), other);
        assert_eq!(now.of(Purpose::Read), read);
        assert_eq!(now.directory_syncs, 1);
        assert_eq!(now.since(&before).total(), read);

        inner.set_capacity_bytes(0);
        file.append(&[1; 100], Purpose::Arena).unwrap_err();
        file.read_exact_at(&mut [0; 30], 90, Purpose::Read)
            .unwrap_err();
        assert_eq!(storage.snapshot(), now, "failures are not counted");
    }
    #[test]
    fn a_child_changes_nothing_of_its_parents() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mark = ForkMark::new().unwrap();
        let storage = CountingStorage::new(Arc::new(RealStorage)).owned_by(mark);
        let create = OpenOptions::buffered(OpenMode::CreateNew);
        let file = storage.open(&path, create).unwrap();
        file.append(b"parent's", Purpose::Other).unwrap();
        let is_refused = |outcome: Result<()>| match outcome {
            Ok(()) => false,
            Err(error) => error.kind() == ErrorKind::Forked,
        };
        let other = directory.path().join("other");
        assert!(fork::holds_in_child(fork::fork, || {
            [
                file.append(b"child's", Purpose::Other).map(|_| ()),
                file.write_at(b"child's", 0, Purpose::Other),
                file.write_durable_at(b"child's", 0, Purpose::Other),
                file.start_write_back(0, 1),
                file.allocate(100),
                file.truncate(0),
                file.sync(Purpose::Other),
                storage.open(&other, create).map(|_| ()),
                storage.rename(&path, &other),
                storage.link(&path, &other),
                storage.remove(&path),
                storage.create_directory(&other),
                storage.sync_directory(directory.path()),
                storage.directory(directory.path(), Access::Owner).map(drop),
                storage.boot_id().map(drop),
            ]
            .into_iter()
            .all(is_refused)
        }));
        assert_eq!(std::fs::read(&path).unwrap(), b"parent's");
        assert!(!other.exists());
        file.append(b" own", Purpose::Other).unwrap();
    }
}
