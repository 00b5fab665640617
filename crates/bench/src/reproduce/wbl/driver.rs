//! A phase on a store of Terrace's own, where a figure needs the store's statistics.

use std::thread;
use std::time::Instant;

use terrace::Db;

use crate::measure::latencies::Latencies;
use crate::operation::{Operation, OperationKind, Stream};
use crate::outcome::Latency;
use crate::values::Values;
use crate::workload::{Dataset, Phase};
use crate::{Error, Result};

/// Work of the clients.
#[derive(Debug)]
pub struct Driven {
    /// Time from the first operation to the last acknowledgement.
    pub seconds: f64,
    /// All of them.
    pub operations: u64,
    /// Gets, those of read-modify-writes included.
    pub gets: u64,
    /// Latency of inserts; `None` if there were none.
    pub inserts: Option<Latency>,
}

/// Runs the phase's clients to their ends, in a closed loop.
///
/// # Errors
/// Any error of the store, and a record that is not there.
pub fn drive(db: &Db, phase: &Phase, dataset: &Dataset, seed: u64) -> Result<Driven> {
    let values = dataset.values(seed);
    let streams = phase.streams(dataset, seed);
    let start = Instant::now();
    let outcomes: Vec<Result<Client<'_>>> = thread::scope(|scope| {
        let spawn = |stream| {
            let client = Client::new(db, dataset, &values);
            scope.spawn(move || client?.run(stream))
        };
        let threads: Vec<_> = streams.into_iter().map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a client panicked".into()))
            })
            .collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut latencies = Latencies::new()?;
    let (mut operations, mut gets) = (0, 0);
    for client in outcomes {
        let client = client?;
        latencies.add(&client.latencies)?;
        operations += client.operations;
        gets += client.gets;
    }
    Ok(Driven {
        seconds,
        operations,
        gets,
        inserts: latencies.summaries().remove(&OperationKind::Insert),
    })
}

struct Client<'a> {
    db: &'a Db,
    dataset: &'a Dataset,
    values: &'a Values,
    latencies: Latencies,
    operations: u64,
    gets: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> Client<'a> {
    fn new(db: &'a Db, dataset: &'a Dataset, values: &'a Values) -> Result<Self> {
        Ok(Client {
            db,
            dataset,
            values,
            latencies: Latencies::new()?,
            operations: 0,
            gets: 0,
            key: Vec::new(),
            value: Vec::new(),
        })
    }

    fn run(mut self, mut stream: Box<dyn Stream>) -> Result<Self> {
        while let Some(operation) = stream.next() {
            let begun = Instant::now();
            self.perform(&operation)?;
            self.latencies.record(operation.kind(), begun.elapsed());
            stream.done(&operation);
            self.operations += 1;
        }
        Ok(self)
    }

    fn perform(&mut self, operation: &Operation) -> Result<()> {
        match *operation {
            Operation::Insert { record } => self.put(record, 0),
            Operation::Update { record, version } => self.put(record, version),
            Operation::Read { record, .. } => self.get(record),
            Operation::ReadModifyWrite {
                record, version, ..
            } => {
                self.get(record)?;
                self.put(record, version)
            }
            ref other => Err(format!("{other:?} has no part in this figure").into()),
        }
    }

    fn put(&mut self, record: u64, version: u32) -> Result<()> {
        self.dataset.key_form.write(record, &mut self.key);
        self.values.write_into(record, version, &mut self.value);
        Ok(self.db.put(&self.key, &self.value)?)
    }

    fn get(&mut self, record: u64) -> Result<()> {
        self.dataset.key_form.write(record, &mut self.key);
        self.gets += 1;
        let value = self
            .db
            .get(&self.key)?
            .ok_or_else(|| Error::from(format!("record {record} is missing")))?;
        self.values.check(record, &value)?;
        Ok(())
    }
}
