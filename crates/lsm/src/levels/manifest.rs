//! The manifest: the log of edits that says what a store consists of.
//!
//! An edit is in the store when its record is synced, and not before. The order of an append is:
//! write the record, sync it, write its mark. A fresh manifest has another order: write the whole
//! state into a new file, sync the file, sync the directory. Only then may `CURRENT` name it.
//!
//! The mark proves to a later reader that the sync had returned. So damage to the last edit does
//! not pass for a write that was cut short. It is not synced, and its write may fail: the next edit
//! lies behind the mark's place in any case.
//!
//! The operation that failed decides the next step. A *write* that fails leaves bytes that a later
//! append must not land behind. So the file is given up and the edit goes into a fresh manifest. If
//! that fails too, the edit is not in the store and never will be ([`ManifestError::NotWritten`]).
//! After a failed *sync* it is unknown which bytes are durable, so nothing more may be written
//! ([`ManifestError::Poison`]). The simple way, truncating the file after a failed write, is one
//! more operation that can fail, on a medium that just did.

mod lock;

use std::sync::Arc;

use terrace_storage::{
    Directory, ErrorKind, Escaped, File, Lock, LockKind, OpenMode, OpenOptions, Purpose,
};

use self::lock::lock_file;
pub use self::lock::{Locked, lock_current};
use super::current::{self, Current, SwitchError};
use super::edit::{Edit, Identity};
use super::mark::{MARK_BYTES, encode_mark};
use super::number_limits::MAX_NUMBER;
use super::record::{HEADER_BYTES, Records, encode_header, encode_record};
use super::state::ManifestState;
use super::tail::ManifestTail;
use crate::key::MAX_SEQUENCE;
use crate::{Error, Result};

const PREFIX: &str = "MANIFEST-";

/// No manifest of ours comes near; a longer file is not read into memory.
pub(super) const LONGEST_BYTES: u64 = 1 << 30;

/// Returns the name of a manifest's file.
pub fn manifest_file_name(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// Returns the number in a manifest's file name; `None` if it is no such name, or leaves no room
/// for the next.
pub fn manifest_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    let is_given = (1..=MAX_NUMBER).contains(&number);
    (is_given && manifest_file_name(number) == name).then_some(number)
}

/// Why an edit was not taken.
#[derive(Clone, Debug)]
pub enum ManifestError {
    /// The store is as it was; the edit may be tried again.
    NotWritten(Error),
    /// Whether the edit is in the store is unknown; nothing more may be written to it.
    Poison(Error),
}

impl ManifestError {
    /// Returns the failure.
    fn into_cause(self) -> Error {
        match self {
            ManifestError::NotWritten(error) | ManifestError::Poison(error) => error,
        }
    }
}

impl From<ManifestError> for Error {
    fn from(error: ManifestError) -> Self {
        match error {
            ManifestError::NotWritten(error) => error,
            ManifestError::Poison(error) => Error::Poisoned {
                cause: Arc::new(error),
            },
        }
    }
}

/// How a manifest is kept.
#[derive(Clone, Copy, Debug)]
pub struct ManifestOptions {
    /// A manifest that has grown beyond this is rewritten as one record.
    pub rewrite_above_bytes: u64,
}

impl Default for ManifestOptions {
    fn default() -> Self {
        ManifestOptions {
            rewrite_above_bytes: 4 << 20,
        }
    }
}

/// A store's state as a reader finds it.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub state: ManifestState,
    /// The bytes at the end that are no edit.
    pub tail: Option<ManifestTail>,
    number: u64,
    end: u64,
}

/// Reads the state of a store without writing anything.
///
/// # Errors
/// [`Error::NoStore`] if there is none; corruption or an unknown format otherwise.
pub fn load(directory: &dyn Directory) -> Result<Loaded> {
    load_number(directory, current::read(directory)?)
}

