//! A store's entries into a file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use terrace::{IterOptions, Keyspace};

use crate::arguments::{Export, FileFormat};
use crate::commands::format_by_name;
use crate::commands::scan::range;
use crate::export::{LastRow, Rows, resume_point};
use crate::failure::{Failure, Result};
use crate::import::Observer;
use crate::output::{self, print, print_json_line};
use crate::progress::Progress;
use crate::report::{bytes, rate_at_end, things};
use crate::store;
use crate::text::shown;

/// Rows between two reports of progress.
const STEP_ROWS: u64 = 1000;

pub fn run(arguments: &Export) -> Result<()> {
    let given = range(&arguments.range)?;
    if arguments.file == Path::new("-") {
        return to_stdout(arguments, given);
    }
    let file = arguments.file.as_path();
    let format = match arguments.format {
        Some(format) => format,
        None => format_by_name(file)?,
    };
    // The store first: a directory that holds none leaves no empty file behind.
    let db = store::open_to_read(&arguments.store)?;
    let keyspace = db.keyspace(&arguments.keyspace.name)?;
    let failed = |error| Failure::file(file, error);
    let (opened, resumed) = open(arguments, file, format)?;
    let range = behind(given, resumed.key);
    let mut rows = Rows::new(
        BufWriter::with_capacity(1 << 20, &opened),
        format,
        arguments.range.hex,
    );
    if resumed.end == 0 {
        rows.write_header().map_err(failed)?;
    }
    let mut progress = Progress::new(file, None);
    let written = write(&keyspace, range, &mut rows, &mut progress, failed);
    let elapsed = progress.finish();
    let flushed = rows.flush().map_err(failed);
    drop(rows);
    let count = written?;
    flushed?;
    opened.sync_all().map_err(failed)?;
    let length = opened.metadata().map_err(failed)?.len();
    tell_end(count, length - resumed.end, elapsed, arguments.json)
}

fn to_stdout(arguments: &Export, range: IterOptions) -> Result<()> {
    if arguments.resume {
        return Err(Failure::Usage(
            "--resume goes on with a file; standard output is none".to_owned(),
        ));
    }
    let format = arguments.format.unwrap_or(FileFormat::Jsonl);
    let db = store::open_to_read(&arguments.store)?;
    let keyspace = db.keyspace(&arguments.keyspace.name)?;
    let mut rows = Rows::new(output::buffered(), format, arguments.range.hex);
    rows.write_header().map_err(output::failed)?;
    let mut progress = Progress::new(&arguments.file, None);
    let written = write(&keyspace, range, &mut rows, &mut progress, output::failed);
    progress.finish();
    let flushed = rows.flush().map_err(output::failed);
    written?;
    flushed
}

/// Writes every entry of the range. Returns their number.
fn write<W: Write>(
    keyspace: &Keyspace,
    range: IterOptions,
    rows: &mut Rows<W>,
    progress: &mut Progress,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<u64> {
    let mut count = 0;
    for entry in keyspace.iter(range)?.entries() {
        let (key, value) = entry?;
        rows.write(&key, &value).map_err(&failed)?;
        count += 1;
        if count % STEP_ROWS == 0 {
            progress.acknowledged(count, &key)?;
        }
    }
    Ok(count)
}

/// Opens the file to write to, at its end. Returns it with the last row that it holds.
fn open(arguments: &Export, file: &Path, format: FileFormat) -> Result<(File, LastRow)> {
    let failed = |error| Failure::file(file, error);
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if !arguments.resume {
        let created = options.create_new(true).open(file);
        let created = created.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::Usage(format!(
                "{} is there already; remove it, or go on with it by --resume",
                shown(file)
            )),
            _ => failed(error),
        })?;
        return Ok((created, LastRow { end: 0, key: None }));
    }
    let mut opened = options
        .create(true)
        .truncate(false)
        .open(file)
        .map_err(failed)?;
    let last = resume_point(&mut opened, format, arguments.range.hex);
    let last = last.map_err(|error| Failure::Usage(format!("{}: {error}", shown(file))))?;
    opened.set_len(last.end).map_err(failed)?;
    opened.seek(SeekFrom::End(0)).map_err(failed)?;
    Ok((opened, last))
}

/// Returns the range without the rows that were exported before.
fn behind(range: IterOptions, last: Option<Vec<u8>>) -> IterOptions {
    let Some(key) = last else {
        return range;
    };
    match &range.lower {
        Bound::Included(lower) | Bound::Excluded(lower) if *lower > key => range,
        _ => IterOptions {
            lower: Bound::Excluded(key),
            ..range
        },
    }
}

fn tell_end(rows: u64, written: u64, elapsed: Duration, json: bool) -> Result<()> {
    let seconds = elapsed.as_secs_f64();
    if json {
        return print_json_line(&json!({"rows": rows, "bytes": written, "seconds": seconds}));
    }
    print(format!(
        "{} ({}) exported in {seconds:.2} s{}\n",
        things(rows, "row"),
        bytes(written),
        rate_at_end(rows, elapsed),
    ))
}
