//! A sharded hash over rings of bytes.
//!
//! A shard is a ring of entries under a lock and a share of the table that names them. The table's
//! buckets are cache lines of fixed number and place: a key belongs to one bucket, which is its
//! stripe too. A thread that finds no trace of a key there is done after one line, without a lock.
//!
//! Eviction is a ring's own: the oldest entry leaves, unless it was read since it came. Then it
//! moves to the front again, with one use less (S3-FIFO's main queue). So entries that are read again
//! outlive a walk by gets over the whole store.
//!
//! Why not `quick_cache`: its shard locks are its own, so that the check of a stripe and the insert
//! would need a lock around it on every write. An entry would be two allocations and some 60 bytes
//! beside the record's; here it is 20 and its share of a bucket.
//!
//! Invariant: slots and rings change under the shard's lock. Outside it, slots are looked at only
//! to learn that a key has none.

mod bucket;
mod ring;

use terrace_lsm::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use terrace_lsm::sync::{Mutex, MutexGuard, hint};
use terrace_lsm::table::key_hash;

use self::bucket::{Bucket, Slot};
use self::ring::{Ring, entry_bytes};
use super::structure::{Counts, Fill, Found, Key, SHRINK_PACE, Structure, Version};
use crate::KeyspaceId;
use crate::SequenceNumber;

/// Entries of the usual size to a bucket, whose seven slots are too few for one in fifty.
const ENTRIES_A_BUCKET: usize = 4;
/// Divisor of the memory: at least that part of it is buckets. There are fewer of larger entries,
/// and nearly all find a slot.
const FEWEST_BUCKETS_PART: usize = 32;
const BUCKET_BYTES: usize = size_of::<Bucket>();
const MOST_SHARDS: usize = 64;
const USUAL_SHARD_BYTES: usize = 512 << 10;
const MOST_CHUNK_BYTES: usize = 64 << 10;
/// A page, usually.
const LEAST_CHUNK_BYTES: usize = 4 << 10;
/// Chunks of a large ring: each may be a mapping, which a process may have 65,530 of.
const LARGE_RINGS_CHUNKS: usize = 128;
/// Maximum number of shards that are looked through when memory is wanted back.
const SHRUNK_AT_ONCE: usize = 4;
/// Maximum bytes of an entry. Larger ones are left to the block cache, from where they are read
/// without a copy.
const MOST_ENTRY_BYTES: usize = 8 << 10;
/// Number of times that a lock is tried before its holder is left alone.
const TRIES: u32 = 32;
/// Maximum number of entries in a row that move to the front again because they were read. Then the
/// oldest leaves in any case, so that no thread waits long for room.
const MOVES: u32 = 8;

/// See the head of the file.
pub(super) struct HashBuffer {
    buckets: Box<[Bucket]>,
    shards: Box<[Shard]>,
    most_entry_bytes: usize,
    rings_least_bytes: u64,
    hash_seed: u64,
    /// Number of shards that were asked to shrink.
    shrunk: AtomicUsize,
    memory_bytes: AtomicU64,
}

/// On lines of its own, like its neighbours.
#[repr(align(128))]
struct Shard {
    inner: Mutex<Inner>,
    misses: AtomicU64,
}

struct Inner {
    ring: Ring,
    counts: Counts,
}

impl Shard {
    /// Takes the lock, unless another thread holds it for longer than a moment.
    fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        for _ in 0..TRIES {
            if let Some(inner) = self.inner.try_lock() {
                return Some(inner);
            }
            hint::spin_loop();
        }
        None
    }
}

impl HashBuffer {
    pub(super) fn new(capacity_bytes: u64, usual_record_bytes: u32, hash_seed: u64) -> Self {
        let capacity_bytes = usize::try_from(capacity_bytes).unwrap_or(usize::MAX >> 1);
        let usual_bytes = ENTRIES_A_BUCKET * entry_bytes(usual_record_bytes as usize, 0);
        let buckets = capacity_bytes / (usual_bytes + BUCKET_BYTES);
        let buckets = buckets.max(capacity_bytes / FEWEST_BUCKETS_PART / BUCKET_BYTES);
        let rings_bytes = capacity_bytes - buckets * BUCKET_BYTES;
        let shards = (rings_bytes / USUAL_SHARD_BYTES).clamp(1, MOST_SHARDS);
        let shards = 1 << shards.ilog2();
        let ring_bytes = rings_bytes / shards;
        let chunk_bytes = (1 << (ring_bytes / 8).max(1).ilog2()) as usize;
        let chunk_bytes = chunk_bytes.clamp(LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES);
        let chunk_bytes = chunk_bytes.max(1 << (ring_bytes / LARGE_RINGS_CHUNKS).max(1).ilog2());
        let buckets = (buckets / shards).max(1) * shards;
        let shard = || Shard {
            inner: Mutex::new(Inner {
                ring: Ring::new(ring_bytes, chunk_bytes),
                counts: Counts::default(),
            }),
            misses: AtomicU64::new(0),
        };
        HashBuffer {
            buckets: (0..buckets).map(|_| Bucket::new()).collect(),
            shards: (0..shards).map(|_| shard()).collect(),
            most_entry_bytes: MOST_ENTRY_BYTES.min(chunk_bytes / 2),
            rings_least_bytes: ring::least_bytes(chunk_bytes) * shards as u64,
            hash_seed,
            shrunk: AtomicUsize::new(0),
            memory_bytes: AtomicU64::new((buckets * BUCKET_BYTES) as u64),
        }
    }

