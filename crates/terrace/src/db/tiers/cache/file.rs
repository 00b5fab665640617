//! The file of a cache, whose failures are misses. It is written without a sync: checksums tell the rest.

use std::sync::Arc;

use terrace_lsm::sync::ArcSwap;
use terrace_lsm::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_storage::{ErrorKind, File, Purpose};

use super::format::{ENTRY_BYTES, Geometry, HEAD_BYTES, Head, Item, decode_list};
use super::health::Health;
use super::index::Place;

/// A cache file.
#[derive(Debug)]
pub(super) struct CacheFile {
    /// `None` if it is closed: tables that are open know the cache for longer.
    file: ArcSwap<Option<Arc<dyn File>>>,
    pub(super) geometry: Geometry,
    health: Health,
    failures: AtomicU64,
    is_broken: AtomicBool,
}

impl CacheFile {
    pub(super) fn new(file: Arc<dyn File>, geometry: Geometry) -> Self {
        CacheFile {
            file: ArcSwap::new(Arc::new(Some(file))),
            geometry,
            health: Health::default(),
            failures: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Returns whether failures of the device have turned the cache off.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Turns the cache off.
    pub(super) fn give_up(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Returns the number of operations that failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Closes the file, as soon as no reader is at it. Nothing is found or written any more.
    pub(super) fn close(&self) {
        self.file.store(Arc::new(None));
    }

    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.file.load().is_none()
    }

    /// Returns the outcome of an operation of an open file, if it worked.
    fn attempt<T>(
        &self,
        operation: impl FnOnce(&dyn File) -> terrace_storage::Result<T>,
    ) -> Option<T> {
        let file = self.file.load();
        self.judge(operation(file.as_deref()?))
    }

    fn judge<T>(&self, outcome: terrace_storage::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.health.succeeded();
                Some(value)
            }
            // The file was cut: that is damage, not a failure of its device.
            Err(error) if error.kind() == ErrorKind::UnexpectedEnd => None,
            Err(_) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if self.health.failed() {
                    self.give_up();
                }
                None
            }
        }
    }

    /// Returns the bytes of an entry, and its place in the file.
    pub(super) fn read_entry(&self, place: Place) -> Option<(Vec<u8>, u64)> {
        let at = self.geometry.offset_of(place.segment) + u64::from(place.position);
        let length = ENTRY_BYTES + place.block_bytes as usize;
        let read = self.attempt(|file| file.read_vec_at(length, at, Purpose::Read));
        Some((read?, at))
    }

    /// Returns the bytes of a segment from its begin.
    pub(super) fn read_segment(&self, segment: u32, length: u64) -> Option<Vec<u8>> {
        let at = self.geometry.offset_of(segment);
        self.attempt(|file| file.read_vec_at(length as usize, at, Purpose::Other))
    }

    /// Returns the heads of the whole segments of a file that is opened.
    pub(super) fn read_heads(&self) -> Vec<(u32, Head)> {
        let Some(length_bytes) = self.attempt(|file| file.length_bytes()) else {
            return Vec::new();
        };
        let segments = 0..self.geometry.segments as u32;
        let heads = segments.filter_map(|segment| {
            let at = self.geometry.offset_of(segment);
            let is_there = at + HEAD_BYTES as u64 <= length_bytes && !self.is_broken();
            if !is_there {
                return None;
            }
            let bytes = self.attempt(|file| file.read_vec_at(HEAD_BYTES, at, Purpose::Recovery))?;
            Some((segment, Head::decode(&bytes, at, self.geometry)?))
        });
        heads.collect()
    }

    /// Returns the list of a segment of a file that is opened.
    pub(super) fn read_list(&self, segment: u32, head: &Head) -> Option<Vec<Item>> {
        let at = self.geometry.offset_of(segment) + u64::from(head.list_position);
        let length = (head.end_bytes() - u64::from(head.list_position)) as usize;
        let read = self.attempt(|file| file.read_vec_at(length, at, Purpose::Recovery));
        decode_list(head, &read?, at)
    }

    /// Writes bytes into a segment. Returns whether that worked.
    pub(super) fn write(&self, segment: u32, position: u32, bytes: &[u8]) -> bool {
        let at = self.geometry.offset_of(segment) + u64::from(position);
        debug_assert!(at + bytes.len() as u64 <= self.geometry.file_bytes());
        self.attempt(|file| file.write_at(bytes, at, Purpose::Other))
            .is_some()
    }
}
