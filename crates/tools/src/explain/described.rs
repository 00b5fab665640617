//! A description in the engine's form: levels, the work under way in them, and the drops of merges.
//! The drops come from random keys, or from facts found in a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace::offline::policy_settings;
use terrace::{Error, KeyspaceId, Options, Result};
use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::estimates::{Duplicates, Estimates};
use terrace_lsm::compaction::legality::check_legal;
use terrace_lsm::compaction::parts::{Part, cells};
use terrace_lsm::compaction::policy::described_by;
use terrace_lsm::compaction::policy::settings::CompactionPolicy;
use terrace_lsm::compaction::run::Run;
use terrace_lsm::key::MAX_KEY_BYTES;
use terrace_lsm::levels::{
    Edit, FIRST_FLUSH_AGE, FIRST_SUB_LEVEL_NUMBER, KeyRange, KeyspaceCreated, KeyspaceLevels,
    Place, SubLevel, Table, TableAdded, TableMeta, Version,
};
use terrace_lsm::serial::key_of_form;

use crate::explain::description::{Form, KeysForm, RunForm, SubLevelForm, UnderWayForm};
use crate::explain::keyspace::Asked;
use crate::explain::{KeyspaceExplanation, Settings, UnderWay};

/// Maximum number of tables of a sub-level that has no list of them.
const MOST_EVEN_TABLES: u64 = 1000;

/// A description in the engine's form.
pub(crate) struct Described<'a> {
    form: &'a Form,
    version: Version,
    under_way: Vec<(Claim, UnderWay)>,
    /// Runs by the names of their sub-levels, the youngest first.
    runs: BTreeMap<Vec<u64>, &'a RunForm>,
    positions: BTreeMap<u64, usize>,
}

impl<'a> Described<'a> {
    pub(crate) fn new(form: &'a Form) -> Result<Self> {
        let places = places(form)?;
        let mut tables = Vec::new();
        let mut next_number = 1;
        for (at, (sub_level, place)) in form.sub_levels.iter().zip(&places).enumerate() {
            let listed = listed(sub_level, &form.options, &mut next_number)
                .map_err(|what| Error::invalid(format!("sub_levels[{at}]: {what}")))?;
            let added = listed.into_iter().map(|table| (*place, table));
            tables.extend(added.map(|(place, table)| TableAdded { place, table }));
        }
        let edit = Edit {
            keyspaces_created: vec![KeyspaceCreated {
                id: KeyspaceId::DEFAULT,
                name: form.keyspace.clone(),
            }],
            tables_added: tables,
            ..Edit::default()
        };
        let version = Version::empty(Arc::default())
            .apply(&edit)
            .map_err(|broken| Error::invalid(format!("sub_levels: {broken}")))?;
        let numbers = || places.iter().map(|place| place.sub_level);
        let of_run = |run: &'a RunForm| {
            let length = run.to.saturating_sub(run.from) + 1;
            (numbers().skip(run.from).take(length).collect(), run)
        };
        let mut described = Described {
            form,
            runs: form.runs.iter().map(of_run).collect(),
            positions: numbers().zip(0..).collect(),
            under_way: Vec::new(),
            version,
        };
        let under_way = form.under_way.iter().enumerate().map(|(at, merge)| {
            under_way(described.levels()?, merge)
                .map_err(|what| Error::invalid(format!("under_way[{at}]: {what}")))
        });
        described.under_way = under_way.collect::<Result<_>>()?;
        Ok(described)
    }

    fn levels(&self) -> Result<&Arc<KeyspaceLevels>> {
        let levels = self.version.keyspace(KeyspaceId::DEFAULT);
        levels.ok_or_else(|| Error::invalid("a description has one keyspace"))
    }

    pub(crate) fn explain(&self) -> Result<KeyspaceExplanation> {
        let levels = self.levels()?;
        let form = self.form.options.default_keyspace.clone();
        let policy = described_by(
            &policy_settings(&self.form.options),
            &form,
            self.form.level0_is_paid_for,
        );
        let claims: Vec<Claim> = self.under_way.iter().map(|(c, _)| c.clone()).collect();
        if let Some(choice) = policy.pick(levels, &claims, &AsPolicyKnows(self)) {
            check_legal(levels, &choice).map_err(|broken| {
                Error::invalid(format!(
                    "no store has such sub_levels: the policy would choose against the order of ages: \
                     {broken}"
                ))
            })?;
        }
        let asked = Asked {
            levels,
            settings: Settings::of(&self.form.options, &form),
            policy: &*policy,
            under_way: &self.under_way,
            estimates: &AsPolicyKnows(self),
            shown: self,
            setbacks: Vec::new(),
            oldest_snapshot: None,
        };
        Ok(asked.explain())
    }

    /// Estimates from random keys, as many in each sub-level as it has versions.
    fn random(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        let keys = self.form.keys? as f64;
        let distinct = distinct(
            keys,
            run.sub_levels().iter().map(|(_, s)| entries(&s.tables)),
        );
        Some(Duplicates::new(
            run.versions(),
            distinct,
            tombstones(levels, run),
        ))
    }

    /// Estimates the same if a snapshot keeps the newest version of each key that is older than it.
    /// The versions between two snapshots are as if merged alone.
    fn random_now(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        at_most: Duplicates,
    ) -> Option<Duplicates> {
        let keys = self.form.keys? as f64;
        let mut stripes: BTreeMap<usize, Vec<&Arc<SubLevel>>> = BTreeMap::new();
        for (place, sub_level) in run.sub_levels() {
            let position = *self.positions.get(&place.sub_level)?;
            let younger = self.form.snapshots.iter().filter(|&&s| s <= position);
            let stripe = stripes.entry(younger.count()).or_default();
            stripe.push(sub_level);
        }
        // Only tombstones that no snapshot is older than are dropped.
        let free = self.form.snapshots.len();
        let is_oldest = run.is_oldest_of(levels);
        let dropped = stripes.into_iter().map(|(older_snapshots, stripe)| {
            let tables = || stripe.iter().flat_map(|sub_level| &sub_level.tables);
            let tombstones = match is_oldest && older_snapshots == free {
                true => tables().map(|table| table.tombstones).sum(),
                false => 0,
            };
            let versions = tables().map(|table| table.entries).sum();
            let distinct = distinct(keys, stripe.iter().map(|s| entries(&s.tables)));
            Duplicates::new(versions, distinct, tombstones).droppable
        });
        let droppable = dropped.sum::<f64>().min(at_most.droppable);
        Some(Duplicates {
            droppable,
            ..at_most
        })
    }
}

