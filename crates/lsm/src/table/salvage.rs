//! The entries that can still be read of a table with damaged blocks.

use std::sync::Arc;

use terrace_storage::Purpose;

use super::block::BlockCursor;
use super::block_bounds::Contents;
use super::format::{Ascending, BlockHandle};
use super::reader::{CursorOptions, TableReader};
use crate::key::{InternalKey, Kind};
use crate::{Error, Result};

impl TableReader {
    /// Gives `take` the entries of the blocks that are whole, in order.
    ///
    /// # Errors
    /// A failed read, and the first error of `take`. Damage is none.
    pub fn salvage(
        &self,
        mut take: impl FnMut(InternalKey<'_>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let options = CursorOptions {
            ask_cache: false,
            ..CursorOptions::uncached(Purpose::Recovery)
        };
        let mut last_key = Vec::new();
        let (mut partitions, mut blocks) = (Ascending::default(), Ascending::default());
        for at in 0..self.top_index().len() {
            if !self
                .top_index()
                .child(at)
                .is_some_and(|handle| partitions.takes(handle))
            {
                continue;
            }
            let partition = match self.partition(at, options) {
                Ok(Some(partition)) => partition,
                Ok(None) => break,
                Err(error) => {
                    forgive_damage(error)?;
                    continue;
                }
            };
            for handle in (0..partition.len()).filter_map(|at| partition.child(at)) {
                if !blocks.takes(handle) {
                    continue;
                }
                let read = self.salvage_block(handle, &mut last_key, &mut take);
                read.or_else(forgive_damage)?;
            }
        }
        Ok(())
    }

    /// Takes all entries of a block, or none: the contents of a block that does not check are not
    /// believed.
    fn salvage_block(
        &self,
        handle: BlockHandle,
        last_key: &mut Vec<u8>,
        take: &mut impl FnMut(InternalKey<'_>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let block = Arc::new(self.source().read_block(
            handle,
            Contents::Data,
            Purpose::Recovery,
        )?);
        let properties = self.properties();
        let sequences = properties.smallest_sequence..=properties.largest_sequence;
        let (mut is_sound, mut last) = (true, last_key.clone());
        self.for_each_entry(handle, &block, &mut |entry| {
            let key = entry.key();
            let is_known = key.tag.kind().is_some_and(Kind::is_entry);
            let ascends = InternalKey::decode(&last).is_none_or(|last| last < key);
            is_sound &= is_known && ascends && sequences.contains(&key.sequence());
            last.clear();
            key.encode_into(&mut last);
            Ok(())
        })?;
        if !is_sound {
            let detail = "its entries are not those of a table";
            return Err(Error::corruption(self.path(), handle.offset, detail));
        }
        *last_key = last;
        let mut cursor = BlockCursor::new(block);
        let corruption = |fault| self.source().corruption(handle, fault);
        cursor.seek_to_first().map_err(corruption)?;
        while cursor.valid() {
            take(cursor.key(), cursor.value())?;
            cursor.next().map_err(corruption)?;
        }
        Ok(())
    }
}

/// Goes on behind damage, and behind nothing else.
pub(super) fn forgive_damage(error: Error) -> Result<()> {
    match error {
        Error::Corruption { .. } => Ok(()),
        error => Err(error),
    }
}
