//! Where an export that was cut short goes on: behind its last whole row.
//!
//! The file is read from its start: only there is it known whether the end of a line stands within
//! quotes. The bytes behind the last whole row are a row that was being written. Nothing is cut off
//! before the file has been understood, from its first bytes on. So no other file is taken for an
//! export, nor an export of the other `--hex`, whose keys would be read wrong.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

use serde_json::Value;

use crate::arguments::FileFormat;
use crate::export::{KEY, KEY_HEX, VALUE, VALUE_HEX, columns};
use crate::text::{from_hex, from_hex_field};

/// Bytes of a file or a row that are compared with the beginning of an export.
const START_BYTES: u64 = 64;

/// The last row that an export has written so far.
#[derive(Debug, PartialEq, Eq)]
pub struct LastRow {
    /// Whole rows, the header among them, end here.
    pub end: u64,
    /// The last key; `None` if there is at most a header.
    pub key: Option<Vec<u8>>,
}

/// Finds the last whole row of an export.
///
/// # Errors
/// In words, if the file is no export of that format.
pub fn resume_point(
    file: &mut (impl Read + Seek),
    format: FileFormat,
    hex: bool,
) -> io::Result<LastRow> {
    let found = whole_rows(BufReader::with_capacity(1 << 20, &mut *file), format)?;
    let start = read_range(file, 0..START_BYTES)?;
    let header = header(format, hex);
    if !agree(&start, &header) || header.is_empty() && !begins_row(&start, format, hex) {
        return Err(no_export("the file begins"));
    }
    let Some(WholeRows { first, last }) = found else {
        return Ok(LastRow { end: 0, key: None });
    };
    let end = last.end;
    let tail = read_range(file, end..end + START_BYTES)?;
    if !begins_row(&tail, format, hex) {
        return Err(no_export(&format!("what follows byte {end} is")));
    }
    // A header has been compared already.
    if header.is_empty() && fields(&read_range(file, first)?, format, hex).is_none() {
        return Err(no_export("the first row is"));
    }
    if !header.is_empty() && last.start == 0 {
        return Ok(LastRow { end, key: None });
    }
    match fields(&read_range(file, last)?, format, hex) {
        Some((key, _)) => Ok(LastRow {
            end,
            key: Some(key),
        }),
        None => Err(no_export(&format!("what lies before byte {end} is"))),
    }
}

fn no_export(what: &str) -> io::Error {
    io::Error::other(format!(
        "{what} not as in such an export; --resume goes on with an export of the same --format and \
         --hex, and leaves other files as they are"
    ))
}

/// Returns the bytes that a file of the format begins with.
fn header(format: FileFormat, hex: bool) -> Vec<u8> {
    let [key, value] = columns(hex);
    match format {
        FileFormat::Jsonl => Vec::new(),
        FileFormat::Csv => format!("{key},{value}\n").into_bytes(),
        FileFormat::Tsv => format!("{key}\t{value}\n").into_bytes(),
    }
}

/// Returns true if one may be the beginning of the other.
fn agree(left: &[u8], right: &[u8]) -> bool {
    left.iter().zip(right).all(|(left, right)| left == right)
}

/// Returns true if a row may begin with these bytes, as far as it is there.
fn begins_row(bytes: &[u8], format: FileFormat, hex: bool) -> bool {
    let is_hex = |byte: &u8| byte.is_ascii_hexdigit();
    match (format, hex) {
        (FileFormat::Jsonl, true) => agree(bytes, b"{\"key_hex\":\""),
        (FileFormat::Jsonl, false) => {
            agree(bytes, b"{\"key\":\"") || agree(bytes, b"{\"key_hex\":\"")
        }
        (FileFormat::Csv, true) => bytes.iter().all(|byte| *byte == b',' || is_hex(byte)),
        (FileFormat::Tsv, true) => bytes.iter().all(|byte| *byte == b'\t' || is_hex(byte)),
        (FileFormat::Csv | FileFormat::Tsv, false) => true,
    }
}

