//! Transactions: reads and writes that take effect at one moment.
//!
//! A transaction reads the store at its snapshot, under its own writes (`overlay.rs`), and notes its reads
//! (`read_set.rs`). Nobody waits for it. Its commit checks that nothing it depends on was written since
//! (`db/changes.rs`). It gives the rest of that question to the leader of the commit queue.

mod iterator;
mod options;
mod overlay;
mod read_set;
mod transact;
mod unchanged;

use std::fmt;
use std::sync::Arc;

use terrace_lsm::key::Kind;
use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

pub use self::iterator::TransactionIterator;
pub use self::options::{Isolation, TransactionOptions};
use self::overlay::{Overlay, OverlayMark, Own, layer_of};
use self::read_set::{Reach, ReadSet};
pub use self::unchanged::Unchanged;
use crate::db::Store;
use crate::db::footprint::{Footprint, Span};
use crate::db::key_range::{KeyRange, prefix_range};
use crate::db::transactions::Listed;
use crate::{
    Db, DbIterator, Entries, Error, IterOptions, Keyspace, KeyspaceId, ReadOptions, Result,
    Snapshot, Value, WriteBatch, WriteOptions,
};

/// The number of the last transaction of the process.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Reads and writes that take effect together, at one moment, or not at all.
///
/// A transaction sees the store as it was when it began, and its own writes on top. Nobody else sees these
/// before [`Transaction::commit`]. A commit is refused with [`Error::Conflict`] if another write has changed
/// something that the transaction has read (see [`Isolation`]): begin again, or let
/// [`Db::transact`] do it. No lock is held meanwhile, so readers and writers never wait for a transaction,
/// and there is no deadlock. A dropped transaction has changed nothing.
///
/// Calls of [`Db`] and [`Keyspace`] are no part of it, wherever they are made.
///
/// It keeps the store open, as a [`Keyspace`] does. It keeps the versions of its moment, too: a transaction
/// that is held for long costs space.
///
/// ```
/// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
/// db.put("ada", "7")?;
/// let mut transaction = db.transaction()?;
/// let coins: u64 = String::from_utf8_lossy(&transaction.get("ada")?.unwrap()).parse().unwrap();
/// transaction.put("ada", (coins - 1).to_string())?;
/// transaction.put("bob", "1")?;
/// transaction.commit()?;
/// assert_eq!(db.get("bob")?.unwrap(), "1");
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// # Where it does not suit
/// Where most transactions write the same few keys, most commits are refused, and their work is lost. Locks
/// would make them wait instead; there are none. A commit in two phases, across stores, is not there either.
pub struct Transaction {
    /// Its number in the process, which no other transaction has.
    number: u64,
    /// The default keyspace, which keeps the store open.
    keyspace: Keyspace,
    options: TransactionOptions,
    snapshot: Snapshot,
    overlay: Arc<Mutex<Overlay>>,
    reads: Arc<Mutex<ReadSet>>,
    /// The states to go back to, by the number of each savepoint, ascending.
    savepoints: Vec<(u64, OverlayMark)>,
    last_savepoint: u64,
    /// Last: the list has it as long as this holds anything; iterators may hold more.
    _listed: Listed,
}

/// A state of a transaction to go back to: see [`Transaction::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    transaction: u64,
    number: u64,
}

impl Db {
    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn transaction(&self) -> Result<Transaction> {
        self.transaction_with(TransactionOptions::default())
    }

    /// Begins a transaction with options.
    ///
    /// # Errors
    /// As [`Db::transaction`].
    pub fn transaction_with(&self, options: TransactionOptions) -> Result<Transaction> {
        let keyspace = Keyspace::clone(self);
        let store = keyspace.own_store()?;
        store.lifecycle.check_open()?;
        let (snapshot, listed) = (store.snapshot(), store.metrics.transactions.begin());
        let hold = || (store.metrics.transactions).hold(store.files.tables.blocks());
        let overlay = Overlay::new(hold());
        let reads = ReadSet::new(options.max_transaction_bytes, hold());
        Ok(Transaction {
            number: LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1,
            keyspace,
            options,
            snapshot,
            overlay: Arc::new(Mutex::new(overlay)),
            reads: Arc::new(Mutex::new(reads)),
            savepoints: Vec::new(),
            last_savepoint: 0,
            _listed: listed,
        })
    }
}

