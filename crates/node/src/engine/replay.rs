//! The journal's records, applied from the checkpoint on.

use std::collections::VecDeque;

use super::journal::Journal;
use super::recovery::Recovery;
use super::ring::{Ring, place_of};
use super::values::verify_value;
use crate::block::Buffer;
use crate::format::cell::{cell_blocks, read_cell};
use crate::format::checkpoint::CheckpointHeader;
use crate::format::journal::{Change, JournalBlock, Record, read_any_block, read_block};
use crate::format::value::{piece_checksums, value_checksum};
use crate::index::{Found, Place};
use crate::{Error, Result};

impl Recovery<'_> {
    /// Applies the journal's records from the checkpoint on.
    pub(super) fn replay(&mut self, header: &CheckpointHeader) -> Result<Journal> {
        let mut waiting: VecDeque<(u64, Buffer)> = VecDeque::new();
        let mut previous = header.journal_previous;
        self.mark = header.journal_number;
        let mut next = header.journal_number;
        let mut in_doubt = false;
        let mut blocks = Ring::new(self.description.journal, next);
        while let Some(block) = blocks.next(&mut self.device)? {
            let offset = place_of(self.description.journal, next);
            let Some(read) = chained(block, self.description.secret, next, previous, offset) else {
                self.check_end(block, next)?;
                break;
            };
            (previous, self.mark) = (read.checksum, self.mark.max(read.durable));
            in_doubt = read.count > 0 || read.durable < next;
            let mut copy = Buffer::zeroed(1);
            copy.copy_from_slice(block);
            waiting.push_back((next, copy));
            next += 1;
            while waiting
                .front()
                .is_some_and(|(number, _)| *number < self.mark)
            {
                if let Some((number, block)) = waiting.pop_front() {
                    self.apply(&block, number, false)?;
                }
            }
        }
        while let Some(block) = blocks.next(&mut self.device)? {
            self.check_end(block, next)?;
        }
        for (number, block) in waiting {
            self.apply(&block, number, true)?;
        }
        let ring = self.description.journal;
        let mut journal = Journal::new(self.secret(), ring, header, next, previous);
        if !in_doubt {
            journal.marked = next;
        }
        Ok(journal)
    }

    /// Applies one block's records, each only with its value if `verify` is set.
    fn apply(&mut self, block: &[u8], number: u64, verify: bool) -> Result<()> {
        let offset = place_of(self.description.journal, number);
        let Some(read) = read_block(block, self.secret(), number, offset)? else {
            return Ok(());
        };
        for record in read.records(&self.bounds) {
            let record = record?;
            self.sequence = self.sequence.max(record.sequence);
            if verify && !self.value_is_there(&record)? {
                self.skipped.insert(record.key);
                continue;
            }
            let place = match record.what {
                Change::Extents(extents) => Place::Extents(extents),
                Change::Inline { home, .. } => Place::Cell(home),
                Change::Cell(location) => Place::Cell(location),
                Change::Delete => {
                    let hash = self.index.hash(&record.key);
                    self.index.partition(hash).lock().remove(hash, &record.key);
                    continue;
                }
            };
            let found = Found {
                value_bytes: record.value_bytes,
                check: record.checksum as u32,
                place,
            };
            self.set(&record.key, found, offset)?;
        }
        Ok(())
    }

    /// Returns true if the device holds the value of a record.
    fn value_is_there(&mut self, record: &Record<'_>) -> Result<bool> {
        match &record.what {
            Change::Inline { .. } | Change::Delete => Ok(true),
            Change::Cell(location) => {
                let secret = self.secret();
                let (extent, _) = cell_blocks(*location, record.value_bytes);
                let bytes = self.device.read(&[extent])?;
                Ok(read_cell(&bytes, secret, *location).is_ok_and(|cell| {
                    let check = value_checksum(secret, &piece_checksums(secret, cell.value));
                    cell.key == record.key
                        && cell.value.len() == record.value_bytes as usize
                        && check as u32 == record.checksum as u32
                }))
            }
            Change::Extents(extents) => {
                let found = Found {
                    value_bytes: record.value_bytes,
                    check: record.checksum as u32,
                    place: Place::Extents(extents.clone()),
                };
                verify_value(&mut self.device, self.description, &record.key, &found)
                    .map(|damage| damage.is_none())
            }
        }
    }

    /// Checks that a block does not say that the journal goes on behind `end`: a flush that covered the
    /// block there means that it is damaged, and no crash has lost it. Blocks that a crash left behind
    /// a lost one have no such mark.
    fn check_end(&self, block: &[u8], end: u64) -> Result<()> {
        let read = read_any_block(block, self.description.secret);
        if read.is_none_or(|read| read.durable <= end) {
            return Ok(());
        }
        Err(Error::damaged(
            place_of(self.description.journal, end),
            format!(
                "block {end} of the journal is damaged, and changes behind it cannot be read; \
                 `recover --scan` rebuilds the index from the values"
            ),
        ))
    }
}

/// Returns a block of the journal if it is the one behind the block with the checksum `previous`.
fn chained(
    block: &[u8],
    secret: u64,
    number: u64,
    previous: u64,
    offset: u64,
) -> Option<JournalBlock<'_>> {
    let read = read_block(block, secret, number, offset).ok().flatten()?;
    (read.previous == previous).then_some(read)
}
