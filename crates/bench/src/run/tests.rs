use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::process::Command;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::keys::KeyForm;
use crate::operation::{Expect, Operation, OperationKind, Stream};
use crate::outcome::PhaseOutcome;
use crate::run::client::{Client, Count, Shared};
use crate::run::pace::Pace;
use crate::run::start::Start;
use crate::store::{Direction, Opened, Store};
use crate::stores::MapTables;
use crate::tables::Tables;
use crate::values::{Sizes, Values};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A right store, and one for each thing that can be wrong with a store.
#[derive(Default)]
struct Model {
    map: RwLock<Map>,
    fault: Fault,
    asked: AtomicU64,
    tables: MapTables,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    /// Each operation takes so long.
    Slow(Duration),
    /// The operation of this number takes so long.
    SlowOnce(u64, Duration),
    LosesAKey,
    FlipsABit,
    CutsAValue,
    MixesUpTwoKeys,
    ScansOutOfOrder,
    ScansBeforeTheStart,
    ScansTooMany,
    Fails,
}

impl Model {
    fn with(fault: Fault) -> Self {
        Model {
            fault,
            ..Model::default()
        }
    }

    fn delay(&self) -> Result<()> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::Slow(time) => thread::sleep(time),
            Fault::SlowOnce(number, time) if number == asked => thread::sleep(time),
            Fault::Fails => return Err("the disk is on fire".into()),
            _ => {}
        }
        Ok(())
    }
}

impl Store for Model {
    fn tables(&self) -> Option<&dyn Tables> {
        Some(&self.tables)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.delay()?;
        let mut map = self.map.write().unwrap();
        map.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.map.write().unwrap().remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.delay()?;
        let map = self.map.read().unwrap();
        let found = match self.fault {
            Fault::LosesAKey => None,
            Fault::MixesUpTwoKeys => map
                .range(key.to_vec()..)
                .nth(1)
                .or_else(|| map.iter().next())
                .map(|(_, value)| value),
            _ => map.get(key),
        };
        let Some(value) = found else { return Ok(false) };
        let mut value = value.clone();
        match self.fault {
            Fault::FlipsABit => *value.last_mut().unwrap() ^= 1,
            Fault::CutsAValue => drop(value.pop()),
            _ => {}
        }
        read(&value);
        Ok(true)
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let map = self.map.read().unwrap();
        let bound = start.map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
        let mut rows: Vec<_> = match direction {
            _ if self.fault == Fault::ScansBeforeTheStart => map.iter().collect(),
            Direction::Forward => map.range((bound, Bound::Unbounded)).collect(),
            Direction::Backward => map.range((Bound::Unbounded, bound)).rev().collect(),
        };
        let extra = usize::from(self.fault == Fault::ScansTooMany);
        rows.truncate((limit as usize).saturating_add(extra));
        if self.fault == Fault::ScansOutOfOrder {
            rows.reverse();
        }
        rows.into_iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }
}

/// The right store passes the check of every adaptor.
#[test]
fn the_model_passes_the_conformance_check() {
    let model = Model::default();
    crate::conformance::check(&model).unwrap();
    crate::conformance::check_reopened(&model).unwrap();
    assert!(crate::conformance::check(&Model::with(Fault::LosesAKey)).is_err());
    assert!(crate::conformance::check(&Model::with(Fault::ScansOutOfOrder)).is_err());
    assert!(crate::conformance::check(&Model::with(Fault::ScansTooMany)).is_err());
}

struct Scripted(std::vec::IntoIter<Operation>);

impl Stream for Scripted {
    fn next(&mut self) -> Option<Operation> {
        self.0.next()
    }
}

/// One client with a script, on a store with a fault.
fn client(
    fault: Fault,
    script: Vec<Operation>,
    rate: Option<f64>,
) -> Result<client::ClientOutcome> {
    let model = Model::with(fault);
    let values = Values::new(
        Sizes::Fields {
            count: 4,
            bytes: 50,
        },
        1.0,
        7,
    );
    let shared = Shared {
        store: &model,
        keys: KeyForm::Ycsb,
        values: &values,
        graph: None,
        start: Start::of(1),
        stop: false.into(),
    };
    let pace = Pace::new(rate, 0, 1);
    let count = Count::default();
    Client::new(
        &shared,
        Box::new(Scripted(script.into_iter())),
        pace,
        &count,
    )
    .run(u64::MAX)
}

