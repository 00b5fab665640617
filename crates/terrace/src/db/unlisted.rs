//! Whole tables that no edit lists, where the end of the manifest was dropped.
//!
//! The end may have listed them: then they hold the only copy of their writes. A power cut between a
//! table's sync and the manifest's leaves the same files. So they prove nothing, and the store opens
//! without them. But it keeps those whose writes are nowhere else, under a name at which no store
//! looks, until a repair takes them in. The store gives neither their numbers nor those of
//! their writes again. So a repair can tell which version of a key is the newer one.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_lsm::data_files::{DataFiles, Placed, Stage};
use terrace_lsm::levels::{ManifestState, ManifestTail};
use terrace_lsm::table::{BlockCache, TableReader};
use terrace_storage::{Directory, Escaped};

use crate::db::file_names;
use crate::{Error, Result, SequenceNumber};

/// The tables in a store's directory that are kept, or are to be.
#[derive(Debug, Default)]
pub struct Unlisted {
    /// Those that have their own names still.
    found: Vec<Placed>,
    /// Those that an earlier opening has kept.
    kept: Vec<Placed>,
    /// Numbers of files that were kept and that are no readable tables of this store, and why.
    pub unreadable: Vec<(u64, Error)>,
    /// The last sequence number in any of them.
    pub(crate) last_sequence: SequenceNumber,
    /// Above the number of every table that is or was put aside.
    pub(crate) next_table_number: u64,
}

impl Unlisted {
    /// Looks for them. `known_sequence` is the last number in listed tables and in the frames of arenas
    /// that are taken. A load's table proves nothing by its number, which is the one that was next when
    /// the load began: other writes may have it.
    pub fn find(
        data: &DataFiles,
        state: &ManifestState,
        is_tail_dropped: bool,
        known_sequence: SequenceNumber,
    ) -> Result<Self> {
        let listed: BTreeSet<u64> = state.version.tables().map(|(_, t)| t.number).collect();
        let mut unlisted = Unlisted::default();
        for (tier, entry) in data.entries()? {
            let name = entry.name.as_str();
            if let Some(number) = file_names::unlisted_table_number(name) {
                let placed = Placed::table(number, tier);
                let own = own_table(data, (placed, Stage::Unlisted), state, false)?;
                unlisted.skip(number, own.as_ref().map_or(0, |own| own.last_sequence));
                match own {
                    Ok(_) => unlisted.kept.push(placed),
                    Err(why) => unlisted.unreadable.push((number, why)),
                }
            } else if let Some(number) = file_names::table_number(name) {
                if is_tail_dropped && !listed.contains(&number) {
                    let placed = Placed::table(number, tier);
                    let own = own_table(data, (placed, Stage::Listed), state, true)?.ok();
                    let may_be_alone =
                        |own: &OwnTable| own.last_sequence > known_sequence || own.may_be_load;
                    if let Some(own) = own.filter(may_be_alone) {
                        unlisted.found.push(placed);
                        unlisted.skip(number, own.last_sequence);
                    }
                }
            } else if let Some(number) = file_names::used_table_number(name) {
                unlisted.skip(number, 0);
            }
        }
        Ok(unlisted)
    }

    /// Notes numbers that are not to be given again: a table's, and the last one in it.
    fn skip(&mut self, table: u64, last_sequence: SequenceNumber) {
        if file_names::leaves_room(table) {
            self.next_table_number = self.next_table_number.max(table + 1);
        }
        self.last_sequence = self.last_sequence.max(last_sequence);
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.kept.is_empty()
    }

    /// Returns whether there are some that no opening has kept yet.
    pub fn is_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Returns the names of their files; after [`Unlisted::keep`] if `is_kept`.
    pub fn names(&self, is_kept: bool) -> Vec<String> {
        let stage = if is_kept {
            Stage::Unlisted
        } else {
            Stage::Listed
        };
        let found = self.found.iter();
        let found = found.map(|placed| placed.file.name(stage));
        let kept = self.kept.iter();
        let kept = kept.map(|placed| placed.file.name(Stage::Unlisted));
        found.chain(kept).collect()
    }

    /// Gives them the names under which they are kept, durably: the manifest that a writer begins next
    /// does not show any more that an end was dropped.
    pub fn keep(&self, data: &DataFiles) -> Result<()> {
        for &placed in &self.found {
            data.rename(placed, Stage::Listed, Stage::Unlisted)?;
        }
        if !self.found.is_empty() {
            data.sync()?;
        }
        Ok(())
    }

    /// Returns the numbers of all.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let all = self.found.iter().chain(&self.kept);
        all.map(|placed| placed.file.number)
    }
}

/// Returns the error of an opening that lacks an arena. It is no lost region if the end of the
/// manifest was dropped and a table is there that it may have listed. A flush removes an arena that
/// is larger than usual or smaller than the next one, and its edit may have been in the end.
pub fn of_missing_arena(
    error: Error,
    (directory, data): (&dyn Directory, &DataFiles),
    state: &ManifestState,
    tail: Option<&ManifestTail>,
) -> Error {
    let (Error::RegionLost { path, .. }, Some(tail)) = (&error, tail) else {
        return error;
    };
    let found = Unlisted::find(data, state, true, state.flushed_sequence);
    if !found.is_ok_and(|unlisted| unlisted.is_found()) {
        return error;
    }
    let detail = format!(
        "its end is dropped, a table is there that it may have listed, and {} is missing, which it may \
         have retired",
        Escaped::path(path)
    );
    Error::corruption(&directory.shown(&tail.file), tail.offset, detail)
}

/// The facts in the footer of a table of this store.
struct OwnTable {
    last_sequence: SequenceNumber,
    /// Whether all entries have one number, and none deletes.
    may_be_load: bool,
}

/// Returns the facts of a table of this store; an error within if it is damaged, or of another
/// store or release. Reads every block if it `is_to_be_whole`; if not, the parts that a salvage
/// needs must be readable.
fn own_table(
    data: &DataFiles,
    (placed, stage): (Placed, Stage),
    state: &ManifestState,
    is_to_be_whole: bool,
) -> Result<std::result::Result<OwnTable, Error>> {
    let blocks = Arc::new(BlockCache::new(0, false));
    let (directory, name) = data.at_stage(placed, stage)?;
    let number = placed.file.number;
    let read = if is_to_be_whole {
        TableReader::open(&*directory, &name, number, blocks).and_then(|reader| {
            reader.verify()?;
            Ok(reader)
        })
    } else {
        TableReader::open_damaged(&*directory, &name, number, blocks)
    };
    let reader = match read {
        Ok(reader) => reader,
        Err(error @ (Error::Corruption { .. } | Error::Unsupported { .. })) => {
            return Ok(Err(error));
        }
        Err(error) => return Err(error),
    };
    let properties = reader.properties();
    if properties.hash_seed != state.identity.hash_seed {
        let detail = "it is another store's table: its keys are hashed with another seed";
        return Ok(Err(Error::corruption(&directory.shown(&name), 0, detail)));
    }
    let deletes = properties.tombstones > 0 || properties.range_tombstones.is_some();
    Ok(Ok(OwnTable {
        last_sequence: properties.largest_sequence,
        may_be_load: !deletes && properties.smallest_sequence == properties.largest_sequence,
    }))
}
