//! The cost model beside the measurement: it knows the traffic of one placement, as an advisor would.

use std::thread;

use serde::{Deserialize, Serialize};
use terrace_lsm::compaction::cost::{
    self, Goal, LevelTraffic, Load, Placement as Predictable, TierCost, Traffic,
};

use super::Figures;
use super::devices::Device;
use super::experiment::{Case, Experiment};
use super::measured::{SMALL_PERCENT, of_case};
use super::run::Run;
use super::setting::{Memory, Setting};
use crate::report::numbers::digits;
use crate::reproduce::plexdb::Figure;
use crate::reproduce::report::{Section, Table};

/// Placement whose traffic the shown predictions take. It has the most requests.
const CALIBRATED_ON: &str = "I";
/// Placements whose traffic is tried.
const SOURCES: [&str; 2] = [CALIBRATED_ON, "A"];
/// The same of five levels.
const CALIBRATED_ON_OF_FIVE: &str = "E5";
/// Processor time of the two changes of threads around a read that waits. Instant devices have no waits.
const WAIT_CPU_US: f64 = 3.0;
/// Pairs that differ by less, or have repeats that overlap, are left out of the check, %.
const PAIR_PERCENT: f64 = 2.0 * SMALL_PERCENT;

/// The prediction for a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The placement.
    pub case: String,
    /// Memory for reads.
    pub memory: Memory,
    /// The placement whose traffic was known.
    pub from: String,
    /// Requests a second.
    pub per_second: f64,
    /// Time that one request of a hundred exceeds.
    pub p99_us: f64,
    /// Price of a million requests.
    pub price_per_million: f64,
}

/// The predictions for all placements beside their measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Memory for reads.
    pub memory: Memory,
    /// The placement whose traffic was known.
    pub from: String,
    /// Pairs of placements whose measured throughput differs by more than a tenth, with repeats that lie apart.
    pub pairs: usize,
    /// Pairs that the predictions order as the measurements do.
    pub ordered: usize,
    /// Largest factor between a prediction and its measurement.
    pub largest_factor: f64,
    /// The placement of that factor.
    pub worst: String,
    /// The placement that the model chooses for its throughput.
    pub chosen: String,
    /// The placement with the most requests measured.
    pub best: String,
    /// Measured throughput of the choice as a share of the best one.
    pub share_of_best: f64,
}

/// Adds the predictions for all placements, and their checks.
pub fn predict(figures: &mut Figures, setting: &Setting) {
    let (nine, five) = (Experiment::placements(), Experiment::five_levels());
    for memory in Memory::ALL {
        for source in SOURCES {
            let runs = &figures.placements.runs;
            let Some(model) = Model::of(runs, source, memory, setting) else {
                continue;
            };
            let predicted = model.predict(&nine.cases);
            figures
                .checks
                .extend(check(figures, &model, &nine.cases, &predicted));
            if source == CALIBRATED_ON {
                figures.predicted.extend(predicted);
            }
        }
        let runs = &figures.five_levels.runs;
        if let Some(model) = Model::of(runs, CALIBRATED_ON_OF_FIVE, memory, setting) {
            figures.predicted.extend(model.predict(&five.cases));
        }
    }
}

/// The knowledge of an advisor.
struct Model {
    memory: Memory,
    from: String,
    traffic: Traffic,
    load: Load,
}

impl Model {
    /// Takes the traffic of a placement, over all repeats; `None` without a run of it.
    fn of(runs: &[Run], from: &str, memory: Memory, setting: &Setting) -> Option<Model> {
        let runs: Vec<&Run> = of_case(runs, from, memory).collect();
        let repeats = runs.len() as f64;
        let mean = |read: fn(&Run) -> f64| runs.iter().map(|run| read(run)).sum::<f64>() / repeats;
        let instant_per_second = mean(|run| run.instant_per_second);
        let processors = thread::available_parallelism().map_or(1, |number| number.get() as u32);
        let traffic = traffic(&runs, setting.scale);
        let reads: u64 = traffic.levels.iter().map(|level| level.reads).sum();
        let waits = reads as f64 / traffic.requests.max(1) as f64;
        (repeats > 0.0 && instant_per_second > 0.0).then(|| Model {
            memory,
            from: from.into(),
            traffic,
            load: Load {
                threads: setting.clients,
                processors,
                // With the flushes and compactions that ran beside the requests.
                cpu_us: f64::from(processors) * 1e6 / instant_per_second + waits * WAIT_CPU_US,
                background_cpu_us: 0.0,
            },
        })
    }

    fn predict(&self, cases: &[Case]) -> Vec<Predicted> {
        let predicted = cases.iter().map(|case| {
            let found = cost::predict(&self.traffic, &tiers(), &predictable(case), self.load);
            Predicted {
                case: case.name.clone(),
                memory: self.memory,
                from: self.from.clone(),
                per_second: found.requests_per_second,
                p99_us: found.p99_latency_us,
                price_per_million: found.price_per_million,
            }
        });
        predicted.collect()
    }

    /// Returns the name of the placement that the model prefers.
    fn choice<'a>(&self, cases: &'a [Case]) -> Option<&'a str> {
        let placements: Vec<Predictable> = cases.iter().map(predictable).collect();
        let (at, _) = cost::best(
            &self.traffic,
            &tiers(),
            &placements,
            self.load,
            Goal::Throughput,
        )?;
        cases.get(at).map(|case| case.name.as_str())
    }
}

