//! Commands that change one key take effect one after another.
//!
//! A store or a delete owns its key from its admission until its record is durable. Others of that
//! key wait here in the order of their arrival; a waiting command costs no thread.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use super::worker::Waiter;
use crate::Key;

/// A number of locked maps: one would be asked by all loops.
const SHARDS: usize = 64;

/// The keys that are being changed.
pub(super) struct KeyLocks {
    shards: Vec<Mutex<HashMap<Key, VecDeque<Waiter>>>>,
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
        if let Some(waiting) = owned.get_mut(key) {
            waiting.push_back(waiter);
            return false;
        }
        owned.insert(*key, VecDeque::new());
        true
    }

    /// Takes the key if no command has it.
    pub(super) fn try_acquire(&self, hash: u64, key: &Key) -> bool {
        let mut owned = self.shard(hash).lock();
        if owned.contains_key(key) {
            return false;
        }
        owned.insert(*key, VecDeque::new());
        true
    }

    /// Gives the key up. Returns the command that has it now, if one waited.
    pub(super) fn release(&self, hash: u64, key: &Key) -> Option<Waiter> {
        let mut owned = self.shard(hash).lock();
        let waiting = owned.get_mut(key);
        debug_assert!(waiting.is_some(), "a key is released by its owner");
        let next = waiting.and_then(VecDeque::pop_front);
        if next.is_none() {
            owned.remove(key);
        }
        next
    }

    fn shard(&self, hash: u64) -> &Mutex<HashMap<Key, VecDeque<Waiter>>> {
        &self.shards[(hash >> 58) as usize % SHARDS]
    }
}
