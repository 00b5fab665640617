//! Plans on stores in memory: one that is right, and ones that lose a pair or change it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::contests::{self, CLIENTS, FILL};
use super::measured::{Change, measured};
use super::setting::Setting;
use super::systems::{BLOCKS, KEYS};
use super::{claims, fill, paper};
use crate::operation::OperationKind;
use crate::outcome::{Contest, Latency, PhaseOutcome, RunOutcome};
use crate::reproduce::report::Verdict;
use crate::run::{self, Plan};
use crate::settings::Settings;
use crate::store::{Contestant, Direction, Opened, Store};
use crate::stores::MAP;
use crate::{Result, reproduce};

/// The fault of a store at every twentieth put.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Lose,
    Change,
}

struct Faulty {
    inner: Box<dyn Store>,
    fault: Fault,
    puts: AtomicU64,
}

impl Store for Faulty {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_hit = self.puts.fetch_add(1, Ordering::Relaxed) % 20 == 19;
        match is_hit.then_some(self.fault) {
            None => self.inner.put(key, value),
            Some(Fault::Lose) => Ok(()),
            Some(Fault::Change) => {
                let mut value = value.to_vec();
                if let Some(last) = value.last_mut() {
                    *last ^= 1;
                }
                self.inner.put(key, &value)
            }
        }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(key, read)
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.inner.scan(start, limit, direction, visit)
    }

    fn settle(&self) -> Result<Instant> {
        self.inner.settle()
    }
}

fn faulty(directory: &Path, settings: &Settings, fault: Fault) -> Result<Opened> {
    let opened = (MAP.open)(directory, settings)?;
    Ok(Opened {
        store: Box::new(Faulty {
            inner: opened.store,
            fault,
            puts: AtomicU64::new(0),
        }),
        ..opened
    })
}

fn go_through(contestant: &Contestant, plan: &Plan, directory: &Path) -> Result<RunOutcome> {
    let place = tempfile::tempdir_in(directory)?;
    run::run(contestant, plan, 0, place.path(), &|_| ())
}

#[test]
fn a_system_that_loses_a_pair_or_changes_it_is_found_out() {
    let directory = tempfile::tempdir().unwrap();
    let plans = contests::plans(&Setting::tiny_for_tests(directory.path()));
    let lossy = Contestant {
        name: "lossy",
        open: |directory, settings| faulty(directory, settings, Fault::Lose),
        ..MAP
    };
    let changing = Contestant {
        name: "changing",
        open: |directory, settings| faulty(directory, settings, Fault::Change),
        ..MAP
    };
    let [durable, unsynced, small] = &plans;
    for plan in [durable, small] {
        let right = go_through(&MAP, plan, directory.path()).unwrap();
        let operations: u64 = right.phases.iter().map(|phase| phase.operations).sum();
        assert!(operations >= 2 * plan.dataset.records);
        let error = go_through(&lossy, plan, directory.path()).unwrap_err();
        assert!(error.to_string().contains("is missing"), "{error}");
        let error = go_through(&changing, plan, directory.path()).unwrap_err();
        assert!(error.to_string().contains("readrandom"), "{error}");
    }
    assert_eq!(unsynced.phases.len(), 1);
}

#[test]
fn each_client_writes_its_own_part_and_every_number_of_clients_has_its_phases() {
    let plans = contests::plans(&Setting::tiny_for_tests(Path::new(".")));
    let [durable, _, small] = &plans;
    assert_eq!(durable.phases[0].operations, durable.dataset.records);
    assert_eq!(durable.phases[0].clients, paper::CLIENTS);
    assert_eq!(durable.phases.len(), 3 + 2 * CLIENTS.len());
    assert!(
        durable
            .phases
            .iter()
            .skip(1)
            .all(|phase| !phase.starts_empty)
    );
    assert_eq!(small.dataset.sizes.most_bytes(), 100);
    for plan in &plans {
        assert_eq!(plan.dataset.key_form.bytes(), 4);
        assert!(plan.dataset.records <= plan.dataset.key_form.most_records());
    }
}

