//! Putting a store in order: compact, flush, checkpoint.

use std::io::{self, IsTerminal};
use std::ops::Bound;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::json;
use terrace::{Db, IterOptions, Purpose, Statistics};

use crate::arguments::{CheckpointTo, Compact, Maintenance};
use crate::commands::print;
use crate::commands::scan::range;
use crate::failure::Result;
use crate::report::{bytes, things};
use crate::store;

pub fn compact(arguments: &Compact) -> Result<()> {
    let IterOptions { lower, upper, .. } = range(&arguments.range)?;
    let whole = (&lower, &upper) == (&Bound::Unbounded, &Bound::Unbounded);
    run(&arguments.maintenance, "compacting", "compacted", |db| {
        let keyspace = db.keyspace(&arguments.keyspace.name)?;
        if whole && !arguments.all {
            db.flush()?;
            return db.compact();
        }
        let lower = lower.as_ref().map(Vec::as_slice);
        let upper = upper.as_ref().map(Vec::as_slice);
        keyspace.compact_range((lower, upper))
    })
}

pub fn checkpoint(arguments: &CheckpointTo) -> Result<()> {
    run(&arguments.maintenance, "copying", "copied", |db| {
        db.checkpoint(&arguments.directory).map(|_| ())
    })
}

pub fn flush(arguments: &Maintenance) -> Result<()> {
    run(arguments, "flushing", "flushed", Db::flush)
}

fn run(
    arguments: &Maintenance,
    doing: &'static str,
    done: &str,
    work: impl FnOnce(&Db) -> terrace::Result<()>,
) -> Result<()> {
    let spinner = match io::stderr().is_terminal() {
        true => ProgressBar::new_spinner().with_message(doing),
        false => ProgressBar::hidden(),
    };
    spinner.enable_steady_tick(Duration::from_millis(200));
    let began = Instant::now();
    let db = store::open_to_maintain(&arguments.store)?;
    let worked = work(&db);
    spinner.finish_and_clear();
    let closed = db.close();
    worked?;
    closed?;
    // Only now has all that was done been counted.
    let statistics = db.statistics();
    print(summary(done, &statistics, began.elapsed(), arguments.json))
}

fn summary(done: &str, statistics: &Statistics, elapsed: Duration, json: bool) -> String {
    let levels = &statistics.levels;
    let tables = levels.iter().map(|level| level.tables as u64).sum();
    let table_bytes = levels.iter().map(|level| level.bytes).sum();
    let written = [Purpose::Flush, Purpose::Compaction].map(|purpose| statistics.io.of(purpose));
    let written_bytes = written.iter().map(|io| io.written_bytes).sum();
    let seconds = elapsed.as_secs_f64();
    if json {
        let summary = json!({
            "tables": tables,
            "table_bytes": table_bytes,
            "merges": statistics.merges,
            "moves": statistics.moves,
            "written_bytes": written_bytes,
            "seconds": seconds,
        });
        return format!("{summary}\n");
    }
    format!(
        "{done} in {seconds:.2} s: {} with {}, {} written\n",
        things(tables, "table"),
        bytes(table_bytes),
        bytes(written_bytes),
    )
}
