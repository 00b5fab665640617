//! One partition of the index, behind one lock.

use std::sync::Arc;

use rand::Rng;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::arena::Arena;
use super::entry::{Entry, Found, Packed, cell_at, pack};
use super::side::{self, Side};
use super::tables::Tables;
use super::totals::Totals;
use crate::block::Extent;
use crate::format::location::Place;
use crate::key::Key;

/// A partition has 2^32 keys, and takes no other one. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The keys of one part of the hashes. Every `hash` that is given must be the index's hash of the
/// key, and the partition the one of that hash.
// Locks of different partitions do not share a cache line.
#[repr(align(64))]
pub struct Partition {
    secret: u64,
    tables: Tables,
    arena: Arena,
    side: Side,
    totals: Arc<Totals>,
}

impl Partition {
    pub(super) fn new(secret: u64, totals: Arc<Totals>) -> Self {
        Partition {
            secret,
            tables: Tables::default(),
            arena: Arena::default(),
            side: Side::default(),
            totals,
        }
    }

    fn find(&self, hash: u64, key: &Key) -> Option<u32> {
        self.tables.find(hash, |slot| self.arena.get(slot).is(key))
    }

    /// Returns the `Found` of a key.
    pub fn get(&self, hash: u64, key: &Key) -> Option<Found> {
        let slot = self.find(hash, key)?;
        Some(self.found(self.arena.get(slot)))
    }

    /// Returns true if the key is there.
    pub fn contains(&self, hash: u64, key: &Key) -> bool {
        self.find(hash, key).is_some()
    }

    /// Notes a use of a key at `age`, and returns its `Found`.
    pub fn touch(&mut self, hash: u64, key: &Key, age: u8) -> Option<Found> {
        let slot = self.find(hash, key)?;
        self.arena.get_mut(slot).set_age(age);
        Some(self.found(self.arena.get(slot)))
    }

    /// Inserts a key, or replaces its `Found`. Returns the previous one.
    ///
    /// # Errors
    /// The partition takes no other key. Nothing has changed.
    pub fn insert(
        &mut self,
        hash: u64,
        key: &Key,
        found: Found,
        age: u8,
    ) -> Result<Option<Found>, Full> {
        if let Some(slot) = self.find(hash, key) {
            return Ok(Some(self.change(slot, found, age)));
        }
        self.add(hash, key, found, age).map(|()| None)
    }

    /// Replaces the `Found` of a key and keeps its age. Returns the previous one; none, and changes
    /// nothing, if the key is not there.
    pub fn replace(&mut self, hash: u64, key: &Key, found: Found) -> Option<Found> {
        let slot = self.find(hash, key)?;
        let age = self.arena.get(slot).age();
        Some(self.change(slot, found, age))
    }