impl Transaction {
    /// Returns the state that it reads, its own writes left out. Reads by it are no reads of the transaction.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the value of a key, `None` if there is none.
    ///
    /// # Errors
    /// Those of reading a table; [`Error::TransactionTooLarge`]; [`Error::Closed`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_in(&self.keyspace, key)
    }

    /// Does [`Transaction::get`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`Error::InvalidArgument`] for a keyspace of another store.
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let depends = self.options.isolation == Isolation::Serializable;
        self.read(keyspace, key.as_ref(), depends)
    }

    /// Returns the value of a key, as [`Transaction::get`] does, on which the commit depends also with
    /// [`Isolation::Snapshot`]. It waits for nobody and locks nothing.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_for_update_in(&self.keyspace, key)
    }

    /// Does [`Transaction::get_for_update`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get_in`].
    pub fn get_for_update_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        self.read(keyspace, key.as_ref(), true)
    }

    /// Returns whether a key has a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns the values of several keys, in the order of the keys.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.multi_get_in(&self.keyspace, keys)
    }

    /// Does [`Transaction::multi_get`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get_in`].
    pub fn multi_get_in<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        let store = self.store_of(keyspace)?;
        let depends = self.options.isolation == Isolation::Serializable;
        let mut values = Vec::with_capacity(keys.len());
        let mut others = Vec::new();
        for key in keys {
            let own = self.overlay.lock().get(keyspace.id(), key.as_ref());
            if own == Own::Nothing {
                if depends {
                    self.reads.lock().add_key(keyspace.id(), key.as_ref())?;
                }
                others.push((values.len(), key));
            }
            values.push(own.value());
        }
        let other_keys: Vec<&K> = others.iter().map(|(_, key)| *key).collect();
        let found =
            store.multi_get(keyspace.id(), &other_keys, &ReadOptions::at(&self.snapshot))?;
        for ((at, _), value) in others.iter().zip(found) {
            if let Some(place) = values.get_mut(*at) {
                *place = value;
            }
        }
        Ok(values)
    }

    /// Returns an iterator that is not yet positioned. It shows the writes that were made before it.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::InvalidArgument`] if the options name a snapshot.
    pub fn iter(&self, options: IterOptions) -> Result<TransactionIterator> {
        self.iter_in(&self.keyspace, options)
    }

    /// Does [`Transaction::iter`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::iter`] and [`Transaction::get_in`].
    pub fn iter_in(
        &self,
        keyspace: &Keyspace,
        options: IterOptions,
    ) -> Result<TransactionIterator> {
        let store = Arc::clone(self.store_of(keyspace)?);
        if options.snapshot.is_some() {
            return Err(Error::invalid(
                "a transaction reads its own snapshot; leave out that of the iterator",
            ));
        }
        let reach = (self.options.isolation == Isolation::Serializable).then(|| {
            let (lower, upper) = (options.lower.as_ref(), options.upper.as_ref());
            let bounds = Span::of(lower.map(|key| &**key), upper.map(|key| &**key));
            Reach::new(&self.reads, keyspace.id(), bounds, store.lifecycle.mark)
        });
        let options = IterOptions {
            snapshot: Some(self.snapshot.clone()),
            ..options
        };
        let layers = layer_of(&self.overlay, keyspace.id());
        let layers = layers.into_iter().collect();
        let iterator = DbIterator::with_layers(store, keyspace.id(), options, layers)?;
        Ok(TransactionIterator::new(iterator, reach))
    }

    /// Returns the entries of a range of keys, from either end.
    ///
    /// # Errors
    /// As [`Transaction::iter`]; an entry may be an error of reading a table.
    pub fn range(&self, range: impl KeyRange) -> Result<Entries<TransactionIterator>> {
        self.range_in(&self.keyspace, range)
    }

    /// Does [`Transaction::range`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::iter_in`].
    pub fn range_in(
        &self,
        keyspace: &Keyspace,
        range: impl KeyRange,
    ) -> Result<Entries<TransactionIterator>> {
        Ok(self.iter_in(keyspace, IterOptions::range(range))?.entries())
    }

    /// Returns the entries whose keys begin with `prefix`, as [`Transaction::range`] does.
    ///
    /// # Errors
    /// As [`Transaction::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Entries<TransactionIterator>> {
        self.range(prefix_range(prefix))
    }

    /// Does [`Transaction::prefix`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::range_in`].
    pub fn prefix_in(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<Entries<TransactionIterator>> {
        self.range_in(keyspace, prefix_range(prefix))
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// Those of [`WriteBatch::put`](crate::WriteBatch::put); [`Error::TransactionTooLarge`];
    /// [`Error::Closed`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let keyspace = KeyspaceId::DEFAULT;
        self.push(None, keyspace, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Does [`Transaction::put`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::InvalidArgument`] for a keyspace of another store.
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.push_in(keyspace, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Removes a key; removing one that is absent is not an error.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.push(None, KeyspaceId::DEFAULT, Kind::Delete, key.as_ref(), &[])
    }

    /// Does [`Transaction::delete`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::put_in`].
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.push_in(keyspace, Kind::Delete, key.as_ref(), &[])
    }

    /// Removes every key from `from` on, up to `to`, which stays: those of others, too, that are there at
    /// the commit.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::InvalidArgument`] if `to` is before `from`.
    pub fn delete_range(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let keyspace = KeyspaceId::DEFAULT;
        self.push(
            None,
            keyspace,
            Kind::RangeDelete,
            from.as_ref(),
            to.as_ref(),
        )
    }

    /// Does [`Transaction::delete_range`] in a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::delete_range`] and [`Transaction::put_in`].
    pub fn delete_range_in(
        &mut self,
        keyspace: &Keyspace,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.push_in(keyspace, Kind::RangeDelete, from.as_ref(), to.as_ref())
    }

    /// Returns the number of writes so far.
    pub fn len(&self) -> usize {
        self.overlay.lock().batch().len()
    }

    /// Returns whether it has written nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Marks the present state, to go back to.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// let mut transaction = db.transaction()?;
    /// transaction.put("ant", "animal")?;
    /// let savepoint = transaction.savepoint();
    /// transaction.put("oak", "animal")?;
    /// transaction.roll_back_to(savepoint)?;
    /// assert!(transaction.contains_key("ant")? && !transaction.contains_key("oak")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        self.last_savepoint += 1;
        let mark = self.overlay.lock().mark();
        self.savepoints.push((self.last_savepoint, mark));
        Savepoint {
            transaction: self.number,
            number: self.last_savepoint,
        }
    }

    /// Takes away every write after a savepoint. It can be gone back to again; savepoints after it are gone.
    /// Reads stay reads, and iterators go on to show the writes that they were made with.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a savepoint that is gone, or of another transaction; [`Error::Closed`].
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        // In a forked child a lock that follows may be held for ever.
        self.store_of(&self.keyspace)?;
        let position = self
            .savepoints
            .binary_search_by_key(&savepoint.number, |(number, _)| *number);
        let position = position
            .ok()
            .filter(|_| savepoint.transaction == self.number);
        let Some((position, (_, mark))) =
            position.and_then(|at| Some((at, self.savepoints.get(at)?)))
        else {
            return Err(Error::invalid(
                "the savepoint is gone, or another transaction's; go back to an earlier one",
            ));
        };
        let mut held = self.overlay.lock();
        if Arc::strong_count(&self.overlay) == 1 {
            held.roll_back(mark);
            drop(held);
        } else {
            // Iterators see its writes.
            let mut copy = held.clone();
            drop(held);
            copy.roll_back(mark);
            self.overlay = Arc::new(Mutex::new(copy));
        }
        let written_bytes = self.overlay.lock().bytes();
        self.savepoints.truncate(position + 1);
        self.reads.lock().set_written(written_bytes)
    }

    /// Makes the writes take effect, as [`TransactionOptions::write`] says. When it returns, they are
    /// visible, and a transaction that begins later sees them.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something that the transaction depends on was written since it began: nothing
    /// was written, so begin again. Otherwise those of [`Db::write`](crate::Db::write). After a failed sync
    /// ([`Error::Poisoned`]) the outcome is unknown until the store was opened again. A keyspace that was
    /// dropped is a conflict where the transaction has read it, and [`Error::NoKeyspace`] where it writes to
    /// it. A transaction without writes is never refused.
    pub fn commit(self) -> Result<()> {
        let options = self.options.write;
        self.commit_with(options)
    }

    /// Makes the writes take effect with options.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        let store = self.keyspace.own_store()?;
        store.lifecycle.check_open()?;
        if self.is_empty() {
            // Without writes there is nothing to check. A sync is one of all writes before.
            return match options.sync {
                true => store.write(WriteBatch::new(), options),
                false => Ok(()),
            };
        }
        let footprint = self.take_footprint();
        let is_shared = Arc::strong_count(&self.overlay) > 1;
        let batch = self.overlay.lock().take_batch(is_shared);
        store.write_if_unchanged(batch, options, footprint, self.snapshot.sequence())
    }

    /// Takes the keys and ranges that its commit depends on.
    fn take_footprint(&self) -> Footprint {
        let mut footprint = self.reads.lock().take_footprint();
        if self.options.isolation == Isolation::Snapshot {
            footprint.add_all(&self.overlay.lock().written());
        }
        footprint
    }

    fn read(&self, keyspace: &Keyspace, key: &[u8], depends: bool) -> Result<Option<Value>> {
        let store = self.store_of(keyspace)?;
        let own = self.overlay.lock().get(keyspace.id(), key);
        if own != Own::Nothing {
            return Ok(own.value());
        }
        if depends {
            self.reads.lock().add_key(keyspace.id(), key)?;
        }
        store.get(keyspace.id(), key, &ReadOptions::at(&self.snapshot))
    }

    fn push_in(&mut self, keyspace: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        self.push(Some(keyspace), keyspace.id(), kind, key, value)
    }

    /// Adds a write. A refused one changes nothing.
    fn push(
        &mut self,
        keyspace: Option<&Keyspace>,
        id: KeyspaceId,
        kind: Kind,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let store = self.store_of(keyspace.unwrap_or(&self.keyspace))?;
        let opening = keyspace.map(Keyspace::opening);
        let mut overlay = self.overlay.lock();
        let mark = overlay.mark();
        overlay.push(opening, id, kind, key, value)?;
        let checked = store
            .check_size(overlay.batch())
            .and_then(|()| overlay.take_memory())
            .and_then(|()| self.reads.lock().set_written(overlay.bytes()));
        if checked.is_err() {
            overlay.roll_back(&mark);
        }
        checked
    }

    /// Returns the store, if it is open and a keyspace is one of its own.
    fn store_of<'a>(&'a self, keyspace: &Keyspace) -> Result<&'a Arc<Store>> {
        let store = self.keyspace.own_store()?;
        store.lifecycle.check_open()?;
        match Arc::ptr_eq(store, keyspace.store()) {
            true => Ok(store),
            false => Err(Error::invalid(
                "the keyspace is of another store, or of another opening of this one",
            )),
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("snapshot", &self.snapshot.sequence())
            .field("writes", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
