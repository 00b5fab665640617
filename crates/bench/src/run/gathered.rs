//! Sums over all clients of a phase.

use std::time::Duration;

use crate::Result;
use crate::measure::completions::Completions;
use crate::measure::latencies::Latencies;
use crate::run::client::{ClientOutcome, Tally};

/// All clients together. Those beside are in the bytes, and counted apart, but not in operations and
/// times.
pub struct Gathered {
    pub latencies: Latencies,
    pub completions: Vec<Completions>,
    pub tally: Tally,
    pub operations_beside: u64,
    pub end_ns: u64,
    pub spun: Duration,
}

impl Gathered {
    pub fn of(clients: &[ClientOutcome]) -> Result<Self> {
        let mut all = Gathered {
            latencies: Latencies::new()?,
            completions: Vec::new(),
            tally: Tally::default(),
            operations_beside: 0,
            end_ns: 0,
            spun: Duration::ZERO,
        };
        for client in clients {
            all.spun += client.spun;
            let (tally, more) = (&mut all.tally, &client.tally);
            tally.inserted_bytes += more.inserted_bytes;
            tally.written_bytes += more.written_bytes;
            tally.read_bytes += more.read_bytes;
            if client.beside {
                all.operations_beside += more.operations;
                continue;
            }
            all.latencies.add(&client.latencies)?;
            tally.deletes += more.deletes;
            tally.operations += more.operations;
            tally.found += more.found;
            tally.missing += more.missing;
            tally.scanned += more.scanned;
            all.completions.push(client.completions.clone());
            all.end_ns = all.end_ns.max(client.end_ns);
        }
        Ok(all)
    }
}
