//! Finds the fingerprints of a binary fuse filter.
//!
//! A slot that only one key has left is that key's to set. The key is taken away, which may leave
//! other slots with one key. Where that takes all keys away, the slots are set in the opposite
//! order, each when all others of its key are set. For a few seeds in a hundred it does not, of few
//! keys; then another one is tried. It costs some 35 to 50 ns a key, and 18 bytes of memory while
//! it lasts.

use super::fuse::{Shape, Widths, fingerprint, mix, pack};

/// Where no seed of this many serves, the table has a filter of another kind.
pub(super) const MOST_ATTEMPTS: u64 = 16;

/// Builds the contents of a filter of that many bits a key at most. `None` if it would err more
/// often than `most_chance`, or if none of `attempts` seeds serves.
pub(super) fn build<H>(
    hashes: impl Fn() -> H,
    count: usize,
    bits_per_key: f64,
    most_chance: f64,
    attempts: u64,
) -> Option<Vec<u8>>
where
    H: Iterator<Item = u64> + Clone,
{
    let shape = Shape::of(count);
    let widths = Widths::of(shape, bits_per_key * count as f64)?;
    if widths.chance(shape) > most_chance {
        return None;
    }
    let mut distinct = None;
    for attempt in 0..attempts {
        let seed = attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slots = match &distinct {
            None => fingerprints(hashes(), count, shape, seed),
            Some(distinct) => {
                let distinct: &Vec<u64> = distinct;
                fingerprints(distinct.iter().copied(), distinct.len(), shape, seed)
            }
        };
        if let Some(slots) = slots {
            return Some(pack(&slots, shape, widths, seed));
        }
        // Two keys with one hash leave no slot to either, with any seed.
        distinct.get_or_insert_with(|| {
            let mut sorted: Vec<u64> = hashes().collect();
            sorted.sort_unstable();
            sorted.dedup();
            sorted
        });
    }
    None
}

/// Returns the fingerprint of each slot, in the lowest bits; `None` if the seed does not serve.
fn fingerprints(
    hashes: impl Iterator<Item = u64> + Clone,
    count: usize,
    shape: Shape,
    seed: u64,
) -> Option<Vec<u64>> {
    let mut keys = by_segment(hashes.map(|hash| mix(hash, seed)), count, shape)?;
    let slots = usize::try_from(shape.slots()).ok()?;
    // Of the keys left in each slot: how many, and all of them in one XOR.
    let mut left = vec![0u8; slots];
    let mut sums = vec![0u64; slots];
    for &mixed in &keys {
        for position in shape.positions(mixed) {
            let left = left.get_mut(position)?;
            *left = left.checked_add(1)?;
            *sums.get_mut(position)? ^= mixed;
        }
    }
    take_away(&mut left, &mut sums, &mut keys, shape)?;
    let order = keys;
    // A slot that is no key's own has had all of its keys taken away, and its sum is 0. That of a
    // key's own is the key, until its turn comes.
    for slot in order.into_iter().rev() {
        let slot = slot as usize;
        let mixed = *sums.get(slot)?;
        let mut value = fingerprint(mixed);
        for position in shape.positions(mixed) {
            if position != slot {
                value ^= sums.get(position)?;
            }
        }
        *sums.get_mut(slot)? = value;
    }
    Some(sums)
}

/// Returns the keys in the order of their first segments: work with neighbours then touches memory
/// that is still in the cache.
fn by_segment(
    keys: impl Iterator<Item = u64> + Clone,
    count: usize,
    shape: Shape,
) -> Option<Vec<u64>> {
    let mut places = vec![0u32; shape.starts() as usize];
    for key in keys.clone() {
        *places.get_mut(shape.start(key))? += 1;
    }
    let mut first = 0;
    for place in &mut places {
        first += std::mem::replace(place, first);
    }
    let mut ordered = vec![0; count];
    for key in keys {
        let place = places.get_mut(shape.start(key))?;
        *ordered.get_mut(*place as usize)? = key;
        *place += 1;
    }
    Some(ordered)
}

/// Puts in the place of the keys the slots that are their own, in the order in which keys can be taken
/// away.
///
/// Work that follows from a slot is done at once: it lies beside it.
fn take_away(left: &mut [u8], sums: &mut [u64], keys: &mut [u64], shape: Shape) -> Option<()> {
    let mut order = keys.iter_mut();
    let mut single = Vec::new();
    for slot in 0..left.len() {
        if left.get(slot) == Some(&1) {
            single.push(slot);
        }
        while let Some(slot) = single.pop() {
            if left.get(slot) != Some(&1) {
                continue;
            }
            *order.next()? = slot as u64;
            let mixed = *sums.get(slot)?;
            for position in shape.positions(mixed) {
                let left = left.get_mut(position)?;
                *left = left.checked_sub(1)?;
                if position == slot {
                    continue;
                }
                *sums.get_mut(position)? ^= mixed;
                if *left == 1 {
                    single.push(position);
                }
            }
        }
    }
    order.next().is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::super::fuse::Fuse;
    use super::*;

    fn hashes(count: u64) -> Vec<u64> {
        (0..count)
            .map(|n| mix(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), 99))
            .collect()
    }

    fn built(hashes: &[u64], bits_per_key: f64) -> Option<Fuse> {
        let all = || hashes.iter().copied();
        let contents = build(all, hashes.len(), bits_per_key, 1.0, MOST_ATTEMPTS)?;
        assert!(contents.len() as f64 <= bits_per_key * hashes.len() as f64 / 8.0 + 21.0);
        Some(Fuse::new(contents).unwrap())
    }

    #[test]
    fn every_number_of_keys_has_a_filter() {
        for count in (1..200).chain([1000, 4097, 20_000]) {
            let hashes = hashes(count);
            let filter = built(&hashes, 40.0).unwrap();
            assert!(
                hashes.iter().all(|&hash| filter.may_contain(hash)),
                "{count}"
            );
        }
    }

    #[test]
    fn keys_with_one_hash_count_as_one() {
        let mut hashes = hashes(1000);
        hashes.extend_from_within(..300);
        hashes.extend([hashes[0]; 300]);
        let filter = built(&hashes, 10.0).unwrap();
        assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
        let same = built(&[5; 1000], 10.0).unwrap();
        assert!(same.may_contain(5) && !same.may_contain(6));
    }

    #[test]
    fn where_no_seed_serves_there_is_none() {
        let hashes = hashes(1000);
        let all = || hashes.iter().copied();
        assert!(build(all, 1000, 10.0, 1.0, 0).is_none());
        assert!(build(all, 1000, 10.0, 0.001, MOST_ATTEMPTS).is_none());
        assert!(build(all, 1000, 1.0, 1.0, MOST_ATTEMPTS).is_none());
    }
}
