//! A store's directory: its opening, the files that may be in it, and the remains of a crash.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use terrace_lsm::data_files::{DataFiles, FileId, Placed, Stage};
use terrace_lsm::levels::ManifestState;
use terrace_lsm::sync::atomic::Ordering;
use terrace_region::{HEADER_BYTES, Header, HeaderState};
use terrace_storage::{
    Access, Directory, DirectoryEntry, ErrorKind, Escaped, OpenMode, OpenOptions, Purpose, Storage,
};

use crate::db::owners::Files;
use crate::db::unsupported_tables::stays;
use crate::db::{Store, file_names};
use crate::options::Options;
use crate::{Error, Result};

/// Opens a directory; `None` if there is none.
pub fn open_if_there(
    storage: &dyn Storage,
    path: &Path,
    access: Access,
) -> Result<Option<Arc<dyn Directory>>> {
    match storage.directory(path, access) {
        Ok(directory) => Ok(Some(directory)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens the directory of a store, once and for all, and says whether a store is there. Refuses one
/// that holds foreign files; makes one if the options say so. An opening that has waited for an
/// owner makes none: that owner's was there, and has been removed.
pub(crate) fn prepare(
    storage: &dyn Storage,
    path: &Path,
    options: &Options,
    has_waited: bool,
) -> Result<(Arc<dyn Directory>, bool)> {
    let no_store = |detail: &str| {
        Err(Error::NoStore {
            path: path.to_path_buf(),
            detail: detail.to_owned(),
        })
    };
    let creates = options.create_if_missing && !options.read_only;
    let access = options.file_access.into();
    let Some(directory) = open_if_there(storage, path, access)? else {
        if !creates {
            return no_store("there is no such directory");
        }
        if has_waited {
            return no_store("the directory was removed while its owner was waited for");
        }
        storage.create_directory_for(path, access)?;
        return Ok((storage.directory(path, access)?, false));
    };
    let entries = directory.list()?;
    // Asked for by name, and after the listing: a listing may miss a name that is replaced meanwhile, as
    // an owner replaces this one.
    let exists = has_been_made(&*directory, options)?;
    let foreign = entries
        .iter()
        .find(|entry| !file_names::is_ours(&entry.name) && !entry.is_of_file_system());
    match (exists, foreign) {
        (true, _) => Ok((directory, true)),
        (false, Some(entry)) => Err(Error::NoStore {
            path: path.to_path_buf(),
            detail: format!(
                "it holds {:?}, which is not a store's; name an empty or a new directory",
                entry.name
            ),
        }),
        (false, None) if holds_writes(&entries) => Err(Error::corruption(
            &directory.shown("CURRENT"),
            0,
            "the file is missing, but tables or arenas of a store are there",
        )),
        (false, None) if !creates => no_store("the directory is empty"),
        (false, None) => Ok((directory, false)),
    }
}

/// Returns whether a store is in an open directory by now.
///
/// # Errors
/// There is one, and the options want none.
pub(crate) fn has_been_made(directory: &dyn Directory, options: &Options) -> Result<bool> {
    match directory.identity_of("CURRENT") {
        Ok(_) if options.error_if_exists => Err(Error::invalid(format!(
            "{} holds a store already, and error_if_exists is set",
            Escaped::path(directory.path())
        ))),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether tables or arenas are there. They exist only after the manifest that names them:
/// without `CURRENT` they are not the remains of a creation that was cut short.
fn holds_writes(entries: &[DirectoryEntry]) -> bool {
    entries.iter().any(|entry| {
        file_names::table_number(&entry.name).is_some() || entry.name.starts_with("arena-")
    })
}

/// Fails if a listed table is missing: an unlisted file beside it may then be the only copy of
/// its entries, and must not be removed as an orphan.
pub(crate) fn check_tables(data: &DataFiles, state: &ManifestState) -> Result<()> {
    let files = data.list()?.into_iter();
    let listed = files.filter(|(_, stage)| *stage == Stage::Listed);
    let present: BTreeSet<Placed> = listed.map(|(placed, _)| placed).collect();
    // Files of a tier that is not at hand are missed where they are needed.
    let missing = state
        .version
        .tables()
        .find(|(_, table)| data.is_present(table.tier) && !present.contains(&table.placed()));
    missing.map_or(Ok(()), |(_, table)| {
        Err(Error::corruption(
            &data.path(table.placed()),
            0,
            "the manifest lists the table, but the file is missing",
        ))
    })
}

impl Store {
    /// Removes the files that the arenas left in the store's directory when they moved out of it.
    pub(crate) fn remove_left_arenas(&self) -> Result<()> {
        for entry in self.files.directory.list()? {
            if file_names::is_arena(&entry.name) && self.may_remove_arena(&entry.name)? {
                self.files.directory.remove(&entry.name)?;
            }
        }
        Ok(())
    }

    /// Returns whether a file is not another store's arena, nor a newer release's, nor a directory
    /// or link.
    fn may_remove_arena(&self, name: &str) -> Result<bool> {
        let options = OpenOptions::buffered(OpenMode::Read);
        let mut header = vec![0; HEADER_BYTES];
        let file = match self.files.directory.open(name, options) {
            Err(error) if error.kind() == ErrorKind::NotAFile => return Ok(false),
            file => file?,
        };
        let length = file.read_at(&mut header, 0, Purpose::Recovery)?;
        header.truncate(length);
        let own = self
            .manifest_log
            .ledger
            .lock()
            .state
            .identity
            .store_id
            .to_le_bytes();
        Ok(match Header::decode(&header) {
            HeaderState::Intact(header) => header.store == own,
            state => !state.is_left_alone(),
        })
    }

    /// Removes the remains of a crash: tables that no edit installed, and those of a repair that
    /// went no further.
    pub(crate) fn remove_orphans(&self) -> Result<()> {
        let version = Arc::clone(&self.reads.view.load().version);
        let tables = version.tables();
        let listed: BTreeSet<Placed> = tables.map(|(_, table)| table.placed()).collect();
        let data = &self.files.data;
        for (placed, stage) in data.list()? {
            let is_orphan = match stage {
                Stage::Listed => !listed.contains(&placed),
                Stage::New => true,
                Stage::Unlisted | Stage::Taken => false,
            };
            let (directory, name) = data.at_stage(placed, stage)?;
            if is_orphan && stays(&*directory, &name) {
                self.files.skip_table_number(placed.file.number);
            } else if is_orphan {
                data.remove(placed, stage)?;
            }
        }
        Ok(())
    }
}

impl Store {
    /// Counts the files of the tiers, and opens the caches among them.
    pub(crate) fn take_up_tiers(&self) -> Result<()> {
        let entries = self.files.count_files_of_tiers()?;
        let version = Arc::clone(&self.reads.view.load().version);
        let store_id = self.manifest_log.ledger.lock().state.identity.store_id;
        self.files
            .open_caches(&self.options, store_id, &version, &entries);
        Ok(())
    }
}

impl Files {
    /// Enters the files that are there into the books of their tiers. Returns the names in all tiers.
    fn count_files_of_tiers(&self) -> Result<Vec<(u8, DirectoryEntry)>> {
        let entries = self.data.entries()?;
        let files = entries.iter();
        let files = files.filter(|(_, entry)| FileId::parse(&entry.name).is_some());
        let files = files.map(|(tier, entry)| (*tier, entry.length_bytes));
        self.space.count_files(files);
        Ok(entries)
    }
}

impl Files {
    /// Gives no table the number of a file that stays.
    fn skip_table_number(&self, number: u64) {
        if file_names::leaves_room(number) {
            self.next_table.fetch_max(number + 1, Ordering::Relaxed);
        }
    }
}
