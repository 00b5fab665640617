//! Two stores of a contest, repeat by repeat.

use serde::{Deserialize, Serialize};

use crate::outcome::{Contest, RunOutcome};
use crate::report::figures::median;
use crate::reproduce::report::{Verdict, because};

/// The gain of one store over another in one phase. Each repeat gives one, of runs that followed
/// each other; so a drift of the machine meets both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The phase.
    pub phase: String,
    /// Operations a second of the store that is compared with, median.
    pub baseline_rate: f64,
    /// Median rate of the other.
    pub rate: f64,
    /// Median of all repeats, %.
    pub percent: f64,
    /// Least of all repeats, %.
    pub least_percent: f64,
    /// Greatest, %.
    pub most_percent: f64,
    /// How many repeats.
    pub repeats: usize,
}

impl Gain {
    /// Returns the gain; `None` unless both stores went through the phase in at least one repeat.
    pub fn of(contest: &Contest, phase: &str, store: &str, baseline: &str) -> Option<Gain> {
        let rates = |store: &str| -> Vec<(u32, f64)> {
            let runs = contest.runs.iter().filter(|run| run.store == store);
            runs.filter_map(|run| Some((run.repeat, rate(run, phase)?)))
                .collect()
        };
        let (ours, theirs) = (rates(store), rates(baseline));
        let gains: Vec<f64> = ours
            .iter()
            .filter_map(|(repeat, rate)| {
                let (_, other) = theirs.iter().find(|(other, _)| other == repeat)?;
                Some((rate / other - 1.0) * 100.0)
            })
            .collect();
        let plain = |rates: &[(u32, f64)]| median(rates.iter().map(|(_, rate)| *rate));
        Some(Gain {
            phase: phase.into(),
            baseline_rate: plain(&theirs)?,
            rate: plain(&ours)?,
            percent: median(gains.iter().copied())?,
            least_percent: gains.iter().copied().fold(f64::INFINITY, f64::min),
            most_percent: gains.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            repeats: gains.len(),
        })
    }

    /// Returns whether all repeats lie on one side of no gain. One repeat tells nothing.
    pub fn exceeds_spread(&self) -> bool {
        self.repeats > 1 && (self.least_percent > 0.0 || self.most_percent < 0.0)
    }

    /// Judges a published gain beside it: only its sign can be the same on another machine.
    pub fn verdict(&self, published_percent: f64) -> Verdict {
        if !self.exceeds_spread() {
            Verdict::CannotBeTold
        } else if (self.percent > 0.0) == (published_percent > 0.0) {
            Verdict::Holds
        } else {
            Verdict::DoesNotHold
        }
    }

    /// Returns the gain in words: `+3.4 % [+1.0..+4.2]`.
    pub fn text(&self) -> String {
        match self.spread() {
            Some(spread) => format!("{:+.1} % {spread}", self.percent),
            None => format!("{:+.1} %", self.percent),
        }
    }

    /// Returns the least and the greatest, `[+1.0..+4.2]`; none of one repeat.
    pub fn spread(&self) -> Option<String> {
        let (least, most) = (self.least_percent, self.most_percent);
        (self.repeats > 1).then(|| format!("[{least:+.1}..{most:+.1}]"))
    }

    /// Returns the conditions of the gain, with the reason before them if its repeats do not decide.
    pub fn because(&self, conditions: &str) -> String {
        because(self.repeats, self.exceeds_spread(), conditions)
    }
}

/// Returns the operations a second of a run's phase, to the last acknowledgement.
fn rate(run: &RunOutcome, phase: &str) -> Option<f64> {
    let found = run.phases.iter().find(|found| found.name == phase)?;
    (found.acknowledged_s > 0.0).then(|| found.operations as f64 / found.acknowledged_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::PhaseOutcome;

    fn contest(rates: &[(&str, u32, f64)]) -> Contest {
        let runs = rates.iter().map(|(store, repeat, rate)| RunOutcome {
            store: store.to_string(),
            repeat: *repeat,
            phases: vec![PhaseOutcome {
                name: "A".into(),
                operations: *rate as u64,
                acknowledged_s: 1.0,
                ..PhaseOutcome::default()
            }],
            ..RunOutcome::default()
        });
        Contest {
            runs: runs.collect(),
            ..Contest::default()
        }
    }

    #[test]
    fn gains_are_of_runs_that_followed_each_other() {
        let runs = [
            ("log", 0, 100.0),
            ("region", 0, 110.0),
            ("log", 1, 200.0),
            ("region", 1, 210.0),
            ("log", 2, 50.0),
            ("region", 2, 60.0),
        ];
        let gain = Gain::of(&contest(&runs), "A", "region", "log").unwrap();
        assert!((gain.percent - 10.0).abs() < 1e-9, "{gain:?}");
        assert!((gain.least_percent - 5.0).abs() < 1e-9 && (gain.most_percent - 20.0).abs() < 1e-9);
        assert_eq!((gain.baseline_rate, gain.rate), (100.0, 110.0));
        assert!(gain.exceeds_spread());
        assert_eq!(gain.verdict(2.8), Verdict::Holds);
        assert_eq!(gain.verdict(-2.5), Verdict::DoesNotHold);
        assert_eq!(gain.because("Here."), "Here.");
        assert_eq!(Gain::of(&contest(&runs), "B", "region", "log"), None);
    }

    #[test]
    fn what_lies_on_both_sides_of_nothing_tells_nothing() {
        let runs = [
            ("log", 0, 100.0),
            ("region", 0, 110.0),
            ("log", 1, 100.0),
            ("region", 1, 99.0),
        ];
        let gain = Gain::of(&contest(&runs), "A", "region", "log").unwrap();
        assert_eq!(gain.verdict(5.0), Verdict::CannotBeTold);
        assert_eq!(gain.text(), "+4.5 % [-1.0..+10.0]");
        assert!(
            gain.because("Here.")
                .contains("spread of its repeats. Here.")
        );
    }

    #[test]
    fn one_repeat_has_no_interval_and_decides_nothing() {
        let runs = [("log", 0, 100.0), ("region", 0, 110.0)];
        let one = Gain::of(&contest(&runs), "A", "region", "log").unwrap();
        assert_eq!(one.verdict(5.0), Verdict::CannotBeTold);
        assert_eq!((one.text().as_str(), one.spread()), ("+10.0 %", None));
        assert_eq!(
            one.because("Here."),
            "Not clear: one repeat tells nothing. Here."
        );
    }
}
