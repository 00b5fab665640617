//! Iteration over the live keys of a snapshot, in both directions.
//!
//! Underneath lies a merge of all versions. This layer shows, for each key, the newest version at
//! or below the snapshot, if that is a value. Moving forward, the newest version comes first.
//! Moving backward, it comes last, so the key is complete only when the merge has stepped past it.
//! Versions that a deleted range hides are passed over, and the older layers of the merge are
//! sought past the whole range (`range_cover.rs`).
//!
//! The iterator registers its snapshot. It owns its sources only during a move: in between, a flush
//! may take them away if readers hold more memory than their budget. The next move then seeks again
//! in the present view, at the iterator's own snapshot. So an idle iterator pins nothing for long
//! but the block of the value that it shows, and writers never wait for one.

mod search;

use std::ops::Bound;
use std::sync::Arc;

use terrace_lsm::compaction::Versions;
use terrace_lsm::cursor::Cursor;
use terrace_lsm::key::{InternalKey, MAX_SEQUENCE};
use terrace_lsm::table::CursorOptions;
use terrace_lsm::time_profile::{Path, Sampling, Stage, Watched, sample};

use self::search::{
    RowValue, Search, after_versions_of, before_versions_of, seek_last_before, skip_key,
};
use crate::db::Store;
use crate::db::entries::Entries;
use crate::db::fork::leak;
use crate::db::key_range::{KeyRange, prefix_range};
use crate::db::passed_over::Due;
use crate::db::snapshot::Snapshot;
use crate::db::sources::{MakeLayer, SharedSource, Source};
use crate::{Error, KeyspaceId, Result};

/// Options of an iterator: its keys, its snapshot, and how it reads.
#[derive(Clone, Debug)]
pub struct IterOptions {
    /// Lower bound of the keys. Default: unbounded.
    pub lower: Bound<Vec<u8>>,
    /// Upper bound of the keys. Default: unbounded.
    pub upper: Bound<Vec<u8>>,
    /// The state to read. Default: as of the call.
    pub snapshot: Option<Snapshot>,
    /// Whether the block cache keeps the blocks read. Default: true; false suits long scans.
    pub fill_cache: bool,
    /// Whether to read blocks from their files and check them again; see
    /// [`ReadOptions::verify`](crate::ReadOptions::verify). Default: false.
    pub verify: bool,
}

impl Default for IterOptions {
    fn default() -> Self {
        IterOptions {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
            snapshot: None,
            fill_cache: true,
            verify: false,
        }
    }
}

impl IterOptions {
    fn of_tables(&self) -> CursorOptions {
        CursorOptions::of_reader(self.fill_cache, self.verify)
    }

    /// Returns options for the keys of a range.
    pub fn range(range: impl KeyRange) -> Self {
        IterOptions {
            lower: range.lower().map(<[u8]>::to_vec),
            upper: range.upper().map(<[u8]>::to_vec),
            ..IterOptions::default()
        }
    }

    /// Returns options for the keys that begin with `prefix`.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        let (lower, upper) = prefix_range(prefix);
        IterOptions {
            lower,
            upper,
            ..IterOptions::default()
        }
    }

    fn above_lower(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Included(lower) => key >= lower.as_slice(),
            Bound::Excluded(lower) => key > lower.as_slice(),
            Bound::Unbounded => true,
        }
    }

    fn below_upper(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Included(upper) => key <= upper.as_slice(),
            Bound::Excluded(upper) => key < upper.as_slice(),
            Bound::Unbounded => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// The merge stands on the version shown.
    Forward,
    /// The merge stands before all versions of the key shown.
    Backward,
}

/// A position among the live keys. Not valid until it is positioned.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
/// for key in ["ant", "bee", "cat"] {
///     db.put(key.as_bytes(), b"animal")?;
/// }
/// let mut iterator = db.iter(terrace::IterOptions::default())?;
/// iterator.seek(b"b")?;
/// assert!(iterator.valid() && iterator.key() == b"bee");
/// iterator.prev()?;
/// assert_eq!(iterator.key(), b"ant");
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct DbIterator {
    source: Arc<SharedSource>,
    search: Search,
    direction: Direction,
    valid: bool,
    /// Key that was left last: a buffer that moves need, kept from one to the next.
    left: Vec<u8>,
}

