//! The view of a table that `terrace dump` shows, block by block.

use terrace_storage::Purpose;

use super::block_bounds::Contents;
use super::compression::Compression;
use super::reader::TableReader;
use super::walk::BlockRole;
use crate::Result;
use crate::key::SequenceNumber;

/// One block as it lies in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSummary {
    pub role: BlockRole,
    pub offset: u64,
    /// With the block's trailer.
    pub stored_bytes: u64,
    /// Uncompressed.
    pub contents_bytes: u64,
    pub compression: Compression,
    /// 0 for blocks that do not hold entries.
    pub entries: u64,
    /// The first user key and its version.
    pub first_key: Option<(Vec<u8>, SequenceNumber)>,
}

impl TableReader {
    /// Shows every block: data blocks in key order and each partition after those it names, then
    /// top index, filter, sketches, range tombstones and footer.
    pub fn inspect(&self, show: &mut dyn FnMut(BlockSummary) -> Result<()>) -> Result<()> {
        self.walk(&mut |visit| {
            let mut entries = 0;
            let mut first_key = None;
            self.for_each_entry(visit.handle, visit.block, &mut |entry| {
                let key = entry.key();
                first_key.get_or_insert_with(|| (key.user_key.to_vec(), key.sequence()));
                entries += 1;
                Ok(())
            })?;
            show(BlockSummary {
                role: visit.role,
                offset: visit.handle.offset,
                stored_bytes: visit.handle.length_bytes,
                contents_bytes: visit.block.contents_bytes() as u64,
                compression: visit.compression,
                entries,
                first_key,
            })
        })?;
        let properties = self.properties();
        let ranges = properties.range_tombstones.as_ref();
        let sample = properties.key_sample.as_ref();
        let others = [
            (BlockRole::TopIndex, properties.top_index),
            (
                BlockRole::Filter,
                properties.filter.map(|filter| filter.handle),
            ),
            (BlockRole::Sketch, properties.sketch),
            (BlockRole::KeySample, sample.map(|sample| sample.handle)),
            (
                BlockRole::RangeTombstones,
                ranges.map(|ranges| ranges.handle),
            ),
            (BlockRole::Footer, Some(self.footer())),
        ];
        for (role, handle) in others {
            let Some(handle) = handle else { continue };
            let contents = match role {
                BlockRole::TopIndex => Contents::TopIndex,
                BlockRole::KeySample => Contents::Sample,
                BlockRole::RangeTombstones => Contents::Ranges,
                _ => Contents::Plain,
            };
            let unsealed = self.source().read(handle, contents, Purpose::Other)?;
            let of_ranges = ranges.filter(|_| role == BlockRole::RangeTombstones);
            let newest_first = || self.range_tombstones()?.iter().min_by_key(|t| t.start);
            let first = of_ranges.and_then(|_| newest_first());
            show(BlockSummary {
                role,
                offset: handle.offset,
                stored_bytes: handle.length_bytes,
                contents_bytes: unsealed.contents.len() as u64,
                compression: unsealed.compression,
                entries: match role {
                    BlockRole::KeySample => sample.map_or(0, |sample| sample.versions),
                    _ => of_ranges.map_or(0, |ranges| ranges.count),
                },
                first_key: first.map(|first| (first.start.to_vec(), first.sequence)),
            })?;
        }
        Ok(())
    }
}
