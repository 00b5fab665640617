//! Entries in order.

use std::io::{self, Write};
use std::ops::Bound;

use serde_json::json;
use terrace::{DbIterator, IterOptions};

use crate::arguments::{Count, EntryFormat, KeyRange, Listing, Scan};
use crate::failure::Result;
use crate::output::{self, print_json};
use crate::progress::Steps;
use crate::store;
use crate::text::{bytes_of, write_entry, write_key};

/// Keys that are counted between two looks at the clock.
const KEYS_A_STEP: u64 = 4096;

pub fn run(arguments: &Scan) -> Result<()> {
    let options = range(&arguments.listing.range)?;
    let db = store::open_to_read(&arguments.store)?;
    let mut iterator = db.keyspace(&arguments.keyspace.name)?.iter(options)?;
    print(&mut iterator, &arguments.listing)
}

/// Prints the entries of an iterator. Those before a failure are shown.
pub fn print(iterator: &mut DbIterator, listing: &Listing) -> Result<()> {
    let mut stdout = output::buffered();
    let printed = print_to(&mut stdout, iterator, listing);
    stdout.flush().map_err(output::failed)?;
    printed
}

fn print_to(stdout: &mut impl Write, iterator: &mut DbIterator, listing: &Listing) -> Result<()> {
    let format = listing.format.unwrap_or(match listing.range.hex {
        true => EntryFormat::Hex,
        false => EntryFormat::Utf8,
    });
    match listing.reverse {
        false => iterator.seek_to_first()?,
        true => iterator.seek_to_last()?,
    }
    let mut left = listing.limit.unwrap_or(u64::MAX);
    while left > 0 && iterator.valid() {
        let written: io::Result<()> = match listing.keys_only {
            true => write_key(stdout, format, iterator.key()),
            false => write_entry(stdout, format, iterator.key(), iterator.value()),
        };
        written.map_err(output::failed)?;
        left -= 1;
        // Damage behind the last entry does not matter.
        if left == 0 {
            break;
        }
        match listing.reverse {
            false => iterator.next()?,
            true => iterator.prev()?,
        }
    }
    Ok(())
}

pub fn count(arguments: &Count) -> Result<()> {
    let options = range(&arguments.counted.range)?;
    let db = store::open_to_read(&arguments.store)?;
    let mut iterator = db.keyspace(&arguments.keyspace.name)?.iter(options)?;
    print_count(&mut iterator, arguments.counted.json)
}

/// Prints the number of keys of an iterator.
pub fn print_count(iterator: &mut DbIterator, json: bool) -> Result<()> {
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
    match json {
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
