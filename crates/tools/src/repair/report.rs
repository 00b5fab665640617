//! Report of a repair.

use std::path::PathBuf;

use terrace::offline::Unlisted;
use terrace::{Error, SequenceNumber};
use terrace_lsm::data_files::Stage;
use terrace_lsm::levels::ManifestTail;

use super::arenas::ArenasFound;
use super::site::Site;
use super::state::Basis;
use super::tables::{Examined, UnsupportedTable};
use super::unlisted::Taken;

/// Outcome for the manifest.
#[derive(Clone, Debug)]
pub enum ManifestRepair {
    /// It was whole.
    Kept,
    /// It was not, for this reason, and a new one was made from tables and arenas.
    Rebuilt(Error),
    /// It was whole, and a new one lists the unlisted tables' entries, too.
    Extended,
}

/// A damaged table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DamagedTable {
    /// Where the damaged file is kept; `None` if there was none.
    pub kept_as: Option<PathBuf>,
    /// Damage that was found.
    pub error: Error,
    /// Entries that were read, and are in a new table.
    pub entries_kept: u64,
    /// Entries that the table had, if that is known.
    pub entries: Option<u64>,
}

impl DamagedTable {
    fn new(table: &super::tables::DamagedTable) -> Self {
        DamagedTable {
            kept_as: None,
            error: table.error.clone(),
            entries_kept: 0,
            entries: table.meta.as_ref().map(|meta| meta.entries),
        }
    }
}

/// A file that is not taken into the store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeftFile {
    /// The file.
    pub file: PathBuf,
    /// Another name of its bytes, or a copy; `None` if there is none. A file of another release keeps
    /// its own name, too.
    pub kept_as: Option<PathBuf>,
    /// Why it is not taken.
    pub error: Error,
    /// Whether it is under a name at which no store looks.
    is_aside: bool,
    /// Whether an opening may remove the file or use it again once the commit is made.
    is_endangered: bool,
}

impl LeftFile {
    pub(super) fn new(file: PathBuf, error: Error) -> Self {
        LeftFile {
            file,
            kept_as: None,
            error,
            is_aside: false,
            is_endangered: false,
        }
    }

    /// Returns the file, marked as one that an opening may remove or use again after the commit, or
    /// not.
    pub(super) fn endangered(self, is_endangered: bool) -> Self {
        LeftFile {
            is_endangered,
            ..self
        }
    }

    pub(super) fn is_endangered(&self) -> bool {
        self.is_endangered
    }

    /// Makes the entry of a file that an opening or an earlier repair put aside, and that stays
    /// there.
    pub(super) fn aside(file: PathBuf, error: Error) -> Self {
        LeftFile {
            is_aside: true,
            ..LeftFile::new(file, error)
        }
    }

    /// Whether a repair leaves the file under its name.
    pub(super) fn stays(&self) -> bool {
        self.is_newer() || self.is_aside
    }

    /// Whether the file is of another release and keeps its name.
    pub fn is_newer(&self) -> bool {
        matches!(self.error, Error::Unsupported { .. })
    }
}

/// Findings and work of a repair.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairReport {
    /// Outcome for the manifest.
    pub manifest: ManifestRepair,
    /// The end of the manifest, which was no whole edit and is dropped.
    pub manifest_tail: Option<ManifestTail>,
    /// Names of whole tables that the dropped end of a manifest may have listed. They are not in the
    /// store; [`Options::take_unlisted`](terrace::Options::take_unlisted) takes them in.
    pub unlisted_tables: Vec<String>,
    /// Names under which such tables were kept whose entries are in the store now. From here on
    /// they end in `.taken` instead of `.unlisted`, and the files may be removed.
    pub tables_taken: Vec<String>,
    /// Whether an earlier repair, which had been cut short, was finished first.
    pub is_resumed: bool,
    /// Damage of the file `REGION` of the region directory, which was rewritten.
    pub region_damage: Option<Error>,
    /// Tables that were whole.
    pub tables: usize,
    /// Tables that the repair wrote.
    pub tables_written: usize,
    /// Tables that were not whole, unlisted ones that are taken in among them.
    pub damaged: Vec<DamagedTable>,
    /// Damage of the arenas.
    pub arena_damage: Option<Error>,
    /// Writes taken from arenas, if that had to be done here. Otherwise the next opening does it.
    pub writes_from_arenas: u64,
    /// Writes that can be read but lie behind damage in the arenas: first and last number. Not all
    /// between may be meant. They are not in the store; copies of their files are beside it.
    pub dropped: Option<(SequenceNumber, SequenceNumber)>,
    /// Files that are not taken into the store, or not whole: damaged arenas, those of other stores, files
    /// of another release, and unlisted tables that cannot be read.
    pub left: Vec<LeftFile>,
    /// Tables among [`RepairReport::left`] that the manifest listed. Their entries are not in the
    /// store any more.
    pub tables_unlisted: usize,
    /// Names given to keyspaces whose own are not known any more.
    /// [`Db::rename_keyspace`](terrace::Db::rename_keyspace) gives others.
    pub named: Vec<String>,
}

