//! An immutable picture of which tables hold a store's data. Readers pin one and go; an edit makes
//! the next one.
//!
//! [`Version::apply`] refuses every edit that would break the structure: overlapping tables in a
//! sub-level, ages out of order, a table that passes one that overlaps it. Whether the keys inside
//! the tables keep the order too is checked by [`check_age_rule`](super::check_age_rule).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::edit::{Edit, KeyspaceCreated};
use super::table_meta::{KeyRange, ObsoleteTables, Table};
use super::{FIRST_FLUSH_AGE, LEVELS};
use crate::Error;
use crate::key::KeyspaceId;

/// Where a table is listed: a level, and in it a sub-level by its name and age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) level: u8,
    pub(crate) sub_level: u64,
    pub(crate) age: u64,
}

impl Place {
    /// The one sub-level that the leveled policy keeps in a level below level 0.
    pub(crate) const fn base(level: u8) -> Place {
        Place {
            level,
            sub_level: level as u64,
            age: 64 - level as u64,
        }
    }
}

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
pub(crate) struct SubLevel {
    pub(crate) number: u64,
    /// Larger is younger.
    pub(crate) age: u64,
    pub(crate) tables: Vec<Arc<Table>>,
}

impl SubLevel {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.size_bytes).sum()
    }

    /// The tables that overlap a range.
    pub(crate) fn overlapping(&self, range: &KeyRange) -> &[Arc<Table>] {
        let from = self
            .tables
            .partition_point(|table| table.bounds.ends_before(&range.smallest));
        let rest = self.tables.get(from..).unwrap_or_default();
        let length = rest.partition_point(|table| !range.ends_before(&table.bounds.smallest));
        rest.get(..length).unwrap_or_default()
    }

    /// The one table that may hold a key.
    pub(crate) fn table_for_key(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let at = self
            .tables
            .partition_point(|table| table.bounds.ends_before(key));
        self.tables
            .get(at)
            .filter(|table| table.bounds.contains(key))
    }

    fn insert(&mut self, table: Arc<Table>) -> Result<(), StructureError> {
        if let Some(other) = self.overlapping(&table.bounds).first() {
            return Err(StructureError(format!(
                "table {} {:?} overlaps table {} {:?} of the same sub-level {}",
                table.number, table.bounds, other.number, other.bounds, self.number
            )));
        }
        let at = self
            .tables
            .partition_point(|other| other.bounds.smallest < table.bounds.smallest);
        self.tables.insert(at, table);
        Ok(())
    }
}

/// The sub-levels of one level, youngest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    pub(crate) sub_levels: Vec<Arc<SubLevel>>,
}

impl Level {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.sub_levels.iter().map(|s| s.size_bytes()).sum()
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.sub_levels.iter().flat_map(|s| &s.tables)
    }

    /// The sub-level at a place, made if there is none yet.
    fn sub_level_mut(&mut self, place: Place) -> Result<&mut SubLevel, StructureError> {
        let at = self.sub_levels.partition_point(|s| s.age > place.age);
        match self.sub_levels.get(at) {
            Some(found) if found.age == place.age && found.number != place.sub_level => {
                return Err(StructureError(format!(
                    "{place} has the age of sub-level {}",
                    found.number
                )));
            }
            Some(found) if found.age == place.age => {}
            _ => self.sub_levels.insert(
                at,
                Arc::new(SubLevel {
                    number: place.sub_level,
                    age: place.age,
                    tables: Vec::new(),
                }),
            ),
        }
        self.sub_levels
            .get_mut(at)
            .map(Arc::make_mut)
            .ok_or_else(|| StructureError(format!("no {place}")))
    }
}

/// All levels of one keyspace.
#[derive(Clone, Debug)]
pub(crate) struct KeyspaceLevels {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    /// Always [`LEVELS`] of them.
    pub(crate) levels: Vec<Level>,
}

impl KeyspaceLevels {
    pub(crate) fn new(id: KeyspaceId, name: impl Into<String>) -> Self {
        KeyspaceLevels {
            id,
            name: name.into(),
            levels: vec![Level::default(); LEVELS],
        }
    }

