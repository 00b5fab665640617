//! What the store knows of the duplicates in its levels.
//!
//! For each sub-level below level 0 one union of its tables' sketches is kept, and brought up to date
//! when its tables have changed: those that came are read from the file, with their samples; if some went all
//! are read again, for a sketch forgets nothing. So the unions are those of the tables that are listed,
//! whatever happened before, and nothing of them is stored.
//!
//! A merge that freed less than half of what was predicted is a *setback*: its level is not tried again
//! before it has a quarter more versions, so that what cannot be dropped (a snapshot that nobody lets go, a
//! sketch that is wrong) is not merged for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_storage::Purpose;

use crate::KeyspaceId;
use crate::compaction::estimates::{Duplicates, Estimates, droppable_share};
use crate::compaction::policy::Choice;
use crate::db::Store;
use crate::levels::{KeyspaceLevels, Level, SubLevel, Version};
use crate::options::CompactionPolicy;
use crate::sync::Mutex;
use crate::table::Sketch;
use crate::{Result, SequenceNumber};

/// Kept between two looks at the levels.
#[derive(Default)]
pub(crate) struct Monitor {
    unions: Mutex<BTreeMap<(KeyspaceId, u64), Union>>,
    /// Versions that a level must have before it is tried again.
    setbacks: Mutex<BTreeMap<(KeyspaceId, u8), u64>>,
}

/// Of the tables of a sub-level.
#[derive(Clone)]
struct Union {
    tables: Vec<u64>,
    /// `None` if a table was written without a sketch.
    keys: Option<Arc<Sketch>>,
}

/// What is known of one version. Nothing is of a later one.
#[derive(Default)]
pub(crate) struct Known {
    version: Option<Arc<Version>>,
    duplicates: BTreeMap<(KeyspaceId, u8), Duplicates>,
}

impl Estimates for Known {
    fn duplicates(&self, levels: &KeyspaceLevels, level: u8) -> Option<Duplicates> {
        let known = self.version.as_ref()?.keyspace(levels.id)?;
        let is_of_it = std::ptr::eq(&**known, levels);
        let duplicates = self.duplicates.get(&(levels.id, level)).copied();
        duplicates.filter(|_| is_of_it)
    }
}

impl Store {
    /// What merges of the present version would drop, if the policy wants to know.
    pub(crate) fn known_duplicates(&self) -> Known {
        match self.options.compaction_policy {
            CompactionPolicy::Dedup => self.estimate_duplicates(),
            _ => Known::default(),
        }
    }

    fn estimate_duplicates(&self) -> Known {
        let mut known = Known::default();
        let mut unions = self.monitor.unions.lock();
        // Not before: whoever waits for the lock is not to go back to what was listed then.
        let version = Arc::clone(&self.view.load().version);
        let before = std::mem::take(&mut *unions);
        for levels in version.keyspaces.values() {
            for (number, level) in (0u8..).zip(&levels.levels).skip(1) {
                for sub_level in &level.sub_levels {
                    let key = (levels.id, sub_level.number);
                    if let Ok(union) = self.union_of(sub_level, before.get(&key)) {
                        unions.insert(key, union);
                    }
                }
                let of_sub_level = |s: &Arc<SubLevel>| unions.get(&(levels.id, s.number));
                let unions: Option<Vec<Arc<Sketch>>> = (level.sub_levels.iter())
                    .map(|sub_level| of_sub_level(sub_level)?.keys.clone())
                    .collect();
                if let Some(unions) = unions.filter(|unions| unions.len() > 1)
                    && !self.monitor.is_set_back(levels.id, number, versions(level))
                    && let Some(duplicates) = self.duplicates_of(level, &unions)
                {
                    known.duplicates.insert((levels.id, number), duplicates);
                }
            }
        }
        known.version = Some(version);
        known
    }

