//! The data files of a store, and the place that each has.
//!
//! A file is known by its kind, its number and its tier. [`DataFiles`] alone turns that into a directory and
//! a name.

mod places;

pub use self::places::{DataFiles, LostTier};

/// The tier of the store's own directory.
pub const OWN_TIER: u8 = 1;

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

/// A data file where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placed {
    /// The file.
    pub file: FileId,
    /// The number of its tier; [`OWN_TIER`] is the store's own directory.
    pub tier: u8,
}

impl Placed {
    /// Returns a table in a tier.
    pub const fn table(number: u64, tier: u8) -> Placed {
        let file = FileId::table(number);
        Placed { file, tier }
    }

    /// Returns a file in the store's own directory.
    pub const fn own(file: FileId) -> Placed {
        let tier = OWN_TIER;
        Placed { file, tier }
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