/// The estimates that are shown.
impl Estimates for Described<'_> {
    fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        match self.runs.get(&run.name()) {
            Some(known) => Some(Duplicates {
                versions: run.versions() as f64,
                droppable: known.droppable.min(run.versions() as f64),
            }),
            None => self.random(levels, run),
        }
    }

    fn merged_now(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        at_most: Duplicates,
    ) -> Option<Duplicates> {
        match self.runs.get(&run.name()) {
            Some(known) => {
                let now = known.droppable_now.unwrap_or(known.droppable);
                // A part keeps the same share as the whole.
                let stays = now / known.droppable.max(1.0);
                Some(match run.is_part_of(levels) {
                    true => at_most.share(stays.min(1.0)),
                    false => Duplicates {
                        droppable: known.droppable_now.unwrap_or(at_most.droppable),
                        ..at_most
                    },
                })
            }
            None => self.random_now(levels, run, at_most),
        }
    }

    fn parts(&self, _: &KeyspaceLevels, run: &Run) -> Vec<Part> {
        let known = self.runs.get(&run.name());
        let known = known.map_or(&[][..], |known| known.parts_droppable.as_slice());
        let cells = cells(run).into_iter().zip(known);
        let part = |(run, &droppable): (Run, &f64)| {
            let versions = run.versions() as f64;
            Part {
                duplicates: (droppable >= 0.0).then_some(Duplicates {
                    versions,
                    droppable: droppable.min(versions),
                }),
                run,
            }
        };
        cells.map(part).collect()
    }

    fn keys(&self, levels: &KeyspaceLevels, run: &Run) -> Option<f64> {
        let merged = self.merged(levels, run)?;
        Some(merged.versions - merged.droppable)
    }
}

/// The same estimates without the runs that are put off.
struct AsPolicyKnows<'a>(&'a Described<'a>);

