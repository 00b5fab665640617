//! From a contest to its figures: for each phase and contestant, medians over repeats with their spread.
//!
//! The page and the table show the same [`Figures`], so that they cannot tell different stories. A
//! figure that cannot be had is `None`, never 0.

pub(super) mod ranking;

use std::collections::BTreeSet;

use serde::Serialize;

use super::numbers;
use super::quantities::{Better, Quantity, Unit, quantities};
use super::summary;
use crate::operation::OperationKind;
use crate::outcome::{Contest, PhaseOutcome};

/// All figures of a contest.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Names, in the order of their first runs. The first is compared with the others.
    pub contestants: Vec<String>,
    /// The phases, in order.
    pub phases: Vec<PhaseFigures>,
}

/// The figures of one phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseFigures {
    /// Its name.
    pub name: String,
    /// Which of the phases of that name it is, counted from 0.
    pub occurrence: usize,
    /// Client threads.
    pub clients: u32,
    /// Operations a second that were asked for.
    pub rate: Option<f64>,
    /// Operations of a run: the median of all.
    pub operations: u64,
    /// Kinds of operations, in the order of reports.
    pub kinds: Vec<OperationKind>,
    /// The stable name of the figure that decides the lead.
    pub decisive: String,
    /// The leader, in a sentence.
    pub summary: String,
    /// By contestant: the repeat in the middle by the deciding figure, which plots show.
    pub median_repeat: Vec<Option<u32>>,
    /// By contestant: whether it completed fewer operations a second than were asked for. It has then
    /// done another work than the others, so it leads in nothing.
    pub pace_not_kept: Vec<bool>,
    /// The figures, in the order of reports; those that no contestant has are left out.
    pub figures: Vec<Figure>,
}

/// One quantity of one phase, for all contestants.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Stable name.
    pub identifier: String,
    /// Name in words.
    pub label: String,
    /// How values are written.
    pub unit: Unit,
    /// Which end wins.
    pub better: Better,
    /// Values by contestant.
    pub cells: Vec<Option<Spread>>,
    /// Of those that kept the pace, the contestant with the best median; `None` where several share it.
    pub best: Option<usize>,
    /// How many times better the first contestant is than the best of the others: above 1 in its
    /// favour, whichever way is better. `None` if the first did not keep the pace.
    pub advantage: Option<f64>,
}

/// A value over repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Median; of an even number, the mean of the middle two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// Repeats that have the value.
    pub repeats: usize,
    /// Median, for people.
    pub text: String,
    /// Least and greatest, for people; empty for a single repeat.
    pub range: String,
}

/// Computes all figures.
pub fn figures(contest: &Contest) -> Figures {
    let contestants = distinct(contest.runs.iter().map(|run| run.store.clone()));
    let phases = phase_names(contest)
        .into_iter()
        .map(|(name, occurrence)| phase_figures(contest, &contestants, name, occurrence))
        .collect();
    Figures {
        contestants,
        phases,
    }
}

impl PhaseFigures {
    /// Returns the figure of this stable name.
    pub fn figure(&self, identifier: &str) -> Option<&Figure> {
        let mut figures = self.figures.iter();
        figures.find(|figure| figure.identifier == identifier)
    }

    /// Returns the name, with a number behind phases of the same name.
    pub fn title(&self) -> String {
        match self.occurrence {
            0 => self.name.clone(),
            earlier => format!("{} ({})", self.name, earlier + 1),
        }
    }
}

/// Returns the phases that any run went through, in the order of their first appearance.
fn phase_names(contest: &Contest) -> Vec<(String, usize)> {
    distinct(contest.runs.iter().flat_map(|run| {
        run.phases.iter().enumerate().map(|(index, phase)| {
            let before = run.phases.iter().take(index);
            let occurrence = before.filter(|other| other.name == phase.name).count();
            (phase.name.clone(), occurrence)
        })
    }))
}

