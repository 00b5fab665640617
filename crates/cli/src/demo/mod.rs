//! `terrace demo`: a real data set imported and queried, an import killed with SIGKILL, and the
//! recovered rows compared with the acknowledged ones.

mod findings;
mod unicode;
mod victim;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use terrace::{Db, IterOptions, Keyspace, Options};

use crate::arguments::Demo;
use crate::commands::picture;
use crate::demo::findings::Findings;
use crate::demo::unicode::Character;
use crate::failure::{Failure, Result};
use crate::import::{ImportError, Observer, Plan, Record, import};
use crate::output::print;
use crate::report::{bytes, count, rate, things};
use crate::text::shown;

pub use victim::run as child;

/// A child that finishes before it is killed proves nothing; it is tried again.
const ATTEMPTS: usize = 5;

/// Returns options with small arenas: a few megabytes are enough for flushes and a compaction.
fn options() -> Options {
    Options {
        arena_bytes: 1 << 20,
        ..Options::default()
    }
}

pub fn run(arguments: &Demo) -> Result<()> {
    let place = Place::prepare(arguments)?;
    let written = unicode::all().map_err(|error| Failure::Usage(error.to_string()))?;
    say(&format!(
        "Terrace {}, in {}",
        env!("CARGO_PKG_VERSION"),
        shown(&place.directory)
    ))?;

    let imported = place.directory.join("imported");
    let db = Db::open(&imported, options())?;
    import_all(&db, &written)?;
    queries(&db)?;
    levels(&db)?;
    db.close()?;
    let broken = kill(&place.directory.join("killed"), &written)?;
    if arguments.keep {
        say(&format!("\nKept: terrace stats -d {}", shown(&imported)))?;
    }
    match broken.is_empty() {
        true => say("\nNothing that was acknowledged is lost, and nothing is half there."),
        false => Err(Failure::Damaged(broken.join("; "))),
    }
}

fn import_all(db: &Db, written: &[Record]) -> Result<()> {
    say("\n1. Import Unicode's character database")?;
    let start = Instant::now();
    let imported = import_rows(db)?;
    let elapsed = start.elapsed();
    say(&format!(
        "   {} rows ({}) in {}, {} rows/s",
        count(imported.rows),
        bytes(imported.bytes),
        milliseconds(elapsed),
        rate(imported.rows, elapsed)
    ))?;
    debug_assert_eq!(imported.rows, written.len() as u64);
    Ok(())
}

fn import_rows(db: &Db) -> Result<crate::import::Imported> {
    let plan = Plan {
        keyspace: Keyspace::clone(db),
        batch_rows: 1000,
        sync: false,
        skip_bad: false,
        obsolete: None,
    };
    let result = unicode::rows()
        .map_err(|error| ImportError::Record { error, rows: 0 })
        .and_then(|mut rows| import(&mut rows, db, &plan, None, &mut Nobody));
    result.map_err(|error| match error {
        ImportError::Record { error, .. } => Failure::Usage(error.to_string()),
        ImportError::Failure(failure) => failure,
    })
}

/// An import of a moment needs no progress.
struct Nobody;

impl Observer for Nobody {
    fn acknowledged(&mut self, _rows: u64, _last: &[u8]) -> Result<()> {
        Ok(())
    }

    fn skipped(&mut self, _line: u64, _what: &str) {}
}

fn queries(db: &Db) -> Result<()> {
    say("\n2. Queries")?;
    let start = Instant::now();
    let face = db.get(b"1F600")?.ok_or(Failure::KeyNotFound)?;
    let elapsed = start.elapsed();
    say(&format!(
        "   get 1F600: {} ({} µs)",
        character(b"1F600", &face)?.name,
        elapsed.as_micros()
    ))?;

    let faces = names(db.iter(IterOptions::prefix(b"1F60"))?.entries().take(3))?;
    say(&format!(
        "   scan --prefix 1F60 --limit 3: {}",
        faces.join(", ")
    ))?;

    let last = names(db.iter(IterOptions::default())?.entries().rev().take(3))?;
    say(&format!("   scan --reverse --limit 3: {}", last.join(", ")))?;

    let start = Instant::now();
    let (mut rows, mut capitals) = (0, 0);
    for entry in db.iter(IterOptions::default())?.entries() {
        let (key, value) = entry?;
        rows += 1;
        capitals += u64::from(character(&key, &value)?.category == "Lu");
    }
    say(&format!(
        "   full scan: {} of {} characters are capital letters, category Lu ({})",
        count(capitals),
        count(rows),
        milliseconds(start.elapsed())
    ))
}