/// Where rows lie that have their end.
struct WholeRows {
    first: Range<u64>,
    last: Range<u64>,
}

/// Finds the rows; `None` if there is no whole one.
///
/// # Errors
/// In words, if there is a quote within a field of a CSV file that does not stand in quotes: an
/// export has none, and where its rows end would be a guess.
fn whole_rows(mut input: impl BufRead, format: FileFormat) -> io::Result<Option<WholeRows>> {
    let quotes = format == FileFormat::Csv;
    let (mut at, mut start, mut quoted) = (0, 0, false);
    let mut before = b'\n';
    let mut found: Option<WholeRows> = None;
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(found);
        }
        for &byte in bytes {
            match byte {
                // Behind a quote it is a quote within the field that has just seemed to end.
                b'"' if quotes && (quoted || matches!(before, b'\n' | b',' | b'"')) => {
                    quoted = !quoted;
                }
                b'"' if quotes => return Err(no_export(&format!("the quote at byte {at} is"))),
                b'\n' if !quoted => {
                    let row = start..at + 1;
                    start = at + 1;
                    match &mut found {
                        Some(found) => found.last = row,
                        None => {
                            found = Some(WholeRows {
                                first: row.clone(),
                                last: row,
                            });
                        }
                    }
                }
                _ => {}
            }
            at += 1;
            before = byte;
        }
        let length = bytes.len();
        input.consume(length);
    }
}

fn read_range(file: &mut (impl Read + Seek), range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(range.start))?;
    file.by_ref()
        .take(range.end - range.start)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns key and value of a row; `None` if it is none.
fn fields(row: &[u8], format: FileFormat, hex: bool) -> Option<(Vec<u8>, Vec<u8>)> {
    let (key, value) = match format {
        FileFormat::Jsonl => return json_fields(row, hex),
        FileFormat::Csv => {
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                // The parser drops a byte order mark from the beginning of a text.
                .from_reader(b"\n".chain(row));
            let record = reader.byte_records().next()?.ok()?;
            let (key, value) = (record.get(0)?, record.get(1)?);
            (record.len() == 2).then(|| (key.to_vec(), value.to_vec()))?
        }
        FileFormat::Tsv => {
            let row = row.strip_suffix(b"\n")?;
            let mut fields = row.split(|&byte| byte == b'\t');
            let (key, value) = (fields.next()?, fields.next()?);
            fields
                .next()
                .is_none()
                .then(|| (key.to_vec(), value.to_vec()))?
        }
    };
    match hex {
        true => Some((from_hex(&key)?, from_hex(&value)?)),
        false => Some((key, value)),
    }
}

