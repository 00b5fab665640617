//! Commands that change one key take effect one after another.
//!
//! A store or a delete owns its key from its admission until its record is durable. Others of that
//! key wait here in the order of their arrival; a waiting command costs no thread.
//!
//! A store that waits for space lends its key to the cleaner and the defragmenter. Its old value would
//! stay in their way otherwise, and the store would wait for the space around it.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use super::worker::Waiter;
use crate::Key;

/// A number of locked maps: one would be asked by all loops.
const SHARDS: usize = 64;

/// The keys that are being changed.
pub(super) struct KeyLocks {
    shards: Vec<Mutex<HashMap<Key, Owned>>>,
}

/// A key that some command has.
#[derive(Default)]
struct Owned {
    waiting: VecDeque<Waiter>,
    /// The owner, as long as it lends the key.
    lender: Option<Waiter>,
}

impl KeyLocks {
    pub(super) fn new() -> Self {
        KeyLocks {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes the key. Returns false if another command has it: then `waiter` is woken with the key
    /// in its possession.
    pub(super) fn acquire(&self, hash: u64, key: &Key, waiter: Waiter) -> bool {
        let mut owned = self.shard(hash).lock();
        if let Some(owned) = owned.get_mut(key) {
            owned.waiting.push_back(waiter);
            return false;
        }
        owned.insert(*key, Owned::default());
        true
    }

    /// Takes the key if no command has it.
    pub(super) fn try_acquire(&self, hash: u64, key: &Key) -> bool {
        let mut owned = self.shard(hash).lock();
        if owned.contains_key(key) {
            return false;
        }
        owned.insert(*key, Owned::default());
        true
    }

    /// Takes the key if no command has it, or if its owner lends it. The lender is the next owner.
    pub(super) fn try_borrow(&self, hash: u64, key: &Key) -> bool {
        let mut owned = self.shard(hash).lock();
        let Some(found) = owned.get_mut(key) else {
            owned.insert(*key, Owned::default());
            return true;
        };
        let Some(lender) = found.lender.take() else {
            return false;
        };
        found.waiting.push_front(lender);
        true
    }

    /// Lets others borrow the key of `owner`.
    pub(super) fn lend(&self, hash: u64, key: &Key, owner: Waiter) {
        if let Some(owned) = self.shard(hash).lock().get_mut(key) {
            owned.lender = Some(owner);
        }
    }

    /// Ends the lending. Returns false if the key is borrowed now: its owner is woken when it is back.
    pub(super) fn stop_lending(&self, hash: u64, key: &Key) -> bool {
        let mut owned = self.shard(hash).lock();
        owned
            .get_mut(key)
            .is_some_and(|owned| owned.lender.take().is_some())
    }

    /// Gives the key up. Returns the command that has it now, if one waited.
    pub(super) fn release(&self, hash: u64, key: &Key) -> Option<Waiter> {
        let mut owned = self.shard(hash).lock();
        let found = owned.get_mut(key);
        debug_assert!(found.is_some(), "a key is released by its owner");
        let next = found.and_then(|owned| owned.waiting.pop_front());
        if next.is_none() {
            owned.remove(key);
        }
        next
    }

    fn shard(&self, hash: u64) -> &Mutex<HashMap<Key, Owned>> {
        &self.shards[(hash >> 58) as usize % SHARDS]
    }
}
