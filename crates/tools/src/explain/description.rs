//! A description of levels as a TOML file, as options are. People can write it by hand with
//! comments, and errors name the line. This module checks its numbers; `described` makes levels of
//! it.

use serde::{Deserialize, Serialize};
use terrace::offline::check_options;
use terrace::offline::option_tables::DEFAULT_KEYSPACE;
use terrace::{Error, Options, Result};
use terrace_lsm::levels::{DEFAULT_NAME, FIRST_FLUSH_AGE, LEVELS};
use terrace_lsm::option_table::check_ranges;
use terrace_lsm::toml_text::toml_refusal;

use crate::explain::described::Described;
use crate::explain::{Explanation, KeyspaceExplanation};

/// Maximum length of a description, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of sub-levels. A policy may look at each run of them.
const MAX_SUB_LEVELS: usize = 256;
const MAX_TABLES: usize = 1 << 17;
const MAX_UNDER_WAY: usize = 1 << 10;
/// Maximum bytes and versions of all sub-levels together: sums of them have room for it.
const MAX_SUM: u64 = 1 << 58;
/// Options that stores no longer have, as descriptions of earlier releases write them.
const FORMER_LINES: [&str; 2] = ["inspect = true", "background = \"inline\""];
/// Options of earlier releases that are constants now.
const FORMER_OPTIONS: [&str; 10] = [
    "restart_interval",
    "max_batch_bytes",
    "emulate_power_safety",
    "arena_index_bytes",
    "pinned_bytes",
    "level0_stop",
    "debt_slowdown_bytes",
    "debt_stop_bytes",
    "slice_bytes",
    "manifest_bytes",
];
/// Maximum age and number; there is room for more behind it.
const MAX_NUMBER: u64 = 1 << 62;

/// The levels of one keyspace, and the options that they are merged by, without a store.
///
/// As text it is TOML. `keyspace` is a name. `[options]` has the names of [`Options`]; missing
/// options have their defaults. Each `[[sub_levels]]`, from the youngest, has its `level`. It also
/// has `bytes`, `entries` and, if there are any, `tombstones`, or a list of `tables` with these.
/// `keys` is the number of live keys of which each sub-level holds random ones. The drops of merges
/// follow from it, and are unknown without it. Each number in `snapshots` is a snapshot: the number
/// of sub-levels that are younger. [`describe_compaction`](crate::explain::describe_compaction)
/// writes descriptions with further fields.
///
/// Without a list of tables level 0 has one in each sub-level. Other levels have as many as
/// [`KeyspaceOptions::table_bytes`](terrace::KeyspaceOptions::table_bytes) makes, at most 1000, which share
/// the keys evenly. Without ages the policy `Leveled` finds the one sub-level of a level where it left it.
#[derive(Clone, Debug)]
pub struct Description {
    form: Form,
}

impl Description {
    /// Reads a description.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], naming the fault and the accepted values.
    pub fn from_toml(text: &str) -> Result<Self> {
        if text.len() > MAX_BYTES {
            return Err(Error::invalid(format!(
                "a description has {} bytes; it has at most {MAX_BYTES}",
                text.len()
            )));
        }
        let known = without_former(text);
        let mut form: Form =
            toml::from_str(&known).map_err(|error| Error::invalid(toml_refusal(&known, &error)))?;
        form.check()?;
        // Sizes that follow from a bound are known by now: the bound would count them twice.
        form.options = Options {
            memory_bytes: None,
            ..form.options.resolved()?
        };
        let description = Description { form };
        description.described()?;
        Ok(description)
    }

    /// Returns the description as [`Description::from_toml`] reads it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a value that TOML has no form for.
    pub fn to_toml(&self) -> Result<String> {
        self.form.text()
    }

    /// Explains the policy's next choice in these levels.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the policy would break the order of ages: no store has such levels.
    pub fn explain(&self) -> Result<Explanation> {
        let keyspace: KeyspaceExplanation = self.described()?.explain()?;
        Ok(Explanation {
            keyspaces: vec![keyspace],
        })
    }

