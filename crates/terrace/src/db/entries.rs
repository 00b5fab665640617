//! Entries in order, taken from both ends.

use crate::Result;
use crate::db::iterator::DbIterator;

/// The entries of a range of keys, from its first one or, by [`rev`](Iterator::rev) and
/// [`next_back`](DoubleEndedIterator::next_back), from its last one. All are as of one moment. After an
/// error there are no more.
///
/// Each entry is copied. [`DbIterator`] shows keys and values without a copy. `I` is the iterator underneath:
/// a [`TransactionIterator`](crate::TransactionIterator) for the entries that a transaction sees.
///
/// ```
/// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
/// for key in ["ant", "bee", "cat"] {
///     db.put(key, "animal")?;
/// }
/// let keys = |entries: terrace::Entries| entries.map(|entry| Ok(entry?.0)).collect();
/// let below_c: Result<Vec<Vec<u8>>, terrace::Error> = keys(db.range(.."c")?);
/// assert_eq!(below_c?, [b"ant", b"bee"]);
/// let (last, _) = db.range(..)?.next_back().unwrap()?;
/// assert_eq!(last, b"cat");
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct Entries<I = DbIterator> {
    /// The end that goes forward, on the entry that it gave last. `None` before the first one.
    front: Option<I>,
    /// The end that goes back.
    back: Option<I>,
    /// Becomes the end that is asked first.
    unplaced: Option<I>,
    is_over: bool,
}

/// The moves of an iterator that entries are taken from.
pub trait Moves: Sized {
    /// Returns an iterator of the same keys at the same moment, not yet positioned.
    fn another(&self) -> Result<Self>;
    /// Moves to the first key.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Moves to the last key.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the next key.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous key.
    fn prev(&mut self) -> Result<()>;
    /// Returns the key and the value that it stands on.
    fn entry(&self) -> Option<(&[u8], &[u8])>;
}

impl Moves for DbIterator {
    fn another(&self) -> Result<Self> {
        DbIterator::another(self)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        DbIterator::seek_to_first(self)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        DbIterator::seek_to_last(self)
    }

    fn next(&mut self) -> Result<()> {
        DbIterator::next(self)
    }

    fn prev(&mut self) -> Result<()> {
        DbIterator::prev(self)
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }
}

/// One of the two ends.
#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

impl<I: Moves> Entries<I> {
    pub(crate) fn of(iterator: I) -> Self {
        Entries {
            front: None,
            back: None,
            unplaced: Some(iterator),
            is_over: false,
        }
    }

    /// Returns the next entry of an end. None follows an error, or an entry that the other end gave.
    fn next_from(&mut self, end: End) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        if self.is_over {
            return None;
        }
        let entry = self.step(end).transpose();
        self.is_over = !matches!(entry, Some(Ok(_)));
        entry
    }

    fn step(&mut self, end: End) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let (own, other) = match end {
            End::Front => (&mut self.front, &self.back),
            End::Back => (&mut self.back, &self.front),
        };
        let iterator = match own {
            Some(iterator) => {
                match end {
                    End::Front => iterator.next()?,
                    End::Back => iterator.prev()?,
                }
                iterator
            }
            None => {
                let made = match (self.unplaced.take(), other) {
                    (Some(iterator), _) => iterator,
                    (None, Some(other)) => other.another()?,
                    (None, None) => return Ok(None),
                };
                let iterator = own.insert(made);
                match end {
                    End::Front => iterator.seek_to_first()?,
                    End::Back => iterator.seek_to_last()?,
                }
                iterator
            }
        };
        let Some((key, value)) = iterator.entry() else {
            return Ok(None);
        };
        let other = other.as_ref().and_then(|other| other.entry());
        let is_before = match (end, other) {
            (_, None) => true,
            (End::Front, Some((other, _))) => key < other,
            (End::Back, Some((other, _))) => key > other,
        };
        Ok(is_before.then(|| (key.to_vec(), value.to_vec())))
    }
}

impl<I: Moves> Iterator for Entries<I> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_from(End::Front)
    }
}

impl<I: Moves> DoubleEndedIterator for Entries<I> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_from(End::Back)
    }
}

impl<I: Moves> std::iter::FusedIterator for Entries<I> {}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use crate::{Db, Entries, Options, WriteBatch, WriteOptions};

    fn store_of(keys: &[&str]) -> Db {
        let db = Db::open("/store", Options::in_memory()).unwrap();
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.put(key, "value").unwrap();
        }
        db.write(batch, WriteOptions::default()).unwrap();
        db
    }

    fn key(entry: Option<crate::Result<(Vec<u8>, Vec<u8>)>>) -> Option<String> {
        entry.map(|entry| String::from_utf8(entry.unwrap().0).unwrap())
    }

    fn keys(entries: impl Iterator<Item = crate::Result<(Vec<u8>, Vec<u8>)>>) -> Vec<String> {
        entries.filter_map(|entry| key(Some(entry))).collect()
    }

    #[test]
    fn the_two_ends_meet_wherever_they_are() {
        let db = store_of(&["a", "b", "c", "d"]);
        for from_front in 0..=5 {
            let mut entries = db.range(..).unwrap();
            let mut given: Vec<_> = entries.by_ref().take(from_front).collect();
            given.extend(entries.by_ref().rev());
            let mut given = keys(given.into_iter());
            given[from_front.min(4)..].reverse();
            assert_eq!(given, ["a", "b", "c", "d"], "{from_front} from the front");
            assert!(entries.next().is_none() && entries.next_back().is_none());
        }
        let mut entries = db.range("b".."d").unwrap();
        assert_eq!(key(entries.next_back()).as_deref(), Some("c"));
        assert_eq!(key(entries.next()).as_deref(), Some("b"));
        assert_eq!(key(entries.next_back()), None);
        assert_eq!(key(entries.next()), None);
    }

    #[test]
    fn both_ends_see_the_moment_of_the_call() {
        let db = store_of(&["b"]);
        let mut entries: Entries = db.range(..).unwrap();
        db.put("a", "later").unwrap();
        db.delete("b").unwrap();
        db.put("c", "later").unwrap();
        assert_eq!(key(entries.next_back()).as_deref(), Some("b"));
        assert_eq!(key(entries.next()), None);
        assert_eq!(keys(db.range(..).unwrap()), ["a", "c"]);
    }

    #[test]
    fn ranges_of_every_form_hold_what_they_say() {
        let db = store_of(&["a", "b", "c", "d"]);
        let all = |entries: crate::Result<Entries>| keys(entries.unwrap()).concat();
        assert_eq!(all(db.range("b".."d")), "bc");
        assert_eq!(all(db.range("b"..="d")), "bcd");
        assert_eq!(all(db.range(b"c"..)), "cd");
        assert_eq!(all(db.range(..String::from("c"))), "ab");
        assert_eq!(all(db.range(..="c")), "abc");
        assert_eq!(all(db.range(..)), "abcd");
        assert_eq!(all(db.range("d".."b")), "");
        assert_eq!(all(db.range("b".."b")), "");
        assert_eq!(all(db.prefix("c")), "c");
        assert_eq!(all(db.prefix("")), "abcd");
    }
}
