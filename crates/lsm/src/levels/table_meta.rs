//! A table as the levels list it, and the file behind it, which lives as long as any version
//! that lists the table.

use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::{Arc, OnceLock};

use super::traffic::{LevelTraffic, Traffic};
use crate::Result;
use crate::data_files::{OWN_TIER, Placed};
use crate::key::{KeyspaceId, SequenceNumber};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::table::{
    DeviceReads, KeptOpen, READ_PARTS, Superseded, TableCache, TableProperties, TableReader,
    TableReads, TableTimes,
};

/// Keys from one bound to another, as a caller gives them.
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// User keys from `smallest`, which is included, to `largest`, which may be.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    pub largest_excluded: bool,
}

impl KeyRange {
    /// Returns the range from `smallest` to `largest`, both included.
    pub fn inclusive(smallest: impl Into<Vec<u8>>, largest: impl Into<Vec<u8>>) -> Self {
        KeyRange {
            smallest: smallest.into(),
            largest: largest.into(),
            largest_excluded: false,
        }
    }

    /// Returns the range from `smallest` up to `end`, which is excluded.
    pub fn half_open(smallest: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        KeyRange {
            largest_excluded: true,
            ..KeyRange::inclusive(smallest, end)
        }
    }

    /// Returns the range that a table's file says it holds, from entries and range tombstones;
    /// `None` if it holds neither.
    pub fn of_file(properties: &TableProperties) -> Option<Self> {
        let entries = properties.user_keys();
        let entries = entries.map(|(smallest, largest)| KeyRange::inclusive(smallest, largest));
        let deleted = properties.range_tombstones.as_ref().map(|ranges| KeyRange {
            smallest: ranges.start.clone(),
            largest: ranges.end.clone(),
            largest_excluded: true,
        });
        KeyRange::hull(entries.iter().chain(&deleted))
    }

    /// Returns the first key behind the range.
    pub fn end(&self) -> Vec<u8> {
        let mut end = self.largest.clone();
        if !self.largest_excluded {
            end.push(0);
        }
        end
    }

    /// Returns whether no key can lie in the range.
    pub(crate) fn is_empty(&self) -> bool {
        self.smallest > self.largest || (self.largest_excluded && self.smallest == self.largest)
    }

    /// Returns whether every key of the range is smaller than `key`.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match self.largest.as_slice().cmp(key) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.largest_excluded,
            std::cmp::Ordering::Greater => false,
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.smallest.as_slice() <= key && !self.ends_before(key)
    }

    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.ends_before(&other.smallest) && !other.ends_before(&self.smallest)
    }

    /// Returns whether some key within bounds that a caller gave may be a key of this range.
    pub fn meets(&self, (from, to): Bounds<'_>) -> bool {
        let ends_before = match from {
            Bound::Unbounded => false,
            Bound::Included(from) => self.ends_before(from),
            Bound::Excluded(from) => self.ends_before(from) || self.largest == from,
        };
        let begins_after = match to {
            Bound::Unbounded => false,
            Bound::Included(to) => self.smallest.as_slice() > to,
            Bound::Excluded(to) => self.smallest.as_slice() >= to,
        };
        !ends_before && !begins_after
    }

    /// Returns whether every key of `other` is a key of this range.
    pub fn encloses(&self, other: &KeyRange) -> bool {
        self.smallest <= other.smallest
            && (!self.ends_before(&other.largest)
                || (other.largest_excluded && self.largest == other.largest))
    }

    /// Grows the range until it encloses `other`.
    pub fn extend(&mut self, other: &KeyRange) {
        if other.smallest < self.smallest {
            self.smallest.clone_from(&other.smallest);
        }
        if other.largest > self.largest {
            self.largest.clone_from(&other.largest);
            self.largest_excluded = other.largest_excluded;
        } else if other.largest == self.largest {
            self.largest_excluded &= other.largest_excluded;
        }
    }

    /// Returns the smallest range that encloses all of `ranges`; `None` if there are none.
    pub fn hull<'a>(ranges: impl IntoIterator<Item = &'a KeyRange>) -> Option<KeyRange> {
        let mut ranges = ranges.into_iter();
        let mut hull = ranges.next()?.clone();
        ranges.for_each(|range| hull.extend(range));
        Some(hull)
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{}, {}{}",
            self.smallest.escape_ascii(),
            self.largest.escape_ascii(),
            if self.largest_excluded { ')' } else { ']' }
        )
    }
}

