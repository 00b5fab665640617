//! The leader of a phase, in a sentence that does not say more than the figures do.

use super::figures::ranking::{best, of_those_in_pace};
use super::figures::{PhaseFigures, Spread};
use super::numbers;
use super::quantities::{Better, Unit};
use crate::operation::OperationKind;

/// Below this factor two stores are called equal: runs on one machine differ by as much.
const NOTEWORTHY: f64 = 1.02;

/// Returns the stable name of the figure that decides. In a closed loop it is throughput. In an
/// open loop all have the same work, and it is the tail of the most frequent operation. It is the
/// slowest in a thousand, for the slowest in a hundred seldom meets a store's background work.
pub fn decisive(rate: Option<f64>, dominant: Option<OperationKind>) -> String {
    match (rate, dominant) {
        (Some(_), Some(kind)) => format!("{}.p99.9", kind.name()),
        _ => "acknowledged".into(),
    }
}

/// Returns the phase's summary.
pub fn sentence(phase: &PhaseFigures, contestants: &[String]) -> String {
    let late: Vec<&str> = contestants
        .iter()
        .zip(&phase.pace_not_kept)
        .filter(|(_, late)| **late)
        .map(|(name, _)| name.as_str())
        .collect();
    let mut sentence = lead(phase, contestants).unwrap_or_else(|| {
        let nothing = if late.is_empty() {
            "Nothing was measured."
        } else {
            "Nobody leads."
        };
        nothing.into()
    });
    if !late.is_empty() {
        sentence.push_str(&format!(" Pace not kept: {}.", late.join(", ")));
    }
    if phase.rate.is_none()
        && let Some(settled) = settled(phase, contestants)
    {
        sentence.push_str(&settled);
    }
    sentence
}

/// Returns `terrace leads with 412k operations/s, 1.34 times rocksdb.`
fn lead(phase: &PhaseFigures, contestants: &[String]) -> Option<String> {
    let figure = phase.figure(&phase.decisive)?;
    let what = match figure.unit {
        Unit::PerSecond => "operations/s",
        _ => &figure.label,
    };
    let cells = of_those_in_pace(&figure.cells, &phase.pace_not_kept);
    let leader = best(&cells, figure.better, 0)?;
    let (leader_name, own) = at(&cells, contestants, leader)?;
    let Some((second, other)) = second(&cells, figure.better, leader, contestants) else {
        let alone = if contestants.len() > 1 && phase.pace_not_kept.contains(&true) {
            "alone in pace"
        } else {
            "alone"
        };
        return Some(format!("{leader_name} {alone}: {} {what}.", own.text));
    };
    let factor = factor(figure.better, own, other);
    let Some(factor) = factor.filter(|factor| *factor >= NOTEWORTHY) else {
        return Some(format!(
            "{leader_name} and {second} are level: {} and {} {what}.",
            own.text, other.text
        ));
    };
    let relation = match figure.better {
        Better::Higher => format!("{} times {second}", numbers::digits(factor)),
        Better::Lower => format!("{second} takes {} times as long", numbers::digits(factor)),
    };
    let doubt = if overlap(own, other) {
        ", though their repeats overlap"
    } else {
        ""
    };
    Some(format!(
        "{leader_name} leads with {} {what}: {relation}{doubt}.",
        own.text
    ))
}

/// Returns a further sentence where background work that is left over changes the lead.
fn settled(phase: &PhaseFigures, contestants: &[String]) -> Option<String> {
    let figure = phase.figure("settled")?;
    if figure.best == phase.figure("acknowledged")?.best {
        return None;
    }
    let (leader, own) = at(&figure.cells, contestants, figure.best?)?;
    Some(format!(
        " Until nothing is left to merge, {leader} leads with {} operations/s.",
        own.text
    ))
}

fn at<'a>(
    cells: &'a [Option<Spread>],
    contestants: &'a [String],
    index: usize,
) -> Option<(&'a str, &'a Spread)> {
    let spread = cells.get(index)?.as_ref()?;
    Some((contestants.get(index)?, spread))
}

/// Returns the best but the leader.
fn second<'a>(
    cells: &'a [Option<Spread>],
    better: Better,
    leader: usize,
    contestants: &'a [String],
) -> Option<(&'a str, &'a Spread)> {
    let others = (0..contestants.len()).filter(|index| *index != leader);
    let present = others.filter_map(|index| at(cells, contestants, index));
    present.reduce(|left, right| {
        let right_wins = match better {
            Better::Higher => right.1.median > left.1.median,
            Better::Lower => right.1.median < left.1.median,
        };
        if right_wins { right } else { left }
    })
}

fn factor(better: Better, own: &Spread, other: &Spread) -> Option<f64> {
    let (dividend, divisor) = match better {
        Better::Higher => (own.median, other.median),
        Better::Lower => (other.median, own.median),
    };
    (divisor > 0.0).then(|| dividend / divisor)
}

fn overlap(left: &Spread, right: &Spread) -> bool {
    left.least <= right.most && right.least <= left.most
}
