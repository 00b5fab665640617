//! A cache file at an opening: the one of before is taken, or a new one is made. A fault means no cache, or an empty
//! one, and never an error.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_lsm::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_lsm::sync::{ArcSwap, Condvar, Mutex};
use terrace_lsm::table::BlockCache;
use terrace_storage::{Directory, ErrorKind, File, OpenMode, OpenOptions, Purpose};

use super::admission::Sketch;
use super::file::CacheFile;
use super::format::{Geometry, HEADER_BYTES, Owner, encode_header, is_foreign, is_header_of};
use super::index::{Index, Place};
use super::queue::Queue;
use super::writer::Writer;
use super::{Counts, TierCache, Writes};
use crate::db::file_names::CACHE;

/// Reads that a block of a restart is taken to have had: it was worth its place before.
const FOUND_READS: usize = 2;

/// The parts of an opening that all caches of a store share.
pub(super) struct Opening<'a> {
    pub(super) writes: Writes,
    /// As the options say for tables.
    pub(super) direct: bool,
    pub(super) polled: bool,
    /// The size of most blocks.
    pub(super) usual_block_bytes: u64,
    pub(super) blocks: &'a Arc<BlockCache>,
    /// Numbers of the tables that the manifest lists.
    pub(super) listed: &'a BTreeSet<u64>,
}

impl Opening<'_> {
    /// Opens the cache of a directory, or makes one of at most `cache_bytes`.
    pub(super) fn open(
        &self,
        directory: &dyn Directory,
        owner: Owner,
        cache_bytes: u64,
    ) -> Option<Arc<TierCache>> {
        let geometry = Geometry::of(cache_bytes);
        let file = match self.file(directory, OpenMode::Read) {
            Ok(file) => self.take(directory, &*file, owner, geometry),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.make(directory, owner, geometry)
            }
            Err(_) => None,
        };
        Some(self.loaded(CacheFile::new(file?, geometry), owner, geometry))
    }

    fn file(
        &self,
        directory: &dyn Directory,
        mode: OpenMode,
    ) -> terrace_storage::Result<Arc<dyn File>> {
        let options = OpenOptions {
            direct: self.direct,
            polled: self.polled,
            ..OpenOptions::buffered(mode)
        };
        directory.open(CACHE, options)
    }

    /// Takes the file that is there, if it is the owner's and as long as it should be. Another cache file is made
    /// again, but for readers of the store. A file that is none of a cache stays, and there is no cache.
    fn take(
        &self,
        directory: &dyn Directory,
        file: &dyn File,
        owner: Owner,
        geometry: Geometry,
    ) -> Option<Arc<dyn File>> {
        let mut header = [0; HEADER_BYTES];
        let length = file.read_at(&mut header, 0, Purpose::Recovery).ok()?;
        let header = header.get(..length)?;
        if is_foreign(header) {
            return None;
        }
        let is_short = file
            .length_bytes()
            .is_ok_and(|bytes| bytes <= geometry.file_bytes());
        match (
            is_header_of(header, owner, geometry) && is_short,
            self.writes,
        ) {
            (true, Writes::Never) => self.file(directory, OpenMode::Read).ok(),
            (true, _) => self.file(directory, OpenMode::ReadWrite).ok(),
            (false, Writes::Never) => None,
            (false, _) => {
                directory.remove(CACHE).ok()?;
                self.make(directory, owner, geometry)
            }
        }
    }

    /// Makes an empty file with all its space, so that it is full by its own decision only.
    fn make(
        &self,
        directory: &dyn Directory,
        owner: Owner,
        geometry: Geometry,
    ) -> Option<Arc<dyn File>> {
        if self.writes == Writes::Never {
            return None;
        }
        let made = self.file(directory, OpenMode::CreateNew).and_then(|file| {
            file.allocate(geometry.file_bytes())?;
            file.write_at(&encode_header(owner, geometry), 0, Purpose::Other)?;
            Ok(file)
        });
        if made.is_err() {
            // A file without its header is none, too. Another's may have come in between.
            remove_file(directory);
        }
        made.ok()
    }

    /// Returns the cache with all entries that its file lists, but for those of tables that are gone.
    fn loaded(&self, file: CacheFile, owner: Owner, geometry: Geometry) -> Arc<TierCache> {
        let usual_blocks = geometry.file_bytes() / self.usual_block_bytes.max(1);
        let sketch = Sketch::new(usual_blocks);
        let mut writer = Writer::new(geometry.segments);
        let index = Index::default();
        let mut heads = file.read_heads();
        heads.sort_by_key(|(_, head)| head.sequence);
        for (segment, head) in heads {
            writer.found(segment, &head);
            for item in file.read_list(segment, &head).unwrap_or_default() {
                if self.listed.contains(&item.table) {
                    let place = Place {
                        segment,
                        position: item.position,
                        block_bytes: item.block_bytes,
                    };
                    index.insert(item.hash, place);
                    for _ in 0..FOUND_READS {
                        sketch.count(item.hash);
                    }
                }
            }
        }
        let next_sequence = AtomicU64::new(writer.next_sequence());
        let (is_full, writer_bytes) = (writer.is_full(), writer.memory_bytes());
        let cache = TierCache {
            owner,
            file,
            index,
            sketch: ArcSwap::new(Arc::new(sketch)),
            limit: AtomicU64::new(if is_full { FOUND_READS as u64 } else { 0 }),
            is_full: AtomicBool::new(is_full),
            queue: Mutex::new(Queue::default()),
            wished: Condvar::new(),
            writer: Mutex::new(writer),
            next_sequence,
            writes: self.writes,
            is_closed: AtomicBool::new(false),
            thread: Mutex::new(None),
            counts: Counts::default(),
            blocks: Arc::clone(self.blocks),
            held_bytes: AtomicU64::new(0),
        };
        if cache.is_full.load(Ordering::Relaxed) {
            cache.sketch.load().set_blocks(cache.index.len());
        }
        cache.hold(writer_bytes);
        Arc::new(cache)
    }
}

/// Removes the cache file of a directory, if there is one. A file of this name that is none of a cache stays.
pub(super) fn remove_file(directory: &dyn Directory) {
    let mut begin = [0; HEADER_BYTES];
    let file = directory.open(CACHE, OpenOptions::buffered(OpenMode::Read));
    let length = file.and_then(|file| file.read_at(&mut begin, 0, Purpose::Other));
    if length.is_ok_and(|length| !is_foreign(begin.get(..length).unwrap_or_default())) {
        // A failure leaves a file that no store believes.
        let _ = directory.remove(CACHE);
    }
}

#[cfg(test)]
mod tests;
