//! Bulk loading: sorted entries go straight into tables, past arenas and merges.
//!
//! The entries are written while no writer waits. Then the leader of the commit queue gives all of
//! them one number, the next one, and installs the tables by one edit. The files were written
//! before the number was known, so the manifest carries it. A table that is listed as *assigned*
//! has that number for all its entries, whatever the file says. (The file says the next number when
//! the load began; a repair goes by that if the manifest is lost.)
//!
//! The number has no record in an arena, so recovery must not look for one: the edit says that
//! everything up to it is in tables. To make that true, the leader first has the arenas flushed.
//! Most of their records were flushed before, while others were writing; the rest is small.
//!
//! Nothing in the store is newer than the entries. So the tables may lie as deep as nothing above
//! overlaps them and no merge under way will put something there: sorted loads are never merged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_lsm::compaction::merge::TableSink;
use terrace_lsm::compaction::policy::settings::CompactionPolicy;
use terrace_lsm::compaction::targets::{Shape, Targets};
use terrace_lsm::guard::catch;
use terrace_lsm::key::{InternalKey, Kind, MAX_KEY_BYTES, MIN_OVERLAY_SEQUENCE, Tag};
use terrace_lsm::levels::{Edit, KeyRange, KeyspaceLevels, LEVELS, Place, TableAdded, TableMeta};
use terrace_storage::Purpose;

use crate::db::Store;
use crate::db::keyspace::Keyspace;
use crate::db::keyspaces::live;
use crate::db::table_files::Expected;
use crate::db::table_files::TableFiles;
use crate::db::write::Writer;
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// Sorted entries on their way into a keyspace; see [`Keyspace::ingest`]. No entry is visible
/// before [`Ingestion::finish`], and none is left without it.
pub struct Ingestion<'a> {
    keyspace: &'a Keyspace,
    /// Sequence number that the files give to all entries.
    number: SequenceNumber,
    table_bytes: u64,
    /// The files; `None` when they are settled: finished, or failed.
    sink: Option<TableFiles<'a>>,
    /// Error that made the load useless, if any.
    failure: Option<Error>,
    tables: Vec<TableMeta>,
    last_key: Option<Vec<u8>>,
    user_bytes: u64,
}

impl<'a> Ingestion<'a> {
    pub(crate) fn new(keyspace: &'a Keyspace) -> Result<Self> {
        let store = keyspace.own_store()?;
        store.check_writable()?;
        let _visit = store.files.visitors.enter()?;
        let version = Arc::clone(&store.reads.view.load().version);
        let levels = live(&version, keyspace.id())?;
        // In the form of the level that most data is in. The age is a hint and not known yet.
        let place = Place::base(LEVELS as u8 - 1);
        let table_bytes = store.table_bytes_of(levels)?;
        let expected = Expected {
            bytes: u64::MAX,
            table_bytes,
            makes_room: false,
            max_sequence: None,
        };
        let sink = store.table_files(levels, place, Purpose::Flush, expected);
        Ok(Ingestion {
            keyspace,
            number: store.reads.visible() + 1,
            table_bytes,
            sink: Some(sink.untimed()),
            failure: None,
            tables: Vec::new(),
            last_key: None,
            user_bytes: 0,
        })
    }