impl DbIterator {
    pub(crate) fn new(
        store: Arc<Store>,
        keyspace: KeyspaceId,
        options: IterOptions,
    ) -> Result<Self> {
        DbIterator::with_layers(store, keyspace, options, Vec::new())
    }

    /// Makes an iterator over the store with layers that lie on top of it, the youngest first.
    #[inline(always)]
    pub(crate) fn with_layers(
        store: Arc<Store>,
        keyspace: KeyspaceId,
        mut options: IterOptions,
        on_top: Vec<MakeLayer>,
    ) -> Result<Self> {
        store.lifecycle.check_open()?;
        // Before any view: the snapshot keeps its versions alive in every later view.
        let held = options
            .snapshot
            .get_or_insert_with(|| store.reads.hold_present());
        store.reads.check_snapshot(held)?;
        let point = held.read_point();
        Ok(DbIterator {
            source: store.reads.sources.register(),
            search: Search {
                store,
                keyspace,
                options,
                point,
                newest: match on_top.is_empty() {
                    true => point.sequence(),
                    false => MAX_SEQUENCE,
                },
                on_top,
                key: Vec::new(),
                value: RowValue::default(),
                noted_from: Vec::new(),
                paid_from: Vec::new(),
                passed_key: Vec::new(),
                due: Due::default(),
            },
            direction: Direction::Forward,
            valid: false,
            left: Vec::new(),
        })
    }

    /// Returns whether the iterator stands on a key.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the key it stands on; empty if not valid.
    pub fn key(&self) -> &[u8] {
        if self.valid { &self.search.key } else { &[] }
    }

