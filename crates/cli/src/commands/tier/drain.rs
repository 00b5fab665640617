//! Empties a tier.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use terrace::{Db, Statistics, TierStatistics};
use terrace_tools::inspect;

use crate::arguments::TierDrain;
use crate::failure::{Failure, Result};
use crate::output::{print, print_json_line};
use crate::progress::Steps;
use crate::report::{by_owners, bytes, things};
use crate::store::{self, Found};
use crate::text::escape;

/// Time between two looks at the tier.
const PAUSE: Duration = Duration::from_millis(50);
/// Time without a change, and without a job that reserves bytes, after which tables stay.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn run(arguments: &TierDrain) -> Result<()> {
    let TierDrain {
        maintenance,
        name,
        no_wait,
    } = arguments;
    let began = Instant::now();
    let by_owner = |store: &Path| {
        let before = inspect::statistics(store)?;
        inspect::drain_tier(store, name)?;
        Ok([before, inspect::statistics(store)?])
    };
    let (drained, by_owner) = match store::maintain(&maintenance.store, by_owner)? {
        Found::Here(db) => {
            let drained = drain_here(&db, name, *no_wait);
            let closed = db.close();
            let drained = drained?;
            closed?;
            (drained, false)
        }
        Found::Asked(looks) => {
            let looks = looks.map(|statistics| Held::of(&statistics, name));
            let path = &maintenance.store.directory.path;
            let look = || Ok(inspect::statistics(path)?);
            (wait(name, *no_wait, looks, look)?, true)
        }
    };
    let Drained { moved, left } = drained;
    if maintenance.json {
        return print_json_line(&json!({
            "tier": name,
            "moved_tables": moved.tables,
            "moved_bytes": moved.table_bytes,
            "tables": left.tables,
            "bytes": left.table_bytes,
            "seconds": began.elapsed().as_secs_f64(),
            "by_owner": by_owner,
        }));
    }
    let (name, owner) = (escape(name.as_bytes()), by_owners(by_owner));
    let seconds = began.elapsed().as_secs_f64();
    print(match left.tables {
        0 => format!(
            "drained tier {name}{owner} in {seconds:.2} s: {} with {} moved{}\n",
            things(moved.tables, "table"),
            bytes(moved.table_bytes),
            match left.files_bytes {
                0 => String::new(),
                files => format!("; files of {} wait for their deletion", bytes(files)),
            }
        ),
        tables => format!(
            "tier {name} is being drained{owner}: {} with {} left\n",
            things(tables, "table"),
            bytes(left.table_bytes)
        ),
    })
}

fn drain_here(db: &Db, name: &str, no_wait: bool) -> Result<Drained> {
    let before = Held::of(&db.statistics(), name);
    db.drain_tier(name)?;
    let first = Held::of(&db.statistics(), name);
    wait(name, no_wait, [before, first], || {
        // It wakes the worker, whose failure shows in the statistics.
        let _ = db.wait_for_migration();
        Ok(db.statistics())
    })
}

/// Contents of the tier, and the work on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    tables: u64,
    table_bytes: u64,
    /// Bytes of files that wait for their deletion are among these.
    files_bytes: u64,
}

impl Held {
    /// Returns the contents of a tier; nothing for one that is gone.
    fn of(statistics: &Statistics, name: &str) -> Self {
        let tier = statistics.tiers.iter().find(|tier| tier.name == name);
        tier.map_or(Held::default(), |tier| Held {
            tables: tier.tables,
            table_bytes: tier.level_bytes.iter().sum(),
            files_bytes: tier.files_bytes,
        })
    }
}

/// Tables that moved, and those that are left.
struct Drained {
    moved: Held,
    left: Held,
}

/// Waits until a tier is empty. It has been looked at before the drain and after.
///
/// # Errors
/// [`Failure::NoRoom`] if nothing moves any more.
fn wait(
    name: &str,
    no_wait: bool,
    [before, first]: [Held; 2],
    mut look: impl FnMut() -> Result<Statistics>,
) -> Result<Drained> {
    let mut steps = Steps::of_bytes(format!("tier {}, moved", escape(name.as_bytes())));
    let mut watch = Watch::new(first, Instant::now());
    let ended = loop {
        let left = watch.last;
        let moved_bytes = before.table_bytes.saturating_sub(left.table_bytes);
        steps.reach(moved_bytes, Some(before.table_bytes));
        if no_wait || left.tables == 0 && left.files_bytes == 0 {
            break Ok(());
        }
        thread::sleep(PAUSE);
        let statistics = match look() {
            Ok(statistics) => statistics,
            Err(failure) => break Err(failure),
        };
        if watch.is_stuck(&statistics, name, Instant::now()) {
            // Files that wait for a reader hold no table any more.
            break match watch.last.tables {
                0 => Ok(()),
                _ => Err(stuck(&statistics, name, watch.last)),
            };
        }
    };
    steps.finish();
    ended?;
    let left = watch.last;
    Ok(Drained {
        moved: Held {
            tables: before.tables.saturating_sub(left.tables),
            table_bytes: before.table_bytes.saturating_sub(left.table_bytes),
            ..Held::default()
        },
        left,
    })
}