fn read(record: u64) -> Operation {
    Operation::Read {
        record,
        expect: Expect::Found,
    }
}

fn loaded(then: impl IntoIterator<Item = Operation>) -> Vec<Operation> {
    (0..100)
        .map(|record| Operation::Insert { record })
        .chain(then)
        .collect()
}

#[test]
fn a_right_store_is_found_right_and_counted() {
    let script = loaded([
        read(7),
        Operation::Update {
            record: 7,
            version: 9,
        },
        read(7),
        Operation::UpdateField {
            record: 8,
            field: 2,
            version: 5,
        },
        read(8),
        Operation::ReadModifyWrite {
            record: 9,
            version: 6,
            field: None,
        },
        Operation::ReadModifyWrite {
            record: 9,
            version: 8,
            field: Some(3),
        },
        read(9),
        Operation::Read {
            record: 100,
            expect: Expect::Missing,
        },
        Operation::Scan {
            start: Some(3),
            rows: 10,
            direction: Direction::Forward,
        },
        Operation::Scan {
            start: None,
            rows: 1000,
            direction: Direction::Backward,
        },
        Operation::Delete { record: 7 },
        Operation::Read {
            record: 7,
            expect: Expect::Missing,
        },
    ]);
    let outcome = client(Fault::None, script, None).unwrap();
    let tally = outcome.tally;
    assert_eq!(tally.operations, 113);
    assert_eq!((tally.found, tally.missing, tally.deletes), (7, 2, 1));
    assert!((101..=110).contains(&tally.scanned), "{}", tally.scanned);
    assert!(tally.inserted_bytes >= 100 * 220 && tally.written_bytes > tally.inserted_bytes);
    let summaries = outcome.latencies.summaries();
    assert_eq!(summaries[&OperationKind::Insert].count, 100);
    assert_eq!(summaries[&OperationKind::ReadModifyWrite].count, 2);
}

#[test]
fn whatever_a_store_does_wrong_is_an_error_that_names_the_key() {
    let scan = |start| Operation::Scan {
        start,
        rows: 20,
        direction: Direction::Forward,
    };
    for (fault, operation, expected) in [
        (Fault::LosesAKey, read(5), "is missing"),
        (Fault::FlipsABit, read(5), "key user"),
        (Fault::CutsAValue, read(5), "key user"),
        (Fault::MixesUpTwoKeys, read(5), "key user"),
        (Fault::ScansOutOfOrder, scan(None), "behind"),
        (Fault::ScansBeforeTheStart, scan(Some(8)), "behind"),
        (
            Fault::ScansTooMany,
            scan(None),
            "a scan of 20 rows visited 21",
        ),
        (Fault::Fails, read(5), "the disk is on fire"),
    ] {
        let Err(error) = client(fault, loaded([operation]), None) else {
            panic!("{fault:?} is not seen");
        };
        let error = error.to_string();
        assert!(error.contains(expected), "{fault:?}: {error}");
    }
    let missing = Operation::Read {
        record: 5,
        expect: Expect::Missing,
    };
    let error = client(Fault::None, loaded([missing]), None)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("was never written"), "{error}");
}

#[test]
fn a_known_delay_shows_as_that_delay() {
    let delay = Duration::from_millis(2);
    let script = vec![
        Operation::Read {
            record: 1,
            expect: Expect::Either
        };
        100
    ];
    let outcome = client(Fault::Slow(delay), script, None).unwrap();
    let latency = &outcome.latencies.summaries()[&OperationKind::Read];
    assert!(
        (2000.0..4000.0).contains(&latency.p50_us),
        "{}",
        latency.p50_us
    );
    assert!(outcome.end_ns >= 200_000_000);
}

/// In a closed loop one standstill of 100 ms is one slow operation of 1,000; in an open loop at
/// 1,000 a second a hundred are due meanwhile, and each shows its wait.
#[test]
fn a_standstill_shows_in_an_open_loop_with_the_queue_behind_it() {
    let fault = Fault::SlowOnce(300, Duration::from_millis(100));
    let script = vec![
        Operation::Read {
            record: 1,
            expect: Expect::Either
        };
        1000
    ];
    let closed = client(fault, script.clone(), None).unwrap();
    let open = client(fault, script, Some(1000.0)).unwrap();
    let [closed, open] =
        [closed, open].map(|outcome| outcome.latencies.summaries()[&OperationKind::Read].clone());
    assert!(closed.p99_us < 20_000.0, "{closed:?}");
    assert!(closed.max_us >= 100_000.0, "{closed:?}");
    // One in ten waited, from 0 to 100 ms.
    assert!(open.p99_us > 60_000.0, "{open:?}");
    assert!(open.p50_us < 20_000.0, "{open:?}");
}