    /// Adds an entry after all earlier ones.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the key is not above the last one, or is longer than 65,535
    /// bytes; nothing has changed then. Otherwise those of writing files: the added entries are
    /// gone, and every later call fails with the same error.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_bytes(key.as_ref(), value.as_ref())
    }

    fn put_bytes(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.own_store()?;
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::invalid(format!(
                "the key has {} bytes; keys have at most {MAX_KEY_BYTES}",
                key.len()
            )));
        }
        if self.last_key.as_deref().is_some_and(|last| last >= key) {
            return Err(Error::invalid(format!(
                "the key \"{}\" does not come after the one before it; entries to ingest must be \
                 sorted by key, each key once",
                key.escape_ascii()
            )));
        }
        if let Err(error) = self.add(key, value) {
            // Some entries may be lost: the rest must not pass for the whole.
            self.settle(Err(error.clone()));
            self.failure = Some(error.clone());
            return Err(error);
        }
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.user_bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let _visit = self.keyspace.store().files.visitors.enter()?;
        let failure = self.failure.clone().unwrap_or(Error::Closed);
        let sink = self.sink.as_mut().ok_or(failure)?;
        if sink.table_bytes() >= self.table_bytes {
            self.tables.extend(sink.finish()?);
        }
        let version = InternalKey {
            user_key: key,
            tag: Tag::new(self.number, Kind::Put),
        };
        sink.add(version, value, None)
    }

    /// Keeps the files if they are installed, removes them if not, and leaves them alone if another
    /// owner may have the directory.
    fn settle(&mut self, installed: Result<()>) {
        let Some(sink) = self.sink.take() else { return };
        let store = self.keyspace.store();
        match store.files.visitors.enter() {
            Ok(_visit) => {
                let _ = store.settle_files(sink.into_files(), installed);
            }
            Err(_) => sink.leave(),
        }
    }

    /// Makes the entries visible, all at once, in the place of the keys' earlier versions. They
    /// survive a power cut when this returns, and so does every write before them.
    ///
    /// # Errors
    /// Those of writing files, of flushing, and as [`Db::write`](crate::Db::write). The keyspace is
    /// then as it was, unless the store is poisoned.
    pub fn finish(mut self) -> Result<()> {
        self.keyspace.own_store()?;
        let finished = self.install();
        self.settle(finished.clone());
        finished
    }

    fn install(&mut self) -> Result<()> {
        let store = self.keyspace.store();
        let _visit = store.files.visitors.enter()?;
        let failure = self.failure.clone().unwrap_or(Error::Closed);
        let sink = self.sink.as_mut().ok_or(failure)?;
        self.tables.extend(sink.finish()?);
        let tables = std::mem::take(&mut self.tables);
        if tables.is_empty() {
            return store.check_writable();
        }
        sink.sync()?;
        store.files.data.sync_tiers(sink.tiers())?;
        store.install_ingested(self.keyspace.id(), tables, self.user_bytes)
    }
}

impl Drop for Ingestion<'_> {
    fn drop(&mut self) {
        if self.keyspace.store().lifecycle.is_inherited() {
            // The files are the parent's, which goes on with them.
            return std::mem::forget(self.sink.take());
        }
        // After a panic of the storage a second one would end the process.
        let _ = catch("drop a load", || {
            self.settle(Err(Error::Closed));
            Ok(())
        });
    }
}

impl Store {
    fn install_ingested(
        &self,
        keyspace: KeyspaceId,
        tables: Vec<TableMeta>,
        user_bytes: u64,
    ) -> Result<()> {
        self.flush()?;
        self.as_leader(|writer| {
            self.hold_back(writer, 0)?;
            self.flush_active(writer)?;
            let sequence = writer.last_sequence + 1;
            if sequence >= MIN_OVERLAY_SEQUENCE {
                return Err(Error::invalid(
                    "nearly 2^56 writes: the sequence numbers are used up",
                ));
            }
            let mut ledger = self.manifest_log.ledger.lock();
            live(&ledger.state.version, keyspace)?;
            let name = self
                .compactor
                .next_sub_level
                .fetch_add(1, Ordering::Relaxed);
            let youngest = ledger.state.next_flush_place(keyspace, name);
            let levels = ledger.state.version.keyspace(keyspace);
            let reserve =
                |range: &KeyRange, place| self.compactor.jobs.reserve(keyspace, range, place);
            let (place, _reserved) = levels
                .and_then(|levels| place_of(levels, &tables, self.deepest_place(levels), reserve))
                .unzip();
            let place = place.unwrap_or(youngest);
            let added = |table: TableMeta| TableAdded {
                place,
                table: table.assigned(sequence),
            };
            let edit = Edit {
                tables_added: tables.into_iter().map(added).collect(),
                flushed_sequence: Some(sequence),
                ..Edit::default()
            };
            self.record(&mut ledger, edit)?;
            let version = Arc::clone(&ledger.state.version);
            self.change_view(|view| {
                view.version = version;
                view.flushed_sequence = sequence;
            });
            self.reads.raise_floor(keyspace, sequence);
            self.reads.empty_stretches.forget(keyspace);
            writer.last_sequence = sequence;
            self.metrics
                .counters
                .user_bytes
                .fetch_add(user_bytes, Ordering::Relaxed);
            self.reads.show(sequence);
            Ok(())
        })?;
        self.lifecycle.background.compaction_wanted(self);
        Ok(())
    }

