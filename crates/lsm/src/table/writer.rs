//! Writes a table from versions that come in order.
//!
//! Where tables are read past the page cache, a block costs a device a read of each page that it
//! touches. A read of 4 KiB takes 54 us, of 8 KiB 64. So there a block ends before the entry that
//! would take it into one page more. The next one begins with the next page if little is left of
//! this one, else with the entry that lies across. Of records of 100 bytes nearly every block is a
//! page, of 1 KB three in four are read with one page. Blocks of 4 KiB wherever they fall take two.
//! Blocks that are compressed are cut as elsewhere: their length is not known before.

use std::sync::Arc;

use terrace_storage::{self as storage, File, FilePlace, OpenMode, OpenOptions};

use super::block_builder::BlockBuilder;
use super::compression::{Compression, Sealer, seal_plain};
use super::filter::FilterBuilder;
use super::format::{
    self, BLOCK_TRAILER_BYTES, BlockHandle, MAX_VALUE_BYTES, PAGE_BYTES, TRAILER_BYTES,
};
use super::index_builder::{INDEX_RESTART_INTERVAL, IndexBuilder};
use super::key_sample::SampleSummary;
use super::properties::{FilterPlace, TableOptions, TableProperties};
use super::range_block::{RangeBuilder, RangeSummary};
use super::sketches::{Sketches, SketchesBuilder};
use super::tally::Tally;
use super::times::{TableTimes, WriteTimes};
use crate::guard::catch;
use crate::key::{InternalKey, MAX_KEY_BYTES, SequenceNumber};
use crate::sync::Instant;
use crate::things::things;
use crate::time_profile::{Stage, stage};
use crate::{Error, Result};

/// Bytes that are gathered before they are written: whole pages, so that none is written twice, or by
/// way of the page cache where others are not.
const WRITE_BYTES: usize = 256 * 1024;
/// The same where a write waits for the device.
const DIRECT_WRITE_BYTES: usize = 1 << 20;
/// Bytes after which they are sent on to the medium, so that the sync at the end finds little left.
const WRITE_BACK_BYTES: u64 = 1 << 20;

/// A table being written. If it is dropped before [`TableWriter::finish_unsynced`] it removes its
/// file, and leaves it to the next open to do so where that fails.
pub struct TableWriter {
    place: Arc<dyn FilePlace>,
    name: String,
    output: Output,
    options: TableOptions,
    sealer: Sealer,
    data: BlockBuilder,
    index: IndexBuilder,
    /// Has each user key.
    filter: FilterBuilder,
    sketches: SketchesBuilder,
    ranges: RangeBuilder,
    tally: Tally,
    finished: bool,
}

impl TableWriter {
    /// Creates the file; an existing one is an error.
    pub fn create(place: Arc<dyn FilePlace>, name: String, options: TableOptions) -> Result<Self> {
        let sealer = Sealer::new(options.compression).map_err(|error| {
            storage::Error::new(storage::Operation::Open, &place.shown(&name), error)
        })?;
        let open_options = OpenOptions {
            direct: options.direct,
            ..OpenOptions::buffered(OpenMode::CreateNew)
        };
        let file = place.open(&name, open_options)?;
        let write_bytes = if options.direct {
            DIRECT_WRITE_BYTES
        } else {
            WRITE_BYTES
        };
        let mut output = Output {
            file,
            buffer: Vec::with_capacity(write_bytes + 2 * options.block_bytes),
            write_bytes,
            written_bytes: 0,
            sent_bytes: 0,
            times: None,
        };
        output.buffer.extend_from_slice(&format::HEADER.encode());
        Ok(TableWriter {
            place,
            name,
            output,
            sealer,
            data: BlockBuilder::new(options.restart_interval),
            index: IndexBuilder::new(options.block_bytes),
            filter: FilterBuilder::default(),
            sketches: SketchesBuilder::new(options.hash_seed),
            ranges: RangeBuilder::default(),
            tally: Tally::default(),
            finished: false,
            options,
        })
    }

    /// Returns the same, and has its writes timed for a level.
    pub fn timed(mut self, level: u8, times: Arc<dyn TableTimes>) -> Self {
        self.output.times = Some(WriteTimes { level, times });
        self
    }

    /// Adds a version, which must come after the last one added.
    pub fn add(&mut self, key: InternalKey<'_>, value: &[u8]) -> Result<()> {
        self.add_under(key, value, None)
    }

    /// Adds a version like [`TableWriter::add`]. `range` is the lowest number above its own of a range
    /// tombstone over its key that the table will hold.
    pub fn add_under(
        &mut self,
        key: InternalKey<'_>,
        value: &[u8],
        range: Option<SequenceNumber>,
    ) -> Result<()> {
        if key.user_key.len() > MAX_KEY_BYTES || value.len() as u64 > MAX_VALUE_BYTES {
            return Err(Error::invalid(format!(
                "a table cannot hold a key of {} with a value of {}",
                things(key.user_key.len(), "byte"),
                things(value.len(), "byte")
            )));
        }
        let last = self.data.last_key();
        let is_first = self.tally.entries == 0;
        if !is_first && last >= key {
            return Err(Error::invalid(format!(
                "{key:?} was added to a table after {last:?}"
            )));
        }
        let new_user_key = is_first || last.user_key != key.user_key;
        let newer = (!new_user_key).then(|| last.sequence());
        let superseded_by = newer.into_iter().chain(range).min();
        if self.ends_before(key, value) {
            self.end_data_block(Some(key))?;
        }
        let hash = self.sketches.count(key, value, new_user_key);
        if new_user_key && !self.options.filter.is_none() {
            self.filter.add(hash);
        }
        self.tally.count(key, value, superseded_by);
        self.data.add(key, value);
        Ok(())
    }

