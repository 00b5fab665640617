//! Space for stores: found, waited for, or refused.

use std::sync::atomic::Ordering;

use super::super::Failure;
use super::super::namespace::Namespace;
use super::store::value_blocks;
use super::{Waiter, Worker};
use crate::block::MAX_EXTENTS;
use crate::block::{Extent, Extents};
use crate::format::location::SEGMENT_BLOCKS;
use crate::format::value::blocks_needed;

impl Worker {
    /// Keeps a place among the namespace's keys for one that does not exist yet.
    pub(super) fn reserve_key(&mut self, at: usize) -> bool {
        let namespace = &self.node.key_namespaces()[at];
        let reserved = namespace.reserved_keys.fetch_add(1, Ordering::Relaxed) + 1;
        if namespace.index.len() + reserved <= namespace.description.max_keys {
            return true;
        }
        namespace.reserved_keys.fetch_sub(1, Ordering::Relaxed);
        false
    }

    pub(super) fn unreserve_key(&mut self, at: usize) {
        let reserved = &self.node.key_namespaces()[at].reserved_keys;
        reserved.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the blocks of a new segment.
    pub(super) fn allocate_segment(namespace: &Namespace) -> Option<Extent> {
        let extents = namespace.space.allocate(SEGMENT_BLOCKS, 0, 1)?;
        Some(extents.first())
    }

    /// Returns extents for a value and its trailer: one if possible.
    pub(super) fn allocate(&mut self, at: usize, value_bytes: u32) -> Option<Extents> {
        let space = &self.node.key_namespaces()[at].space;
        let (one, many) = value_blocks(value_bytes);
        if let Some(extents) = space.allocate(one, 0, 1) {
            return Some(extents);
        }
        let extents = space.allocate(many, 0, MAX_EXTENTS)?;
        // Fewer extents need a shorter trailer.
        let needed = blocks_needed(value_bytes, extents.len());
        let (kept, surplus) = extents.split(needed);
        for extent in surplus.iter().flat_map(Extents::iter) {
            space.free(extent);
        }
        Some(kept)
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
            if !self.reserve_key(at) {
                return self.wait_for_space(slot);
            }
            self.set_reserved(slot);
        }
        self.place_store(slot);
    }
}
