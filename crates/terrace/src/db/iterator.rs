//! Iteration over the live keys of a snapshot, in both directions.
//!
//! Underneath lies a merge of all versions; this layer shows, for each key, the newest version at
//! or below the snapshot, if that is a value. Moving forward the newest version comes first;
//! moving backward it comes last, so the key is complete only when the merge has stepped past it.
//! What a deleted range hides is passed over, and the older layers of the merge are sought past the
//! whole range (`range_cover.rs`).
//!
//! The iterator registers its snapshot. What it reads from, it owns only during a move: in between,
//! a flush may take it away if readers hold more memory than their budget. The next move then seeks
//! anew in the present view, at its own snapshot. So an iterator that nobody moves pins nothing for
//! long but the block of the value that it shows, and writers never wait for one.

use std::ops::Bound;
use std::sync::Arc;

use crate::compaction::Versions;
use crate::cursor::Cursor;
use crate::db::Store;
use crate::db::empty_stretch::{Keys, Stretch};
use crate::db::fork::leak;
use crate::db::snapshot::Snapshot;
use crate::db::sources::{SharedSource, Source};
use crate::key::{InternalKey, MAX_SEQUENCE, Tag};
use crate::table::{CursorOptions, TableValue};
use crate::time_profile::{Drawn, Path, Stage, Watched, draw};
use crate::{Error, KeyspaceId, Result, SequenceNumber};

/// What an iterator covers.
#[derive(Clone, Debug)]
pub struct IterOptions {
    /// The first key. Default: unbounded.
    pub lower: Bound<Vec<u8>>,
    /// The last key. Default: unbounded.
    pub upper: Bound<Vec<u8>>,
    /// The state to read. Default: as of the call.
    pub snapshot: Option<Snapshot>,
    /// Keep the blocks that are read in the block cache. Default: true; false suits long scans.
    pub fill_cache: bool,
    /// Read blocks from their files and check them anew; see
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

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        // The first key after all that begin with the prefix: its last byte below 255, raised.
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let upper = match end.last_mut() {
            Some(byte) => {
                *byte += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        IterOptions {
            lower: Bound::Included(prefix.to_vec()),
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
    /// The key left last: a buffer that moves need, kept from one to the next.
    left: Vec<u8>,
}

impl DbIterator {
    pub(crate) fn new(
        store: Arc<Store>,
        keyspace: KeyspaceId,
        options: IterOptions,
    ) -> Result<Self> {
        store.check_open()?;
        // Before any view: the snapshot keeps its versions alive in every later view.
        let snapshot = options.snapshot.clone().unwrap_or_else(|| store.snapshot());
        store.check_snapshot(&snapshot)?;
        Ok(DbIterator {
            source: store.sources.register(),
            search: Search {
                store,
                keyspace,
                options,
                snapshot,
                key: Vec::new(),
                value: RowValue::default(),
                noted_from: Vec::new(),
                passed_key: Vec::new(),
            },
            direction: Direction::Forward,
            valid: false,
            left: Vec::new(),
        })
    }

    /// Whether the iterator stands on a key.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key it stands on; empty if not valid.
    pub fn key(&self) -> &[u8] {
        if self.valid { &self.search.key } else { &[] }
    }

    /// The value of that key; empty if not valid. A large one keeps its block in memory until the next
    /// move.
    pub fn value(&self) -> &[u8] {
        if self.valid {
            self.search.value.bytes()
        } else {
            &[]
        }
    }

    /// To the first key.
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

    /// To the last key.
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

    /// To the first key at or after `key`.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.search.options.above_lower(key) {
            self.forward_from(InternalKey::seek(key, self.search.snapshot.sequence()))
        } else {
            self.seek_to_first()
        }
    }

    /// To the last key at or before `key`.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.search.options.below_upper(key) {
            self.backward_from(after_versions_of(key))
        } else {
            self.seek_to_last()
        }
    }

    /// To the next key. Does nothing if not valid.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "the cursor's move; `entries` iterates"
    )]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid {
            return self.search.store.check_process();
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

    /// To the previous key. Does nothing if not valid.
    ///
    /// # Errors
    /// As [`DbIterator::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid {
            return self.search.store.check_process();
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

    /// The entries from the first one on.
    pub fn entries(mut self) -> Entries {
        let failed = self.seek_to_first().err();
        Entries {
            iterator: self,
            step: DbIterator::next,
            failed,
        }
    }

    /// The entries from the last one back.
    pub fn entries_reverse(mut self) -> Entries {
        let failed = self.seek_to_last().err();
        Entries {
            iterator: self,
            step: DbIterator::prev,
            failed,
        }
    }

    fn forward_from(&mut self, place: InternalKey<'_>) -> Result<()> {
        self.forward(Path::Seek, |versions, _| versions.seek(place))
    }

    fn backward_from(&mut self, past: InternalKey<'_>) -> Result<()> {
        self.backward(Path::Seek, |versions, _| seek_last_before(versions, past))
    }

    /// Positions the merge with `place`, then finds the first live key from there on. `place` is
    /// told whether the merge still stands where the last move left it.
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
        let found = match self.search.store.is_inherited() {
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
        }
        found
    }

    /// In a box: what is seldom there is to take no room where it is not.
    #[inline(always)]
    fn watch_if_drawn(&self, path: Path) -> Option<Box<Watched>> {
        let watch = || Box::new(self.search.store.time_profile.watch(path, Stage::Iteration));
        (draw() == Drawn::Watched).then(watch)
    }
}

