//! A keyspace: keys of their own, in levels of their own, in the one write buffer. This is the
//! public handle to it, with the owner that closes the store when the last handle is dropped.

use std::fmt;
use std::sync::Arc;

use terrace_lsm::key::Kind;
use terrace_lsm::keyspace_options::KeyspaceOptions;

use crate::db::Store;
use crate::db::conflict::Change;
use crate::db::entries::Entries;
use crate::db::fork::leak;
use crate::db::ingest::Ingestion;
use crate::db::iterator::{DbIterator, IterOptions};
use crate::db::key_range::{KeyRange, prefix_range};
use crate::db::read::ReadOptions;
use crate::db::snapshot::Snapshot;
use crate::db::value::Value;
use crate::db::write::WriteOptions;
use crate::opening::Opening;
use crate::write_buffer::batch::WriteBatch;
use crate::{KeyspaceId, Result};

/// Closes the store when the last handle is gone. Iterators and snapshots hold the store itself and
/// do not keep it open.
pub(crate) struct HandleOwner {
    store: Arc<Store>,
    /// Whether it closes the store. The handles of a service beside the store do not.
    closes: bool,
}

impl HandleOwner {
    pub(crate) fn closing(store: Arc<Store>) -> Self {
        HandleOwner {
            store,
            closes: true,
        }
    }

    /// Returns the owner of a service's handles.
    pub(crate) fn beside(store: Arc<Store>) -> Self {
        HandleOwner {
            store,
            closes: false,
        }
    }
}

impl Drop for HandleOwner {
    fn drop(&mut self) {
        if self.store.lifecycle.is_inherited() {
            return leak(&self.store);
        }
        if self.closes {
            self.store.close_dropped();
        }
    }
}

/// A keyspace of an open store: keys that have nothing to do with those of other keyspaces, but
/// share batches, snapshots and memory with them. Cheap to clone and to share between threads; as a
/// [`Db`](crate::Db) does, it keeps the store open.
///
/// Keys and values are bytes; keys are ordered bytewise. Empty keys and values are allowed. A handle
/// stays good when the keyspace gets another name. After
/// [`Db::drop_keyspace`](crate::Db::drop_keyspace) reads and writes are refused with
/// [`Error::NoKeyspace`](crate::Error::NoKeyspace).
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
/// use terrace::{KeyspaceOptions, WriteBatch, WriteOptions};
///
/// let users = db.create_keyspace("users", KeyspaceOptions::default())?;
/// let by_mail = db.create_keyspace("users by mail", KeyspaceOptions::default())?;
///
/// let mut batch = WriteBatch::new();
/// batch.put_in(&users, b"7", b"ada@example.org")?;
/// batch.put_in(&by_mail, b"ada@example.org", b"7")?;
/// db.write(batch, WriteOptions::default())?;
///
/// assert_eq!(by_mail.get(b"ada@example.org")?.as_deref(), Some(&b"7"[..]));
/// assert!(db.get(b"7")?.is_none(), "the default keyspace has keys of its own");
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    owner: Arc<HandleOwner>,
    id: KeyspaceId,
    /// The name when this handle was made, to be shown once the keyspace is gone.
    name: Arc<str>,
}

impl Keyspace {
    pub(crate) fn new(owner: Arc<HandleOwner>, id: KeyspaceId, name: &str) -> Self {
        Keyspace {
            owner,
            id,
            name: name.into(),
        }
    }

    pub(crate) fn owner(&self) -> &Arc<HandleOwner> {
        &self.owner
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.owner.store
    }

    /// Returns the store, unless it is the parent's of this process.
    #[inline(always)]
    pub(crate) fn own_store(&self) -> Result<&Arc<Store>> {
        let store = self.store();
        store.lifecycle.check_process()?;
        Ok(store)
    }

    pub(crate) fn opening(&self) -> Opening {
        self.store().lifecycle.opening
    }

    /// Returns its number, which no other keyspace of the store ever has.
    pub fn id(&self) -> KeyspaceId {
        self.id
    }

    /// Returns its present name; see [`Db::rename_keyspace`](crate::Db::rename_keyspace). Of a keyspace
    /// that was dropped it is the name by which this handle was opened.
    pub fn name(&self) -> String {
        let store = self.own_store().ok();
        let present = store.and_then(|store| store.reads.present_name(self.id));
        present.unwrap_or_else(|| self.name.to_string())
    }

