//! Rows in random order by one thread.

use crate::Result;
use crate::measure::{Laps, Metric, Usage, peak_memory_bytes, rate};
use crate::store::Store;
use crate::stream::Order;
use crate::workloads::{Outcome, Run};

pub fn run<S: Store>(run: &Run) -> Result<Outcome> {
    let rows = run.scale.rows;
    let (store, order) = (run.open::<S>()?, Order::new(rows, run.scale.seed));
    let before = Usage::now()?;
    let mut laps = Laps::start()?;
    let began = laps.last();
    for place in 0..rows {
        if run.keep_pace(began, place) {
            laps.skip();
        }
        run.put(&store, order.at(place))?;
        laps.lap();
    }
    let acknowledged = laps.last();
    let settled = store.settle()?;
    let (after, memory_bytes) = (Usage::now()?, peak_memory_bytes()?);

    let written_bytes = after.written_bytes_since(&before) as f64;
    let mut metrics = vec![
        Metric::more(
            "rows/s to the last acknowledgement",
            rate(rows, acknowledged - began),
        ),
        Metric::more("rows/s to settled", rate(rows, settled - began)),
        Metric::less("longest gap, us", laps.latencies.longest_us()),
    ];
    metrics.extend(laps.latencies.metrics("put"));
    metrics.extend([
        Metric::less(
            "write amplification",
            written_bytes / run.user_bytes(rows) as f64,
        ),
        Metric::less(
            "processor time a row, us",
            after.processor_us_since(&before) / rows as f64,
        ),
        Metric::less("peak memory, MiB", memory_bytes as f64 / f64::from(1 << 20)),
    ]);
    let compared = run.check_many(&store, rows)?;
    let durability = store.durability();
    store.close()?;
    Ok(Outcome {
        durability,
        metrics,
        compared,
    })
}