    /// Every sub-level with its place, youngest first: the order in which reads go.
    pub(crate) fn sub_levels(&self) -> impl Iterator<Item = (Place, &Arc<SubLevel>)> {
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

    /// Every table with its place, youngest sub-level first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (Place, &Arc<Table>)> {
        self.sub_levels()
            .flat_map(|(place, sub_level)| sub_level.tables.iter().map(move |t| (place, t)))
    }

    /// The tables that may hold a key, youngest first.
    pub(crate) fn tables_for_key<'a>(
        &'a self,
        key: &'a [u8],
    ) -> impl Iterator<Item = &'a Arc<Table>> {
        self.sub_levels()
            .filter_map(move |(_, sub_level)| sub_level.table_for_key(key))
    }

    pub(crate) fn find(&self, number: u64) -> Option<(Place, &Arc<Table>)> {
        self.tables().find(|(_, table)| table.number == number)
    }

    pub(crate) fn youngest_age(&self) -> Option<u64> {
        self.sub_levels().next().map(|(place, _)| place.age)
    }

    fn take(&mut self, number: u64) -> Result<(Place, Arc<Table>), StructureError> {
        let (place, table) = self
            .find(number)
            .map(|(place, table)| (place, Arc::clone(table)))
            .ok_or_else(|| {
                StructureError(format!("table {number} is not in keyspace {}", self.id))
            })?;
        self.sub_level_mut(place)?
            .tables
            .retain(|table| table.number != number);
        Ok((place, table))
    }

    fn put(&mut self, place: Place, table: Arc<Table>) -> Result<(), StructureError> {
        if table.bounds.is_empty() {
            return Err(StructureError(format!(
                "table {} has empty bounds {:?}",
                table.number, table.bounds
            )));
        }
        self.sub_level_mut(place)?.insert(table)
    }

    fn sub_level_mut(&mut self, place: Place) -> Result<&mut SubLevel, StructureError> {
        self.levels
            .get_mut(usize::from(place.level))
            .ok_or_else(|| StructureError(format!("{place}: levels go from 0 to {}", LEVELS - 1)))?
            .sub_level_mut(place)
    }

    /// Drops empty sub-levels and checks that the rest is in order of age, each with its own name.
    fn settle(&mut self) -> Result<(), StructureError> {
        for level in &mut self.levels {
            level.sub_levels.retain(|s| !s.tables.is_empty());
        }
        let mut younger: Option<Place> = None;
        let mut numbers = BTreeSet::new();
        for (place, _) in self.sub_levels() {
            if let Some(younger) = younger
                && younger.age <= place.age
            {
                return Err(StructureError(format!(
                    "{place} lies below {younger} and is not older"
                )));
            }
            if place.age == 0 || place.sub_level == 0 || !numbers.insert(place.sub_level) {
                return Err(StructureError(format!(
                    "{place} has an age or name that is 0 or used twice"
                )));
            }
            younger = Some(place);
        }
        Ok(())
    }
}

/// Why an edit does not fit the state it was to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StructureError(pub(crate) String);

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
pub(crate) struct Version {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, Arc<KeyspaceLevels>>,
    obsolete: Arc<ObsoleteTables>,
}

impl Version {
    pub(crate) fn empty(obsolete: Arc<ObsoleteTables>) -> Self {
        Version {
            keyspaces: BTreeMap::new(),
            obsolete,
        }
    }

    /// Where the numbers of files that no version needs any more arrive.
    pub(crate) fn obsolete(&self) -> &Arc<ObsoleteTables> {
        &self.obsolete
    }

    pub(crate) fn keyspace(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceLevels>> {
        self.keyspaces.get(&id)
    }

    /// Every table of every keyspace.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (Place, &Arc<Table>)> {
        self.keyspaces.values().flat_map(|levels| levels.tables())
    }