/// The manifest's description of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// The number in the file's name; never 0, never used twice in a store.
    pub number: u64,
    /// Random bits of the table's own, which its file says, too. A checkpoint and its store give
    /// the same numbers to tables that they write later.
    pub identity: u128,
    pub keyspace: KeyspaceId,
    pub size_bytes: u64,
    pub entries: u64,
    pub tombstones: u64,
    /// The range tombstones in the file; `entries` does not count them.
    pub range_tombstones: u64,
    /// When the oldest tombstone in the file, of an entry or a range, reached its first table, in
    /// seconds since 1970. `None` if there is none, or if that is unknown.
    pub oldest_tombstone_seconds: Option<u64>,
    /// The superseded versions in the file; `None` if there are none, or if that is unknown.
    pub superseded: Option<Superseded>,
    /// The keys that count; readers ignore those that the file holds outside of them.
    pub bounds: KeyRange,
    /// Whether `bounds` are narrower than the file, so that cursors must be clipped to them.
    pub narrowed: bool,
    pub min_sequence: SequenceNumber,
    pub max_sequence: SequenceNumber,
    /// Every entry has the number `max_sequence`, not the one in the file: the file was written
    /// before the number was known.
    pub assigned: bool,
    /// The number of the tier that holds the file.
    pub tier: u8,
}

impl TableMeta {
    /// Returns the table's file where it lies.
    pub fn placed(&self) -> Placed {
        Placed::table(self.number, self.tier)
    }

    /// Lists a table in the store's own directory by its file's properties; `None` if it holds
    /// nothing.
    pub fn of_file(number: u64, properties: &TableProperties) -> Option<Self> {
        Some(TableMeta {
            number,
            identity: properties.identity,
            keyspace: properties.keyspace,
            size_bytes: properties.file_bytes,
            entries: properties.entries,
            tombstones: properties.tombstones,
            range_tombstones: properties.range_tombstones(),
            oldest_tombstone_seconds: properties.oldest_tombstone_seconds,
            superseded: superseded_in(properties),
            bounds: KeyRange::of_file(properties)?,
            narrowed: false,
            min_sequence: properties.smallest_sequence,
            max_sequence: properties.largest_sequence,
            assigned: false,
            tier: OWN_TIER,
        })
    }

    /// Returns whether it has tombstones, of entries or of ranges.
    pub fn has_tombstones(&self) -> bool {
        self.tombstones > 0 || self.range_tombstones > 0
    }

    /// Returns the same table, all of whose entries have this number.
    pub fn assigned(self, sequence: SequenceNumber) -> Self {
        TableMeta {
            min_sequence: sequence,
            max_sequence: sequence,
            // Of each key there is one version.
            superseded: None,
            assigned: true,
            ..self
        }
    }

    /// Returns the number that stands for those in the file, if one does.
    pub fn assigned_sequence(&self) -> Option<SequenceNumber> {
        self.assigned.then_some(self.max_sequence)
    }

    /// Returns whether a file that says this of itself is the one that was listed.
    pub fn is_described_by(&self, properties: &TableProperties) -> bool {
        let bounds_fit = KeyRange::of_file(properties).is_some_and(|file| {
            if self.narrowed {
                file.encloses(&self.bounds)
            } else {
                file == self.bounds
            }
        });
        bounds_fit
            && properties.identity == self.identity
            && properties.keyspace == self.keyspace
            && properties.file_bytes == self.size_bytes
            && properties.entries == self.entries
            && properties.tombstones == self.tombstones
            && properties.range_tombstones() == self.range_tombstones
            && properties.oldest_tombstone_seconds == self.oldest_tombstone_seconds
            // A release that does not know the note leaves it out when it rewrites the manifest.
            && (self.superseded.is_none() || superseded_in(properties) == self.superseded)
            && (self.assigned
                || properties.smallest_sequence == self.min_sequence
                    && properties.largest_sequence == self.max_sequence)
    }
}

