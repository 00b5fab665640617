//! The defragmenter: values of a sparse zone move elsewhere, so that a long run of blocks comes free.
//!
//! It runs only when a store finds enough free blocks, but not together. The zone is closed first:
//! nothing new lands there. Then its values move one by one, each with its key taken. A key that is
//! being changed is left alone: its old value frees its blocks by itself.

use std::io;

use super::super::Failure;
use super::super::journal::{Member, Pending};
use super::super::namespace::{Namespace, part_of};
use super::super::share::Share;
use super::{Active, Operation, Waiter, Work, Worker, count};
use crate::Key;
use crate::block::{BLOCK_BYTES, Buffer, Extent, Extents};
use crate::device::{Request, parts_of};
use crate::format::trailer::Trailer;
use crate::format::value::trailer_bytes;
use crate::index::{Found, Place, WalkCursor};

/// Blocks of a zone: 1 MiB.
const ZONE_BLOCKS: u64 = 256;
/// Blocks that are copied at once.
const COPY_BLOCKS: u64 = 256;
/// The longest trailer, in blocks.
const MAX_TRAILER_BLOCKS: u64 = 9;
/// Entries that are looked at in one step.
const MAX_ENTRIES: usize = 1024;

/// A pass over one zone.
pub(super) struct Job {
    zone: Extent,
    cursor: WalkCursor,
    walked_all: bool,
    values: Vec<(Key, Found)>,
    moving: Option<Moving>,
    /// Blocks of the zone that were free: nothing new lands there.
    held: Vec<Extent>,
    /// Whether any value has left the zone.
    has_moved: bool,
}

/// A value that is being copied.
struct Moving {
    slot: u32,
    from: Extents,
    to: Extents,
    /// Kept for the copy until its record is in the journal's hands.
    share: Share,
    value_bytes: u32,
    check: u32,
    /// Blocks copied.
    copied: u64,
    /// Blocks of the read in flight; 0 while a write is.
    reading: u64,
}

impl Worker {
    /// Begins to move the values of a sparse zone. Returns false if that would not help.
    pub(super) fn defragment(&mut self, at: usize) -> bool {
        if self.defragmenters[at].is_some() {
            return true;
        }
        let namespace = self.namespace(at);
        if namespace.check_writable().is_err() {
            return false;
        }
        // Held to the end: two loops would open each other's zones.
        let mut is_running = namespace.defragmenting.lock();
        if *is_running {
            return true;
        }
        let Some((zone, _)) = namespace.space.emptiest_zone(ZONE_BLOCKS, |_| false) else {
            return false;
        };
        *is_running = true;
        self.defragmenters[at] = Some(Job {
            zone,
            cursor: WalkCursor::default(),
            walked_all: false,
            values: Vec::new(),
            moving: None,
            held: hold_free(&namespace, zone),
            has_moved: false,
        });
        true
    }

    /// Looks for the next value of the zone and begins to move it.
    pub(super) fn go_on_defragmenting(&mut self, at: usize) {
        loop {
            let namespace = self.namespace(at);
            let Some(job) = &mut self.defragmenters[at] else {
                return;
            };
            if job.moving.is_some() {
                return;
            }
            if let Some((key, found)) = job.values.pop() {
                if self.begin_relocation(at, &namespace, key, found) {
                    return;
                }
                continue;
            }
            if job.walked_all {
                return self.end_defragmentation(at);
            }
            let values = &mut job.values;
            let visit = |key: &Key, found: &Found| values.push((*key, found.clone()));
            let (cursor, zone) = (&mut job.cursor, job.zone);
            job.walked_all = namespace.index.entries_in(cursor, MAX_ENTRIES, zone, visit);
        }
    }

    /// Takes a value's key and begins to copy it. Returns false if it is being changed, or there is no
    /// place for the copy.
    fn begin_relocation(
        &mut self,
        at: usize,
        namespace: &Namespace,
        key: Key,
        found: Found,
    ) -> bool {
        let Place::Extents(from) = found.place.clone() else {
            return false;
        };
        let hash = namespace.index.hash(&key);
        if !namespace.keys.try_borrow(hash, &key) {
            return false;
        }
        let now = namespace.index.partition(hash).lock().get(hash, &key);
        let to = if now.as_ref() == Some(&found) {
            Self::allocate(namespace, (hash, &key), found.value_bytes)
        } else {
            None
        };
        let Some(to) = to else {
            if let Some(next) = namespace.keys.release(hash, &key) {
                next.own_key();
            }
            return false;
        };
        namespace.pins.pin(from.first().start);
        let slot = self.commands.add(Active {
            tag: 0,
            namespace: at,
            key,
            hash,
            work: Work::Relocation,
            failure: None,
        });
        if let Some(job) = &mut self.defragmenters[at] {
            job.moving = Some(Moving {
                slot,
                from,
                to: to.extents,
                share: Share {
                    extents: to.reserved,
                    ..Share::default()
                },
                value_bytes: found.value_bytes,
                check: found.check,
                copied: 0,
                reading: 0,
            });
        }
        self.copy_on(at);
        true
    }

    /// Reads the next blocks of the value.
    fn copy_on(&mut self, at: usize) {
        let job = self.defragmenters[at].as_mut();
        let Some(moving) = job.and_then(|job| job.moving.as_mut()) else {
            return;
        };
        // The last step has the whole trailer.
        let left = moving.from.blocks() - moving.copied;
        let blocks = if left <= COPY_BLOCKS + MAX_TRAILER_BLOCKS {
            left
        } else {
            COPY_BLOCKS
        };
        moving.reading = blocks;
        let buffer = Buffer::zeroed(blocks as usize);
        let parts = parts_of(&part_of(&moving.from, moving.copied, blocks));
        self.request(Operation::Relocate(at), Request::Read { buffer, parts });
    }

