//! Entries in order.

use std::io::Write;
use std::ops::Bound;

use terrace::{Entries, IterOptions};

use crate::arguments::{EntryFormat, KeyRange, Scan};
use crate::failure::Result;
use crate::output;
use crate::store;
use crate::text::{bytes_of, write_entry};

pub fn run(arguments: &Scan) -> Result<()> {
    let options = range(&arguments.range)?;
    let db = store::open_to_read(&arguments.store)?;
    let iterator = db.keyspace(&arguments.keyspace.name)?.iter(options)?;
    let entries = if arguments.reverse {
        iterator.entries_reverse()
    } else {
        iterator.entries()
    };
    let format = arguments.format.unwrap_or(match arguments.range.hex {
        true => EntryFormat::Hex,
        false => EntryFormat::Utf8,
    });
    print(entries, arguments.limit, format)
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

fn print(entries: Entries, limit: Option<u64>, format: EntryFormat) -> Result<()> {
    let mut stdout = output::buffered();
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    for entry in entries.take(limit) {
        let (key, value) = match entry {
            Ok(entry) => entry,
            Err(error) => {
                // The entries before the failure are shown.
                stdout.flush().map_err(output::failed)?;
                return Err(error.into());
            }
        };
        write_entry(&mut stdout, format, &key, &value).map_err(output::failed)?;
    }
    stdout.flush().map_err(output::failed)
}