    pub(crate) fn of_form(form: Form) -> Result<Self> {
        form.check()?;
        Ok(Description { form })
    }

    fn described(&self) -> Result<Described<'_>> {
        Described::new(&self.form)
    }
}

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    #[serde(default = "default_name")]
    pub(crate) keyspace: String,
    #[serde(default)]
    pub(crate) keys: Option<u64>,
    #[serde(default)]
    pub(crate) snapshots: Vec<usize>,
    /// Whether scans have asked level 0 so often that merging it is due.
    #[serde(default)]
    pub(crate) level0_is_paid_for: bool,
    #[serde(default)]
    pub(crate) options: Options,
    #[serde(default)]
    pub(crate) sub_levels: Vec<SubLevelForm>,
    /// Known results of merging runs; they take precedence over `keys`.
    #[serde(default)]
    pub(crate) runs: Vec<RunForm>,
    #[serde(default)]
    pub(crate) under_way: Vec<UnderWayForm>,
}

/// Rewrites options that stores no longer have, as descriptions of earlier releases write them. Constants
/// go to their group, at the end. Options of the default keyspace name their group. No line changes its
/// number.
fn without_former(text: &str) -> String {
    let (mut is_in_options, mut constants) = (false, String::new());
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let trimmed = line.trim();
        let name = trimmed.split(['=', ' ', '\t']).next().unwrap_or_default();
        if trimmed.starts_with('[') {
            is_in_options = trimmed == "[options]";
        }
        let is_constant = is_in_options && FORMER_OPTIONS.contains(&name);
        if is_constant {
            constants.extend([trimmed, "\n"]);
        }
        let is_gone = is_constant || is_in_options && FORMER_LINES.contains(&trimmed);
        let of_keyspace = format!("default_keyspace.{name}");
        let is_of_keyspace = DEFAULT_KEYSPACE
            .iter()
            .any(|entry| entry.name == of_keyspace);
        lines.push(match is_in_options && is_of_keyspace {
            true => format!("default_keyspace.{trimmed}"),
            false if is_gone => String::new(),
            false => line.to_owned(),
        });
    }
    let text = lines.join("\n");
    match constants.is_empty() {
        true => text,
        false => format!("{text}\n[options.constants]\n{constants}"),
    }
}

fn default_name() -> String {
    DEFAULT_NAME.to_owned()
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubLevelForm {
    pub(crate) level: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) age: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) entries: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tombstones: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tables: Vec<TableForm>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tombstones: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) range_tombstones: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) keys: KeysForm,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) narrowed: bool,
}

/// A range of keys, each end as text or in hexadecimal; without them it is all keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) smallest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) smallest_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) largest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) largest_hex: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) largest_excluded: bool,
}

/// Sub-levels from one to another, counted in the list from 0, and the versions that merging them
/// would drop.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunForm {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) droppable: f64,
    /// Droppable versions less those that snapshots keep, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) droppable_now: Option<f64>,
    /// Droppable versions of each of its parts merged alone, in the order of their keys; below 0 if
    /// unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts_droppable: Vec<f64>,
    /// Whether it is not to be tried for its drops.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) put_off: bool,
}

