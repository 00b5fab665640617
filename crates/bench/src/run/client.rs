//! One client thread: makes operations of its stream, asks the store, checks its answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::keys::KeyForm;
use crate::linkbench::perform::{GraphClient, GraphStore};
use crate::measure::completions::Completions;
use crate::measure::latencies::Latencies;
use crate::operation::{Expect, Operation, Part, Stream};
use crate::run::pace::Pace;
use crate::run::scan_check::ScanCheck;
use crate::run::start::Start;
use crate::store::{Direction, Store};
use crate::values::Values;

/// State that the clients of a phase share. Each client counts its operations in a word of its own.
pub struct Shared<'a> {
    pub store: &'a dyn Store,
    pub keys: KeyForm,
    pub values: &'a Values,
    /// A graph, where the phase is of one.
    pub graph: Option<GraphStore<'a>>,
    pub start: Start,
    /// Set when a client has failed, or when those that are measured are done.
    pub stop: AtomicBool,
}

/// A count on a cache line of its own: only one client writes it.
#[derive(Default)]
#[repr(align(128))]
pub struct Count(pub AtomicU64);

/// Findings of a client.
pub struct ClientOutcome {
    pub latencies: Latencies,
    pub completions: Completions,
    pub tally: Tally,
    /// When its last operation was acknowledged, ns since the start.
    pub end_ns: u64,
    /// Processor time of its waiting.
    pub spun: Duration,
    /// The stream, with its operations that are left.
    pub stream: Box<dyn Stream>,
    /// Whether it only kept the others company.
    pub beside: bool,
}

/// Counts of reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub operations: u64,
    pub found: u64,
    pub missing: u64,
    pub scanned: u64,
    pub inserted_bytes: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub deletes: u64,
}

pub struct Client<'a> {
    shared: &'a Shared<'a>,
    stream: Box<dyn Stream>,
    pace: Pace,
    completed: &'a Count,
    key: Vec<u8>,
    value: Vec<u8>,
    tally: Tally,
    /// Of a graph, a client of its tables.
    graph: Option<GraphClient<'a>>,
}

impl<'a> Client<'a> {
    pub fn new(
        shared: &'a Shared<'a>,
        stream: Box<dyn Stream>,
        pace: Pace,
        completed: &'a Count,
    ) -> Self {
        Client {
            shared,
            stream,
            pace,
            completed,
            key: Vec::new(),
            value: Vec::new(),
            tally: Tally::default(),
            graph: shared.graph.map(GraphClient::new),
        }
    }

    /// Goes through the stream to its end, through `most` operations, or until the others stop.
    pub fn run(mut self, most: u64) -> Result<ClientOutcome> {
        let beside = self.stream.part() != Part::Measured;
        let latencies = Latencies::new();
        let mut completions = Completions::default();
        // Even after an error, the others must not wait for this thread in vain.
        let start = self.shared.start.wait();
        let mut latencies = latencies?;
        let mut last_ns = nanoseconds_since(start);
        while self.tally.operations < most && !self.shared.stop.load(Ordering::Relaxed) {
            let Some(operation) = self.stream.next() else {
                break;
            };
            let begun_ns = self.pace.begin(start, last_ns);
            self.perform(&operation)?;
            last_ns = nanoseconds_since(start);
            let time = Duration::from_nanos(last_ns.saturating_sub(begun_ns));
            latencies.record(operation.kind(), time);
            completions.complete(last_ns);
            self.stream.done(&operation);
            self.tally.operations += 1;
            self.completed
                .0
                .store(self.tally.operations, Ordering::Relaxed);
        }
        Ok(ClientOutcome {
            latencies,
            completions,
            tally: self.tally,
            end_ns: last_ns,
            spun: self.pace.spun(),
            stream: self.stream,
            beside,
        })
    }

