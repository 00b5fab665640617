//! The directory under repair, and the work in it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use terrace::offline::{
    Ownership, TableFiles, TableHome, files, mark, open_if_there, region_home, stays,
};
use terrace::{Error, KeyspaceId, Options, Result};
use terrace_lsm::compaction::output::Output;
use terrace_lsm::data_files::{DataFiles, FileId, Placed, Stage};
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::{KeyspaceLevels, ManifestState, Place, Table, Version};
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};
use terrace_lsm::table::{
    BlockCache, CursorOptions, TableCache, TableCursor, TableLimit, TableReader,
};
use terrace_storage::{CountingStorage, Directory, OpenMode, OpenOptions, Purpose, Storage};

use super::options::RepairOptions;
use super::report::LeftFile;

/// The reads of a repair, past the cache: each block is wanted once.
pub(super) const READS: CursorOptions = CursorOptions::uncached(Purpose::Recovery);

pub(super) struct Site {
    pub(super) path: PathBuf,
    /// The store's directory, open and owned.
    pub(super) directory: Arc<dyn Directory>,
    /// The places of tables.
    pub(super) data: DataFiles,
    /// Directory of the arenas, if they have one of their own, as soon as it is open.
    pub(super) region_directory: OnceLock<Arc<dyn Directory>>,
    pub(super) options: Options,
    pub(super) decisions: RepairOptions,
    pub(super) storage: Arc<CountingStorage>,
    /// The tables that have their names.
    pub(super) tables: Arc<TableCache>,
    pub(super) blocks: Arc<BlockCache>,
    /// Above every table in the directory.
    pub(super) next_table: AtomicU64,
    /// The file that says whose the region directory is, if another release wrote it. The options
    /// name no region directory then: nothing in it is looked at.
    pub(super) newer_region: Option<LeftFile>,
    _ownership: Ownership,
}

impl Site {
    pub(super) fn take(
        path: &Path,
        mut options: Options,
        decisions: RepairOptions,
    ) -> Result<Self> {
        let medium = Arc::clone(&options.storage);
        // A caller's code, which hears of progress, may fork.
        let storage = Arc::new(CountingStorage::new(medium).owned_by(mark(path)?));
        let no_store = |detail: &str| Error::NoStore {
            path: path.to_path_buf(),
            detail: detail.to_owned(),
        };
        let directory = open_if_there(&*storage, path, options.file_access.into())?
            .ok_or_else(|| no_store("there is no such directory"))?;
        // Before the lock, which makes a file.
        let is_left = |name: &str| name != files::LOCK && files::is_ours(name);
        if !directory.list()?.iter().any(|entry| is_left(&entry.name)) {
            return Err(no_store("no file of a store is there"));
        }
        let ownership = Ownership::take(&directory)?;
        // An owner may have made files until it released the lock.
        let entries = directory.list()?;
        let newer_region = newer_region(&*storage, path, &options)?;
        if newer_region.is_some() {
            options.region_dir = None;
        }
        let numbers = entries.iter().filter_map(|entry| {
            let name = entry.name.as_str();
            files::used_table_number(name).filter(|&number| files::leaves_room(number))
        });
        let next_table = numbers.max().unwrap_or(0).saturating_add(1);
        let blocks = Arc::new(BlockCache::new(0, false));
        let data = DataFiles::new(Arc::clone(&directory));
        let tables = TableCache::new(
            data.clone(),
            OpenOptions::buffered(OpenMode::Read),
            TableLimit::of(options.max_open_tables),
            Arc::clone(&blocks),
        )?;
        Ok(Site {
            path: path.to_path_buf(),
            directory,
            data,
            region_directory: OnceLock::new(),
            options,
            decisions,
            storage,
            tables: Arc::new(tables),
            blocks,
            next_table: AtomicU64::new(next_table),
            newer_region,
            _ownership: ownership,
        })
    }

    /// Opens the region directory that was asked for, if it is there.
    pub(super) fn given_region(&self) -> Result<Option<Arc<dyn Directory>>> {
        let Some(path) = &self.options.region_dir else {
            return Ok(None);
        };
        open_if_there(&*self.storage, path, self.options.file_access.into())
    }

