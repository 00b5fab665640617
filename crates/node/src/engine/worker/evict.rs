//! Keys that were not used for long make room, where the namespace says so: a cache.

use std::sync::atomic::Ordering::Relaxed;

use super::super::namespace::Namespace;
use super::commit::DeleteState;
use super::{Active, Work, Worker, count};
use crate::Key;
use crate::format::namespace::WhenFull;

/// Keys that are looked at for each that is evicted.
const SAMPLE: usize = 16;
/// Evictions of one round.
const EVICTIONS: usize = 8;

impl Worker {
    /// Drops keys that were not used for long, if the namespace says so. Returns false if none was.
    pub(super) fn evict(&mut self, at: usize) -> bool {
        let namespace = self.namespace(at);
        let evicts = namespace.description.when_full == WhenFull::Evict;
        if !evicts || namespace.check_writable().is_err() {
            return false;
        }
        let clock = namespace.clock.load(Relaxed);
        let mut begun = 0;
        for _ in 0..EVICTIONS {
            let mut oldest: Option<(u8, Key)> = None;
            namespace
                .index
                .sample(&mut rand::rng(), SAMPLE, |key, _, used| {
                    let age = clock.wrapping_sub(used);
                    if oldest.is_none_or(|(most, _)| age > most) {
                        oldest = Some((age, *key));
                    }
                });
            let Some((_, key)) = oldest else {
                break;
            };
            begun += usize::from(self.begin_eviction(at, &namespace, key));
        }
        begun > 0 || self.evictions[at] > 0
    }

    fn begin_eviction(&mut self, at: usize, namespace: &Namespace, key: Key) -> bool {
        let hash = namespace.index.hash(&key);
        if !namespace.keys.try_acquire(hash, &key) {
            return false;
        }
        if !namespace.has_key(hash, &key) {
            // Another loop has dropped it since it was drawn.
            if let Some(next) = namespace.keys.release(hash, &key) {
                next.own_key();
            }
            return false;
        }
        let slot = self.commands.add(Active {
            tag: 0,
            namespace: at,
            key,
            hash,
            work: Work::Delete(DeleteState { is_eviction: true }),
            failure: None,
        });
        self.evictions[at] += 1;
        self.admit_delete(slot);
        true
    }

    /// Ends the eviction `slot`.
    pub(super) fn eviction_done(&mut self, at: usize, slot: u32) {
        self.commands.remove(slot);
        self.evictions[at] -= 1;
        let namespace = self.namespace(at);
        count(&namespace.counters.evictions);
        namespace.wake_space_waiters();
    }
}
