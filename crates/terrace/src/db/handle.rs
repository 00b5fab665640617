//! The public handle to a store.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::DEFAULT_NAME;
use terrace_lsm::read_point::ReadPoint;
use terrace_lsm::time_profile::TimeProfile;
use terrace_storage::{Clock, SystemClock};

use crate::db::Store;
use crate::db::compaction_history::Compaction;
use crate::db::keyspace::{HandleOwner, Keyspace};
use crate::db::snapshot::Snapshot;
use crate::db::statistics::{LevelsReport, Statistics};
use crate::db::verify::{VerifyReport, verify_live};
use crate::db::write::WriteOptions;
use crate::event::Event;
use crate::options::Options;
use crate::write_buffer::batch::WriteBatch;
use crate::{KeyspaceId, Result, SequenceNumber};

/// An open store. Cheap to clone and to share between threads; the last clone to be dropped closes
/// the store.
///
/// Keys and values are bytes; keys are ordered bytewise. Empty keys and values are allowed.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("store");
/// use terrace::{Db, IterOptions, Options, WriteBatch, WriteOptions};
///
/// let db = Db::open(&path, Options::default())?;
/// db.put(b"city:lisbon", b"Portugal")?;
///
/// let mut batch = WriteBatch::new();
/// batch.put(b"city:oslo", b"Norway")?;
/// batch.delete(b"city:lisbon")?;
/// db.write(batch, WriteOptions::with_sync(true))?;
///
/// assert_eq!(db.get(b"city:oslo")?.as_deref(), Some(&b"Norway"[..]));
/// let cities = db.iter(IterOptions::prefix(b"city:"))?.entries();
/// assert_eq!(cities.count(), 1);
/// db.close()?;
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// # Forks
/// A store belongs to the process that opened it. In a child of `fork` every call of an inherited
/// handle, iterator, snapshot or bulk load returns [`Error::Forked`](crate::Error::Forked), reads
/// included. Calls that return no error say nothing: [`Db::statistics`] has the error in
/// [`Statistics::poisoned`], and lists are empty. Closing and dropping do nothing, and memory of the
/// store stays in use until the child ends.
///
/// Values that were read before stay readable. A value above 4 KiB may lie in an arena that the
/// parent reuses after it has dropped its own copy: copy such a value before the fork.
///
/// A child shares the lock of the store until it ends or calls `exec`. If the parent closes the store,
/// the lock is free at once. If the parent dies, the store is [`Error::Busy`](crate::Error::Busy) for
/// as long as such a child lives.
///
/// A child may open stores of its own. If its parent had a store with background threads open, the
/// locks of those threads stay held in the child: there such an opening is refused, and only
/// [`Background::Inline`](crate::Background::Inline) is left. So fork first, or call `exec`.
#[derive(Clone)]
pub struct Db {
    default: Keyspace,
}

/// A store is used as its default keyspace: everything that a [`Keyspace`] does, it does there.
impl Deref for Db {
    type Target = Keyspace;

    fn deref(&self) -> &Keyspace {
        &self.default
    }
}

