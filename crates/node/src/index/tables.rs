//! The hash tables of one partition: many small ones, so that growing moves few entries.
//!
//! Their number follows the number of keys by linear hashing: one table is split at a time, in the
//! order of their numbers. A table holds the hashes of one prefix, and its number is the prefix with
//! its bits reversed: so a split adds a table at the end, and prefixes keep the order of hashes.

use hashbrown::HashTable;

/// The partition's own bits, at the top of a hash.
pub(super) const PARTITION_BITS: u32 = 6;
/// Tables have about half of this to twice this many keys.
const MEAN_KEYS: usize = 256;

/// Maps hashes to slots of the arena.
pub(super) struct Tables {
    tables: Vec<HashTable<u32>>,
    len: usize,
    /// The most entries that one insert has moved.
    most_moved: usize,
}

impl Default for Tables {
    fn default() -> Self {
        Tables {
            tables: vec![HashTable::new()],
            len: 0,
            most_moved: 0,
        }
    }
}

/// Returns the hash that a table sees. It takes its tags from the top 7 bits, which are the same
/// throughout a table: the lowest come there instead.
fn inner(hash: u64) -> u64 {
    hash.rotate_right(7)
}

/// Returns the capacity for a table of `len` keys: with room, or a table that is full but for the
/// marks of removals would be rebuilt again and again.
fn roomy(len: usize) -> usize {
    len + 1 + len / 16
}

impl Tables {
    fn reversed(hash: u64) -> usize {
        (hash << PARTITION_BITS).reverse_bits() as usize
    }

    /// Returns the number of the table of a hash.
    fn table(&self, hash: u64) -> usize {
        let mask = self.tables.len().next_power_of_two() - 1;
        let full = Tables::reversed(hash) & mask;
        if full < self.tables.len() {
            full
        } else {
            full & mask >> 1
        }
    }

    /// Returns the last hash of the table that has `hash`.
    pub(super) fn last_hash(&self, hash: u64) -> u64 {
        let full = self.tables.len().next_power_of_two();
        let mut depth = full.trailing_zeros();
        if depth > 0 {
            let half = full / 2;
            let low = Tables::reversed(hash) & (half - 1);
            depth -= u32::from(low + half >= self.tables.len());
        }
        hash | u64::MAX >> (PARTITION_BITS + depth)
    }

    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.tables[self.table(hash)]
            .find(inner(hash), |&slot| is(slot))
            .copied()
    }

    /// Adds a slot whose key is not there yet.
    pub(super) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        let mut number = self.table(hash);
        let table = &self.tables[number];
        // One or the other, never both: so an insert moves the entries of one table at most.
        if table.len() == table.capacity() {
            self.remake(number, &hash_of);
        } else if self.len >= MEAN_KEYS * self.tables.len() {
            self.split(&hash_of);
            number = self.table(hash);
        }
        self.tables[number].insert_unique(inner(hash), slot, |&slot| inner(hash_of(slot)));
        self.len += 1;
    }

    /// Grows a table, or frees it of the marks of removed entries. `hashbrown` would double it for
    /// the marks alone.
    fn remake(&mut self, number: usize, hash_of: impl Fn(u32) -> u64) {
        let mut old = std::mem::take(&mut self.tables[number]);
        let mut new = HashTable::with_capacity(roomy(old.len()));
        self.most_moved = self.most_moved.max(old.len());
        for slot in old.drain() {
            new.insert_unique(inner(hash_of(slot)), slot, |&slot| inner(hash_of(slot)));
        }
        self.tables[number] = new;
    }

    /// Splits the table whose turn it is.
    fn split(&mut self, hash_of: impl Fn(u32) -> u64) {
        let count = self.tables.len();
        let parent = count - (1 << count.ilog2());
        let old = std::mem::take(&mut self.tables[parent]);
        self.most_moved = self.most_moved.max(old.len());
        self.tables.push(HashTable::new());
        let hashes: Vec<(u64, u32)> = old.iter().map(|&slot| (hash_of(slot), slot)).collect();
        drop(old);
        let (stay, go): (Vec<_>, Vec<_>) = hashes
            .into_iter()
            .partition(|&(hash, _)| self.table(hash) == parent);
        for (number, members) in [(parent, stay), (count, go)] {
            let mut table = HashTable::with_capacity(roomy(members.len()));
            for (hash, slot) in members {
                table.insert_unique(inner(hash), slot, |&slot| inner(hash_of(slot)));
            }
            self.tables[number] = table;
        }
    }

    pub(super) fn remove(&mut self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let number = self.table(hash);
        let entry = self.tables[number]
            .find_entry(inner(hash), |&slot| is(slot))
            .ok()?;
        self.len -= 1;
        Some(entry.remove().0)
    }

    /// Iterates over the slots of the table that has `hash`, in no order.
    pub(super) fn slots_beside(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        self.tables[self.table(hash)].iter().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn most_moved(&self) -> usize {
        self.most_moved
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let tables = self.tables.iter().map(HashTable::allocation_size);
        tables.sum::<usize>() + self.tables.capacity() * size_of::<HashTable<u32>>()
    }

    /// Returns keys and capacity of each table.
    #[cfg(test)]
    pub(super) fn shape(&self) -> Vec<(usize, usize)> {
        let tables = self.tables.iter();
        tables
            .map(|table| (table.len(), table.capacity()))
            .collect()
    }
}
