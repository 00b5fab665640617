//! An immutable picture of which tables hold a store's data. Readers pin one and go; an edit makes
//! the next one.
//!
//! [`Version::apply`] refuses every edit that would break the structure: overlapping tables in a
//! sub-level, ages out of order, a table that passes one that overlaps it.
//! [`check_age_rule`](super::check_age_rule) checks that the keys inside the tables keep the order
//! too.

mod age_order;
mod apply;
mod bounds;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use self::bounds::FlatBounds;
use super::edit::Edit;
use super::table_meta::{KeyRange, ObsoleteTables, Table};
use super::{FIRST_FLUSH_AGE, LEVELS};
use crate::Error;
use crate::data_files::OWN_TIER;
use crate::debug_expect::DebugExpect;
use crate::key::KeyspaceId;
use crate::keyspace_options::KeyspaceOptions;

/// Where a table is listed: a level, and in it a sub-level by its name and age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub level: u8,
    pub sub_level: u64,
    pub age: u64,
}

impl Place {
    /// Returns the *base* of a level below level 0: the one sub-level that the leveled policy keeps
    /// there. It is older than those that other policies put above it.
    pub const fn base(level: u8) -> Place {
        Place {
            level,
            sub_level: level as u64,
            age: 64 - level as u64,
        }
    }

    /// Returns a sub-level of its own in the next level, right below this one, which is the oldest
    /// of its level. Unless it is the next level's base, it has no name before its merge begins:
    /// see [`Place::named`].
    pub fn below(self) -> Place {
        let next = self.level + 1;
        if self.is_base() {
            return Place::base(next);
        }
        Place {
            level: next,
            sub_level: UNNAMED,
            age: self.age - 1,
        }
    }

    /// Returns its sub-level's name, if it has one.
    pub fn name(self) -> Option<u64> {
        (self.sub_level != UNNAMED).then_some(self.sub_level)
    }

    pub fn is_base(self) -> bool {
        self.age < FIRST_BASE_AGE
    }

    /// Returns the same place, under this name if it has none.
    pub(crate) fn named(self, name: impl FnOnce() -> u64) -> Place {
        let sub_level = match self.sub_level {
            UNNAMED => name(),
            named => named,
        };
        Place { sub_level, ..self }
    }

    /// Returns the age of the flush whose writes are the oldest in the sub-level, 64 for a base. A
    /// merge keeps it, whichever level it goes to. So no two sub-levels have the same, and the
    /// younger one has the larger.
    pub fn flush_age(self) -> u64 {
        self.age.saturating_add(u64::from(self.level))
    }
}

/// No name.
const UNNAMED: u64 = 0;

/// The age that a base of level 0 would have.
const FIRST_BASE_AGE: u64 = Place::base(0).age;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "level {} sub-level {} of age {}",
            self.level, self.sub_level, self.age
        )
    }
}

/// Tables that do not overlap, sorted by key.
#[derive(Clone, Debug)]
pub struct SubLevel {
    pub number: u64,
    /// Larger is younger.
    pub age: u64,
    pub tables: Vec<Arc<Table>>,
    /// Made by the first lookup: most versions are replaced before anybody reads them.
    bounds: OnceLock<FlatBounds>,
}

impl SubLevel {
    /// Makes a sub-level; `tables` are sorted by key and do not overlap.
    pub(crate) fn new(number: u64, age: u64, tables: Vec<Arc<Table>>) -> Self {
        SubLevel {
            number,
            age,
            tables,
            bounds: OnceLock::new(),
        }
    }

    /// Returns the tables, to be changed, and drops the bounds that were made of them.
    fn tables_mut(&mut self) -> &mut Vec<Arc<Table>> {
        self.bounds.take();
        &mut self.tables
    }

    fn bounds(&self) -> &FlatBounds {
        self.bounds.get_or_init(|| FlatBounds::new(&self.tables))
    }

    /// Returns the position of the first table that does not end before `key`.
    pub(crate) fn position(&self, key: &[u8]) -> usize {
        self.bounds().not_ending_before(&self.tables, key)
    }

    /// Returns the positions of the tables that hold range tombstones, ascending.
    pub fn tables_with_ranges(&self) -> &[u32] {
        self.bounds().with_ranges()
    }

    pub fn size_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.size_bytes).sum()
    }

    /// Returns the tables that overlap a range.
    pub fn overlapping(&self, range: &KeyRange) -> &[Arc<Table>] {
        let from = self
            .tables
            .partition_point(|table| table.bounds.ends_before(&range.smallest));
        let rest = self
            .tables
            .get(from..)
            .debug_expect("a partition point is in the list");
        let length = rest.partition_point(|table| !range.ends_before(&table.bounds.smallest));
        rest.get(..length)
            .debug_expect("a partition point is in the list")
    }

    /// Returns the one table that may hold a key.
    #[inline]
    pub(crate) fn table_for_key(&self, key: &[u8]) -> Option<&Arc<Table>> {
        match self.tables.as_slice() {
            [table] => Some(table).filter(|table| table.bounds.contains(key)),
            tables => self.bounds().table_for_key(tables, key),
        }
    }
}

/// The sub-levels of one level, youngest first.
#[derive(Clone, Debug, Default)]
pub struct Level {
    pub sub_levels: Vec<Arc<SubLevel>>,
}

impl Level {
    pub fn size_bytes(&self) -> u64 {
        self.sub_levels.iter().map(|s| s.size_bytes()).sum()
    }

    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.sub_levels.iter().flat_map(|s| &s.tables)
    }
}

