//! Explains the merges of a store, or the next one.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use terrace::Error;
use terrace_tools::explain::{
    Description, Explanation, KeyspaceExplanation, LevelTarget, Measured, Plan, PlanKind, Settings,
    Weighed, WeighedStanding,
};

use crate::arguments::{Explain, ExplainCompaction};
use crate::failure::{Failure, Result};
use crate::output::{print, print_bytes, print_json};
use crate::report::{bytes, count, things};
use crate::store;
use crate::text::{escape, shown};

/// A longer file is no description.
const MAX_DESCRIPTION_BYTES: u64 = 16 << 20;

pub fn run(what: &Explain) -> Result<()> {
    match what {
        Explain::Compaction(arguments) => compaction(arguments),
    }
}

fn compaction(arguments: &ExplainCompaction) -> Result<()> {
    if let Some(file) = &arguments.write_description {
        let name = arguments.keyspace.as_deref();
        let description = match &arguments.description {
            Some(_) => {
                return Err(Failure::Usage(
                    "--write-description describes a store; a description is there already"
                        .to_owned(),
                ));
            }
            None => store::compaction_description(arguments, name)?,
        };
        let text = description.to_toml()?;
        if file == Path::new("-") {
            return match io::stdout().is_terminal() {
                true => print(text),
                false => print_bytes(text),
            };
        }
        std::fs::write(file, text).map_err(|error| Failure::file(file, error))?;
        return print(format!("described in {}\n", shown(file)));
    }
    let mut explanation = match &arguments.description {
        Some(file) => of_description(file)?,
        None => store::compaction_explanation(arguments)?,
    };
    if let Some(name) = &arguments.keyspace {
        explanation.keyspaces.retain(|k| k.name == *name);
        if explanation.keyspaces.is_empty() {
            let name = name.clone();
            return Err(Error::NoKeyspace { name }.into());
        }
    }
    match arguments.json {
        true => print_json(&explanation),
        false => print(as_text(&explanation)),
    }
}

fn of_description(file: &Path) -> Result<Explanation> {
    let failed = |error| Failure::file(file, error);
    let opened = File::open(file).map_err(failed)?;
    let mut text = Vec::new();
    let mut limited = opened.take(MAX_DESCRIPTION_BYTES + 1);
    limited.read_to_end(&mut text).map_err(failed)?;
    let wrong = |what: String| Failure::Usage(format!("{}: {what}", shown(file)));
    let text = String::from_utf8(text).map_err(|error| wrong(format!("it is no text: {error}")))?;
    let explained = Description::from_toml(&text).and_then(|described| described.explain());
    explained.map_err(|error| match error {
        Error::InvalidArgument(what) => wrong(what),
        error => error.into(),
    })
}

fn as_text(explanation: &Explanation) -> String {
    let keyspaces = explanation.keyspaces.iter().map(keyspace);
    keyspaces.collect::<Vec<_>>().join("\n")
}

fn keyspace(explained: &KeyspaceExplanation) -> String {
    let mut text = format!(
        "keyspace {}: {}\n",
        escape(explained.name.as_bytes()),
        settings(&explained.settings)
    );
    text.push_str(&decision(explained));
    for (at, merge) in explained.under_way.iter().enumerate() {
        let of = match merge.slices {
            0 => String::new(),
            slices => format!(
                ", {} of {} installed",
                merge.installed_slices,
                things(slices as u64, "slice")
            ),
        };
        text.push_str(&format!(
            "under way {}: {} into level {}{of}, because {}\n",
            at + 1,
            things(merge.tables.len() as u64, "table"),
            merge.output_level,
            merge.reason,
        ));
    }
    text.push_str(&targets(&explained.targets));
    text.push_str(&weighed(explained));
    let oldest = explained.oldest_snapshot.filter(|oldest| oldest.tables > 0);
    if let Some(oldest) = oldest {
        text.push_str(&format!(
            "the oldest snapshot, at number {}, keeps about {} of superseded versions in {}\n",
            count(oldest.sequence),
            bytes(oldest.kept_bytes),
            things(oldest.tables, "table"),
        ));
    }
    for setback in &explained.setbacks {
        text.push_str(&format!(
            "put off: merging {} freed less than predicted; it needs {} and has {}\n",
            label(explained, setback.age),
            things(setback.needed_entries, "version"),
            count(setback.present_entries),
        ));
    }
    text.push_str(&levels(explained));
    text
}

/// Returns the target of each level, on one line.
fn targets(targets: &[LevelTarget]) -> String {
    let Some((deepest, above)) = targets.split_last() else {
        return String::new();
    };
    let above = above.iter();
    let above = above.map(|of| format!("level {} {}, ", of.level, target(of.bytes)));
    let above: String = above.collect();
    format!("targets: {above}level {} what is left\n", deepest.level)
}