/// Runs of the fill: system, repeat, operations a second, mean and p99 in us.
fn contest(runs: &[(&str, u32, f64, f64, f64)]) -> Contest {
    let runs = runs.iter().map(|(store, repeat, rate, mean_us, p99_us)| {
        let latency = Latency {
            mean_us: *mean_us,
            p99_us: *p99_us,
            cdf: vec![(mean_us / 2.0, 0.4), (*mean_us, 0.6), (*p99_us, 1.0)],
            ..Latency::default()
        };
        RunOutcome {
            store: store.to_string(),
            repeat: *repeat,
            phases: vec![PhaseOutcome {
                name: FILL.into(),
                operations: *rate as u64,
                acknowledged_s: 1.0,
                settled_s: Some(2.0),
                clients: 15,
                latencies: [(OperationKind::Insert, latency)].into(),
                ..PhaseOutcome::default()
            }],
            ..RunOutcome::default()
        }
    });
    Contest {
        runs: runs.collect(),
        ..Contest::default()
    }
}

fn two_repeats() -> Contest {
    contest(&[
        (KEYS.name, 0, 2000.0, 500.0, 4000.0),
        (BLOCKS.name, 0, 1000.0, 1000.0, 2000.0),
        (KEYS.name, 1, 3000.0, 400.0, 3000.0),
        (BLOCKS.name, 1, 1000.0, 1000.0, 4000.0),
    ])
}

#[test]
fn changes_are_of_runs_that_followed_each_other() {
    let all = measured(&two_repeats());
    let [keys, blocks] = all.as_slice() else {
        panic!("{} systems", all.len());
    };
    let change = Change::of(keys, blocks, |one| one.per_second).unwrap();
    assert_eq!((change.percent.least, change.percent.most), (100.0, 200.0));
    assert_eq!(change.text(), "+150 % [+100..+200]");
    assert!(change.exceeds_spread());
    let tail = Change::of(keys, blocks, |one| one.p99_us).unwrap();
    assert!(!tail.exceeds_spread());
    // 32 KiB each.
    assert!((keys.mib_per_second.median - 2500.0 / 32.0).abs() < 1e-9);
    assert_eq!(keys.settled_per_second.unwrap().median, 1250.0);
}

#[test]
fn claims_hold_by_their_sign_and_few_pairs_tell_nothing() {
    let all = measured(&two_repeats());
    let verdicts = |tells| -> Vec<Verdict> {
        let claims = claims::claims(&all, tells);
        claims.iter().map(|claim| claim.verdict).collect()
    };
    let expected = [Verdict::Holds, Verdict::CannotBeTold, Verdict::Holds];
    assert_eq!(verdicts(true), expected);
    assert_eq!(verdicts(false), [Verdict::CannotBeTold; 3]);
    let claims = claims::claims(&all, true);
    let published: Vec<&str> = claims.iter().map(|claim| claim.paper.as_str()).collect();
    assert_eq!(published, ["-60 %", "-91 %", "+150 %"]);
    assert!(claims[1].because.contains("spread of its repeats"));
    let mut first = two_repeats();
    first.runs.truncate(2);
    let once = claims::claims(&measured(&first), true);
    assert!(once[0].because.contains("one repeat tells nothing"));
    assert!(!once[0].ours.contains(".."), "{}", once[0].ours);
}

#[test]
fn the_papers_numbers_stand_beside_ours() {
    let all = measured(&two_repeats());
    let section = fill::durable(&all, &[KEYS, BLOCKS]);
    let table = &section.tables[0];
    assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
    let cells: Vec<&str> = table.rows.iter().flatten().map(String::as_str).collect();
    for cell in ["735", "1835", "21224", "638", "450 [400..500]", BLOCKS.name] {
        assert!(cells.contains(&cell), "{cell}: {cells:?}");
    }
    assert!(
        section
            .notes
            .iter()
            .any(|note| note.contains("peers reproduce kvbdev"))
    );
    let image = reproduce::plot::image(&section.plots[0]).unwrap();
    assert_eq!(image.matches("<polyline").count(), 2);
    // A name for each line, and the paper's two tails.
    assert_eq!(image.matches("<circle").count(), 4);
}
