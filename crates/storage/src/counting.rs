//! Counts the bytes and operations that pass through a storage, by purpose and direction.
//!
//! Everything that a store does to files comes through here. So here a forked child is kept from
//! changing the files of its parent, at any point of a call.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::layered::{DirectoryLayer, LayeredDirectory};
use crate::{
    Access, Directory, Error, File, ForkMark, Lock, LockKind, Operation, Purpose, Result, Storage,
};

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
#[derive(Debug)]
pub struct CountingStorage {
    inner: Arc<dyn Storage>,
    counters: Arc<Counters>,
    owner: Owner,
}

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
        CountingStorage {
            inner,
            counters: Arc::default(),
            owner: Owner::default(),
        }
    }

    /// Refuses every change of a file, and every call on a directory, in a child of the process that
    /// made the mark.
    #[must_use]
    pub fn owned_by(mut self, mark: ForkMark) -> Self {
        self.owner = Owner(Some(mark));
        self
    }

    /// Returns the counts up to now. Operations that run meanwhile may be counted in part.
    pub fn snapshot(&self) -> IoStatistics {
        IoStatistics {
            counts: Purpose::ALL.map(|purpose| self.counters.of(purpose).snapshot()),
            directory_syncs: self.counters.directory_syncs.load(Ordering::Relaxed),
        }
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

#[derive(Debug)]
struct CountingFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    counters: Arc<Counters>,
    owner: Owner,
}

impl CountingFile {
    fn check_owner(&self, operation: Operation) -> Result<()> {
        self.owner.check(operation, &self.path)
    }
}

impl File for CountingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let count = self.inner.read_at(buffer, offset, purpose)?;
        self.counters.of(purpose).count_read(count);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.check_owner(Operation::Write)?;
        self.inner.write_at(bytes, offset, purpose)?;
        self.counters.of(purpose).count_write(bytes.len());
        Ok(())
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        self.check_owner(Operation::Write)?;
        let offset = self.inner.append(bytes, purpose)?;
        self.counters.of(purpose).count_write(bytes.len());
        Ok(offset)
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.check_owner(Operation::Allocate)?;
        self.inner.allocate(length_bytes)
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        self.check_owner(Operation::Truncate)?;
        self.inner.truncate(length_bytes)
    }

    fn start_read(&self, offset: u64, length_bytes: u64) -> bool {
        self.inner.start_read(offset, length_bytes)
    }

    fn start_write_back(&self, offset: u64, length_bytes: u64) -> Result<()> {
        self.check_owner(Operation::WriteBack)?;
        self.inner.start_write_back(offset, length_bytes)
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.check_owner(Operation::Sync)?;
        self.inner.sync(purpose)?;
        let counters = self.counters.of(purpose);
        counters.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.check_owner(Operation::Write)?;
        self.inner.write_durable_at(bytes, offset, purpose)?;
        let counters = self.counters.of(purpose);
        counters.count_write(bytes.len());
        counters.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn length_bytes(&self) -> Result<u64> {
        self.inner.length_bytes()
    }

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.inner.lock(kind)
    }

    fn links(&self) -> Result<u64> {
        self.inner.links()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.inner.read_exact_at(buffer, offset, purpose)?;
        self.counters.of(purpose).count_read(buffer.len());
        Ok(())
    }

    fn read_vec_at(&self, length: usize, offset: u64, purpose: Purpose) -> Result<Vec<u8>> {
        let bytes = self.inner.read_vec_at(length, offset, purpose)?;
        self.counters.of(purpose).count_read(length);
        Ok(bytes)
    }
}

#[derive(Clone, Debug)]
struct CountingLayer {
    counters: Arc<Counters>,
    owner: Owner,
}

impl DirectoryLayer for CountingLayer {
    type Call = ();

    fn begin(&self, operation: Operation, directory: &Path, _: &[&str]) -> Result<()> {
        self.owner.check(operation, directory)
    }

    fn wrap(&self, inner: Arc<dyn File>, directory: &Path, name: &str) -> Arc<dyn File> {
        Arc::new(CountingFile {
            inner,
            path: directory.join(name),
            counters: Arc::clone(&self.counters),
            owner: self.owner,
        })
    }

    fn synced(&self) {
        self.counters
            .directory_syncs
            .fetch_add(1, Ordering::Relaxed);
    }
}

impl Storage for CountingStorage {
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        let inner = self.inner.directory(path, access)?;
        Ok(Arc::new(LayeredDirectory::new(
            inner,
            CountingLayer {
                counters: Arc::clone(&self.counters),
                owner: self.owner,
            },
        )))
    }

    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()> {
        self.owner.check(Operation::CreateDirectory, path)?;
        self.inner.create_directory_for(path, access)
    }

    fn can_poll(&self) -> bool {
        self.inner.can_poll()
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        self.inner.boot_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::tests as fork;
    use crate::{CrashSwitch, ErrorKind, OpenMode, OpenOptions, RealStorage, SimulatedStorage};

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
                file.allocate(100),
                file.truncate(0),
                file.sync(Purpose::Other),
                storage.open(&other, create).map(|_| ()),
                storage.rename(&path, &other),
                storage.link(&path, &other),
                storage.remove(&path),
                storage.create_directory(&other),
                storage.sync_directory(directory.path()),
            ]
            .into_iter()
            .all(is_refused)
        }));
        assert_eq!(std::fs::read(&path).unwrap(), b"parent's");
        assert!(!other.exists());
        file.append(b" own", Purpose::Other).unwrap();
    }
}
