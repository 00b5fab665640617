//! Whole tables that no edit lists, where the end of the manifest was dropped.
//!
//! The end may have listed them: then they hold the only copy of their writes. A power cut between a
//! table's sync and the manifest's leaves the same files. So they prove nothing, and the store opens
//! without them; but it keeps those whose writes are nowhere else, under a name at which no store
//! looks, until a repair takes them in. Neither their numbers nor those of their writes are given
//! again, so that a repair can tell which version of a key is the newer one.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_storage::Directory;

use crate::db::files;
use crate::levels::ManifestState;
use crate::table::{BlockCache, TableReader, table_name};
use crate::{Error, Result, SequenceNumber};

/// The tables in a store's directory that are kept, or are to be.
#[derive(Debug, Default)]
pub(crate) struct Unlisted {
    /// Numbers of those that have their own names still.
    found: Vec<u64>,
    /// Numbers of those that an earlier opening has kept.
    kept: Vec<u64>,
    /// The last sequence number in any of them.
    pub(crate) last_sequence: SequenceNumber,
    /// Above the number of every table that is or was put aside.
    pub(crate) next_table_number: u64,
}

impl Unlisted {
    /// Looks for them. `known_sequence` is the last number in listed tables and in arenas.
    pub(crate) fn find(
        directory: &dyn Directory,
        state: &ManifestState,
        is_tail_dropped: bool,
        known_sequence: SequenceNumber,
    ) -> Result<Self> {
        let listed: BTreeSet<u64> = state.version.tables().map(|(_, t)| t.number).collect();
        let mut unlisted = Unlisted::default();
        for entry in directory.list()? {
            let name = entry.name.as_str();
            if let Some(number) = files::unlisted_table_number(name) {
                let last = own_table(directory, name, number, state, false)?;
                unlisted.kept.extend(last.map(|_| number));
                unlisted.skip(number, last.unwrap_or(0));
            } else if let Some(number) = files::table_number(name) {
                if is_tail_dropped && !listed.contains(&number) {
                    let last = own_table(directory, name, number, state, true)?;
                    if let Some(last) = last.filter(|&last| last > known_sequence) {
                        unlisted.found.push(number);
                        unlisted.skip(number, last);
                    }
                }
            } else if let Some(number) = files::used_table_number(name) {
                unlisted.skip(number, 0);
            }
        }
        Ok(unlisted)
    }

    /// Notes numbers that are not to be given again: a table's, and the last one in it.
    fn skip(&mut self, table: u64, last_sequence: SequenceNumber) {
        self.next_table_number = self.next_table_number.max(table.saturating_add(1));
        self.last_sequence = self.last_sequence.max(last_sequence);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.kept.is_empty()
    }

    /// Whether there are some that no opening has kept yet.
    pub(crate) fn is_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Returns the names of their files; after [`Unlisted::keep`] if `is_kept`.
    pub(crate) fn names(&self, is_kept: bool) -> Vec<String> {
        let name = if is_kept { name_kept } else { table_name };
        let found = self.found.iter().map(|&number| name(number));
        let kept = self.kept.iter().map(|&number| name_kept(number));
        found.chain(kept).collect()
    }

    /// Gives them the names under which they are kept, durably: the manifest that a writer begins next
    /// does not show any more that an end was dropped.
    pub(crate) fn keep(&self, directory: &dyn Directory) -> Result<()> {
        for &number in &self.found {
            directory.rename(&table_name(number), &name_kept(number))?;
        }
        if !self.found.is_empty() {
            directory.sync()?;
        }
        Ok(())
    }

    /// Gives them the names of tables that were taken in, once their entries are in others.
    pub(crate) fn mark_taken(&self, directory: &dyn Directory) -> Result<()> {
        for number in self.numbers() {
            let taken = table_name(number) + files::TAKEN;
            directory.rename(&name_kept(number), &taken)?;
        }
        Ok(directory.sync()?)
    }

    /// Opens them under the names that they are kept by.
    pub(crate) fn open(&self, directory: &dyn Directory) -> Result<Vec<Arc<TableReader>>> {
        let open = |number| {
            let blocks = Arc::new(BlockCache::new(0, false));
            TableReader::open(directory, &name_kept(number), number, blocks)
        };
        self.numbers().map(open).collect()
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.found.iter().chain(&self.kept).copied()
    }
}

fn name_kept(number: u64) -> String {
    table_name(number) + files::UNLISTED
}

/// Returns the last sequence number in a table of this store; `None` if it is damaged, of another
/// store, or empty. Every block is read if it `is_to_be_whole`.
fn own_table(
    directory: &dyn Directory,
    name: &str,
    number: u64,
    state: &ManifestState,
    is_to_be_whole: bool,
) -> Result<Option<SequenceNumber>> {
    let blocks = Arc::new(BlockCache::new(0, false));
    let read = TableReader::open(directory, name, number, blocks).and_then(|reader| {
        if is_to_be_whole {
            reader.verify()?;
        }
        Ok(reader)
    });
    match read {
        Ok(reader) => {
            let properties = reader.properties();
            let is_own = properties.hash_seed == state.identity.hash_seed;
            Ok(is_own.then_some(properties.largest_sequence))
        }
        Err(Error::Corruption { .. } | Error::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
