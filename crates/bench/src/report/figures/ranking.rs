//! Leaders of a figure.

use super::{Figure, Spread};
use crate::report::quantities::{Better, Unit};

/// A ratio below this is shown as 0.000, and counts as nothing: three device reads in a million lookups
/// are not better than four.
const LEAST_RATIO: f64 = 0.0005;

impl Figure {
    /// Marks the best of its cells, and sets the first against the others; a contestant that did
    /// not keep the pace has no part in it.
    pub(crate) fn ranked(self, pace_not_kept: &[bool]) -> Figure {
        let mut ranked = of_those_in_pace(&self.cells, pace_not_kept);
        let is_nothing = |cell: &Spread| self.unit == Unit::Ratio && cell.median < LEAST_RATIO;
        for cell in ranked.iter_mut().flatten().filter(|cell| is_nothing(cell)) {
            cell.median = 0.0;
        }
        Figure {
            best: alone_at_the_top(&ranked, self.better),
            advantage: advantage(&ranked, self.better),
            ..self
        }
    }
}

/// Returns the cells of contestants that may lead.
pub fn of_those_in_pace(cells: &[Option<Spread>], pace_not_kept: &[bool]) -> Vec<Option<Spread>> {
    let late = pace_not_kept
        .iter()
        .copied()
        .chain(std::iter::repeat(false));
    let pairs = cells.iter().zip(late);
    pairs
        .map(|(cell, late)| if late { None } else { cell.clone() })
        .collect()
}

/// Returns the best of several; `None` where two share the place.
fn alone_at_the_top(cells: &[Option<Spread>], better: Better) -> Option<usize> {
    let best = best(cells, better, 0)?;
    let median = |cell: &Option<Spread>| cell.as_ref().map(|spread| spread.median);
    let top = cells.get(best).and_then(median);
    let sharing = cells.iter().filter(|cell| median(cell) == top).count();
    (sharing == 1).then_some(best)
}

/// Returns the cell from `first` on with the best median; the earlier one of equals.
pub fn best(cells: &[Option<Spread>], better: Better, first: usize) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, cell) in cells.iter().enumerate().skip(first) {
        let Some(cell) = cell else { continue };
        let wins = best.is_none_or(|(_, value)| match better {
            Better::Higher => cell.median > value,
            Better::Lower => cell.median < value,
        });
        if wins {
            best = Some((index, cell.median));
        }
    }
    best.map(|(index, _)| index)
}

fn advantage(cells: &[Option<Spread>], better: Better) -> Option<f64> {
    let own = cells.first()?.as_ref()?.median;
    let other = cells.get(best(cells, better, 1)?)?.as_ref()?.median;
    let (dividend, divisor) = match better {
        Better::Higher => (own, other),
        Better::Lower => (other, own),
    };
    // Nothing is "infinitely better": where one of the two is 0 there is no factor.
    (divisor > 0.0 && dividend > 0.0).then(|| dividend / divisor)
}
