//! Rows of a file whose fields are separated by a character: CSV, TSV and their kin.

use std::collections::HashSet;
use std::io::{self, Read};

use csv::{ByteRecord, ReaderBuilder};
use serde::{Serialize, Serializer};

use crate::import::row_tracker::RowTracker;
use crate::import::{Record, RecordError, Selection};
use crate::report::things;
use crate::text::escape;

/// How the file is written.
#[derive(Clone, Debug)]
pub struct Dialect {
    pub delimiter: u8,
    /// Fields may stand in double quotes.
    pub quoting: bool,
    /// The first row names the columns.
    pub header: bool,
    /// The columns' names, if the first row's are not to be used.
    pub columns: Vec<String>,
}

pub struct Delimited<R> {
    reader: csv::Reader<RowTracker<R>>,
    parser: ReaderBuilder,
    /// Read ahead to count the columns.
    first: Option<ByteRecord>,
    columns: Vec<String>,
    key: usize,
    /// The value's column; `None` for the row as a JSON object.
    value: Option<usize>,
    ended: bool,
}

impl<R: Read> Delimited<R> {
    /// Opens a file of rows.
    ///
    /// # Errors
    /// [`RecordError::Unsuitable`] if the file lacks a selected column.
    pub fn open(input: R, dialect: Dialect, selection: &Selection) -> Result<Self, RecordError> {
        let mut parser = ReaderBuilder::new();
        parser
            .delimiter(dialect.delimiter)
            .quoting(dialect.quoting)
            .has_headers(false)
            .flexible(true);
        let mut rows = Delimited {
            reader: parser.from_reader(RowTracker::new(input)),
            parser,
            first: None,
            columns: dialect.columns,
            key: 0,
            value: None,
            ended: false,
        };
        let Some(first) = rows.read()? else {
            return Ok(rows);
        };
        if rows.columns.is_empty() {
            rows.columns = if dialect.header {
                first
                    .iter()
                    .map(|name| String::from_utf8_lossy(name).into_owned())
                    .collect()
            } else {
                (1..=first.len()).map(|number| number.to_string()).collect()
            };
        }
        if !dialect.header {
            rows.first = Some(first);
        }
        rows.check_columns()?;
        rows.key = rows.column(&selection.key)?;
        rows.value = selection
            .value
            .as_deref()
            .map(|name| rows.column(name))
            .transpose()?;
        Ok(rows)
    }

    /// Refuses two columns of one name: they would be one field of the JSON object.
    fn check_columns(&self) -> Result<(), RecordError> {
        let mut seen = HashSet::new();
        match self.columns.iter().find(|name| !seen.insert(name.as_str())) {
            Some(name) => Err(RecordError::Unsuitable(format!(
                "two columns are called {name:?}; give each a name of its own with --columns"
            ))),
            None => Ok(()),
        }
    }

    fn column(&self, name: &str) -> Result<usize, RecordError> {
        self.columns
            .iter()
            .position(|column| column == name)
            .ok_or_else(|| {
                RecordError::Unsuitable(format!(
                    "there is no column {name:?}; the columns are {}",
                    self.names()
                ))
            })
    }

    /// Returns the columns' names for a message.
    fn names(&self) -> String {
        let names = self.columns.iter().map(|name| escape(name.as_bytes()));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Reads the next row of the file. After an error there are no more, except after a bad row.
    fn read(&mut self) -> Result<Option<ByteRecord>, RecordError> {
        if self.ended {
            return Ok(None);
        }
        let mut row = ByteRecord::new();
        if !self.advance(&mut row)? {
            return Ok(None);
        }
        if self.leaves_a_quote_open(&row) {
            self.ended = true;
            return Err(RecordError::bad(
                line_of(&row),
                "a quote is opened and never closed",
            ));
        }
        Ok(Some(row))
    }

    /// Returns whether a row lasts until the end of the file because of a quote that is opened and
    /// never closed. The parser takes such a quote for one that the end closes. One more line
    /// behind the row tells: an open quote swallows it.
    fn leaves_a_quote_open(&self, row: &ByteRecord) -> bool {
        let Some(text) = self
            .reader
            .get_ref()
            .last_row(self.reader.position().byte())
        else {
            return false;
        };
        let is_first = row.position().is_some_and(|position| position.byte() == 0);
        // The parser drops a byte order mark from the beginning of a text.
        let before: &[u8] = if is_first { b"" } else { b"\n" };
        let lines = before.chain(text).chain(&b"\nx"[..]);
        let lines = self.parser.from_reader(lines).into_byte_records();
        lines.take(2).count() < 2
    }

    fn advance(&mut self, row: &mut ByteRecord) -> Result<bool, RecordError> {
        let more = self.reader.read_byte_record(row).map_err(|error| {
            self.ended = true;
            match error.into_kind() {
                csv::ErrorKind::Io(error) => RecordError::Read(error),
                other => RecordError::Read(io::Error::other(format!("{other:?}"))),
            }
        })?;
        self.ended |= !more;
        if let Some(mut position) = row.position().cloned() {
            // The parser's own count lags behind by the line ends that it skips before a row.
            let line = self.reader.get_mut().begin_row(position.byte());
            position.set_line(line);
            row.set_position(Some(position));
        }
        Ok(more)
    }

    fn record(&self, row: &ByteRecord) -> Result<Record, RecordError> {
        let line = line_of(row);
        if row.len() != self.columns.len() {
            let found = things(row.len() as u64, "field");
            let what = format!("{found} where {} are expected", self.columns.len());
            return Err(RecordError::bad(line, what));
        }
        let field = |column: usize| row.get(column).unwrap_or_default().to_vec();
        let value = match self.value {
            Some(column) => field(column),
            None => self
                .json(row)
                .map_err(|what| RecordError::bad(line, what))?,
        };
        Ok(Record {
            line,
            key: field(self.key),
            value,
        })
    }

    fn json(&self, row: &ByteRecord) -> Result<Vec<u8>, String> {
        let mut fields = Vec::with_capacity(row.len());
        for (name, field) in self.columns.iter().zip(row) {
            let text = std::str::from_utf8(field).map_err(|_| {
                format!("{name:?} is not UTF-8, which JSON needs; convert the file or use --value")
            })?;
            fields.push((name.as_str(), text));
        }
        serde_json::to_vec(&Object(&fields)).map_err(|error| error.to_string())
    }
}

impl<R: Read> Iterator for Delimited<R> {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = match self.first.take() {
            Some(row) => row,
            None => match self.read() {
                Ok(row) => row?,
                Err(error) => return Some(Err(error)),
            },
        };
        Some(self.record(&row))
    }
}

fn line_of(row: &ByteRecord) -> u64 {
    row.position().map_or(0, csv::Position::line)
}

/// A JSON object that keeps the order of its fields.
struct Object<'a>(&'a [(&'a str, &'a str)]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}
