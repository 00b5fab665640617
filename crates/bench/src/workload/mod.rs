//! Workloads: their phases, and the operations of each client of a phase.
//!
//! A [`Workload`] is a [`Dataset`] and the [`Phase`]s that run over it, all of it plain data: a
//! plan travels to the process that runs it. There, [`Phase::streams`] makes one [`Stream`] for
//! each client, the same from the same seed for every store. (Clients that insert side by side take
//! turns at new record numbers as they come, so that only one client alone gives equal streams.)

mod dataset;
pub mod db_bench;
pub mod graph;
mod inserted;
mod live;
mod load;
pub mod mixgraph;
pub mod named;
pub mod updates;
pub mod ycsb;

use serde::{Deserialize, Serialize};

use crate::draw::seed_of;
use crate::operation::Stream;

pub use dataset::Dataset;
pub use inserted::Inserted;
pub use load::LoadOrder;
pub use named::{Options, named, names};

/// A dataset and the work on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name, as it is asked for.
    pub name: String,
    /// The records.
    pub dataset: Dataset,
    /// Phases in order.
    pub phases: Vec<Phase>,
}

impl Workload {
    /// Returns one line of the dataset and one of each phase.
    pub fn describe(&self) -> String {
        let mut lines = vec![format!("{}: {}", self.name, self.dataset.describe())];
        lines.extend(self.phases.iter().map(Phase::describe));
        lines.join("\n")
    }
}

/// A part of a workload that is measured by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `load`, `A`, `readrandom`, ...
    pub name: String,
    /// Its kind.
    pub kind: PhaseKind,
    /// Operations of all clients together, where the workload counts them; a scan is one operation.
    pub operations: u64,
    /// Client threads. [`db_bench::Benchmark::ReadWhileWriting`] has a writer besides.
    pub clients: u32,
    /// Whether it begins with an empty store. Every other one follows a phase that loaded it.
    pub starts_empty: bool,
    /// Whether the time until the store has nothing left to flush or merge is a figure: in every
    /// phase that writes, for a store must still do the work that it puts off.
    pub settles: bool,
    /// Whether each write must survive a power cut, whatever the durability of the other phases.
    pub needs_power_cut_safety: bool,
    /// Whether records may be missing when it begins, as those of the phases before were drawn with
    /// repeats or deleted.
    pub sparse: bool,
}

/// The work of a phase's clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// Each record once.
    Load(LoadOrder),
    /// A mix of YCSB's.
    Ycsb(ycsb::Mix),
    /// One of db_bench's benchmarks.
    DbBench(db_bench::Benchmark),
    /// PlexDB's updates.
    Updates(updates::Updates),
    /// RocksDB's model of a social graph's load.
    Mixgraph(mixgraph::Mix),
    /// LinkBench's load: each record is a node, with its links.
    GraphLoad,
    /// LinkBench's mix of requests.
    GraphRequests,
}

impl PhaseKind {
    /// Returns whether any of its operations writes.
    fn writes(&self) -> bool {
        match self {
            PhaseKind::Load(_)
            | PhaseKind::Updates(_)
            | PhaseKind::GraphLoad
            | PhaseKind::GraphRequests => true,
            PhaseKind::Ycsb(mix) => mix.updates + mix.inserts + mix.read_modify_writes > 0.0,
            PhaseKind::DbBench(benchmark) => benchmark.writes(),
            PhaseKind::Mixgraph(mix) => mix.puts > 0.0,
        }
    }
}

impl Phase {
    /// Makes a phase after a load.
    pub fn new(name: &str, kind: PhaseKind, operations: u64, clients: u32) -> Phase {
        Phase {
            name: name.to_owned(),
            settles: kind.writes(),
            kind,
            operations,
            clients: clients.max(1),
            starts_empty: false,
            needs_power_cut_safety: false,
            sparse: false,
        }
    }

