//! The requests of a client of db_bench.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Benchmark;
use crate::draw::{Random, random, uniform};
use crate::keys::ABSENT;
use crate::operation::{Expect, Operation, Part, Stream};
use crate::store::Direction;
use crate::workload::{Dataset, LoadOrder, Phase, VersionNumbers, load, share};

/// Makes one stream for each client, and one for the writer beside them.
pub(crate) fn streams(
    benchmark: Benchmark,
    phase: &Phase,
    dataset: &Dataset,
    seed: u64,
) -> Vec<Box<dyn Stream>> {
    let clients = phase.clients;
    match benchmark {
        Benchmark::FillSequential { repeated: false } => {
            return load::streams(LoadOrder::Parts, dataset.records, clients, seed);
        }
        Benchmark::FillSequential { repeated: true } => {
            let all = |_| load::streams(LoadOrder::Parts, dataset.records, 1, seed);
            return (0..clients).flat_map(all).collect();
        }
        _ => {}
    }
    let readers = Arc::new(AtomicU32::new(0));
    let client = |client: u64| Client {
        benchmark,
        role: Role::Counted(share(phase.operations, clients, client)),
        expect: if phase.sparse {
            Expect::Either
        } else {
            Expect::Found
        },
        records: dataset.records,
        versions: VersionNumbers::new(client, clients + 1),
        random: random(seed, client),
        readers: Arc::clone(&readers),
        reading: Some(Reading::new(&readers)),
    };
    let mut streams: Vec<Client> = (0..u64::from(clients)).map(client).collect();
    if let Benchmark::ReadWhileWriting { writes_per_second } = benchmark {
        let rate = writes_per_second;
        streams.push(Client {
            role: Role::Writer { rate },
            reading: None,
            ..client(u64::from(clients))
        });
    }
    let boxed = streams.into_iter().map(|client| Box::new(client) as _);
    boxed.collect()
}

/// A client that the writer goes on for. It ends with the client's stream at the latest, so that one
/// that fails half-way does not keep the writer going.
struct Reading(Arc<AtomicU32>);

impl Reading {
    fn new(readers: &Arc<AtomicU32>) -> Reading {
        readers.fetch_add(1, Ordering::Relaxed);
        Reading(Arc::clone(readers))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Role {
    /// Operations that are left.
    Counted(u64),
    /// Goes on until the others are done.
    Writer { rate: Option<f64> },
}

struct Client {
    benchmark: Benchmark,
    role: Role,
    expect: Expect,
    records: u64,
    versions: VersionNumbers,
    random: Random,
    /// Clients that are not done yet, but for the writer.
    readers: Arc<AtomicU32>,
    /// That it is one of them.
    reading: Option<Reading>,
}

impl Client {
    fn operation(&mut self) -> Operation {
        let record = uniform(&mut self.random, self.records);
        match self.benchmark {
            // Fills that repeat are updates, too: none of their records is known to be absent, and
            // the values of repeats differ.
            Benchmark::FillSequential { .. }
            | Benchmark::FillRandom
            | Benchmark::FillSync
            | Benchmark::Overwrite => self.update(record),
            Benchmark::ReadRandom | Benchmark::ReadWhileWriting { .. } => Operation::Read {
                record,
                expect: self.expect,
            },
            Benchmark::ReadMissing => Operation::Read {
                record: record | ABSENT,
                expect: Expect::Missing,
            },
            Benchmark::ReadSequential => self.scan(None, u64::MAX, Direction::Forward),
            Benchmark::ReadReverse => self.scan(None, u64::MAX, Direction::Backward),
            Benchmark::SeekRandom { rows } => self.scan(Some(record), rows, Direction::Forward),
            Benchmark::DeleteRandom => Operation::Delete { record },
        }
    }

    fn update(&mut self, record: u64) -> Operation {
        Operation::Update {
            record,
            version: self.versions.next(),
        }
    }

    fn scan(&self, start: Option<u64>, rows: u64, direction: Direction) -> Operation {
        let rows = rows.min(self.records);
        Operation::Scan {
            start,
            rows,
            direction,
        }
    }
}

impl Stream for Client {
    fn next(&mut self) -> Option<Operation> {
        match &mut self.role {
            Role::Counted(0) => {
                self.reading = None;
                None
            }
            Role::Counted(left) => {
                *left -= 1;
                Some(self.operation())
            }
            Role::Writer { .. } => {
                if self.readers.load(Ordering::Relaxed) == 0 {
                    return None;
                }
                let record = uniform(&mut self.random, self.records);
                Some(self.update(record))
            }
        }
    }

    fn part(&self) -> Part {
        match self.role {
            Role::Counted(_) => Part::Measured,
            Role::Writer { rate } => Part::Beside { rate },
        }
    }
}
