//! The data files of a store, and the place that each has.
//!
//! A file is known by its kind and its number. [`DataFiles`] alone turns that into a directory and a name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{Directory, DirectoryEntry, File, OpenOptions, Result};

/// The largest number in a file's name; a larger one leaves no room for the next.
const MAX_NUMBER: u64 = u64::MAX / 2;
/// Suffix of a table that a repair is writing.
const NEW: &str = ".new";
/// Suffix of a whole table that an opening kept when it dropped the manifest's end.
const UNLISTED: &str = ".unlisted";
/// Suffix of such a table once a repair has taken it in.
const TAKEN: &str = ".taken";

/// The kind of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A sorted table.
    Table,
}

/// A data file: its kind, and its number among the files of all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The kind.
    pub kind: FileKind,
    /// Never 0 for a file that an edit lists.
    pub number: u64,
}

/// The stage of a file's life, as its name shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// An edit lists the file, or is about to.
    Listed,
    /// A repair writes it, or had written it when it was cut short.
    New,
    /// An opening kept it when it dropped the manifest's end.
    Unlisted,
    /// A repair has taken it in from there.
    Taken,
}

impl Stage {
    /// The stages whose names have a suffix.
    const SUFFIXED: [Stage; 3] = [Stage::New, Stage::Unlisted, Stage::Taken];

    fn suffix(self) -> &'static str {
        match self {
            Stage::Listed => "",
            Stage::New => NEW,
            Stage::Unlisted => UNLISTED,
            Stage::Taken => TAKEN,
        }
    }
}

impl FileId {
    /// Returns the table of a number.
    pub const fn table(number: u64) -> FileId {
        let kind = FileKind::Table;
        FileId { kind, number }
    }

    /// Returns the file's name in a stage of its life.
    ///
    /// ```
    /// use terrace_lsm::data_files::{FileId, Stage};
    /// assert_eq!(FileId::table(12).name(Stage::New), "12.table.new");
    /// assert_eq!(FileId::parse("12.table.new"), Some((FileId::table(12), Stage::New)));
    /// ```
    pub fn name(self, stage: Stage) -> String {
        let FileKind::Table = self.kind;
        format!("{}.table{}", self.number, stage.suffix())
    }

    /// Returns the file and the stage that a name stands for; `None` for other names.
    pub fn parse(name: &str) -> Option<(FileId, Stage)> {
        let mut suffixed = Stage::SUFFIXED.into_iter();
        let stage = suffixed
            .find(|stage| name.ends_with(stage.suffix()))
            .unwrap_or(Stage::Listed);
        let stem = name.strip_suffix(stage.suffix())?;
        let number: u64 = stem.strip_suffix(".table")?.parse().ok()?;
        let file = FileId::table(number);
        (number <= MAX_NUMBER && name == file.name(stage)).then_some((file, stage))
    }
}

/// The places of the data files: one directory.
#[derive(Clone, Debug)]
pub struct DataFiles {
    directory: Arc<dyn Directory>,
}

impl DataFiles {
    /// Returns the data files of a store in a directory.
    pub fn new(directory: Arc<dyn Directory>) -> DataFiles {
        DataFiles { directory }
    }

    /// Returns the directory of a file, and its name there.
    pub fn at(&self, file: FileId) -> (&Arc<dyn Directory>, String) {
        self.at_stage(file, Stage::Listed)
    }

    /// Returns the directory of a file in a stage of its life, and its name there.
    pub fn at_stage(&self, file: FileId, stage: Stage) -> (&Arc<dyn Directory>, String) {
        (&self.directory, file.name(stage))
    }

    /// Returns the path of the place, for messages about no file.
    pub fn shown(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of a file, for messages.
    pub fn path(&self, file: FileId) -> PathBuf {
        self.path_at(file, Stage::Listed)
    }

    /// Returns the path of a file in a stage of its life, for messages.
    pub fn path_at(&self, file: FileId, stage: Stage) -> PathBuf {
        let (directory, name) = self.at_stage(file, stage);
        directory.shown(&name)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// Those of [`Directory::open`].
    pub fn open(&self, file: FileId, options: OpenOptions) -> Result<Arc<dyn File>> {
        let (directory, name) = self.at(file);
        directory.open(&name, options)
    }

    /// Removes a file. The removal is durable after [`DataFiles::sync`].
    ///
    /// # Errors
    /// Those of [`Directory::remove`].
    pub fn remove(&self, file: FileId, stage: Stage) -> Result<()> {
        let (directory, name) = self.at_stage(file, stage);
        directory.remove(&name)
    }

    /// Gives a file the name of another stage, durably after [`DataFiles::sync`].
    ///
    /// # Errors
    /// Those of [`Directory::rename`].
    pub fn rename(&self, file: FileId, from: Stage, to: Stage) -> Result<()> {
        let (directory, from) = self.at_stage(file, from);
        directory.rename(&from, &file.name(to))
    }

    /// Returns the entries of all places, other files than data files included.
    ///
    /// # Errors
    /// Those of [`Directory::list`].
    pub fn entries(&self) -> Result<Vec<DirectoryEntry>> {
        self.directory.list()
    }

    /// Returns the data files that are there, each in the stage that its name shows.
    ///
    /// # Errors
    /// Those of [`Directory::list`].
    pub fn list(&self) -> Result<Vec<(FileId, Stage)>> {
        let entries = self.entries()?.into_iter();
        Ok(entries
            .filter_map(|entry| FileId::parse(&entry.name))
            .collect())
    }

    /// Makes the names of all files durable.
    ///
    /// # Errors
    /// Those of [`Directory::sync`].
    pub fn sync(&self) -> Result<()> {
        self.directory.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_file() {
        for stage in [Stage::Listed, Stage::New, Stage::Unlisted, Stage::Taken] {
            for number in [0, 12, MAX_NUMBER] {
                let file = FileId::table(number);
                assert_eq!(FileId::parse(&file.name(stage)), Some((file, stage)));
            }
        }
        assert_eq!(FileId::table(12).name(Stage::Listed), "12.table");
    }

    #[test]
    fn other_names_are_no_data_files() {
        for foreign in [
            "012.table",
            "18446744073709551615.table",
            ".table",
            "x.table",
            "12.tables",
            "12.table.newer",
            "12.table.unlisted.new",
            "12.new",
            "CURRENT",
            "arena-1",
            "",
        ] {
            assert_eq!(FileId::parse(foreign), None, "{foreign}");
        }
    }
}