fn open_model(_: &Path, settings: &Settings) -> Result<Opened> {
    Ok(Opened {
        store: Box::new(Model {
            tables: MapTables::new(settings.tables.len()),
            ..Model::default()
        }),
        durability: "none".into(),
        settings: vec![("kind".into(), "model".into())],
    })
}

const MODEL: Contestant = Contestant {
    name: "model",
    about: "a map",
    open: open_model,
};

/// All workloads go through all phases on the model, and the reads find what they must.
#[test]
fn every_workload_runs_to_its_end() {
    for plan in crate::work::tests::tiny_plans() {
        let directory = tempfile::tempdir_in(".").unwrap();
        let outcome = run(&MODEL, &plan, 0, directory.path(), &|_| {}).unwrap();
        assert_eq!(outcome.phases.len(), plan.phases.len());
        for (phase, found) in plan.phases.iter().zip(&outcome.phases) {
            let asked = if phase.counts_rows() {
                1
            } else {
                phase.operations
            };
            assert!(is_sound(found, asked), "{}: {found:?}", phase.name);
            if !phase.counts_rows() {
                assert_eq!(found.operations, phase.operations, "{}", phase.name);
            }
        }
    }
}

fn is_sound(phase: &PhaseOutcome, asked: u64) -> bool {
    let counted: u64 = phase.latencies.values().map(|latency| latency.count).sum();
    let last = phase.timeline.last().unwrap();
    counted >= asked
        && last.operations >= asked
        && phase.acknowledged_s > 0.0
        && phase
            .settled_s
            .is_none_or(|settled| settled >= phase.acknowledged_s)
        && phase
            .timeline
            .windows(2)
            .all(|two| two[0].at_s < two[1].at_s)
}

/// The streams of a part are those of the whole plan: a phase's do not depend on earlier phases.
#[test]
fn a_plan_is_cut_where_a_store_begins_empty_and_streams_stay_the_same() {
    let plan = plan_of("A,D,H", 1, BTreeMap::new());
    let parts = plan.parts();
    let names = |part: &Plan| -> Vec<String> {
        let phases = part.phases.iter();
        phases.map(|phase| phase.name.clone()).collect()
    };
    let cut: Vec<_> = parts.iter().map(names).collect();
    assert_eq!(cut, [vec!["load", "A", "D"], vec!["load", "H"]]);
    let whole = plan.phases.iter();
    for (phase, (part, same)) in whole.zip(parts.iter().flat_map(|part| {
        let phases = part.phases.iter();
        phases.map(move |phase| (part, phase))
    })) {
        let first = |plan: &Plan, phase: &Phase| {
            let mut streams = phase.streams(&plan.dataset, plan.seed);
            let operations = std::iter::from_fn(|| {
                let operation = streams[0].next()?;
                streams[0].done(&operation);
                Some(operation)
            });
            operations.take(100).collect::<Vec<_>>()
        };
        assert_eq!(first(&plan, phase), first(part, same));
    }
}

/// 300 records and as many operations.
fn plan_of(workloads: &str, clients: u32, rates: BTreeMap<String, f64>) -> Plan {
    let options = crate::workload::Options {
        records: Some(300),
        operations: Some(300),
        clients: Some(clients),
        ..Default::default()
    };
    let workload = crate::workload::named(workloads, &options).unwrap();
    Plan {
        dataset: workload.dataset,
        phases: workload.phases,
        rates,
        warm_up: 1.0,
        sample_interval_ms: INTERVAL_MS,
        seed: 3,
        settings: Settings::default(),
        label: String::new(),
    }
}

fn phases_of(contestant: &Contestant, plan: &Plan) -> Vec<PhaseOutcome> {
    let directory = tempfile::tempdir_in(".").unwrap();
    run(contestant, plan, 0, directory.path(), &|_| {})
        .unwrap()
        .phases
}

/// Debt of each get and put: much more than the harness writes.
const DEBT_BYTES: u64 = 128 << 10;

/// Writes nothing before it must; and a read may make it write, as it may start a merge.
struct Deferring {
    model: Model,
    directory: std::path::PathBuf,
    /// Gets and puts.
    owed: AtomicU64,
}

