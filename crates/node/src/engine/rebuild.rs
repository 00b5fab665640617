//! Homes of small values and blocks in use, which follow from the index.

use std::collections::BTreeMap;

use super::recovery::{Recovery, new_space};
use super::ring::{Ring, place_of};
use super::segments::Segments;
use crate::block::Extent;
use crate::format::cell::{SegmentImage, cell_bytes};
use crate::format::checkpoint::CheckpointHeader;
use crate::format::journal::{Change, read_block};
use crate::format::location::CellLocation;
use crate::index::{Place, WalkCursor};
use crate::space::Space;
use crate::{Error, Key, Result};

/// The most entries of one step of a walk.
const MAX_ENTRIES: usize = 1 << 16;
/// Segments that are rebuilt at one time.
const MAX_IMAGES: usize = 16;

impl Recovery<'_> {
    /// Writes the homes of small values that the journal holds, where a crash left them unwritten.
    pub(super) fn rebuild_segments(&mut self, header: &CheckpointHeader, end: u64) -> Result<()> {
        let mut images: BTreeMap<u64, SegmentImage> = BTreeMap::new();
        let mut blocks = Ring::new(self.description.journal, header.journal_number);
        for number in header.journal_number..end {
            let offset = place_of(self.description.journal, number);
            let Some(block) = blocks.next(&mut self.device)? else {
                break;
            };
            let block = block.to_vec();
            let Some(read) = read_block(&block, self.secret(), number, offset)? else {
                break;
            };
            for record in read.records(&self.bounds) {
                let record = record?;
                let Change::Inline { home, value } = record.what else {
                    continue;
                };
                if !self.lives_at(&record.key, home, record.checksum as u32) {
                    continue;
                }
                if !images.contains_key(&home.segment()) {
                    if images.len() >= MAX_IMAGES
                        && let Some((_, image)) = images.pop_first()
                    {
                        self.write_image(image)?;
                    }
                    let bytes = self.device.read(&[home.segment_extent()])?;
                    let image = SegmentImage::new(bytes, self.description.secret, home.segment());
                    images.insert(home.segment(), image);
                }
                if let Some(image) = images.get_mut(&home.segment()) {
                    image.put(home, &record.key, record.sequence, value);
                }
            }
        }
        images
            .into_values()
            .try_for_each(|image| self.write_image(image))
    }

    fn write_image(&mut self, image: SegmentImage) -> Result<()> {
        let extent = image.extent();
        match image.changed(self.sequence) {
            Some(bytes) => self.device.write(&[extent], bytes),
            None => Ok(()),
        }
    }

    fn lives_at(&self, key: &Key, home: CellLocation, check: u32) -> bool {
        let hash = self.index.hash(key);
        let found = self.index.partition(hash).lock().get(hash, key);
        found.is_some_and(|found| found.place == Place::Cell(home) && found.check == check)
    }

    /// Finds out which blocks are in use.
    pub(super) fn count_space(&mut self) -> Result<(Space, Segments)> {
        let space = new_space(self.description);
        let segments = Segments::new(self.secret());
        let mut live: BTreeMap<u64, u32> = BTreeMap::new();
        let mut trouble = None;
        let mut cursor = WalkCursor::default();
        let mut reserve = |extent: Extent, key: &Key| {
            if space.reserve(extent).is_err() && trouble.is_none() {
                let what = format!("{extent} hold the value of {key:?} and another one's");
                trouble = Some(Error::damaged(extent.offset(), what));
            }
        };
        let mut done = false;
        while !done {
            done = self
                .index
                .walk(&mut cursor, MAX_ENTRIES, |key, found| match &found.place {
                    Place::Extents(extents) => {
                        extents.iter().for_each(|extent| reserve(extent, key))
                    }
                    Place::Cell(location) => {
                        let bytes = live.entry(location.segment()).or_insert_with(|| {
                            reserve(location.segment_extent(), key);
                            0
                        });
                        *bytes += cell_bytes(found.value_bytes as usize) as u32;
                    }
                });
        }
        if let Some(error) = trouble {
            return Err(error);
        }
        for (segment, bytes) in live {
            segments.adopt(segment, bytes);
        }
        Ok((space, segments))
    }
}
