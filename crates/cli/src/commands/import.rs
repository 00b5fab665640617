//! A file into a store.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use terrace::KeyspaceOptions;

use crate::arguments::{FileFormat, Import};
use crate::commands::format_by_name;
use crate::failure::{Failure, Result};
use crate::import::{
    Checkpoint, Delimited, Dialect, ImportError, Imported, JsonLines, Obsolete, Plan, Record,
    RecordError, Records, Selection, import,
};
use crate::output::{print, print_json_line};
use crate::progress::Progress;
use crate::report::{bytes, rate_at_end, things};
use crate::store;
use crate::text::shown;

pub fn run(arguments: &Import) -> Result<()> {
    let file = arguments.file.as_path();
    let format = format_of(arguments)?;
    let dialect = dialect(arguments, format)?;
    // The file is opened, and its columns checked, before a store is made.
    let (input, length_bytes) = open(file)?;
    let path = path_of(file);
    if arguments.resume && path.is_none() {
        return Err(no_name(file));
    }
    let mut progress = Progress::new(file, length_bytes);
    let input = progress.watch(input);
    let selection = Selection {
        key: arguments.key.clone(),
        value: arguments.value.clone(),
    };
    let failed = |error, rows| of_record(error, file, rows);
    let mut records: Box<Records<'_>> = match dialect {
        None => Box::new(JsonLines::new(
            BufReader::with_capacity(64 << 10, input),
            selection,
        )),
        Some(dialect) => {
            Box::new(Delimited::open(input, dialect, &selection).map_err(|error| failed(error, 0))?)
        }
    };
    if arguments.hex {
        records = Box::new(records.map(|record| record.and_then(Record::decoded)));
    }
    let teller = arguments.events.then(|| progress.teller(arguments.json));
    let db = store::open_or_create_heard(&arguments.store, teller)?;
    let keyspace =
        db.get_or_create_keyspace(&arguments.keyspace.name, KeyspaceOptions::default())?;
    let (checkpoint, obsolete) = match path {
        Some(path) if arguments.resume => (Some(Checkpoint::open(&db, &path, &keyspace)?), None),
        Some(path) => (None, Obsolete::find(&db, &path, &keyspace)?),
        None => (None, None),
    };
    let plan = Plan {
        keyspace,
        batch_rows: arguments.batch_rows as usize,
        sync: arguments.sync,
        skip_bad: arguments.skip_bad,
        obsolete,
    };
    let result = import(&mut *records, &db, &plan, checkpoint, &mut progress);
    let elapsed = progress.finish();
    let closed = db.close();
    let imported = result.map_err(|error| match error {
        ImportError::Record { error, rows } => failed(error, rows),
        ImportError::Failure(failure) => failure,
    })?;
    closed?;
    tell_end(&imported, elapsed, arguments.json)
}

/// Returns the path under which the position in a file is kept. `None` for a pipe of the shell's, as in
/// `<(zcat log.gz)`, which is found under no path.
fn path_of(file: &Path) -> Option<PathBuf> {
    match file == Path::new("-") {
        true => Some(file.to_path_buf()),
        false => fs::canonicalize(file).ok(),
    }
}

fn no_name(file: &Path) -> Failure {
    Failure::Usage(format!(
        "--resume keeps its position under the file's path, and {} is a pipe that has none of its \
         own; give the input on standard input, as `-`",
        shown(file)
    ))
}

fn tell_end(imported: &Imported, elapsed: Duration, json: bool) -> Result<()> {
    let seconds = elapsed.as_secs_f64();
    if json {
        return print_json_line(&json!({
            "rows": imported.rows,
            "keys": imported.keys.number,
            "keys_are_estimated": imported.keys.is_estimated,
            "passed_rows": imported.passed_rows,
            "bad_rows": imported.bad_rows,
            "bytes": imported.bytes,
            "seconds": seconds,
        }));
    }
    let passed = match imported.passed_rows {
        0 => String::new(),
        passed => format!("; {} imported before", things(passed, "row")),
    };
    let skipped = match imported.bad_rows {
        0 => String::new(),
        bad => format!("; {} skipped", things(bad, "bad row")),
    };
    print(format!(
        "{}{} ({}) imported in {seconds:.2} s{}{passed}{skipped}\n",
        things(imported.rows, "row"),
        keys(imported),
        bytes(imported.bytes),
        rate_at_end(imported.rows, elapsed),
    ))
}

/// Returns the number of keys, if later rows replaced earlier ones.
fn keys(imported: &Imported) -> String {
    let keys = imported.keys;
    let about = if keys.is_estimated { "about " } else { "" };
    match keys.are_fewer_than(imported.rows) {
        true => format!(", {about}{}", things(keys.number, "key")),
        false => String::new(),
    }
}

fn of_record(error: RecordError, file: &Path, imported: u64) -> Failure {
    match error {
        RecordError::Bad { line, what } => Failure::BadRow {
            file: file.to_path_buf(),
            line,
            what,
            imported,
        },
        RecordError::Unsuitable(what) => Failure::Usage(format!("{}: {what}", shown(file))),
        RecordError::Read(error) => Failure::file(file, error),
    }
}

fn open(file: &Path) -> Result<(Box<dyn Read>, Option<u64>)> {
    if file == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let opened = File::open(file).map_err(|error| Failure::file(file, error))?;
    let metadata = opened
        .metadata()
        .map_err(|error| Failure::file(file, error))?;
    if metadata.is_dir() {
        return Err(Failure::Usage(format!(
            "{} is a directory, not a file",
            shown(file)
        )));
    }
    // A pipe has no length.
    Ok((
        Box::new(opened),
        metadata.is_file().then_some(metadata.len()),
    ))
}

fn format_of(arguments: &Import) -> Result<FileFormat> {
    if let Some(format) = arguments.format {
        return Ok(format);
    }
    format_by_name(&arguments.file)
}

/// Returns the form of a delimited file; `None` for JSON Lines, which has none.
fn dialect(arguments: &Import, format: FileFormat) -> Result<Option<Dialect>> {
    let delimiter = arguments.delimiter.as_deref().map(delimiter).transpose()?;
    let given = delimiter.is_some() || arguments.no_header || !arguments.columns.is_empty();
    let (usual, quoting) = match format {
        FileFormat::Csv => (b',', true),
        FileFormat::Tsv => (b'\t', false),
        FileFormat::Jsonl if given => {
            return Err(Failure::Usage(
                "--delimiter, --no-header and --columns mean nothing in a JSON Lines file".into(),
            ));
        }
        FileFormat::Jsonl => return Ok(None),
    };
    Ok(Some(Dialect {
        delimiter: delimiter.unwrap_or(usual),
        quoting,
        header: !arguments.no_header,
        columns: arguments.columns.clone(),
    }))
}

fn delimiter(text: &str) -> Result<u8> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(byte),
        _ => Err(Failure::Usage(format!(
            "{text:?} cannot separate fields; one ASCII character can, as in --delimiter ';'"
        ))),
    }
}
