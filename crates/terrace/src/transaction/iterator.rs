//! An iterator over the store as a transaction sees it.

use crate::db::entries::{Entries, Moves};
use crate::db::footprint::Span;
use crate::transaction::read_set::Reach;
use crate::{DbIterator, Result};

/// A position among the keys that a [`Transaction`](crate::Transaction) sees: those of its moment, under the
/// writes that it made before the iterator. Not valid until it is positioned.
///
/// The keys that it went through count as read, absent ones included. They begin at the key that was searched
/// for, or at the bound. They end at the key at which it stands, or at the bound where it ran off the end.
/// Moves after the commit count for nothing.
///
/// ```
/// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
/// db.put("bee", "animal")?;
/// let mut transaction = db.transaction()?;
/// transaction.put("ant", "animal")?;
/// let mut iterator = transaction.iter(terrace::IterOptions::default())?;
/// iterator.seek_to_first()?;
/// assert_eq!(iterator.key(), b"ant");
/// iterator.next()?;
/// assert_eq!(iterator.key(), b"bee");
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct TransactionIterator {
    iterator: DbIterator,
    /// `None` where reads are not validated.
    reach: Option<Reach>,
}

impl TransactionIterator {
    pub(super) fn new(iterator: DbIterator, reach: Option<Reach>) -> Self {
        TransactionIterator { iterator, reach }
    }

    /// Returns whether the iterator stands on a key.
    pub fn valid(&self) -> bool {
        self.iterator.valid()
    }

    /// Returns the key it stands on; empty if not valid.
    pub fn key(&self) -> &[u8] {
        self.iterator.key()
    }

    /// Returns the value of that key; empty if not valid.
    pub fn value(&self) -> &[u8] {
        self.iterator.value()
    }

    /// Returns the key that it stands on, if it stands on one.
    fn present(&self) -> Option<&[u8]> {
        self.valid().then(|| self.key())
    }

    /// Refuses a search that the transaction has no room to note.
    fn check_room(&self) -> Result<()> {
        self.reach.as_ref().map_or(Ok(()), Reach::check_room)
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// Those of reading tables; the iterator is then not valid. This holds for all moves.
    /// [`Error::TransactionTooLarge`](crate::Error::TransactionTooLarge) for searches; the position stays.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.check_room()?;
        self.iterator.seek_to_first()?;
        self.came_up_from(None);
        Ok(())
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// As [`TransactionIterator::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.check_room()?;
        self.iterator.seek_to_last()?;
        self.came_down_from(None);
        Ok(())
    }

    /// Moves to the first key at or after `key`.
    ///
    /// # Errors
    /// As [`TransactionIterator::seek_to_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.check_room()?;
        self.iterator.seek(key)?;
        self.came_up_from(Some(key));
        Ok(())
    }

    /// Moves to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`TransactionIterator::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.check_room()?;
        self.iterator.seek_for_prev(key)?;
        self.came_down_from(Some(key));
        Ok(())
    }

    /// Moves to the next key. Does nothing if not valid.
    ///
    /// # Errors
    /// As [`TransactionIterator::seek_to_first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "the cursor's move; `entries` iterates"
    )]
    pub fn next(&mut self) -> Result<()> {
        let was_valid = self.valid();
        self.iterator.next()?;
        if was_valid && let Some(reach) = &self.reach {
            reach.grow_up(self.present());
        }
        Ok(())
    }

    /// Moves to the previous key. Does nothing if not valid.
    ///
    /// # Errors
    /// As [`TransactionIterator::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        let was_valid = self.valid();
        self.iterator.prev()?;
        if was_valid && let Some(reach) = &self.reach {
            reach.grow_down(self.present());
        }
        Ok(())
    }

    /// Returns the entries, whose both ends move. It begins at the two bounds, wherever this iterator is.
    pub fn entries(self) -> Entries<TransactionIterator> {
        Entries::of(self)
    }

    /// Notes a search from a key on, or from the lower bound.
    fn came_up_from(&self, key: Option<&[u8]>) {
        if let Some(reach) = &self.reach {
            let lower = &reach.bounds().start;
            let start = key.map_or(&**lower, |key| key.max(lower)).to_vec();
            // It grows at once, to the key that was found or to the end of all.
            let end = Some(start.clone());
            reach.begin(Span { start, end });
            reach.grow_up(self.present());
        }
    }

    /// Notes a search from a key back, or from the upper bound.
    fn came_down_from(&self, key: Option<&[u8]>) {
        if let Some(reach) = &self.reach {
            let upper = reach.bounds().end.clone();
            let end = match key {
                None => upper,
                Some(key) => {
                    let behind = [key, &[0]].concat();
                    Some(match upper {
                        Some(upper) => upper.min(behind),
                        None => behind,
                    })
                }
            };
            let start = match self.present() {
                Some(key) => key.to_vec(),
                None => reach.bounds().start.clone(),
            };
            reach.begin(Span { start, end });
        }
    }
}

impl Moves for TransactionIterator {
    fn another(&self) -> Result<Self> {
        Ok(TransactionIterator {
            iterator: self.iterator.another()?,
            reach: self.reach.as_ref().map(Reach::another),
        })
    }

    fn seek_to_first(&mut self) -> Result<()> {
        TransactionIterator::seek_to_first(self)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        TransactionIterator::seek_to_last(self)
    }

    fn next(&mut self) -> Result<()> {
        TransactionIterator::next(self)
    }

    fn prev(&mut self) -> Result<()> {
        TransactionIterator::prev(self)
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }
}
