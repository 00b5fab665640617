//! YCSB's core workloads, and those that papers add to them.

mod client;

use serde::{Deserialize, Serialize};

use super::{Dataset, LoadOrder, Phase, PhaseKind};

pub(super) use client::streams;

/// Shares of operations, and how records are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// Share of reads; the shares add up to 1.
    pub reads: f64,
    /// Share of updates.
    pub updates: f64,
    /// Share of inserts.
    pub inserts: f64,
    /// Share of scans.
    pub scans: f64,
    /// Share of read-modify-writes.
    pub read_modify_writes: f64,
    /// How the record of a read, an update or a scan's start is chosen.
    pub distribution: Distribution,
    /// The form of an update.
    pub update: UpdateStyle,
}

/// How records are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Scrambled zipfian: hot records lie anywhere.
    Zipfian,
    /// All alike.
    Uniform,
    /// The newest most often.
    Latest,
    /// Zipfian by contiguous ranges of records. With keys in the order of records, unless hot ranges
    /// are not to be ranges of keys.
    Clustered {
        /// How many.
        ranges: u64,
    },
}

/// The form of an update. A key-value store has it easier where the whole value is written: nothing
/// is read before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateStyle {
    /// One field, as YCSB has it.
    #[default]
    Field,
    /// The whole value.
    Value,
}

/// Names of the mixes, and their descriptions.
pub const MIXES: [(&str, &str); 10] = [
    ("A", "YCSB A: half reads, half updates, zipfian"),
    ("B", "YCSB B: 95 % reads, 5 % updates, zipfian"),
    ("C", "YCSB C: reads, zipfian"),
    ("D", "YCSB D: 95 % reads of the latest, 5 % inserts"),
    ("E", "YCSB E: 95 % scans of 1 to 100 records, 5 % inserts"),
    ("F", "YCSB F: half reads, half read-modify-writes, zipfian"),
    ("F100", "read-modify-writes only, zipfian"),
    ("G", "inserts into an empty store"),
    ("H", "half inserts, half reads, zipfian"),
    ("uniform", "reads, uniform"),
];

impl Mix {
    /// Returns one of [`MIXES`], in any case. G is a load and no mix.
    pub fn named(name: &str, update: UpdateStyle) -> Option<Mix> {
        let (reads, updates, inserts, scans, read_modify_writes) =
            match name.to_ascii_lowercase().as_str() {
                "a" => (0.5, 0.5, 0.0, 0.0, 0.0),
                "b" => (0.95, 0.05, 0.0, 0.0, 0.0),
                "c" | "uniform" => (1.0, 0.0, 0.0, 0.0, 0.0),
                "d" => (0.95, 0.0, 0.05, 0.0, 0.0),
                "e" => (0.0, 0.0, 0.05, 0.95, 0.0),
                "f" => (0.5, 0.0, 0.0, 0.0, 0.5),
                "f100" => (0.0, 0.0, 0.0, 0.0, 1.0),
                "h" => (0.5, 0.0, 0.5, 0.0, 0.0),
                _ => return None,
            };
        let distribution = match name.to_ascii_lowercase().as_str() {
            "d" => Distribution::Latest,
            "uniform" => Distribution::Uniform,
            _ => Distribution::Zipfian,
        };
        Some(Mix {
            reads,
            updates,
            inserts,
            scans,
            read_modify_writes,
            distribution,
            update,
        })
    }

    /// Describes the mix in words.
    pub fn describe(&self) -> String {
        let written = match self.update {
            UpdateStyle::Field => " of one field",
            UpdateStyle::Value => " of the whole value",
        };
        let parts = [
            (self.reads, "reads", ""),
            (self.updates, "updates", written),
            (self.inserts, "inserts", ""),
            (self.scans, "scans of 1 to 100 records", ""),
            (self.read_modify_writes, "read-modify-writes", written),
        ];
        let parts = parts.iter().filter(|(share, ..)| *share > 0.0);
        let parts: Vec<String> = parts
            .map(|(share, what, how)| format!("{:.0} % {what}{how}", 100.0 * share))
            .collect();
        format!("{}, {}", parts.join(", "), self.distribution.describe())
    }
}

impl Distribution {
    /// Describes the distribution in words.
    pub fn describe(self) -> String {
        match self {
            Distribution::Zipfian => "zipfian".to_owned(),
            Distribution::Uniform => "uniform".to_owned(),
            Distribution::Latest => "the latest most often".to_owned(),
            Distribution::Clustered { ranges } => {
                format!("zipfian over {ranges} contiguous ranges")
            }
        }
    }
}

/// Makes the load that YCSB does.
pub fn load(dataset: &Dataset, clients: u32) -> Phase {
    Phase::load(dataset, LoadOrder::Turns, clients)
}

/// Makes the phase of one of [`MIXES`], after a load; G is that load itself.
pub fn phase(
    name: &str,
    dataset: &Dataset,
    operations: u64,
    clients: u32,
    distribution: Option<Distribution>,
    update: UpdateStyle,
) -> Option<Phase> {
    if name.eq_ignore_ascii_case("g") {
        let mut phase = load(dataset, clients);
        "G".clone_into(&mut phase.name);
        return Some(phase);
    }
    let mut mix = Mix::named(name, update)?;
    mix.distribution = distribution.unwrap_or(mix.distribution);
    let known = MIXES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(Phase::new(
        known.0,
        PhaseKind::Ycsb(mix),
        operations,
        clients,
    ))
}