    /// # Errors
    /// Those of reading: it is tried again the next time.
    fn union_of(&self, sub_level: &SubLevel, before: Option<&Union>) -> Result<Union> {
        let mut tables: Vec<u64> = sub_level.tables.iter().map(|table| table.number).collect();
        tables.sort_unstable();
        let mut begun = before.cloned().filter(|before| {
            let mut kept = before.tables.iter();
            kept.all(|number| tables.binary_search(number).is_ok())
        });
        if let Some(begun) = begun.take_if(|begun| begun.tables == tables) {
            return Ok(begun);
        }
        let (read, keys) = match begun {
            Some(Union {
                tables,
                keys: Some(keys),
            }) => (tables, Arc::unwrap_or_clone(keys)),
            _ => (Vec::new(), Sketch::default()),
        };
        let mut keys = Some(keys);
        for table in &sub_level.tables {
            if read.binary_search(&table.number).is_ok() {
                continue;
            }
            let sketches = table.open(&self.tables)?.sketches(Purpose::Compaction)?;
            keys = keys.zip(sketches).map(|(mut keys, sketches)| {
                keys.unite(&sketches.keys);
                keys
            });
        }
        Ok(Union {
            tables,
            keys: keys.map(Arc::new),
        })
    }

    /// `None` if it cannot be known: of a table that counts for a part of its keys only, what is left of a
    /// merge that was cut short, nobody knows how many there are.
    fn duplicates_of(&self, level: &Level, unions: &[Arc<Sketch>]) -> Option<Duplicates> {
        if level.tables().any(|table| table.narrowed) {
            return None;
        }
        let mut all = Sketch::default();
        unions.iter().for_each(|union| all.unite(union));
        let at_most = Duplicates::new(versions(level), all.estimate(), 1.0);
        let snapshots = self.snapshots.stripes(|| self.visible());
        if snapshots.len() < 2 || at_most.rate() < self.options.dedup_threshold {
            return Some(at_most);
        }
        // The samples of ingested tables have numbers that do not count.
        if level.tables().any(|table| table.assigned) {
            return None;
        }
        let share = self.droppable_share(level, &snapshots).ok()?;
        Some(Duplicates::new(versions(level), all.estimate(), share))
    }

    /// From the samples of the level's tables, each only where its table counts.
    fn droppable_share(&self, level: &Level, snapshots: &[SequenceNumber]) -> Result<f64> {
        let mut samples = Vec::new();
        for table in level.tables() {
            let sketches = table.open(&self.tables)?.sketches(Purpose::Compaction)?;
            samples.extend(sketches.map(|sketches| (sketches.sample, &table.bounds)));
        }
        let rarest = samples.iter().map(|(sample, _)| sample.zeros()).max();
        let hash = |user_key: &[u8]| crate::table::key_hash(user_key, self.hash_seed);
        let versions = samples.iter().flat_map(|(sample, bounds)| {
            let thinned = sample.thinned(rarest.unwrap_or(0), hash);
            thinned.filter(|version| bounds.contains(&version.user_key))
        });
        Ok(droppable_share(versions.collect(), snapshots))
    }
}

impl Monitor {
    fn is_set_back(&self, keyspace: KeyspaceId, level: u8, versions: u64) -> bool {
        let mut setbacks = self.setbacks.lock();
        let needed = setbacks.get(&(keyspace, level)).copied().unwrap_or(0);
        if versions < needed / 2 {
            // What could not be dropped has gone down since.
            setbacks.remove(&(keyspace, level));
            return false;
        }
        versions < needed
    }

    /// A merge has ended that was expected to drop something.
    pub(crate) fn compare(&self, keyspace: KeyspaceId, choice: &Choice, dropped: u64) {
        let Some(predicted) = choice.predicted_dropped else {
            return;
        };
        // What has left its level is not in the way of another try there.
        let level = choice.output.level;
        if choice.inputs.iter().any(|input| input.place.level != level) {
            return;
        }
        let mut setbacks = self.setbacks.lock();
        if dropped >= predicted / 2 {
            setbacks.remove(&(keyspace, level));
            return;
        }
        let inputs = choice.inputs.iter();
        let entries: u64 = inputs.map(|input| input.table.entries).sum();
        let left = entries.saturating_sub(dropped);
        setbacks.insert((keyspace, level), left.saturating_add(left / 4));
    }
}

fn versions(level: &Level) -> u64 {
    level.tables().map(|table| table.entries).sum()
}
