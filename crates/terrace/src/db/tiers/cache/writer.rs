//! The one writer of a cache file: it fills a segment after the other, and empties the oldest one for the next.
//!
//! A segment that is emptied keeps its most frequent entries: they are written to its front again. The head of a
//! segment is zero while it is filled, so that a restart does not look for the entries of before.

use terrace_lsm::sync::atomic::Ordering;

use super::TierCache;
use super::admission::survivors;
use super::format::{
    ENTRY_BYTES, HEAD_BYTES, Head, ITEM_BYTES, Item, Key, decode_entry, decode_list, encode_entry,
    encode_list, list_checksum,
};
use super::index::Place;

/// Share of a segment that may stay when it is emptied: three quarters.
const KEPT_QUARTERS: u64 = 3;

/// A block that a reader offers.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) key: Key,
    pub(super) hash: u64,
    pub(super) block: Vec<u8>,
}

/// A segment that is not being filled.
#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    /// 0 if nothing lies in it.
    sequence: u64,
    /// Position behind its list.
    end_bytes: u64,
}

/// The segment that is being filled.
#[derive(Debug)]
struct Open {
    segment: u32,
    sequence: u64,
    items: Vec<Item>,
    /// Items whose entries are in the file.
    stored: usize,
    /// Position of the bytes that are not.
    pending_at: u32,
    pending: Vec<u8>,
}

impl Open {
    fn new(segment: u32, sequence: u64) -> Open {
        Open {
            segment,
            sequence,
            items: Vec::new(),
            stored: 0,
            pending_at: HEAD_BYTES as u32,
            pending: Vec::new(),
        }
    }

    fn position(&self) -> u32 {
        self.pending_at + self.pending.len() as u32
    }

    fn has_room(&self, block_bytes: usize, segment_bytes: u64) -> bool {
        let list_bytes = (self.items.len() + 1) * ITEM_BYTES;
        let bytes = self.position() as usize + ENTRY_BYTES + block_bytes + list_bytes;
        bytes as u64 <= segment_bytes
    }

    /// Puts an entry behind the others. `segment_at` is the place of the segment in the file.
    fn push(&mut self, key: &Key, hash: u64, block: &[u8], segment_at: u64) {
        let position = self.position();
        let at = segment_at + u64::from(position);
        encode_entry(&mut self.pending, key, block, at);
        self.items.push(Item {
            hash,
            table: key.table,
            position,
            block_bytes: block.len() as u32,
        });
    }
}

/// The state of the writer.
#[derive(Debug)]
pub(super) struct Writer {
    segments: Vec<Whole>,
    next_sequence: u64,
    open: Option<Open>,
}

impl Writer {
    pub(super) fn new(segments: u64) -> Writer {
        Writer {
            segments: vec![Whole::default(); segments as usize],
            next_sequence: 1,
            open: None,
        }
    }

    /// Notes a segment that an opening found.
    pub(super) fn found(&mut self, segment: u32, head: &Head) {
        self.next_sequence = self.next_sequence.max(head.sequence + 1);
        if let Some(whole) = self.segments.get_mut(segment as usize) {
            whole.sequence = head.sequence;
            whole.end_bytes = head.end_bytes();
        }
    }

    /// Returns whether no segment is empty.
    pub(super) fn is_full(&self) -> bool {
        self.segments.iter().all(|whole| whole.sequence > 0)
    }

