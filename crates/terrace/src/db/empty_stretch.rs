//! Stretches of keys in which no entry is visible, so that iterators begin behind them.
//!
//! A queue's consumer takes its first entry again and again. It passes over the tombstones of all
//! entries taken before. No seek leads past them, for each is a key of its own. So a keyspace remembers
//! one stretch of keys. An iterator that saw everything up to number S found nothing visible in it.
//! Readers at S or later that have passed over some hidden keys go on behind the stretch. Three
//! rules keep that true:
//!
//! 1. **A put or an ingest into the stretch ends it before its number becomes visible.** The leader of
//!    the commit queue holds every write against it, after the write is in the index. A reader that may
//!    see the write finds the stretch gone. Deletes leave it as it is.
//! 2. **A new stretch is a candidate first.** Writes may have gone on while the iterator looked. The
//!    leader may be in the midst of one that it did not hold against the candidate. The leader states
//!    the number from which on it watches. Or a reader finds no leader at work, and then the next
//!    leader watches. An iterator that saw all before that number, and nothing visible in the
//!    candidate, makes the candidate the stretch.
//! 3. **Readers below S do not use it.** For them something may be visible there.
//!
//! Flushes and merges do not change the view of readers, so they do not come here. A keyspace without a
//! stretch, the usual case, costs a write one load.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::debug_expect::DebugExpect;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};
use terrace_lsm::sync::{ArcSwap, Mutex};

use crate::db::Store;
use crate::write_buffer::record::Records;
use crate::{KeyspaceId, SequenceNumber};

/// Keys from the first up to the second, excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

impl Keys {
    fn contain(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && key < self.to.as_slice()
    }

    fn enclose(&self, other: &Keys) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// A stretch in which nothing is visible from a number on.
pub(crate) struct Stretch {
    pub(crate) keys: Keys,
    since: SequenceNumber,
}

/// Keys that may become a stretch.
struct Candidate {
    keys: Keys,
    /// Every write behind this number is held against it.
    unwatched: AtomicU64,
}

impl Candidate {
    fn is_watched(&self) -> bool {
        self.unwatched.load(Ordering::Acquire) < SequenceNumber::MAX
    }

