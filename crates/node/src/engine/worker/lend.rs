//! Stores that wait for space, and their keys, which others may borrow meanwhile.

use super::{Waiter, Worker};

impl Worker {
    /// Goes on with a store that has its key now, for the first time or again.
    pub(super) fn store_owns_key(&mut self, slot: u32) {
        let Some(state) = self.store(slot) else {
            return;
        };
        if std::mem::take(&mut state.waits_for_borrower) {
            return self.look_for_space(slot);
        }
        if state.waits_for_space {
            return self.lend_key(slot);
        }
        self.admit_store(slot);
    }

    /// Lets the key be borrowed while the store waits for space.
    pub(super) fn lend_key(&mut self, slot: u32) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (at, hash, key) = (active.namespace, active.hash, active.key);
        let owner = Waiter::new(&self.inbox, slot);
        self.node.key_namespaces()[at].keys.lend(hash, &key, owner);
    }

    /// Ends a store's wait for space. Returns false while its key is borrowed.
    pub(super) fn end_wait_for_space(&mut self, slot: u32) -> bool {
        let Some(active) = self.commands.get_mut(slot) else {
            return false;
        };
        let (at, hash, key) = (active.namespace, active.hash, active.key);
        let Some(state) = self.store(slot) else {
            return false;
        };
        if !std::mem::take(&mut state.waits_for_space) {
            return true;
        }
        let has_key = self.node.key_namespaces()[at].keys.stop_lending(hash, &key);
        if let Some(state) = self.store(slot) {
            state.waits_for_borrower = !has_key;
        }
        has_key
    }

    /// Has a store stand among those that wait for space.
    pub(super) fn begin_wait_for_space(&mut self, slot: u32) {
        if let Some(state) = self.store(slot) {
            state.waits_for_space = true;
            self.lend_key(slot);
        }
    }
}