impl Drop for DbIterator {
    fn drop(&mut self) {
        if self.search.store.is_inherited() {
            leak(&self.source);
            leak(&self.search.store);
        }
    }
}

/// What an iterator looks for in a merge, and the row that it has found.
struct Search {
    store: Arc<Store>,
    keyspace: KeyspaceId,
    options: IterOptions,
    snapshot: Snapshot,
    key: Vec<u8>,
    value: RowValue,
    /// The key from which on the move notes hidden keys.
    noted_from: Vec<u8>,
    /// The last key passed over; none of its versions is visible.
    passed_key: Vec<u8>,
}

/// Keys that a move has passed over.
#[derive(Default)]
struct Passed {
    count: u32,
    /// Number of keys passed over since `Search::noted_from`, up to `passed_key`.
    notes: u32,
}

impl Passed {
    /// Number of hidden keys after which a move looks for a known stretch.
    const LOOK: u32 = 8;
    /// Number of hidden keys that are worth a new stretch, or a longer one.
    const LEAST_NOTES: u32 = 16;

    fn note(&mut self) {
        self.count += 1;
        self.notes += 1;
    }

    /// Returns whether it is time to look for a stretch, which is once a move.
    fn is_to_look(&self) -> bool {
        self.count == Passed::LOOK
    }

    fn begin_notes(&mut self) {
        self.count = Passed::LOOK + 1;
        self.notes = 0;
    }

    fn is_worth_telling(&self) -> bool {
        self.count > Passed::LOOK && self.notes >= Passed::LEAST_NOTES
    }
}