impl Estimates for AsPolicyKnows<'_> {
    fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        let known = self.0.runs.get(&run.name());
        let is_put_off = known.is_some_and(|known| known.put_off);
        self.0.merged(levels, run).filter(|_| !is_put_off)
    }

    fn merged_now(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        at_most: Duplicates,
    ) -> Option<Duplicates> {
        self.0.merged_now(levels, run, at_most)
    }

    fn parts(&self, levels: &KeyspaceLevels, run: &Run) -> Vec<Part> {
        self.0.parts(levels, run)
    }

    fn keys(&self, levels: &KeyspaceLevels, run: &Run) -> Option<f64> {
        self.0.keys(levels, run)
    }
}

/// Returns the expected number of distinct keys in sets of random ones out of `keys`.
fn distinct(keys: f64, sets: impl Iterator<Item = f64>) -> f64 {
    let absent = sets.map(|set| 1.0 - (set / keys).min(1.0));
    keys * (1.0 - absent.product::<f64>())
}

fn entries(tables: &[Arc<Table>]) -> f64 {
    tables.iter().map(|table| table.entries).sum::<u64>() as f64
}

/// Returns the tombstones that a merge would drop: all of the oldest run, none of another.
fn tombstones(levels: &KeyspaceLevels, run: &Run) -> u64 {
    match run.is_oldest_of(levels) {
        true => run.tables().map(|table| table.tombstones).sum(),
        false => 0,
    }
}

/// Returns the place of each sub-level. One without an age follows the one before. One that the
/// leveled policy would have as a base is one.
fn places(form: &Form) -> Result<Vec<Place>> {
    let is_leveled = form.options.compaction_policy == CompactionPolicy::Leveled;
    let bases = bases(&form.sub_levels);
    // The first of them has the highest age that room is needed for.
    let mut flush_age = FIRST_FLUSH_AGE + form.sub_levels.len() as u64;
    let mut places = Vec::new();
    let mut number = FIRST_SUB_LEVEL_NUMBER + form.sub_levels.len() as u64;
    for (sub_level, is_base) in form.sub_levels.iter().zip(bases) {
        let level = sub_level.level;
        let place = match sub_level.age {
            None if is_leveled && is_base => Place::base(level),
            given => Place {
                level,
                sub_level: number,
                age: given.unwrap_or(flush_age.saturating_sub(u64::from(level))),
            },
        };
        places.push(Place {
            sub_level: sub_level.number.unwrap_or(place.sub_level),
            ..place
        });
        flush_age -= 1;
        number -= 1;
    }
    let mut pairs = places.windows(2).enumerate();
    let broken = pairs.find_map(|(at, pair)| match pair {
        [younger, older] => {
            let is_in_order = younger.level <= older.level && younger.age > older.age;
            (!is_in_order).then_some((at + 1, *younger, *older))
        }
        _ => None,
    });
    match broken {
        None => Ok(places),
        Some((at, younger, older)) => Err(Error::invalid(format!(
            "sub_levels[{at}] is {older}, and {younger} stands before it; list them from the \
             youngest, level 0 first, each older than the one before, and give ages to all or none"
        ))),
    }
}

/// Tells which sub-levels would be their level's base: the oldest of each, as far as all below it
/// are bases.
fn bases(sub_levels: &[SubLevelForm]) -> Vec<bool> {
    let mut below: Option<u8> = None;
    let mut goes_on = true;
    let mut bases: Vec<bool> = Vec::new();
    for sub_level in sub_levels.iter().rev() {
        goes_on &= sub_level.level > 0 && below != Some(sub_level.level);
        below = Some(sub_level.level);
        bases.push(goes_on);
    }
    bases.reverse();
    bases
}

