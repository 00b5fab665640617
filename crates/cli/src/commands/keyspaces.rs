//! The keyspaces of a store: listed, renamed, dropped. Where it is open elsewhere, its owner does it.

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::json;
use terrace::{Db, Error, KeyspaceReport, LevelsReport};
use terrace_tools::inspect;

use crate::arguments::{DropKeyspace, Keyspaces, RenameKeyspace, Report};
use crate::failure::{Failure, Result};
use crate::output::{print, print_json, print_json_line};
use crate::report::{by_owners, bytes, count, things};
use crate::store;
use crate::text::escape;

/// Between two looks at the files that are still to be deleted.
const PAUSE: Duration = Duration::from_millis(10);
/// Looks without a deletion after which the next opening deletes the rest.
const MAX_IDLE_LOOKS: u32 = 500;

pub fn run(what: &Keyspaces) -> Result<()> {
    match what {
        Keyspaces::List(arguments) => list(arguments),
        Keyspaces::Rename(arguments) => rename(arguments),
        Keyspaces::Drop(arguments) => drop_one(arguments),
    }
}

/// The tables of a keyspace.
#[derive(Clone, Copy, Default)]
struct Held {
    tables: u64,
    bytes: u64,
}

impl Held {
    fn of(keyspace: &KeyspaceReport) -> Self {
        let sub_levels = keyspace.levels.iter().flatten();
        let tables = sub_levels.flat_map(|sub_level| &sub_level.tables);
        tables.fold(Held::default(), |held, table| Held {
            tables: held.tables + 1,
            bytes: held.bytes + table.size_bytes,
        })
    }

    /// Returns the tables and bytes of the keyspace with a name, none if it is missing.
    fn of_named(report: &LevelsReport, name: &str) -> Self {
        let mut keyspaces = report.keyspaces.iter();
        let found = keyspaces.find(|keyspace| keyspace.name == name);
        found.map(Held::of).unwrap_or_default()
    }
}

fn list(arguments: &Report) -> Result<()> {
    let report = store::tables(&arguments.store)?;
    let keyspaces = report.keyspaces.iter();
    if arguments.json {
        let keyspaces = keyspaces.map(|keyspace| {
            let Held { tables, bytes } = Held::of(keyspace);
            json!({"id": keyspace.id, "name": keyspace.name, "tables": tables, "bytes": bytes})
        });
        return print_json(&json!({"keyspaces": keyspaces.collect::<Vec<_>>()}));
    }
    let mut text = format!("{:>8} {:>10}  keyspace\n", "tables", "bytes");
    for keyspace in keyspaces {
        let held = Held::of(keyspace);
        text.push_str(&format!(
            "{:>8} {:>10}  {}\n",
            count(held.tables),
            bytes(held.bytes),
            escape(keyspace.name.as_bytes())
        ));
    }
    print(text)
}

fn rename(arguments: &RenameKeyspace) -> Result<()> {
    let RenameKeyspace {
        maintenance,
        old,
        new,
    } = arguments;
    let here = |db: &Db| db.rename_keyspace(old, new);
    let by_owner = |store: &Path| inspect::rename_keyspace(store, old, new);
    let found = store::maintain(&maintenance.store, by_owner)?;
    let ((), by_owner) = store::change(found, here)?;
    if maintenance.json {
        return print_json_line(&json!({"from": old, "to": new, "by_owner": by_owner}));
    }
    let (old, new) = (escape(old.as_bytes()), escape(new.as_bytes()));
    let owner = by_owners(by_owner);
    print(format!("renamed {old} to {new}{owner}\n"))
}

fn drop_one(arguments: &DropKeyspace) -> Result<()> {
    let DropKeyspace {
        maintenance, name, ..
    } = arguments;
    let here = |db: &Db| {
        let held = Held::of_named(&db.levels(), name);
        db.drop_keyspace(name)?;
        wait_for_deletions(db);
        Ok(held)
    };
    let by_owner = |store: &Path| {
        let held = Held::of_named(&inspect::levels(store)?, name);
        inspect::drop_keyspace(store, name)?;
        Ok(held)
    };
    let found = store::maintain(&maintenance.store, by_owner);
    let changed = found.and_then(|found| store::change(found, here));
    let (held, by_owner) = match changed {
        Err(Failure::Store(Error::NoKeyspace { .. })) if arguments.if_exists => (None, false),
        done => done.map(|(held, by_owner)| (Some(held), by_owner))?,
    };
    if maintenance.json {
        let Held { tables, bytes } = held.unwrap_or_default();
        return print_json_line(&json!({
            "name": name,
            "dropped": held.is_some(),
            "tables": tables,
            "bytes": bytes,
            "by_owner": by_owner,
        }));
    }
    let shown = escape(name.as_bytes());
    print(match held {
        None => format!("there is no keyspace {shown}; nothing is dropped\n"),
        Some(Held {
            tables,
            bytes: held,
        }) => format!(
            "dropped {shown}{}: {} with {}\n",
            by_owners(by_owner),
            things(tables, "table"),
            bytes(held)
        ),
    })
}

/// Waits for the files of dropped tables to go: a close leaves them to the next opening.
fn wait_for_deletions(db: &Db) {
    let (mut left, mut idle) = (db.statistics().tables_to_delete, 0);
    while left > 0 && idle < MAX_IDLE_LOOKS {
        thread::sleep(PAUSE);
        let now = db.statistics().tables_to_delete;
        idle = if now < left { 0 } else { idle + 1 };
        left = now;
    }
}