fn target(target_bytes: u64) -> String {
    match target_bytes {
        0 => "not used".to_owned(),
        target_bytes => bytes(target_bytes),
    }
}

fn settings(settings: &Settings) -> String {
    let mut shown = vec![format!("policy {}", settings.policy)];
    let mut add = |name: &str, value: Option<String>| {
        shown.extend(value.map(|value| format!("{name} {value}")));
    };
    add(
        "dedup_threshold",
        settings.dedup_threshold.map(|t| t.to_string()),
    );
    add("min_score", settings.min_score.map(|s| s.to_string()));
    add("level0_merge", Some(count(settings.level0_merge as u64)));
    add("level1_bytes", settings.level1_bytes.map(bytes));
    add("level_ratio", Some(count(settings.level_ratio)));
    shown.join(", ")
}

/// Returns the job that is due now, or why none is.
fn decision(explained: &KeyspaceExplanation) -> String {
    if let Some(plan) = &explained.choice {
        return format!("now: {}", planned(explained, plan));
    }
    if let Some(waiting) = &explained.waiting {
        let until: Vec<String> = waiting
            .until
            .iter()
            .map(|at| (at + 1).to_string())
            .collect();
        return format!(
            "now: nothing. It waits for what is under way ({}), and then would {}",
            until.join(", "),
            planned(explained, &waiting.plan)
        );
    }
    let Some(nearest) = explained
        .nearest
        .and_then(|at| explained.candidates.get(at))
    else {
        return "now: nothing. There is nothing that could be merged\n".to_owned();
    };
    let [what, has, due_at] = measured(explained, &nearest.measure);
    format!(
        "now: nothing is due. The nearest is {what}: {has} of {due_at} ({:.0} %)\n",
        nearest.due_share * 100.0
    )
}

fn planned(explained: &KeyspaceExplanation, plan: &Plan) -> String {
    let listed = |age: u64| {
        let mut sub_levels = explained.levels.iter().flat_map(|level| &level.sub_levels);
        sub_levels.any(|sub_level| sub_level.age == age)
    };
    let to = match listed(plan.output_age) {
        true => label(explained, plan.output_age),
        false => format!("level {}", plan.output_level),
    };
    let tables = |count: usize| things(count as u64, "table");
    let verb = match plan.kind {
        PlanKind::Move => "move",
        PlanKind::Removal => "remove",
        _ => "merge",
    };
    let number = plan.inputs.iter().map(|input| input.tables.len()).sum();
    let inputs = plan.inputs.iter().map(|input| {
        format!(
            "{} ({})",
            label(explained, input.age),
            tables(input.tables.len())
        )
    });
    let inputs: Vec<String> = inputs.collect();
    let to = match plan.kind {
        PlanKind::Removal => String::new(),
        _ => format!(" into {to}"),
    };
    let mut text = format!("{verb} {}{to}, because {}\n", tables(number), plan.reason);
    text.push_str(&format!(
        "  takes   {}: {}, {}\n",
        inputs.join(", "),
        bytes(plan.read_bytes),
        things(plan.entries, "version"),
    ));
    text.push_str(
        &match (plan.kind, plan.written_bytes, plan.dropped_entries) {
            (PlanKind::Removal, ..) => "  writes  nothing: the tables go by an edit\n".to_owned(),
            (PlanKind::Move, ..) => "  writes  nothing: the files stay as they are\n".to_owned(),
            (_, Some(written), Some(dropped)) => format!(
                "  writes  about {}, and drops about {}\n",
                bytes(written),
                things(dropped, "version"),
            ),
            _ => format!(
                "  writes  at most {}; what it drops is not known\n",
                bytes(plan.read_bytes)
            ),
        },
    );
    if let Some(score) = plan.score {
        text.push_str(&format!(
            "  gives   {score:.3} bytes for each that it writes\n"
        ));
    }
    text
}

/// Returns a sub-level as its level and, behind a point, its place there from the youngest.
fn label(explained: &KeyspaceExplanation, age: u64) -> String {
    let labelled = explained.levels.iter().find_map(|level| {
        let at = level.sub_levels.iter().position(|s| s.age == age)?;
        Some(format!("{}.{}", level.level, at + 1))
    });
    labelled.unwrap_or_else(|| format!("the sub-level of age {age}"))
}