    fn perform(&mut self, operation: &Operation) -> Result<()> {
        match *operation {
            Operation::Insert { record } => {
                self.write(record, 0)?;
                self.tally.inserted_bytes += (self.key.len() + self.value.len()) as u64;
                Ok(())
            }
            Operation::Update { record, version } => self.write(record, version),
            Operation::UpdateField {
                record,
                field,
                version,
            } => {
                self.read(record, Expect::Found, true)?;
                self.write_field(record, field, version)
            }
            Operation::ReadModifyWrite {
                record,
                version,
                field,
            } => {
                self.read(record, Expect::Found, field.is_some())?;
                match field {
                    Some(field) => self.write_field(record, field, version),
                    None => self.write(record, version),
                }
            }
            Operation::Read { record, expect } => self.read(record, expect, false),
            Operation::Scan {
                start,
                rows,
                direction,
            } => self.scan(start, rows, direction),
            Operation::Delete { record } => {
                self.shared.keys.write(record, &mut self.key);
                self.tally.deletes += 1;
                self.shared.store.delete(&self.key)
            }
            Operation::Graph(request) => match &mut self.graph {
                Some(graph) => graph.perform(&request, &mut self.tally),
                None => Err("a request to a graph, in a phase without one".into()),
            },
        }
    }

    fn write(&mut self, record: u64, version: u32) -> Result<()> {
        self.shared.keys.write(record, &mut self.key);
        self.shared
            .values
            .write_into(record, version, &mut self.value);
        self.put()
    }

    /// Writes one field of the value that was just read.
    fn write_field(&mut self, record: u64, field: u32, version: u32) -> Result<()> {
        self.shared
            .values
            .patch(record, field, version, &mut self.value)?;
        self.put()
    }

    fn put(&mut self) -> Result<()> {
        self.tally.written_bytes += (self.key.len() + self.value.len()) as u64;
        self.shared.store.put(&self.key, &self.value)
    }

    /// Reads and checks a record; with `keep` its value stays in the client's buffer.
    fn read(&mut self, record: u64, expect: Expect, keep: bool) -> Result<()> {
        let (values, value) = (self.shared.values, &mut self.value);
        self.shared.keys.write(record, &mut self.key);
        let (mut wrong, mut length) = (None, 0);
        let found = self.shared.store.get(&self.key, &mut |bytes| {
            wrong = values.check(record, bytes).err();
            length = bytes.len();
            if keep {
                value.clear();
                value.extend_from_slice(bytes);
            }
        })?;
        if let Some(mismatch) = wrong {
            return Err(format!("key {}: {mismatch}", self.key.escape_ascii()).into());
        }
        match (found, expect) {
            (false, Expect::Found) => Err(self.unexpected(record, "is missing")),
            (true, Expect::Missing) => {
                Err(self.unexpected(record, "was never written and is found"))
            }
            (true, _) => {
                self.tally.found += 1;
                self.tally.read_bytes += (self.key.len() + length) as u64;
                Ok(())
            }
            (false, _) => {
                self.tally.missing += 1;
                Ok(())
            }
        }
    }

    fn unexpected(&self, record: u64, what: &str) -> crate::Error {
        format!("key {} of record {record} {what}", self.key.escape_ascii()).into()
    }

    /// Scans, and checks that keys ascend (or descend) from the start and that each value is its
    /// key's.
    fn scan(&mut self, start: Option<u64>, rows: u64, direction: Direction) -> Result<()> {
        if let Some(record) = start {
            self.shared.keys.write(record, &mut self.key);
        }
        let start = start.map(|_| self.key.as_slice());
        let (keys, values) = (self.shared.keys, self.shared.values);
        let mut check = ScanCheck::new(keys, values, direction, start, &mut self.value);
        let mut visit = |key: &[u8], value: &[u8]| check.row(key, value);
        self.shared.store.scan(start, rows, direction, &mut visit)?;
        if check.rows > rows {
            return Err(format!("a scan of {rows} rows visited {}", check.rows).into());
        }
        if let Some(wrong) = check.wrong {
            return Err(wrong.into());
        }
        self.tally.scanned += check.rows;
        self.tally.read_bytes += check.bytes;
        Ok(())
    }
}

fn nanoseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
