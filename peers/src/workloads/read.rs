//! Reads of a store that was loaded in random order and has settled, in the process that loaded it.

use crate::Result;
use crate::measure::{Laps, Metric, rate};
use crate::store::Store;
use crate::stream::{Choice, Order, key, row_of};
use crate::workloads::{Outcome, Run};

const SCAN_ROWS: u64 = 50;

pub fn run<S: Store>(run: &Run) -> Result<Outcome> {
    let rows = run.scale.rows;
    let (store, order) = (run.open::<S>()?, Order::new(rows, run.scale.seed));
    for place in 0..rows {
        run.put(&store, order.at(place))?;
    }
    store.settle()?;

    let mut metrics = Vec::new();
    for (name, choice) in [("uniform", Choice::Uniform), ("zipfian", Choice::Zipfian)] {
        metrics.extend(points(run, &store, name, choice)?);
    }
    metrics.extend(scans(run, &store)?);
    let durability = store.durability();
    store.close()?;
    Ok(Outcome {
        durability,
        metrics,
        compared: 2 * run.scale.reads,
    })
}

/// Point reads, each compared, after a quarter as many that warm the caches.
fn points<S: Store>(run: &Run, store: &S, name: &str, choice: Choice) -> Result<Vec<Metric>> {
    let (rows, reads) = (run.scale.rows, run.scale.reads);
    for row in choice.rows(rows, reads / 4, run.scale.seed + 1)? {
        run.check(store, row)?;
    }
    let chosen = choice.rows(rows, reads, run.scale.seed + 2)?;
    let mut laps = Laps::start()?;
    let began = laps.last();
    for row in chosen {
        run.check(store, row)?;
        laps.lap();
    }
    let mut metrics = vec![Metric::more(
        format!("{name} reads/s"),
        rate(reads, laps.last() - began),
    )];
    metrics.extend(laps.latencies.metrics(&format!("{name} read")));
    Ok(metrics)
}

/// Scans from random rows on, each row compared.
fn scans<S: Store>(run: &Run, store: &S) -> Result<Vec<Metric>> {
    let (rows, scans) = (run.scale.rows, (run.scale.reads / SCAN_ROWS).max(1));
    let starts = Choice::Uniform.rows(rows, scans, run.scale.seed + 3)?;
    let mut laps = Laps::start()?;
    let began = laps.last();
    for start in starts {
        let (mut expected, mut wrong) = (start, None);
        store.scan(&key(start), SCAN_ROWS as usize, |key, value| {
            if row_of(key) != Some(expected) || value != run.values.of(expected) {
                wrong.get_or_insert(expected);
            }
            expected += 1;
        })?;
        if let Some(row) = wrong {
            return Err(format!("a scan shows something else for row {row}").into());
        }
        if expected != rows.min(start + SCAN_ROWS) {
            return Err(format!("a scan from row {start} ends before row {expected}").into());
        }
        laps.lap();
    }
    let mut metrics = vec![Metric::more(
        format!("scans of {SCAN_ROWS} rows/s"),
        rate(scans, laps.last() - began),
    )];
    metrics.extend(laps.latencies.metrics("scan"));
    Ok(metrics)
}
