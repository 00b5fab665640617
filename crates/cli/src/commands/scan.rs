//! Entries in order.

use std::io::{self, Write};
use std::ops::Bound;

use serde_json::json;
use terrace::{Db, DbIterator, IterOptions};

use crate::arguments::{Count, EntryFormat, InKeyspace, KeyRange, Scan};
use crate::failure::Result;
use crate::output::{self, print_json};
use crate::progress::Steps;
use crate::store;
use crate::text::{bytes_of, write_entry, write_key};

/// Keys that are counted between two looks at the clock.
const KEYS_A_STEP: u64 = 4096;

pub fn run(arguments: &Scan) -> Result<()> {
    let options = range(&arguments.range)?;
    let db = store::open_to_read(&arguments.store)?;
    let mut iterator = iterate(&db, &arguments.keyspace, options)?;
    let mut stdout = output::buffered();
    let printed = print(&mut iterator, arguments, &mut stdout);
    // The entries before a failure are shown.
    stdout.flush().map_err(output::failed)?;
    printed
}

fn iterate(db: &Db, keyspace: &InKeyspace, options: IterOptions) -> Result<DbIterator> {
    Ok(db.keyspace(&keyspace.name)?.iter(options)?)
}

fn print(iterator: &mut DbIterator, arguments: &Scan, stdout: &mut impl Write) -> Result<()> {
    let format = arguments.format.unwrap_or(match arguments.range.hex {
        true => EntryFormat::Hex,
        false => EntryFormat::Utf8,
    });
    match arguments.reverse {
        false => iterator.seek_to_first()?,
        true => iterator.seek_to_last()?,
    }
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    while left > 0 && iterator.valid() {
        let written: io::Result<()> = match arguments.keys_only {
            true => write_key(stdout, format, iterator.key()),
            false => write_entry(stdout, format, iterator.key(), iterator.value()),
        };
        written.map_err(output::failed)?;
        left -= 1;
        match arguments.reverse {
            false => iterator.next()?,
            true => iterator.prev()?,
        }
    }
    Ok(())
}

pub fn count(arguments: &Count) -> Result<()> {
    let options = range(&arguments.range)?;
    let db = store::open_to_read(&arguments.store)?;
    let mut iterator = iterate(&db, &arguments.keyspace, options)?;
    let mut progress = Steps::of_things("counting".to_owned(), "key");
    let mut keys = 0_u64;
    iterator.seek_to_first()?;
    while iterator.valid() {
        keys += 1;
        if keys.is_multiple_of(KEYS_A_STEP) {
            progress.reach(keys, None);
        }
        iterator.next()?;
    }
    progress.finish();
    match arguments.json {
        true => print_json(&json!({ "keys": keys })),
        false => output::print(format!("{keys}\n")),
    }
}

pub fn range(arguments: &KeyRange) -> Result<IterOptions> {
    let key = |argument: &Option<_>| {
        argument
            .as_deref()
            .map(|key| bytes_of(key, arguments.hex))
            .transpose()
    };
    let options = match key(&arguments.prefix)? {
        Some(prefix) => IterOptions::prefix(&prefix),
        None => IterOptions {
            lower: key(&arguments.from)?.map_or(Bound::Unbounded, Bound::Included),
            upper: key(&arguments.to)?.map_or(Bound::Unbounded, Bound::Excluded),
            ..IterOptions::default()
        },
    };
    // This process does not read a printed entry again.
    Ok(IterOptions {
        fill_cache: false,
        ..options
    })
}
