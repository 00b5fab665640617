//! Tables that openings kept when they dropped the end of the manifest, and that are taken in now.
//!
//! Levels do not tell where such a table belongs, but the numbers of its entries do: none was given
//! again. So its entries go to a new table, and all tables are merged by their numbers.

use std::sync::Arc;

use super::arenas::ArenasFound;
use super::merge::REBUILT;
use super::site::Site;
use super::state::Basis;
use super::tables::copy_readable;
use crate::Result;
use crate::compaction::merge::TableSink;
use crate::db::unlisted::Unlisted;
use crate::levels::{KeyRange, TableMeta};
use crate::table::TableReader;

impl Site {
    /// Returns the tables that were kept, or are to be. Without a manifest all others are taken.
    pub(super) fn unlisted(&self, basis: &Basis, arenas: &ArenasFound) -> Result<Unlisted> {
        let is_tail_dropped = basis.tail().is_some();
        let known = arenas.known_sequence;
        Unlisted::find(&*self.directory, &basis.state, is_tail_dropped, known)
    }

    /// Copies tables into new ones.
    pub(super) fn take_in(
        &self,
        basis: &Basis,
        tables: &[Arc<TableReader>],
    ) -> Result<Vec<TableMeta>> {
        let mut copied = Vec::new();
        for table in tables {
            let properties = table.properties();
            let keyspace = properties.keyspace;
            let Some(bounds) = KeyRange::of_file(properties) else {
                continue;
            };
            if basis.is_dropped(keyspace) {
                continue;
            }
            let levels = basis.state.version.keyspace(keyspace);
            let form = self.form_of(levels.map(|levels| &**levels));
            let seed = basis.state.identity.hash_seed;
            let mut sink = self
                .table_files(keyspace, form, REBUILT, seed)
                .with_oldest_tombstone(properties.oldest_tombstone_seconds);
            copy_readable(table, &bounds, None, &mut sink)?;
            copied.extend(sink.finish()?);
            sink.sync()?;
        }
        Ok(copied)
    }
}
