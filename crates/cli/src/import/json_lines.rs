//! Rows of a JSON Lines file: an object a line.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::import::{ROW_BYTES, Record, RecordError, Selection, row_too_long};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Fields keep the text they have in the file: a number of many digits stays what it is.
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

    /// The next line with its newline; nothing at the end.
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
        let key = match fields
            .get(self.selection.key.as_str())
            .map(|value| value.get())
        {
            None | Some("null") => return Err(bad(format!("no {:?}", self.selection.key))),
            Some(value) if value.starts_with(['{', '[']) => {
                return Err(bad(format!(
                    "{:?} is not a string or number",
                    self.selection.key
                )));
            }
            Some(value) => plain(value).map_err(bad)?,
        };
        let value = match &self.selection.value {
            None => text.as_bytes().to_vec(),
            Some(column) => match fields.get(column.as_str()) {
                None => return Err(bad(format!("no {column:?}"))),
                Some(value) => plain(value.get()).map_err(bad)?,
            },
        };
        Ok(Record {
            line: self.line,
            key,
            value,
        })
    }
}

/// A string's content; anything else as it is written.
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
