//! A store in memory, whole or with one fault: every workload accepts the one and refuses the other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::RwLock;
use std::time::Instant;

use super::*;
use crate::stream::row_of;

/// The row that a faulty store gets wrong.
const VICTIM: u64 = 33;

/// The faults, as parameters of the store's type.
const NONE: u8 = 0;
const LOSES: u8 = 1;
const MIXES: u8 = 2;

struct InMemory<const FAULT: u8> {
    rows: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl<const FAULT: u8> Store for InMemory<FAULT> {
    fn open(_: &Settings, _: &Path) -> Result<Self> {
        Ok(InMemory {
            rows: RwLock::default(),
        })
    }

    fn durability(&self) -> String {
        "none".into()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut value = value.to_vec();
        if row_of(key) == Some(VICTIM) {
            match FAULT {
                LOSES => return Ok(()),
                MIXES => value[0] ^= 1,
                _ => {}
            }
        }
        self.rows.write().unwrap().insert(key.to_vec(), value);
        Ok(())
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }

    fn get<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(read(self.rows.read().unwrap().get(key).map(Vec::as_slice)))
    }

    fn scan(&self, start: &[u8], limit: usize, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let rows = self.rows.read().unwrap();
        let from_start = rows.range(start.to_vec()..).take(limit);
        from_start.for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

fn outcome<const FAULT: u8>(workload: Workload) -> Result<Outcome> {
    let directory = tempfile::tempdir()?;
    let scale = Scale {
        rows: 100,
        rows_per_second: None,
        value_bytes: 20,
        reads: 5_000,
        durable_writes: 80,
        seed: 1,
    };
    let settings = Settings::default();
    Run::new(&settings, &scale, directory.path()).phase::<InMemory<FAULT>>(workload, Phase::Measure)
}

const WORKLOADS: [Workload; 4] = [
    Workload::Load,
    Workload::Read,
    Workload::ReadWhileLoad,
    Workload::Sync,
];

#[test]
fn a_whole_store_has_figures() {
    for workload in WORKLOADS {
        let outcome = outcome::<NONE>(workload).unwrap();
        assert!(outcome.compared >= 80, "{workload:?}");
        for metric in outcome.metrics {
            // Nothing is written to a device.
            assert!(
                metric.value > 0.0 || metric.name == "write amplification",
                "{metric:?}"
            );
        }
    }
}

#[test]
fn a_store_that_loses_a_row_or_mixes_up_a_value_has_none() {
    for workload in WORKLOADS {
        let lost = outcome::<LOSES>(workload).unwrap_err().to_string();
        assert_eq!(lost, format!("row {VICTIM} is lost"), "{workload:?}");
        let mixed = outcome::<MIXES>(workload).unwrap_err().to_string();
        assert_eq!(
            mixed,
            format!("row {VICTIM} has a wrong value"),
            "{workload:?}"
        );
    }
}

#[test]
fn a_reopened_store_without_its_rows_has_none() {
    let lost = outcome::<NONE>(Workload::Reopen).unwrap_err().to_string();
    assert_eq!(lost, "row 0 is lost");
}