    /// Makes a phase that loads each record of a dataset once, into an empty store, which is then
    /// left to settle.
    pub fn load(dataset: &Dataset, order: LoadOrder, clients: u32) -> Phase {
        Phase {
            starts_empty: true,
            ..Phase::new("load", PhaseKind::Load(order), dataset.records, clients)
        }
    }

    /// Makes one stream for each client.
    pub fn streams(&self, dataset: &Dataset, plan_seed: u64) -> Vec<Box<dyn Stream>> {
        let seed = self.seed(plan_seed);
        match &self.kind {
            PhaseKind::Load(order) => load::streams(*order, dataset.records, self.clients, seed),
            PhaseKind::Ycsb(mix) => ycsb::streams(mix, self, dataset, seed),
            PhaseKind::DbBench(benchmark) => db_bench::streams(*benchmark, self, dataset, seed),
            PhaseKind::Updates(updates) => updates::streams(*updates, self, dataset, seed),
            PhaseKind::Mixgraph(mix) => mixgraph::streams(mix, self, dataset, seed),
            PhaseKind::GraphLoad => graph::loads(self, dataset),
            PhaseKind::GraphRequests => graph::requests(self, dataset, plan_seed, seed),
        }
    }

    /// Returns the version that a record has after this phase of a plan with this seed, where the
    /// phase determines it: after a load, and after PlexDB's updates. Elsewhere clients race, and a
    /// value can be checked against itself only.
    pub fn newest(&self, dataset: &Dataset, seed: u64, record: u64) -> Option<u32> {
        match &self.kind {
            PhaseKind::Load(_) => Some(0),
            PhaseKind::Updates(updates) => {
                Some(updates.newest(dataset.records, self.clients, self.seed(seed), record))
            }
            _ => None,
        }
    }

    /// Returns whether it is LinkBench's, and goes through several tables.
    pub fn is_of_graph(&self) -> bool {
        matches!(self.kind, PhaseKind::GraphLoad | PhaseKind::GraphRequests)
    }

    /// Returns whether the rows of its scans are its operations: where one scan is all there is.
    pub fn counts_rows(&self) -> bool {
        use db_bench::Benchmark::{ReadReverse, ReadSequential};
        matches!(self.kind, PhaseKind::DbBench(ReadSequential | ReadReverse))
    }

    /// Describes the phase in words, for a report.
    pub fn describe(&self) -> String {
        let what = match &self.kind {
            PhaseKind::Load(order) => order.describe().to_owned(),
            PhaseKind::Ycsb(mix) => mix.describe(),
            PhaseKind::DbBench(benchmark) => benchmark.describe(),
            PhaseKind::Updates(updates) => updates.describe(),
            PhaseKind::Mixgraph(mix) => mix.describe(),
            PhaseKind::GraphLoad => "each a node with its links, in one batch or more".to_owned(),
            PhaseKind::GraphRequests => graph::describe(),
        };
        let clients = match self.clients {
            1 => "1 client".to_owned(),
            clients => format!("{clients} clients"),
        };
        format!(
            "{}: {} operations by {clients}, {what}",
            self.name, self.operations
        )
    }

    /// Phases of unlike names draw unlike numbers.
    fn seed(&self, seed: u64) -> u64 {
        seed_of(seed, &self.name)
    }
}

/// Returns how many of `total` one of several clients does.
fn share(total: u64, clients: u32, client: u64) -> u64 {
    let clients = u64::from(clients.max(1));
    total / clients + u64::from(client < total % clients)
}

/// Versions for the updates of one client: unlike those of the others in a phase.
#[derive(Clone, Debug)]
struct VersionNumbers {
    next: u32,
    step: u32,
}

impl VersionNumbers {
    /// Makes the numbers of a client; 0 is the version of inserts.
    fn new(client: u64, clients: u32) -> VersionNumbers {
        VersionNumbers {
            next: client as u32 + 1,
            step: clients,
        }
    }

    fn next(&mut self) -> u32 {
        let version = self.next;
        self.next = self.next.wrapping_add(self.step);
        version
    }
}

#[cfg(test)]
mod tests;