    /// Returns the sequence number of the next segment.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Returns the bytes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let open = self.open.as_ref();
        let open = open.map_or(0, |open| {
            open.items.capacity() * ITEM_BYTES + open.pending.capacity()
        });
        (size_of_val(&*self.segments) + open) as u64
    }

    /// Writes the blocks that readers offered, but for those that are there.
    pub(super) fn take_in(&mut self, cache: &TierCache, offers: Vec<Offer>) {
        for offer in offers {
            let is_there = cache.index.get(offer.hash).is_some();
            if is_there || self.is_pending(offer.hash) || cache.file.is_broken() {
                continue;
            }
            let segment_bytes = cache.file.geometry.segment_bytes;
            let length = offer.block.len();
            let open = self.open.as_ref();
            if open.is_none_or(|open| !open.has_room(length, segment_bytes)) {
                self.turn(cache);
            }
            if let Some(open) = &mut self.open
                && open.has_room(length, segment_bytes)
            {
                let segment_at = cache.file.geometry.offset_of(open.segment);
                open.push(&offer.key, offer.hash, &offer.block, segment_at);
                cache.counts.admitted.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.store_pending(cache);
    }

    fn is_pending(&self, hash: u64) -> bool {
        let open = self.open.as_ref();
        let pending = open.and_then(|open| open.items.get(open.stored..));
        pending.is_some_and(|items| items.iter().any(|item| item.hash == hash))
    }

    /// Writes the entries that are only in memory. From here on readers find them.
    fn store_pending(&mut self, cache: &TierCache) {
        let Some(open) = &mut self.open else { return };
        if open.pending.is_empty() {
            return;
        }
        let is_written = cache
            .file
            .write(open.segment, open.pending_at, &open.pending);
        if is_written {
            for item in open.items.get(open.stored..).unwrap_or_default() {
                cache.index.insert(item.hash, place_of(open.segment, item));
            }
            open.pending_at = open.position();
        } else {
            open.items.truncate(open.stored);
            open.pending_at = open.pending_at.max(HEAD_BYTES as u32);
        }
        open.stored = open.items.len();
        open.pending.clear();
    }

    /// Ends the segment that is being filled: its list and its head are written.
    pub(super) fn seal(&mut self, cache: &TierCache) {
        self.store_pending(cache);
        let Some(open) = self.open.take().filter(|open| !open.items.is_empty()) else {
            return;
        };
        let segment_at = cache.file.geometry.offset_of(open.segment);
        let list = encode_list(&open.items);
        let head = Head {
            sequence: open.sequence,
            list_position: open.position(),
            entries: open.items.len() as u32,
            list_checksum: list_checksum(&list, segment_at + u64::from(open.position())),
        };
        // Without its list a restart finds none of its entries, and readers find them until then.
        let _ = cache.file.write(open.segment, head.list_position, &list)
            && cache.file.write(open.segment, 0, &head.encode(segment_at));
        self.found(open.segment, &head);
    }

    /// Begins another segment: an empty one, or the oldest one.
    fn turn(&mut self, cache: &TierCache) {
        self.seal(cache);
        let oldest = self.segments.iter().enumerate();
        let oldest = oldest.min_by_key(|(_, whole)| whole.sequence);
        let Some((segment, whole)) = oldest.map(|(at, whole)| (at as u32, *whole)) else {
            return;
        };
        let mut open = Open::new(segment, self.next_sequence);
        self.next_sequence += 1;
        if whole.sequence > 0 {
            empty(cache, segment, whole, &mut open);
        }
        if let Some(whole) = self.segments.get_mut(segment as usize) {
            *whole = Whole::default();
        }
        self.open = Some(open);
        self.store_pending(cache);
        let is_full = whole.sequence > 0;
        cache.turned(is_full, self.oldest_of_others(segment));
    }

    /// Returns the sequence number of the oldest segment but for one.
    fn oldest_of_others(&self, segment: u32) -> u64 {
        let others = self.segments.iter().enumerate();
        let others = others.filter(|(at, _)| *at != segment as usize);
        others.map(|(_, whole)| whole.sequence).min().unwrap_or(0)
    }
}

/// Empties a segment, but for its most frequent entries.
fn empty(cache: &TierCache, segment: u32, whole: Whole, open: &mut Open) {
    open.pending_at = 0;
    open.pending = vec![0; HEAD_BYTES];
    let Some((bytes, items)) = read_whole(cache, segment, whole) else {
        let gone = cache.index.remove_segment(segment);
        cache.counts.evicted.fetch_add(gone, Ordering::Relaxed);
        return;
    };
    let mut frequencies = Vec::with_capacity(items.len());
    let mut live = 0;
    for item in &items {
        let is_live = cache.index.get(item.hash) == Some(place_of(segment, item));
        live += u64::from(is_live);
        let frequency = match is_live && !cache.queue.lock().is_removed(item.table) {
            true => cache.sketch.load().estimate(item.hash),
            false => 0,
        };
        frequencies.push((frequency, item.entry_bytes() + ITEM_BYTES as u64));
    }
    let kept_bytes = cache.file.geometry.segment_bytes / 4 * KEPT_QUARTERS;
    let survivors = survivors(&frequencies, kept_bytes);
    // Readers find no entry of the segment while it is written.
    for item in &items {
        let place = place_of(segment, item);
        cache.index.remove_at(item.hash, place);
    }
    let segment_at = cache.file.geometry.offset_of(segment);
    let mut kept = 0;
    for item in survivors.kept.iter().filter_map(|at| items.get(*at)) {
        let begin = item.position as usize;
        let entry = bytes.get(begin..begin + item.entry_bytes() as usize);
        let at = segment_at + u64::from(item.position);
        match entry.and_then(|entry| decode_entry(entry, at)) {
            Some((key, block)) if key.hash() == item.hash => {
                open.push(&key, item.hash, block, segment_at);
                kept += 1;
            }
            _ => cache.count_damage(),
        }
    }
    cache.counts.kept.fetch_add(kept, Ordering::Relaxed);
    let evicted = live.saturating_sub(kept);
    cache.counts.evicted.fetch_add(evicted, Ordering::Relaxed);
    cache.limit.store(survivors.limit, Ordering::Relaxed);
}

/// Returns the bytes of a whole segment, and its list.
fn read_whole(cache: &TierCache, segment: u32, whole: Whole) -> Option<(Vec<u8>, Vec<Item>)> {
    let at = cache.file.geometry.offset_of(segment);
    let bytes = cache.file.read_segment(segment, whole.end_bytes)?;
    let head = Head::decode(&bytes, at, cache.file.geometry);
    let items = head.and_then(|head| {
        let list = bytes.get(head.list_position as usize..head.end_bytes() as usize)?;
        decode_list(&head, list, at + u64::from(head.list_position))
    });
    if items.is_none() {
        cache.count_damage();
    }
    Some((bytes, items?))
}

fn place_of(segment: u32, item: &Item) -> Place {
    Place {
        segment,
        position: item.position,
        block_bytes: item.block_bytes,
    }
}
