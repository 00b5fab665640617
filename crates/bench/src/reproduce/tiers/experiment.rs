//! All runs of one comparison: stores are loaded once, and each run has a copy.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::paper::{self, Placement};
use super::run::Run;
use super::setting::{Memory, Setting};
use super::store::{self, Kind, Loaded};
use crate::Result;
use crate::output::tell;

/// One thing to be compared.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The placement.
    pub placement: Placement,
    /// The store.
    pub kind: Kind,
}

/// Cases that are compared with each other.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name, for people.
    pub name: &'static str,
    /// The cases in their order.
    pub cases: Vec<Case>,
}

/// Findings of an experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Runs in the order in which they were made.
    pub runs: Vec<Run>,
    /// Bytes of the levels of each case when they were loaded.
    pub loaded: Vec<(String, Vec<u64>)>,
}

impl Experiment {
    /// Returns the sweep of data size.
    pub fn sizes() -> Experiment {
        let case = |(paper_gb, published): (f64, f64)| Case {
            name: size_name(paper_gb),
            placement: Placement {
                name: "by capacity",
                levels: &[],
                published: Some(published),
            },
            kind: Kind {
                paper_gb,
                is_sweep: true,
                has_fifth_level: false,
            },
        };
        Experiment {
            name: "data size",
            cases: paper::SIZES.map(case).into(),
        }
    }

    /// Returns the nine placements.
    pub fn placements() -> Experiment {
        Experiment {
            name: "placements",
            cases: placed(&paper::PLACEMENTS, false),
        }
    }

    /// Returns the placements of five levels.
    pub fn five_levels() -> Experiment {
        Experiment {
            name: "five levels",
            cases: placed(&paper::OF_FIVE_LEVELS, true),
        }
    }

    /// Makes all runs in an empty directory.
    ///
    /// # Errors
    /// Those of a store, and an answer that contradicts the graph.
    pub fn hold(&self, setting: &Setting, directory: &Path) -> Result<Found> {
        let home = directory.join("home");
        let mut stores: Vec<(Kind, Loaded)> = Vec::new();
        for case in &self.cases {
            if stores.iter().all(|(kind, _)| *kind != case.kind) {
                tell(&format!(
                    "tiers: {}: load {} GB",
                    self.name, case.kind.paper_gb
                ));
                let kept = directory.join(format!("{}-{}", self.name, stores.len()));
                stores.push((case.kind, store::load(setting, case.kind, &home, kept)?));
            }
        }
        let mut found = Found {
            loaded: self.loaded(&stores),
            ..Found::default()
        };
        for memory in Memory::ALL {
            for repeat in 0..setting.repeats {
                tell(&format!(
                    "tiers: {}: {}, repeat {}",
                    self.name,
                    memory.name(),
                    repeat + 1
                ));
                for case in rotated(&self.cases, repeat, setting.repeats) {
                    let stores = stores.iter();
                    let own = stores.filter(|(kind, _)| *kind == case.kind);
                    for (_, loaded) in own {
                        let run = (&case.placement, memory, repeat);
                        let measurement = store::measure(setting, loaded, &home, run)
                            .map_err(|error| format!("{}: {error}", case.name))?;
                        found
                            .runs
                            .push(Run::of(&case.name, memory, repeat, &measurement));
                    }
                }
            }
        }
        Ok(found)
    }

    fn loaded(&self, stores: &[(Kind, Loaded)]) -> Vec<(String, Vec<u64>)> {
        let of = |case: &Case| {
            let mut stores = stores.iter();
            let (_, loaded) = stores.find(|(kind, _)| *kind == case.kind)?;
            Some((case.name.clone(), loaded.level_bytes.clone()))
        };
        self.cases.iter().filter_map(of).collect()
    }
}

/// Returns the name of a size.
pub fn size_name(paper_gb: f64) -> String {
    format!("{paper_gb} GB")
}

fn placed(placements: &[Placement], has_fifth_level: bool) -> Vec<Case> {
    let case = |placement: &Placement| Case {
        name: placement.name.into(),
        placement: *placement,
        kind: Kind {
            paper_gb: paper::PLACED_GB,
            is_sweep: false,
            has_fifth_level,
        },
    };
    placements.iter().map(case).collect()
}

/// Returns the cases in the order of a repeat. The first ones are spread over the cases, so that a drift of the
/// machine meets all alike.
fn rotated(cases: &[Case], repeat: u32, repeats: u32) -> impl Iterator<Item = &Case> {
    let skip = cases.len() * repeat as usize / repeats.max(1) as usize;
    cases.iter().cycle().skip(skip).take(cases.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repeat_begins_elsewhere_and_has_every_case() {
        let cases = Experiment::placements().cases;
        let order = |repeat| {
            let cases = rotated(&cases, repeat, 3);
            cases.map(|case| case.name.as_str()).collect::<String>()
        };
        assert_eq!(
            [order(0), order(1), order(2)],
            ["ABCDEFGHI", "DEFGHIABC", "GHIABCDEF"]
        );
    }
}
