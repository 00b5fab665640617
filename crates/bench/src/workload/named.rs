//! Workloads by the names that a user types.

use std::collections::BTreeMap;

use super::ycsb::{self, Distribution, UpdateStyle};
use super::{Dataset, Phase, Workload, db_bench, graph, mixgraph, updates};
use crate::keys::KeyForm;
use crate::values::Sizes;

/// Changes that a user may make to a workload. `None` leaves it as its definition has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Records that are loaded.
    pub records: Option<u64>,
    /// Operations of each phase that does not fill a store.
    pub operations: Option<u64>,
    /// Client threads; KVBDEV's default is 15, others' 1.
    pub clients: Option<u32>,
    /// YCSB: how records are chosen.
    pub distribution: Option<Distribution>,
    /// YCSB: the form of an update.
    pub update: UpdateStyle,
    /// Lengths of values, except mixgraph's.
    pub sizes: Option<Sizes>,
    /// The share of their bytes to which values can be compressed.
    pub compression_ratio: Option<f64>,
    /// Client threads of LinkBench's load; by default as many as in the phase behind it, up to 10.
    pub loaders: Option<u32>,
    /// PlexDB's updates: the share of the full volume; by default a fiftieth.
    pub scale: Option<f64>,
}

/// Names besides YCSB's and db_bench's, and their descriptions.
pub const OTHERS: [(&str, &str); 5] = [
    (
        "kvbdev",
        "db_bench's fillseq as KVBDEV ran it: keys of 4 B, values of 32 KiB",
    ),
    (
        "updates",
        "PlexDB's: each key written 10 times on average, in random order",
    ),
    (
        "updates-large",
        "the same with 21 times and five times the volume",
    ),
    ("mixgraph", "RocksDB's model of a social graph's load"),
    (
        "linkbench",
        "a social graph in four tables, changed by transactions",
    ),
];

/// Returns every name and its description, for help.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let ycsb = ycsb::MIXES.into_iter();
    ycsb.chain(db_bench::BENCHMARKS).chain(OTHERS)
}

/// Returns the workload of a name, or of several with commas between them: YCSB's among themselves
/// (A,B,F), or db_bench's (fillrandom,readrandom). Workloads of YCSB that insert leave more records
/// than the next one knows of: it gets a load of its own.
pub fn named(name: &str, options: &Options) -> Option<Workload> {
    let parts: Vec<&str> = name.split(',').map(str::trim).collect();
    let (dataset, mut phases) = ycsb_phases(&parts, options)
        .or_else(|| db_bench_phases(&parts, options))
        .or_else(|| other_phases(name, options))?;
    tell_apart(&mut phases);
    Some(Workload {
        name: name.to_owned(),
        dataset,
        phases,
    })
}

/// Gives a phase that comes again a name of its own, and with it other draws: it is not to find in
/// memory the records that the first one left there. Loads are of the same records.
fn tell_apart(phases: &mut [Phase]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for phase in phases.iter_mut().filter(|phase| !phase.starts_empty) {
        let times = seen.entry(phase.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            phase.name = format!("{} ({times})", phase.name);
        }
    }
}

type Phases = (Dataset, Vec<Phase>);

impl Options {
    fn clients(&self) -> u32 {
        self.clients.unwrap_or(1)
    }

    fn applied_to(&self, dataset: Dataset) -> Dataset {
        Dataset {
            records: self.records.unwrap_or(dataset.records),
            sizes: self.sizes.unwrap_or(dataset.sizes),
            compression_ratio: self.compression_ratio.unwrap_or(dataset.compression_ratio),
            ..dataset
        }
    }
}

fn ycsb_phases(names: &[&str], options: &Options) -> Option<Phases> {
    const RECORDS: u64 = 1_000_000;
    let clustered = matches!(options.distribution, Some(Distribution::Clustered { .. }));
    let dataset = options.applied_to(Dataset {
        records: RECORDS,
        // Hot ranges of records are to be hot ranges of keys.
        key_form: if clustered {
            KeyForm::YcsbOrdered
        } else {
            KeyForm::Ycsb
        },
        sizes: Sizes::YCSB,
        compression_ratio: 1.0,
    });
    let operations = options.operations.unwrap_or(dataset.records);
    let clients = options.clients();
    let mut phases = Vec::new();
    let mut loaded = false;
    for name in names {
        let (distribution, update) = (options.distribution, options.update);
        let phase = ycsb::phase(name, &dataset, operations, clients, distribution, update)?;
        if !loaded && !phase.starts_empty {
            phases.push(ycsb::load(&dataset, clients));
        }
        loaded = !ycsb::Mix::named(name, update).is_some_and(|mix| mix.inserts > 0.0);
        phases.push(phase);
    }
    Some((dataset, phases))
}

fn db_bench_phases(names: &[&str], options: &Options) -> Option<Phases> {
    let benchmarks = names.iter().map(|name| db_bench::Benchmark::named(name));
    let benchmarks: Vec<_> = benchmarks.collect::<Option<_>>()?;
    let dataset = options.applied_to(Dataset {
        records: 1_000_000,
        key_form: KeyForm::DB_BENCH,
        sizes: Sizes::Fixed { bytes: 100 },
        compression_ratio: 0.5,
    });
    let phases = db_bench::phases(&benchmarks, &dataset, options.operations, options.clients());
    Some((dataset, phases))
}

fn other_phases(name: &str, options: &Options) -> Option<Phases> {
    Some(match name {
        "kvbdev" => {
            let dataset = options.applied_to(Dataset {
                records: 1_000_000,
                key_form: KeyForm::FOUR_BYTES,
                sizes: Sizes::Fixed { bytes: 32 << 10 },
                compression_ratio: 0.5,
            });
            let clients = options.clients.unwrap_or(15);
            (dataset, vec![db_bench::kvbdev(&dataset, clients)])
        }
        "mixgraph" => {
            let dataset = Options {
                sizes: None,
                ..*options
            };
            let dataset = dataset.applied_to(mixgraph::dataset(mixgraph::RECORDS));
            let operations = options.operations.unwrap_or(mixgraph::OPERATIONS);
            let phases = mixgraph::phases(&dataset, operations, options.clients());
            (dataset, phases)
        }
        "linkbench" => {
            let nodes = options.records.unwrap_or(graph::NODES);
            let operations = options.operations.unwrap_or(2 * nodes);
            let clients = options.clients();
            let loaders = options.loaders.unwrap_or(clients.min(graph::MAX_LOADERS));
            let phases = graph::phases(nodes, operations, (loaders, clients));
            (graph::dataset(nodes), phases)
        }
        "updates" => update_phases(updates::Updates::USUAL, options),
        "updates-large" => update_phases(updates::Updates::LARGE, options),
        _ => return None,
    })
}

fn update_phases(how: updates::Updates, options: &Options) -> Phases {
    const SCALE: f64 = 0.02;
    let dataset = updates::dataset(how, options.scale.unwrap_or(SCALE));
    let mut dataset = options.applied_to(dataset);
    dataset.records = how.whole_groups(dataset.records);
    let phase = updates::phase(how, &dataset, options.clients());
    (dataset, vec![phase])
}
