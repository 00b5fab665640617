//! Options of an opening: settings (data) and components (objects).

mod check;
mod constants;
mod file_access;
mod memory_bound;
mod persist_method;
mod read_buffer;
pub(crate) mod table;
#[cfg(feature = "serde")]
mod text;
mod tiers;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use terrace_lsm::compaction::policy::settings::{CompactionPolicy, PolicySettings};
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::Domain;
use terrace_region::Device;
use terrace_storage::{CrashSwitch, RealStorage, SimulatedStorage, Storage};

pub use self::constants::Constants;
pub use self::file_access::FileAccess;
pub use self::persist_method::PersistMethod;
pub use self::read_buffer::{ForwardPolicy, ReadBufferOptions, ReadBufferStructure};
pub(crate) use self::tiers::MIN_CACHE_BYTES;
pub use self::tiers::TierOptions;
use crate::event::EventListener;
use crate::randomness::Randomness;

/// The events that an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Durability {
    /// Death of the process; a power cut keeps a prefix of the writes. A write is a copy into a
    /// mapped file, or a `pwrite` where files are not overwritten in place.
    #[default]
    CrashSafe,
    /// A power cut. A commit group costs a `pwrite` and an `fdatasync`.
    PowerSafe,
    /// Nothing: writes that are not yet in tables are lost with the process, except at a clean
    /// close.
    Volatile,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::CrashSafe => "CrashSafe",
            Durability::PowerSafe => "PowerSafe",
            Durability::Volatile => "Volatile",
        })
    }
}

impl Durability {
    /// Returns its name in the manifest, on a region whose power safety is emulated or is not.
    pub(crate) fn domain(self, emulated: bool) -> Domain {
        match self {
            Durability::CrashSafe => Domain::CrashSafe,
            Durability::PowerSafe if emulated => Domain::EmulatedPowerSafe,
            Durability::PowerSafe => Domain::PowerSafe,
            Durability::Volatile => Domain::Volatile,
        }
    }

    /// Returns the durability with which a manifest's domain is opened.
    pub(crate) fn of(domain: Domain) -> Self {
        match domain {
            Domain::CrashSafe => Durability::CrashSafe,
            Domain::PowerSafe | Domain::EmulatedPowerSafe => Durability::PowerSafe,
            Domain::Volatile => Durability::Volatile,
        }
    }

    /// Returns whether arenas of one are arenas of the other.
    pub(crate) fn same_region_as(self, other: Durability) -> bool {
        (self == Durability::Volatile) == (other == Durability::Volatile)
    }
}

/// Opens the device that holds new writes; see [`Options::region`].
#[derive(Clone)]
pub struct RegionSource(Arc<dyn Fn() -> terrace_region::Result<Box<dyn Device>> + Send + Sync>);

impl RegionSource {
    /// Makes a source that calls `open` at each opening of the store.
    pub fn new(
        open: impl Fn() -> terrace_region::Result<Box<dyn Device>> + Send + Sync + 'static,
    ) -> Self {
        RegionSource(Arc::new(open))
    }

    pub(crate) fn open(&self) -> terrace_region::Result<Box<dyn Device>> {
        (self.0)()
    }
}

impl fmt::Debug for RegionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegionSource")
    }
}

/// The runner of flushes and compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Background {
    /// Threads of the store's own: one keeps a spare arena ready, one flushes,
    /// [`Options::compaction_threads`] merge. One installs the tables that they wrote, and one
    /// deletes files and empties a block cache that gives memory away.
    #[default]
    Threads,
    /// The calling thread, inside the call that made the work necessary: the same calls always do
    /// the same work in the same order. It is for simulations and tests. It is also the only choice
    /// in a forked child whose parent had a store open, where one thread alone may use the store.
    Inline,
}

