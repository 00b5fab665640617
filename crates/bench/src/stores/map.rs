//! An ordered map in memory: the least that a store can be, so that the cost of a run on it is
//! nearly all the harness's own.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use crate::Result;
use crate::settings::Settings;
use crate::store::{Contestant, Direction, Opened, Store};
use crate::stores::map_tables::MapTables;
use crate::tables::Tables;

/// Keeps everything in memory. It is not offered to users: they would take it for a peer.
pub const MAP: Contestant = Contestant {
    name: "map",
    about: "an ordered map in memory: what the harness's own cost is measured with",
    open,
};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Map(RwLock<Entries>, MapTables);

fn open(_: &Path, settings: &Settings) -> Result<Opened> {
    let tables = MapTables::new(settings.tables.len());
    Ok(Opened {
        store: Box::new(Map(RwLock::default(), tables)),
        durability: "nothing survives".into(),
        settings: Vec::new(),
    })
}

impl Store for Map {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        // Nothing can panic half-way: the guarded map is whole.
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match entries.get_mut(key) {
            Some(old) => {
                old.clear();
                old.extend_from_slice(value);
            }
            None => drop(entries.insert(key.to_vec(), value.to_vec())),
        }
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let value = entries.get(key);
        if let Some(value) = value {
            read(value);
        }
        Ok(value.is_some())
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let rows = usize::try_from(limit).unwrap_or(usize::MAX);
        let bound = start.map_or(Bound::Unbounded, Bound::Included);
        let mut show = |(key, value): (&Vec<u8>, &Vec<u8>)| visit(key, value);
        match direction {
            Direction::Forward => {
                let range = entries.range::<[u8], _>((bound, Bound::Unbounded));
                range.take(rows).for_each(&mut show);
            }
            Direction::Backward => {
                let range = entries.range::<[u8], _>((Bound::Unbounded, bound));
                range.rev().take(rows).for_each(&mut show);
            }
        }
        Ok(())
    }

    fn tables(&self) -> Option<&dyn Tables> {
        Some(&self.1)
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_passes_what_every_adaptor_must_pass() {
        let map = Map::default();
        crate::conformance::check(&map).unwrap();
        crate::conformance::check_reopened(&map).unwrap();
        crate::conformance::check_tables(&MapTables::new(2)).unwrap();
    }
}
