//! Checks everything that a table promises, from the bytes in the file.
//!
//! Beyond the checksums: blocks lie end to end, so that no byte is outside one unchecked. Only
//! where data blocks keep to pages do zeros stand before the next page. Keys ascend within and
//! across blocks and between the separators of the index. Restart points are entries. The filter
//! admits every key. The sketches and the footer's figures are those of the entries.

use terrace_storage::Purpose;

use super::block::BlockCursor;
use super::filter::{Filter, key_hash};
use super::format::{self, BlockHandle, HEADER_BYTES, Malformed};
use super::reader::{TableReader, read_filter, read_range_tombstones};
use super::sketches::SketchesBuilder;
use super::tally::Tally;
use super::walk::{BlockRole, Visit};
use crate::Result;
use crate::key::InternalKey;
use crate::range_tombstones::RangeTombstones;

/// The findings of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCheck {
    pub entries: u64,
    pub data_blocks: u64,
    pub(crate) index_partitions: u64,
    pub(crate) bytes: u64,
}

impl TableReader {
    /// Reads every block of the file.
    ///
    /// # Errors
    /// The first thing found wrong, with the offset of its block.
    pub fn verify(&self) -> Result<TableCheck> {
        self.verify_in_steps(&mut |_| Ok(()))
    }

    /// Reads every block of the file, and calls `step` after each with its bytes, so that a caller may pause
    /// or give up.
    ///
    /// # Errors
    /// As [`TableReader::verify`], and those of `step`.
    pub fn verify_in_steps(&self, step: &mut dyn FnMut(u64) -> Result<()>) -> Result<TableCheck> {
        let (source, properties) = (self.source(), self.properties());
        let file_bytes = source.file.length_bytes()?;
        source.read_trailer(file_bytes, Purpose::Other)?;
        source.check_header(Purpose::Other)?;
        let filter = read_filter(source, properties, self.footer(), Purpose::Other)?;
        let ranges = read_range_tombstones(source, properties, self.footer(), Purpose::Other)?;
        let mut checker = Checker {
            table: self,
            ranges: ranges.as_ref(),
            filter,
            data_end: HEADER_BYTES as u64,
            partitions: Vec::new(),
            last_key: Vec::new(),
            separator: Vec::new(),
            tally: Tally::default(),
            sketches: SketchesBuilder::new(properties.hash_seed),
            data_blocks: 0,
        };
        self.walk(&mut |visit| {
            checker.visit(visit)?;
            step(visit.handle.length_bytes)
        })?;
        if let Some(ranges) = &ranges {
            let numbers = || ranges.iter().map(|tombstone| tombstone.sequence);
            let (smallest, largest) = (numbers().min(), numbers().max());
            let tally = &mut checker.tally;
            tally.count_sequences(smallest.unwrap_or(0), largest.unwrap_or(0));
        }
        checker.check_places()?;
        checker.check_figures()?;
        checker.check_sketches()?;
        Ok(TableCheck {
            entries: checker.tally.entries,
            data_blocks: checker.data_blocks,
            index_partitions: checker.partitions.len() as u64,
            bytes: file_bytes,
        })
    }
}

struct Checker<'a> {
    table: &'a TableReader,
    ranges: Option<&'a RangeTombstones>,
    filter: Option<Filter>,
    /// Where the next data block must begin.
    data_end: u64,
    partitions: Vec<BlockHandle>,
    /// The last key seen, and the index's key of the last block left; encoded, empty before any.
    last_key: Vec<u8>,
    separator: Vec<u8>,
    tally: Tally,
    sketches: SketchesBuilder,
    data_blocks: u64,
}