fn phase_figures(
    contest: &Contest,
    contestants: &[String],
    name: String,
    occurrence: usize,
) -> PhaseFigures {
    let outcomes: Vec<Vec<(u32, &PhaseOutcome)>> = contestants
        .iter()
        .map(|contestant| outcomes_of(contest, contestant, &name, occurrence))
        .collect();
    let all = || outcomes.iter().flatten().map(|(_, outcome)| *outcome);
    let kinds: BTreeSet<OperationKind> = all()
        .flat_map(|outcome| &outcome.latencies)
        .filter(|(_, latency)| latency.count > 0)
        .map(|(kind, _)| *kind)
        .collect();
    let kinds: Vec<OperationKind> = kinds.into_iter().collect();
    let operations = spread(all().map(|outcome| outcome.operations as f64), Unit::Ratio);
    let rate = all().find_map(|outcome| outcome.rate);
    let decisive = summary::decisive(rate, dominant_kind(all()));
    let pace_not_kept: Vec<bool> = outcomes.iter().map(|runs| pace_not_kept(runs)).collect();
    let quantities = quantities(&kinds);
    let median_repeat = match quantities.iter().find(|one| one.identifier == decisive) {
        Some(quantity) => outcomes
            .iter()
            .map(|runs| median_repeat(quantity, runs))
            .collect(),
        None => outcomes.iter().map(|_| None).collect(),
    };
    let figures = quantities
        .into_iter()
        .map(|quantity| figure(quantity, &outcomes, &pace_not_kept))
        .filter(|figure| figure.cells.iter().any(Option::is_some))
        .collect();
    let mut phase = PhaseFigures {
        name,
        occurrence,
        clients: all().next().map_or(0, |outcome| outcome.clients),
        rate,
        operations: operations.map_or(0, |spread| spread.median as u64),
        kinds,
        decisive,
        summary: String::new(),
        median_repeat,
        pace_not_kept,
        figures,
    };
    phase.summary = summary::sentence(&phase, contestants);
    phase
}

/// Returns whether the median of the repeats completed less than nearly all requested operations a
/// second.
fn pace_not_kept(runs: &[(u32, &PhaseOutcome)]) -> bool {
    /// The last operation of a run may be late by a little.
    const NEARLY_ALL: f64 = 0.99;
    let shares = runs
        .iter()
        .filter_map(|(_, run)| Some(run.completed_per_second() / run.rate?));
    spread(shares, Unit::Ratio).is_some_and(|share| share.median < NEARLY_ALL)
}

/// Returns the outcome of a phase in each repeat of a contestant.
pub(super) fn outcomes_of<'a>(
    contest: &'a Contest,
    contestant: &str,
    name: &str,
    occurrence: usize,
) -> Vec<(u32, &'a PhaseOutcome)> {
    let runs = contest.runs.iter().filter(|run| run.store == contestant);
    runs.filter_map(|run| {
        let mut phases = run.phases.iter().filter(|phase| phase.name == name);
        Some((run.repeat, phases.nth(occurrence)?))
    })
    .collect()
}

fn figure(
    quantity: Quantity,
    outcomes: &[Vec<(u32, &PhaseOutcome)>],
    pace_not_kept: &[bool],
) -> Figure {
    let cells: Vec<Option<Spread>> = outcomes
        .iter()
        .map(|runs| {
            let values = runs.iter().filter_map(|(_, run)| quantity.read.of(run));
            spread(values, quantity.unit)
        })
        .collect();
    Figure {
        identifier: quantity.identifier,
        label: quantity.label,
        unit: quantity.unit,
        better: quantity.better,
        cells,
        best: None,
        advantage: None,
    }
    .ranked(pace_not_kept)
}

/// Returns median, least and most; `None` of nothing.
pub(crate) fn spread(values: impl Iterator<Item = f64>, unit: Unit) -> Option<Spread> {
    let values: Vec<f64> = values.collect();
    let median = median(values.iter().copied())?;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = if values.len() > 1 {
        numbers::range(unit, least, most)
    } else {
        String::new()
    };
    Some(Spread {
        median,
        least,
        most,
        repeats: values.len(),
        text: numbers::text(unit, median),
        range,
    })
}

/// Returns the median, of an even number the mean of the middle two; `None` of nothing.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

/// Returns the repeat in the middle: of the middle two, the worse.
fn median_repeat(quantity: &Quantity, runs: &[(u32, &PhaseOutcome)]) -> Option<u32> {
    let mut runs: Vec<(f64, u32)> = runs
        .iter()
        .filter_map(|(repeat, run)| Some((quantity.read.of(run)?, *repeat)))
        .collect();
    runs.sort_by(|left, right| match quantity.better {
        Better::Higher => left.0.total_cmp(&right.0),
        Better::Lower => right.0.total_cmp(&left.0),
    });
    Some(runs.get(runs.len().checked_sub(1)? / 2)?.1)
}

/// Returns the most frequent kind of operation.
fn dominant_kind<'a>(outcomes: impl Iterator<Item = &'a PhaseOutcome>) -> Option<OperationKind> {
    let counts = outcomes.flat_map(|outcome| &outcome.latencies);
    let most = counts.max_by_key(|(_, latency)| latency.count);
    most.map(|(kind, _)| *kind)
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
#[path = "figures/tests.rs"]
mod tests;
