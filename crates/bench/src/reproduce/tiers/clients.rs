//! LinkBench's clients, for a time or a number of requests, and the requests that are left.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::linkbench::perform::GraphStore;
use crate::measure::latencies::Latencies;
use crate::operation::Stream;
use crate::outcome::Latency;
use crate::run::client::{Client, ClientOutcome, Count, Shared};
use crate::run::pace::Pace;
use crate::run::start::Start;
use crate::store::Opened;
use crate::values::Values;
use crate::workload::Dataset;

/// Time between two looks at the clients.
const LOOK: Duration = Duration::from_millis(2);

/// The end of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Requests of each client.
    pub requests: u64,
    /// Time of all clients.
    pub time: Option<Duration>,
}

/// Requests that were done.
#[derive(Clone, Debug)]
pub struct Driven {
    /// Number of requests.
    pub requests: u64,
    /// Requests a second: the sum over the clients, each by its own last answer.
    pub per_second: f64,
    /// Bytes of keys and values that were written.
    pub written_bytes: u64,
    /// Latency of requests of all kinds together.
    pub latency: Latency,
}

/// The clients, each with its requests.
pub struct Clients<'a> {
    pub graph: GraphStore<'a>,
    /// A store for requests that are none of a graph.
    pub beside: &'a Opened,
    pub dataset: Dataset,
    pub values: &'a Values,
    pub streams: Vec<Box<dyn Stream>>,
}

impl Clients<'_> {
    /// Runs the clients up to a limit.
    ///
    /// # Errors
    /// Those of the store, and an answer that contradicts the graph.
    pub fn run(&mut self, limit: Limit) -> Result<Driven> {
        let streams = std::mem::take(&mut self.streams);
        let counts: Vec<Count> = streams.iter().map(|_| Count::default()).collect();
        let shared = Shared {
            store: self.beside.store.as_ref(),
            keys: self.dataset.key_form,
            values: self.values,
            graph: Some(self.graph),
            start: Start::of(streams.len() + 1),
            stop: false.into(),
        };
        let outcomes = thread::scope(|scope| {
            let clients = streams.into_iter().zip(&counts);
            let threads: Vec<_> = clients
                .map(|(stream, count)| {
                    let client = Client::new(&shared, stream, Pace::new(None, 0, 1), count);
                    scope.spawn(move || client.run(limit.requests))
                })
                .collect();
            let begun = shared.start.wait();
            let is_over = || limit.time.is_some_and(|time| begun.elapsed() >= time);
            // A client that failed ends, too.
            while !is_over() && !threads.iter().any(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(LOOK);
            }
            let stops_all = limit.time.is_some();
            shared.stop.store(stops_all, Ordering::Relaxed);
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join();
            let joined = threads.into_iter().map(join);
            joined
                .map(|outcome| outcome.unwrap_or_else(|_| Err("a client panicked".into())))
                .collect::<Result<Vec<ClientOutcome>>>()
        })?;
        let driven = driven(&outcomes)?;
        self.streams = outcomes.into_iter().map(|one| one.stream).collect();
        Ok(driven)
    }
}

fn driven(outcomes: &[ClientOutcome]) -> Result<Driven> {
    let mut latencies = Latencies::new()?;
    for one in outcomes {
        latencies.add(&one.latencies)?;
    }
    let rate = |one: &ClientOutcome| one.tally.operations as f64 * 1e9 / one.end_ns.max(1) as f64;
    let sum = |read: fn(&ClientOutcome) -> u64| outcomes.iter().map(read).sum::<u64>();
    Ok(Driven {
        requests: sum(|one| one.tally.operations),
        per_second: outcomes.iter().map(rate).sum(),
        written_bytes: sum(|one| one.tally.written_bytes),
        latency: latencies.of_all()?,
    })
}
