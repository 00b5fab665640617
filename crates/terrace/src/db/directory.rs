//! A store's directory: what may be in it, who owns it, and what a crash leaves there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{DirectoryEntry, ErrorKind, Lock, LockKind, Storage};

use crate::db::{Store, files};
use crate::inspect::socket::SOCKET;
use crate::levels::ManifestState;
use crate::options::Options;
use crate::table::table_path;
use crate::{Error, Result};

/// Refuses a directory that holds somebody else's files; makes one where that is wanted. Whether a
/// store is there.
pub(crate) fn prepare(storage: &dyn Storage, path: &Path, options: &Options) -> Result<bool> {
    let no_store = |detail: &str| {
        Err(Error::NoStore {
            path: path.to_path_buf(),
            detail: detail.to_owned(),
        })
    };
    let creates = options.create_if_missing && !options.read_only;
    let entries = match storage.list(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if !creates {
                return no_store("there is no such directory");
            }
            storage.create_directory(path)?;
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    let exists = entries.iter().any(|entry| entry.name == "CURRENT");
    let foreign = entries.iter().find(|entry| !files::is_ours(&entry.name));
    match (exists, foreign) {
        (true, _) if options.error_if_exists => Err(Error::invalid(format!(
            "{} holds a store already, and error_if_exists is set",
            path.display()
        ))),
        (true, _) => Ok(true),
        (false, Some(entry)) => Err(Error::NoStore {
            path: path.to_path_buf(),
            detail: format!(
                "it holds {:?}, which is not a store's; name an empty or a new directory",
                entry.name
            ),
        }),
        (false, None) if holds_writes(&entries) => Err(Error::corruption(
            &path.join("CURRENT"),
            0,
            "the file is missing, but tables or arenas of a store are there",
        )),
        (false, None) if !creates => no_store("the directory is empty"),
        (false, None) => Ok(false),
    }
}

/// Tables and arenas exist only after the manifest that names them: without `CURRENT` they are not
/// the remains of a creation that was cut short.
fn holds_writes(entries: &[DirectoryEntry]) -> bool {
    entries
        .iter()
        .any(|entry| files::table_number(&entry.name).is_some() || entry.name.starts_with("arena-"))
}

/// Fails if a listed table is missing: what lies beside it unlisted may then be the only copy of
/// its entries, and must not be removed as an orphan.
pub(crate) fn check_tables(
    storage: &dyn Storage,
    path: &Path,
    state: &ManifestState,
) -> Result<()> {
    let entries = storage.list(path)?;
    let numbers = entries
        .iter()
        .filter_map(|entry| files::table_number(&entry.name));
    let present: BTreeSet<u64> = numbers.collect();
    let missing = state
        .version
        .tables()
        .find(|(_, table)| !present.contains(&table.number));
    missing.map_or(Ok(()), |(_, table)| {
        let file = table_path(path, table.number);
        Err(Error::corruption(
            &file,
            0,
            "the manifest lists the table, but the file is missing",
        ))
    })
}

/// The lock of the opening. `None` for a reader where no file is there to be locked (a copy that
/// left it out): nobody owns the store, and a reader writes nothing. Should an owner start
/// meanwhile, the reader's reads fail as soon as tables that it lists are gone.
pub(crate) fn lock(
    storage: &dyn Storage,
    path: &Path,
    options: &Options,
) -> Result<Option<Box<dyn Lock>>> {
    let kind = if options.read_only {
        LockKind::Shared
    } else {
        LockKind::Exclusive
    };
    match storage.lock(&path.join(files::LOCK), kind) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound if options.read_only => Ok(None),
            ErrorKind::Locked => Err(Error::Busy {
                path: path.to_path_buf(),
                socket: socket(storage, path),
            }),
            _ => Err(error.into()),
        },
    }
}

/// The inspection socket in a store's directory, if its owner has one.
fn socket(storage: &dyn Storage, path: &Path) -> Option<PathBuf> {
    let entries = storage.list(path).ok()?;
    let mut names = entries.iter().map(|entry| entry.name.as_str());
    names.any(|name| name == SOCKET).then(|| path.join(SOCKET))
}

impl Store {
    /// Removes what the arenas left in the store's directory when they moved out of it.
    pub(crate) fn remove_left_arenas(&self) -> Result<()> {
        for entry in self.storage.list(&self.path)? {
            if files::is_arena(&entry.name) {
                self.storage.remove(&self.path.join(&entry.name))?;
            }
        }
        Ok(())
    }

    /// Removes what a crash left behind: tables that no edit installed, and those of a repair that
    /// went no further.
    pub(crate) fn remove_orphans(&self) -> Result<()> {
        let version = Arc::clone(&self.view.load().version);
        let listed: BTreeSet<u64> = version.tables().map(|(_, table)| table.number).collect();
        for entry in self.storage.list(&self.path)? {
            if let Some(number) = files::table_number(&entry.name)
                && !listed.contains(&number)
            {
                self.storage.remove(&table_path(&self.path, number))?;
            }
            if files::new_table_number(&entry.name).is_some() {
                self.storage.remove(&self.path.join(&entry.name))?;
            }
        }
        Ok(())
    }
}