    /// The version after an edit. This one stays as it is.
    ///
    /// # Errors
    /// The edit names a table that is not there, adds one twice, or breaks the order of ages.
    pub(crate) fn apply(&self, edit: &Edit) -> Result<Version, StructureError> {
        let mut next = self.clone();
        for KeyspaceCreated { id, name } in &edit.keyspaces_created {
            let levels = Arc::new(KeyspaceLevels::new(*id, name.as_str()));
            let same_name = next.keyspaces.values().any(|other| other.name == *name);
            if same_name || next.keyspaces.insert(*id, levels).is_some() {
                return Err(StructureError(format!(
                    "keyspace {id} or its name {name:?} exists already"
                )));
            }
        }
        for id in &edit.keyspaces_dropped {
            if next.keyspaces.remove(id).is_none() {
                return Err(no_keyspace(*id));
            }
        }
        let mut numbers: HashSet<u64> = if edit.tables_added.is_empty() {
            HashSet::new()
        } else {
            self.tables().map(|(_, table)| table.number).collect()
        };
        let mut shifts = BTreeMap::<KeyspaceId, Vec<Shift>>::new();
        for removed in &edit.tables_removed {
            let (place, table) = next.keyspace_mut(removed.keyspace)?.take(removed.number)?;
            shifts.entry(removed.keyspace).or_default().push(Shift {
                number: removed.number,
                range: table.bounds.clone(),
                from_age: place.age,
                to_age: None,
            });
        }
        for narrowed in &edit.tables_narrowed {
            let levels = next.keyspace_mut(narrowed.keyspace)?;
            let (place, table) = levels.take(narrowed.number)?;
            if !table.bounds.encloses(&narrowed.bounds) {
                return Err(StructureError(format!(
                    "table {} {:?} cannot be widened to {:?}",
                    table.number, table.bounds, narrowed.bounds
                )));
            }
            let shifts = shifts.entry(narrowed.keyspace).or_default();
            shifts.extend(Shift::of_slices(&table, &narrowed.bounds, place.age));
            levels.put(place, Arc::new(table.narrowed(narrowed.bounds.clone())))?;
        }
        // All are taken before any is put down, so that tables may trade places.
        let mut moved_tables = Vec::with_capacity(edit.tables_moved.len());
        for moved in &edit.tables_moved {
            let (place, table) = next.keyspace_mut(moved.keyspace)?.take(moved.number)?;
            shifts.entry(moved.keyspace).or_default().push(Shift {
                number: moved.number,
                range: table.bounds.clone(),
                from_age: place.age,
                to_age: Some(moved.to.age),
            });
            moved_tables.push((moved, table));
        }
        for (moved, table) in moved_tables {
            next.keyspace_mut(moved.keyspace)?.put(moved.to, table)?;
        }
        for added in &edit.tables_added {
            if added.table.number == 0 || !numbers.insert(added.table.number) {
                return Err(StructureError(format!(
                    "table number {} is 0 or used already",
                    added.table.number
                )));
            }
            let table = Table::new(added.table.clone(), &self.obsolete);
            next.keyspace_mut(added.table.keyspace)?
                .put(added.place, Arc::new(table))?;
        }
        for levels in next.keyspaces.values_mut() {
            let before = self.keyspaces.get(&levels.id);
            if before.is_some_and(|before| Arc::ptr_eq(before, levels)) {
                continue;
            }
            let levels = Arc::make_mut(levels);
            levels.settle()?;
            if let Some(before) = before {
                let shifts = shifts.remove(&levels.id).unwrap_or_default();
                check_ages(before, levels, &shifts, edit)?;
            }
        }
        Ok(next)
    }

