mod model;
mod scale;
mod ways;

use super::*;
use crate::block::{Extent, Extents};

/// Returns a key of 1 to 16 bytes; every number has one of its own.
fn key(number: u64) -> Key {
    let bytes = u128::from(number).to_le_bytes();
    let least = (u64::BITS - number.leading_zeros()).div_ceil(8) as usize;
    // Zeros behind tell the lengths apart: mostly the same length for the same least.
    Key::new(&bytes[..least.max(1 + (number * 7 % 16) as usize)]).unwrap()
}

fn extents(list: &[(u64, u64)]) -> Place {
    let list: Vec<_> = list
        .iter()
        .map(|&(start, blocks)| Extent { start, blocks })
        .collect();
    Place::Extents(Extents::new(&list).unwrap())
}

fn found(number: u64) -> Found {
    Found {
        value_bytes: number as u32 % 4096,
        check: !number as u32,
        place: extents(&[(number, 1)]),
    }
}

fn insert(index: &Index, key: &Key, found: Found) -> Result<Option<Found>, Full> {
    let hash = index.hash(key);
    index.partition(hash).lock().insert(hash, key, found, 1)
}

fn remove(index: &Index, key: &Key) -> Option<Found> {
    let hash = index.hash(key);
    index.partition(hash).lock().remove(hash, key)
}

fn get(index: &Index, key: &Key) -> Option<Found> {
    let hash = index.hash(key);
    index.partition(hash).lock().get(hash, key)
}

/// Makes an index of the keys 0 to `count` - 1.
fn filled(count: u64) -> Index {
    let index = Index::new(7);
    for number in 0..count {
        assert_eq!(insert(&index, &key(number), found(number)), Ok(None));
    }
    index
}