    /// Returns whether the block is to end before an entry.
    fn ends_before(&self, key: InternalKey<'_>, value: &[u8]) -> bool {
        let block_bytes = self.options.block_bytes;
        self.data.length_bytes() >= block_bytes
            || key.user_key.len() + value.len() >= block_bytes
            || self.keeps_to_pages() && !self.data.is_empty() && {
                let start = self.output.offset();
                let pages = ((block_bytes as u64 + PAGE_BYTES / 2) / PAGE_BYTES).max(1);
                let pages_end = (start / PAGE_BYTES + pages) * PAGE_BYTES;
                let stored_bytes = self.data.length_with(key, value) + BLOCK_TRAILER_BYTES;
                start + stored_bytes as u64 > pages_end
            }
    }

    /// Returns whether blocks keep to pages: see the head of the file.
    fn keeps_to_pages(&self) -> bool {
        self.options.direct && self.options.compression == Compression::None
    }

    /// Adds a range tombstone, which must come after the last one added: by start, then from the
    /// newest. Where it stands among the versions does not matter.
    pub fn add_range_tombstone(
        &mut self,
        start: &[u8],
        end: &[u8],
        sequence: SequenceNumber,
    ) -> Result<()> {
        self.ranges.add(start, end, sequence)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tally.entries == 0 && self.ranges.is_empty()
    }

    /// Returns about the length that the file would have if it were finished now.
    pub fn estimated_bytes(&self) -> u64 {
        let filter_bits = self.filter.count() as f64 * self.options.filter.bits_per_key;
        let pending =
            self.data.length_bytes() + self.index.length_bytes() + self.ranges.length_bytes();
        self.output.offset() + pending as u64 + filter_bits as u64 / 8
    }

    /// Returns the number of keys that the table's filter will have.
    pub fn filter_keys(&self) -> u64 {
        self.filter.count() as u64
    }

    /// Writes the rest and syncs the file. The caller makes its name durable by syncing the
    /// directory. A table without entries is an error; any error removes the file.
    #[cfg(test)]
    pub(crate) fn finish(self) -> Result<TableProperties> {
        let purpose = self.options.purpose;
        let (properties, file) = self.finish_unsynced()?;
        file.sync(purpose)?;
        Ok(properties)
    }

    /// Ends the writing and leaves the file as it is, for other code to remove.
    pub fn leave(mut self) {
        self.finished = true;
    }

    /// Writes the rest and gives the file to the caller, who syncs or removes it. Any error removes
    /// the file.
    pub fn finish_unsynced(mut self) -> Result<(TableProperties, Arc<dyn File>)> {
        if self.is_empty() {
            return Err(Error::invalid("a table needs at least one entry"));
        }
        let mut largest = Vec::new();
        let (mut top_index, mut filter) = (None, None);
        let (mut sketch, mut key_sample) = (None, None);
        if self.tally.entries > 0 {
            self.data.last_key().encode_into(&mut largest);
            self.end_data_block(None)?;
            top_index = Some(self.write_index()?);
            filter = self.write_filter()?;
            (sketch, key_sample) = self.write_sketches();
        }
        let range_tombstones = self.write_range_tombstones();
        let tally = std::mem::take(&mut self.tally);
        let mut properties = TableProperties {
            keyspace: self.options.keyspace,
            entries: tally.entries,
            tombstones: tally.tombstones,
            user_key_bytes: tally.user_key_bytes,
            value_bytes: tally.value_bytes,
            smallest: tally.smallest,
            largest,
            smallest_sequence: tally.smallest_sequence,
            largest_sequence: tally.largest_sequence,
            hash_seed: self.options.hash_seed,
            identity: self.options.identity,
            age_hint: self.options.age_hint,
            compression: self.options.compression,
            top_index,
            filter,
            sketch,
            key_sample,
            oldest_tombstone_seconds: self
                .options
                .oldest_tombstone_seconds
                .filter(|_| tally.tombstones > 0 || range_tombstones.is_some()),
            range_tombstones,
            superseded: tally.superseded,
            file_bytes: 0,
        };
        let offset = self.output.offset();
        let footer = seal_plain(&properties.encode(), offset, &mut self.output.buffer);
        let trailer = format::encode_trailer(footer, self.output.offset());
        debug_assert_eq!(trailer.len(), TRAILER_BYTES);
        self.output.buffer.extend_from_slice(&trailer);
        properties.file_bytes = self.output.offset();
        self.output.write_all(self.options.purpose)?;
        self.finished = true;
        Ok((properties, Arc::clone(&self.output.file)))
    }