impl Search {
    /// The merge, and whether it stands where it was left: not if it is new, because the old one
    /// was taken away or pins too much.
    fn renew<'s>(&self, held: &'s mut Option<Box<Source>>) -> Result<(&'s mut Source, bool)> {
        let positioned = held
            .as_deref()
            .is_some_and(|source| !self.store.is_to_be_released(source));
        if !positioned {
            *held = None;
        }
        let source = match held {
            Some(source) => source,
            none => {
                let view = self.store.view.load_full();
                let options = self.options.of_tables();
                let source = self.store.source(view, self.keyspace, options)?;
                none.insert(Box::new(source))
            }
        };
        Ok((source, positioned))
    }

    /// A seek has asked each sub-level of level 0, and may have paid the last of what merging them
    /// takes.
    fn pays_for_merge(&self, source: &Source) -> bool {
        self.store.pays_for_merge(self.keyspace, &source.view)
    }

    /// Once nothing here is in its way: begins a merge that is due. The seek may also be the one from
    /// which on blocks have more of the memory.
    fn end_seek(&self, is_merge_due: bool) {
        if self.options.fill_cache && !self.options.verify {
            self.store.settle_boundary();
        }
        if is_merge_due {
            self.store.background.compaction_wanted(&self.store);
        }
    }

    /// From a place within the bounds on: what comes is not below the lower one.
    fn find_forward(&mut self, source: &mut Source) -> Result<bool> {
        let mut passed = Passed::default();
        let found = self.pass_forward(source, &mut passed)?;
        if passed.is_worth_telling() {
            let to = behind(&self.passed_key);
            self.tell_of_stretch(self.noted_from.clone(), to);
        }
        Ok(found)
    }

    #[cold]
    fn tell_of_stretch(&self, from: Vec<u8>, to: Vec<u8>) {
        let seen = Keys { from, to };
        let snapshot = self.snapshot.sequence();
        if seen.from < seen.to && !self.store.is_dropped(self.keyspace) {
            let stretches = &self.store.empty_stretches;
            let written = || self.store.written_if_idle();
            stretches.offer(self.keyspace, seen, snapshot, written);
        }
    }

    /// Returns the stretch without visible keys that the merge stands in.
    fn stretch_at(&self, versions: &Versions) -> Option<Arc<Stretch>> {
        let (key, snapshot) = (versions.key().user_key, self.snapshot.sequence());
        self.store
            .empty_stretches
            .around(self.keyspace, key, snapshot)
    }

    /// Goes on behind a stretch without visible keys, if the merge stands in one.
    #[cold]
    fn look_forward(&mut self, versions: &mut Versions, passed: &mut Passed) -> Result<()> {
        passed.begin_notes();
        match self.stretch_at(versions) {
            Some(stretch) => {
                replace(&mut self.noted_from, &stretch.keys.from);
                versions.seek(before_versions_of(&stretch.keys.to))
            }
            None => {
                replace(&mut self.noted_from, versions.key().user_key);
                Ok(())
            }
        }
    }

    /// Goes on before it, to come from the other side.
    #[cold]
    fn look_backward(&mut self, versions: &mut Versions, passed: &mut Passed) -> Result<()> {
        passed.begin_notes();
        match self.stretch_at(versions) {
            Some(stretch) => {
                replace(&mut self.noted_from, &stretch.keys.to);
                seek_last_before(versions, before_versions_of(&stretch.keys.from))
            }
            None => {
                self.noted_from = behind(versions.key().user_key);
                Ok(())
            }
        }
    }

    fn pass_forward(&mut self, source: &mut Source, passed: &mut Passed) -> Result<bool> {
        let Source {
            versions, cover, ..
        } = source;
        let snapshot = self.snapshot.sequence();
        while versions.valid() {
            let key = versions.key();
            if !self.options.below_upper(key.user_key) {
                return Ok(false);
            }
            if key.sequence() > snapshot {
                skip_newer(versions, snapshot, &mut self.key)?;
                continue;
            }
            let cover = cover.of_key(&self.store, key.user_key, snapshot)?;
            if let Some(cover) = cover.filter(|cover| key.sequence() < cover.sequence) {
                if versions.source().is_some_and(|at| at > cover.source) {
                    versions.skip_forward(cover.source + 1, before_versions_of(&cover.all_end))?;
                } else {
                    passed.note();
                    replace(&mut self.passed_key, key.user_key);
                    let (below, _, end) = cover.in_layer(key.sequence());
                    versions.pass_hidden(below, end)?;
                    if passed.is_to_look() && versions.valid() {
                        self.look_forward(versions, passed)?;
                    }
                }
                continue;
            }
            let live = self.store.is_put(key.tag, || versions.file())?;
            replace(&mut self.key, key.user_key);
            if live {
                self.value.show(versions);
                return Ok(true);
            }
            skip_key(versions, &self.key)?;
            passed.note();
            std::mem::swap(&mut self.key, &mut self.passed_key);
            if passed.is_to_look() && versions.valid() {
                self.look_forward(versions, passed)?;
            }
        }
        Ok(false)
    }

    /// From a place within the bounds back: what comes is not above the upper one.
    fn find_backward(&mut self, source: &mut Source) -> Result<bool> {
        let mut passed = Passed::default();
        let found = self.pass_backward(source, &mut passed)?;
        if passed.is_worth_telling() {
            self.tell_of_stretch(self.passed_key.clone(), self.noted_from.clone());
        }
        Ok(found)
    }

    fn pass_backward(&mut self, source: &mut Source, passed: &mut Passed) -> Result<bool> {
        let Source {
            versions, cover, ..
        } = source;
        let snapshot = self.snapshot.sequence();
        while versions.valid() {
            let key = versions.key();
            let user_key = key.user_key;
            if !self.options.above_lower(user_key) {
                return Ok(false);
            }
            let cover = cover.of_key(&self.store, user_key, snapshot)?;
            if let Some(cover) = cover {
                let source = versions.source();
                if source.is_some_and(|at| at > cover.source) {
                    let start = before_versions_of(&cover.all_start);
                    versions.skip_backward(cover.source + 1, start)?;
                    continue;
                }
                if source == Some(cover.source) && key.sequence() < cover.sequence {
                    let (below, start, _) = cover.in_layer(key.sequence());
                    versions.pass_hidden_back(below, start)?;
                    continue;
                }
            }
            let hidden_below = cover.map_or(0, |cover| cover.sequence);
            replace(&mut self.key, user_key);
            if self.pass_key_backward(versions, hidden_below)? {
                return Ok(true);
            }
            passed.note();
            std::mem::swap(&mut self.key, &mut self.passed_key);
            if passed.is_to_look() && versions.valid() {
                self.look_backward(versions, passed)?;
            }
        }
        Ok(false)
    }

    /// Steps back over all versions of `self.key`; the last visible one met decides, unless its
    /// number is below the one of a deleted range.
    fn pass_key_backward(
        &mut self,
        versions: &mut Versions,
        hidden_below: SequenceNumber,
    ) -> Result<bool> {
        let snapshot = self.snapshot.sequence();
        let mut live = false;
        for _ in 0..STEPS {
            if !versions.valid() || versions.key().user_key != self.key.as_slice() {
                return Ok(live);
            }
            let tag = versions.key().tag;
            if tag.sequence() <= snapshot {
                live =
                    tag.sequence() >= hidden_below && self.store.is_put(tag, || versions.file())?;
                if live {
                    self.value.show(versions);
                }
            }
            versions.prev()?;
        }
        if !versions.valid() || versions.key().user_key != self.key.as_slice() {
            return Ok(live);
        }
        // From the other side: the first version that the snapshot sees is the newest.
        versions.seek(InternalKey::seek(&self.key, snapshot))?;
        let key = versions.key();
        live = versions.valid()
            && key.user_key == self.key.as_slice()
            && key.sequence() >= hidden_below
            && self.store.is_put(key.tag, || versions.file())?;
        if live {
            self.value.show(versions);
        }
        seek_last_before(versions, before_versions_of(&self.key))?;
        Ok(live)
    }
}

