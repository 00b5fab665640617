//! Writes that are durable one by one, by one thread and by several that may share a sync.

use std::thread;
use std::time::Instant;

use crate::Result;
use crate::measure::{Laps, Latencies, Metric, Usage, rate};
use crate::settings::Settings;
use crate::store::Store;
use crate::stream::{Order, key};
use crate::workloads::{Outcome, Run};

const THREADS: [u64; 2] = [1, 8];

pub fn run<S: Store>(run: &Run) -> Result<Outcome> {
    let (mut metrics, mut compared, mut durability) = (Vec::new(), 0, String::new());
    for threads in THREADS {
        let directory = run.directory.join(format!("threads-{threads}"));
        std::fs::create_dir(&directory)?;
        let settings = Settings {
            syncs_each_write: true,
            ..run.settings.clone()
        };
        let store = S::open(&settings, &directory)?;
        metrics.extend(durable_writes(run, &store, threads)?);
        compared += run.check_many(&store, run.scale.durable_writes)?;
        durability = format!("{}; but each write waits for a sync", store.durability());
        store.close()?;
    }
    Ok(Outcome {
        durability,
        metrics,
        compared,
    })
}

fn durable_writes<S: Store>(run: &Run, store: &S, threads: u64) -> Result<Vec<Metric>> {
    let writes = run.scale.durable_writes;
    let order = Order::new(writes, run.scale.seed);
    let write = |thread: u64| -> Result<Latencies> {
        let mut laps = Laps::start()?;
        for place in (thread..writes).step_by(threads as usize) {
            let row = order.at(place);
            store.put_durable(&key(row), run.values.of(row))?;
            laps.lap();
        }
        Ok(laps.latencies)
    };

    let (before, began) = (Usage::now()?, Instant::now());
    let written: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || write(thread)))
            .collect();
        running.into_iter().map(|thread| thread.join()).collect()
    });
    let (time, after) = (began.elapsed(), Usage::now()?);
    let mut latencies = Latencies::new()?;
    for thread in written {
        latencies.add(&thread.map_err(|_| "a writing thread panicked")??)?;
    }

    let name = match threads {
        1 => "1 thread".to_string(),
        threads => format!("{threads} threads"),
    };
    let mut metrics = vec![Metric::more(
        format!("{name}: durable writes/s"),
        rate(writes, time),
    )];
    metrics.extend(latencies.metrics(&format!("{name}: write")));
    metrics.push(Metric::less(
        format!("{name}: processor time a write, us"),
        after.processor_us_since(&before) / writes as f64,
    ));
    Ok(metrics)
}
