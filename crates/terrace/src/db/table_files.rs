//! Tables being written, and tables written that nobody lists yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_storage::{File, Purpose, Storage};

use crate::compaction::merge::TableSink;
use crate::db::Store;
use crate::key::InternalKey;
use crate::levels::{KeyRange, KeyspaceLevels, Place, TableMeta};
use crate::options::keyspace::KeyspaceOptions;
use crate::table::{TableOptions, TableWriter, table_path};
use crate::{KeyspaceId, Result, SequenceNumber};

/// The device class of the store's own directory.
const OWN_DIRECTORY: u8 = 1;

/// Files that no edit names yet. Whoever holds them settles them.
pub(crate) struct NewFiles {
    purpose: Purpose,
    /// Every file begun, finished or not.
    numbers: Vec<u64>,
    /// Those that are finished and not synced.
    unsynced: Vec<Arc<dyn File>>,
}

impl NewFiles {
    /// Makes the files durable. Their names are made so by syncing the directory.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for file in self.unsynced.drain(..) {
            file.sync(self.purpose)?;
        }
        Ok(())
    }
}

impl Store {
    /// Removes a finished file of a keyspace that was dropped meanwhile.
    pub(crate) fn remove_unlisted(&self, number: u64) {
        self.tables.remove(number);
        let _ = self.storage.remove(&table_path(&self.path, number));
    }

    /// Removes the files if they were not installed. After a poisoned edit they stay: it is not
    /// known whether the manifest lists them.
    pub(crate) fn settle_files<T>(&self, files: NewFiles, installed: Result<T>) -> Result<T> {
        drop(files.unsynced);
        if installed.is_err() && self.poisoned().is_none() {
            for number in files.numbers {
                self.remove_unlisted(number);
            }
        }
        installed
    }
}

/// Writes tables for one place of one keyspace.
pub(crate) struct TableFiles<'a> {
    store: &'a Store,
    keyspace: KeyspaceId,
    form: KeyspaceOptions,
    place: Place,
    open: Option<(u64, TableWriter<'a>)>,
    files: NewFiles,
}

impl<'a> TableFiles<'a> {
    pub(crate) fn new(
        store: &'a Store,
        levels: &KeyspaceLevels,
        place: Place,
        purpose: Purpose,
    ) -> Self {
        TableFiles {
            store,
            keyspace: levels.id,
            form: store.form_of(levels).clone(),
            place,
            open: None,
            files: NewFiles {
                purpose,
                numbers: Vec::new(),
                unsynced: Vec::new(),
            },
        }
    }

    /// Ends the writing: what is unfinished is removed.
    pub(crate) fn into_files(self) -> NewFiles {
        drop(self.open);
        self.files
    }

    /// Ends the writing and touches no file any more: the directory is not this store's.
    pub(crate) fn leave(self) {
        if let Some((_, writer)) = self.open {
            writer.leave();
        }
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        self.files.sync()
    }

    /// Makes the finished files durable if more than a few wait, which hold a descriptor each.
    pub(crate) fn sync_if_many(&mut self) -> Result<()> {
        const MOST_UNSYNCED: usize = 4;
        if self.files.unsynced.len() > MOST_UNSYNCED {
            self.files.sync()?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<&mut TableWriter<'a>> {
        if self.open.is_none() {
            let store = self.store;
            let number = store.next_table.fetch_add(1, Ordering::Relaxed);
            self.files.numbers.push(number);
            let form = &self.form;
            let options = TableOptions {
                block_bytes: form.block_bytes,
                restart_interval: form.restart_interval,
                compression: form.compression_of(usize::from(self.place.level)),
                filter_bits_per_key: form.filter_bits_per_key,
                hash_seed: store.hash_seed,
                keyspace: self.keyspace,
                age_hint: self.place.age,
                purpose: self.files.purpose,
            };
            let path = table_path(&store.path, number);
            self.open = Some((number, TableWriter::create(&*store.storage, path, options)?));
        }
        match &mut self.open {
            Some((_, writer)) => Ok(writer),
            None => Err(crate::Error::Closed),
        }
    }
}

impl TableSink for TableFiles<'_> {
    type Table = TableMeta;

    fn add(&mut self, key: InternalKey<'_>, value: &[u8]) -> Result<()> {
        self.begin()?.add(key, value)
    }

    fn add_range_tombstone(
        &mut self,
        start: &[u8],
        end: &[u8],
        sequence: SequenceNumber,
    ) -> Result<()> {
        self.begin()?.add_range_tombstone(start, end, sequence)
    }

    fn table_bytes(&self) -> u64 {
        self.open
            .as_ref()
            .map_or(0, |(_, writer)| writer.estimated_bytes())
    }

    fn finish(&mut self) -> Result<Option<TableMeta>> {
        let Some((number, writer)) = self.open.take() else {
            return Ok(None);
        };
        let (properties, file) = writer.finish_unsynced()?;
        self.files.unsynced.push(file);
        let bounds = KeyRange::of_file(&properties);
        Ok(Some(TableMeta {
            number,
            keyspace: self.keyspace,
            size_bytes: properties.file_bytes,
            entries: properties.entries,
            tombstones: properties.tombstones,
            range_tombstones: properties.range_tombstones(),
            bounds: bounds.ok_or_else(|| crate::Error::invalid("a table without keys"))?,
            narrowed: false,
            min_sequence: properties.smallest_sequence,
            max_sequence: properties.largest_sequence,
            assigned: false,
            tier: OWN_DIRECTORY,
        }))
    }
}
