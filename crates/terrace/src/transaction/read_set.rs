//! The reads of a transaction: keys, and the ranges that its iterators went through.

use std::sync::Arc;

use terrace_lsm::sync::Mutex;
use terrace_storage::ForkMark;

use crate::db::footprint::{Footprint, Span};
use crate::db::transactions::Held;
use crate::{Error, KeyspaceId, Result};

/// See the head of the file.
#[derive(Debug)]
pub(super) struct ReadSet {
    /// Maximum bytes of all that was read, and of the writes.
    max_bytes: u64,
    written_bytes: u64,
    footprint: Footprint,
    /// The ranges of iterators that are in use; they grow as these move.
    growing: Vec<Option<(KeyspaceId, Span)>>,
    held: Held,
}

impl ReadSet {
    pub(super) fn new(max_bytes: u64, held: Held) -> Self {
        ReadSet {
            max_bytes,
            written_bytes: 0,
            footprint: Footprint::default(),
            growing: Vec::new(),
            held,
        }
    }

    /// Adds a key, if there is room for it.
    pub(super) fn add_key(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        self.check_room(key.len() as u64)?;
        self.footprint.add_key(keyspace, key);
        Ok(())
    }

    /// Sets the bytes of the writes, which hold memory of their own. Refused ones change nothing.
    pub(super) fn set_written(&mut self, bytes: u64) -> Result<()> {
        let more_bytes = bytes.saturating_sub(self.written_bytes);
        if more_bytes > 0 && self.check_maximum(more_bytes).is_err() {
            // A key that was read twice counts once.
            self.footprint.settle();
            self.check_maximum(more_bytes)?;
        }
        self.written_bytes = bytes;
        Ok(())
    }

    /// Refuses more bytes of reads than there is room for.
    fn check_room(&mut self, more_bytes: u64) -> Result<()> {
        if self.take_room(more_bytes).is_ok() {
            return Ok(());
        }
        self.footprint.settle();
        self.take_room(more_bytes)
    }

    fn take_room(&mut self, more_bytes: u64) -> Result<()> {
        self.check_maximum(more_bytes)?;
        self.held.cover(self.read_bytes() + more_bytes)
    }

    fn check_maximum(&self, more_bytes: u64) -> Result<()> {
        let bytes = self.written_bytes + self.read_bytes() + more_bytes;
        match bytes <= self.max_bytes {
            true => Ok(()),
            false => Err(Error::TransactionTooLarge {
                bytes,
                max_bytes: self.max_bytes,
            }),
        }
    }

    /// Returns the bytes of memory for all that was read, roughly.
    fn read_bytes(&self) -> u64 {
        let growing = self.growing.iter().flatten();
        let growing_bytes = growing.map(|(_, span)| span.bytes()).sum::<u64>();
        self.footprint.bytes() + growing_bytes
    }

    /// Takes all that was read so far, settled.
    pub(super) fn take_footprint(&mut self) -> Footprint {
        let mut footprint = std::mem::take(&mut self.footprint);
        for (keyspace, span) in self.growing.iter().flatten() {
            footprint.add_span(*keyspace, span.clone());
        }
        footprint.settle();
        footprint
    }
}

/// The range that one iterator goes through.
pub(super) struct Reach {
    reads: Arc<Mutex<ReadSet>>,
    keyspace: KeyspaceId,
    /// All keys that the iterator may show.
    bounds: Span,
    place: usize,
    mark: ForkMark,
}

impl Reach {
    /// Begins with no key.
    pub(super) fn new(
        reads: &Arc<Mutex<ReadSet>>,
        keyspace: KeyspaceId,
        bounds: Span,
        mark: ForkMark,
    ) -> Self {
        let mut held = reads.lock();
        let free = held.growing.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            held.growing.push(None);
            held.growing.len() - 1
        });
        // An empty range holds the place.
        let nothing = Span {
            start: Vec::new(),
            end: Some(Vec::new()),
        };
        if let Some(own) = held.growing.get_mut(place) {
            *own = Some((keyspace, nothing));
        }
        drop(held);
        Reach {
            reads: Arc::clone(reads),
            keyspace,
            bounds,
            place,
            mark,
        }
    }

    /// Begins the range of another iterator of the same keys.
    pub(super) fn another(&self) -> Self {
        Reach::new(&self.reads, self.keyspace, self.bounds.clone(), self.mark)
    }

    pub(super) fn bounds(&self) -> &Span {
        &self.bounds
    }

    /// Leaves the range behind, and begins one that a search went through.
    pub(super) fn begin(&self, span: Span) {
        let mut reads = self.reads.lock();
        let own = reads.growing.get_mut(self.place).and_then(Option::as_mut);
        if let Some((_, own)) = own {
            let left = std::mem::replace(own, span);
            reads.footprint.add_span(self.keyspace, left);
        }
    }

    /// Grows up to a key, which the iterator stands on, or to the end.
    pub(super) fn grow_up(&self, key: Option<&[u8]>) {
        self.grow(|span| match (key, &mut span.end) {
            (Some(key), Some(end)) if *key >= **end => {
                end.clear();
                end.extend_from_slice(key);
                end.push(0);
            }
            (Some(_), _) => {}
            (None, end) => end.clone_from(&self.bounds.end),
        });
    }

    /// Grows down to a key, which the iterator stands on, or to the start.
    pub(super) fn grow_down(&self, key: Option<&[u8]>) {
        let key = key.unwrap_or(&self.bounds.start);
        self.grow(|span| {
            if *key < *span.start {
                span.start.clear();
                span.start.extend_from_slice(key);
            }
        });
    }

    fn grow(&self, grow: impl FnOnce(&mut Span)) {
        let mut reads = self.reads.lock();
        let own = reads.growing.get_mut(self.place).and_then(Option::as_mut);
        if let Some((_, span)) = own {
            grow(span);
        }
    }

    /// Refuses a search for which there is no room.
    pub(super) fn check_room(&self) -> Result<()> {
        self.reads.lock().check_room(0)
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        // In a forked child no thread uses the list, and its lock may be held for ever.
        if self.mark.is_inherited() {
            return;
        }
        let mut reads = self.reads.lock();
        let own = reads.growing.get_mut(self.place).and_then(Option::take);
        if let Some((keyspace, span)) = own {
            reads.footprint.add_span(keyspace, span);
        }
    }
}