/// Reads the state of a store from the manifest with a number.
fn load_number(directory: &dyn Directory, number: u64) -> Result<Loaded> {
    let name = manifest_file_name(number);
    let path = directory.shown(&name);
    let bytes = read_file(directory, &name, LONGEST_BYTES, Purpose::Manifest)
        .map_err(|error| named_and_missing(directory, &name, error))?;
    let mut records = Records::new(&path, &bytes, number)?;
    let mut state: Option<ManifestState> = None;
    for record in &mut records {
        let record = record?;
        let edit = record.edit(&path)?;
        let next = match &state {
            None => ManifestState::begin(&edit),
            Some(state) => state.apply(&edit),
        };
        state = Some(next.map_err(|error| Error::corruption(&path, record.offset, error.0))?);
    }
    // The first record is synced before CURRENT names the file, so it cannot be a dropped tail.
    let mut state = state.ok_or_else(|| {
        Error::corruption(&path, HEADER_BYTES as u64, "the first record is not whole")
    })?;
    state.read_from = (path.as_path().into(), records.end());
    Ok(Loaded {
        state,
        tail: records.tail(),
        number,
        end: records.end(),
    })
}

/// Returns the error of a manifest that cannot be opened: one that `CURRENT` names is there.
fn named_and_missing(directory: &dyn Directory, name: &str, error: Error) -> Error {
    match error {
        Error::Io(error) if error.kind() == ErrorKind::NotFound => {
            let detail = format!("it names {name}, which is missing");
            Error::corruption(&directory.shown(current::NAME), 0, detail)
        }
        error => error,
    }
}

/// Returns the readable state of a store: its state before the first damage. It comes from the
/// manifest that `CURRENT` names, else from the newest that begins well and is believed, else from
/// the first that is not. `None` if there is none.
///
/// # Errors
/// [`Error::Busy`] if an owner or a reader has one of them locked, [`Error::Unsupported`] for a
/// manifest of another version, and failed reads.
pub fn remains(
    directory: &dyn Directory,
    is_believed: impl Fn(&ManifestState) -> bool,
) -> Result<Option<ManifestState>> {
    let current = current::read(directory).ok();
    let mut numbers = manifests(directory)?;
    numbers.sort_unstable_by_key(|&number| (Some(number) == current, number));
    let mut unbelieved = None;
    for number in numbers.into_iter().rev() {
        let name = manifest_file_name(number);
        let path = directory.shown(&name);
        let read = || read_file(directory, &name, LONGEST_BYTES, Purpose::Manifest);
        let bytes = match check_unlocked(directory, &name).and_then(|()| read()) {
            Err(Error::Corruption { .. }) => continue,
            read => read?,
        };
        let records = match Records::new(&path, &bytes, number) {
            Err(Error::Corruption { .. }) => continue,
            records => records?,
        };
        let mut state: Option<ManifestState> = None;
        for edit in records.map(|record| record?.edit(&path)) {
            let next = match (edit, &state) {
                (Err(Error::Corruption { .. }), _) => break,
                (Err(error), _) => return Err(error),
                (Ok(edit), None) => ManifestState::begin(&edit),
                (Ok(edit), Some(state)) => state.apply(&edit),
            };
            let Ok(next) = next else { break };
            state = Some(next);
        }
        if state.as_ref().is_some_and(&is_believed) {
            return Ok(state);
        }
        unbelieved = unbelieved.or(state);
    }
    Ok(unbelieved)
}

/// Checks that a manifest is not locked: with `LOCK` and `CURRENT` gone, only its lock shows a
/// living owner.
///
/// # Errors
/// [`Error::Busy`] if it is.
fn check_unlocked(directory: &dyn Directory, name: &str) -> Result<()> {
    let file = directory.open(name, OpenOptions::buffered(OpenMode::ReadWrite))?;
    lock_file(directory, &*file, LockKind::Exclusive).map(drop)
}

/// Reads the whole of a file that is no longer than `longest_bytes`.
pub fn read_file(
    directory: &dyn Directory,
    name: &str,
    longest_bytes: u64,
    purpose: Purpose,
) -> Result<Vec<u8>> {
    let file = directory.open(name, OpenOptions::buffered(OpenMode::Read))?;
    let length_bytes = file.length_bytes()?;
    if length_bytes > longest_bytes {
        return Err(Error::corruption(
            &directory.shown(name),
            longest_bytes,
            format!("{length_bytes} bytes are more than such a file ever has"),
        ));
    }
    let mut bytes = vec![0; length_bytes as usize];
    file.read_exact_at(&mut bytes, 0, purpose)?;
    Ok(bytes)
}