    /// Returns the value of that key; empty if not valid. A large value keeps its block in memory
    /// until the next move.
    pub fn value(&self) -> &[u8] {
        if self.valid {
            self.search.value.bytes()
        } else {
            &[]
        }
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// Those of reading tables; the iterator is then not valid. This holds for all moves.
    pub fn seek_to_first(&mut self) -> Result<()> {
        match self.search.options.lower.clone() {
            Bound::Unbounded => self.forward(Path::Seek, |versions, _| versions.seek_to_first()),
            Bound::Included(lower) => self.forward_from(before_versions_of(&lower)),
            Bound::Excluded(lower) => self.forward_from(after_versions_of(&lower)),
        }
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        match self.search.options.upper.clone() {
            Bound::Unbounded => self.backward(Path::Seek, |versions, _| versions.seek_to_last()),
            Bound::Included(upper) => self.backward_from(after_versions_of(&upper)),
            Bound::Excluded(upper) => self.backward_from(before_versions_of(&upper)),
        }
    }

    /// Moves to the first key at or after `key`.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.search.options.above_lower(key) {
            self.forward_from(InternalKey::seek(key, self.search.newest))
        } else {
            self.seek_to_first()
        }
    }

    /// Moves to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.search.options.below_upper(key) {
            self.backward_from(after_versions_of(key))
        } else {
            self.seek_to_last()
        }
    }

    /// Moves to the next key. Does nothing if not valid.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "the cursor's move; `entries` iterates"
    )]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid {
            return self.search.store.lifecycle.check_process();
        }
        let key = self.leave();
        let turned = self.direction == Direction::Backward;
        let moved = self.forward(Path::Step, |versions, positioned| {
            if positioned && !turned {
                versions.next()?;
                skip_key(versions, &key)
            } else {
                versions.seek(after_versions_of(&key))
            }
        });
        self.left = key;
        moved
    }

    /// Moves to the previous key. Does nothing if not valid.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid {
            return self.search.store.lifecycle.check_process();
        }
        let key = self.leave();
        let turned = self.direction == Direction::Forward;
        let moved = self.backward(Path::Step, |versions, positioned| {
            if positioned && !turned {
                Ok(())
            } else {
                seek_last_before(versions, before_versions_of(&key))
            }
        });
        self.left = key;
        moved
    }

    /// Takes the present key; the buffer of the one before takes its place.
    fn leave(&mut self) -> Vec<u8> {
        let buffer = std::mem::take(&mut self.left);
        std::mem::replace(&mut self.search.key, buffer)
    }

    /// Returns the entries, whose both ends move. It begins at the two bounds, wherever this iterator is.
    pub fn entries(self) -> Entries {
        Entries::of(self)
    }

    /// Returns an iterator of the same keys at the same moment, not yet positioned.
    pub(crate) fn another(&self) -> Result<Self> {
        DbIterator::with_layers(
            Arc::clone(&self.search.store),
            self.search.keyspace,
            self.search.options.clone(),
            self.search.on_top.clone(),
        )
    }

    fn forward_from(&mut self, place: InternalKey<'_>) -> Result<()> {
        self.forward(Path::Seek, |versions, _| versions.seek(place))
    }

    fn backward_from(&mut self, past: InternalKey<'_>) -> Result<()> {
        self.backward(Path::Seek, |versions, _| seek_last_before(versions, past))
    }

    /// Positions the merge with `place`, then finds the first live key from there on. The argument
    /// of `place` says whether the merge still stands where the last move left it.
    fn forward(
        &mut self,
        path: Path,
        place: impl FnOnce(&mut Versions, bool) -> Result<()>,
    ) -> Result<()> {
        self.direction = Direction::Forward;
        self.go(path, place, Search::find_forward)
    }

    /// Positions the merge with `place`, then finds the last live key from there back.
    fn backward(
        &mut self,
        path: Path,
        place: impl FnOnce(&mut Versions, bool) -> Result<()>,
    ) -> Result<()> {
        self.direction = Direction::Backward;
        self.go(path, place, Search::find_backward)
    }

    #[inline(always)]
    fn go(
        &mut self,
        path: Path,
        place: impl FnOnce(&mut Versions, bool) -> Result<()>,
        find: impl FnOnce(&mut Search, &mut Source) -> Result<bool>,
    ) -> Result<()> {
        let found = match self.search.store.lifecycle.is_inherited() {
            true => Err(Error::Forked),
            false => self.move_watched(path, place, find),
        };
        self.valid = matches!(found, Ok(true));
        if !self.valid {
            self.search.value.let_go();
        }
        found.map(|_| ())
    }

    #[inline(always)]
    fn move_watched(
        &mut self,
        path: Path,
        place: impl FnOnce(&mut Versions, bool) -> Result<()>,
        find: impl FnOnce(&mut Search, &mut Source) -> Result<bool>,
    ) -> Result<bool> {
        let _watched = self.watch_if_drawn(path);
        self.move_source(path, place, find)
    }

    #[inline(always)]
    fn move_source(
        &mut self,
        path: Path,
        place: impl FnOnce(&mut Versions, bool) -> Result<()>,
        find: impl FnOnce(&mut Search, &mut Source) -> Result<bool>,
    ) -> Result<bool> {
        let mut held = self.source.lock();
        let (source, positioned) = self.search.renew(&mut held)?;
        let found =
            place(&mut source.versions, positioned).and_then(|()| find(&mut self.search, source));
        if path == Path::Seek {
            let is_due = self.search.pays_for_merge(source);
            drop(held);
            self.search.end_seek(is_due);
        } else if self.search.due.is_any() {
            drop(held);
            self.search.begin_due();
        }
        found
    }

    /// Watches the move if it is drawn. In a box: a watch is seldom there, and else takes no room.
    #[inline(always)]
    fn watch_if_drawn(&self, path: Path) -> Option<Box<Watched>> {
        let watch = || {
            Box::new(
                self.search
                    .store
                    .metrics
                    .time_profile
                    .watch(path, Stage::Iteration),
            )
        };
        (sample() == Sampling::Watched).then(watch)
    }
}

impl Drop for DbIterator {
    fn drop(&mut self) {
        if self.search.store.lifecycle.is_inherited() {
            leak(&self.source);
            leak(&self.search.store);
        }
    }
}

impl IntoIterator for DbIterator {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Entries;

    fn into_iter(self) -> Entries {
        self.entries()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod layers_tests;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
