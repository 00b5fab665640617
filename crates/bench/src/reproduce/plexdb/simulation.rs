//! Runs that need more data than there is time for, and a store that is not here: the paper's runs
//! at full scale and LSM-trie, by simulation.
//!
//! The policies are Terrace's own, and choose merges of tables of which only sizes are known
//! (`terrace_tools::simulate`). Shapes are those of the measured points. Merges take no time there.

use serde::{Deserialize, Serialize};
use terrace_tools::simulate::{KeyDistribution, Outcome, Simulation, TreeKind, TrieForm};

use super::paper;
use super::points::{LEVELED, POINTS, Point, TIERED};
use super::setting::Setting;
use crate::Result;
use crate::report::numbers::digits;
use crate::reproduce::report::{self, Claim, Plot, Section, Table, Verdict, Whose};
use crate::settings::Settings;
use crate::stores::terrace::options;
use crate::workload::updates::Updates;

/// A number published as about another holds within a tenth of it.
const ABOUT: f64 = 1.1;
/// LSM-trie with write buffers like those of the others.
pub const TRIE: &str = "lsm-trie";
/// The same with the tables of its own paper, whatever the data.
pub const TRIE_32: &str = "lsm-trie-32-mb";
const TRIE_TABLE_BYTES: u64 = 32 << 20;
const DEDUP_1_6: &str = "terrace-dedup-1.6";
/// Points of the larger run, which the paper held at one threshold.
const LARGE_POINTS: [&str; 6] = [
    LEVELED,
    TIERED,
    DEDUP_1_6,
    "terrace-score-0.4",
    TRIE,
    TRIE_32,
];

/// A point under one of the paper's loads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Simulated {
    /// The point's name.
    pub name: String,
    /// The load.
    pub updates: Updates,
    /// Bytes of a write buffer.
    pub buffer_bytes: u64,
    /// Its costs.
    pub outcome: Outcome,
}

/// Simulates both loads under every point.
///
/// # Errors
/// None, as long as points can be simulated.
pub fn simulated() -> Result<Vec<Simulated>> {
    let mut all = Vec::new();
    for updates in [Updates::USUAL, Updates::LARGE] {
        let own = POINTS.iter().filter(|point| point.is_terrace());
        for point in own {
            let setting = Setting::at_full_scale(updates);
            all.extend(of_point(point.name, Some(point), &setting, updates)?);
        }
        for (name, buffer_bytes) in [(TRIE, None), (TRIE_32, Some(TRIE_TABLE_BYTES))] {
            let full = Setting::at_full_scale(updates);
            let setting = Setting {
                buffer_bytes: buffer_bytes.unwrap_or(full.buffer_bytes),
                ..full
            };
            all.extend(of_point(name, None, &setting, updates)?);
        }
    }
    Ok(all)
}

/// Simulates a point, or an LSM-trie without one; `None` if the paper did not try it with this
/// load.
fn of_point(
    name: &str,
    point: Option<&Point>,
    setting: &Setting,
    updates: Updates,
) -> Result<Option<Simulated>> {
    if updates == Updates::LARGE && !LARGE_POINTS.contains(&name) {
        return Ok(None);
    }
    let settings = Settings {
        own: point.map(|point| point.told(setting)).unwrap_or_default(),
        ..setting.settings()
    };
    let key_bytes = setting.dataset().key_form.bytes();
    let simulation = Simulation {
        keys: setting.records,
        key_bytes,
        value_bytes: setting.data_bytes() / setting.records.max(1) - key_bytes,
        writes: setting.records * u64::from(1 + updates.mean),
        distribution: KeyDistribution::Shuffled,
        tree: match point {
            Some(_) => TreeKind::Levels,
            None => TreeKind::Trie(TrieForm::default()),
        },
        options: options(&settings, &[])?,
        ..Simulation::default()
    };
    Ok(Some(Simulated {
        name: name.into(),
        updates,
        buffer_bytes: setting.buffer_bytes,
        outcome: simulation.run(&mut |_| ())?,
    }))
}

/// Returns a section labelled as simulated.
pub fn section(simulated: &[Simulated]) -> Section {
    let runs = [Updates::USUAL, Updates::LARGE];
    Section {
        figure: "By simulation".into(),
        title: "the runs of 20 GB and of 100 GB, and LSM-trie".into(),
        notes: notes(),
        tables: runs.map(|run| table(simulated, run)).into(),
        plots: runs.map(|run| plot(simulated, run)).into(),
        ..Section::default()
    }
}

