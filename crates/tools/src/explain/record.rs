//! A description of a store's levels, with the known facts about them. It records all answers to
//! the policy, so that the policy decides the same when it is asked again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use terrace::{Error, Options, Result};
use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::estimates::{Duplicates, Estimates};
use terrace_lsm::compaction::parts::Part;
use terrace_lsm::compaction::run::Run;
use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::{KeyRange, KeyspaceLevels, SubLevel};
use terrace_lsm::serial::key_form;

use crate::explain::UnderWay;
use crate::explain::description::{
    Description, Form, KeysForm, RunForm, SubLevelForm, TableForm, UnderWayForm,
};
use crate::explain::keyspace::Asked;

/// Options that present policies go by. Others are written only if they differ from their default.
const WRITTEN: [&str; 6] = [
    "compaction_policy",
    "dedup_threshold",
    "min_score",
    "level0_merge",
    "level0_slowdown",
    "default_keyspace",
];
/// Options that have nothing to do with levels, and the bound from which written sizes followed.
const NOT_WRITTEN: [&str; 4] = [
    "region_dir",
    "compaction_threads",
    "memory_bytes",
    "read_buffer",
];

/// Stands for an unknown number.
const UNKNOWN: f64 = -1.0;

/// Estimates that answer the policy, and their answers.
struct Recorder<'a> {
    asked: &'a dyn Estimates,
    merged: RefCell<BTreeMap<Vec<u64>, Option<Duplicates>>>,
    now: RefCell<BTreeMap<Vec<u64>, Option<Duplicates>>>,
    /// Versions that each part would drop, of the runs that have any.
    parts: RefCell<BTreeMap<Vec<u64>, Vec<f64>>>,
}

impl<'a> Recorder<'a> {
    fn new(asked: &'a dyn Estimates) -> Self {
        Recorder {
            asked,
            merged: RefCell::default(),
            now: RefCell::default(),
            parts: RefCell::default(),
        }
    }
}

impl Estimates for Recorder<'_> {
    fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        let merged = self.asked.merged(levels, run);
        self.merged.borrow_mut().insert(run.name(), merged);
        merged
    }

    fn merged_now(
        &self,
        levels: &KeyspaceLevels,
        run: &Run,
        at_most: Duplicates,
    ) -> Option<Duplicates> {
        let now = self.asked.merged_now(levels, run, at_most);
        // A part has its run's name.
        if !run.is_part_of(levels) {
            self.now.borrow_mut().insert(run.name(), now);
        }
        now
    }

    fn parts(&self, levels: &KeyspaceLevels, run: &Run) -> Vec<Part> {
        let parts = self.asked.parts(levels, run);
        let droppable = |part: &Part| part.duplicates.map_or(UNKNOWN, |known| known.droppable);
        let recorded: Vec<f64> = parts.iter().map(droppable).collect();
        if recorded.iter().any(|&droppable| droppable > 0.0) {
            self.parts.borrow_mut().insert(run.name(), recorded);
        }
        parts
    }

    fn keys(&self, levels: &KeyspaceLevels, run: &Run) -> Option<f64> {
        self.asked.keys(levels, run)
    }
}

/// Describes the subject of an explanation, with the facts that the answer follows from.
pub(crate) fn describe(
    asked: Asked<'_>,
    options: &Options,
    form: &KeyspaceOptions,
    level0_is_paid_for: bool,
) -> Result<Description> {
    let estimates = Recorder::new(asked.estimates);
    let shown = Recorder::new(asked.shown);
    let (levels, under_way) = (asked.levels, asked.under_way);
    let recorded = Asked {
        estimates: &estimates,
        shown: &shown,
        ..asked
    };
    let _ = recorded.explain();
    Description::of_form(Form {
        keyspace: levels.name.clone(),
        keys: None,
        snapshots: Vec::new(),
        level0_is_paid_for,
        options: Options {
            default_keyspace: form.clone(),
            ..options.clone()
        },
        sub_levels: sub_levels(levels),
        runs: runs(levels, &estimates, &shown),
        under_way: under_way.iter().map(claimed).collect(),
    })
}

fn sub_levels(levels: &KeyspaceLevels) -> Vec<SubLevelForm> {
    let tables = |sub_level: &SubLevel| {
        let tables = sub_level.tables.iter().map(|table| TableForm {
            number: Some(table.number),
            bytes: table.size_bytes,
            entries: table.entries,
            tombstones: table.tombstones,
            range_tombstones: table.range_tombstones,
            keys: keys(&table.bounds),
            narrowed: table.narrowed,
        });
        tables.collect()
    };
    let sub_levels = levels.sub_levels().map(|(place, sub_level)| SubLevelForm {
        level: place.level,
        age: Some(place.age),
        number: Some(place.sub_level),
        tables: tables(sub_level),
        ..SubLevelForm::default()
    });
    sub_levels.collect()
}

