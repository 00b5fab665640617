//! A contest once more in an open loop, at a pace that its closed loops give.

use std::collections::BTreeMap;

use crate::contest::turns::has_failed;
use crate::contest::{self, Program, Setup};
use crate::outcome::Contest;
use crate::report::figures::median;
use crate::workload::Phase;
use crate::{Error, Result};

/// Returns the phases that have a pace. A load has one only in a plan of loads: elsewhere it
/// prepares a measured phase. A single scan has none.
pub fn phases(all: &[Phase]) -> impl Iterator<Item = &Phase> {
    let only_loads = all.iter().all(|phase| phase.starts_empty);
    all.iter()
        .filter(move |phase| only_loads || !phase.starts_empty)
        .filter(|phase| !phase.counts_rows())
}

/// Runs the same once more at the pace of the best, by the stores that are left.
pub fn add(
    program: &Program,
    setup: &mut Setup,
    contest: &mut Contest,
    percent: f64,
) -> Result<()> {
    pace(setup, contest, percent)?;
    let failures = &contest.failures;
    setup.contestants.retain(|one| !has_failed(one, failures));
    let paced = contest::hold(program, setup)?;
    join(contest, paced);
    Ok(())
}

/// Sets the same phases to a rate that the best store but the first could take.
fn pace(setup: &mut Setup, contest: &Contest, percent: f64) -> Result<()> {
    let first = setup
        .contestants
        .first()
        .map_or("", |contestant| contestant.name);
    for variant in &mut setup.variants {
        let plan = &mut variant.plan;
        for phase in phases(&plan.phases) {
            let name = format!("{}{}", phase.name, plan.label);
            let best = best_rate(contest, &name, first)
                .ok_or_else(|| Error::from(format!("{name} has no figures to be paced by")))?;
            plan.rates
                .insert(phase.name.clone(), best * percent / 100.0);
        }
        plan.label = format!("{}, open loop at {percent} %", plan.label);
    }
    Ok(())
}

/// Returns the best median throughput of a phase among stores but `first`; `first`'s own if it is
/// alone.
fn best_rate(contest: &Contest, phase: &str, first: &str) -> Option<f64> {
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in &contest.runs {
        for found in run.phases.iter().filter(|found| found.name == phase) {
            let rate = found.completed_per_second();
            rates.entry(&run.store).or_default().push(rate);
        }
    }
    for failure in &contest.failures {
        rates.remove(failure.store.as_str());
    }
    if rates.len() > 1 {
        rates.remove(first);
    }
    rates
        .into_values()
        .filter_map(|rates| median(rates.into_iter()))
        .max_by(f64::total_cmp)
}

/// Puts the paced phases behind the others of the same run; the rest was measured once already.
fn join(contest: &mut Contest, paced: Contest) {
    for more in paced.runs {
        // Its label still begins with the label of the earlier run.
        let mut runs = contest.runs.iter_mut();
        let run = runs.find(|run| {
            (&run.store, run.repeat) == (&more.store, more.repeat)
                && more.label.starts_with(&run.label)
        });
        if let Some(run) = run {
            let phases = more.phases.into_iter();
            run.phases
                .extend(phases.filter(|phase| phase.rate.is_some()));
        }
    }
    contest.failures.extend(paced.failures);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Failure, PhaseOutcome, RunOutcome};

    fn contest(runs: &[(&str, &str, f64)]) -> Contest {
        let runs = runs.iter().map(|(store, label, rate)| RunOutcome {
            store: store.to_string(),
            label: label.to_string(),
            phases: vec![PhaseOutcome {
                name: format!("C{label}"),
                operations: *rate as u64,
                acknowledged_s: 1.0,
                rate: label.contains("open").then_some(70.0),
                ..PhaseOutcome::default()
            }],
            ..RunOutcome::default()
        });
        Contest {
            runs: runs.collect(),
            ..crate::report::sample::contest()
        }
    }

    /// A store that failed leaves a hole among the paced runs, which must not shift the others.
    #[test]
    fn paced_phases_stand_in_the_run_of_their_store_and_regime() {
        let mut closed = contest(&[
            ("one", ", fits", 9.0),
            ("one", ", bounded", 9.0),
            ("two", ", fits", 9.0),
            ("two", ", bounded", 9.0),
        ]);
        let open = contest(&[
            ("one", ", bounded, open loop at 70 %", 7.0),
            ("two", ", fits, open loop at 70 %", 7.0),
        ]);
        join(&mut closed, open);
        let phases: Vec<usize> = closed.runs.iter().map(|run| run.phases.len()).collect();
        assert_eq!(phases, [1, 2, 2, 1]);
        assert_eq!(
            closed.runs[1].phases[1].name,
            "C, bounded, open loop at 70 %"
        );
    }

    #[test]
    fn a_single_scan_has_no_pace() {
        let options = crate::workload::Options::default();
        let workload = crate::workload::named("fillseq,readseq,readrandom", &options).unwrap();
        let paced: Vec<&str> = phases(&workload.phases).map(|one| &*one.name).collect();
        assert_eq!(paced, ["readrandom"]);
    }

    #[test]
    fn the_pace_is_that_of_the_best_other_store_that_did_not_fail() {
        let mut contest = contest(&[("one", "", 9.0), ("two", "", 5.0), ("three", "", 7.0)]);
        assert_eq!(best_rate(&contest, "C", "one"), Some(7.0));
        contest.failures = vec![Failure {
            store: "three".into(),
            repeat: 1,
            label: String::new(),
            error: "wrong".into(),
        }];
        assert_eq!(best_rate(&contest, "C", "one"), Some(5.0));
    }
}
