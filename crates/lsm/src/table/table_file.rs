//! The file of an open table, which is closed when descriptors are short and opened again by the
//! next read.
//!
//! A table's name leads to the same bytes as long as a version lists the table. But another table
//! may lie there after a repair or a copy, so a file that is opened again must say the same identity.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use terrace_storage::{
    Error, File, FilePlace, Lock, LockKind, OpenOptions, Operation, Purpose, Result,
};

use super::descriptors::{Counted, TableFiles, now};
use super::reader::identity_of;

#[derive(Debug)]
struct Open {
    file: Arc<dyn File>,
    _counted: Counted,
}

/// A file of a table that a reader holds, open or not.
#[derive(Debug)]
pub(crate) struct TableFile {
    place: Arc<dyn FilePlace>,
    name: String,
    options: OpenOptions,
    store: Arc<TableFiles>,
    open: ArcSwapOption<Open>,
    last_used: AtomicU64,
    /// Identity of the table that was first read; unset while that goes on.
    identity: OnceLock<u128>,
    is_direct: bool,
}

impl TableFile {
    /// Opens a file and enters it in its store's list.
    pub(super) fn open(
        place: Arc<dyn FilePlace>,
        name: String,
        options: OpenOptions,
        store: &Arc<TableFiles>,
    ) -> Result<Arc<Self>> {
        let counted = store.count();
        let file = place.open(&name, options)?;
        let is_direct = file.is_direct();
        let open = Open {
            file,
            _counted: counted,
        };
        let file = Arc::new(TableFile {
            place,
            name,
            options,
            store: Arc::clone(store),
            open: ArcSwapOption::from_pointee(open),
            last_used: AtomicU64::new(now()),
            identity: OnceLock::new(),
            is_direct,
        });
        store.enter(&file);
        Ok(file)
    }

    /// Notes which table it is; the file may be closed from here on.
    pub(super) fn identified(&self, identity: u128) {
        let _ = self.identity.set(identity);
    }

    pub(super) fn is_open(&self) -> bool {
        self.identity.get().is_some() && self.open.load().is_some()
    }

    /// Returns the number of openings in this process before the last use.
    pub(super) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// Closes the file as soon as the reads that are under way are done; false if it was closed.
    pub(super) fn close(&self) -> bool {
        self.open.swap(None).is_some()
    }

    /// Calls a function with the open file.
    fn with<T>(&self, call: impl FnOnce(&dyn File) -> Result<T>) -> Result<T> {
        self.last_used.store(now(), Ordering::Relaxed);
        if let Some(open) = &*self.open.load() {
            return call(&*open.file);
        }
        call(&*self.open_again()?.file)
    }

    #[cold]
    fn open_again(&self) -> Result<Arc<Open>> {
        let counted = self.store.count();
        let file = self.place.open(&self.name, self.options)?;
        if identity_of(&file, &self.name) != self.identity.get().copied() {
            let source = "another table lies under this name, not the one that was opened";
            let path = self.place.shown(&self.name);
            return Err(Error::new(
                Operation::Open,
                &path,
                std::io::Error::other(source),
            ));
        }
        let open = Arc::new(Open {
            file,
            _counted: counted,
        });
        // The file of a thread that was at it, too, is closed when its read is done.
        self.open.store(Some(Arc::clone(&open)));
        Ok(open)
    }
}

impl File for TableFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.with(|file| file.read_at(buffer, offset, purpose))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.with(|file| file.read_exact_at(buffer, offset, purpose))
    }

    fn read_vec_at(&self, length: usize, offset: u64, purpose: Purpose) -> Result<Vec<u8>> {
        self.with(|file| file.read_vec_at(length, offset, purpose))
    }

    fn start_read(&self, offset: u64, length_bytes: u64) -> bool {
        self.with(|file| Ok(file.start_read(offset, length_bytes)))
            .unwrap_or(false)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.with(|file| file.write_at(bytes, offset, purpose))
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        self.with(|file| file.append(bytes, purpose))
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.with(|file| file.allocate(length_bytes))
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        self.with(|file| file.truncate(length_bytes))
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.with(|file| file.sync(purpose))
    }

    fn length_bytes(&self) -> Result<u64> {
        self.with(|file| file.length_bytes())
    }

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.with(|file| file.lock(kind))
    }

    fn links(&self) -> Result<u64> {
        self.with(|file| file.links())
    }

    fn is_direct(&self) -> bool {
        self.is_direct
    }
}