/// All levels of one keyspace.
#[derive(Clone, Debug)]
pub struct KeyspaceLevels {
    pub id: KeyspaceId,
    pub name: String,
    /// `None` for the default keyspace: each opening gives its options.
    pub options: Option<Arc<KeyspaceOptions>>,
    /// Always [`LEVELS`] of them.
    pub levels: Vec<Level>,
}

impl KeyspaceLevels {
    pub(crate) fn new(id: KeyspaceId, name: impl Into<String>) -> Self {
        KeyspaceLevels {
            id,
            name: name.into(),
            options: None,
            levels: vec![Level::default(); LEVELS],
        }
    }

    /// Returns every sub-level with its place, youngest first: the order in which reads go.
    pub fn sub_levels(&self) -> impl Iterator<Item = (Place, &Arc<SubLevel>)> {
        self.levels.iter().zip(0u8..).flat_map(|(level, number)| {
            level.sub_levels.iter().map(move |sub_level| {
                let place = Place {
                    level: number,
                    sub_level: sub_level.number,
                    age: sub_level.age,
                };
                (place, sub_level)
            })
        })
    }

    /// Returns every table with its place, youngest sub-level first.
    pub fn tables(&self) -> impl Iterator<Item = (Place, &Arc<Table>)> {
        self.sub_levels()
            .flat_map(|(place, sub_level)| sub_level.tables.iter().map(move |t| (place, t)))
    }

    /// Returns the tables that may hold a key, youngest first.
    #[inline]
    pub fn tables_for_key<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Table>> {
        self.sub_levels()
            .filter_map(move |(_, sub_level)| sub_level.table_for_key(key))
    }

    pub fn find(&self, number: u64) -> Option<(Place, &Arc<Table>)> {
        self.tables().find(|(_, table)| table.number == number)
    }

    /// Returns the lowest level that has a table, 0 if none has.
    pub fn deepest_level(&self) -> u8 {
        let deepest = self.sub_levels().map(|(place, _)| place.level).max();
        deepest.unwrap_or(0)
    }

    pub fn size_bytes(&self) -> u64 {
        self.levels.iter().map(Level::size_bytes).sum()
    }

    /// Returns the youngest of all sub-levels.
    pub fn youngest(&self) -> Option<Place> {
        self.sub_levels().next().map(|(place, _)| place)
    }
}

/// Why an edit does not fit the state it was to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructureError(pub String);

impl fmt::Display for StructureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StructureError {}

impl From<StructureError> for Error {
    fn from(error: StructureError) -> Self {
        Error::invalid(format!("edit refused: {error}"))
    }
}

/// The levels of all keyspaces at one moment.
#[derive(Clone, Debug)]
pub struct Version {
    pub keyspaces: BTreeMap<KeyspaceId, Arc<KeyspaceLevels>>,
    obsolete: Arc<ObsoleteTables>,
}

impl Version {
    pub fn empty(obsolete: Arc<ObsoleteTables>) -> Self {
        Version {
            keyspaces: BTreeMap::new(),
            obsolete,
        }
    }

    /// Returns the same tables with their files in one directory: for a copy of the store.
    pub fn in_one_tier(&self) -> Self {
        let mut copy = Version::empty(Arc::default());
        for (id, levels) in &self.keyspaces {
            let mut levels = KeyspaceLevels::clone(levels);
            for level in &mut levels.levels {
                for sub_level in &mut level.sub_levels {
                    let sub_level = Arc::make_mut(sub_level);
                    for table in sub_level.tables_mut() {
                        *table = Arc::new(table.migrated(OWN_TIER, &copy.obsolete));
                    }
                }
            }
            copy.keyspaces.insert(*id, Arc::new(levels));
        }
        copy
    }

    /// Returns the queue for the numbers of files that no version needs any more.
    pub fn obsolete(&self) -> &Arc<ObsoleteTables> {
        &self.obsolete
    }

    #[inline]
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceLevels>> {
        self.keyspaces.get(&id)
    }

    /// Returns the levels of the keyspace with a name.
    pub fn keyspace_named(&self, name: &str) -> Option<&Arc<KeyspaceLevels>> {
        self.keyspaces.values().find(|levels| levels.name == name)
    }

    /// Returns every table of every keyspace.
    pub fn tables(&self) -> impl Iterator<Item = (Place, &Arc<Table>)> {
        self.keyspaces.values().flat_map(|levels| levels.tables())
    }

    /// Releases the files of the tables that an edit took out of this version. To be called on the
    /// version before the edit once the edit is durable, not earlier: until then a crash brings the
    /// tables back.
    pub fn mark_removed(&self, edit: &Edit) {
        let removed = edit.tables_removed.iter();
        let removed = removed.map(|removed| (removed.keyspace, removed.number));
        // The file in the old tier goes.
        let migrated = edit.tables_migrated.iter();
        let migrated = migrated.map(|migrated| (migrated.keyspace, migrated.number));
        for (keyspace, number) in removed.chain(migrated) {
            if let Some(levels) = self.keyspaces.get(&keyspace)
                && let Some((_, table)) = levels.find(number)
            {
                table.mark_removed();
            }
        }
        for id in &edit.keyspaces_dropped {
            if let Some(levels) = self.keyspaces.get(id) {
                levels.tables().for_each(|(_, table)| table.mark_removed());
            }
        }
    }
}

const _: () = assert!(
    FIRST_BASE_AGE < FIRST_FLUSH_AGE - LEVELS as u64 && Place::base(LEVELS as u8 - 1).age > 0,
    "bases are older than whatever came from a flush, on every level"
);

#[cfg(test)]
mod tests;