/// The manifest of an open store; its owner alone appends.
#[derive(Debug)]
pub struct Manifest {
    directory: Arc<dyn Directory>,
    options: ManifestOptions,
    file: Arc<dyn File>,
    /// Lock on the file, by the opening that writes it: removing `LOCK` lets no second owner in.
    lock: Option<Box<dyn Lock>>,
    /// Names the file.
    current: Current,
    number: u64,
    /// Where the next record goes.
    end: u64,
    /// Something that is no record may lie behind `end`: the next edit needs a fresh manifest.
    tail_unclean: bool,
    rewrite_above_bytes: u64,
    tail: Option<ManifestTail>,
    poison: Option<Error>,
}

impl Manifest {
    /// Creates the manifest of a new store, durably.
    ///
    /// # Errors
    /// The directory holds a store already, or is not empty of parts of one.
    pub fn create(
        directory: Arc<dyn Directory>,
        identity: Identity,
        options: ManifestOptions,
    ) -> Result<(Manifest, ManifestState)> {
        match current::read(&*directory) {
            Err(Error::NoStore { .. }) => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return Err(Error::invalid(format!(
                    "{} holds a store already",
                    Escaped::path(directory.path())
                )));
            }
        }
        remove_manifests(&*directory, None)?;
        let edit = ManifestState::first_edit(identity);
        let state = ManifestState::begin(&edit)?;
        let fresh = Fresh::write(&*directory, 1, &edit).map_err(ManifestError::into_cause)?;
        let current =
            current::switch(&*directory, fresh.number, true).map_err(|error| match error {
                SwitchError::Unchanged(error) | SwitchError::Unknown(error) => error,
            })?;
        let manifest = Manifest {
            directory,
            options,
            file: fresh.file,
            lock: fresh.lock,
            current,
            number: fresh.number,
            end: fresh.end,
            tail_unclean: false,
            rewrite_above_bytes: options.rewrite_above_bytes,
            tail: None,
            poison: None,
        };
        Ok((manifest, state))
    }

    /// Opens the manifest of an existing store. Writes nothing until the first append, but makes
    /// the records that it read durable. After a kill an edit may be in the page cache only, and
    /// its tables' inputs are orphans that the caller is about to remove. A power cut must not
    /// bring back the state that lists them.
    ///
    /// # Errors
    /// As [`load`].
    pub fn open(
        directory: Arc<dyn Directory>,
        options: ManifestOptions,
    ) -> Result<(Manifest, ManifestState)> {
        let Locked {
            number,
            file,
            lock,
            current,
        } = lock_current(&*directory, LockKind::Exclusive)?;
        let loaded = load_number(&*directory, number)?;
        file.sync(Purpose::Manifest)?;
        directory.sync()?;
        let manifest = Manifest {
            directory,
            options,
            file,
            lock,
            current,
            number: loaded.number,
            end: loaded.end,
            tail_unclean: loaded.tail.is_some(),
            rewrite_above_bytes: options.rewrite_above_bytes,
            tail: loaded.tail,
            poison: None,
        };
        Ok((manifest, loaded.state))
    }

    /// Checks that the file under the manifest's name is the one that is written, and that
    /// `CURRENT` still names it. A copy that was restored into the directory may have a manifest of
    /// another number.
    ///
    /// # Errors
    /// [`Error::OwnershipLost`] if one of them is another file, or none.
    pub fn check_in_place(&self) -> Result<()> {
        let Some(lock) = &self.lock else {
            return Ok(());
        };
        let name = manifest_file_name(self.number);
        match self.directory.identity_of(&name) {
            Ok(found) if found == lock.identity()? => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => return Err(self.lost(&name)),
        }
        if !self.current.is_in_place(&*self.directory)? {
            return Err(self.lost(current::NAME));
        }
        Ok(())
    }

    fn lost(&self, name: &str) -> Error {
        Error::OwnershipLost {
            path: self.directory.path().to_path_buf(),
            detail: format!(
                "its {name} was removed or replaced while the store was open; close it, and see \
                 with `terrace verify` what the directory holds"
            ),
        }
    }

    /// Returns the lock on the file for an owner that goes on without the manifest.
    pub fn into_lock(self) -> Option<Box<dyn Lock>> {
        self.lock
    }

    /// Lets another owner in.
    pub fn unlock(&mut self) {
        self.lock = None;
    }

    /// Returns the end of the manifest that the opening dropped.
    pub fn tail(&self) -> Option<&ManifestTail> {
        self.tail.as_ref()
    }

    /// Makes an edit durable. `next` is the state with the edit applied.
    ///
    /// # Errors
    /// [`ManifestError::NotWritten`] if the store is as it was, [`ManifestError::Poison`] if that
    /// is unknown; from then on every append is refused.
    pub fn append(
        &mut self,
        edit: &Edit,
        next: &ManifestState,
    ) -> std::result::Result<(), ManifestError> {
        if let Some(cause) = &self.poison {
            return Err(ManifestError::Poison(cause.clone()));
        }
        let appended = self.append_or_rewrite(edit, next);
        if let Err(ManifestError::Poison(cause)) = &appended {
            self.poison = Some(cause.clone());
        }
        appended
    }

    fn append_or_rewrite(
        &mut self,
        edit: &Edit,
        next: &ManifestState,
    ) -> std::result::Result<(), ManifestError> {
        if self.tail_unclean {
            return self.rewrite(next);
        }
        let record = encode_record(self.number, self.end, edit).map_err(not_written)?;
        if self
            .file
            .write_at(&record, self.end, Purpose::Manifest)
            .is_err()
        {
            self.tail_unclean = true;
            return match self.rewrite(next) {
                Err(ManifestError::NotWritten(error)) => Err(self.revoke(&record, error)),
                rewritten => rewritten,
            };
        }
        self.file
            .sync(Purpose::Manifest)
            .map_err(|error| ManifestError::Poison(error.into()))?;
        self.mark(&record);
        if self.end > self.rewrite_above_bytes {
            // The edit is durable already. A rewrite that finds no room is put off.
            match self.rewrite(next) {
                Err(ManifestError::NotWritten(_)) => self.rewrite_above_bytes = self.end * 2,
                rewritten => rewritten?,
            }
        }
        Ok(())
    }

    /// Marks the edit at the end as durable, and moves the end behind the mark's place.
    fn mark(&mut self, edit: &[u8]) {
        let mark = encode_mark(self.number, self.end, edit);
        self.end += edit.len() as u64;
        // Best effort: without its mark the edit is as durable, only less is known of it.
        let _ = self.file.write_at(&mark, self.end, Purpose::Manifest);
        self.end += MARK_BYTES;
    }

    /// Makes sure that an edit that was reported as failed does not come back with the next open. A
    /// write may report an error although all its bytes arrived.
    fn revoke(&self, record: &[u8], error: Error) -> ManifestError {
        let mut found = vec![0; record.len()];
        let arrived = self.file.read_at(&mut found, self.end, Purpose::Manifest);
        if arrived.is_ok_and(|length| found.get(..length) != Some(record)) {
            return ManifestError::NotWritten(error);
        }
        let zeros = vec![0; record.len()];
        let revoked = self
            .file
            .write_at(&zeros, self.end, Purpose::Manifest)
            .and_then(|()| self.file.sync(Purpose::Manifest));
        match revoked {
            Ok(()) => ManifestError::NotWritten(error),
            Err(_) => ManifestError::Poison(error),
        }
    }

    /// Goes over to a fresh manifest that holds the whole state in one record.
    fn rewrite(&mut self, state: &ManifestState) -> std::result::Result<(), ManifestError> {
        let directory = &*self.directory;
        let number = next_number(directory, self.number).map_err(not_written)?;
        let fresh = Fresh::write(directory, number, &state.as_edit())?;
        let current = match current::switch(directory, number, false) {
            Ok(current) => current,
            Err(SwitchError::Unchanged(error)) => {
                // Best effort: a manifest that CURRENT does not name is garbage, not a danger.
                let _ = directory.remove(&manifest_file_name(number));
                return Err(not_written(error));
            }
            Err(SwitchError::Unknown(error)) => return Err(ManifestError::Poison(error)),
        };
        self.current = current;
        self.file = fresh.file;
        self.lock = fresh.lock;
        self.number = number;
        self.end = fresh.end;
        self.tail_unclean = false;
        self.rewrite_above_bytes = self.options.rewrite_above_bytes.max(2 * fresh.end);
        // Best effort, too: the next rewrite tries again.
        let _ = remove_manifests(directory, Some(number));
        Ok(())
    }
}

