//! A copy of the store as of now, in a directory of its own, made while reads and writes go on.
//!
//! Writes acknowledged before the call are sealed and flushed: then they are in tables. Tables
//! never change, so a checkpoint is the tables of one version, under second names, and a manifest
//! that lists them. The version is pinned meanwhile, which keeps the tables' files. Flushes install
//! arenas in their order, so a version holds every write up to some number and none after it,
//! however much is being written. Arenas are never linked: they are written in place.
//!
//! `CURRENT` comes last, when everything else is durable. A checkpoint that was cut short is a
//! directory that no store can be opened in.

use std::path::Path;
use std::sync::Arc;

use terrace_lsm::data_files::{DataFiles, Placed};
use terrace_lsm::levels::{ArenaHome, Identity, ManifestState, Version, write_manifest};
use terrace_lsm::sync::atomic::Ordering;
use terrace_lsm::table::{another_table, read_properties};
use terrace_storage::{
    Access, Directory, DirectoryEntry, Escaped, Lock, OpenMode, OpenOptions, Purpose, Storage,
};

use crate::db::directory::open_if_there;
use crate::db::owners::Files;
use crate::db::ownership::lock_as_owner;
use crate::db::{Store, file_names};
use crate::randomness::Randomness;
use crate::{Error, Result, SequenceNumber};

/// Bytes read and written at a time where a file cannot be linked.
const COPY_BYTES: u64 = 1 << 20;

impl Store {
    /// Makes a checkpoint. Returns the number up to which it holds every write.
    pub(crate) fn checkpoint(&self, to: &Path) -> Result<SequenceNumber> {
        self.flush()?;
        let _visit = self.files.visitors.enter()?;
        let mut state = self.manifest_log.ledger.lock().state.clone();
        while !self.writes.is_without_arena_ranges(state.flushed_sequence) {
            // Tables are missing for a range that is in an arena still.
            self.flush()?;
            state = self.manifest_log.ledger.lock().state.clone();
        }
        let to = prepare(&*self.files.storage, to, self.options.file_access.into())?;
        // Two calls that make the same checkpoint would each take the other's files for its own.
        let _lock = lock_empty(&*to)?;
        let copied = self
            .copy_tables(&state.version, &DataFiles::new(Arc::clone(&to)))
            .and_then(|()| {
                write_manifest(&*to, &checkpointed(&state, &self.options.randomness))?;
                Ok(())
            });
        if let Err(error) = copied {
            clear(&*to);
            return Err(error);
        }
        Ok(state.flushed_sequence)
    }

    fn copy_tables(&self, version: &Version, to: &DataFiles) -> Result<()> {
        for (_, table) in version.tables() {
            if self.lifecycle.closing.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
            let placed = table.placed();
            let (from, name) = self.files.data.at(placed)?;
            let (target, copy) = to.at(Placed::own(placed.file))?;
            // Another device, or a file system without links: any other error shows when the file
            // is copied.
            if from.link(&name, &*target, &copy).is_err() {
                self.files.copy_file(placed, to)?;
            }
            // The name may have got another file since the store opened its own.
            if !table.is_described_by(&read_properties(&*target, &copy)?) {
                return Err(another_table(&self.files.data.path(placed)));
            }
        }
        to.sync()?;
        Ok(())
    }
}

impl Files {
    fn copy_file(&self, placed: Placed, to: &DataFiles) -> Result<()> {
        let source = self
            .data
            .open(placed, OpenOptions::buffered(OpenMode::Read))?;
        let copy = to.open(
            Placed::own(placed.file),
            OpenOptions::buffered(OpenMode::CreateNew),
        )?;
        let length_bytes = source.length_bytes()?;
        let mut offset = 0;
        while offset < length_bytes {
            let part = COPY_BYTES.min(length_bytes - offset);
            let bytes = source.read_vec_at(part as usize, offset, Purpose::Other)?;
            copy.write_at(&bytes, offset, Purpose::Other)?;
            offset += part;
        }
        copy.sync(Purpose::Other)?;
        Ok(())
    }
}

/// Removes the files of a failed checkpoint as far as possible. The caller holds the directory's lock,
/// so every file with a store's name is this checkpoint's. Files that stay make no store.
fn clear(to: &dyn Directory) {
    let entries = to.list().unwrap_or_default();
    for entry in entries
        .iter()
        .filter(|entry| file_names::is_ours(&entry.name))
    {
        let _ = to.remove(&entry.name);
    }
}

/// Takes the lock of a directory that holds nothing else.
fn lock_empty(to: &dyn Directory) -> Result<Box<dyn Lock>> {
    let lock = lock_as_owner(to)?;
    if is_empty(&to.list()?) {
        Ok(lock)
    } else {
        Err(not_empty(to.path()))
    }
}

/// Returns whether a directory is empty. A lock that a failed attempt left does not count.
fn is_empty(entries: &[DirectoryEntry]) -> bool {
    entries
        .iter()
        .all(|entry| entry.name == file_names::LOCK || entry.is_of_file_system())
}

fn not_empty(to: &Path) -> Error {
    Error::invalid(format!(
        "{} is not empty; a checkpoint is made in a new or an empty directory",
        Escaped::path(to)
    ))
}

/// Makes the directory, durably, or takes an empty one.
fn prepare(storage: &dyn Storage, to: &Path, access: Access) -> Result<Arc<dyn Directory>> {
    let Some(directory) = open_if_there(storage, to, access)? else {
        storage.create_directory_for(to, access)?;
        return Ok(storage.directory(to, access)?);
    };
    if is_empty(&directory.list()?) {
        Ok(directory)
    } else {
        Err(not_empty(to))
    }
}

/// Returns the state of a store with the same tables and no arenas. Its number is another, because
/// a region directory names its store by the number.
fn checkpointed(state: &ManifestState, randomness: &Randomness) -> ManifestState {
    ManifestState {
        identity: Identity {
            store_id: u128::from_le_bytes(randomness.bytes16()),
            ..state.identity.clone()
        },
        version: Arc::new(state.version.in_one_tier()),
        tiers: Vec::new(),
        live_arenas: Default::default(),
        persisted_until: state.flushed_sequence,
        clean_close: None,
        arena_home: ArenaHome::Store,
        ..state.clone()
    }
}
