//! Medians of the runs, side by side, and how Terrace stands to the best of the others.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::arguments::Plan;
use crate::measure::Better;
use crate::runs::Finished;
use crate::settings::Settings;
use crate::stores::StoreName;
use crate::workloads::{Scale, Workload};

/// The runs and what follows from them.
#[derive(Serialize)]
pub struct Report<'a> {
    settings: &'a Settings,
    scale: &'a Scale,
    stores: &'a [StoreName],
    figures: Vec<Figure>,
    runs: &'a [Finished],
}

/// One metric of one workload, for every store.
#[derive(Serialize)]
struct Figure {
    workload: Workload,
    metric: String,
    better: Better,
    spreads: BTreeMap<StoreName, Spread>,
    terrace_to_best_peer: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Spread {
            median,
            least,
            most,
        })
    }
}

impl<'a> Report<'a> {
    pub fn of(plan: &'a Plan, runs: &'a [Finished]) -> Self {
        Report {
            settings: &plan.settings,
            scale: &plan.scale,
            stores: &plan.stores,
            figures: figures(runs),
            runs,
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |words: String| writeln!(text, "{words}").unwrap_or_default();
        line(format!("each store: {}", self.settings.describe()));
        line(format!(
            "{} rows of 16 + {} bytes, {} reads, {} durable writes, seed {}",
            self.scale.rows,
            self.scale.value_bytes,
            self.scale.reads,
            self.scale.durable_writes,
            self.scale.seed
        ));
        let mut workload = None;
        for figure in &self.figures {
            if workload.replace(figure.workload) != Some(figure.workload) {
                line(String::new());
                for words in self.head(figure.workload) {
                    line(words);
                }
            }
            line(self.row(figure));
        }
        text
    }

    /// Name, durability of each store, and the names of the columns.
    fn head(&self, workload: Workload) -> Vec<String> {
        let of_store = |store: &StoreName| {
            let mut runs = self.runs.iter();
            let run = runs.find(|run| run.workload == workload && run.store == *store)?;
            Some(format!("   {}: {}", store.name(), run.outcome.durability))
        };
        let mut names = format!("   {:<42}{:<7}", "median [least..most]", "better");
        for store in self.stores {
            names += &format!("{:>30}", store.name());
        }
        let mut lines = vec![workload.name().to_string()];
        lines.extend(self.stores.iter().filter_map(of_store));
        lines.push(names + "   terrace / best peer");
        lines
    }

    fn row(&self, figure: &Figure) -> String {
        let better = match figure.better {
            Better::More => "more",
            Better::Less => "less",
        };
        let mut row = format!("   {:<42}{better:<7}", figure.metric);
        for store in self.stores {
            let cell = figure.spreads.get(store).map_or(String::new(), |spread| {
                let [median, least, most] = [spread.median, spread.least, spread.most].map(number);
                match spread.least < spread.most {
                    true => format!("{median} [{least}..{most}]"),
                    false => median,
                }
            });
            row += &format!("{cell:>30}");
        }
        if let Some(ratio) = figure.terrace_to_best_peer {
            row += &format!("   {ratio:.2}");
        }
        row
    }
}

/// The figures of all runs, in the order in which the runs gave them.
fn figures(runs: &[Finished]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for run in runs {
        for metric in &run.outcome.metrics {
            let known =
                |figure: &Figure| figure.workload == run.workload && figure.metric == metric.name;
            if !figures.iter().any(known) {
                figures.push(Figure {
                    workload: run.workload,
                    metric: metric.name.clone(),
                    better: metric.better,
                    spreads: spreads(runs, run.workload, &metric.name),
                    terrace_to_best_peer: None,
                });
            }
        }
    }
    for figure in &mut figures {
        figure.terrace_to_best_peer = ratio(figure);
    }
    figures
}

fn spreads(runs: &[Finished], workload: Workload, metric: &str) -> BTreeMap<StoreName, Spread> {
    let mut values: BTreeMap<StoreName, Vec<f64>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.workload == workload) {
        let found = run
            .outcome
            .metrics
            .iter()
            .filter(|found| found.name == metric);
        let of_store = values.entry(run.store).or_default();
        of_store.extend(found.map(|found| found.value));
    }
    values
        .into_iter()
        .filter_map(|(store, values)| Some((store, Spread::of(values)?)))
        .collect()
}

fn ratio(figure: &Figure) -> Option<f64> {
    let own = figure.spreads.get(&StoreName::Terrace)?.median;
    let peers = figure.spreads.iter();
    let peers = peers.filter(|(store, _)| **store != StoreName::Terrace);
    let medians = peers.map(|(_, spread)| spread.median);
    let best = match figure.better {
        Better::More => medians.max_by(f64::total_cmp),
        Better::Less => medians.min_by(f64::total_cmp),
    }?;
    (best > 0.0).then(|| own / best)
}

/// Three digits or all of the whole ones, thousands apart.
fn number(value: f64) -> String {
    if value < 99.95 {
        return format!("{value:.*}", if value < 9.995 { 2 } else { 1 });
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Metric;
    use crate::workloads::Outcome;

    fn run(store: StoreName, more: f64, less: f64) -> Finished {
        Finished {
            workload: Workload::Load,
            store,
            outcome: Outcome {
                durability: String::new(),
                metrics: vec![Metric::more("more", more), Metric::less("less", less)],
                compared: 1,
            },
        }
    }

    #[test]
    fn medians_are_compared_with_the_best_peer() {
        let runs = [
            run(StoreName::Terrace, 30.0, 1.0),
            run(StoreName::Fjall, 10.0, 4.0),
            run(StoreName::Terrace, 10.0, 1.0),
            run(StoreName::Fjall, 10.0, 4.0),
            run(StoreName::Terrace, 20.0, 1.0),
        ];
        let figures = figures(&runs);
        let names: Vec<_> = figures
            .iter()
            .map(|figure| figure.metric.as_str())
            .collect();
        assert_eq!(names, ["more", "less"]);
        let expected = Spread {
            median: 20.0,
            least: 10.0,
            most: 30.0,
        };
        assert_eq!(figures[0].spreads[&StoreName::Terrace], expected);
        assert_eq!(figures[0].terrace_to_best_peer, Some(2.0));
        assert_eq!(figures[1].terrace_to_best_peer, Some(0.25));
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_are_worth() {
        let shown = [0.0, 1.234, 12.34, 99.96, 1234.4, 1234567.0].map(number);
        assert_eq!(shown, ["0.00", "1.23", "12.3", "100", "1,234", "1,234,567"]);
    }
}