fn not_written(error: Error) -> ManifestError {
    ManifestError::NotWritten(error)
}

/// A manifest that `CURRENT` does not name yet.
struct Fresh {
    file: Arc<dyn File>,
    lock: Option<Box<dyn Lock>>,
    number: u64,
    end: u64,
}

impl Fresh {
    /// Writes a manifest of one edit and its mark; they and the name are durable, and it is locked,
    /// on return. The mark says so too early, and yet the truth: no process reads the file before
    /// `CURRENT` names it.
    fn write(
        directory: &dyn Directory,
        number: u64,
        edit: &Edit,
    ) -> std::result::Result<Fresh, ManifestError> {
        let mut bytes = encode_header(number);
        let offset = bytes.len() as u64;
        let record = encode_record(number, offset, edit).map_err(not_written)?;
        let mark = encode_mark(number, offset, &record);
        bytes.extend(record);
        bytes.extend(mark);
        let name = manifest_file_name(number);
        let file = directory
            .open(&name, OpenOptions::buffered(OpenMode::CreateNew))
            .map_err(|error| not_written(error.into()))?;
        let locked = lock_file(directory, &*file, LockKind::Exclusive);
        let written = locked.and_then(|lock| {
            file.write_at(&bytes, 0, Purpose::Manifest)?;
            Ok(lock)
        });
        let lock = written.map_err(|error| {
            // Best effort: a remaining file is garbage under a number that is not used again.
            let _ = directory.remove(&name);
            not_written(error)
        })?;
        file.sync(Purpose::Manifest)
            .and_then(|()| directory.sync())
            .map_err(|error| ManifestError::Poison(error.into()))?;
        Ok(Fresh {
            file,
            lock,
            number,
            end: bytes.len() as u64,
        })
    }
}

