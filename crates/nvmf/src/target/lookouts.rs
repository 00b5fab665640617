//! Looks at sockets: before a host's Connect is carried out, each loop has seen which of its
//! connections that host has lost, even if they still hold unread bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::registry::Registry;

/// The loops of a registry, and the looks that were asked of them.
#[derive(Default)]
pub(super) struct Lookouts {
    /// The number of the last look that was asked for.
    asked: AtomicU64,
    /// The last look of each loop.
    loops: Mutex<BTreeMap<u64, u64>>,
}

impl Lookouts {
    /// Asks all loops to look. Returns the look's number.
    pub(super) fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns whether all loops have looked since `number` was asked for.
    pub(super) fn have_looked(&self, number: u64) -> bool {
        self.loops.lock().values().all(|&last| last >= number)
    }
}

/// A loop's duty to look at its sockets. It ends with the loop.
pub struct Lookout {
    registry: Arc<Registry>,
    number: u64,
    last: u64,
}

impl Lookout {
    /// Takes the duty over for a loop.
    pub fn new(registry: &Arc<Registry>) -> Self {
        let lookouts = &registry.lookouts;
        let mut loops = lookouts.loops.lock();
        let number = loops.last_key_value().map_or(0, |(last, _)| last + 1);
        // Asked for before there was a socket to look at.
        let last = lookouts.asked.load(Ordering::Acquire);
        loops.insert(number, last);
        Lookout {
            registry: Arc::clone(registry),
            number,
            last,
        }
    }

    /// Returns the number of the look that the loop owes, if it owes one.
    pub fn owed(&self) -> Option<u64> {
        let asked = self.registry.lookouts.asked.load(Ordering::Acquire);
        (asked > self.last).then_some(asked)
    }

    /// Takes note of a look that began after `number` was owed.
    pub fn looked(&mut self, number: u64) {
        self.last = number;
        let mut loops = self.registry.lookouts.loops.lock();
        loops.insert(self.number, number);
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.registry.lookouts.loops.lock().remove(&self.number);
    }
}
