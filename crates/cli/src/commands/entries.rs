//! Single keys: put, get, del.

use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;

use terrace::{Db, IterOptions, WriteBatch, WriteOptions};

use crate::arguments::{Del, Get, Put};
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
    let keyspace = store::keyspace_or_new(&db, &arguments.keyspace)?;
    let mut batch = WriteBatch::new();
    batch.put_in(&keyspace, &key, &value)?;
    write(&db, batch, arguments.sync)
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
    let key = bytes_of(&arguments.key, arguments.hex)?;
    let db = store::open_to_read(&arguments.store)?;
    let keyspace = db.keyspace(&arguments.keyspace.name)?;
    let value = keyspace.get(&key)?.ok_or(Failure::KeyNotFound)?;
    print_value(&key, &value, arguments.hex, arguments.raw, arguments.json)
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
    let Some(key) = &arguments.key else {
        return del_range(arguments);
    };
    let key = bytes_of(key, arguments.range.hex)?;
    let db = store::open_to_change(&arguments.store)?;
    let mut batch = WriteBatch::new();
    batch.delete_in(&db.keyspace(&arguments.keyspace.name)?, &key)?;
    write(&db, batch, arguments.sync)
}

fn del_range(arguments: &Del) -> Result<()> {
    let IterOptions { lower, upper, .. } = range(&arguments.range)?;
    let db = store::open_to_change(&arguments.store)?;
    let keyspace = db.keyspace(&arguments.keyspace.name)?;
    keyspace.delete_within((lower, upper))?;
    if arguments.sync {
        db.persist()?;
    }
    Ok(db.close()?)
}

fn write(db: &Db, batch: WriteBatch, sync: bool) -> Result<()> {
    db.write(batch, WriteOptions::with_sync(sync))?;
    Ok(db.close()?)
}