/// Returns the counts of runs. Stored bytes are those of the paper's data.
fn traffic(runs: &[&Run], scale: f64) -> Traffic {
    let deepest = runs.iter().map(|run| run.levels.len()).max().unwrap_or(0);
    let level = |number: usize| {
        let levels = || runs.iter().filter_map(|run| run.levels.get(number));
        let sum = |read: fn(&super::LevelTraffic) -> u64| levels().map(read).sum::<u64>();
        let stored_bytes = sum(|level| level.stored_bytes) as f64 / runs.len().max(1) as f64;
        LevelTraffic {
            stored_bytes: (stored_bytes / scale) as u64,
            reads: sum(|level| level.reads),
            read_bytes: sum(|level| level.read_bytes),
            scanned_bytes: 0,
            flushed_bytes: sum(|level| level.flushed_bytes),
            compaction_read_bytes: sum(|level| level.compaction_read_bytes),
            compaction_written_bytes: sum(|level| level.compaction_written_bytes),
        }
    };
    Traffic {
        requests: runs.iter().map(|run| run.requests).sum(),
        levels: (0..deepest).map(level).collect(),
        ..Traffic::default()
    }
}

fn tiers() -> [TierCost; 3] {
    Device::ALL.map(|device| TierCost {
        profile: device.profile(),
        capacity_bytes: None,
    })
}

/// Returns the placement with devices as positions among all.
fn predictable(case: &Case) -> Predictable {
    let levels = case.placement.levels.iter();
    Predictable::new(levels.map(|device| *device as usize).collect::<Vec<_>>())
}

fn check(
    figures: &Figures,
    model: &Model,
    cases: &[Case],
    predicted: &[Predicted],
) -> Option<Check> {
    let measured = |name: &str| {
        let measured = figures.measured(name, model.memory);
        measured.map(|one| one.per_second)
    };
    let both = predicted.iter();
    let both: Vec<(&str, f64, Figure)> = both
        .filter_map(|one| Some((one.case.as_str(), one.per_second, measured(&one.case)?)))
        .collect();
    let (pairs, ordered) = ordered_pairs(&both);
    let factor = |(_, predicted, measured): &(&str, f64, Figure)| {
        (predicted / measured.median).max(measured.median / predicted)
    };
    let worst = both
        .iter()
        .max_by(|one, other| factor(one).total_cmp(&factor(other)))?;
    let best = both
        .iter()
        .max_by(|(.., one), (.., other)| one.median.total_cmp(&other.median))?;
    let chosen = model.choice(cases)?;
    Some(Check {
        memory: model.memory,
        from: model.from.clone(),
        pairs,
        ordered,
        largest_factor: factor(worst),
        worst: worst.0.into(),
        chosen: chosen.into(),
        best: best.0.into(),
        share_of_best: measured(chosen)?.median / best.2.median,
    })
}

/// Returns the number of pairs whose measurements differ by more than a tenth and lie apart, and of those that the
/// predictions order alike.
fn ordered_pairs(both: &[(&str, f64, Figure)]) -> (usize, usize) {
    let (mut pairs, mut ordered) = (0, 0);
    for (_, predicted, slower) in both {
        for (_, other_predicted, faster) in both {
            let is_faster = faster.median > slower.median * (1.0 + PAIR_PERCENT / 100.0);
            if is_faster && faster.least > slower.most {
                pairs += 1;
                ordered += usize::from(other_predicted > predicted);
            }
        }
    }
    (pairs, ordered)
}

/// Shows the checks, if there are any.
pub fn section(figures: &Figures) -> Option<Section> {
    let mut table = Table::new(
        "Predicted and measured throughput of the nine placements [emulated]",
        &[
            "memory",
            "traffic of",
            "pairs apart by 10 %",
            "ordered rightly",
            "largest factor",
            "choice",
            "best measured",
            "choice's share of it",
        ],
    );
    for check in &figures.checks {
        table.rows.push(vec![
            check.memory.name().into(),
            check.from.clone(),
            check.pairs.to_string(),
            check.ordered.to_string(),
            format!("{} ({})", digits(check.largest_factor), check.worst),
            check.chosen.clone(),
            check.best.clone(),
            format!("{:.0} %", check.share_of_best * 100.0),
        ]);
    }
    (!figures.checks.is_empty()).then(|| Section {
        figure: "Advisor".into(),
        title: "the cost model against the measurement".into(),
        emulated: true,
        notes: vec![
            "The model knows the profiles of the devices, the traffic of one placement, and the processor time \
             of a request on devices that take no time. Two changes of threads for each read come on top. The \
             choice is the cheapest of those that it predicts to be as fast as the fastest."
                .into(),
        ],
        tables: vec![table],
        ..Section::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_within_a_tenth_do_not_count_and_equal_predictions_order_none() {
        let spread = |least, median, most| Figure {
            median,
            least,
            most,
        };
        let mut both = [
            ("A", 10.0, spread(90.0, 100.0, 110.0)),
            ("B", 12.0, spread(104.0, 105.0, 106.0)),
            ("E", 12.0, spread(200.0, 300.0, 301.0)),
            ("I", 9.0, spread(310.0, 320.0, 330.0)),
        ];
        // A-E, A-I, B-E and B-I differ; of these A-E alone is ordered as measured.
        assert_eq!(ordered_pairs(&both), (4, 1));
        both[2].2.least = 105.0;
        assert_eq!(
            ordered_pairs(&both),
            (2, 0),
            "repeats of A and E, B and E overlap"
        );
    }

    #[test]
    fn positions_are_those_of_the_tiers() {
        let cases = Experiment::placements().cases;
        let levels = |at: usize| predictable(&cases[at]).levels;
        assert_eq!(levels(0), [2]);
        assert_eq!(levels(7), [0, 0, 0, 1]);
        assert_eq!(tiers()[2].profile, Device::Hdd.profile());
    }
}
