//! One version made from another by an edit, step by step: tables are taken out, then put down,
//! then the result is checked as a whole.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::age_order::{Shift, check_age_order};
use super::{KeyspaceLevels, Level, Place, StructureError, SubLevel, Version};
use crate::key::KeyspaceId;
use crate::levels::LEVELS;
use crate::levels::edit::{
    Edit, KeyspaceCreated, KeyspaceFormed, KeyspaceRenamed, TableAdded, TableMoved, TableNarrowed,
};
use crate::levels::table_meta::Table;
use crate::levels::tiers::TableMigrated;

impl Version {
    /// Returns the version after an edit. This one stays as it is.
    ///
    /// # Errors
    /// The edit names a table that is not there, adds one twice, or breaks the order of ages.
    pub fn apply(&self, edit: &Edit) -> Result<Version, StructureError> {
        let mut change = Change {
            next: self.clone(),
            shifts: BTreeMap::new(),
        };
        change.create_keyspaces(&edit.keyspaces_created)?;
        change.form_keyspaces(&edit.keyspaces_formed)?;
        change.drop_keyspaces(&edit.keyspaces_dropped)?;
        change.rename_keyspaces(&edit.keyspaces_renamed)?;
        for removed in &edit.tables_removed {
            let (place, table) = change.take(removed.keyspace, removed.number)?;
            change.shift(removed.keyspace, [Shift::of_table(&table, place.age, None)]);
        }
        for narrowed in &edit.tables_narrowed {
            change.narrow(narrowed)?;
        }
        change.move_tables(&edit.tables_moved)?;
        change.migrate(&edit.tables_migrated)?;
        change.add_tables(self, &edit.tables_added)?;
        change.finish(self, edit)
    }
}

/// A version being made.
struct Change {
    next: Version,
    /// The keys that change their age, by keyspace.
    shifts: BTreeMap<KeyspaceId, Vec<Shift>>,
}

impl Change {
    fn create_keyspaces(&mut self, created: &[KeyspaceCreated]) -> Result<(), StructureError> {
        for KeyspaceCreated { id, name } in created {
            self.check_name_is_free(name)?;
            let levels = Arc::new(KeyspaceLevels::new(*id, name.as_str()));
            if self.next.keyspaces.insert(*id, levels).is_some() {
                return Err(StructureError(format!("keyspace {id} exists already")));
            }
        }
        Ok(())
    }

    fn rename_keyspaces(&mut self, renamed: &[KeyspaceRenamed]) -> Result<(), StructureError> {
        for KeyspaceRenamed { id, name } in renamed {
            if *id == KeyspaceId::DEFAULT {
                return Err(StructureError(
                    "the default keyspace keeps its name".to_owned(),
                ));
            }
            self.check_name_is_free(name)?;
            self.keyspace_mut(*id)?.name.clone_from(name);
        }
        Ok(())
    }

    fn check_name_is_free(&self, name: &str) -> Result<(), StructureError> {
        match self.next.keyspace_named(name) {
            None => Ok(()),
            Some(levels) => Err(StructureError(format!(
                "the name {name:?} exists already: keyspace {} has it",
                levels.id
            ))),
        }
    }

    fn form_keyspaces(&mut self, formed: &[KeyspaceFormed]) -> Result<(), StructureError> {
        formed
            .iter()
            .try_for_each(|KeyspaceFormed { id, options }| {
                self.keyspace_mut(*id)?.options = Some(Arc::new(options.clone()));
                Ok(())
            })
    }

    fn drop_keyspaces(&mut self, dropped: &[KeyspaceId]) -> Result<(), StructureError> {
        dropped.iter().try_for_each(|id| {
            let dropped = self.next.keyspaces.remove(id);
            dropped.map(|_| ()).ok_or_else(|| no_keyspace(*id))
        })
    }

    fn narrow(&mut self, narrowed: &TableNarrowed) -> Result<(), StructureError> {
        let (place, table) = self.take(narrowed.keyspace, narrowed.number)?;
        if !table.bounds.encloses(&narrowed.bounds) {
            return Err(StructureError(format!(
                "table {} {:?} cannot be widened to {:?}",
                table.number, table.bounds, narrowed.bounds
            )));
        }
        let slices = Shift::of_slices(&table, &narrowed.bounds, place.age);
        self.shift(narrowed.keyspace, slices);
        let table = table.narrowed(narrowed.bounds.clone());
        self.keyspace_mut(narrowed.keyspace)?
            .put(place, table.into())
    }

