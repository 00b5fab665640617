//! put, get, and del of keys, ranges and prefixes.

use std::io::{self, IsTerminal, Read};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;

use terrace::{Db, IterOptions, Keyspace, KeyspaceOptions, WriteBatch, WriteOptions};

use crate::arguments::{Del, Get, Put, Removed, ShownKey};
use crate::commands::scan::range;
use crate::failure::{Failure, Result};
use crate::output::{print, print_bytes, print_json_line};
use crate::store;
use crate::text::{bytes_of, json_entry, lines_of, to_hex};

pub fn put(arguments: &Put) -> Result<()> {
    let key = bytes_of(&arguments.key, arguments.hex)?;
    let value = match &arguments.value {
        Some(value) => bytes_of(value, arguments.hex)?,
        None => value_from_stdin(arguments.hex)?,
    };
    let db = store::open_or_create(&arguments.store)?;
    let keyspace =
        db.get_or_create_keyspace(&arguments.keyspace.name, KeyspaceOptions::default())?;
    set(&db, &keyspace, (&key, &value), arguments.sync)?;
    Ok(db.close()?)
}

pub fn value_from_stdin(hex: bool) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    let mut stdin = io::stdin().lock();
    stdin
        .read_to_end(&mut value)
        .map_err(|error| Failure::io("standard input", error))?;
    if hex {
        bytes_of(std::ffi::OsStr::from_bytes(value.trim_ascii()), true)
    } else {
        Ok(value)
    }
}

pub fn get(arguments: &Get) -> Result<()> {
    let key = bytes_of(&arguments.shown.key, arguments.shown.hex)?;
    let db = store::open_to_read(&arguments.store)?;
    show(
        &db.keyspace(&arguments.keyspace.name)?,
        &key,
        &arguments.shown,
    )
}

/// Prints the value of a key.
pub fn show(keyspace: &Keyspace, key: &[u8], shown: &ShownKey) -> Result<()> {
    let value = keyspace.get(key)?.ok_or(Failure::KeyNotFound)?;
    print_value(key, &value, shown.hex, shown.raw, shown.json)
}

/// Prints a value. A terminal gets text in place of bytes that would steer it.
pub fn print_value(key: &[u8], value: &[u8], hex: bool, raw: bool, json: bool) -> Result<()> {
    let is_terminal = io::stdout().is_terminal();
    match (raw, json, hex) {
        (true, ..) => print_bytes(value),
        (_, true, _) => print_json_line(&json_entry(key, value)),
        (.., true) => print(to_hex(value) + "\n"),
        _ if is_terminal => print_bytes(lines_of(value) + "\n"),
        _ => print_bytes([value, b"\n"].concat()),
    }
}

pub fn del(arguments: &Del) -> Result<()> {
    let goal = Goal::of(&arguments.removed)?;
    let db = store::open_to_change(&arguments.store)?;
    let keyspace = db.keyspace(&arguments.keyspace.name)?;
    goal.remove(&db, &keyspace, arguments.removed.sync)?;
    Ok(db.close()?)
}

/// A key or a range that is to be removed.
pub enum Goal {
    Key(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Goal {
    pub fn of(removed: &Removed) -> Result<Self> {
        Ok(match &removed.key {
            Some(key) => Goal::Key(bytes_of(key, removed.range.hex)?),
            None => {
                let IterOptions { lower, upper, .. } = range(&removed.range)?;
                Goal::Range(lower, upper)
            }
        })
    }

    pub fn remove(self, db: &Db, keyspace: &Keyspace, sync: bool) -> Result<()> {
        match self {
            Goal::Key(key) => {
                let mut batch = WriteBatch::new();
                batch.delete_in(keyspace, key)?;
                db.write(batch, WriteOptions::with_sync(sync))?;
            }
            Goal::Range(lower, upper) => {
                keyspace.delete_within((lower, upper))?;
                if sync {
                    db.persist()?;
                }
            }
        }
        Ok(())
    }
}

/// Sets a key's value.
pub fn set(db: &Db, keyspace: &Keyspace, entry: (&[u8], &[u8]), sync: bool) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put_in(keyspace, entry.0, entry.1)?;
    Ok(db.write(batch, WriteOptions::with_sync(sync))?)
}