    /// Lets go of the files of the tables that an edit took out of this version. To be called on
    /// the version before the edit once the edit is durable, not earlier: until then a crash
    /// brings the tables back.
    pub(crate) fn mark_removed(&self, edit: &Edit) {
        for removed in &edit.tables_removed {
            if let Some(levels) = self.keyspaces.get(&removed.keyspace)
                && let Some((_, table)) = levels.find(removed.number)
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

    fn keyspace_mut(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceLevels, StructureError> {
        self.keyspaces
            .get_mut(&id)
            .map(Arc::make_mut)
            .ok_or_else(|| no_keyspace(id))
    }
}

fn no_keyspace(id: KeyspaceId) -> StructureError {
    StructureError(format!("there is no keyspace {id}"))
}

/// Keys that an edit takes from one age: to another (a move), or into the tables it adds (a merge).
struct Shift {
    number: u64,
    range: KeyRange,
    from_age: u64,
    to_age: Option<u64>,
}

impl Shift {
    /// What a table loses when its bounds shrink: a piece at the front, one at the back, or both.
    fn of_slices(table: &Table, kept: &KeyRange, age: u64) -> impl Iterator<Item = Shift> {
        let front = KeyRange {
            smallest: table.bounds.smallest.clone(),
            largest: kept.smallest.clone(),
            largest_excluded: true,
        };
        let back = KeyRange {
            smallest: kept.largest.clone(),
            ..table.bounds.clone()
        };
        let back_is_cut = kept.ends_before(&table.bounds.largest) && !back.is_empty();
        let number = table.number;
        [
            (!front.is_empty()).then_some(front),
            back_is_cut.then_some(back),
        ]
        .into_iter()
        .flatten()
        .map(move |range| Shift {
            number,
            range,
            from_age: age,
            to_age: None,
        })
    }
}

/// Checks that no keys pass a table that overlaps them and stays outside: what was younger than
/// it stays younger, what was older stays older. So a merge of sub-levels 3 and 1 without an
/// overlapping 2 is refused, whichever place its output takes.
fn check_ages(
    before: &KeyspaceLevels,
    after: &KeyspaceLevels,
    shifts: &[Shift],
    edit: &Edit,
) -> Result<(), StructureError> {
    let added = || {
        let of_this = |added: &&super::edit::TableAdded| added.table.keyspace == before.id;
        edit.tables_added.iter().filter(of_this)
    };
    let merged = KeyRange::hull(
        shifts
            .iter()
            .filter(|s| s.to_age.is_none())
            .map(|s| &s.range),
    );
    match &merged {
        Some(hull) => {
            if let Some(stray) = added().find(|added| !hull.encloses(&added.table.bounds)) {
                return Err(StructureError(format!(
                    "table {} {:?} lies outside of the merged keys {hull:?}",
                    stray.table.number, stray.table.bounds
                )));
            }
        }
        // Nothing was merged, so these are new writes, and new writes are younger than old ones.
        None => {
            for added in added() {
                for (place, sub_level) in before.sub_levels() {
                    if let Some(other) = sub_level.overlapping(&added.table.bounds).first()
                        && place.age >= added.place.age
                    {
                        return Err(StructureError(format!(
                            "new table {} at {} is not younger than table {} at {place}",
                            added.table.number, added.place, other.number
                        )));
                    }
                }
            }
        }
    }
    if shifts.is_empty() {
        return Ok(());
    }
    let output_ages: BTreeSet<u64> = added().map(|added| added.place.age).collect();
    let ages_after: HashMap<u64, u64> = after
        .tables()
        .map(|(place, table)| (table.number, place.age))
        .collect();
    for shift in shifts {
        let targets = match shift.to_age {
            Some(age) => BTreeSet::from([age]),
            None => output_ages.clone(),
        };
        for (place, sub_level) in before.sub_levels() {
            for other in sub_level.overlapping(&shift.range) {
                let Some(&age_after) = ages_after.get(&other.number) else {
                    continue;
                };
                let passes = |&target: &u64| {
                    target == age_after || (shift.from_age > place.age) != (target > age_after)
                };
                if other.number != shift.number && targets.iter().any(passes) {
                    return Err(StructureError(format!(
                        "keys {:?} of table {} would pass table {} at {place}, which overlaps \
                         them and is not part of the edit",
                        shift.range, shift.number, other.number
                    )));
                }
            }
        }
    }
    Ok(())
}

const _: () = assert!(
    Place::base(1).age < FIRST_FLUSH_AGE && Place::base(LEVELS as u8 - 1).age > 0,
    "deeper levels are older than every flush"
);

#[cfg(test)]
mod tests;
