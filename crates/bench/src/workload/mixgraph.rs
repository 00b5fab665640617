//! RocksDB's mixgraph: gets, puts and seeks with the distributions that were fitted to a social
//! graph's load.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Dataset, LoadOrder, Phase, PhaseKind, VersionNumbers, share};
use crate::draw::{KeyRanges, KeyRangesShape, Pareto, Random, random, unit};
use crate::keys::KeyForm;
use crate::operation::{Expect, Operation, Stream};
use crate::store::Direction;
use crate::values::Sizes;

/// Shares of operations, and how records and lengths of scans are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// Share of gets; the shares add up to 1.
    pub gets: f64,
    /// Share of puts.
    pub puts: f64,
    /// Share of seeks, each with a scan behind it.
    pub seeks: f64,
    /// Where records are hot.
    pub keys: KeyRangesShape,
    /// Rows of a scan, of which the remainder is taken by [`MOST_SCANNED`].
    pub scan_rows: Pareto,
}

/// The source's `mix_max_scan_len`.
pub const MOST_SCANNED: u64 = 10_000;

/// Records at full size.
pub const RECORDS: u64 = 5_000_000;

/// Operations at full size.
pub const OPERATIONS: u64 = 1_000_000;

impl Mix {
    /// One set of numbers that was published.
    pub const PUBLISHED: Mix = Mix {
        gets: 0.85,
        puts: 0.14,
        seeks: 0.01,
        keys: KeyRangesShape {
            ranges: 30,
            range_a: 14.18,
            range_b: -2.917,
            range_c: 0.0164,
            range_d: -0.08082,
            key_a: 0.002_312,
            key_b: 0.3467,
        },
        scan_rows: Pareto {
            theta: 0.0,
            k: 2.517,
            sigma: 14.236,
        },
    };

    /// Describes the mix in words.
    pub fn describe(&self) -> String {
        format!(
            "{:.0} % gets, {:.0} % puts, {:.0} % seeks with scans of Pareto length, {} ranges of keys",
            100.0 * self.gets,
            100.0 * self.puts,
            100.0 * self.seeks,
            self.keys.ranges
        )
    }
}

/// Returns its records: keys of 48 B, and values of Pareto sizes from the load on, compressible as
/// db_bench's are.
pub fn dataset(records: u64) -> Dataset {
    Dataset {
        records,
        key_form: KeyForm::MIXGRAPH,
        sizes: Sizes::Pareto {
            distribution: Pareto {
                theta: 0.0,
                k: 0.2615,
                sigma: 25.45,
            },
            below: 1024,
        },
        compression_ratio: 0.5,
    }
}

/// Returns the phases. The first is a load, where the source says `fillrandom`: each record once
/// here, so that every get finds one. The mix follows.
pub fn phases(dataset: &Dataset, operations: u64, clients: u32) -> Vec<Phase> {
    let mix = PhaseKind::Mixgraph(Mix::PUBLISHED);
    vec![
        Phase::load(dataset, LoadOrder::Random, clients),
        Phase::new("mixgraph", mix, operations, clients),
    ]
}

/// Makes one stream for each client.
pub(super) fn streams(
    mix: &Mix,
    phase: &Phase,
    dataset: &Dataset,
    seed: u64,
) -> Vec<Box<dyn Stream>> {
    let keys = Arc::new(KeyRanges::new(dataset.records, mix.keys));
    (0..u64::from(phase.clients))
        .map(|client| {
            let stream = Client {
                mix: *mix,
                keys: Arc::clone(&keys),
                versions: VersionNumbers::new(client, phase.clients),
                random: random(seed, client),
                left: share(phase.operations, phase.clients, client),
            };
            Box::new(stream) as _
        })
        .collect()
}

struct Client {
    mix: Mix,
    keys: Arc<KeyRanges>,
    versions: VersionNumbers,
    random: Random,
    left: u64,
}

impl Stream for Client {
    fn next(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        let record = self.keys.next(&mut self.random);
        let drawn = unit(&mut self.random);
        Some(if drawn < self.mix.puts {
            Operation::Update {
                record,
                version: self.versions.next(),
            }
        } else if drawn < self.mix.puts + self.mix.seeks {
            let rows = self.mix.scan_rows.exceeded_by(1.0 - unit(&mut self.random));
            Operation::Scan {
                start: Some(record),
                rows: (rows % MOST_SCANNED).max(1),
                direction: Direction::Forward,
            }
        } else {
            Operation::Read {
                record,
                expect: Expect::Found,
            }
        })
    }
}