    /// Takes the answer to the last request of a copy.
    pub(super) fn relocation_step(&mut self, at: usize, buffer: Buffer, result: io::Result<()>) {
        let namespace = self.namespace(at);
        let Some(slot) = self.moving_slot(at) else {
            debug_assert!(false, "requests are of a copy");
            return;
        };
        if result.is_err() {
            return self.end_relocation(slot, &Err(Failure::Aborted));
        }
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (key, hash) = (active.key, active.hash);
        let job = self.defragmenters[at].as_mut();
        let Some(moving) = job.and_then(|job| job.moving.as_mut()) else {
            return;
        };
        if moving.reading > 0 {
            let Some((buffer, places)) = moving.copy_of(&namespace, &key, buffer) else {
                // A damaged value stays where it is.
                return self.end_relocation(slot, &Err(Failure::Aborted));
            };
            let parts = parts_of(&places);
            return self.request(Operation::Relocate(at), Request::Write { buffer, parts });
        }
        if moving.copied < moving.from.blocks() {
            return self.copy_on(at);
        }
        let member = Member {
            key,
            hash,
            sequence: namespace.next_sequence(),
            value_bytes: moving.value_bytes,
            checksum: u64::from(moving.check),
            change: Pending::Extents(moving.to.clone()),
            share: std::mem::take(&mut moving.share),
            waiter: Some(Waiter::new(&self.inbox, slot)),
        };
        namespace.journal.lock().open.push(member);
    }

    fn moving_slot(&self, at: usize) -> Option<u32> {
        let job = self.defragmenters[at].as_ref()?;
        job.moving.as_ref().map(|moving| moving.slot)
    }

    /// Ends the copy of one value: its record fared as `result` says, or there is none.
    pub(super) fn end_relocation(&mut self, slot: u32, result: &Result<(), Failure>) {
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        let namespace = self.namespace(at);
        let job = self.defragmenters[at].as_mut();
        let Some((job, moving)) = job.and_then(|job| {
            let moving = job.moving.take()?;
            Some((job, moving))
        }) else {
            return;
        };
        namespace.unreserve(&moving.share);
        match result {
            Ok(()) => {
                job.has_moved = true;
                count(&namespace.counters.moves);
            }
            Err(_) if namespace.check_writable().is_ok() => namespace.free_extents(moving.to),
            Err(_) => {}
        }
        namespace.unpin(moving.from.first().start);
        job.held.extend(hold_free(&namespace, job.zone));
        self.release_key(slot);
        self.commands.remove(slot);
    }

    /// Opens the zone again. Stores that wait look once more, if anything was gained for them.
    fn end_defragmentation(&mut self, at: usize) {
        let namespace = self.namespace(at);
        let Some(job) = self.defragmenters[at].take() else {
            return;
        };
        job.held
            .into_iter()
            .for_each(|extent| namespace.space.free(extent));
        *namespace.defragmenting.lock() = false;
        self.passes[at] += 1;
        // Passes that help no waiter must end: values could be moved round and round.
        let zones = namespace.description.data.blocks / ZONE_BLOCKS;
        if job.has_moved && self.passes[at] <= 2 * zones + 2 {
            return namespace.wake_space_waiters();
        }
        self.passes[at] = 0;
        // No value could move: a wait would last for ever.
        let waiting = std::mem::take(&mut *namespace.space_waiters.lock());
        for waiter in waiting {
            waiter.give_up();
        }
    }
}

/// Takes the free blocks of a zone.
fn hold_free(namespace: &Namespace, zone: Extent) -> Vec<Extent> {
    let blocks = (zone.start..zone.end()).map(|start| Extent { start, blocks: 1 });
    let free = blocks.filter(|block| namespace.space.is_free(block.start));
    free.filter(|block| namespace.space.reserve(*block).is_ok())
        .collect()
}

impl Moving {
    /// Makes of the blocks that were read those of the copy. None if the trailer is damaged.
    fn copy_of(
        &mut self,
        namespace: &Namespace,
        key: &Key,
        old: Buffer,
    ) -> Option<(Buffer, Vec<Extent>)> {
        let first = self.copied;
        self.copied += self.reading;
        let is_last = self.copied == self.from.blocks();
        let blocks = if is_last {
            self.to.blocks() - first
        } else {
            self.reading
        };
        self.reading = 0;
        let places = part_of(&self.to, first, blocks);
        if !is_last {
            return Some((old, places));
        }
        let secret = namespace.description.secret;
        let tail = trailer_bytes(self.value_bytes, self.from.len()).next_multiple_of(BLOCK_BYTES);
        let end = self.from.last().end() - 1;
        let bounds = namespace.description.bounds();
        let trailer = Trailer::decode(&old[old.len() - tail..], secret, end, &bounds).ok()?;
        let is_own = trailer.key == *key && trailer.value_checksum as u32 == self.check;
        if !is_own || trailer.value_bytes != self.value_bytes {
            return None;
        }
        let rest = self.value_bytes as usize - first as usize * BLOCK_BYTES;
        let mut new = Buffer::zeroed(blocks as usize);
        new[..rest].copy_from_slice(&old[..rest]);
        let trailer = Trailer {
            extents: self.to.clone(),
            ..trailer
        };
        trailer.encode_into(&mut new, secret, self.to.last().end() - 1);
        Some((new, places))
    }
}
