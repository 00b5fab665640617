//! Putting a store in order: compact, flush, checkpoint. Where it is open elsewhere, its owner does it.

use std::io::{self, IsTerminal};
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use terrace::{Db, IterOptions, Purpose, Statistics};
use terrace_tools::inspect;

use crate::arguments::{CheckpointTo, Compact, Maintenance};
use crate::commands::scan::range;
use crate::failure::Result;
use crate::output::{print, print_json_line};
use crate::report::{by_owners, bytes, things};
use crate::store::{self, Found};

pub fn compact(arguments: &Compact) -> Result<()> {
    let IterOptions { lower, upper, .. } = range(&arguments.range)?;
    let whole = (&lower, &upper) == (&Bound::Unbounded, &Bound::Unbounded);
    let settles = whole && !arguments.all;
    let lower = lower.as_ref().map(Vec::as_slice);
    let upper = upper.as_ref().map(Vec::as_slice);
    let name = arguments.keyspace.name.as_str();
    let here = |db: &Db| {
        let keyspace = db.keyspace(name)?;
        if settles {
            db.flush()?;
            return db.compact();
        }
        keyspace.compact_range((lower, upper))
    };
    let by_owner = |store: &Path| {
        if settles {
            inspect::flush(store)?;
            return inspect::compact(store, Some(name), None);
        }
        inspect::compact(store, Some(name), Some((lower, upper)))
    };
    let words = ("compacting", "compacted");
    run(&arguments.maintenance, words, here, by_owner)
}

pub fn checkpoint(arguments: &CheckpointTo) -> Result<()> {
    let to = &arguments.directory;
    run(
        &arguments.maintenance,
        ("copying", "copied"),
        |db| db.checkpoint(to).map(|_| ()),
        |store| inspect::checkpoint(store, to).map(|_| ()),
    )
}

pub fn flush(arguments: &Maintenance) -> Result<()> {
    let words = ("flushing", "flushed");
    run(arguments, words, Db::flush, inspect::flush)
}

/// Does the work here or, where the store is open elsewhere, has its owner do it.
fn run(
    arguments: &Maintenance,
    (doing, done): (&'static str, &str),
    here: impl FnOnce(&Db) -> terrace::Result<()>,
    by_owner: impl Fn(&Path) -> terrace::Result<()>,
) -> Result<()> {
    let spinner = match io::stderr().is_terminal() {
        true => ProgressBar::new_spinner().with_message(doing),
        false => ProgressBar::hidden(),
    };
    spinner.enable_steady_tick(Duration::from_millis(200));
    let began = Instant::now();
    let figures = figures(arguments, here, by_owner);
    spinner.finish_and_clear();
    tell_end(done, &figures?, began.elapsed(), arguments.json)
}

fn figures(
    arguments: &Maintenance,
    here: impl FnOnce(&Db) -> terrace::Result<()>,
    by_owner: impl Fn(&Path) -> terrace::Result<()>,
) -> Result<Figures> {
    let found = store::maintain(&arguments.store, |path| {
        let before = inspect::statistics(path)?;
        by_owner(path)?;
        // The work is done, though the owner may have closed the store since.
        let after = inspect::statistics(path).ok();
        Ok(Figures {
            by_owner: true,
            counted: after.map(|after| Counted::of(&after, Some(&before))),
        })
    });
    match found? {
        Found::Here(db) => run_here(&db, here),
        Found::Asked(figures) => Ok(figures),
    }
}

fn run_here(db: &Db, work: impl FnOnce(&Db) -> terrace::Result<()>) -> Result<Figures> {
    let worked = work(db);
    let closed = db.close();
    worked?;
    closed?;
    // Only now has all that was done been counted.
    Ok(Figures {
        by_owner: false,
        counted: Some(Counted::of(&db.statistics(), None)),
    })
}

/// Figures of a job that ended.
struct Figures {
    by_owner: bool,
    /// `None` if the owner no longer answers.
    counted: Option<Counted>,
}

/// Contents of the store, and its work: since the opening or, if the owner did the job, meanwhile.
struct Counted {
    tables: u64,
    table_bytes: u64,
    merges: u64,
    moves: u64,
    written_bytes: u64,
}

impl Counted {
    fn of(after: &Statistics, before: Option<&Statistics>) -> Self {
        // Between two questions the store may have been opened again: it counts from 0 then.
        let meanwhile =
            |count: fn(&Statistics) -> u64| count(after).saturating_sub(before.map_or(0, count));
        let levels = &after.levels;
        Counted {
            tables: levels.iter().map(|level| level.tables as u64).sum(),
            table_bytes: levels.iter().map(|level| level.bytes).sum(),
            merges: meanwhile(|statistics| statistics.merges),
            moves: meanwhile(|statistics| statistics.moves),
            written_bytes: meanwhile(written_bytes),
        }
    }
}

fn written_bytes(statistics: &Statistics) -> u64 {
    let written = [Purpose::Flush, Purpose::Compaction].map(|purpose| statistics.io.of(purpose));
    written.iter().map(|io| io.written_bytes).sum()
}

fn tell_end(done: &str, figures: &Figures, elapsed: Duration, json: bool) -> Result<()> {
    let seconds = elapsed.as_secs_f64();
    let counted = figures.counted.as_ref();
    if json {
        let count =
            |figure: fn(&Counted) -> u64| counted.map_or(Value::Null, |it| figure(it).into());
        return print_json_line(&json!({
            "tables": count(|counted| counted.tables),
            "table_bytes": count(|counted| counted.table_bytes),
            "merges": count(|counted| counted.merges),
            "moves": count(|counted| counted.moves),
            "written_bytes": count(|counted| counted.written_bytes),
            "seconds": seconds,
            "by_owner": figures.by_owner,
        }));
    }
    let by_owner = by_owners(figures.by_owner);
    let counted = counted.map_or(String::new(), |counted| {
        format!(
            ": {} with {}, {} written",
            things(counted.tables, "table"),
            bytes(counted.table_bytes),
            bytes(counted.written_bytes),
        )
    });
    print(format!("{done}{by_owner} in {seconds:.2} s{counted}\n"))
}