/// Settings and components of a store. Every field has a default that suits a disk and a few
/// gigabytes of memory. Most stores set [`Options::memory_bytes`] or [`Options::cache_bytes`], and
/// [`Options::durability`].
///
/// ```
/// let options = terrace::Options {
///     durability: Some(terrace::Durability::PowerSafe),
///     cache_bytes: 256 << 20,
///     ..terrace::Options::default()
/// };
/// # let _ = options;
/// ```
///
/// Settings are data and can be kept in a file, see `Options::from_toml` (feature `serde`); components are objects:
/// `storage`, `region`, `background` and `event_listener`.
// CONTRIBUTING.md has the steps by which an option is added.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Options {
    /// Whether to make a store if the directory holds none. Default: true.
    pub create_if_missing: bool,
    /// Whether to fail if the directory holds a store. Default: false.
    pub error_if_exists: bool,
    /// Whether to open without writing a byte; every write is refused. Default: false.
    pub read_only: bool,
    /// Time to wait for another owner or reader that holds the lock of the store, or of its region
    /// directory. The opening or `terrace_tools::repair` tries again, with pauses of 5 to 100 ms,
    /// and then returns [`Error::Busy`](crate::Error::Busy). No other error is waited out. In TOML
    /// `wait_for_lock_seconds`. Default (`None`): the first refusal is the error.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("store");
    /// use std::time::Duration;
    /// use terrace::{Db, Options};
    ///
    /// let owner = Db::open(&path, Options::default())?;
    /// let leaving = std::thread::spawn(move || owner.close());
    ///
    /// let options = Options { wait_for_lock: Some(Duration::from_secs(60)), ..Options::default() };
    /// let db = Db::open(&path, options)?;
    /// # leaving.join().unwrap()?;
    /// # db.close()?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[cfg_attr(
        feature = "serde",
        serde(rename = "wait_for_lock_seconds", with = "text::seconds")
    )]
    pub wait_for_lock: Option<Duration>,
    /// Events that an acknowledged write survives. `None`: as the store was last opened,
    /// `CrashSafe` for a new one. Default: `None`.
    pub durability: Option<Durability>,

    /// Interval at which writes are persisted, so that a power cut takes no more than the writes of
    /// about that long; not with [`Background::Inline`]. In TOML `persist_every_seconds`. Default
    /// (`None`): writes are persisted by flushes, and when a write or
    /// [`Db::persist`](crate::Db::persist) asks for it.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "persist_every_seconds", with = "text::seconds")
    )]
    pub persist_every: Option<Duration>,

    /// Bytes of memory that the store takes: arenas with their indexes, caches, filters and top indexes
    /// of open tables, memory that readers keep, buffers of compactions, and a reserve. Every size that
    /// has its default then follows from this one, as [`Options::resolved`] shows. A size that was set is
    /// taken off first. A sum above the bound is an error at the opening. Tables are read and written
    /// past the page cache ([`Options::direct_io`]), which lies outside the bound. At least 32 MiB.
    /// Default (`None`): sizes have their defaults.
    ///
    /// A size that equals its default counts as not set: a cache of exactly 64 MiB cannot be asked for.
    /// [`Options::max_batch_bytes`] follows too, and with it the largest value: 16 MiB at 128 MiB.
    ///
    /// The bound is the store's. An allocator with an arena for each thread takes more: give a program
    /// that uses glibc's the environment `MALLOC_ARENA_MAX=1`.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "terrace_lsm::byte_size::deserialize_some")
    )]
    pub memory_bytes: Option<u64>,
    /// Bytes of an arena and its index: the unit in which new writes are flushed. Default: 64 MiB.
    /// Larger arenas mean less write amplification, more memory and a longer recovery. This is the
    /// full size: a store begins with one of 256 KiB, and each next one has up to four times the bytes.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "terrace_lsm::byte_size::deserialize")
    )]
    pub arena_bytes: u64,
    /// Number of arenas of the full size that may hold unflushed writes at a time, the active one
    /// included; smaller ones count by their bytes. Writers are slowed down while the last two are
    /// filled (of two the last). More arenas take larger bursts at full speed, and more memory.
    /// Default: 3.
    pub max_arenas: usize,

    /// Options of the default keyspace: the form of its tables and levels. In TOML the group
    /// `[default_keyspace]`. They apply from the opening, to tables written from then on.
    pub default_keyspace: KeyspaceOptions,

    /// Rule that keeps tables in shape: which tables are merged, and when. A store may be opened
    /// with another policy than it was written with. Its tables then come into the other shape by
    /// the merges that are due anyway, or, for `Leveled`, level by level in the background.
    /// Default: `Leveled`.
    pub compaction_policy: CompactionPolicy,
    /// Number of versions in a level, for each that a merge would leave, at which the policy
    /// `Dedup` merges the level: 1.2 keeps stale versions to about a fifth, 1.8 writes little more
    /// than `Tiered`. Default: 1.4.
    pub dedup_threshold: f64,
    /// With the policy `Score`, the least gain of a merge for each byte that it writes: bytes
    /// freed, weighted with the share of the store that is merged, and the worth of probes saved.
    /// The lower it is, the less space stale versions take and the more is written. Default: 0.4,
    /// at which random updates of equal keys keep stale versions to about a fifth.
    #[cfg_attr(feature = "serde", serde(alias = "least_score"))]
    pub min_score: f64,
    /// Percentage of tombstones among a table's entries from which on every policy merges the table
    /// with the older ones that it overlaps. The merge comes when nothing is more urgent. It
    /// comes again until the table has fewer, or the tombstones and the versions that they hide are gone.
    /// A deleted range counts for the versions that it hides. Level 0 counts as one table. Versions
    /// that a snapshot needs wait for it. A table whose tombstones iterators pass over again and
    /// again counts earlier. 0: never. Default: 50, which updates with a few deletions do not
    /// reach.
    pub tombstone_percent: u32,
    /// Seconds that a tombstone may be in tables. With every policy it is then merged down, before
    /// all but level 0, until it and the versions that it hides are gone. So deleted data leaves
    /// the disk after this time, that in an arena, and that of the merges. Versions that a snapshot
    /// needs wait for it. Older releases did not note the time of tombstones: for theirs it counts
    /// from the opening. 0: never. Default: 2,592,000, which is 30 days.
    pub tombstone_age_seconds: u64,
    /// Sub-levels of level 0 that start a merge. Default: 8. Scans have to ask every one of them:
    /// fewer start a merge when scans have asked so often that it had been done in that time. But
    /// none where level 0 is less than a fifth of the merge, except that of several sub-levels into
    /// one. With the policy [`CompactionPolicy::Score`] four times as many, if writers are not
    /// slowed down before.
    pub level0_merge: usize,
    /// Sub-levels of level 0 at which writers are slowed down; at 16 more they stop. Default: 20.
    pub level0_slowdown: usize,

    /// Merges, or slices of one, that run at a time. Default: one less than there are processors,
    /// at least 1. A few more threads, which mostly wait, flush, install, prepare arenas and delete
    /// old tables.
    pub compaction_threads: usize,

    /// Bytes a second that flushes and merges write together, while merges owe little. A merge
    /// waits before each write. A flush does not, and merges make up for it: so the two exceed the
    /// rate only where flushes alone do. The more merges owe, the higher the rate, in steps that
    /// double it. Well before writers are slowed down there is no limit, so that it holds no writer back.
    /// [`Db::compact`](crate::Db::compact) waits for merges that keep to the rate,
    /// [`Db::close`](crate::Db::close) ends it.
    ///
    /// Not limited: new writes in arenas, the manifest, and all reads, those of merges included. At
    /// least 64 KiB. Default (`None`): no limit.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "terrace_lsm::byte_size::deserialize_some")
    )]
    pub background_bytes_per_second: Option<u64>,

    /// Bytes of memory for data read from tables: blocks, and the entries of the read buffer. Blocks
    /// of the index stay as long as their table does. They take a quarter at most, and three quarters
    /// of the part that the read buffer leaves. Default: 64 MiB.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "terrace_lsm::byte_size::deserialize")
    )]
    pub cache_bytes: u64,
    /// Settings of the read buffer, which keeps the newest versions of keys that are read again and
    /// again, entry by entry. More of them fit than in blocks, and reads find them faster. Default:
    /// on, with up to half of [`Options::cache_bytes`], once all blocks would take half as much
    /// again as these.
    pub read_buffer: ReadBufferOptions,
    /// Whether to read and write tables past the page cache, as `O_DIRECT` does, where the file
    /// system can. Then blocks are in memory once and not twice. Give all of that memory to
    /// `cache_bytes`: blocks that are not there come from the device. Arenas and the manifest stay
    /// in the page cache, and a merge's reads pass through it without staying. Blocks that are not
    /// compressed keep to pages of 4 KiB. Default: false.
    pub direct_io: bool,
    /// Whether, with `direct_io`, to wait for reads of tables on the processor instead of asleep. A
    /// get from a quick device may then take two thirds of the time, and half as much processor
    /// time again. A process waits in this way on at most half of the processors at a time; other
    /// readers sleep. Readers sleep, too, for a while whenever others turn out to want a processor.
    /// They also sleep where a device turns out to answer no sooner for it, and in a forked child.
    /// Polling needs io_uring (Linux 5.19), which containers may forbid, and two processors;
    /// [`Statistics::can_poll_reads`](crate::Statistics::can_poll_reads) tells whether it can be done.
    /// Default (`None`): true with [`Options::memory_bytes`], false without.
    pub poll_reads: Option<bool>,
    /// Tables kept open, with filter and top index in memory. The number counts for this store
    /// alone; tables of iterators count, too. Default (`None`): half of the files that the process
    /// may have open (`RLIMIT_NOFILE`, the soft limit) when the store is opened, at most 1000. All
    /// stores with the default share it. Above the number, and where the process has no descriptor
    /// left, the store closes the tables that were not read for longest. It opens them again when
    /// they are read. The library never raises the limit of its process; the command `terrace`
    /// raises its own.
    pub max_open_tables: Option<usize>,

    /// Place of files. Default: the real file system.
    #[cfg_attr(feature = "serde", serde(skip, default = "real_storage"))]
    pub storage: Arc<dyn Storage>,
    /// Place of new writes. Default (`None`): arena files in the store's directory, or anonymous
    /// memory if `durability` is `Volatile`.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub region: Option<RegionSource>,
    /// A directory for arenas, on a device or mount of their own; made if it is missing. It belongs
    /// to one store. Once a store has unflushed writes there, it opens with this directory only,
    /// wherever that is mounted. After `flush` and `close` you may give it another one, or none.
    /// Default (`None`): arenas are in the store's directory.
    #[cfg_attr(
        feature = "serde",
        serde(
            with = "terrace_lsm::serial::paths::option",
            skip_serializing_if = "Option::is_none"
        )
    )]
    pub region_dir: Option<PathBuf>,
    /// Whether to open with the contents of tables although unflushed writes are missing with their
    /// region. The loss is recorded, and [`Recovery`](crate::Recovery) and
    /// [`Statistics`](crate::Statistics) show it. Where nothing is missing this changes nothing.
    /// Default: false, and such an opening is [`Error::RegionLost`](crate::Error::RegionLost).
    pub accept_region_loss: bool,
    /// Tiers: directories for tables, each on a device of its own, from the fastest to the slowest. An opening
    /// makes those that the store does not have, and gives the others these limits. Tiers that the store
    /// has and this list does not name stay as they are. Default: none but the store's own directory.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub tiers: Vec<TierOptions>,
    /// Whether to open although the directory of a tier is missing that tables lie in. Reads of keys that
    /// these tables may hold are then [`Error::TierLost`](crate::Error::TierLost), never an older version.
    /// All others go on. The loss is recorded until an opening finds the tier again. Default: false.
    pub accept_tier_loss: bool,
    /// Whether `terrace_tools::repair` takes in the tables that openings kept when they dropped the
    /// end of the manifest; see [`Recovery::unlisted_tables`](crate::Recovery::unlisted_tables).
    /// Openings ignore it. Default: false.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub take_unlisted: bool,
    /// Method by which arenas in files take new writes; of no effect where `region` is given or the
    /// store is `Volatile`. Default: as suits the file system.
    pub persist_method: PersistMethod,
    /// Users that may open the files and directories that the store makes. Default: the owner.
    pub file_access: FileAccess,
    /// Runner of flushes and compactions. Default: threads.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub background: Background,
    /// Listener that the store calls with each event in the background, as it happens. Default:
    /// none; see [`Db::events`](crate::Db::events) for the last events.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub event_listener: Option<Arc<dyn EventListener>>,
    /// Constants that tests replace.
    #[doc(hidden)]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Constants::are_own"))]
    pub constants: Constants,
    /// Source of the random numbers of tables and openings. Tests seed it so that runs repeat.
    #[doc(hidden)]
    #[cfg_attr(feature = "serde", serde(skip))]
    pub randomness: Randomness,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            wait_for_lock: None,
            durability: None,
            persist_every: None,
            memory_bytes: None,
            arena_bytes: 64 << 20,
            max_arenas: 3,
            default_keyspace: KeyspaceOptions::default(),
            compaction_policy: CompactionPolicy::Leveled,
            dedup_threshold: 1.4,
            min_score: 0.4,
            tombstone_percent: 50,
            tombstone_age_seconds: 30 * 24 * 60 * 60,
            level0_merge: 8,
            level0_slowdown: 20,
            compaction_threads: std::thread::available_parallelism().map_or(1, |processors| {
                processors.get().saturating_sub(1).clamp(1, 64)
            }),
            background_bytes_per_second: None,
            cache_bytes: 64 << 20,
            read_buffer: ReadBufferOptions::default(),
            direct_io: false,
            poll_reads: None,
            max_open_tables: None,
            storage: real_storage(),
            region: None,
            region_dir: None,
            accept_region_loss: false,
            tiers: Vec::new(),
            accept_tier_loss: false,
            take_unlisted: false,
            persist_method: PersistMethod::Auto,
            file_access: FileAccess::Owner,
            background: Background::Threads,
            event_listener: None,
            constants: Constants::default(),
            randomness: Randomness::from_os(),
        }
    }
}

