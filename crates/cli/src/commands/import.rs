//! A file into a store.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::arguments::{FileFormat, Import, InKeyspace};
use crate::commands::{format_by_name, print};
use crate::failure::{Failure, Result};
use crate::import::{
    Checkpoint, Delimited, Dialect, ImportError, Imported, JsonLines, Obsolete, Plan, Record,
    RecordError, Records, Selection, import,
};
use crate::progress::Progress;
use crate::report::{bytes, rate, things};
use crate::store;

pub fn run(arguments: &Import) -> Result<()> {
    let file = arguments.file.as_path();
    let format = format_of(arguments)?;
    let dialect = dialect(arguments, format)?;
    // The file is opened, and its columns checked, before a store is made.
    let (input, length_bytes) = open(file)?;
    let name = name_of(file, &arguments.keyspace);
    if arguments.resume && name.is_none() {
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
    let keyspace = store::keyspace_or_new(&db, &arguments.keyspace)?;
    let (checkpoint, obsolete) = match name {
        Some(name) if arguments.resume => (Some(Checkpoint::open(&db, &name, &keyspace)?), None),
        Some(name) => (None, Obsolete::find(&db, &name)?),
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
    print(summary(&imported, elapsed, arguments.json))
}

/// Under which name the position in a file is kept: one file may go to several keyspaces. `None`
/// for a pipe of the shell's, as in `<(zcat log.gz)`, which is found under no path.
fn name_of(file: &Path, keyspace: &InKeyspace) -> Option<Vec<u8>> {
    let path = match file == Path::new("-") {
        true => file.to_path_buf(),
        false => fs::canonicalize(file).ok()?,
    };
    let mut name = format!("{}:", keyspace.name).into_bytes();
    name.extend_from_slice(path.as_os_str().as_bytes());
    Some(name)
}

fn no_name(file: &Path) -> Failure {
    Failure::Usage(format!(
        "--resume keeps its position under the file's path, and {} is a pipe that has none of its \
         own; give the input on standard input, as `-`",
        file.display()
    ))
}

fn summary(imported: &Imported, elapsed: Duration, json: bool) -> String {
    let seconds = elapsed.as_secs_f64();
    if json {
        let summary = json!({
            "rows": imported.rows,
            "passed_rows": imported.passed_rows,
            "bad_rows": imported.bad_rows,
            "bytes": imported.bytes,
            "seconds": seconds,
        });
        return format!("{summary}\n");
    }
    let passed = match imported.passed_rows {
        0 => String::new(),
        passed => format!("; {} imported before", things(passed, "row")),
    };
    let skipped = match imported.bad_rows {
        0 => String::new(),
        bad => format!("; {} skipped", things(bad, "bad row")),
    };
    format!(
        "{} ({}) imported in {seconds:.2} s, {} rows/s{passed}{skipped}\n",
        things(imported.rows, "row"),
        bytes(imported.bytes),
        rate(imported.rows, elapsed),
    )
}

fn of_record(error: RecordError, file: &Path, imported: u64) -> Failure {
    match error {
        RecordError::Bad { line, what } => Failure::BadRow {
            file: file.to_path_buf(),
            line,
            what,
            imported,
        },
        RecordError::Unsuitable(what) => Failure::Usage(format!("{}: {what}", file.display())),
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
            file.display()
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

/// How a delimited file is written; `None` for JSON Lines, where none of it applies.
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