    /// Returns the open directory of a file, and its name there.
    pub(super) fn located<'a>(&self, file: &'a Path) -> (&dyn Directory, &'a str) {
        let name = file.file_name().and_then(|name| name.to_str());
        let region = self.region_directory.get();
        let is_in = |directory: &&Arc<dyn Directory>| Some(directory.path()) == file.parent();
        let directory = region.filter(is_in).unwrap_or(&self.directory);
        (&**directory, name.unwrap_or_default())
    }

    /// Skips the numbers of tables that the manifest names: their files may be missing.
    pub(super) fn skip_numbers_below(&self, next_table: u64) {
        self.next_table.fetch_max(next_table, Ordering::Relaxed);
    }

    /// Returns the numbers of the tables that have their names.
    pub(super) fn table_numbers(&self) -> Result<Vec<u64>> {
        let places = self.table_places()?.into_iter();
        let mut numbers: Vec<u64> = places.map(|placed| placed.file.number).collect();
        numbers.dedup();
        Ok(numbers)
    }

    /// Returns the places of the tables that have their names, in the order of their numbers.
    pub(super) fn table_places(&self) -> Result<Vec<Placed>> {
        let listed = self.data.list()?.into_iter();
        let listed = listed.filter(|(_, stage)| *stage == Stage::Listed);
        let mut places: Vec<Placed> = listed.map(|(placed, _)| placed).collect();
        places.sort_unstable_by_key(|placed| (placed.file.number, placed.tier));
        Ok(places)
    }

    /// Returns the form of a keyspace's tables.
    pub(super) fn form_of(&self, levels: Option<&KeyspaceLevels>) -> KeyspaceOptions {
        let own = levels.and_then(|levels| levels.options.as_deref());
        own.cloned()
            .unwrap_or_else(|| self.options.default_keyspace.clone())
    }

    /// Writes new tables, which have no names yet.
    pub(super) fn table_files(
        &self,
        keyspace: KeyspaceId,
        form: KeyspaceOptions,
        place: Place,
        hash_seed: u64,
    ) -> TableFiles<'_> {
        let home = TableHome {
            data: &self.data,
            stage: Stage::New,
            next_table: &self.next_table,
            hash_seed,
            randomness: &self.options.randomness,
            direct: false,
            restart_interval: self.options.constants.restart_interval,
            max_filter_keys: u64::MAX,
        };
        let output = Output::alone(&form, place);
        TableFiles::new(home, keyspace, form, output, Purpose::Recovery)
    }

    /// Opens a table, whether it has its name or not.
    pub(super) fn open(&self, table: &Table, is_new: bool) -> Result<Arc<TableReader>> {
        if is_new {
            return self.open_file(FileId::table(table.number), Stage::New);
        }
        Ok(Arc::clone(&*table.open(&self.tables)?))
    }

    /// Returns a table where it lies. Of one that lies nowhere, the store's own directory is the place.
    pub(super) fn placed(&self, number: u64, stage: Stage) -> Placed {
        self.data.find(FileId::table(number), stage)
    }

    fn open_file(&self, file: FileId, stage: Stage) -> Result<Arc<TableReader>> {
        let (directory, name) = self.data.at_stage(self.data.find(file, stage), stage)?;
        TableReader::open(&*directory, &name, file.number, Arc::clone(&self.blocks))
    }

    /// Opens the whole parts of a damaged table.
    pub(super) fn open_damaged(&self, placed: Placed, stage: Stage) -> Result<Arc<TableReader>> {
        let (directory, name) = self.data.at_stage(placed, stage)?;
        let number = placed.file.number;
        TableReader::open_damaged(&*directory, &name, number, Arc::clone(&self.blocks))
    }

    pub(super) fn cursor(&self, table: &Table, is_new: bool) -> Result<TableCursor> {
        let cursor = self.open(table, is_new)?.cursor(READS);
        Ok(cursor.with_assigned(table.assigned_sequence()))
    }

    /// Ends the work of an earlier repair: gives the tables it listed their names, and removes the
    /// others. Returns whether there were some of the first kind.
    pub(super) fn finish_earlier(&self, listed: Option<&Version>) -> Result<bool> {
        let present = self.table_numbers()?;
        let mut is_renamed = false;
        let files = self.data.list()?.into_iter();
        for (placed, stage) in files.filter(|(_, stage)| *stage == Stage::New) {
            let file = placed.file;
            let listed = listed.filter(|_| !present.contains(&file.number));
            let is_awaited = match listed {
                Some(version) => self.is_listed_as(version, file, stage)?,
                None => false,
            };
            let (directory, name) = self.data.at_stage(placed, stage)?;
            if is_awaited {
                self.data.rename(placed, stage, Stage::Listed)?;
                is_renamed = true;
            } else if !stays(&*directory, &name) {
                self.data.remove(placed, stage)?;
            }
            if files::leaves_room(file.number) {
                self.skip_numbers_below(file.number + 1);
            }
        }
        if is_renamed {
            self.data.sync()?;
        }
        Ok(is_renamed)
    }

    /// Whether a manifest is that of a repair which came no further: it lists tables that have no
    /// names yet.
    pub(super) fn is_unfinished(&self, state: &ManifestState) -> bool {
        let mut tables = state.version.tables();
        tables.any(|(_, table)| {
            let exists = |stage| {
                let placed = self.placed(table.number, stage);
                let options = OpenOptions::buffered(OpenMode::Read);
                let at = self.data.at_stage(placed, stage);
                at.is_ok_and(|(directory, name)| directory.open(&name, options).is_ok())
            };
            exists(Stage::New) && !exists(Stage::Listed)
        })
    }

    /// Whether a file is the table that is listed with its number. A damaged one is, too, and one of
    /// another release: it is the only one that there is.
    fn is_listed_as(&self, version: &Version, file: FileId, stage: Stage) -> Result<bool> {
        let mut tables = version.tables();
        let Some((_, table)) = tables.find(|(_, table)| table.number == file.number) else {
            return Ok(false);
        };
        match self.open_file(file, stage) {
            Ok(reader) => Ok(table.is_described_by(reader.properties())),
            Err(Error::Corruption { .. } | Error::Unsupported { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Returns the `REGION` of the given directory, if another release wrote it.
fn newer_region(storage: &dyn Storage, path: &Path, options: &Options) -> Result<Option<LeftFile>> {
    let Some(given) = options.region_dir.as_deref() else {
        return Ok(None);
    };
    let Some(directory) = open_if_there(storage, given, options.file_access.into())? else {
        return Ok(None);
    };
    match region_home::owner(path, &*directory) {
        Err(error @ Error::Unsupported { .. }) => {
            let file = directory.shown(region_home::NAME);
            Ok(Some(LeftFile::new(file, error)))
        }
        // The look that follows judges everything else.
        _ => Ok(None),
    }
}