impl Checker<'_> {
    fn visit(&mut self, visit: &Visit<'_>) -> Result<()> {
        if let Err(fault) = visit.block.check_restarts() {
            return Err(self.table.source().corruption(visit.handle, fault));
        }
        match visit.role {
            BlockRole::Data => self.visit_data(visit),
            _ => self.visit_partition(visit),
        }
    }

    fn visit_data(&mut self, visit: &Visit<'_>) -> Result<()> {
        let handle = visit.handle;
        if !format::follows(self.data_end, handle.offset) {
            return self.fail(handle, 0, "a data block does not follow the one before");
        }
        let mut padding = vec![0; (handle.offset - self.data_end) as usize];
        if !padding.is_empty() {
            let file = &self.table.source().file;
            file.read_exact_at(&mut padding, self.data_end, Purpose::Other)?;
        }
        if padding.iter().any(|byte| *byte != 0) {
            return self.fail(handle, 0, "before a data block there is more than zeros");
        }
        self.data_end = handle.offset.saturating_add(handle.length_bytes);
        self.data_blocks += 1;
        self.table
            .for_each_entry(handle, visit.block, &mut |entry| self.entry(handle, entry))?;
        if InternalKey::decode(&self.last_key).is_none_or(|last| last > visit.index_key) {
            return self.fail(
                handle,
                0,
                "the index's key of a block is before its last key",
            );
        }
        self.separator.clear();
        visit.index_key.encode_into(&mut self.separator);
        Ok(())
    }

    fn entry(&mut self, handle: BlockHandle, entry: &BlockCursor) -> Result<()> {
        let (key, position) = (entry.key(), entry.position());
        match key.tag.kind() {
            None => return self.fail(handle, position, "an entry is of an unknown kind"),
            Some(kind) if kind.is_of_range() => {
                return self.fail(
                    handle,
                    position,
                    "a range tombstone stands among the entries",
                );
            }
            Some(_) => {}
        }
        if let Some(last) = InternalKey::decode(&self.last_key) {
            if last >= key {
                return self.fail(handle, position, "keys do not ascend");
            }
            let separator = InternalKey::decode(&self.separator).unwrap_or(last);
            if separator > last && separator.user_key >= key.user_key {
                let detail = "the index's key of the block before has or passes this user key";
                return self.fail(handle, position, detail);
            }
        }
        let hash = key_hash(key.user_key, self.table.properties().hash_seed);
        if self.filter.as_ref().is_some_and(|f| !f.may_contain(hash)) {
            return self.fail(handle, position, "the filter denies a key of the table");
        }
        let last = InternalKey::decode(&self.last_key);
        let newer = last.filter(|last| last.user_key == key.user_key);
        let is_new_user_key = newer.is_none();
        let newer = newer.map(|newer| newer.sequence());
        let range = self
            .ranges
            .and_then(|ranges| ranges.oldest_above(key.user_key, key.sequence()));
        let superseded_by = newer.into_iter().chain(range).min();
        self.tally.count(key, entry.value(), superseded_by);
        self.sketches.count(key, entry.value(), is_new_user_key);
        self.last_key.clear();
        key.encode_into(&mut self.last_key);
        Ok(())
    }

    fn visit_partition(&mut self, visit: &Visit<'_>) -> Result<()> {
        if InternalKey::decode(&self.separator) != Some(visit.index_key) {
            let detail = "the top index's key of a partition is not its last";
            return self.fail(visit.handle, 0, detail);
        }
        self.partitions.push(visit.handle);
        Ok(())
    }

    /// Checks the places: behind the data blocks come the partitions, the top index, the filter,
    /// the sketches, the range tombstones and the footer.
    fn check_places(&self) -> Result<()> {
        let properties = self.table.properties();
        let ranges = properties.range_tombstones.as_ref();
        let ranges = ranges.map(|ranges| ranges.handle);
        let sample = properties.key_sample.as_ref();
        let behind = [
            properties.top_index,
            properties.filter.map(|filter| filter.handle),
            properties.sketch,
            sample.map(|sample| sample.handle),
            ranges,
        ];
        let blocks = self.partitions.iter().copied();
        let blocks = blocks.chain(behind.into_iter().flatten());
        let mut expected = self.data_end;
        for handle in blocks.chain([self.table.footer()]) {
            if handle.offset != expected {
                return self.fail(handle, 0, "a block does not follow the one before");
            }
            expected = handle.offset.saturating_add(handle.length_bytes);
        }
        Ok(())
    }

    fn check_figures(&self) -> Result<()> {
        let (properties, tally) = (self.table.properties(), &self.tally);
        let figures_agree = [
            (properties.entries, tally.entries),
            (properties.tombstones, tally.tombstones),
            (properties.user_key_bytes, tally.user_key_bytes),
            (properties.value_bytes, tally.value_bytes),
            (properties.smallest_sequence, tally.smallest_sequence),
            (properties.largest_sequence, tally.largest_sequence),
        ]
        .iter()
        .all(|(stated, found)| stated == found);
        // Tables of before the note have none.
        let noted = properties.superseded;
        let note_agrees = noted.is_none() || noted == tally.superseded;
        let bounds_agree =
            properties.smallest == tally.smallest && properties.largest == self.last_key;
        if figures_agree && note_agrees && bounds_agree {
            return Ok(());
        }
        let detail = "the footer's figures are not those of the entries";
        self.fail(self.table.footer(), 0, detail)
    }

    fn check_sketches(&mut self) -> Result<()> {
        let stated = self.table.sketches(Purpose::Other)?;
        let found = self.sketches.finish();
        let handle = self.table.properties().sketch;
        match handle {
            Some(handle) if stated != found => {
                self.fail(handle, 0, "the sketches are not those of the entries")
            }
            _ => Ok(()),
        }
    }

    fn fail(&self, handle: BlockHandle, position: usize, detail: &'static str) -> Result<()> {
        let fault = Malformed::new(position, detail);
        Err(self.table.source().corruption(handle, fault))
    }
}