fn notes() -> Vec<String> {
    [
        "Nothing of this section was measured. Terrace's policies chose merges of tables of which only \
         sizes and spans of writes are known; of what a store does they are within a tenth. Merges take no \
         time, so that no load outruns them.",
        "Write buffers are a hundredth of the distinct data, and shapes those of the measured points. \
         LSM-trie has eight tables in a node and eight children, merges a node only when it is full, and \
         never in its last level, the first one of which full nodes hold all keys; its tables are as large as \
         a write buffer, or have the 32 MB of its own paper. Its files are taken for Terrace's.",
        "What is published stands beside the space when all is written and settled: the paper does not say \
         at which moment it looked.",
    ]
    .map(str::to_string)
    .into()
}

fn title(updates: Updates) -> String {
    let volume = updates.full_bytes() / 1e9;
    format!("{volume:.0} GB, {} updates a key (simulated)", updates.mean)
}

fn of_run(simulated: &[Simulated], updates: Updates) -> impl Iterator<Item = &Simulated> {
    simulated.iter().filter(move |one| one.updates == updates)
}

fn table(simulated: &[Simulated], updates: Updates) -> Table {
    let mut table = Table::new(
        &title(updates),
        &[
            "store",
            "written, load",
            "written, settled",
            "space, second half",
            "space, peak",
            "space, settled",
            "published space",
            "published writes",
        ],
    );
    let (space, writes) = published(updates);
    for one in of_run(simulated, updates) {
        let outcome = &one.outcome;
        let of_paper = |numbers: &[(&str, f64)]| {
            let number = paper_name(&one.name).and_then(|name| paper::of(numbers, name));
            number.map_or("-".to_string(), |number| {
                format!("about {}", digits(number))
            })
        };
        let figures = [
            outcome.write_amplification,
            outcome.settled_write_amplification,
            outcome.space.mean,
            outcome.space.peak,
            outcome.space.settled,
        ];
        let mut row = vec![one.name.clone()];
        row.extend(figures.map(digits));
        row.extend([of_paper(space), of_paper(writes)]);
        table.rows.push(row);
    }
    table
}

/// A figure of the paper for each store.
type Numbers = &'static [(&'static str, f64)];

/// Returns space and writes, as far as the paper has them.
fn published(updates: Updates) -> (Numbers, Numbers) {
    match updates == Updates::LARGE {
        true => (&paper::LARGE_SPACE, &[]),
        false => (&paper::SPACE, &paper::WRITES),
    }
}

/// Returns the paper's name for the counterpart of a point.
fn paper_name(name: &str) -> Option<&'static str> {
    match name {
        LEVELED => Some("LevelDB"),
        TRIE | TRIE_32 => Some("LSM-trie"),
        name => Point::named(name)?.paper,
    }
}

fn plot(simulated: &[Simulated], updates: Updates) -> Plot {
    Plot {
        title: format!("Space against writes, {}", title(updates)),
        across: "space, times the distinct data (second half of the load)".into(),
        up: "write amplification (settled)".into(),
        is_linear_up: false,
        points: of_run(simulated, updates).map(point).collect(),
    }
}

fn point(one: &Simulated) -> report::Point {
    report::Point {
        label: format!("{} (simulated)", one.name),
        whose: Whose::Ours,
        across: one.outcome.space.mean,
        up: one.outcome.settled_write_amplification,
        curve: Point::named(&one.name)
            .and_then(Point::curve)
            .map(str::to_string),
    }
}

/// Returns LSM-trie as a point beside the measured ones of the same load.
pub fn trie_point(simulated: &[Simulated]) -> Option<report::Point> {
    let found = of_run(simulated, Updates::USUAL).find(|one| one.name == TRIE);
    found.map(point)
}

/// Returns the paper's claims on LSM-trie and on the larger run.
pub fn claims(simulated: &[Simulated]) -> Vec<Claim> {
    let found = Found(simulated);
    let all = [
        found.trie_space(),
        found.trie_writes(),
        found.large_trie_space(),
        found.large_space(),
        found.large_writes(),
    ];
    let label = |claim: Claim| Claim {
        because: format!("By simulation. {}", claim.because)
            .trim_end()
            .into(),
        ..claim
    };
    all.into_iter().flatten().map(label).collect()
}

struct Found<'a>(&'a [Simulated]);