/// Returns a file's note of superseded versions, with their bytes in the file.
fn superseded_in(properties: &TableProperties) -> Option<Superseded> {
    let all_bytes = properties
        .user_key_bytes
        .saturating_add(properties.value_bytes);
    let noted = properties.superseded?;
    Some(noted.in_file(all_bytes, properties.file_bytes))
}

/// A table listed in a version. All versions that list it share its file.
#[derive(Clone, Debug)]
pub struct Table {
    meta: TableMeta,
    file: Arc<TableFile>,
}

impl Table {
    pub fn new(meta: TableMeta, obsolete: &Arc<ObsoleteTables>) -> Self {
        let reads = Arc::new(TableReads::new(obsolete.traffic.reads(), meta.size_bytes));
        Self::with_reads(meta, obsolete, reads)
    }

    fn with_reads(meta: TableMeta, obsolete: &Arc<ObsoleteTables>, reads: Arc<TableReads>) -> Self {
        let file = Arc::new(TableFile {
            placed: meta.placed(),
            size_bytes: meta.size_bytes,
            removed: AtomicBool::new(false),
            kept_open: OnceLock::new(),
            obsolete: Arc::clone(obsolete),
            reads,
        });
        Table { meta, file }
    }

    /// Returns the same file with other bounds.
    pub(super) fn narrowed(&self, bounds: KeyRange) -> Self {
        let mut meta = self.meta.clone();
        meta.bounds = bounds;
        meta.narrowed = true;
        Table {
            meta,
            file: Arc::clone(&self.file),
        }
    }

    /// Returns the same table with its file in another tier. It goes on counting where it was.
    pub(super) fn migrated(&self, tier: u8, obsolete: &Arc<ObsoleteTables>) -> Self {
        let meta = TableMeta {
            tier,
            ..self.meta.clone()
        };
        Self::with_reads(meta, obsolete, Arc::clone(&self.file.reads))
    }

    /// Returns the open file. The first call settles whether it is kept open as long as a version
    /// lists the table, or opened through the cache each time. As a rule it is kept open.
    pub fn open<'a>(&'a self, tables: &TableCache) -> Result<OpenTable<'a>> {
        if let Some(Some(kept)) = self.file.kept_open.get() {
            return Ok(OpenTable::Kept(kept.reader()));
        }
        let reader = tables.get(self.placed(), &self.file.reads, |properties| {
            self.is_described_by(properties)
        })?;
        self.file
            .kept_open
            .get_or_init(|| tables.keep_open(&reader));
        Ok(OpenTable::Cached(reader))
    }

    /// Returns the file if it is open already.
    pub fn if_open<'a>(&'a self, tables: &TableCache) -> Option<OpenTable<'a>> {
        match self.file.kept_open.get() {
            Some(Some(kept)) => Some(OpenTable::Kept(kept.reader())),
            _ => tables.if_open(self.placed()).map(OpenTable::Cached),
        }
    }

    /// Returns the reads of the table's blocks from its device since the store was opened, in all
    /// levels and tiers in which it was.
    pub fn device_reads(&self) -> DeviceReads {
        self.file.reads.reads()
    }

    #[cfg(test)]
    pub(super) fn count_read(&self, bytes: u64, purpose: terrace_storage::Purpose) {
        let began = self.file.reads.begin();
        self.file.reads.count(0, bytes, purpose, began);
    }

    /// Returns its reads for users in each part of its file since the store was opened, modulo 2^32.
    pub fn reads_by_part(&self) -> [u32; READ_PARTS] {
        self.file.reads.by_part()
    }

    /// Counts later reads for this level.
    pub(super) fn enter_level(&self, level: u8) {
        self.file.reads.enter_level(level);
    }

    /// Lets the file be deleted as soon as no version lists the table.
    pub(super) fn mark_removed(&self) {
        self.file.removed.store(true, Ordering::Release);
    }
}

impl Deref for Table {
    type Target = TableMeta;

    fn deref(&self) -> &TableMeta {
        &self.meta
    }
}

/// An open table: reached without a lock or a count of references where it is kept open.
pub enum OpenTable<'a> {
    Kept(&'a Arc<TableReader>),
    Cached(Arc<TableReader>),
}

