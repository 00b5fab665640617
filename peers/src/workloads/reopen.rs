//! How long a store that was killed takes to its first read.
//!
//! The rows fill the buffers nearly; what of them is already in tables when the kill comes is the
//! store's own doing.

use std::time::Instant;

use rustix::process::{Signal, getpid, kill_process};

use crate::Result;
use crate::measure::Metric;
use crate::store::Store;
use crate::stream::Order;
use crate::workloads::{Outcome, Run};

/// Of the buffers, what is filled: 120 MB of 192 MiB.
const FILLED: (u64, u64) = (3, 5);

fn rows(run: &Run) -> u64 {
    let buffers_bytes = run.settings.buffer_bytes * u64::from(run.settings.buffers);
    let filled_bytes = buffers_bytes * FILLED.0 / FILLED.1;
    run.scale.rows.min(filled_bytes / run.user_bytes(1))
}

/// Writes the rows and dies at the last acknowledgement, without closing anything.
pub fn fill<S: Store>(run: &Run) -> Result<Outcome> {
    let rows = rows(run);
    let (store, order) = (run.open::<S>()?, Order::new(rows, run.scale.seed));
    for place in 0..rows {
        run.put(&store, order.at(place))?;
    }
    kill_process(getpid(), Signal::KILL)?;
    Err("this process outlived SIGKILL".into())
}

pub fn run<S: Store>(run: &Run) -> Result<Outcome> {
    let (rows, began) = (rows(run), Instant::now());
    let store = run.open::<S>()?;
    let opened = began.elapsed();
    run.check(&store, 0)?;
    let first_read = began.elapsed();
    let compared = run.check_many(&store, rows)?;
    let durability = store.durability();
    store.close()?;
    Ok(Outcome {
        durability,
        metrics: vec![
            Metric::less("open after a kill, ms", opened.as_secs_f64() * 1e3),
            Metric::less("to the first read, ms", first_read.as_secs_f64() * 1e3),
        ],
        compared,
    })
}
