//! LinkBench's phases: the load of a graph, and the requests to it. See [`crate::linkbench`].

use super::{Dataset, Phase, PhaseKind, share};
use crate::keys::KeyForm;
use crate::linkbench::Graph;
use crate::linkbench::request::MIX;
use crate::linkbench::stream::{Loads, Requests};
use crate::operation::Stream;
use crate::values::Sizes;

pub use crate::linkbench::NODES;

/// Returns its records: nodes with their links.
pub fn dataset(nodes: u64) -> Dataset {
    Dataset {
        records: nodes,
        key_form: KeyForm::DbBench { bytes: 8 },
        sizes: Sizes::Graph,
        compression_ratio: 0.5,
    }
}

/// Loaders at full size.
pub const MAX_LOADERS: u32 = 10;

/// Returns the load by some clients, and the requests by others behind it.
pub fn phases(nodes: u64, operations: u64, (loaders, clients): (u32, u32)) -> Vec<Phase> {
    let load = Phase {
        starts_empty: true,
        ..Phase::new("load", PhaseKind::GraphLoad, nodes, loaders)
    };
    let requests = Phase::new("linkbench", PhaseKind::GraphRequests, operations, clients);
    vec![load, requests]
}

/// Makes a stream of nodes to load for each client.
pub(super) fn loads(phase: &Phase, dataset: &Dataset) -> Vec<Box<dyn Stream>> {
    let clients = u64::from(phase.clients);
    (0..clients)
        .map(|client| Box::new(Loads::new(dataset.records, client, clients)) as _)
        .collect()
}

/// Makes a stream of requests for each client, to the graph of a plan's seed.
pub(super) fn requests(
    phase: &Phase,
    dataset: &Dataset,
    plan_seed: u64,
    seed: u64,
) -> Vec<Box<dyn Stream>> {
    let graph = Graph::new(dataset.records, plan_seed);
    (0..u64::from(phase.clients))
        .map(|client| {
            let left = share(phase.operations, phase.clients, client);
            let clients = u64::from(phase.clients);
            Box::new(Requests::new(graph.clone(), seed, left, client, clients)) as _
        })
        .collect()
}

/// Describes the mix in words.
pub(super) fn describe() -> String {
    let shares = MIX.map(|(kind, percent)| format!("{percent:.1} % {}", kind.name()));
    format!("requests: {}", shares.join(", "))
}