/// Writes the manifest of a store that is not open, and makes `CURRENT` name it; both are durable
/// on return. `CURRENT` comes last. Returns the manifest's number.
pub fn write_manifest(directory: &dyn Directory, state: &ManifestState) -> Result<u64> {
    let number = next_number(directory, 0)?;
    Fresh::write(directory, number, &state.as_edit()).map_err(|error| match error {
        ManifestError::NotWritten(error) | ManifestError::Poison(error) => error,
    })?;
    current::switch(directory, number, false).map_err(|error| match error {
        SwitchError::Unchanged(error) | SwitchError::Unknown(error) => error,
    })?;
    Ok(number)
}

/// Returns the numbers of a directory's manifests.
pub fn manifests(directory: &dyn Directory) -> Result<Vec<u64>> {
    let entries = directory.list()?;
    Ok(entries
        .iter()
        .filter_map(|entry| manifest_number(&entry.name))
        .collect())
}

/// Returns a number above every manifest in the directory, leftovers included. It ignores files
/// that no store has written: numbers beyond those of writes are never reached.
fn next_number(directory: &dyn Directory, current: u64) -> Result<u64> {
    let numbers = manifests(directory)?.into_iter();
    let largest = numbers.filter(|&number| number < MAX_SEQUENCE).max();
    let next = largest.unwrap_or(0).max(current).saturating_add(1);
    // `CURRENT` must not name a file that no opening looks at.
    let is_given = manifest_number(&manifest_file_name(next)).is_some();
    is_given
        .then_some(next)
        .ok_or_else(|| Error::invalid("manifest numbers are used up"))
}

fn remove_manifests(directory: &dyn Directory, keep: Option<u64>) -> Result<()> {
    for number in manifests(directory)? {
        if Some(number) != keep {
            directory.remove(&manifest_file_name(number))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
