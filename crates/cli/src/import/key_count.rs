//! How many different keys there were: exact for some hundred thousands, about right for more.
//!
//! A set holds the hashes of the keys. A full set drops all hashes with the lowest bit set, and takes no
//! more of them; the next time it goes by the next bit. After `n` halvings each hash stands for `2^n`
//! keys. Half a million hashes are right to about a thousandth.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// A full set takes 18 MiB.
const MAX_HASHES: usize = 1 << 20;

/// A number of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    pub number: u64,
    /// The number is about right.
    pub is_estimated: bool,
}

impl Keys {
    /// Returns whether a number of rows is surely larger than that of the keys.
    pub fn are_fewer_than(self, rows: u64) -> bool {
        match self.is_estimated {
            true => self.number < rows - rows / 100,
            false => self.number < rows,
        }
    }
}

/// Counts keys.
pub struct KeyCount {
    hashes: HashSet<u64, BuildHasherDefault<AsItIs>>,
    max_hashes: usize,
    /// Bits that are zero in each hash of the set.
    halvings: u32,
}

impl KeyCount {
    pub fn new() -> Self {
        KeyCount {
            hashes: HashSet::default(),
            max_hashes: MAX_HASHES,
            halvings: 0,
        }
    }

    pub fn add(&mut self, key: &[u8]) {
        let hash = xxh3_64(key);
        if hash.trailing_zeros() < self.halvings {
            return;
        }
        self.hashes.insert(hash);
        while self.hashes.len() > self.max_hashes && self.halvings < u64::BITS {
            self.halvings += 1;
            let halvings = self.halvings;
            self.hashes.retain(|hash| hash.trailing_zeros() >= halvings);
        }
    }

    pub fn keys(&self) -> Keys {
        let number = (self.hashes.len() as u64).checked_shl(self.halvings);
        Keys {
            number: number.unwrap_or(u64::MAX),
            is_estimated: self.halvings > 0,
        }
    }
}

/// A hash needs no other one. The set looks at the lowest bits first, which are alike after halvings.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash.reverse_bits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(max_hashes: usize, keys: impl Iterator<Item = u64>) -> Keys {
        let mut count = KeyCount::new();
        count.max_hashes = max_hashes;
        keys.for_each(|key| count.add(&key.to_be_bytes()));
        count.keys()
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let exact = |number| Keys {
            number,
            is_estimated: false,
        };
        assert_eq!(counted(100, 0..0), exact(0));
        assert_eq!(counted(100, (0..300).map(|row| row % 100)), exact(100));
        assert!(exact(2).are_fewer_than(3) && !exact(3).are_fewer_than(3));
    }

    #[test]
    fn many_keys_are_counted_about() {
        let keys = counted(10_000, (0..1_000_000).map(|row| row % 500_000));
        assert!(keys.is_estimated);
        assert!((475_000..525_000).contains(&keys.number), "{keys:?}");
        // An estimate near the rows says nothing of them.
        let near = Keys {
            number: 995,
            is_estimated: true,
        };
        assert!(!near.are_fewer_than(1000) && near.are_fewer_than(1010));
    }
}
