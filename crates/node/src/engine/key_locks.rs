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
    shards: Vec<Mutex<Shard>>,
}

#[derive(Default)]
struct Shard {
    owned: HashMap<Key, Owned>,
    /// Whether nothing waits for a key any more, because an owner is gone.
    is_abandoned: bool,
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
        let mut shard = self.shard(hash).lock();
        let is_abandoned = shard.is_abandoned;
        match shard.owned.get_mut(key) {
            Some(owned) if !is_abandoned => {
                owned.waiting.push_back(waiter);
                false
            }
            _ => {
                shard.owned.insert(*key, Owned::default());
                true
            }
        }
    }

    /// Takes a command out of those that wait for a key. Returns false if it does not wait.
    pub(super) fn cancel(&self, hash: u64, key: &Key, waiter: &Waiter) -> bool {
        let mut shard = self.shard(hash).lock();
        let Some(owned) = shard.owned.get_mut(key) else {
            return false;
        };
        let before = owned.waiting.len();
        owned.waiting.retain(|other| !waiter.is(other));
        owned.waiting.len() < before
    }

    /// Takes the key if no command has it.
    pub(super) fn try_acquire(&self, hash: u64, key: &Key) -> bool {
        let mut shard = self.shard(hash).lock();
        if shard.owned.contains_key(key) {
            return false;
        }
        shard.owned.insert(*key, Owned::default());
        true
    }

    /// Takes the key if no command has it, or if its owner lends it. The lender is the next owner.
    pub(super) fn try_borrow(&self, hash: u64, key: &Key) -> bool {
        let mut shard = self.shard(hash).lock();
        let Some(found) = shard.owned.get_mut(key) else {
            shard.owned.insert(*key, Owned::default());
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
        if let Some(owned) = self.shard(hash).lock().owned.get_mut(key) {
            owned.lender = Some(owner);
        }
    }

    /// Ends the lending. Returns false if the key is borrowed now: its owner is woken when it is back.
    pub(super) fn stop_lending(&self, hash: u64, key: &Key) -> bool {
        let mut shard = self.shard(hash).lock();
        let is_abandoned = shard.is_abandoned;
        let owned = shard.owned.get_mut(key);
        owned.is_some_and(|owned| owned.lender.take().is_some()) || is_abandoned
    }

    /// Gives the key up. Returns the command that has it now, if one waited.
    pub(super) fn release(&self, hash: u64, key: &Key) -> Option<Waiter> {
        let mut shard = self.shard(hash).lock();
        let is_abandoned = shard.is_abandoned;
        let found = shard.owned.get_mut(key);
        debug_assert!(
            found.is_some() || is_abandoned,
            "a key is released by its owner"
        );
        let next = found.and_then(|owned| owned.waiting.pop_front());
        if next.is_none() {
            shard.owned.remove(key);
        }
        next
    }

    /// Ends all waits, because the owner of some keys is gone. The caller has poisoned the namespace:
    /// no command changes a key any more, so that several may have the same one.
    pub(super) fn abandon(&self) {
        for shard in &self.shards {
            let waiting: Vec<Waiter> = {
                let mut shard = shard.lock();
                shard.is_abandoned = true;
                let owned = shard.owned.values_mut();
                owned.flat_map(|owned| owned.waiting.drain(..)).collect()
            };
            waiting.iter().for_each(Waiter::own_key);
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 58) as usize % SHARDS]
    }
}