fn keys(range: &KeyRange) -> KeysForm {
    let (smallest, smallest_hex) = key_form(range.smallest.clone());
    let (largest, largest_hex) = key_form(range.largest.clone());
    KeysForm {
        smallest,
        smallest_hex,
        largest,
        largest_hex,
        largest_excluded: range.largest_excluded,
    }
}

/// Returns the known facts of runs. A run is put off if the policy asked about it without an
/// answer.
fn runs(levels: &KeyspaceLevels, estimates: &Recorder<'_>, shown: &Recorder<'_>) -> Vec<RunForm> {
    let numbers: Vec<u64> = levels.sub_levels().map(|(p, _)| p.sub_level).collect();
    let position = |number: Option<&u64>| numbers.iter().position(|n| Some(n) == number);
    let (merged, now) = (estimates.merged.borrow(), estimates.now.borrow());
    let (shown, parts) = (shown.merged.borrow(), estimates.parts.borrow());
    let names = merged
        .keys()
        .chain(shown.keys().filter(|n| !merged.contains_key(*n)));
    let run = |name: &Vec<u64>| {
        let of_policy = merged.get(name).copied();
        let at_most = of_policy.flatten().or(shown.get(name).copied().flatten())?;
        let now = now.get(name).copied();
        let is_put_off = of_policy == Some(None) || now == Some(None);
        let now = now.flatten().map(|now| now.droppable);
        Some(RunForm {
            from: position(name.first())?,
            to: position(name.last())?,
            droppable: at_most.droppable,
            droppable_now: now.filter(|now| *now != at_most.droppable),
            parts_droppable: parts.get(name).cloned().unwrap_or_default(),
            put_off: is_put_off,
        })
    };
    names.filter_map(run).collect()
}

fn claimed((claim, shown): &(Claim, UnderWay)) -> UnderWayForm {
    let output = claim.output();
    UnderWayForm {
        tables: claim.inputs().collect(),
        level: output.level,
        age: Some(output.age),
        sub_level: Some(output.sub_level),
        youngest_age: Some(claim.youngest_age()),
        carried_down: Some(claim.all_carried_down().collect()),
        keys: keys(claim.range()),
        reason: Some(shown.reason.clone()),
    }
}

impl Form {
    /// Returns the file, in lines among which a reader finds the way.
    pub(crate) fn text(&self) -> Result<String> {
        let mut text = format!(
            "# What a keyspace is merged by. `terrace explain compaction --description` reads it.\n\
             keyspace = {}\n",
            line(&self.keyspace)?
        );
        let mut add = |what: std::fmt::Arguments<'_>| {
            // Into a String nothing fails.
            let _ = text.write_fmt(what);
        };
        if let Some(keys) = self.keys {
            add(format_args!("keys = {keys}\n"));
        }
        if !self.snapshots.is_empty() {
            add(format_args!("snapshots = {:?}\n", self.snapshots));
        }
        if self.level0_is_paid_for {
            add(format_args!("level0_is_paid_for = true\n"));
        }
        for (name, rows) in [
            ("runs", lines(&self.runs)?),
            ("under_way", lines(&self.under_way)?),
        ] {
            if !rows.is_empty() {
                add(format_args!("{name} = [\n{rows}]\n"));
            }
        }
        add(format_args!("\n{}", options(&self.options)?));
        for sub_level in &self.sub_levels {
            let head = SubLevelForm {
                tables: Vec::new(),
                ..sub_level.clone()
            };
            let head = toml::to_string(&head).map_err(unwritable)?;
            add(format_args!("\n[[sub_levels]]\n{head}"));
            if !sub_level.tables.is_empty() {
                let tables = lines(&sub_level.tables)?;
                add(format_args!("tables = [\n{tables}]\n"));
            }
        }
        Ok(text)
    }
}

/// Returns the table of options.
fn options(options: &Options) -> Result<String> {
    let table = |options: &Options| toml::Table::try_from(options).map_err(unwritable);
    let (mut given, usual) = (
        table(&Options {
            region_dir: None,
            ..options.clone()
        })?,
        table(&Options::default())?,
    );
    given.retain(|name, value| {
        let is_usual = usual.get(name) == Some(value) || NOT_WRITTEN.contains(&name);
        WRITTEN.contains(&name) || !is_usual
    });
    // Under their name: a group of options would otherwise end the table.
    let named = toml::Table::from_iter([("options".to_owned(), given.into())]);
    toml::to_string(&named).map_err(unwritable)
}

/// Writes each on a line of its own.
fn lines(rows: &[impl Serialize]) -> Result<String> {
    rows.iter()
        .map(|row| Ok(format!("    {},\n", line(row)?)))
        .collect()
}

fn line(value: &impl Serialize) -> Result<String> {
    let value = toml::Value::try_from(value).map_err(unwritable)?;
    Ok(value.to_string())
}

fn unwritable(error: toml::ser::Error) -> Error {
    Error::invalid(format!("the description cannot be TOML: {error}"))
}