fn names(
    entries: impl Iterator<Item = terrace::Result<(Vec<u8>, Vec<u8>)>>,
) -> Result<Vec<String>> {
    entries
        .map(|entry| {
            let (key, value) = entry?;
            let name = character(&key, &value)?.name;
            Ok(format!("{} {name}", String::from_utf8_lossy(&key)))
        })
        .collect()
}

fn character(key: &[u8], value: &[u8]) -> Result<Character> {
    serde_json::from_slice(value).map_err(|error| {
        let key = String::from_utf8_lossy(key);
        Failure::Damaged(format!(
            "the value of {key} is not what was imported: {error}"
        ))
    })
}

fn levels(db: &Db) -> Result<()> {
    say("\n3. Levels, after a flush")?;
    db.flush()?;
    db.compact()?;
    for line in picture(&db.levels_with_duplicates()).lines() {
        say(&format!("   {line}"))?;
    }
    Ok(())
}

/// Returns the promises that were broken.
fn kill(directory: &Path, written: &[Record]) -> Result<Vec<String>> {
    say("\n4. Kill")?;
    say(&format!(
        "   A child process imports the rows again, {} a batch, and tells of each batch that the\n   \
         store has acknowledged.",
        victim::BATCH_ROWS
    ))?;
    let total = written.len() as u64;
    let acknowledged = interrupted_import(directory, total)?;
    say(&format!(
        "   Killed with SIGKILL in mid-import, {} rows acknowledged.",
        count(acknowledged)
    ))?;

    let start = Instant::now();
    let db = Db::open(directory, options())?;
    let elapsed = start.elapsed();
    let recovery = db.statistics().recovery;
    say(&format!(
        "   Reopened in {}: {} taken from {} in {}, the rest from tables.",
        milliseconds(elapsed),
        things(recovery.writes, "write"),
        things(recovery.frames as u64, "frame"),
        things(recovery.arenas as u64, "arena"),
    ))?;

    let found: terrace::Result<HashMap<_, _>> =
        db.iter(IterOptions::default())?.entries().collect();
    let findings = Findings::compare(written, victim::BATCH_ROWS, acknowledged, &found?);
    let kept = acknowledged - findings.missing;
    say(&format!(
        "   {} of {} acknowledged rows are there; batches half there: {}.",
        count(kept),
        count(acknowledged),
        findings.half_batches
    ))?;
    say(&format!(
        "   {} more had reached the store when the kill came, not yet acknowledged.",
        things(findings.rows.saturating_sub(kept), "row")
    ))?;

    let imported = import_rows(&db)?;
    let rows = db.iter(IterOptions::default())?.entries().count() as u64;
    db.close()?;
    say(&format!(
        "   The import, run again to its end, leaves {} rows.",
        count(rows)
    ))?;
    let mut broken = findings.broken_promises();
    if rows != imported.rows {
        broken.push(format!("{rows} rows after importing {}", imported.rows));
    }
    Ok(broken)
}

/// Kills an import. Returns the number of rows that it had acknowledged.
fn interrupted_import(directory: &Path, total_rows: u64) -> Result<u64> {
    for _ in 0..ATTEMPTS {
        let killed = victim::start_and_kill(directory, total_rows)?;
        if killed.in_mid_import {
            return Ok(killed.acknowledged);
        }
        say("   (The child had finished before it was killed; once more.)")?;
        fs::remove_dir_all(directory).map_err(|error| Failure::file(directory, error))?;
    }
    Err(Failure::io(
        "the demo",
        io::Error::other(format!(
            "{ATTEMPTS} children finished before they were killed"
        )),
    ))
}

/// Where the demo's stores are; removed at the end unless they are to be kept.
struct Place {
    directory: PathBuf,
    /// Paths to remove.
    remove: Vec<PathBuf>,
}

impl Place {
    fn prepare(arguments: &Demo) -> Result<Self> {
        let directory = arguments.directory.clone().unwrap_or_else(|| {
            std::env::temp_dir().join(format!("terrace-demo-{}", std::process::id()))
        });
        let failed = |error| Failure::file(&directory, error);
        let existed = directory.exists();
        fs::create_dir_all(&directory).map_err(failed)?;
        if fs::read_dir(&directory).map_err(failed)?.next().is_some() {
            return Err(Failure::Usage(format!(
                "{} is not empty; the demo wants a directory of its own",
                shown(&directory)
            )));
        }
        let remove = match (arguments.keep, existed) {
            (true, _) => Vec::new(),
            (false, true) => vec![directory.join("imported"), directory.join("killed")],
            (false, false) => vec![directory.clone()],
        };
        Ok(Place { directory, remove })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for path in &self.remove {
            // Left-overs of a failed demo are worth no second error.
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

fn say(line: &str) -> Result<()> {
    print(format!("{line}\n"))
}