/// The value of the row that an iterator shows. The merge it came from may be taken away meanwhile.
#[derive(Default)]
struct RowValue {
    copied: Vec<u8>,
    /// Counts in place of the copy.
    held: Option<TableValue>,
}

impl RowValue {
    /// A copy of fewer bytes costs less than to count the holders of their block, which threads share.
    const LEAST_HELD_BYTES: usize = 512;

    fn show(&mut self, versions: &Versions) {
        let bytes = versions.value();
        if bytes.len() >= RowValue::LEAST_HELD_BYTES {
            versions.hold_value(&mut self.held);
        } else {
            self.held = None;
        }
        if self.held.is_none() {
            replace(&mut self.copied, bytes);
        }
    }

    fn let_go(&mut self) {
        self.held = None;
    }

    fn bytes(&self) -> &[u8] {
        self.held.as_deref().unwrap_or(&self.copied)
    }
}

fn replace(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

/// To the last version before a place.
fn seek_last_before(versions: &mut Versions, past: InternalKey<'_>) -> Result<()> {
    versions.seek(past)?;
    if versions.valid() {
        versions.prev()
    } else {
        versions.seek_to_last()
    }
}

/// Returns the first key behind a key.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The place before every version of a key.
fn before_versions_of(key: &[u8]) -> InternalKey<'_> {
    InternalKey::seek(key, MAX_SEQUENCE)
}

/// The place after every version of a key.
fn after_versions_of(key: &[u8]) -> InternalKey<'_> {
    InternalKey {
        user_key: key,
        tag: Tag(0),
    }
}

/// A few steps are cheaper than a seek; many versions of one key are not.
const STEPS: usize = 8;

/// Goes from a version newer than the snapshot to one that is not, or of another key. `buffer`
/// takes the key.
fn skip_newer(
    versions: &mut Versions,
    snapshot: SequenceNumber,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    replace(buffer, versions.key().user_key);
    for _ in 0..STEPS {
        versions.next()?;
        let key = versions.key();
        if !versions.valid() || key.sequence() <= snapshot || key.user_key != buffer.as_slice() {
            return Ok(());
        }
    }
    versions.seek(InternalKey::seek(buffer, snapshot))
}

/// Goes to the first version of another key, past those of `key`. The present version may be one of
/// these.
fn skip_key(versions: &mut Versions, key: &[u8]) -> Result<()> {
    for _ in 0..STEPS {
        if !versions.valid() || versions.key().user_key != key {
            return Ok(());
        }
        versions.next()?;
    }
    if versions.valid() && versions.key().user_key == key {
        versions.seek(after_versions_of(key))?;
    }
    Ok(())
}

/// The entries of an iterator, in its order; after an error there are no more.
pub struct Entries {
    iterator: DbIterator,
    step: fn(&mut DbIterator) -> Result<()>,
    failed: Option<Error>,
}

impl Iterator for Entries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        if !self.iterator.valid() {
            return None;
        }
        if let Err(forked) = self.iterator.search.store.check_process() {
            self.iterator.valid = false;
            return Some(Err(forked));
        }
        let entry = (self.iterator.key().to_vec(), self.iterator.value().to_vec());
        self.failed = (self.step)(&mut self.iterator).err();
        Some(Ok(entry))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