impl Deref for OpenTable<'_> {
    type Target = Arc<TableReader>;

    fn deref(&self) -> &Arc<TableReader> {
        match self {
            OpenTable::Kept(reader) => reader,
            OpenTable::Cached(reader) => reader,
        }
    }
}

#[derive(Debug)]
struct TableFile {
    placed: Placed,
    size_bytes: u64,
    /// Empty until the table is first read; `None` if too many tables were open then.
    kept_open: OnceLock<Option<KeptOpen>>,
    removed: AtomicBool,
    obsolete: Arc<ObsoleteTables>,
    reads: Arc<TableReads>,
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.removed.load(Ordering::Acquire) {
            self.obsolete
                .files
                .lock()
                .push((self.placed, self.size_bytes));
        }
    }
}

/// The tables that no version lists any more and whose files wait to be deleted. They are only
/// queued here: dropping a version, which any reader may do, never does I/O. All tables of a store
/// share it, and beside it the counters of their levels.
#[derive(Debug, Default)]
pub struct ObsoleteTables {
    /// Each with the bytes of its file.
    files: Mutex<Vec<(Placed, u64)>>,
    pub(super) traffic: Traffic,
}

impl ObsoleteTables {
    /// Takes the files queued so far, each with its bytes; the caller deletes them.
    pub fn take(&self) -> Vec<(Placed, u64)> {
        std::mem::take(&mut self.files.lock())
    }

    /// Returns the traffic of levels 0, 1, 2, ... since the store was opened.
    pub fn traffic(&self) -> Vec<LevelTraffic> {
        self.traffic.of_levels()
    }

    /// Has each later read from a table timed for its level. A second call changes nothing.
    pub fn time_reads(&self, times: Arc<dyn TableTimes>) {
        self.traffic.reads().time(times);
    }

    /// Returns the number of queued tables.
    pub fn count(&self) -> usize {
        self.files.lock().len()
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn range(smallest: &str, largest: &str, largest_excluded: bool) -> KeyRange {
        KeyRange {
            largest_excluded,
            ..KeyRange::inclusive(smallest, largest)
        }
    }

    #[test]
    fn an_excluded_end_neither_contains_nor_overlaps_its_key() {
        let open = range("b", "d", true);
        assert!(open.contains(b"b") && open.contains(b"c") && !open.contains(b"d"));
        assert!(!open.overlaps(&range("d", "e", false)) && !range("d", "e", false).overlaps(&open));
        assert!(range("b", "d", false).overlaps(&range("d", "e", false)));
        assert!(range("b", "b", true).is_empty() && !range("b", "b", false).is_empty());
    }

    #[test]
    fn a_hull_encloses_what_it_was_made_of() {
        let ranges = [range("c", "d", true), range("a", "d", false)];
        let hull = KeyRange::hull(&ranges).unwrap();
        assert_eq!(hull, range("a", "d", false));
        assert!(ranges.iter().all(|range| hull.encloses(range)));
        assert!(!range("a", "d", true).encloses(&hull));
        assert!(range("a", "d", true).encloses(&range("b", "d", true)));
        assert_eq!(KeyRange::hull([]), None);
    }

    #[test]
    fn a_file_is_obsolete_when_the_last_listing_is_gone() {
        let obsolete = Arc::new(ObsoleteTables::default());
        let table = Table::new(meta(7, "a", "m"), &obsolete);
        let narrowed = table.narrowed(range("b", "m", false));
        drop(Table::new(meta(8, "a", "m"), &obsolete));
        table.mark_removed();
        drop(table);
        assert_eq!(obsolete.take(), []);
        drop(narrowed);
        assert_eq!(obsolete.take(), [(Placed::table(7, 1), 1)]);
    }

    fn meta(number: u64, smallest: &str, largest: &str) -> TableMeta {
        TableMeta {
            number,
            identity: 0,
            keyspace: KeyspaceId::DEFAULT,
            size_bytes: 1,
            entries: 1,
            tombstones: 0,
            range_tombstones: 0,
            oldest_tombstone_seconds: None,
            superseded: None,
            bounds: range(smallest, largest, false),
            narrowed: false,
            min_sequence: 1,
            max_sequence: 1,
            assigned: false,
            tier: 1,
        }
    }
}
