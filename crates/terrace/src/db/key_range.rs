//! Ranges of keys, as callers write them.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: any of Rust's ranges, or a pair of bounds, over anything that is bytes. `..` holds
/// every key.
///
/// It differs from [`RangeBounds`](std::ops::RangeBounds) in that `..` needs no type of keys.
pub trait KeyRange {
    /// Returns the bound below.
    fn lower(&self) -> Bound<&[u8]>;
    /// Returns the bound above.
    fn upper(&self) -> Bound<&[u8]>;
}

macro_rules! key_ranges {
    ($($range:ident)*) => {$(
        impl<K: AsRef<[u8]>> KeyRange for $range<K> {
            fn lower(&self) -> Bound<&[u8]> {
                std::ops::RangeBounds::start_bound(self).map(AsRef::as_ref)
            }

            fn upper(&self) -> Bound<&[u8]> {
                std::ops::RangeBounds::end_bound(self).map(AsRef::as_ref)
            }
        }
    )*};
}

key_ranges!(Range RangeInclusive RangeFrom RangeTo RangeToInclusive);

impl KeyRange for RangeFull {
    fn lower(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn upper(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn lower(&self) -> Bound<&[u8]> {
        self.0.as_ref().map(AsRef::as_ref)
    }

    fn upper(&self) -> Bound<&[u8]> {
        self.1.as_ref().map(AsRef::as_ref)
    }
}

/// Returns the range of the keys that begin with `prefix`.
///
/// ```
/// use std::ops::Bound;
///
/// let ends = (Bound::Included(b"city:".to_vec()), Bound::Excluded(b"city;".to_vec()));
/// assert_eq!(terrace::prefix_range("city:"), ends);
/// assert_eq!(terrace::prefix_range([7, 255]).1, Bound::Excluded(vec![8]));
/// assert_eq!(terrace::prefix_range([255]).1, Bound::Unbounded);
/// ```
pub fn prefix_range(prefix: impl AsRef<[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let lower = prefix.as_ref().to_vec();
    let mut end = lower.clone();
    // The first key after all that begin with the prefix: its last byte below 255, raised.
    while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
    let upper = match end.last_mut() {
        Some(byte) => {
            *byte += 1;
            Bound::Excluded(end)
        }
        None => Bound::Unbounded,
    };
    (Bound::Included(lower), upper)
}
