//! redb: a copy-on-write B+ tree in Rust.
//!
//! It has two kinds of commit: one that is synced, and one that lives in the process's memory until
//! the next that is. There is none that survives the process but not a power cut, so the synced one
//! is used in both classes: what redb acknowledges then survives more than what the others do.

use std::path::Path;
use std::time::Instant;

use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use terrace_bench::Result;
use terrace_bench::settings::{DurabilityClass, Settings};
use terrace_bench::store::{Activity, Contestant, Direction, Opened, Store};

use super::Told;
use super::options::{Accepted, OwnOptions};

/// redb.
pub const CONTESTANT: Contestant = Contestant {
    name: "redb",
    about: "copy-on-write B+ tree in Rust, one writer at a time; no durability class like the others'",
    open,
};

const OWN: &[Accepted] = &[(
    "durability",
    "immediate, or none: commits are lost with the process; immediate",
)];

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("default");
const FILE: &str = "data.redb";

struct Redb {
    database: Database,
    durability: Durability,
}

fn open(directory: &Path, settings: &Settings) -> Result<Opened> {
    let own = OwnOptions::of(CONTESTANT.name, OWN, settings)?;
    let chosen = own.or("durability", String::from("immediate"))?;
    let (durability, words) = match (chosen.as_str(), settings.durability) {
        ("immediate", DurabilityClass::PowerCut) => {
            (Durability::Immediate, "power cut: each commit synced")
        }
        ("immediate", DurabilityClass::ProcessCrash) => (
            Durability::Immediate,
            "power cut: each commit synced; stronger than the others, redb has no class like theirs",
        ),
        ("none", DurabilityClass::ProcessCrash) => (
            Durability::None,
            "none: commits since the last synced one are lost with the process; weaker than the others",
        ),
        ("none", DurabilityClass::PowerCut) => {
            return Err("redb.durability=none loses commits at a power cut".into());
        }
        _ => {
            return Err(format!("redb.durability is immediate or none, not {chosen:?}").into());
        }
    };
    // One cache for pages read and pages to be written: it gets what the others have for both.
    let buffers = settings.write_buffer_bytes * u64::from(settings.write_buffers);
    let cache_bytes = usize::try_from(settings.cache_bytes + buffers)?;

    let mut told = Told::default();
    told.say("version", env!("REDB_VERSION"));
    told.say(
        "cache_size",
        format!("{cache_bytes}: cache and write buffers together"),
    );
    told.say("durability", format!("{durability:?}"));
    told.say("writes", "a transaction each, one at a time");
    told.say("reads", "a transaction each");
    told.say("background threads, filters", "none");
    told.say("compression", "not available");
    told.no_direct_io();

    std::fs::create_dir_all(directory)?;
    let database = Database::builder()
        .set_cache_size(cache_bytes)
        .create(directory.join(FILE))?;
    let transaction = database.begin_write()?;
    transaction.open_table(TABLE)?;
    transaction.commit()?;
    Ok(Opened {
        store: Box::new(Redb {
            database,
            durability,
        }),
        durability: words.into(),
        settings: told.0,
    })
}

impl Redb {
    fn begin_write(&self) -> Result<WriteTransaction> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        Ok(transaction)
    }

    /// A synced commit takes along those before it.
    fn sync(&self) -> Result<()> {
        Ok(self.database.begin_write()?.commit()?)
    }
}

impl Store for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.begin_write()?;
        transaction.open_table(TABLE)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let transaction = self.begin_write()?;
        transaction.open_table(TABLE)?.remove(key)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let value = table.get(key)?;
        if let Some(value) = &value {
            read(value.value());
        }
        Ok(value.is_some())
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let mut entries = match (start, direction) {
            (None, _) => table.iter()?,
            (Some(start), Direction::Forward) => table.range(start..)?,
            (Some(start), Direction::Backward) => table.range(..=start)?,
        };
        for _ in 0..limit {
            let entry = match direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry?;
            visit(key.value(), value.value());
        }
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        if matches!(self.durability, Durability::None) {
            self.sync()?;
        }
        Ok(Instant::now())
    }

    /// There is no background.
    fn activity(&self) -> Activity {
        Activity {
            stalled: Some(false),
            ..Activity::default()
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()?;
        Ok(self.database.close()?)
    }
}