impl Found<'_> {
    fn outcome(&self, updates: Updates, name: &str) -> Option<&Outcome> {
        let found = of_run(self.0, updates).find(|one| one.name == name);
        found.map(|one| &one.outcome)
    }

    /// Returns the space when all is written.
    fn space(&self, updates: Updates, name: &str) -> Option<f64> {
        Some(self.outcome(updates, name)?.space.settled)
    }

    fn written(&self, updates: Updates, name: &str) -> Option<f64> {
        Some(self.outcome(updates, name)?.settled_write_amplification)
    }

    fn trie_space(&self) -> Option<Claim> {
        let space = |name| self.space(Updates::USUAL, name);
        let (own, fixed) = (space(TRIE)?, space(TRIE_32)?);
        Some(Claim {
            claim: "LSM-trie takes above 11 times the space of the distinct data".into(),
            paper: "above 11".into(),
            ours: format!("{}, with tables of 32 MB {}", digits(own), digits(fixed)),
            verdict: held(own.max(fixed) >= 11.0 / ABOUT),
            because: "All versions of all keys are ten times the distinct data; merges of full nodes drop \
                      what they meet twice."
                .into(),
        })
    }

    fn trie_writes(&self) -> Option<Claim> {
        let written = |name| self.written(Updates::USUAL, name);
        let (trie, lower) = (written(TRIE)?, written(DEDUP_1_6)?);
        let upper = written("terrace-dedup-1.8")?;
        Some(Claim {
            claim: "Above 1.6 PlexDB writes about as little as LSM-trie".into(),
            paper: "so, in a figure".into(),
            ours: format!(
                "at 1.6 {}, at 1.8 {}, LSM-trie {}",
                digits(lower),
                digits(upper),
                digits(trie)
            ),
            verdict: held(upper <= trie * ABOUT),
            because: String::new(),
        })
    }

    fn large_trie_space(&self) -> Option<Claim> {
        let space = |name| self.space(Updates::LARGE, name);
        let (own, fixed) = (space(TRIE)?, space(TRIE_32)?);
        let published = paper::of(&paper::LARGE_SPACE, "LSM-trie")?;
        Some(Claim {
            claim: "At 100 GB and 20 updates a key LSM-trie takes near 18 times the space of the \
                    distinct data"
                .into(),
            paper: "near 18".into(),
            ours: format!("{}, with tables of 32 MB {}", digits(own), digits(fixed)),
            verdict: held(is_about(own, published) || is_about(fixed, published)),
            because:
                "The smaller a node's tables are for the data, the fewer versions of a key meet in \
                      it."
                .into(),
        })
    }

    fn large_space(&self) -> Option<Claim> {
        let space = |name| self.space(Updates::LARGE, name);
        let (leveled, dedup) = (space(LEVELED)?, space(DEDUP_1_6)?);
        let most = paper::of(&paper::LARGE_SPACE, "LevelDB")? * ABOUT;
        Some(Claim {
            claim:
                "At 100 GB LevelDB and PlexDB, at 1.6, take no more than near 2 times the space of \
                    the distinct data"
                    .into(),
            paper: "near 2".into(),
            ours: format!(
                "{LEVELED} {}, {DEDUP_1_6} {}",
                digits(leveled),
                digits(dedup)
            ),
            verdict: held(leveled.max(dedup) <= most),
            because: format!("{LEVELED} stands for LevelDB."),
        })
    }

    fn large_writes(&self) -> Option<Claim> {
        let mut ours = Vec::new();
        let mut all_up = true;
        for name in [LEVELED, DEDUP_1_6, TRIE] {
            let small = self.written(Updates::USUAL, name)?;
            let large = self.written(Updates::LARGE, name)?;
            all_up &= large > small;
            ours.push(format!("{name} {} to {}", digits(small), digits(large)));
        }
        Some(Claim {
            claim: "From 20 GB to 100 GB write amplification goes up for all".into(),
            paper: "so, in a figure".into(),
            ours: ours.join(", "),
            verdict: held(all_up),
            because: "Write buffers are a hundredth of the distinct data in both, so that levels are not \
                      more; what grows are the writes that come after the levels are full."
                .into(),
        })
    }
}

fn is_about(value: f64, published: f64) -> bool {
    value <= published * ABOUT && value >= published / ABOUT
}

fn held(holds: bool) -> Verdict {
    match holds {
        true => Verdict::Holds,
        false => Verdict::DoesNotHold,
    }
}

#[cfg(test)]
mod tests;