fn json_fields(row: &[u8], hex: bool) -> Option<(Vec<u8>, Vec<u8>)> {
    let row: Value = serde_json::from_slice(row).ok()?;
    let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::as_bytes);
    let field = |name: &str, name_hex: &str| match (text(name), text(name_hex)) {
        (Some(plain), None) if !hex => Some(plain.to_vec()),
        (None, Some(digits)) if hex => from_hex(digits),
        (None, Some(digits)) => from_hex_field(digits),
        _ => None,
    };
    let fields = (field(KEY, KEY_HEX)?, field(VALUE, VALUE_HEX)?);
    (row.as_object()?.len() == 2).then_some(fields)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::export::Rows;

    fn resumed(bytes: &[u8], format: FileFormat, hex: bool) -> io::Result<LastRow> {
        resume_point(&mut Cursor::new(bytes), format, hex)
    }

    #[test]
    fn every_cut_of_an_export_is_resumed_behind_its_last_whole_row() {
        use FileFormat::{Csv, Jsonl, Tsv};
        let odd = [
            (&b""[..], &b""[..]),
            (b"a", b"plain"),
            (b"b\"quoted\"", b"two\nlines, and \"\n\""),
            (b"c", b"\xff\x00"),
        ];
        let plain = [
            (&b""[..], &b""[..]),
            (b"a", b"\"plain"),
            (b"c", b"\xff\x00"),
        ];
        for (format, hex, rows) in [
            (Csv, false, &odd[..]),
            (Csv, true, &odd),
            (Jsonl, false, &odd),
            (Jsonl, true, &odd),
            (Tsv, true, &odd),
            (Tsv, false, &plain),
        ] {
            let mut ends = vec![(0, None)];
            let mut bytes = Vec::new();
            if format != Jsonl {
                Rows::new(&mut bytes, format, hex).write_header().unwrap();
                ends.push((bytes.len(), None));
            }
            for (key, value) in rows {
                Rows::new(&mut bytes, format, hex)
                    .write(key, value)
                    .unwrap();
                ends.push((bytes.len(), Some(key.to_vec())));
            }
            for cut in 0..=bytes.len() {
                let (end, key) = ends.iter().rfind(|(end, _)| *end <= cut).unwrap();
                let expected = LastRow {
                    end: *end as u64,
                    key: key.clone(),
                };
                let found = resumed(&bytes[..cut], format, hex).unwrap();
                assert_eq!(found, expected, "{format:?}, cut at {cut}");
            }
        }
    }

    #[test]
    fn other_files_are_not_taken_for_exports() {
        use FileFormat::{Csv, Jsonl, Tsv};
        for (text, format, hex) in [
            ("name,country\noslo,Norway\nrome,Italy,x\n", Csv, false),
            ("name,country\noslo,Norway\n", Csv, false),
            ("name,country\n", Csv, false),
            ("some text\n", Tsv, false),
            ("{\"key\":1}\n", Jsonl, false),
            ("key,value\n", Jsonl, false),
            // No row has its end.
            ("name,country", Csv, false),
            ("key,values", Csv, false),
            ("notes", Tsv, false),
            ("notes", Jsonl, false),
            ("{\"name\":\"oslo\"", Jsonl, false),
            ("\"never closed,\noslo,Norway\n", Csv, false),
            ("key,\"value\n1,2\n", Csv, false),
            // The first row is another's.
            ("oslo,Norway\nrome,Italy\n", Csv, false),
            ("oslo\tNorway\n", Tsv, false),
            (
                "{\"key\":\"oslo\",\"id\":7}\n{\"key\":\"rome\",\"value\":\"Italy\"}\n",
                Jsonl,
                false,
            ),
            (
                "{\"key\":\"oslo\",\"value\":\"Norway\",\"id\":7}\n",
                Jsonl,
                false,
            ),
            // The bytes behind the last row begin no row.
            ("key,value\ndisk,5\" long\nrome,Italy\n", Csv, false),
            ("key_hex,value_hex\n00,ff\nrome", Csv, true),
            ("{\"key\":\"oslo\",\"value\":\"\"}\nnotes", Jsonl, false),
        ] {
            let error = resumed(text.as_bytes(), format, hex).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("--resume goes on"), "{text}: {error}");
        }
    }

    #[test]
    fn an_export_of_the_other_hex_is_refused_wherever_it_was_cut() {
        use FileFormat::{Csv, Jsonl, Tsv};
        for format in [Csv, Tsv, Jsonl] {
            for hex in [false, true] {
                let mut bytes = Vec::new();
                let mut rows = Rows::new(&mut bytes, format, hex);
                rows.write_header().unwrap();
                rows.write(b"abba", b"cafe").unwrap();
                rows.write(b"beef", b"").unwrap();
                drop(rows);
                // So far it may be either, and the other one starts again from 0.
                let common = match (format, hex) {
                    (Csv | Tsv, _) => b"key".len(),
                    (Jsonl, false) => b"{\"key".len(),
                    // Until the row has its end its key may be one that is not UTF-8.
                    (Jsonl, true) => bytes.iter().position(|&byte| byte == b'\n').unwrap(),
                };
                for cut in 0..=bytes.len() {
                    let other = resumed(&bytes[..cut], format, !hex);
                    if cut > common {
                        let error = other.unwrap_err().to_string();
                        assert!(error.contains("--resume goes on"), "{error}");
                    } else {
                        assert_eq!(other.unwrap().end, 0);
                    }
                }
            }
        }
    }
}
