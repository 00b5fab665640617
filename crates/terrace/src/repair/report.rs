//! What a repair did.

use std::path::PathBuf;

use super::arenas::ArenasFound;
use super::site::{Site, aside};
use super::state::Basis;
use super::tables::Examined;
use crate::table::table_path;
use crate::{Error, SequenceNumber};

/// What became of the manifest.
#[derive(Clone, Debug)]
pub enum ManifestRepair {
    /// It was whole.
    Kept,
    /// It was not, for this reason, and a new one was made from tables and arenas.
    Rebuilt(Error),
}

/// A damaged table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DamagedTable {
    /// Where the damaged file is now; `None` if there was none.
    pub kept_as: Option<PathBuf>,
    /// What was found.
    pub error: Error,
    /// Entries that were read, and are in a new table.
    pub entries_kept: u64,
    /// Entries that the table had, if that is known.
    pub entries: Option<u64>,
}

/// What a repair found and did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairReport {
    /// What became of the manifest.
    pub manifest: ManifestRepair,
    /// Tables that were whole.
    pub tables: usize,
    /// Tables that the repair wrote.
    pub tables_written: usize,
    /// Tables that were not whole.
    pub damaged: Vec<DamagedTable>,
    /// What was wrong with the arenas.
    pub arena_damage: Option<Error>,
    /// Writes taken from arenas, if that had to be done here. Otherwise the next opening does it.
    pub writes_from_arenas: u64,
    /// Writes that can be read but lie behind damage in the arenas: first and last number. They are
    /// not in the store; the files that hold them are kept beside it.
    pub dropped: Option<(SequenceNumber, SequenceNumber)>,
    /// Names given to keyspaces whose own are not known any more.
    pub named: Vec<String>,
}

impl RepairReport {
    pub(super) fn new(site: &Site, basis: &Basis, tables: &Examined, arenas: &ArenasFound) -> Self {
        RepairReport {
            manifest: match &basis.why_lost {
                Some(error) => ManifestRepair::Rebuilt(error.clone()),
                None => ManifestRepair::Kept,
            },
            tables: tables.sound.len(),
            tables_written: 0,
            damaged: Vec::new(),
            arena_damage: arenas.damage.clone(),
            writes_from_arenas: arenas.writes,
            dropped: arenas.dropped,
            named: Vec::new(),
        }
        .with_damaged(site, tables)
    }

    fn with_damaged(mut self, site: &Site, tables: &Examined) -> Self {
        self.damaged = tables
            .damaged
            .iter()
            .map(|table| DamagedTable {
                kept_as: table
                    .is_there
                    .then(|| aside(&table_path(&site.path, table.number))),
                error: table.error.clone(),
                entries_kept: 0,
                entries: table.listed.as_ref().map(|(_, meta)| meta.entries),
            })
            .collect();
        self
    }

    /// Whether anything was wrong, and so anything was done.
    pub fn is_changed(&self) -> bool {
        matches!(self.manifest, ManifestRepair::Rebuilt(_))
            || !self.damaged.is_empty()
            || self.arena_damage.is_some()
    }

    /// Whether keys may be there again that had been deleted: what deleted them may have been in
    /// what is lost.
    pub fn may_resurrect(&self) -> bool {
        matches!(self.manifest, ManifestRepair::Rebuilt(_)) || !self.damaged.is_empty()
    }
}
