//! Storages and directories with a layer around every call: counted, timed, limited or failing.
//!
//! A layer of a storage concerns files above all. Its part in calls on directories is small and
//! alike in all layers, so those calls pass through here.

use std::any::Any;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::{
    Access, Directory, DirectoryEntry, Error, File, FileIdentity, FilePlace, FileSystem, Lock,
    LockKind, OpenOptions, Operation, Result, Storage,
};

/// The part of a layer that concerns storages and directories.
pub trait DirectoryLayer: Clone + fmt::Debug + Send + Sync + 'static {
    /// Lives as long as the call below the layer.
    type Call;

    /// Begins a call on names in a directory (none: on the directory itself), or fails it. The boot id
    /// has a name in place of a directory.
    fn begin(&self, operation: Operation, directory: &Path, names: &[&str]) -> Result<Self::Call>;

    /// Puts the layer around an open file.
    fn wrap(&self, file: Arc<dyn File>, directory: &Path, name: &str) -> Arc<dyn File>;

    /// Returns whether to repeat a call that needs a descriptor after this many failed attempts.
    fn tries_again(&self, attempts: usize, error: &Error) -> bool {
        let (_, _) = (attempts, error);
        false
    }

    /// Takes note that a directory was synced.
    fn synced(&self) {}

    /// Returns whether [`OpenOptions::polled`] has an effect, of an inner storage where it has one.
    fn can_poll(&self) -> bool {
        true
    }

    /// Returns the facts of the file system, from those of the one below.
    fn file_system(&self, below: FileSystem) -> FileSystem {
        below
    }

    /// Returns the bytes that may still be allocated, of those that the file system below has.
    fn free_space_bytes(&self, below: u64) -> Result<u64> {
        Ok(below)
    }
}

/// A storage within a layer.
#[derive(Debug)]
pub struct LayeredStorage<L> {
    inner: Arc<dyn Storage>,
    pub(crate) layer: L,
}

impl<L: DirectoryLayer> LayeredStorage<L> {
    /// Puts a layer around a storage.
    pub fn within(inner: Arc<dyn Storage>, layer: L) -> Self {
        LayeredStorage { inner, layer }
    }
}

impl<L: DirectoryLayer> Storage for LayeredStorage<L> {
    fn directory(&self, path: &Path, access: Access) -> Result<Arc<dyn Directory>> {
        let _call = self.layer.begin(Operation::OpenDirectory, path, &[])?;
        let inner = until_done(&self.layer, || self.inner.directory(path, access))?;
        Ok(Arc::new(LayeredDirectory::new(inner, self.layer.clone())))
    }

    fn create_directory_for(&self, path: &Path, access: Access) -> Result<()> {
        let _call = self.layer.begin(Operation::CreateDirectory, path, &[])?;
        until_done(&self.layer, || {
            self.inner.create_directory_for(path, access)
        })
    }

    fn can_poll(&self) -> bool {
        self.layer.can_poll() && self.inner.can_poll()
    }

    fn boot_id(&self) -> Result<[u8; 16]> {
        let path = Path::new("boot id");
        let _call = self.layer.begin(Operation::BootId, path, &[])?;
        until_done(&self.layer, || self.inner.boot_id())
    }
}

/// A directory within a layer.
#[derive(Debug)]
pub struct LayeredDirectory<L> {
    inner: Arc<dyn Directory>,
    layer: L,
}

impl<L: DirectoryLayer> LayeredDirectory<L> {
    /// Puts a layer around an open directory.
    pub fn new(inner: Arc<dyn Directory>, layer: L) -> Self {
        LayeredDirectory { inner, layer }
    }

    fn begin(&self, operation: Operation, names: &[&str]) -> Result<L::Call> {
        self.layer.begin(operation, self.inner.path(), names)
    }
}

/// Makes a call that needs a descriptor until the layer has it fail.
fn until_done<T>(layer: &impl DirectoryLayer, call: impl Fn() -> Result<T>) -> Result<T> {
    let mut attempts = 1;
    loop {
        match call() {
            Err(error) if layer.tries_again(attempts, &error) => attempts += 1,
            outcome => return outcome,
        }
    }
}

impl<L: DirectoryLayer> FilePlace for LayeredDirectory<L> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        let _call = self.begin(Operation::Open, &[name])?;
        let file = until_done(&self.layer, || self.inner.open(name, options))?;
        Ok(self.layer.wrap(file, self.inner.path(), name))
    }

    fn sync(&self) -> Result<()> {
        let _call = self.begin(Operation::SyncDirectory, &[])?;
        self.inner.sync()?;
        self.layer.synced();
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let _call = self.begin(Operation::Remove, &[name])?;
        self.inner.remove(name)
    }

    fn list(&self) -> Result<Vec<DirectoryEntry>> {
        let _call = self.begin(Operation::List, &[])?;
        until_done(&self.layer, || self.inner.list())
    }

    fn free_space_bytes(&self) -> Result<u64> {
        let _call = self.begin(Operation::FreeSpace, &[])?;
        self.layer.free_space_bytes(self.inner.free_space_bytes()?)
    }
}

impl<L: DirectoryLayer> Directory for LayeredDirectory<L> {
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let _call = self.begin(Operation::Rename, &[from, to])?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let _call = self.begin(Operation::Rename, &[from, to])?;
        self.inner.rename_new(from, to)
    }

    fn link(&self, from: &str, target: &dyn Directory, to: &str) -> Result<()> {
        let _call = self.begin(Operation::Link, &[from, to])?;
        self.inner.link(from, target, to)
    }

    fn lock(&self, name: &str, kind: LockKind) -> Result<Box<dyn Lock>> {
        let _call = self.begin(Operation::Lock, &[name])?;
        until_done(&self.layer, || self.inner.lock(name, kind))
    }

    fn file_system(&self) -> Result<FileSystem> {
        let _call = self.begin(Operation::FileSystem, &[])?;
        Ok(self.layer.file_system(self.inner.file_system()?))
    }

    fn identity(&self) -> Result<FileIdentity> {
        let _call = self.begin(Operation::Examine, &[])?;
        self.inner.identity()
    }

    fn identity_of(&self, name: &str) -> Result<FileIdentity> {
        let _call = self.begin(Operation::Examine, &[name])?;
        self.inner.identity_of(name)
    }

    fn is_removed(&self) -> Result<bool> {
        let _call = self.begin(Operation::Examine, &[])?;
        self.inner.is_removed()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn innermost(&self) -> &dyn Any {
        self.inner.innermost()
    }
}