fn real_storage() -> Arc<dyn Storage> {
    Arc::new(RealStorage)
}

impl Options {
    /// Returns options for your own tests: the store lives in this process's memory, touches no
    /// disk and is gone with the options. Arenas and tables are small (4 MiB), so that opening
    /// takes milliseconds; everything else is as on a disk, `sync` and [`Durability::PowerSafe`]
    /// included.
    ///
    /// Each call stands for a disk of its own. Clones of the options share theirs, so that a test
    /// can close a store and open it again. The store's path is a name on that disk.
    ///
    /// ```
    /// use terrace::{Db, Options};
    ///
    /// let options = Options::in_memory();
    /// let db = Db::open("/store", options.clone())?;
    /// db.put(b"key", b"value")?;
    /// db.close()?;
    ///
    /// let db = Db::open("/store", options)?;
    /// assert_eq!(db.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// assert!(Db::open("/store", Options::in_memory())?.get(b"key")?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn in_memory() -> Self {
        let disk = SimulatedStorage::new(0, CrashSwitch::new());
        disk.set_capacity_bytes(1 << 40);
        Options {
            storage: Arc::new(disk),
            arena_bytes: 4 << 20,
            default_keyspace: KeyspaceOptions {
                table_bytes: 4 << 20,
                level1_bytes: 16 << 20,
                ..KeyspaceOptions::default()
            },
            cache_bytes: 8 << 20,
            ..Options::default()
        }
    }

    /// Returns the settings that the compaction policy goes by.
    pub(crate) fn policy_settings(&self) -> PolicySettings {
        PolicySettings {
            policy: self.compaction_policy,
            level0_merge: self.level0_merge,
            level0_slowdown: self.level0_slowdown,
            slice_bytes: self.constants.slice_bytes,
            dedup_threshold: self.dedup_threshold,
            min_score: self.min_score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_in_memory_touches_no_disk_and_can_do_what_one_on_a_disk_can() {
        let path = std::env::temp_dir().join(format!("terrace-in-memory-{}", std::process::id()));
        let options = Options {
            durability: Some(Durability::PowerSafe),
            ..Options::in_memory()
        };
        let db = crate::Db::open(&path, options.clone()).unwrap();
        for number in 0..20_000u32 {
            db.put(number.to_be_bytes(), [7; 500]).unwrap();
        }
        db.persist().unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let db = crate::Db::open(&path, options).unwrap();
        assert_eq!(db.get(7u32.to_be_bytes()).unwrap().unwrap().len(), 500);
        assert!(!path.exists());
    }
}