/// Notices that nothing moves.
struct Watch {
    last: Held,
    migrations: u64,
    changed: Instant,
}

impl Watch {
    fn new(last: Held, now: Instant) -> Self {
        Watch {
            last,
            migrations: 0,
            changed: now,
        }
    }

    /// Takes a look. Returns whether nothing has changed for long, and no job is under way that may change
    /// it.
    fn is_stuck(&mut self, statistics: &Statistics, name: &str, now: Instant) -> bool {
        let held = Held::of(statistics, name);
        let is_same = held == self.last && statistics.migrations == self.migrations;
        let is_idle = statistics.tiers.iter().all(|tier| tier.reserved_bytes == 0);
        (self.last, self.migrations) = (held, statistics.migrations);
        if !is_same || !is_idle {
            self.changed = now;
        }
        now.duration_since(self.changed) >= PATIENCE
    }
}

/// Returns the reason why tables stay.
fn stuck(statistics: &Statistics, name: &str, left: Held) -> Failure {
    let is_other = |tier: &&TierStatistics| tier.name != name && tier.state == "open";
    let others = statistics.tiers.iter().filter(is_other);
    let rooms: Vec<String> = others
        .clone()
        .map(|tier| {
            let name = escape(tier.name.as_bytes());
            format!("{name} {}", bytes(tier.room_bytes))
        })
        .collect();
    let left_words = format!(
        "tier {} still holds {} with {}",
        escape(name.as_bytes()),
        things(left.tables, "table"),
        bytes(left.table_bytes)
    );
    let has_room = others.map(|tier| tier.room_bytes).max() >= Some(left.table_bytes);
    if !has_room {
        let rooms = match rooms.is_empty() {
            true => "no other tier is open".to_owned(),
            false => format!("room: {}", rooms.join(", ")),
        };
        return Failure::NoRoom(format!(
            "{left_words}, and no other tier has room for them ({rooms})"
        ));
    }
    let error = statistics.last_error.as_ref().map(ToString::to_string);
    let error = error.unwrap_or("nothing moves, although other tiers have room".to_owned());
    Failure::io(left_words, io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use terrace::Error;

    use super::*;

    fn statistics(tables: u64, reserved_bytes: u64, room_bytes: u64) -> Statistics {
        let mut statistics = Statistics::default();
        for (name, tables, reserved_bytes) in [("disk", tables, 0), ("fast", 0, reserved_bytes)] {
            let mut tier = TierStatistics::default();
            (tier.name, tier.state) = (name.to_owned(), "open".to_owned());
            (tier.tables, tier.level_bytes) = (tables, vec![0, tables * 100]);
            (tier.files_bytes, tier.reserved_bytes) = (tables * 100, reserved_bytes);
            tier.room_bytes = room_bytes;
            statistics.tiers.push(tier);
        }
        statistics
    }

    #[test]
    fn tables_are_stuck_when_nothing_moves_and_no_job_is_under_way() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Watch::new(Held::of(&statistics(3, 0, 0), "disk"), start);
        assert!(!watch.is_stuck(&statistics(3, 0, 0), "disk", at(2)));
        // A table moved, and a copy is under way.
        assert!(!watch.is_stuck(&statistics(2, 0, 0), "disk", at(4)));
        assert!(!watch.is_stuck(&statistics(2, 7, 0), "disk", at(9)));
        assert!(!watch.is_stuck(&statistics(2, 0, 0), "disk", at(11)));
        assert!(watch.is_stuck(&statistics(2, 0, 0), "disk", at(12)));
    }

    #[test]
    fn a_failure_names_the_room_of_other_tiers_or_the_error() {
        let mut full = statistics(2, 0, 30);
        let left = Held::of(&full, "disk");
        let failure = stuck(&full, "disk", left);
        assert_eq!(failure.exit_code(), 5);
        assert_eq!(
            failure.to_string(),
            "tier disk still holds 2 tables with 200 B, and no other tier has room for them (room: fast 30 B)"
        );
        full.tiers[1].room_bytes = 1 << 20;
        full.last_error = Some(Error::Closed);
        let failure = stuck(&full, "disk", left);
        assert_eq!(failure.exit_code(), 6);
        assert!(failure.to_string().contains("with 200 B: "), "{failure}");
    }
}
