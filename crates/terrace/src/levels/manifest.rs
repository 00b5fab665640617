//! The manifest: the log of edits that says what a store consists of.
//!
//! An edit is in the store when its record is synced, and not before. The order of an append is:
//! write the record, sync it; of a fresh manifest: write the whole state into a new file, sync the
//! file, sync the directory, and only then let `CURRENT` name it.
//!
//! What failed decides what follows. A *write* that fails leaves bytes that a later append must
//! not land behind, so the file is given up and the edit goes into a fresh manifest; if that fails
//! too the edit is not in the store and never will be ([`ManifestError::NotWritten`]). After a
//! *sync* that fails nobody knows what is durable, so nothing more may be written
//! ([`ManifestError::Poison`]). The simple way, truncating the file after a failed write, is one
//! more operation that can fail, on a medium that just did.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{ErrorKind, File, OpenMode, OpenOptions, Purpose, Storage};

use super::current::{self, SwitchError};
use super::edit::{Edit, Identity};
use super::record::{HEADER_BYTES, Records, encode_header, encode_record};
use super::state::ManifestState;
use crate::{Error, Result};

const PREFIX: &str = "MANIFEST-";

/// No manifest of ours comes near; a longer file is not read into memory.
pub(super) const LONGEST_BYTES: u64 = 1 << 30;

/// The name of a manifest's file.
pub(crate) fn manifest_file_name(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The number in a manifest's file name; `None` if it is no such name.
pub(crate) fn manifest_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    (number != 0 && manifest_file_name(number) == name).then_some(number)
}

/// Why an edit was not taken.
#[derive(Clone, Debug)]
pub(crate) enum ManifestError {
    /// The store is as it was; the edit may be tried again.
    NotWritten(Error),
    /// Whether the edit is in the store is unknown; nothing more may be written to it.
    Poison(Error),
}

impl ManifestError {
    /// What failed.
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
pub(crate) struct ManifestOptions {
    /// A manifest that has grown beyond this is rewritten as one record.
    pub(crate) rewrite_above_bytes: u64,
}

impl Default for ManifestOptions {
    fn default() -> Self {
        ManifestOptions {
            rewrite_above_bytes: 4 << 20,
        }
    }
}

/// Bytes at the end of a manifest that were never a whole record. Dropped, and reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TornTail {
    pub(crate) file: PathBuf,
    pub(crate) offset: u64,
    pub(crate) length_bytes: u64,
}

/// A store's state as a reader finds it.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) state: ManifestState,
    pub(crate) torn_tail: Option<TornTail>,
    number: u64,
    end: u64,
}

/// Reads the state of a store without writing anything.
///
/// # Errors
/// [`Error::NoStore`] if there is none; corruption or an unknown format otherwise.
pub(crate) fn load(storage: &dyn Storage, directory: &Path) -> Result<Loaded> {
    let number = current::read(storage, directory)?;
    let path = directory.join(manifest_file_name(number));
    let bytes = match read_file(storage, &path, LONGEST_BYTES, Purpose::Manifest) {
        Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => {
            let detail = format!("it names {}, which is missing", manifest_file_name(number));
            return Err(Error::corruption(&current::path(directory), 0, detail));
        }
        read => read?,
    };
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
    // The first record is synced before CURRENT names the file, so it cannot be a torn tail.
    let state = state.ok_or_else(|| {
        Error::corruption(&path, HEADER_BYTES as u64, "the first record is not whole")
    })?;
    let end = records.end();
    let torn_tail = records.torn_tail().then(|| TornTail {
        file: path.clone(),
        offset: end,
        length_bytes: bytes.len() as u64 - end,
    });
    Ok(Loaded {
        state,
        torn_tail,
        number,
        end,
    })
}