    /// Ends the data block, if it has entries, before `next`.
    fn end_data_block(&mut self, next: Option<InternalKey<'_>>) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let offset = self.output.offset();
        let handle = self
            .data
            .finish(|contents| self.sealer.seal(contents, offset, &mut self.output.buffer));
        self.index.add(self.data.last_key(), next, handle);
        if next.is_some() && self.keeps_to_pages() {
            self.output.pad();
        }
        self.output.write_if_large(self.options.purpose)
    }

    /// Writes the partitions and the top index over them.
    fn write_index(&mut self) -> Result<BlockHandle> {
        let mut top = BlockBuilder::new(INDEX_RESTART_INTERVAL);
        let mut value = Vec::new();
        for (last_key, contents) in self.index.take_partitions() {
            let offset = self.output.offset();
            let handle = self.sealer.seal(&contents, offset, &mut self.output.buffer);
            self.output.write_if_large(self.options.purpose)?;
            value.clear();
            handle.encode_into(&mut value);
            if let Some(key) = InternalKey::decode(&last_key) {
                top.add(key, &value);
            }
        }
        let offset = self.output.offset();
        Ok(top.finish(|contents| self.sealer.seal(contents, offset, &mut self.output.buffer)))
    }

    fn write_range_tombstones(&mut self) -> Option<RangeSummary> {
        let offset = self.output.offset();
        let (sealer, buffer) = (&mut self.sealer, &mut self.output.buffer);
        let write = |contents: &[u8]| sealer.seal(contents, offset, buffer);
        let summary = self.ranges.finish(write)?;
        let (smallest, largest) = (self.ranges.smallest_sequence, self.ranges.largest_sequence);
        self.tally.count_sequences(smallest, largest);
        Some(summary)
    }

    fn write_sketches(&mut self) -> (Option<BlockHandle>, Option<SampleSummary>) {
        let Sketches { keys, sample } = self.sketches.finish();
        let offset = self.output.offset();
        let sketch = seal_plain(&keys.encode(), offset, &mut self.output.buffer);
        let offset = self.output.offset();
        let (sealer, buffer) = (&mut self.sealer, &mut self.output.buffer);
        let sample = sample.write(|contents| sealer.seal(contents, offset, buffer));
        (Some(sketch), sample)
    }

    fn write_filter(&mut self) -> Result<Option<FilterPlace>> {
        if self.options.filter.is_none() {
            return Ok(None);
        }
        let (kind, contents) = {
            let _build = stage(Stage::FilterBuild);
            self.filter.build(self.options.filter)
        };
        let offset = self.output.offset();
        let handle = seal_plain(&contents, offset, &mut self.output.buffer);
        self.output.write_if_large(self.options.purpose)?;
        Ok(Some(FilterPlace { kind, handle }))
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if !self.finished {
            // After a panic of the storage a second one would end the process.
            let _ = catch("remove", || Ok(self.place.remove(&self.name)?));
        }
    }
}

/// The file and the bytes that are not yet written to it.
struct Output {
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    /// Bytes that are gathered before a write.
    write_bytes: usize,
    written_bytes: u64,
    /// Bytes whose write-back was started.
    sent_bytes: u64,
    /// `None` if nobody wants times: reading the clock costs, too.
    times: Option<WriteTimes>,
}

impl Output {
    /// Returns the offset of the next byte.
    fn offset(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    /// Fills up a page of which little is left.
    fn pad(&mut self) {
        let padding = format::padding_behind(self.offset()) as usize;
        self.buffer.resize(self.buffer.len() + padding, 0);
    }

    fn write_if_large(&mut self, purpose: storage::Purpose) -> Result<()> {
        // At once, however much it is: the rest moves to the front.
        let whole_bytes = self.buffer.len() - self.buffer.len() % self.write_bytes;
        if whole_bytes == 0 {
            return Ok(());
        }
        self.write(whole_bytes, purpose)
    }

    fn write_all(&mut self, purpose: storage::Purpose) -> Result<()> {
        self.write(self.buffer.len(), purpose)
    }

    /// Writes the first `bytes` of the gathered ones.
    fn write(&mut self, bytes: usize, purpose: storage::Purpose) -> Result<()> {
        {
            // The call itself is a stage inside: the rest is waiting.
            let _waiting = stage(Stage::WriteRate);
            let first = self.buffer.get(..bytes).unwrap_or(&self.buffer);
            let timed = self.times.as_ref().map(|times| (times, Instant::now()));
            self.file.write_at(first, self.written_bytes, purpose)?;
            if let Some((times, began)) = timed {
                times.record(purpose, began);
            }
        }
        self.written_bytes += bytes as u64;
        self.buffer.drain(..bytes);
        let unsent_bytes = self.written_bytes - self.sent_bytes;
        if unsent_bytes >= WRITE_BACK_BYTES {
            // A hint: the sync does all that it cannot do.
            let _ = self.file.start_write_back(self.sent_bytes, unsent_bytes);
            self.sent_bytes = self.written_bytes;
        }
        Ok(())
    }
}