    /// Returns the value of a key, `None` if there is none.
    ///
    /// # Errors
    /// Those of reading a table.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_bytes(key.as_ref(), &ReadOptions::default())
    }

    /// Returns the value that a key had when the snapshot was taken.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the
    /// snapshot is another store's.
    pub fn get_at(&self, snapshot: &Snapshot, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_bytes(key.as_ref(), &ReadOptions::at(snapshot))
    }

    /// Returns the value of a key, read as the options say.
    ///
    /// # Errors
    /// As [`Keyspace::get_at`].
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Value>> {
        self.get_bytes(key.as_ref(), options)
    }

    /// Returns the values of several keys, in the order of the keys, all as of one moment. Cheaper
    /// than one by one where they have to be read from a device, which works on all of them at a
    /// time.
    ///
    /// # Errors
    /// As [`Keyspace::get_at`].
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"c", b"3")?;
    /// let values = db.multi_get(&["c", "b", "a"], &Default::default())?;
    /// let values: Vec<_> = values.iter().map(|value| value.as_deref()).collect();
    /// assert_eq!(values, [Some(&b"3"[..]), None, Some(b"1")]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Result<Vec<Option<Value>>> {
        self.own_store()?.multi_get(self.id, keys, options)
    }

    /// Returns whether a key has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns the first key and its value; `None` if there are no keys.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..)?.next().transpose()
    }

    /// Returns the last key and its value; `None` if there are no keys.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..)?.next_back().transpose()
    }

    /// Returns whether there are no keys. Their number is that of `range(..)`: no store keeps it.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// Returns the entries of a range of keys, from either end, all as of this moment.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// for key in ["ant", "bee", "cat"] {
    ///     db.put(key, "animal")?;
    /// }
    /// for entry in db.range("ant".."cat")?.rev() {
    ///     let (key, value) = entry?;
    ///     println!("{key:?} {value:?}");
    /// }
    /// assert_eq!(db.range(..)?.count(), 3);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::iter`]; an entry may be an error of reading a table.
    pub fn range(&self, range: impl KeyRange) -> Result<Entries> {
        Ok(self.iter(IterOptions::range(range))?.entries())
    }

    /// Returns the entries whose keys begin with `prefix`, as [`Keyspace::range`] does.
    ///
    /// # Errors
    /// As [`Keyspace::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Entries> {
        self.range(prefix_range(prefix))
    }

    /// Returns an iterator that is not yet positioned.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), or
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the snapshot is another store's.
    pub fn iter(&self, options: IterOptions) -> Result<DbIterator> {
        DbIterator::new(Arc::clone(self.own_store()?), self.id, options)
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Removes a key; removing one that is absent is not an error.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_one(Kind::Delete, key.as_ref(), &[])
    }

    /// Removes every key from `from` on, up to `to`, which stays. The cost does not depend on the
    /// keys between them. If the two are equal nothing is removed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
    /// for key in ["ant", "bee", "cat"] {
    ///     db.put(key.as_bytes(), b"animal")?;
    /// }
    /// db.delete_range(b"b", b"cat")?;
    /// assert!(db.get(b"bee")?.is_none());
    /// assert!(db.get(b"ant")?.is_some() && db.get(b"cat")?.is_some());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `to` is before `from`, or a key is
    /// longer than 65,535 bytes; otherwise as [`Db::write`](crate::Db::write).
    pub fn delete_range(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.push_range_delete(self.id, from.as_ref(), to.as_ref())?;
        self.store().write(batch, WriteOptions::default())
    }

    /// Removes every key within bounds, either of which may be missing: all keys, for `..`. It costs as
    /// little as [`Keyspace::delete_range`]. A range without an end holds every key that was written
    /// before, and none that is written later.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
    /// for key in ["ant", "bee", "cat"] {
    ///     db.put(key.as_bytes(), b"animal")?;
    /// }
    /// db.delete_within("b"..)?;
    /// assert!(db.contains_key("ant")? && !db.contains_key("cat")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::delete_range`]; [`Error::InvalidArgument`](crate::Error::InvalidArgument) for
    /// a range that begins behind a key of
    /// 65,535 bytes, which is excluded.
    pub fn delete_within(&self, range: impl KeyRange) -> Result<()> {
        let range = (range.lower(), range.upper());
        self.own_store()?.delete_within(self.id, range)
    }

    /// Removes every key that begins with `prefix`, as [`Keyspace::delete_within`] does.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// for key in ["city:lisbon", "city:oslo", "river:tejo"] {
    ///     db.put(key, "")?;
    /// }
    /// db.delete_prefix("city:")?;
    /// assert_eq!(db.first()?.unwrap().0, b"river:tejo");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::delete_within`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_within(prefix_range(prefix))
    }

    /// Sets a key to `new` if its value is `expected`, as if at one moment; `None` stands for no
    /// value. Returns whether it set the key.
    ///
    /// No other write is blocked meanwhile: the key is read, and the write is refused and tried
    /// again if another writer wrote the key in between.
    ///
    /// # Errors
    /// Those of reading and of [`Db::write`](crate::Db::write).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
    /// assert!(db.compare_and_set(b"lock", None, Some(b"worker 1"))?);
    /// assert!(!db.compare_and_set(b"lock", None, Some(b"worker 2"))?, "taken");
    /// assert!(db.compare_and_set(b"lock", Some(b"worker 1"), None)?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let decide = |found: Option<&[u8]>| match new {
            _ if found != expected => Change::Leave,
            Some(new) => Change::Put(new.to_vec()),
            None => Change::Delete,
        };
        Ok(self
            .own_store()?
            .change_key(self.id, key.as_ref(), decide)?
            .1)
    }

    /// Sets a key to the result of `update` for its value, as if at one moment. `None` as the result
    /// deletes the key. `update` may be called several times. Returns the value before. Each call writes,
    /// even if nothing changes. A closure with a name needs the type of its argument, as below.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
    /// let more = |count: Option<&[u8]>| {
    ///     let count = count.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    ///     Some((count + 1).to_le_bytes().to_vec())
    /// };
    /// assert!(db.fetch_and_update(b"visits", more)?.is_none());
    /// assert_eq!(db.fetch_and_update(b"visits", more)?.as_deref(), Some(&1u64.to_le_bytes()[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn fetch_and_update(
        &self,
        key: impl AsRef<[u8]>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Value>> {
        let decide = |found: Option<&[u8]>| match update(found) {
            Some(new) => Change::Put(new),
            None => Change::Delete,
        };
        Ok(self
            .own_store()?
            .change_key(self.id, key.as_ref(), decide)?
            .0)
    }

    /// Changes the options of the keyspace. Sizes of levels count at once, and all others for
    /// tables written from now on.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an option out of its range or
    /// the default keyspace, which has the options that the store is opened with; otherwise as
    /// [`Db::write`](crate::Db::write).
    pub fn set_options(&self, options: KeyspaceOptions) -> Result<()> {
        self.own_store()?.set_keyspace_options(self.id, options)
    }

    /// Begins to load sorted entries in bulk: they are written to tables as they come, once, and
    /// appear all at once. Fastest where no key of the range is there yet.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`](crate::Error::NoKeyspace), or as [`Db::write`](crate::Db::write).
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// let mut load = db.ingest()?;
    /// for number in 0..10_000u32 {
    ///     load.put(&number.to_be_bytes(), b"value")?;
    /// }
    /// assert!(db.first()?.is_none());
    /// load.finish()?;
    /// assert_eq!(db.get(&77u32.to_be_bytes())?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn ingest(&self) -> Result<Ingestion<'_>> {
        Ingestion::new(self)
    }

    /// Flushes, then merges all entries of the tables in a range of keys into one level. Each key
    /// then has one version left and deleted keys take no space (as far as no snapshot sees them).
    /// The range `..` is everything. A range that lies in one level already and holds no tombstone
    /// is left as it is.
    ///
    /// # Errors
    /// A merge's failure; [`Error::NoKeyspace`](crate::Error::NoKeyspace).
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        let range = (range.lower(), range.upper());
        self.own_store()?.compact_range(self.id, range)
    }

    /// Returns the bytes that a range of keys takes in tables, estimated: compressed, with all
    /// versions. Writes that are not flushed yet do not count.
    ///
    /// # Errors
    /// Those of reading a table's index.
    pub fn approximate_bytes(&self, range: impl KeyRange) -> Result<u64> {
        let range = (range.lower(), range.upper());
        self.own_store()?.approximate_bytes(self.id, range)
    }

    fn get_bytes(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.own_store()?.get(self.id, key, options)
    }

    fn write_one(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.push(kind, self.id, key, value)?;
        self.store().write(batch, WriteOptions::default())
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace")
            .field("store", &self.store().files.path)
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