    /// Returns the deepest level that tables may go to. Policies count levels from the deepest
    /// tables, so no load begins a level far below. Only under the leveled policy may it do so,
    /// while no table is below level 0.
    fn deepest_place(&self, levels: &KeyspaceLevels) -> u8 {
        match self.options.compaction_policy {
            CompactionPolicy::Leveled if levels.deepest_level() == 0 => LEVELS as u8 - 1,
            CompactionPolicy::Leveled => {
                Targets::of(levels, Shape::of(self.form_of(levels))).deepest()
            }
            _ => levels.deepest_level().max(1),
        }
    }

    /// Has everything written so far flushed. The caller leads: nothing is written meanwhile.
    fn flush_active(&self, writer: &mut Writer) -> Result<()> {
        if !writer.active.is_empty() {
            self.seal_active(writer)?;
        }
        while self.reads.view.load().memtables.len() > 1 {
            self.lifecycle.background.wait_for_flush(self)?;
            self.check_writable()?;
        }
        Ok(())
    }
}

/// Returns the deepest base, down to a level, where the tables lie below nothing that overlaps them
/// and in no merge's way. Its reservation keeps merges out. `None` if there is none.
fn place_of<R>(
    levels: &KeyspaceLevels,
    tables: &[TableMeta],
    deepest: u8,
    reserve: impl Fn(&KeyRange, Place) -> Option<R>,
) -> Option<(Place, R)> {
    let hull = KeyRange::hull(tables.iter().map(|table| &table.bounds))?;
    let depth = free_depth(levels, &hull).min(deepest + 1);
    // A base is older than everything above it, so every sub-level below must be a base.
    let is_in_order = |place: &Place| {
        let mut deeper = levels.sub_levels().filter(|(p, _)| p.level > place.level);
        deeper.all(|(deeper, _)| deeper.is_base())
    };
    let mut free = (1..depth).rev().map(Place::base).filter(is_in_order);
    free.find_map(|place| Some((place, reserve(&hull, place)?)))
}

/// Returns the number of levels from the top that hold nothing in a range.
fn free_depth(levels: &KeyspaceLevels, range: &KeyRange) -> u8 {
    let is_free = |level: &&terrace_lsm::levels::Level| {
        level.tables().all(|table| !table.bounds.overlaps(range))
    };
    levels.levels.iter().take_while(is_free).count() as u8
}

#[cfg(test)]
mod tests {
    use terrace_lsm::levels::testing::{added, flush_place, levels, sub_level_place, version};

    use super::*;

    #[test]
    fn a_base_above_younger_sub_levels_is_no_place() {
        let version = version(vec![
            added(flush_place(9), 1, "a", "b"),
            added(sub_level_place(2, 3), 2, "a", "b"),
            added(Place::base(4), 3, "a", "b"),
        ]);
        let meta = added(Place::base(1), 4, "p", "q").table;
        let levels = levels(&version);
        let place = |taken: &[Place]| {
            let reserve = |_: &KeyRange, place| (!taken.contains(&place)).then_some(());
            let tables = std::slice::from_ref(&meta);
            place_of(levels, tables, 6, reserve).map(|(place, ())| place)
        };
        let all: Vec<Place> = (2..LEVELS as u8).rev().map(Place::base).collect();
        for taken in 0..all.len() {
            assert_eq!(place(&all[..taken]), Some(all[taken]));
        }
        assert_eq!(place(&all), None, "not level 1");
        let tables = std::slice::from_ref(&meta);
        let place = place_of(levels, tables, 4, |_, _| Some(()));
        assert_eq!(place, Some((Place::base(4), ())), "no deeper");
    }

    #[test]
    fn tables_go_as_deep_as_nothing_overlaps_them() {
        let version = version(vec![
            added(flush_place(1), 1, "p", "q"),
            added(Place::base(2), 2, "a", "c"),
        ]);
        let depth =
            |from: &str, to: &str| free_depth(levels(&version), &KeyRange::inclusive(from, to));
        assert_eq!(depth("d", "e"), LEVELS as u8);
        assert_eq!(depth("b", "e"), 2, "above level 2");
        assert_eq!(depth("o", "p"), 0);
    }
}
