//! Rows of a JSON Lines file: an object a line.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::import::{ROW_BYTES, Record, RecordError, Selection, row_too_long};
use crate::text::from_hex_field;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Fields keep the text they have in the file: a number of many digits stays exact.
#[derive(Deserialize)]
struct Fields<'a>(#[serde(borrow)] HashMap<Cow<'a, str>, &'a RawValue>);

pub struct JsonLines<R> {
    reader: R,
    selection: Selection,
    line: u64,
    failed: bool,
}

impl<R: BufRead> JsonLines<R> {
    pub fn new(reader: R, selection: Selection) -> Self {
        JsonLines {
            reader,
            selection,
            line: 0,
            failed: false,
        }
    }

    /// Reads the next line with its newline; nothing at the end.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<usize> {
        let length = (&mut self.reader)
            .take(ROW_BYTES + 1)
            .read_until(b'\n', line)?;
        if length as u64 > ROW_BYTES {
            Err(row_too_long())
        } else {
            Ok(length)
        }
    }

    fn record(&self, text: &[u8]) -> Result<Record, RecordError> {
        let bad = |what: String| RecordError::bad(self.line, what);
        let text = std::str::from_utf8(text).map_err(|error| {
            bad(format!(
                "not UTF-8 from byte {} of the line on",
                error.valid_up_to()
            ))
        })?;
        let Fields(fields) = serde_json::from_str(text).map_err(|error| {
            let column = error.column();
            let message = error.to_string();
            // The rest of the message counts lines within this one.
            let reason = message.split(" at line ").next().unwrap_or(&message);
            bad(format!("not a JSON object: {reason} (column {column})"))
        })?;
        let field = |name: &str| fields.get(name).map(|value| value.get());
        let key = match field(&self.selection.key) {
            Some("null") => Err(format!("no {:?}", self.selection.key)),
            Some(value) if value.starts_with(['{', '[']) => Err(format!(
                "{:?} is not a string or number",
                self.selection.key
            )),
            value => bytes_of(value, &self.selection.key, field),
        };
        let value = match &self.selection.value {
            None => Ok(text.as_bytes().to_vec()),
            Some(column) => bytes_of(field(column), column, field),
        };
        let (key, value) = (key.map_err(bad)?, value.map_err(bad)?);
        Ok(Record {
            line: self.line,
            key,
            value,
        })
    }
}

/// Returns the bytes of a column. A row of an export has bytes that are not UTF-8 in hexadecimal,
/// under another name, even if no row before it has that name.
fn bytes_of<'a>(
    value: Option<&str>,
    column: &str,
    field: impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<u8>, String> {
    let in_hex = format!("{column}_hex");
    match (value, field(&in_hex)) {
        (Some(value), _) => plain(value),
        (None, Some(digits)) => hex_bytes(digits).ok_or_else(|| {
            format!(
                "no {column:?}, and {in_hex:?} is not what an export without --hex writes; a file in \
                 hexadecimal is imported with --hex"
            )
        }),
        (None, None) => Err(format!("no {column:?}")),
    }
}

/// Returns the bytes of a field in hexadecimal: an export writes a string.
fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let text: String = serde_json::from_str(digits).ok()?;
    from_hex_field(text.as_bytes())
}

/// Returns a string's content; anything else as it is written.
fn plain(value: &str) -> Result<Vec<u8>, String> {
    if !value.starts_with('"') {
        return Ok(value.as_bytes().to_vec());
    }
    let text: Result<String, _> = serde_json::from_str(value);
    text.map(String::into_bytes)
        .map_err(|error| error.to_string())
}

impl<R: BufRead> Iterator for JsonLines<R> {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        while !self.failed {
            line.clear();
            match self.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => self.line += 1,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error.into()));
                }
            }
            let text = match self.line {
                1 => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line),
                _ => &line,
            };
            let text = text.trim_ascii();
            if !text.is_empty() {
                return Some(self.record(text));
            }
        }
        None
    }
}