    fn watch_behind(&self, sequence: SequenceNumber) {
        self.unwatched.store(sequence, Ordering::Release);
    }
}

/// The stretch and the candidate of one keyspace.
#[derive(Clone, Default)]
struct Remembered {
    stretch: Option<Arc<Stretch>>,
    candidate: Option<Arc<Candidate>>,
}

impl Remembered {
    fn is_touched(&self, is_touched: impl Fn(&Keys) -> bool) -> bool {
        let stretch = self.stretch.as_ref().map(|stretch| &stretch.keys);
        let candidate = self.candidate.as_ref().map(|candidate| &candidate.keys);
        stretch.into_iter().chain(candidate).any(is_touched)
    }
}

/// The stretches of a store. See the head of the file.
#[derive(Default)]
pub(crate) struct EmptyStretches {
    /// Number of keyspaces with a stretch or a candidate.
    count: AtomicU64,
    by_keyspace: ArcSwap<BTreeMap<KeyspaceId, Remembered>>,
    /// Locked by every change; nothing is locked under it.
    change: Mutex<()>,
}

impl EmptyStretches {
    /// Returns the stretch around a key, for a reader that took `snapshot` before.
    pub(crate) fn around(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Option<Arc<Stretch>> {
        // Relaxed: a reader that misses a stretch does without.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let all = self.by_keyspace.load();
        let stretch = all.get(&keyspace)?.stretch.as_ref()?;
        let is_seen = snapshot >= stretch.since && stretch.keys.contain(key);
        is_seen.then(|| Arc::clone(stretch))
    }

    /// Reports that a reader at `snapshot` found nothing visible in `seen`. `written` is to give the
    /// last number written, if no write is under way.
    pub(crate) fn offer(
        &self,
        keyspace: KeyspaceId,
        seen: Keys,
        snapshot: SequenceNumber,
        written: impl FnOnce() -> Option<SequenceNumber>,
    ) {
        let present = self.by_keyspace.load().get(&keyspace).cloned();
        let Remembered { stretch, candidate } = present.unwrap_or_default();
        if stretch.is_some_and(|stretch| snapshot < stretch.since) {
            return;
        }
        // A candidate that no leader watches yet is not replaced: its turn comes.
        let is_replaced = |of: &Arc<Candidate>| of.is_watched() && !seen.enclose(&of.keys);
        let candidate = match candidate.filter(|candidate| !is_replaced(candidate)) {
            Some(candidate) => candidate,
            None => self.announce(keyspace, seen.clone()),
        };
        // After the announcement: writers behind this number find it.
        if !candidate.is_watched()
            && let Some(written) = written()
        {
            candidate.watch_behind(written);
        }
        if seen.enclose(&candidate.keys) && snapshot >= candidate.unwatched.load(Ordering::Acquire)
        {
            self.prove(keyspace, &candidate, snapshot);
        }
    }

    fn announce(&self, keyspace: KeyspaceId, keys: Keys) -> Arc<Candidate> {
        let candidate = Arc::new(Candidate {
            keys,
            unwatched: AtomicU64::new(SequenceNumber::MAX),
        });
        self.change(keyspace, |remembered| {
            remembered.candidate = Some(Arc::clone(&candidate));
        });
        candidate
    }

    /// Makes a candidate the stretch, unless it was ended or replaced.
    fn prove(&self, keyspace: KeyspaceId, proven: &Arc<Candidate>, since: SequenceNumber) {
        self.change(keyspace, |remembered| {
            let is_proven = |candidate: &mut Arc<Candidate>| Arc::ptr_eq(candidate, proven);
            if let Some(candidate) = remembered.candidate.take_if(is_proven) {
                remembered.stretch = Some(Arc::new(Stretch {
                    keys: candidate.keys.clone(),
                    since,
                }));
            }
        });
    }

    /// Holds a frame's records, which are in the index and not yet visible, against stretches and
    /// candidates. The leader calls it.
    #[inline]
    pub(crate) fn tell(&self, payload: &[&[u8]], first_sequence: SequenceNumber) {
        // A candidate that this misses has not been watched: no reader makes it the stretch.
        if self.count.load(Ordering::Acquire) > 0 {
            self.tell_all(payload, first_sequence);
        }
    }

    #[cold]
    fn tell_all(&self, payload: &[&[u8]], first_sequence: SequenceNumber) {
        let all = self.by_keyspace.load_full();
        for part in payload {
            for record in Records::new(part).map_while(Result::ok) {
                if record.kind.deletes() {
                    continue;
                }
                let keyspace = KeyspaceId::from_number(record.keyspace);
                let key_end = record.key_offset + record.key_bytes;
                let key = part
                    .get(record.key_offset..key_end)
                    .debug_expect("a decoded record lies in its payload");
                let remembered = all.get(&keyspace);
                if remembered.is_some_and(|of| of.is_touched(|keys| keys.contain(key))) {
                    self.end(keyspace, |keys| keys.contain(key));
                }
            }
        }
        let candidates = all.values().filter_map(|of| of.candidate.as_ref());
        for candidate in candidates.filter(|candidate| !candidate.is_watched()) {
            candidate.watch_behind(first_sequence.saturating_sub(1));
        }
    }

    /// Forgets the stretch and the candidate of a keyspace: the keyspace is dropped, or the caller
    /// makes entries visible whose keys it does not name.
    pub(crate) fn forget(&self, keyspace: KeyspaceId) {
        self.end(keyspace, |_| true);
    }

    fn end(&self, keyspace: KeyspaceId, is_ended: impl Fn(&Keys) -> bool) {
        self.change(keyspace, |remembered| {
            let _ended = remembered.stretch.take_if(|of| is_ended(&of.keys));
            let _ended = remembered.candidate.take_if(|of| is_ended(&of.keys));
        });
    }

    fn change(&self, keyspace: KeyspaceId, change: impl FnOnce(&mut Remembered)) {
        let _one_at_a_time = self.change.lock();
        let mut all = BTreeMap::clone(&self.by_keyspace.load());
        let remembered = all.entry(keyspace).or_default();
        change(remembered);
        if remembered.stretch.is_none() && remembered.candidate.is_none() {
            all.remove(&keyspace);
        }
        let count = all.len() as u64;
        // Never below what readers find: one may have a candidate watched before this returns, and the
        // next leader must not pass it by.
        self.count.fetch_max(count, Ordering::Release);
        self.by_keyspace.store(Arc::new(all));
        self.count.store(count, Ordering::Release);
    }
}

impl Store {
    /// Returns the last number written, unless a write is under way. Later writers see the caller's
    /// earlier changes.
    pub(crate) fn written_if_idle(&self) -> Option<SequenceNumber> {
        if self.options.read_only {
            return Some(self.reads.visible());
        }
        let writer = self.writes.writer.try_lock()?;
        writer.as_ref().map(|writer| writer.last_sequence)
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