/// Returns the tables of a sub-level, sorted by key.
fn listed(
    sub_level: &SubLevelForm,
    options: &Options,
    next_number: &mut u64,
) -> std::result::Result<Vec<TableMeta>, String> {
    let mut number = |given: Option<u64>| {
        let number = given.unwrap_or(*next_number);
        *next_number = number.saturating_add(1).max(*next_number);
        number
    };
    if sub_level.tables.is_empty() {
        let whole = |count: Option<u64>| count.unwrap_or(0);
        let (bytes, entries) = (whole(sub_level.bytes), whole(sub_level.entries));
        let count = match sub_level.level {
            0 => 1,
            _ => bytes
                .div_ceil(options.default_keyspace.table_bytes)
                .clamp(1, MOST_EVEN_TABLES),
        };
        let tables = (0..count).map(|at| {
            let part = |whole: u64| whole / count + u64::from(at < whole % count);
            TableMeta {
                size_bytes: part(bytes),
                entries: part(entries),
                tombstones: part(whole(sub_level.tombstones)),
                bounds: even_range(at, count),
                ..unwritten(number(None))
            }
        });
        return Ok(tables.collect());
    }
    let tables = sub_level.tables.iter().map(|table| {
        Ok(TableMeta {
            size_bytes: table.bytes,
            entries: table.entries,
            tombstones: table.tombstones,
            range_tombstones: table.range_tombstones,
            bounds: range(&table.keys)?.unwrap_or_else(|| even_range(0, 1)),
            narrowed: table.narrowed,
            ..unwritten(number(table.number))
        })
    });
    tables.collect()
}

fn unwritten(number: u64) -> TableMeta {
    TableMeta {
        number,
        identity: 0,
        keyspace: KeyspaceId::DEFAULT,
        size_bytes: 0,
        entries: 0,
        tombstones: 0,
        range_tombstones: 0,
        bounds: even_range(0, 1),
        narrowed: false,
        min_sequence: 1,
        max_sequence: 1,
        assigned: false,
        oldest_tombstone_seconds: None,
        superseded: None,
        tier: 1,
    }
}

/// Returns one of `count` even parts of all keys of eight bytes.
fn even_range(at: u64, count: u64) -> KeyRange {
    let step = u64::MAX / count;
    let smallest = at * step;
    let largest = match at + 1 == count {
        true => u64::MAX,
        false => smallest + (step - 1),
    };
    KeyRange::inclusive(smallest.to_be_bytes(), largest.to_be_bytes())
}

fn range(form: &KeysForm) -> std::result::Result<Option<KeyRange>, String> {
    if *form == KeysForm::default() {
        return Ok(None);
    }
    let key = |text: &Option<String>, hex: &Option<String>| {
        let key = key_of_form(text.clone(), hex.clone())?;
        match key.len() <= MAX_KEY_BYTES {
            true => Ok(key),
            false => Err(format!("a key has more than {MAX_KEY_BYTES} bytes")),
        }
    };
    let range = KeyRange {
        smallest: key(&form.smallest, &form.smallest_hex)?,
        largest: key(&form.largest, &form.largest_hex)?,
        largest_excluded: form.largest_excluded,
    };
    Ok(Some(range))
}

fn under_way(
    levels: &KeyspaceLevels,
    form: &UnderWayForm,
) -> std::result::Result<(Claim, UnderWay), String> {
    let listed = || {
        levels
            .tables()
            .filter(|(_, t)| form.tables.contains(&t.number))
    };
    let oldest = listed().map(|(place, _)| place).last();
    let output = match (form.age, oldest) {
        (Some(age), _) => Place {
            level: form.level,
            sub_level: form.sub_level.unwrap_or(0),
            age,
        },
        (None, Some(oldest)) if form.level >= oldest.level => {
            (oldest.level..form.level).fold(oldest, |place, _| place.below())
        }
        (None, Some(oldest)) => {
            return Err(format!(
                "level is {}; it must be {} or more, where the oldest of its tables is",
                form.level, oldest.level
            ));
        }
        (None, None) => {
            return Err("none of its tables is listed in sub_levels, and no age is given".into());
        }
    };
    let hull = KeyRange::hull(listed().map(|(_, table)| &table.bounds));
    let youngest = listed().map(|(place, _)| place.age).max();
    let down = listed().filter(|(place, _)| place.level < form.level);
    let down = || down.map(|(_, table)| table.number).collect();
    let claim = Claim::new(
        range(&form.keys)?
            .or(hull)
            .ok_or("its keys are missing, and none of its tables is listed")?,
        form.youngest_age.or(youngest).unwrap_or(output.age),
        output,
        form.tables.clone(),
        form.carried_down.clone().unwrap_or_else(down),
    );
    let shown = UnderWay {
        job: None,
        reason: form
            .reason
            .clone()
            .unwrap_or_else(|| "it is described".to_owned()),
        tables: form.tables.clone(),
        output_level: form.level,
        installed_slices: 0,
        slices: 0,
    };
    Ok((claim, shown))
}
