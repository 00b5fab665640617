//! Sorted keys reduced to eight bytes each, so that a search touches a few cache lines instead of a
//! heap allocation a step.
//!
//! The eight bytes are those behind the keys' common prefix, read as one big-endian word and padded
//! with zeros. Words that differ order their keys. Equal words decide nothing: the caller compares
//! whole keys within the range that is left, nearly always empty or one.
//!
//! A search begins where the word would be if the words were spread evenly, and widens from there.
//! It finds hashed and random keys within a cache line or two, where bisection misses the cache at
//! every step of its upper half. For keys that are not spread evenly it is bisection with at most
//! twice the steps.

use std::ops::Range;

use crate::debug_expect::DebugExpect;

/// The words of a sorted list of keys. Of an unsorted one answers are wrong, but within the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyPrefixes {
    common: Box<[u8]>,
    words: Box<[u64]>,
    /// The first word, and positions for each unit of a word.
    first: u64,
    slope: f64,
}

impl KeyPrefixes {
    pub(crate) fn new<'a>(keys: impl DoubleEndedIterator<Item = &'a [u8]> + Clone) -> Self {
        let ends = keys.clone().next().zip(keys.clone().next_back());
        let common = ends.map_or(0, |(first, last)| common_length(first, last));
        let words: Box<[u64]> = keys
            .map(|key| {
                word(
                    key.get(common..)
                        .debug_expect("keys that ascend share what the ends share"),
                )
            })
            .collect();
        let (first, last) = words.first().zip(words.last()).unwrap_or((&0, &0));
        let (first, span) = (*first, last.saturating_sub(*first).max(1));
        KeyPrefixes {
            common: ends
                .and_then(|(first, _)| first.get(..common))
                .unwrap_or_default()
                .into(),
            slope: words.len().saturating_sub(1) as f64 / span as f64,
            first,
            words,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns the bytes that all keys begin with.
    pub(crate) fn common(&self) -> &[u8] {
        &self.common
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.common.len() + size_of_val(&*self.words)
    }

    /// Returns the positions at which whole keys must be compared with `key`: keys before the range
    /// are smaller, keys behind it are greater.
    #[inline]
    pub(crate) fn undecided(&self, key: &[u8]) -> Range<usize> {
        let Some((head, rest)) = key.split_at_checked(self.common.len()) else {
            // Shorter than every key: smaller than all, greater, or (if a key is as short, which
            // it is not) equal.
            let at = if key < &*self.common { 0 } else { self.len() };
            return at..at;
        };
        match head.cmp(&self.common) {
            std::cmp::Ordering::Less => return 0..0,
            std::cmp::Ordering::Greater => return self.len()..self.len(),
            std::cmp::Ordering::Equal => {}
        }
        let word = word(rest);
        let start = self.first_not_below(word);
        let rest = self
            .words
            .get(start..)
            .debug_expect("the first word not below is in the list");
        match rest.first() {
            Some(first) if *first == word => {
                start..start + rest.partition_point(|other| *other == word)
            }
            _ => start..start,
        }
    }

    /// Returns the position of the first word that is not smaller.
    #[inline]
    fn first_not_below(&self, word: u64) -> usize {
        const FEW: usize = 16;
        let words = &*self.words;
        let guess = (word.saturating_sub(self.first) as f64 * self.slope) as usize;
        if words.len() <= FEW || guess >= words.len() {
            return words.partition_point(|other| *other < word);
        }
        // Invariant: all before `low` are smaller, none from `high` on is.
        let is_below = |at: usize| words.get(at).is_some_and(|other| *other < word);
        let (mut low, mut high) = (0, words.len());
        let mut step = FEW / 2;
        if is_below(guess) {
            low = guess + 1;
            while low + step < high && is_below(low + step) {
                low += step + 1;
                step *= 2;
            }
            high = high.min(low + step);
        } else {
            high = guess;
            while step <= high && !is_below(high - step) {
                high -= step;
                step *= 2;
            }
            low = low.max(high.saturating_sub(step));
        }
        let between = words
            .get(low..high)
            .debug_expect("the search stays in the list");
        low + between.partition_point(|other| *other < word)
    }

    /// Returns the position of the first key for which `is_before` is false. It is called only
    /// where words do not decide, and must be true of smaller keys and false of greater ones than
    /// `key`.
    #[inline]
    pub(crate) fn partition_point(
        &self,
        key: &[u8],
        mut is_before: impl FnMut(usize) -> bool,
    ) -> usize {
        let Range {
            start: mut low,
            end: mut high,
        } = self.undecided(key);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Returns the number of leading bytes that two keys have in common.
pub(crate) fn common_length(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(l, r)| l == r).count()
}

#[inline]
fn word(rest: &[u8]) -> u64 {
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => rest
            .iter()
            .zip([56, 48, 40, 32, 24, 16, 8])
            .fold(0, |word, (byte, shift)| word | u64::from(*byte) << shift),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few letters, so that prefixes, equal words and zero padding are common.
        #[test]
        fn the_point_is_that_of_whole_keys(
            common in "[ab]{0,3}",
            keys in prop::collection::btree_set("[a\0]{0,11}", 0..40),
            sought in prop::collection::vec(("[ab]{0,3}", "[a\0]{0,12}"), 1..40),
        ) {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| format!("{common}{key}").into()).collect();
            let prefixes = KeyPrefixes::new(keys.iter().map(Vec::as_slice));
            for (head, rest) in sought {
                for head in [&head, &common] {
                    let key = format!("{head}{rest}").into_bytes();
                    let at = prefixes.partition_point(&key, |at| keys[at] < key);
                    prop_assert_eq!(at, keys.partition_point(|other| *other < key));
                }
            }
        }
    }

    proptest! {
        /// Evenly spread, clustered, equal: the guess may be anywhere.
        #[test]
        fn the_guess_changes_no_answer(
            mut words in prop::collection::vec(
                prop_oneof![any::<u64>(), 0u64..50, (0u64..50).prop_map(|w| u64::MAX - w)],
                0..300,
            ),
            sought in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..60], 1..40),
        ) {
            words.sort_unstable();
            let keys: Vec<[u8; 8]> = words.iter().map(|word| word.to_be_bytes()).collect();
            let prefixes = KeyPrefixes::new(keys.iter().map(|key| key.as_slice()));
            let of_list = words.iter().flat_map(|&w| [w, w.wrapping_add(1), w.wrapping_sub(1)]);
            for word in sought.into_iter().chain(of_list) {
                let key = word.to_be_bytes();
                let at = prefixes.partition_point(&key, |at| keys[at] < key);
                prop_assert_eq!(at, words.partition_point(|other| *other < word));
            }
        }
    }

    #[test]
    fn most_keys_are_decided_without_being_compared() {
        let keys: Vec<_> = (0..100u32).map(|n| format!("user{n:08}-x")).collect();
        let prefixes = KeyPrefixes::new(keys.iter().map(String::as_bytes));
        assert_eq!(prefixes.common(), b"user000000");
        assert_eq!(prefixes.undecided(b"user00000042"), 42..42);
        assert_eq!(prefixes.undecided(b"user00000042-x"), 42..43);
        assert_eq!(prefixes.undecided(b"use"), 0..0);
        assert_eq!(prefixes.undecided(b"v"), 100..100);
    }
}