    /// Removes a key. Returns its `Found`.
    pub fn remove(&mut self, hash: u64, key: &Key) -> Option<Found> {
        let (tables, arena) = (&mut self.tables, &self.arena);
        let slot = tables.remove(hash, |slot| arena.get(slot).is(key))?;
        let entry = *self.arena.get(slot);
        self.arena.remove(slot);
        let earlier = self.taken(&entry);
        self.totals.remove_key();
        self.totals.change_value_bytes(earlier.value_bytes, 0);
        Some(earlier)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a key that is not there.
    fn add(&mut self, hash: u64, key: &Key, found: Found, age: u8) -> Result<(), Full> {
        let packed = self.pack(&found);
        let entry = Entry::new(key, found.value_bytes, found.check, packed, age);
        let Some(slot) = self.arena.insert(entry) else {
            self.taken(&entry);
            return Err(Full);
        };
        let (arena, secret) = (&self.arena, self.secret);
        let hash_of = |slot| xxh3_64_with_seed(arena.get(slot).key_bytes(), secret);
        self.tables.insert(hash, slot, hash_of);
        self.totals.add_key();
        self.totals.change_value_bytes(0, found.value_bytes);
        Ok(())
    }

    fn change(&mut self, slot: u32, found: Found, age: u8) -> Found {
        let old = *self.arena.get(slot);
        let packed = self.pack(&found);
        let new = Entry::new(&old.key(), found.value_bytes, found.check, packed, age);
        *self.arena.get_mut(slot) = new;
        self.totals
            .change_value_bytes(old.value_bytes, found.value_bytes);
        self.taken(&old)
    }

    /// Packs a place, in the side table if it must be.
    fn pack(&mut self, found: &Found) -> Packed {
        if let Some(packed) = pack(&found.place, found.value_bytes) {
            return packed;
        }
        self.totals
            .change_extra_extents(0, side::cost(&found.place));
        Packed::Side(self.side.insert(found.place.clone()))
    }

    fn place(&self, entry: &Entry) -> Place {
        match entry.packed() {
            Packed::Extent(place) => Place::Extents(entry.extent(place).into()),
            Packed::Cell(place) => Place::Cell(cell_at(place)),
            Packed::Side(number) => self.side.get(number).clone(),
        }
    }

    fn found(&self, entry: &Entry) -> Found {
        Found {
            value_bytes: entry.value_bytes,
            check: entry.check,
            place: self.place(entry),
        }
    }

    /// Takes the `Found` of an entry, and its place out of the side table.
    fn taken(&mut self, entry: &Entry) -> Found {
        let place = match entry.packed() {
            Packed::Side(number) => {
                let place = self.side.remove(number);
                self.totals.change_extra_extents(side::cost(&place), 0);
                place
            }
            _ => self.place(entry),
        };
        Found {
            value_bytes: entry.value_bytes,
            check: entry.check,
            place,
        }
    }

    /// Returns the last hash of the table that has `hash`, and the table's keys that are not before
    /// (`hash`, `key`), in order.
    pub(super) fn keys_from(&self, hash: u64, key: Option<&Key>) -> (u64, Vec<(u64, Key)>) {
        let mut keys: Vec<(u64, Key)> = self
            .tables
            .slots_beside(hash)
            .map(|slot| {
                let entry = self.arena.get(slot);
                let hash = xxh3_64_with_seed(entry.key_bytes(), self.secret);
                (hash, entry.key())
            })
            .filter(|(its, own)| (*its, Some(own)) >= (hash, key))
            .collect();
        keys.sort_unstable();
        (self.tables.last_hash(hash), keys)
    }

    /// Returns the number of slots that have been used, free ones included.
    pub(super) fn slots(&self) -> u32 {
        self.arena.slots()
    }

    /// Visits the entries of the slots `from..to`.
    pub(super) fn visit(&self, from: u32, to: u32, visit: &mut impl FnMut(&Key, &Found)) {
        let mut next = from;
        while let Some(slot) = self.arena.next_live(next, to) {
            let entry = self.arena.get(slot);
            visit(&entry.key(), &self.found(entry));
            next = slot + 1;
        }
    }

    /// Visits the entries of the slots `from..to` that have a block in `range`.
    pub(super) fn visit_in(
        &self,
        from: u32,
        to: u32,
        range: Extent,
        visit: &mut impl FnMut(&Key, &Found),
    ) {
        let mut next = from;
        while let Some(slot) = self.arena.next_live(next, to) {
            let entry = self.arena.get(slot);
            let inside = match entry.packed() {
                Packed::Extent(place) => entry.extent(place).overlaps(range),
                Packed::Cell(_) => false,
                Packed::Side(number) => self.side.overlaps(number, range),
            };
            if inside {
                visit(&entry.key(), &self.found(entry));
            }
            next = slot + 1;
        }
    }

    /// Returns a random entry and its age; none if there are no keys.
    pub(super) fn random(&self, rng: &mut impl Rng) -> Option<(Key, Found, u8)> {
        let slots = u64::from(self.slots());
        let mut slot = 0;
        // An entry behind free slots is more likely than others if the first try must do.
        for _ in 0..8 {
            slot = ((u64::from(rng.next_u32()) * slots) >> 32) as u32;
            if self.arena.next_live(slot, slot + 1).is_some() {
                break;
            }
        }
        self.near(slot)
    }

    /// Returns the first entry from `slot` on, around the end, and its age.
    pub(super) fn near(&self, slot: u32) -> Option<(Key, Found, u8)> {
        let first = self.arena.next_live(slot, self.slots());
        let slot = first.or_else(|| self.arena.next_live(0, slot))?;
        let entry = self.arena.get(slot);
        Some((entry.key(), self.found(entry), entry.age()))
    }

    pub(super) fn most_moved(&self) -> usize {
        self.tables.most_moved()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.tables.memory_bytes() + self.arena.memory_bytes() + self.side.memory_bytes()
    }

    #[cfg(test)]
    pub(super) fn shape(&self) -> Vec<(usize, usize)> {
        self.tables.shape()
    }
}