/// A merge that has begun, or will. Missing fields follow from the listed tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnderWayForm {
    pub(crate) tables: Vec<u64>,
    pub(crate) level: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) age: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sub_level: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) youngest_age: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) carried_down: Option<Vec<u64>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) keys: KeysForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Form {
    /// Refuses unusable numbers, naming the field and the accepted values.
    fn check(&self) -> Result<()> {
        check_options(&self.options)?;
        let tables: usize = self.sub_levels.iter().map(|s| s.tables.len()).sum();
        let counts = [
            ("sub_levels", self.sub_levels.len(), MAX_SUB_LEVELS),
            ("snapshots", self.snapshots.len(), MAX_SUB_LEVELS),
            ("runs", self.runs.len(), MAX_SUB_LEVELS * MAX_SUB_LEVELS),
            ("under_way", self.under_way.len(), MAX_UNDER_WAY),
            ("sub_levels.tables", tables, MAX_TABLES),
        ];
        for (name, count, most) in counts {
            if count > most {
                return Err(Error::invalid(format!(
                    "there are {count} {name}; there may be {most}"
                )));
            }
        }
        check_ranges(&[("keys", self.keys.unwrap_or(1), 1, MAX_SUM)])?;
        for &snapshot in &self.snapshots {
            check_ranges(&[("snapshots", snapshot as u64, 0, MAX_SUB_LEVELS as u64)])?;
        }
        let (mut bytes, mut entries) = (0, 0);
        for (at, sub_level) in self.sub_levels.iter().enumerate() {
            sub_level.check(at)?;
            for (sum, more) in [
                (&mut bytes, sub_level.sum(sub_level.bytes, |t| t.bytes)),
                (
                    &mut entries,
                    sub_level.sum(sub_level.entries, |t| t.entries),
                ),
            ] {
                *sum = u64::saturating_add(*sum, more);
                check_ranges(&[("the sum of sub_levels", *sum, 0, MAX_SUM)])?;
            }
        }
        self.check_runs()
    }

    fn check_runs(&self) -> Result<()> {
        for (at, run) in self.runs.iter().enumerate() {
            let last = self.sub_levels.len().saturating_sub(1);
            if run.from > run.to || run.to > last || self.sub_levels.is_empty() {
                return Err(Error::invalid(format!(
                    "runs[{at}] is from {} to {}; sub_levels are counted from 0 to {last}",
                    run.from, run.to
                )));
            }
            let now = run.droppable_now.unwrap_or(0.0);
            let is_number = |droppable: f64| (0.0..=MAX_SUM as f64).contains(&droppable);
            if !is_number(run.droppable) || !is_number(now) || now > run.droppable {
                return Err(Error::invalid(format!(
                    "runs[{at}].droppable is {} and droppable_now is {now}; they must be from 0 to \
                     {MAX_SUM}, the second no larger than the first",
                    run.droppable
                )));
            }
        }
        Ok(())
    }
}

impl SubLevelForm {
    fn sum(&self, whole: Option<u64>, of: impl Fn(&TableForm) -> u64) -> u64 {
        let tables = self.tables.iter().map(of);
        tables.fold(whole.unwrap_or(0), u64::saturating_add)
    }

    fn check(&self, at: usize) -> Result<()> {
        let of = |field: &str| format!("sub_levels[{at}].{field}");
        let whole = [
            ("bytes", self.bytes),
            ("entries", self.entries),
            ("tombstones", self.tombstones),
        ];
        if self.tables.is_empty() {
            let missing = whole.iter().take(2).find(|(_, given)| given.is_none());
            if let Some((field, _)) = missing {
                return Err(Error::invalid(format!(
                    "{} is missing; give bytes and entries, or a list of tables",
                    of(field)
                )));
            }
        } else if let Some((field, _)) = whole.iter().find(|(_, given)| given.is_some()) {
            return Err(Error::invalid(format!(
                "{} is given beside a list of tables; give one of the two",
                of(field)
            )));
        }
        let last_level = LEVELS as u64 - 1;
        let entries = self.entries.unwrap_or(0);
        let age = self.age.unwrap_or(FIRST_FLUSH_AGE);
        check_ranges(&[
            (&of("level"), u64::from(self.level), 0, last_level),
            (&of("age"), age, 1, MAX_NUMBER),
            (&of("number"), self.number.unwrap_or(1), 1, MAX_NUMBER),
            (&of("tombstones"), self.tombstones.unwrap_or(0), 0, entries),
        ])?;
        for (number, table) in self.tables.iter().enumerate() {
            let of = |field: &str| of(&format!("tables[{number}].{field}"));
            check_ranges(&[
                (&of("number"), table.number.unwrap_or(1), 1, MAX_NUMBER),
                (&of("tombstones"), table.tombstones, 0, table.entries),
            ])?;
        }
        Ok(())
    }
}
