//! Tables that openings kept when they dropped the end of the manifest, and that are taken in now.
//!
//! Levels do not tell where such a table belongs, but the numbers of its entries do: none was given
//! again. So its entries go to a new table, and all tables are merged by their numbers.

use std::sync::Arc;

use terrace::offline::Unlisted;
use terrace::{Error, Result};
use terrace_lsm::compaction::merge::TableSink;
use terrace_lsm::data_files::{FileId, Stage};
use terrace_lsm::levels::{KeyRange, TableMeta};
use terrace_lsm::table::TableReader;

use super::arenas::ArenasFound;
use super::aside::rename_damaged;
use super::merge::REBUILT;
use super::report::RepairReport;
use super::site::Site;
use super::state::Basis;
use super::tables::copy_readable;

/// A table that is taken in.
pub(super) struct Taken {
    pub(super) number: u64,
    reader: Arc<TableReader>,
    /// Damage that keeps some of it out.
    pub(super) damage: Option<Error>,
}

impl Taken {
    /// Returns the name that the table was kept by.
    pub(super) fn kept_name(&self) -> String {
        FileId::table(self.number).name(Stage::Unlisted)
    }

    /// Returns how many entries it should have.
    pub(super) fn entries(&self) -> u64 {
        self.reader.properties().entries
    }
}

impl Site {
    /// Returns the tables that were kept, or are to be. Without a manifest all others are taken.
    pub(super) fn unlisted(&self, basis: &Basis, arenas: &ArenasFound) -> Result<Unlisted> {
        let is_tail_dropped = basis.tail().is_some();
        let known = arenas.known_sequence;
        Unlisted::find(&self.data, &basis.state, is_tail_dropped, known)
    }

    /// Opens the tables that are to be taken in, under the names that they are kept by. Of a damaged one
    /// the readable blocks are taken.
    pub(super) fn open_unlisted(&self, unlisted: &Unlisted) -> Result<Vec<Taken>> {
        let open = |number| {
            let reader =
                self.open_damaged(self.placed(number, Stage::Unlisted), Stage::Unlisted)?;
            let damage = match reader.verify() {
                Err(error @ Error::Corruption { .. }) => Some(error),
                verified => verified.map(|_| None)?,
            };
            Ok(Taken {
                number,
                reader,
                damage,
            })
        };
        unlisted.numbers().map(open).collect()
    }

    /// Copies tables into new ones. Returns for each the new one, if it holds anything.
    pub(super) fn take_in(
        &self,
        basis: &Basis,
        tables: &[Taken],
    ) -> Result<Vec<Option<TableMeta>>> {
        tables
            .iter()
            .map(|table| self.take_in_one(basis, &table.reader))
            .collect()
    }

    fn take_in_one(&self, basis: &Basis, table: &TableReader) -> Result<Option<TableMeta>> {
        let properties = table.properties();
        let keyspace = properties.keyspace;
        let Some(bounds) = KeyRange::of_file(properties) else {
            return Ok(None);
        };
        if basis.is_dropped(keyspace) {
            return Ok(None);
        }
        let levels = basis.state.version.keyspace(keyspace);
        let form = self.form_of(levels.map(|levels| &**levels));
        let seed = basis.state.identity.hash_seed;
        let mut sink = self
            .table_files(keyspace, form, REBUILT, seed)
            .with_oldest_tombstone(properties.oldest_tombstone_seconds);
        copy_readable(table, &bounds, None, &mut sink)?;
        let copied = sink.finish()?;
        sink.sync()?;
        Ok(copied)
    }

    /// Gives the tables other names once their entries are in others. A damaged one is kept as such.
    pub(super) fn mark_taken(
        &self,
        tables: &[Taken],
        entries_kept: &[u64],
        report: &mut RepairReport,
    ) -> Result<()> {
        for (table, &entries) in tables.iter().zip(entries_kept) {
            let placed = self.placed(table.number, Stage::Unlisted);
            if table.damage.is_none() {
                self.data.rename(placed, Stage::Unlisted, Stage::Taken)?;
            } else {
                let (directory, kept) = self.data.at_stage(placed, Stage::Unlisted)?;
                let aside = rename_damaged(&*directory, &kept)?;
                report.tells_of_taken(table, entries, directory.shown(&aside));
            }
        }
        self.data.sync()
    }
}
