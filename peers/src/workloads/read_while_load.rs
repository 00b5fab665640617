//! One thread reads the first half of the rows, settled, while another loads the second half.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::Result;
use crate::measure::{Laps, Metric, rate};
use crate::store::Store;
use crate::stream::{Choice, Order};
use crate::workloads::{Outcome, Run};

pub fn run<S: Store>(run: &Run) -> Result<Outcome> {
    let rows = run.scale.rows;
    let (store, order) = (run.open::<S>()?, Order::new(rows, run.scale.seed));
    let half = rows / 2;
    for place in 0..half {
        run.put(&store, order.at(place))?;
    }
    store.settle()?;

    let places = Choice::Uniform.rows(half, run.scale.reads, run.scale.seed)?;
    let (began, loaded) = (Instant::now(), AtomicBool::new(false));
    let (loading, reading) = thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<(Laps, u64)> {
            let mut laps = Laps::start()?;
            let mut reads = 0;
            for place in places.iter().cycle() {
                run.check(&store, order.at(*place))?;
                laps.lap();
                reads += 1;
                if loaded.load(Ordering::Relaxed) {
                    break;
                }
            }
            Ok((laps, reads))
        });
        let loading = (half..rows).try_for_each(|place| {
            run.keep_pace(began, place - half);
            run.put(&store, order.at(place))
        });
        let ended = Instant::now();
        loaded.store(true, Ordering::Relaxed);
        let reading = reader.join();
        (loading.map(|()| ended), reading)
    });
    let ended = loading?;
    let (laps, reads) = reading.map_err(|_| "the reading thread panicked")??;

    let mut metrics = vec![
        Metric::more("reads/s", rate(reads, laps.last() - began)),
        Metric::more("rows/s loaded meanwhile", rate(rows - half, ended - began)),
    ];
    metrics.extend(laps.latencies.metrics("read"));
    let compared = reads + run.check_many(&store, rows)?;
    let durability = store.durability();
    store.close()?;
    Ok(Outcome {
        durability,
        metrics,
        compared,
    })
}