/// Returns a measure, its present value, and the value from which it is due.
fn measured(explained: &KeyspaceExplanation, measure: &Measured) -> [String; 3] {
    match measure {
        Measured::SubLevels {
            level,
            sub_levels,
            due_at,
        } => [
            format!("level {level}: sub-levels"),
            count(*sub_levels as u64),
            count(*due_at as u64),
        ],
        Measured::Size {
            level,
            bytes: held,
            due_at,
        } => [
            format!("level {level}: size"),
            bytes(*held),
            target(*due_at),
        ],
        Measured::Duplicates {
            level,
            rate,
            due_at,
        } => [
            format!("level {level}: duplicates"),
            format!("{rate:.3}"),
            format!("{due_at:.3}"),
        ],
        Measured::Score {
            sub_levels,
            score,
            due_at,
        } => [
            format!("merge {}: score", ends_of(explained, sub_levels)),
            format!("{score:.3}"),
            format!("{due_at:.3}"),
        ],
        Measured::OtherPolicy { level, sub_levels } => [
            format!("level {level}: of another policy"),
            things(*sub_levels as u64, "sub-level"),
            "any".to_owned(),
        ],
        Measured::Tombstones {
            level,
            percent,
            due_at,
        } => of_level(*level, "tombstones", [*percent, *due_at], "%"),
        Measured::Superseded {
            level,
            percent,
            due_at,
        } => of_level(*level, "superseded versions", [*percent, *due_at], "%"),
        Measured::TombstoneAge {
            level,
            seconds,
            due_at,
        } => of_level(*level, "oldest tombstone", [*seconds, *due_at], "s"),
        Measured::PassedOver { level } => [
            format!("level {level}: tombstones in the way of iterators"),
            "paid for".to_owned(),
            "paid for".to_owned(),
        ],
        Measured::MixedReads { level, tables } => [
            format!("level {level}: reads for different tiers"),
            things(*tables as u64, "table"),
            "any".to_owned(),
        ],
        Measured::Hidden { level, tables } => [
            format!("level {level}: hidden by deleted ranges"),
            things(*tables as u64, "table"),
            "any".to_owned(),
        ],
        _ => [
            "what this release does not know".to_owned(),
            String::new(),
            String::new(),
        ],
    }
}

/// Returns the first and the last sub-level of a run, by their labels.
fn ends_of(explained: &KeyspaceExplanation, run: &[(u8, u64)]) -> String {
    let ends = [run.first(), run.last()];
    let ends = ends
        .into_iter()
        .flatten()
        .map(|(_, age)| label(explained, *age));
    let ends: Vec<String> = ends.collect();
    ends.join(" to ")
}

/// Returns a measure of a level whose numbers have a unit.
fn of_level(level: u8, what: &str, [has, due_at]: [u64; 2], unit: &str) -> [String; 3] {
    [
        format!("level {level}: {what}"),
        format!("{has} {unit}"),
        format!("{due_at} {unit}"),
    ]
}

fn weighed(explained: &KeyspaceExplanation) -> String {
    if explained.candidates.is_empty() {
        return String::new();
    }
    let row = |weighed: &Weighed| {
        let [what, has, due_at] = measured(explained, &weighed.measure);
        let stands = match weighed.standing {
            WeighedStanding::Chosen => "chosen",
            WeighedStanding::MayBegin => "may begin",
            WeighedStanding::Waits => "due, waits",
            WeighedStanding::NotLookedAt => "seems due",
            WeighedStanding::NotDue => "not due",
            _ => "",
        };
        let share = format!("{:.0} %", weighed.due_share * 100.0);
        [what, has, due_at, share, stands.to_owned()]
    };
    let head = ["weighed", "has", "due at", "is at", ""].map(str::to_owned);
    let rows: Vec<[String; 5]> = explained.candidates.iter().map(row).collect();
    let mut text = table(std::iter::once(head).chain(rows).collect());
    if explained.candidates_left_out > 0 {
        let left_out = explained.candidates_left_out as u64;
        text.push_str(&format!(
            "  and {} that give less\n",
            things(left_out, "other run")
        ));
    }
    text
}

fn levels(explained: &KeyspaceExplanation) -> String {
    if explained.levels.is_empty() {
        return "no tables\n".to_owned();
    }
    let mut rows =
        vec![["levels", "size", "versions", "tombstones", "tables", ""].map(str::to_owned)];
    for level in &explained.levels {
        for (at, sub_level) in level.sub_levels.iter().enumerate() {
            let rate = level.duplicate_rate.filter(|_| at == 0);
            let rate = rate.map(|rate| format!("{rate:.2} versions for each that would stay"));
            rows.push([
                format!("{}.{}", level.level, at + 1),
                bytes(sub_level.bytes),
                count(sub_level.entries),
                count(sub_level.tombstones),
                count(sub_level.tables as u64),
                rate.unwrap_or_default(),
            ]);
        }
    }
    table(rows)
}

/// Aligns the first and the last column left, the numbers between them right.
fn table<const COLUMNS: usize>(rows: Vec<[String; COLUMNS]>) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut line = if at == 0 {
            String::new()
        } else {
            "  ".to_owned()
        };
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let first_width = width + if at == 0 { 2 } else { 0 };
            match column {
                0 => line.push_str(&format!("{cell:<first_width$}")),
                _ if column + 1 == COLUMNS => line.push_str(&format!("  {cell}")),
                _ => line.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