    fn buckets_bytes(&self) -> u64 {
        (self.buckets.len() * BUCKET_BYTES) as u64
    }

    /// Returns a key's bucket and its shard. All shards have the same number of buckets, so scaling
    /// the hash to either number chooses alike.
    #[inline]
    fn locate(&self, hash: u64) -> Option<(&Bucket, &Shard)> {
        let scaled = |to: usize| ((u128::from(hash) * to as u128) >> 64) as usize;
        let bucket = self.buckets.get(scaled(self.buckets.len()))?;
        Some((bucket, self.shards.get(scaled(self.shards.len()))?))
    }

    /// Returns the slot and place of a key's entry. The caller holds the lock.
    fn find<'a>(bucket: &'a Bucket, ring: &Ring, key: &Key<'_>) -> Option<(&'a AtomicU64, u32)> {
        bucket
            .candidates(key.hash)
            .find(|&(_, place)| ring.entry(place).is_some_and(|entry| entry.is_of(key)))
    }

    /// Adds an entry for a key that has none. Returns its slot, unless the entry is too large.
    fn insert<'a>(
        &self,
        bucket: &'a Bucket,
        inner: &mut Inner,
        key: &Key<'_>,
        version: Version<'_>,
    ) -> Option<&'a AtomicU64> {
        let bytes = entry_bytes(key.bytes.len(), version.value.map_or(0, <[u8]>::len));
        if bytes > self.most_entry_bytes {
            return None;
        }
        let before = inner.ring.memory_bytes();
        if !inner.ring.has_room(bytes) {
            self.make_room(inner, bytes);
        }
        let place = inner.ring.push(key, version);
        self.count_memory(before, inner.ring.memory_bytes());
        let place = place?;
        let (slot, displaced) = bucket.name(Slot::new(key.hash, place));
        inner.counts.evictions += u64::from(displaced);
        Some(slot)
    }

    fn count_memory(&self, before: u64, after: u64) {
        if after != before {
            // A difference below zero wraps, and so does the sum.
            self.memory_bytes
                .fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Evicts entries until there is room for `bytes`, or, in a ring that holds more than it may, a
    /// multiple of them has left.
    fn make_room(&self, inner: &mut Inner, bytes: usize) {
        let begun_with = inner.ring.held_bytes();
        self.evict(inner, |ring| {
            let left_bytes = begun_with.saturating_sub(ring.held_bytes());
            ring.has_room(bytes)
                || ring.has_place(bytes) && left_bytes >= SHRINK_PACE * bytes as u64
        });
    }

    /// Evicts entries until `is_enough`.
    fn evict(&self, inner: &mut Inner, is_enough: impl Fn(&Ring) -> bool) {
        let mut moves = MOVES;
        while !is_enough(&inner.ring) {
            let Some((place, entry)) = inner.ring.oldest() else {
                break;
            };
            let hash = key_hash(entry.key, self.hash_seed);
            let key = Key::new(KeyspaceId::from_number(entry.keyspace), entry.key, hash);
            let bucket = self.locate(key.hash).map(|(bucket, _)| bucket);
            // An entry that nothing names has been overwritten elsewhere, or displaced.
            let Some(slot) = bucket.and_then(|bucket| bucket.naming(place)) else {
                inner.ring.drop_oldest();
                continue;
            };
            if moves > 0 && bucket::has_uses(slot) {
                moves -= 1;
                if let Some(moved) = inner.ring.move_oldest() {
                    bucket::move_to(slot, moved);
                    continue;
                }
            } else {
                inner.ring.drop_oldest();
            }
            bucket::clear(slot);
            inner.counts.evictions += 1;
        }
    }
}

impl Structure for HashBuffer {
    #[inline]
    fn get(&self, key: &Key<'_>, floor: SequenceNumber, snapshot: SequenceNumber) -> Option<Found> {
        let (bucket, shard) = self.locate(key.hash)?;
        let found = match bucket.candidates(key.hash).next() {
            Some(_) => shard.try_lock().and_then(|mut inner| {
                let (slot, place) = Self::find(bucket, &inner.ring, key)?;
                let entry = inner.ring.entry(place)?;
                if entry.sequence < floor || entry.sequence > snapshot {
                    return None;
                }
                let found = match entry.value {
                    Some(value) => Found::Value(value.into()),
                    None => Found::Absent,
                };
                bucket::used(slot);
                inner.counts.hits += 1;
                inner.counts.absent_hits += u64::from(found == Found::Absent);
                Some(found)
            }),
            None => None,
        };
        if found.is_none() {
            shard.misses.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    fn forward(&self, key: &Key<'_>, version: Version<'_>, insert: bool) -> bool {
        let Some((bucket, shard)) = self.locate(key.hash) else {
            return false;
        };
        bucket.raise_stripe(version.sequence);
        if !insert && bucket.candidates(key.hash).next().is_none() {
            return false;
        }
        let mut inner = shard.inner.lock();
        let inner = &mut *inner;
        match Self::find(bucket, &inner.ring, key) {
            Some((_, place)) if inner.ring.is_newer(place, version.sequence) => return false,
            Some((_, place)) if inner.ring.overwrite(place, key, version) => return true,
            Some((slot, _)) => bucket::clear(slot),
            None if !insert => return false,
            None => {}
        }
        self.insert(bucket, inner, key, version).is_some()
    }

    fn invalidate(&self, key: &Key<'_>, sequence: SequenceNumber) {
        let Some((bucket, shard)) = self.locate(key.hash) else {
            return;
        };
        bucket.raise_stripe(sequence);
        if bucket.candidates(key.hash).next().is_some() {
            let inner = shard.inner.lock();
            if let Some((slot, _)) = Self::find(bucket, &inner.ring, key) {
                bucket::clear(slot);
            }
        }
    }

    fn fill(&self, key: &Key<'_>, version: Version<'_>, read_at: SequenceNumber) -> Fill {
        let Some((bucket, shard)) = self.locate(key.hash) else {
            return Fill::NotWanted;
        };
        let bytes = entry_bytes(key.bytes.len(), version.value.map_or(0, <[u8]>::len));
        if bytes > self.most_entry_bytes {
            return Fill::NotWanted;
        }
        let Some(mut inner) = shard.try_lock() else {
            return Fill::NotWanted;
        };
        if let Some((slot, place)) = Self::find(bucket, &inner.ring, key) {
            let held = inner.ring.entry(place).map(|entry| entry.sequence);
            if held.is_some_and(|held| held >= version.sequence) {
                return Fill::NotWanted;
            }
            // The entry is from before a floor: it would be in the way for ever.
            bucket::clear(slot);
        }
        let Some(slot) = self.insert(bucket, &mut inner, key, version) else {
            return Fill::NotWanted;
        };
        // After the slot: a forward that did not find it has raised the stripe before.
        if bucket.stripe() > read_at {
            bucket::clear(slot);
            return Fill::Outdated;
        }
        Fill::Taken
    }

    fn clear(&self) {
        let each = (self.buckets.len() / self.shards.len()).max(1);
        for (shard, buckets) in self.shards.iter().zip(self.buckets.chunks(each)) {
            let mut inner = shard.inner.lock();
            buckets.iter().for_each(Bucket::clear);
            let freed = inner.ring.clear();
            self.memory_bytes.fetch_sub(freed, Ordering::Relaxed);
        }
    }

    fn shrink(&self, bytes: u64) {
        let mut to_leave = bytes;
        for _ in 0..SHRUNK_AT_ONCE.min(self.shards.len()) {
            let turn = self.shrunk.fetch_add(1, Ordering::Relaxed);
            let Some(shard) = self.shards.get(turn % self.shards.len()) else {
                return;
            };
            let mut inner = shard.inner.lock();
            let (memory, held) = (inner.ring.memory_bytes(), inner.ring.held_bytes());
            let left = |ring: &Ring| held.saturating_sub(ring.held_bytes());
            self.evict(&mut inner, |ring| {
                ring.has_room(0) || left(ring) >= to_leave
            });
            self.count_memory(memory, inner.ring.memory_bytes());
            to_leave = to_leave.saturating_sub(left(&inner.ring));
            if to_leave == 0 {
                return;
            }
        }
    }

    fn limit(&self, bytes: u64) {
        let of_ring = bytes.saturating_sub(self.buckets_bytes()) / self.shards.len() as u64;
        for shard in &self.shards {
            shard.inner.lock().ring.limit(of_ring);
        }
    }

    fn least_bytes(&self) -> u64 {
        self.buckets_bytes() + self.rings_least_bytes
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for shard in &self.shards {
            let counts = shard.inner.lock().counts;
            all.hits += counts.hits;
            all.absent_hits += counts.absent_hits;
            all.evictions += counts.evictions;
            all.misses += shard.misses.load(Ordering::Relaxed);
        }
        all
    }
}