impl Store for Deferring {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.owed.fetch_add(1, Ordering::Relaxed);
        self.model.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.model.delete(key)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.owed.fetch_add(1, Ordering::Relaxed);
        self.model.get(key, read)
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.model.scan(start, limit, direction, visit)
    }

    fn settle(&self) -> Result<Instant> {
        let bytes = self.owed.swap(0, Ordering::Relaxed) * DEBT_BYTES;
        fs::write(self.directory.join("debt"), vec![7; bytes as usize])?;
        Ok(Instant::now())
    }
}

const DEFERRING: Contestant = Contestant {
    name: "deferring",
    about: "puts off all it can",
    open: |directory, _| {
        Ok(Opened {
            store: Box::new(Deferring {
                model: Model::default(),
                directory: directory.into(),
                owed: AtomicU64::new(0),
            }),
            durability: "none".into(),
            settings: Vec::new(),
        })
    },
};

#[test]
fn what_a_store_puts_off_is_counted_in_the_phase_that_caused_it() {
    let alone = Command::new(std::env::current_exe().unwrap())
        .args(["run::tests::deferring_alone", "--exact", "--ignored"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&alone.stdout);
    assert!(
        alone.status.success() && told.contains("1 passed"),
        "{told}"
    );
}

#[test]
#[ignore = "the test above runs it in a process of its own, for a process is what the kernel counts by"]
fn deferring_alone() {
    let phases = phases_of(&DEFERRING, &plan_of("A,C", 1, BTreeMap::new()));
    let [load, mixed, reads] = phases.as_slice() else {
        panic!("{phases:?}");
    };
    for phase in [load, mixed, reads] {
        let calls = phase.latencies.iter().map(|(kind, latency)| match kind {
            // Of a field: it reads the others.
            OperationKind::Update => 2 * latency.count,
            _ => latency.count,
        });
        let debt = calls.sum::<u64>() * DEBT_BYTES;
        // Of the debt of as many operations that warmed it up, nothing is among it.
        let share = phase.usage.write_bytes as f64 / debt as f64;
        assert!((1.0..1.3).contains(&share), "{}: {share}", phase.name);
        if let Some(bytes) = phase.usage.device_write_bytes {
            assert!(bytes >= debt, "{}: {bytes}", phase.name);
        }
    }
    for phase in [load, mixed] {
        assert!(phase.settled_s >= Some(phase.acknowledged_s));
    }
    assert_eq!(reads.settled_s, None);
}

#[test]
fn a_paced_phase_warms_up_at_its_pace() {
    let rates = BTreeMap::from([("C".to_string(), 1000.0)]);
    let start = Instant::now();
    let phases = phases_of(&MODEL, &plan_of("C", 2, rates));
    // As many operations before as then: 300 at 1,000 a second.
    assert!(start.elapsed() >= Duration::from_millis(590));
    assert_eq!(phases[1].rate, Some(1000.0));
    assert!(
        phases[1].acknowledged_s < 0.5,
        "{}",
        phases[1].acknowledged_s
    );
}

#[test]
fn records_inserted_while_warming_up_are_alive() {
    let plan = plan_of("H", 1, BTreeMap::new());
    let phases = phases_of(&MODEL, &plan);
    let loaded = plan.dataset.expected_bytes();
    assert_eq!(phases[0].live_bytes, loaded);
    let inserted = phases[1].latencies[&OperationKind::Insert].count;
    let record_bytes = loaded / plan.dataset.records;
    // About as many before as then, of 300 operations a half each.
    let records = (phases[1].live_bytes - loaded) as f64 / record_bytes as f64;
    assert!(records > 1.5 * inserted as f64, "{records} for {inserted}");
}

#[test]
fn a_writer_beside_readers_is_not_measured() {
    // So slow that the writer comes to its turn.
    let rates = BTreeMap::from([("readwhilewriting".to_string(), 5000.0)]);
    let phases = phases_of(&MODEL, &plan_of("readwhilewriting", 2, rates));
    let phase = &phases[1];
    assert_eq!((phase.clients, phase.operations), (2, 300));
    assert!(phase.operations_beside > 0);
    let kinds: Vec<_> = phase.latencies.keys().copied().collect();
    assert_eq!(kinds, [OperationKind::Read]);
    assert_eq!(phase.latencies[&OperationKind::Read].count, 300);
    assert_eq!(phase.timeline.last().unwrap().operations, 300);
}