impl Db {
    /// Opens the store in a directory, making one if there is none and
    /// [`Options::create_if_missing`] says so. After a crash, all acknowledged writes come back:
    /// [`Statistics::recovery`](crate::Statistics::recovery) has the findings.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::Error::Busy) if the store is open elsewhere.
    /// [`Error::NoStore`](crate::Error::NoStore) if there is none or the directory holds other
    /// files. [`Error::Corruption`](crate::Error::Corruption) if acknowledged bytes are damaged.
    /// [`Error::RegionLost`](crate::Error::RegionLost) if unflushed writes are missing.
    /// [`Error::NoSpace`](crate::Error::NoSpace) if there is no room to recover into.
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for options that no store can work with.
    /// [`Error::Unsupported`](crate::Error::Unsupported) for files of a newer release, or of a feature that
    /// was left out.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_on(path.as_ref(), options, Arc::new(SystemClock::new()))
    }

    pub(crate) fn open_on(path: &Path, options: Options, clock: Arc<dyn Clock>) -> Result<Db> {
        let store = Store::open(path, options, clock)?;
        Ok(Db::of(HandleOwner::closing(store)))
    }

    /// Returns a handle that does not close the store when it is dropped.
    pub(crate) fn beside(store: Arc<Store>) -> Db {
        Db::of(HandleOwner::beside(store))
    }

    fn of(owner: HandleOwner) -> Db {
        Db {
            default: Keyspace::new(Arc::new(owner), KeyspaceId::DEFAULT, DEFAULT_NAME),
        }
    }

    /// Returns the keyspace with a name.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`](crate::Error::NoKeyspace) if there is none.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let id = self.own_store()?.keyspace_named(name)?;
        Ok(Keyspace::new(Arc::clone(self.owner()), id, name))
    }

    /// Returns every keyspace, the default one first, then in the order in which they were made.
    pub fn keyspaces(&self) -> Vec<Keyspace> {
        let keyspaces = self.own_store().map(|store| store.reads.keyspaces());
        let keyspaces = keyspaces.unwrap_or_default().into_iter();
        keyspaces
            .map(|(id, name)| Keyspace::new(Arc::clone(self.owner()), id, &name))
            .collect()
    }

    /// Makes a keyspace. It is there, durably, when this returns.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if there is one with that name, the
    /// name is empty or longer than 255 bytes, or an option is out of its range. Otherwise as
    /// [`Db::write`].
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let id = self.own_store()?.create_keyspace(name, options)?;
        Ok(Keyspace::new(Arc::clone(self.owner()), id, name))
    }

    /// Returns the keyspace with a name, and makes it if there is none. The options are those of a new
    /// one; [`Keyspace::set_options`] changes those of a keyspace that is there. Their defaults do not
    /// follow [`Options::memory_bytes`]: `options.resolved()?.default_keyspace` has options that do.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// let users = db.get_or_create_keyspace("users", Default::default())?;
    /// users.put("7", "ada@example.org")?;
    /// let again = db.get_or_create_keyspace("users", Default::default())?;
    /// assert!(again.contains_key("7")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::create_keyspace`], but for a name that is there.
    pub fn get_or_create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        match self.keyspace(name) {
            Err(crate::Error::NoKeyspace { .. }) => match self.create_keyspace(name, options) {
                // Another thread may have made it in between.
                Err(refused @ crate::Error::InvalidArgument(_)) => {
                    self.keyspace(name).map_err(|_| refused)
                }
                made => made,
            },
            found => found,
        }
    }

    /// Gives a keyspace another name. The new name is durable when this returns, and every earlier
    /// write is as durable. Handles, iterators, snapshots and batches of the keyspace go on, and
    /// its options stay.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// use terrace::KeyspaceOptions;
    ///
    /// let cities = db.create_keyspace("cities.new", KeyspaceOptions::default())?;
    /// cities.put(b"oslo", b"Norway")?;
    /// db.rename_keyspace("cities.new", "cities")?;
    /// assert_eq!(cities.name(), "cities");
    /// assert!(db.keyspace("cities")?.contains_key(b"oslo")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoKeyspace`](crate::Error::NoKeyspace),
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for the default keyspace, or for a new
    /// name that a keyspace has already or none can have; otherwise as [`Db::write`].
    pub fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        self.own_store()?.rename_keyspace(from, to)
    }

    /// Drops a keyspace with all that is in it. The drop is durable when this returns, and every
    /// earlier write is as durable. Snapshots do not keep the keyspace; open iterators go on while
    /// they are not made to seek again.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`](crate::Error::NoKeyspace),
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for the default keyspace;
    /// otherwise as [`Db::write`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.own_store()?.drop_keyspace(name)
    }

    /// Writes a batch as a whole. When it returns, the writes are visible to every reader and
    /// are as durable as the store's [`Durability`](crate::Durability) says. With
    /// [`WriteOptions::sync`] they and all writes before them survive a power cut.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a batch over
    /// [`Options::max_batch_bytes`], a read-only store, or `sync` where nothing can be persisted.
    /// [`Error::NoSpace`](crate::Error::NoSpace) if the buffers are full and cannot be flushed (the
    /// store goes on by itself when space returns).
    /// [`Error::Poisoned`](crate::Error::Poisoned) after a failed sync or a panic. After an I/O error it is
    /// not known whether a reopened store has the batch; it has all of it or none.
    pub fn write(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.store().write(batch, options)
    }

    /// Makes every write acknowledged so far survive a power cut.
    ///
    /// # Errors
    /// As [`Db::write`] with `sync`.
    pub fn persist(&self) -> Result<()> {
        self.store()
            .write(WriteBatch::new(), WriteOptions::with_sync(true))
    }

    /// Returns a snapshot of the store as it is now, to be read later.
    pub fn snapshot(&self) -> Snapshot {
        let store = self.store();
        match store.lifecycle.is_inherited() {
            false => store.snapshot(),
            true => {
                let point = ReadPoint::at(store.reads.visible());
                store.reads.snapshots.unregistered(point)
            }
        }
    }

    /// Writes everything acknowledged so far to tables and waits for it.
    ///
    /// # Errors
    /// The flush's failure; it is repeated in the background all the same.
    pub fn flush(&self) -> Result<()> {
        self.own_store()?.flush()
    }

    /// Waits until no level is over its target, and no table is to be divided for its reads. It merges nothing
    /// besides: for that, [`Keyspace::compact_range`] takes `..`.
    ///
    /// # Errors
    /// The compaction's failure; it is repeated in the background all the same. In a store with tiers one that finds
    /// no room is tried a few times before.
    pub fn compact(&self) -> Result<()> {
        self.own_store()?.settle()
    }

    /// Backs the store up: makes a store in another directory that holds every write acknowledged before
    /// the call. Of writes made meanwhile it holds none, or all up to some write. The directory is made
    /// with its parents, or is empty. Reads and writes go on. A checkpoint flushes first; on the same file
    /// system it then takes no more than a link for each table. It survives a power cut from its return on.
    /// Returns the number of the last write in the new store.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the directory is not empty;
    /// otherwise as [`Db::flush`], or those of making files. Files made so far are removed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (directory.path().join("store"), directory.path().join("copy"));
    /// use terrace::{Db, Options};
    /// let db = Db::open(&path, Options::default())?;
    /// db.put(b"key", b"value")?;
    /// db.checkpoint(&copy)?;
    /// let copy = Db::open(&copy, Options::default())?;
    /// assert_eq!(copy.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[doc(alias = "backup")]
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<SequenceNumber> {
        self.own_store()?.checkpoint(path.as_ref())
    }

    /// Reads everything that the store holds at this moment and checks it: every frame of its
    /// arenas, every block of every table past the cache, and that ages order all versions of every
    /// key. Calls `progress` for every table, with the number of tables. Reads and writes go on.
    /// `terrace_tools::inspect::verify` does the same to a store that is not open.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed). Damage is no error: it is in the report.
    pub fn verify(&self, progress: impl FnMut(usize, usize)) -> Result<VerifyReport> {
        verify_live(self, progress)
    }

    /// Returns the store's random number: the same each time the store is opened, and another in each
    /// checkpoint that is made of it.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked) in a child of the process that opened the store.
    pub fn store_id(&self) -> Result<u128> {
        let store = self.own_store()?;
        let ledger = store.manifest_log.ledger.lock();
        Ok(ledger.state.identity.store_id)
    }

    /// Returns the statistics of the store: its contents, and its work so far.
    pub fn statistics(&self) -> Statistics {
        let store = self.own_store();
        store.map_or_else(
            |_| self.store().writes.statistics_of_inherited(),
            |store| store.statistics(),
        )
    }

    /// Returns where the time of operations went since the store was opened, stage by stage. The
    /// store always measures this: the costs are below one per cent. See also
    /// [`Statistics::time`](crate::Statistics::time).
    pub fn time_profile(&self) -> TimeProfile {
        let store = self.own_store();
        store
            .map(|store| store.metrics.time_profile.profile())
            .unwrap_or_default()
    }

    /// Returns the last thousand events of background work, oldest first. An
    /// [`Options::event_listener`] gets each event as it happens.
    pub fn events(&self) -> Vec<Event> {
        let store = self.own_store();
        store
            .map(|store| store.metrics.events.kept())
            .unwrap_or_default()
    }

    /// Returns every table, in its place, with the work that merges still have to do and have done.
    /// Reads no file.
    pub fn levels(&self) -> LevelsReport {
        let report = |store: &Arc<Store>| store.levels_report(|_| Vec::new());
        self.own_store().map(report).unwrap_or_default()
    }

    /// Returns the same as `levels`, and how often each level has its keys, under any policy.
    /// The tables' sketches give the estimate. Those not yet known are read from their files, some
    /// 12 KiB a table. A level with a sketch that cannot be read has no estimate.
    ///
    /// ```
    /// let mut options = terrace::Options::in_memory();
    /// options.arena_bytes = 1 << 20; // With larger ones a flush takes tiny tables along.
    /// let db = terrace::Db::open("/store", options)?;
    /// for _ in 0..3 {
    ///     db.put(b"key", b"value")?;
    ///     db.flush()?;
    /// }
    /// let levels = db.levels_with_duplicates();
    /// let level0 = &levels.keyspaces[0].duplicates[0];
    /// assert_eq!((level0.versions, level0.rate()), (3, Some(3.0)));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn levels_with_duplicates(&self) -> LevelsReport {
        let report =
            |store: &Arc<Store>| store.levels_report(|levels| store.level_duplicates(levels));
        self.own_store().map(report).unwrap_or_default()
    }

    /// Returns the last 256 merges and moves that have ended since the store was opened, in the
    /// order in which they did. Each has its reason, its inputs and outputs, and how many entries
    /// it was to drop and dropped.
    pub fn compactions(&self) -> Vec<Compaction> {
        let store = self.own_store();
        store
            .map(|store| {
                store
                    .metrics
                    .compactions
                    .kept(&store.reads.view.load().version)
            })
            .unwrap_or_default()
    }

    /// Closes the store for every clone of the handle. Later calls fail with
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Errors
    /// The first failure of persisting the writes; the store is closed in any case.
    pub fn close(&self) -> Result<()> {
        self.own_store()?.close()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("path", &self.store().files.path)
            .finish_non_exhaustive()
    }
}
