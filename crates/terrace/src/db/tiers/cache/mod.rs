//! A cache on a fast tier for blocks of tables in slower ones.
//!
//! It is one file of fixed length, divided into segments (`format.rs`), and an index of it in memory (`index.rs`).
//! A lookup that finds its block neither in memory nor here reads the table, and offers the block. One writer
//! (`writer.rs`) fills a segment after the other, in a thread of its own where the store has threads. When all
//! are full, blocks come in that are read more often than those that go (`admission.rs`).
//!
//! Nothing here is an error. A damaged entry, a foreign one and a failure of the device are misses; after failures
//! in a row the cache turns itself off (`health.rs`). Readers hold a lock for a look at a part of the index, and none
//! while they read.

mod admission;
mod caches;
mod copies;
mod file;
pub mod format;
mod health;
mod index;
mod opening;
mod queue;
mod statistics;
mod writer;

use std::sync::Arc;

use terrace_lsm::guard::catch;
use terrace_lsm::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_lsm::sync::thread::JoinHandle;
use terrace_lsm::sync::{ArcSwap, Condvar, Mutex};
use terrace_lsm::table::BlockCache;

use self::admission::Sketch;
pub(crate) use self::caches::Caches;
use self::file::CacheFile;
use self::format::{Key, Owner, decode_entry};
use self::index::Index;
use self::queue::Queue;
pub use self::statistics::TierCacheStatistics;
use self::writer::Writer;
use crate::{Result, thread_start};

/// The thread in which blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// A thread of the cache's own.
    InThread,
    /// The reader's.
    Inline,
    /// None: the store is open for reading only.
    Never,
}

/// Numbers of events since the opening.
#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    admitted: AtomicU64,
    rejected: AtomicU64,
    kept: AtomicU64,
    evicted: AtomicU64,
    damaged: AtomicU64,
}

/// The cache of a tier.
#[derive(Debug)]
pub(crate) struct TierCache {
    owner: Owner,
    file: CacheFile,
    index: Index,
    sketch: ArcSwap<Sketch>,
    /// Highest frequency of blocks that went lately: others come in if they are read more often.
    limit: AtomicU64,
    is_full: AtomicBool,
    queue: Mutex<Queue>,
    /// Signals a block in the queue, or the end.
    wished: Condvar,
    /// Held while blocks are written. No reader waits for it.
    writer: Mutex<Writer>,
    next_sequence: AtomicU64,
    writes: Writes,
    is_closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Counts,
    /// The budget of memory that the index takes a part of.
    blocks: Arc<BlockCache>,
    held_bytes: AtomicU64,
}

impl TierCache {
    fn is_on(&self) -> bool {
        !self.file.is_broken() && !self.is_closed.load(Ordering::Relaxed)
    }

    fn count_damage(&self) {
        self.counts.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the block of a key, if its entry is whole.
    fn find(&self, key: &Key, hash: u64) -> Option<Vec<u8>> {
        let place = self.index.get(hash)?;
        let entry = self.file.read_entry(place);
        if let Some((bytes, at)) = &entry
            && decode_entry(bytes, *at).is_some_and(|(found, _)| found == *key)
        {
            let mut bytes = entry.map(|(bytes, _)| bytes)?;
            bytes.drain(..format::ENTRY_BYTES);
            return Some(bytes);
        }
        // The writer may have taken the segment meanwhile: that is no damage.
        if self.file.is_broken() {
            self.index.clear();
        } else if self.index.remove_at(hash, place) && entry.is_some() {
            self.count_damage();
        }
        None
    }

    /// Returns whether a block that was read belongs here: there is room, or it is read often enough.
    fn wants(&self, hash: u64, block_bytes: u64) -> bool {
        if self.writes == Writes::Never || !self.file.geometry.takes(block_bytes) {
            return false;
        }
        let is_frequent = || self.sketch.load().estimate(hash) > self.limit.load(Ordering::Relaxed);
        let is_wanted = !self.is_full.load(Ordering::Relaxed) || is_frequent();
        if !is_wanted {
            self.counts.rejected.fetch_add(1, Ordering::Relaxed);
        }
        is_wanted
    }

    /// Writes the blocks that wait.
    fn work(&self) {
        let mut writer = self.writer.lock();
        self.work_with(&mut writer);
    }

    fn work_with(&self, writer: &mut Writer) {
        let done = catch("cache", || {
            loop {
                let offers = self.queue.lock().take();
                if offers.is_empty() {
                    return Ok(());
                }
                writer.take_in(self, offers);
            }
        });
        if done.is_err() {
            self.file.give_up();
        }
        if self.file.is_broken() {
            self.index.clear();
        }
        let next_sequence = writer.next_sequence();
        self.next_sequence.store(next_sequence, Ordering::Relaxed);
        self.hold(writer.memory_bytes());
    }

    /// Takes note that the writer has begun another segment.
    fn turned(&self, is_full: bool, oldest_sequence: u64) {
        if is_full {
            self.is_full.store(true, Ordering::Relaxed);
            self.sketch.load().set_blocks(self.index.len());
        }
        self.queue.lock().forget_before(oldest_sequence);
    }

    /// Has the budget of memory count the bytes of the index, of the sketch and of the writer.
    fn hold(&self, writer_bytes: u64) {
        let bytes = self.index.memory_bytes() + self.sketch.load().memory_bytes() + writer_bytes;
        let before = self.held_bytes.swap(bytes, Ordering::Relaxed);
        if bytes > before {
            self.blocks.hold(bytes - before);
        } else if bytes < before {
            self.blocks.release(before - bytes);
        }
    }

    /// Starts the thread of the writer, if it is to have one.
    fn start(self: &Arc<Self>) -> Result<()> {
        let mut thread = self.thread.lock();
        if self.writes == Writes::InThread && thread.is_none() {
            let cache = Arc::clone(self);
            *thread = Some(thread_start::start("terrace-cache", move || cache.run())?);
        }
        Ok(())
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            while queue.is_empty() && !queue.is_closed {
                self.wished.wait(&mut queue);
            }
            let is_last = queue.is_closed;
            drop(queue);
            self.work();
            if is_last {
                return;
            }
        }
    }

    /// Ends the cache. A restart finds all that is in it. Open tables may know it for long: it holds no file and next to
    /// no memory from here on.
    fn close(&self) {
        let was_closed = self.is_closed.swap(true, Ordering::Relaxed);
        self.queue.lock().is_closed = true;
        self.wished.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // Its work has a guard against panics.
            let _ = thread.join();
        }
        let mut writer = self.writer.lock();
        if !was_closed && self.writes != Writes::Never {
            self.write_rest(&mut writer);
        }
        *writer = Writer::new(0);
        self.file.close();
        self.index.clear();
        self.sketch.store(Arc::new(Sketch::new(0)));
        self.hold(0);
    }

    /// Ends the cache of a tier that is removed, with its file: nothing more is written.
    pub(crate) fn discard(&self) {
        self.file.give_up();
        self.close();
    }

    fn write_rest(&self, writer: &mut Writer) {
        self.work_with(writer);
        if !self.file.is_broken() {
            let sealed = catch("cache", || {
                writer.seal(self);
                Ok(())
            });
            // The next opening finds less.
            drop(sealed);
        }
    }
}

impl Drop for TierCache {
    fn drop(&mut self) {
        self.blocks.release(self.held_bytes.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests;