/// What can still be told of a store from the manifest that `CURRENT` names, or else from the newest
/// that begins well and is believed, or from the first that is not: its state before the first
/// damage. `None` if there is none.
///
/// # Errors
/// [`Error::Unsupported`] for a manifest of another version, and failed reads.
pub(crate) fn remains(
    storage: &dyn Storage,
    directory: &Path,
    is_believed: impl Fn(&ManifestState) -> bool,
) -> Result<Option<ManifestState>> {
    let current = current::read(storage, directory).ok();
    let mut numbers = manifests(storage, directory)?;
    numbers.sort_unstable_by_key(|&number| (Some(number) == current, number));
    let mut unbelieved = None;
    for number in numbers.into_iter().rev() {
        let path = directory.join(manifest_file_name(number));
        let bytes = match read_file(storage, &path, LONGEST_BYTES, Purpose::Manifest) {
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

/// The whole of a file that is no longer than `longest_bytes`.
pub(crate) fn read_file(
    storage: &dyn Storage,
    path: &Path,
    longest_bytes: u64,
    purpose: Purpose,
) -> Result<Vec<u8>> {
    let file = storage.open(path, OpenOptions::buffered(OpenMode::Read))?;
    let length_bytes = file.length_bytes()?;
    if length_bytes > longest_bytes {
        return Err(Error::corruption(
            path,
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
pub(crate) struct Manifest {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    options: ManifestOptions,
    file: Arc<dyn File>,
    number: u64,
    /// Where the next record goes.
    end: u64,
    /// Something that is no record may lie behind `end`: the next edit needs a fresh manifest.
    tail_unclean: bool,
    rewrite_above_bytes: u64,
    torn_tail: Option<TornTail>,
    poison: Option<Error>,
}

impl Manifest {
    /// Creates the manifest of a new store, durably.
    ///
    /// # Errors
    /// The directory holds a store already, or is not empty of parts of one.
    pub(crate) fn create(
        storage: Arc<dyn Storage>,
        directory: &Path,
        identity: Identity,
        options: ManifestOptions,
    ) -> Result<(Manifest, ManifestState)> {
        match current::read(storage.as_ref(), directory) {
            Err(Error::NoStore { .. }) => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return Err(Error::invalid(format!(
                    "{} holds a store already",
                    directory.display()
                )));
            }
        }
        storage.create_directory(directory)?;
        remove_manifests(storage.as_ref(), directory, None)?;
        let edit = ManifestState::first_edit(identity);
        let state = ManifestState::begin(&edit)?;
        let fresh = Fresh::write(storage.as_ref(), directory, 1, &edit)
            .map_err(ManifestError::into_cause)?;
        current::switch(storage.as_ref(), directory, fresh.number).map_err(
            |error| match error {
                SwitchError::Unchanged(error) | SwitchError::Unknown(error) => error,
            },
        )?;
        let manifest = Manifest {
            storage,
            directory: directory.to_path_buf(),
            options,
            file: fresh.file,
            number: fresh.number,
            end: fresh.end,
            tail_unclean: false,
            rewrite_above_bytes: options.rewrite_above_bytes,
            torn_tail: None,
            poison: None,
        };
        Ok((manifest, state))
    }

    /// Opens the manifest of an existing store. Writes nothing until the first append, but makes
    /// what it read durable: after a kill an edit may be in the page cache only, and its tables'
    /// inputs are orphans that the caller is about to remove. A power cut must not bring back the
    /// state that lists them.
    ///
    /// # Errors
    /// As [`load`].
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        directory: &Path,
        options: ManifestOptions,
    ) -> Result<(Manifest, ManifestState)> {
        let loaded = load(storage.as_ref(), directory)?;
        let path = directory.join(manifest_file_name(loaded.number));
        let file = storage.open(&path, OpenOptions::buffered(OpenMode::ReadWrite))?;
        file.sync(Purpose::Manifest)?;
        storage.sync_directory(directory)?;
        let manifest = Manifest {
            storage,
            directory: directory.to_path_buf(),
            options,
            file,
            number: loaded.number,
            end: loaded.end,
            tail_unclean: loaded.torn_tail.is_some(),
            rewrite_above_bytes: options.rewrite_above_bytes,
            torn_tail: loaded.torn_tail,
            poison: None,
        };
        Ok((manifest, loaded.state))
    }

    /// What the open dropped from the end of the manifest.
    pub(crate) fn torn_tail(&self) -> Option<&TornTail> {
        self.torn_tail.as_ref()
    }

    /// Makes an edit durable. `next` is the state with the edit applied.
    ///
    /// # Errors
    /// [`ManifestError::NotWritten`] if the store is as it was, [`ManifestError::Poison`] if
    /// nobody can say; from then on every append is refused.
    pub(crate) fn append(
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
        self.end += record.len() as u64;
        if self.end > self.rewrite_above_bytes {
            // The edit is durable already. A rewrite that finds no room is put off.
            match self.rewrite(next) {
                Err(ManifestError::NotWritten(_)) => self.rewrite_above_bytes = self.end * 2,
                rewritten => rewritten?,
            }
        }
        Ok(())
    }

    /// Makes sure that an edit that was reported as failed does not come back with the next open:
    /// a write may report an error although all its bytes arrived.
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
        let storage = self.storage.as_ref();
        let number = next_number(storage, &self.directory, self.number).map_err(not_written)?;
        let fresh = Fresh::write(storage, &self.directory, number, &state.as_edit())?;
        match current::switch(storage, &self.directory, number) {
            Ok(()) => {}
            Err(SwitchError::Unchanged(error)) => {
                // Best effort: a manifest that CURRENT does not name is garbage, not a danger.
                let _ = storage.remove(&self.directory.join(manifest_file_name(number)));
                return Err(not_written(error));
            }
            Err(SwitchError::Unknown(error)) => return Err(ManifestError::Poison(error)),
        }
        self.file = fresh.file;
        self.number = number;
        self.end = fresh.end;
        self.tail_unclean = false;
        self.rewrite_above_bytes = self.options.rewrite_above_bytes.max(2 * fresh.end);
        // Best effort, too: the next rewrite tries again.
        let _ = remove_manifests(storage, &self.directory, Some(number));
        Ok(())
    }
}

fn not_written(error: Error) -> ManifestError {
    ManifestError::NotWritten(error)
}

/// A manifest that `CURRENT` does not name yet.
struct Fresh {
    file: Arc<dyn File>,
    number: u64,
    end: u64,
}

impl Fresh {
    /// Writes a manifest of one record; it and its name are durable on return.
    fn write(
        storage: &dyn Storage,
        directory: &Path,
        number: u64,
        edit: &Edit,
    ) -> std::result::Result<Fresh, ManifestError> {
        let mut bytes = encode_header(number);
        bytes.extend(encode_record(number, bytes.len() as u64, edit).map_err(not_written)?);
        let path = directory.join(manifest_file_name(number));
        let file = storage
            .open(&path, OpenOptions::buffered(OpenMode::CreateNew))
            .map_err(|error| not_written(error.into()))?;
        if let Err(error) = file.write_at(&bytes, 0, Purpose::Manifest) {
            // Best effort: what is left is garbage under a number that is not used again.
            let _ = storage.remove(&path);
            return Err(not_written(error.into()));
        }
        file.sync(Purpose::Manifest)
            .and_then(|()| storage.sync_directory(directory))
            .map_err(|error| ManifestError::Poison(error.into()))?;
        Ok(Fresh {
            file,
            number,
            end: bytes.len() as u64,
        })
    }
}

/// Writes the manifest of a store that nobody has open, and makes `CURRENT` name it; both are
/// durable on return. `CURRENT` comes last. Gives the manifest's number.
pub(crate) fn write_manifest(
    storage: &dyn Storage,
    directory: &Path,
    state: &ManifestState,
) -> Result<u64> {
    let number = next_number(storage, directory, 0)?;
    Fresh::write(storage, directory, number, &state.as_edit()).map_err(|error| match error {
        ManifestError::NotWritten(error) | ManifestError::Poison(error) => error,
    })?;
    current::switch(storage, directory, number).map_err(|error| match error {
        SwitchError::Unchanged(error) | SwitchError::Unknown(error) => error,
    })?;
    Ok(number)
}

/// The numbers of a directory's manifests.
pub(crate) fn manifests(storage: &dyn Storage, directory: &Path) -> Result<Vec<u64>> {
    let entries = storage.list(directory)?;
    Ok(entries
        .iter()
        .filter_map(|entry| manifest_number(&entry.name))
        .collect())
}

/// Above every manifest in the directory, leftovers included.
fn next_number(storage: &dyn Storage, directory: &Path, current: u64) -> Result<u64> {
    let largest = manifests(storage, directory)?.into_iter().max();
    largest
        .unwrap_or(0)
        .max(current)
        .checked_add(1)
        .ok_or_else(|| Error::invalid("manifest numbers are used up"))
}

fn remove_manifests(storage: &dyn Storage, directory: &Path, keep: Option<u64>) -> Result<()> {
    for number in manifests(storage, directory)? {
        if Some(number) != keep {
            storage.remove(&directory.join(manifest_file_name(number)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
