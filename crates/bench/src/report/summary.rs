//! Who leads a phase, in a sentence that does not say more than the figures do.

use super::figures::{Figure, PhaseFigures, Spread, best};
use super::numbers;
use super::quantities::{Better, Unit};
use crate::operation::OperationKind;

/// Below this factor two stores are called equal: runs on one machine differ by as much.
const NOTEWORTHY: f64 = 1.02;

/// The figure that decides: in a closed loop throughput; in an open loop all are given the same work,
/// and the tail of the most frequent operation tells them apart.
pub fn decisive(rate: Option<f64>, dominant: Option<OperationKind>) -> String {
    match (rate, dominant) {
        (Some(_), Some(kind)) => format!("{}.p99", kind.name()),
        _ => "acknowledged".into(),
    }
}

/// The phase's summary.
pub fn sentence(phase: &PhaseFigures, contestants: &[String]) -> String {
    let lead = lead(phase, contestants);
    let mut sentence = lead.unwrap_or_else(|| "Nothing was measured.".into());
    if phase.rate.is_none()
        && let Some(settled) = settled(phase, contestants)
    {
        sentence.push_str(&settled);
    }
    sentence
}

/// `terrace leads with 412k operations/s, 1.34 times rocksdb.`
fn lead(phase: &PhaseFigures, contestants: &[String]) -> Option<String> {
    let figure = phase.figure(&phase.decisive)?;
    let what = match figure.unit {
        Unit::PerSecond => "operations/s",
        _ => &figure.label,
    };
    let leader = best(&figure.cells, figure.better, 0)?;
    let (leader, own) = at(figure, contestants, leader)?;
    let Some((second, other)) = second(figure, contestants) else {
        return Some(format!("{leader} alone: {} {what}.", own.text));
    };
    let factor = factor(figure.better, own, other);
    let Some(factor) = factor.filter(|factor| *factor >= NOTEWORTHY) else {
        return Some(format!(
            "{leader} and {second} are level: {} and {} {what}.",
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
        "{leader} leads with {} {what}: {relation}{doubt}.",
        own.text
    ))
}

/// A further sentence where background work that is left over changes who leads.
fn settled(phase: &PhaseFigures, contestants: &[String]) -> Option<String> {
    let figure = phase.figure("settled")?;
    if figure.best == phase.figure("acknowledged")?.best {
        return None;
    }
    let (leader, own) = at(figure, contestants, figure.best?)?;
    Some(format!(
        " Until nothing is left to merge, {leader} leads with {} operations/s.",
        own.text
    ))
}

fn at<'a>(
    figure: &'a Figure,
    contestants: &'a [String],
    index: usize,
) -> Option<(&'a str, &'a Spread)> {
    let spread = figure.cells.get(index)?.as_ref()?;
    Some((contestants.get(index)?, spread))
}

/// The best but one.
fn second<'a>(figure: &'a Figure, contestants: &'a [String]) -> Option<(&'a str, &'a Spread)> {
    let leader = best(&figure.cells, figure.better, 0);
    let others = (0..contestants.len()).filter(|index| Some(*index) != leader);
    let present = others.filter_map(|index| at(figure, contestants, index));
    present.reduce(|left, right| {
        let right_wins = match figure.better {
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
