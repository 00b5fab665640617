//! The requests of a client of YCSB.

use std::sync::Arc;

use super::{Distribution, Mix, UpdateStyle};
use crate::draw::{Clustered, Latest, Random, ScrambledZipfian, random, uniform, unit};
use crate::operation::{Expect, Operation, Stream};
use crate::store::Direction;
use crate::workload::{Dataset, Inserted, Phase, VersionNumbers, share};

const MOST_SCANNED: u64 = 100;

/// Makes one stream for each client.
pub(crate) fn streams(
    mix: &Mix,
    phase: &Phase,
    dataset: &Dataset,
    seed: u64,
) -> Vec<Box<dyn Stream>> {
    let inserted = Arc::new(Inserted::new(dataset.records));
    let chooser = Chooser::new(mix, phase.operations, dataset.records, seed);
    (0..u64::from(phase.clients))
        .map(|client| {
            let stream = Client {
                mix: *mix,
                chooser: chooser.clone(),
                fields: dataset.sizes.fields(),
                inserted: Arc::clone(&inserted),
                versions: VersionNumbers::new(client, phase.clients),
                random: random(seed, client),
                left: share(phase.operations, phase.clients, client),
            };
            Box::new(stream) as Box<dyn Stream>
        })
        .collect()
}

#[derive(Clone)]
enum Chooser {
    Zipfian(ScrambledZipfian),
    Uniform,
    Latest(Latest),
    Clustered(Clustered),
}

impl Chooser {
    fn new(mix: &Mix, operations: u64, records: u64, seed: u64) -> Chooser {
        match mix.distribution {
            // As in YCSB, it draws from twice the inserts that are expected: were the items those
            // that there are, each insert would make other ones hot.
            Distribution::Zipfian => {
                let expected = (2.0 * mix.inserts * operations as f64) as u64;
                Chooser::Zipfian(ScrambledZipfian::new(records + expected))
            }
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Latest => Chooser::Latest(Latest::new(records)),
            // Inserted records lie behind all ranges, and are not read.
            Distribution::Clustered { ranges } => {
                Chooser::Clustered(Clustered::new(records, ranges, seed))
            }
        }
    }

    /// Draws a record of 0..readable.
    fn next(&mut self, readable: u64, random: &mut Random) -> u64 {
        loop {
            let record = match self {
                Chooser::Zipfian(zipfian) => zipfian.next(random),
                Chooser::Uniform => uniform(random, readable),
                Chooser::Latest(latest) => latest.next(readable, random),
                Chooser::Clustered(clustered) => clustered.next(random),
            };
            // Of an empty dataset there is nothing to wait for.
            if record < readable || readable == 0 {
                return record;
            }
        }
    }
}

struct Client {
    mix: Mix,
    chooser: Chooser,
    fields: u32,
    inserted: Arc<Inserted>,
    versions: VersionNumbers,
    random: Random,
    left: u64,
}

impl Client {
    fn record(&mut self) -> u64 {
        let readable = self.inserted.readable();
        self.chooser.next(readable, &mut self.random)
    }

    /// Returns the field that an update writes; `None` for all of the value.
    fn field(&mut self) -> Option<u32> {
        match self.mix.update {
            UpdateStyle::Field if self.fields > 1 => {
                Some(uniform(&mut self.random, u64::from(self.fields)) as u32)
            }
            UpdateStyle::Field | UpdateStyle::Value => None,
        }
    }

    fn update(&mut self) -> Operation {
        let record = self.record();
        let version = self.versions.next();
        match self.field() {
            Some(field) => Operation::UpdateField {
                record,
                field,
                version,
            },
            None => Operation::Update { record, version },
        }
    }

    fn scan(&mut self) -> Operation {
        let start = Some(self.record());
        Operation::Scan {
            start,
            rows: 1 + uniform(&mut self.random, MOST_SCANNED),
            direction: Direction::Forward,
        }
    }
}

impl Stream for Client {
    fn next(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        let mut drawn = unit(&mut self.random);
        let mut is = |share: f64| {
            drawn -= share;
            share > 0.0 && drawn < 0.0
        };
        let mix = self.mix;
        Some(if is(mix.updates) {
            self.update()
        } else if is(mix.inserts) {
            Operation::Insert {
                record: self.inserted.reserve(),
            }
        } else if is(mix.scans) {
            self.scan()
        } else if is(mix.read_modify_writes) {
            Operation::ReadModifyWrite {
                record: self.record(),
                version: self.versions.next(),
                field: self.field(),
            }
        } else {
            Operation::Read {
                record: self.record(),
                expect: Expect::Found,
            }
        })
    }

    fn done(&mut self, operation: &Operation) {
        if let Operation::Insert { record } = operation {
            self.inserted.acknowledged(*record);
        }
    }
}
