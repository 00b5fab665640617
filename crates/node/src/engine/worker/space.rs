//! Space for stores: found, waited for, or refused.

use super::super::Failure;
use super::super::namespace::Namespace;
use super::{Waiter, Worker};
use crate::Key;
use crate::block::{Extent, Extents, MAX_EXTENTS};
use crate::format::location::SEGMENT_BLOCKS;
use crate::format::value::blocks_needed;
use crate::index::{Found, Place};
use crate::space::Space;

/// Blocks for a value.
pub(super) struct Allocation {
    pub(super) extents: Extents,
    /// Extents of the index that are kept for them.
    pub(super) reserved: u64,
}

/// Takes blocks for a value and its trailer, in at most `max_extents` extents.
fn find_blocks(space: &Space, value_bytes: u32, max_extents: usize) -> Option<Extents> {
    if let Some(extents) = space.allocate(blocks_needed(value_bytes, 1), 0, 1) {
        return Some(extents);
    }
    let extents = space.allocate(blocks_needed(value_bytes, max_extents), 0, max_extents)?;
    // Fewer extents need a shorter trailer.
    let needed = blocks_needed(value_bytes, extents.len());
    let (kept, surplus) = extents.split(needed);
    for extent in surplus.iter().flat_map(Extents::iter) {
        space.free(extent);
    }
    Some(kept)
}

impl Worker {
    /// Returns the blocks of a new segment.
    pub(super) fn allocate_segment(namespace: &Namespace) -> Option<Extent> {
        let extents = namespace.space.allocate(SEGMENT_BLOCKS, 0, 1)?;
        Some(extents.first())
    }

    /// Returns extents for a value of a key and its trailer: one if possible. The index has room for them.
    pub(super) fn allocate(
        namespace: &Namespace,
        (hash, key): (u64, &Key),
        value_bytes: u32,
    ) -> Option<Allocation> {
        // Blocks that are taken and given back would be hidden from the stores of other loops meanwhile.
        let permitted = namespace.permitted_extents(hash, key);
        let max_extents = permitted.clamp(1, MAX_EXTENTS as u64) as usize;
        let extents = find_blocks(&namespace.space, value_bytes, max_extents)?;
        let found = Found {
            value_bytes,
            check: 0,
            place: Place::Extents(extents.clone()),
        };
        let Some(reserved) = namespace.reserve_extents(hash, key, &found) else {
            // Another loop was quicker. They help no other store that waits, so none is woken.
            extents
                .iter()
                .for_each(|extent| namespace.space.free(extent));
            return None;
        };
        Some(Allocation { extents, reserved })
    }

    /// Has a store wait until space comes free, if there is any hope for it.
    pub(super) fn wait_for_space(&mut self, slot: u32) {
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        let namespace = self.namespace(at);
        // First into the queue: space that comes free meanwhile wakes it.
        self.begin_wait_for_space(slot);
        let waiter = Waiter::new(&self.inbox, slot);
        namespace.space_waiters.lock().push_back(waiter.clone());
        let may_come = match self.lacks_key_share(slot) {
            Some(true) => self.evict(at),
            _ => self.make_room(at),
        };
        if may_come {
            return;
        }
        let mut waiting = namespace.space_waiters.lock();
        let before = waiting.len();
        waiting.retain(|other| !waiter.is(other));
        let was_woken = waiting.len() == before;
        drop(waiting);
        if !was_woken {
            self.give_up_on_space(slot);
        }
    }

    /// Ends a store for which no space will come.
    pub(super) fn give_up_on_space(&mut self, slot: u32) {
        if !self.end_wait_for_space(slot) {
            if let Some(active) = self.commands.get_mut(slot) {
                active.failure.get_or_insert(Failure::CapacityExceeded);
            }
            return;
        }
        if let Some(buffer) = self.take_held(slot) {
            self.buffers.put(buffer);
        }
        self.fail_store(slot, Failure::CapacityExceeded);
    }

    /// Tries again to find space for a store.
    pub(super) fn look_for_space(&mut self, slot: u32) {
        if !self.end_wait_for_space(slot) {
            return;
        }
        if self.has_failed(slot) {
            return self.give_up_on_space(slot);
        }
        if let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace)
            && let Err(failure) = self.node.key_namespaces()[at].check_writable()
        {
            if let Some(buffer) = self.take_held(slot) {
                self.buffers.put(buffer);
            }
            return self.fail_store(slot, failure);
        }
        if let Some(buffer) = self.take_held(slot) {
            return self.small_value_came(slot, buffer);
        }
        let Some(lacks_share) = self.lacks_key_share(slot) else {
            return;
        };
        if lacks_share {
            let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
                return;
            };
            if !self.node.key_namespaces()[at].reserve_key() {
                return self.wait_for_space(slot);
            }
            self.set_reserved(slot);
        }
        self.place_store(slot);
    }
}