impl RepairReport {
    pub(super) fn new(
        site: &Site,
        basis: &Basis,
        tables: &Examined,
        arenas: &ArenasFound,
        unlisted: &Unlisted,
        is_resumed: bool,
        region_damage: Option<Error>,
    ) -> Self {
        RepairReport {
            manifest: match &basis.manifest {
                Ok(_) => ManifestRepair::Kept,
                Err(why) => ManifestRepair::Rebuilt(why.clone()),
            },
            manifest_tail: basis.tail().cloned(),
            unlisted_tables: Vec::new(),
            tables_taken: Vec::new(),
            is_resumed,
            region_damage,
            tables: tables.sound.len(),
            tables_written: 0,
            damaged: tables.damaged.iter().map(DamagedTable::new).collect(),
            arena_damage: arenas.cause.clone(),
            writes_from_arenas: arenas.writes,
            dropped: arenas.dropped,
            left: left(site, basis, tables, arenas, unlisted),
            tables_unlisted: tables.unsupported.iter().flat_map(|t| &t.meta).count(),
            named: Vec::new(),
        }
    }

    /// Notes that unlisted tables are taken in.
    pub(super) fn takes_in(&mut self, basis: &Basis, arenas: &ArenasFound, taken: &[Taken]) {
        if basis.is_extended {
            self.manifest = ManifestRepair::Extended;
        }
        self.unlisted_tables.clear();
        let whole = taken.iter().filter(|table| table.damage.is_none());
        self.tables_taken = whole.map(|table| table.kept_name()).collect();
        self.writes_from_arenas = arenas.writes;
    }

    /// Notes how much was read of a damaged table that is taken in, and where the file is kept.
    pub(super) fn tells_of_taken(&mut self, table: &Taken, entries_kept: u64, kept_as: PathBuf) {
        let damage = table.damage.iter();
        self.damaged.extend(damage.map(|error| DamagedTable {
            kept_as: Some(kept_as.clone()),
            error: error.clone(),
            entries_kept,
            entries: Some(table.entries()),
        }));
    }

    /// Whether anything was wrong, and so anything was done.
    pub fn is_changed(&self) -> bool {
        self.is_resumed || self.region_damage.is_some() || self.is_needed()
    }

    /// Whether there is something to be done.
    pub(super) fn is_needed(&self) -> bool {
        !matches!(self.manifest, ManifestRepair::Kept)
            || !self.tables_taken.is_empty()
            || !self.damaged.is_empty()
            || self.arena_damage.is_some()
            || self.tables_unlisted > 0
            || self.left.iter().any(|left| !left.stays())
    }

    /// Whether deleted keys may be there again: their deletions may have been in the lost data.
    pub fn may_resurrect(&self) -> bool {
        self.is_resumed
            || !matches!(self.manifest, ManifestRepair::Kept)
            || !self.tables_taken.is_empty()
            || !self.damaged.is_empty()
            || self.tables_unlisted > 0
    }
}

/// Returns the files that are not taken. Those that are kept aside come first, in the order in which
/// they are put there.
fn left(
    site: &Site,
    basis: &Basis,
    tables: &Examined,
    arenas: &ArenasFound,
    unlisted: &Unlisted,
) -> Vec<LeftFile> {
    let of_table = |table: &UnsupportedTable| {
        let file = site.data.path(site.placed(table.number, Stage::Listed));
        // The release that reads it removes a table that no edit lists. If a table was not listed
        // before, only a lost manifest may have listed it.
        let is_endangered = table.meta.is_some() || basis.manifest.is_err();
        LeftFile::new(file, table.error.clone()).endangered(is_endangered)
    };
    let region = site.newer_region.iter().cloned();
    let left_tables = &tables.unsupported;
    let tables = left_tables.iter().map(of_table);
    let arenas = arenas.damaged.iter().chain(&arenas.strangers).cloned();
    // A second name of a table that is named already says nothing new.
    let is_new = |(number, _): &&(u64, Error)| {
        let mut unsupported = left_tables.iter();
        !unsupported.any(|table| table.number == *number)
    };
    let unreadable = unlisted.unreadable.iter().filter(is_new);
    let unreadable = unreadable.map(|(number, error)| {
        let file = site
            .data
            .path_at(site.placed(*number, Stage::Unlisted), Stage::Unlisted);
        LeftFile::aside(file, error.clone())
    });
    let left = arenas.chain(region).chain(tables);
    let left = left.chain(unreadable);
    left.chain(basis.left_aside.iter().cloned()).collect()
}