    /// Moves tables. All are taken before any is put down, so that tables may trade places.
    fn move_tables(&mut self, moved: &[TableMoved]) -> Result<(), StructureError> {
        let mut taken = Vec::with_capacity(moved.len());
        for moved in moved {
            let (place, table) = self.take(moved.keyspace, moved.number)?;
            let shift = Shift::of_table(&table, place.age, Some(moved.to.age));
            self.shift(moved.keyspace, [shift]);
            taken.push((moved, table));
        }
        taken
            .into_iter()
            .try_for_each(|(moved, table)| self.keyspace_mut(moved.keyspace)?.put(moved.to, table))
    }

    /// Puts tables back at their places with their files in other tiers.
    fn migrate(&mut self, migrated: &[TableMigrated]) -> Result<(), StructureError> {
        let obsolete = Arc::clone(self.next.obsolete());
        migrated.iter().try_for_each(|migrated| {
            let (place, table) = self.take(migrated.keyspace, migrated.number)?;
            if table.tier == migrated.tier {
                return Err(StructureError(format!(
                    "table {} lies in tier {} already",
                    table.number, table.tier
                )));
            }
            let table = table.migrated(migrated.tier, &obsolete);
            self.keyspace_mut(migrated.keyspace)?
                .put(place, table.into())
        })
    }

    fn add_tables(&mut self, before: &Version, added: &[TableAdded]) -> Result<(), StructureError> {
        if added.is_empty() {
            return Ok(());
        }
        let mut numbers: HashSet<u64> = before.tables().map(|(_, table)| table.number).collect();
        let obsolete = Arc::clone(before.obsolete());
        for TableAdded { place, table } in added {
            if table.number == 0 || !numbers.insert(table.number) {
                return Err(StructureError(format!(
                    "table number {} is 0 or used already",
                    table.number
                )));
            }
            let listed = Table::new(table.clone(), &obsolete);
            // No other version lists it: this one may be thrown away.
            listed.enter_level(place.level);
            self.keyspace_mut(table.keyspace)?
                .put(*place, listed.into())?;
        }
        Ok(())
    }

    fn finish(mut self, before: &Version, edit: &Edit) -> Result<Version, StructureError> {
        for levels in self.next.keyspaces.values_mut() {
            let before = before.keyspaces.get(&levels.id);
            if before.is_some_and(|before| Arc::ptr_eq(before, levels)) {
                continue;
            }
            let levels = Arc::make_mut(levels);
            levels.settle()?;
            if let Some(before) = before {
                let shifts = self.shifts.remove(&levels.id).unwrap_or_default();
                let is_flush = edit.flushed_sequence.is_some();
                check_age_order(before, levels, &shifts, &edit.tables_added, is_flush)?;
            }
        }
        Ok(self.next)
    }

    fn shift(&mut self, keyspace: KeyspaceId, shifts: impl IntoIterator<Item = Shift>) {
        self.shifts.entry(keyspace).or_default().extend(shifts);
    }

    fn take(
        &mut self,
        keyspace: KeyspaceId,
        number: u64,
    ) -> Result<(Place, Arc<Table>), StructureError> {
        self.keyspace_mut(keyspace)?.take(number)
    }

    fn keyspace_mut(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceLevels, StructureError> {
        let levels = self.next.keyspaces.get_mut(&id);
        levels.map(Arc::make_mut).ok_or_else(|| no_keyspace(id))
    }
}

fn no_keyspace(id: KeyspaceId) -> StructureError {
    StructureError(format!("there is no keyspace {id}"))
}

impl KeyspaceLevels {
    fn take(&mut self, number: u64) -> Result<(Place, Arc<Table>), StructureError> {
        let (place, table) = self
            .find(number)
            .map(|(place, table)| (place, Arc::clone(table)))
            .ok_or_else(|| {
                StructureError(format!("table {number} is not in keyspace {}", self.id))
            })?;
        self.sub_level_mut(place)?
            .tables_mut()
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

impl Level {
    /// Returns the sub-level at a place; makes it if there is none yet.
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
            _ => {
                let sub_level = SubLevel::new(place.sub_level, place.age, Vec::new());
                self.sub_levels.insert(at, Arc::new(sub_level));
            }
        }
        self.sub_levels
            .get_mut(at)
            .map(Arc::make_mut)
            .ok_or_else(|| StructureError(format!("no {place}")))
    }
}

impl SubLevel {
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
        self.tables_mut().insert(at, table);
        Ok(())
    }
}
