//! Rows of a file, written to a store in batches.

mod checkpoint;
mod delimited;
mod json_lines;
mod key_count;
mod row_tracker;

use std::fmt;
use std::io;

use terrace::{Db, Keyspace, WriteBatch, WriteOptions};

pub use checkpoint::{Checkpoint, Obsolete};
pub use delimited::{Delimited, Dialect};
pub use json_lines::JsonLines;
pub use key_count::Keys;

use key_count::KeyCount;

use crate::failure::Failure;
use crate::text::{brief, from_hex};

/// A batch is written when it has this many bytes, even if it has few rows.
const BATCH_BYTES: usize = 8 << 20;

/// A row may have this many bytes. A longer one is more likely a quote left open.
const ROW_BYTES: u64 = 256 << 20;

fn row_too_long() -> io::Error {
    let limit = ROW_BYTES >> 20;
    io::Error::other(format!(
        "a row has more than {limit} MiB; is a quote left open?"
    ))
}

/// The columns that become key and value of a row.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The column that is the key.
    pub key: String,
    /// The column that is the value; `None` for the row as a JSON object.
    pub value: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    pub line: u64,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Record {
    /// Decodes a record of a file in hexadecimal.
    pub fn decoded(self) -> Result<Self, RecordError> {
        let decode = |field: &[u8]| {
            from_hex(field).ok_or_else(|| {
                let shown = brief(field, 40);
                RecordError::bad(self.line, format!("{shown:?} is not hexadecimal"))
            })
        };
        Ok(Record {
            line: self.line,
            key: decode(&self.key)?,
            value: decode(&self.value)?,
        })
    }
}

#[derive(Debug)]
pub enum RecordError {
    /// The row cannot be used; the next one may be.
    Bad { line: u64, what: String },
    /// The file lacks a selected column, or has two of one name.
    Unsuitable(String),
    /// The file cannot be read on.
    Read(io::Error),
}

impl RecordError {
    fn bad(line: u64, what: impl Into<String>) -> Self {
        RecordError::Bad {
            line,
            what: what.into(),
        }
    }
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        RecordError::Read(error)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Bad { line, what } => write!(f, "line {line}: {what}"),
            RecordError::Unsuitable(what) => f.write_str(what),
            RecordError::Read(error) => error.fmt(f),
        }
    }
}

/// A source of rows. After an error other than `Bad` there are no more.
pub type Records<'a> = dyn Iterator<Item = Result<Record, RecordError>> + 'a;

#[derive(Clone, Debug)]
pub struct Plan {
    pub keyspace: Keyspace,
    pub batch_rows: usize,
    /// Each batch survives a power cut before the next one is begun.
    pub sync: bool,
    pub skip_bad: bool,
    /// Removed with the first batch.
    pub obsolete: Option<Obsolete>,
}

/// Observer of an import, called while it runs.
pub trait Observer {
    /// Notes an acknowledged batch; `rows` are in the store in all, `last` is its last key.
    fn acknowledged(&mut self, rows: u64, last: &[u8]) -> Result<(), Failure>;
    /// Notes a skipped row.
    fn skipped(&mut self, line: u64, what: &str);
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub rows: u64,
    /// Different ones in these rows: a later row replaces an earlier one of its key.
    pub keys: Keys,
    pub bad_rows: u64,
    /// Of keys and values.
    pub bytes: u64,
    /// Rows that an earlier run had dealt with.
    pub passed_rows: u64,
}

/// How an import ended early.
#[derive(Debug)]
pub enum ImportError {
    /// A row ended it, after `rows` rows.
    Record {
        error: RecordError,
        rows: u64,
    },
    Failure(Failure),
}

impl<E: Into<Failure>> From<E> for ImportError {
    fn from(error: E) -> Self {
        ImportError::Failure(error.into())
    }
}

/// Writes all rows. The rows before one that ends the import are in the store. With a checkpoint
/// those that an earlier run wrote are passed over.
pub fn import(
    records: &mut Records<'_>,
    db: &Db,
    plan: &Plan,
    mut checkpoint: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    let mut keys = KeyCount::new();
    let mut batch = Batch {
        obsolete: plan.obsolete.clone(),
        ..Batch::default()
    };
    for record in records {
        if let Some(checkpoint) = &mut checkpoint
            && checkpoint.passes(&record)?
        {
            imported.passed_rows += 1;
            continue;
        }
        let position = checkpoint
            .as_ref()
            .map(|checkpoint| checkpoint.behind(&record));
        match record.and_then(|record| batch.add(&plan.keyspace, record)) {
            Ok(bytes) => {
                imported.bytes += bytes;
                keys.add(&batch.last);
            }
            Err(RecordError::Bad { line, what }) if plan.skip_bad => {
                imported.bad_rows += 1;
                observer.skipped(line, &what);
            }
            Err(error) => {
                batch.write(db, plan, checkpoint.as_ref(), observer, &mut imported.rows)?;
                return Err(ImportError::Record {
                    error,
                    rows: imported.rows,
                });
            }
        }
        if let (Some(checkpoint), Some(position)) = (&mut checkpoint, position) {
            checkpoint.advance(position);
        }
        if batch.writes.len() >= plan.batch_rows || batch.writes.size_bytes() >= BATCH_BYTES {
            batch.write(db, plan, checkpoint.as_ref(), observer, &mut imported.rows)?;
        }
    }
    if let Some(checkpoint) = &checkpoint {
        checkpoint.end()?;
    }
    batch.write(db, plan, checkpoint.as_ref(), observer, &mut imported.rows)?;
    imported.keys = keys.keys();
    Ok(imported)
}

#[derive(Default)]
struct Batch {
    writes: WriteBatch,
    last: Vec<u8>,
    /// Still to be removed.
    obsolete: Option<Obsolete>,
}

impl Batch {
    /// Returns the bytes of key and value.
    fn add(&mut self, keyspace: &Keyspace, record: Record) -> Result<u64, RecordError> {
        let refused = |error: terrace::Error| RecordError::bad(record.line, error.to_string());
        self.writes
            .put_in(keyspace, &record.key, &record.value)
            .map_err(refused)?;
        let bytes = record.key.len() + record.value.len();
        self.last = record.key;
        Ok(bytes as u64)
    }

    fn write(
        &mut self,
        db: &Db,
        plan: &Plan,
        checkpoint: Option<&Checkpoint>,
        observer: &mut dyn Observer,
        rows: &mut u64,
    ) -> Result<(), Failure> {
        if self.writes.is_empty() && self.obsolete.is_none() {
            return Ok(());
        }
        let mut writes = std::mem::take(&mut self.writes);
        let count = writes.len() as u64;
        if let Some(obsolete) = self.obsolete.take() {
            obsolete.remove_in(&mut writes)?;
        }
        if let Some(checkpoint) = checkpoint {
            checkpoint.put_into(&mut writes)?;
        }
        db.write(writes, WriteOptions::with_sync(plan.sync))?;
        *rows += count;
        observer.acknowledged(*rows, &self.last)
    }
}

#[cfg(test)]
mod tests;
