//! Where an export that was cut short goes on: behind its last whole row.
//!
//! The file is read from its start: only there is it known whether the end of a line stands within
//! quotes. What is behind the last whole row is a row that was being written. Nothing is cut off
//! before that row has been understood, so that no other file is taken for an export.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

use serde_json::Value;

use crate::arguments::FileFormat;
use crate::export::{KEY, VALUE};
use crate::text::from_hex;

/// What an export has written so far.
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
pub fn resume_point(file: &mut File, format: FileFormat, hex: bool) -> io::Result<LastRow> {
    let row = last_row(BufReader::with_capacity(1 << 20, &*file), format)?;
    let Some(row) = row else {
        return Ok(LastRow { end: 0, key: None });
    };
    let (start, end) = (row.start, row.end);
    let bytes = read_range(file, row)?;
    let has_header = format != FileFormat::Jsonl;
    let is_header = has_header && start == 0;
    let fields = fields(&bytes, format).filter(|(key, value)| {
        !is_header || (key.as_slice(), value.as_slice()) == (KEY.as_bytes(), VALUE.as_bytes())
    });
    let key = match fields {
        Some((key, _)) if hex && !is_header => from_hex(&key),
        fields => fields.map(|(key, _)| key),
    };
    let key = key.ok_or_else(|| {
        io::Error::other(format!(
            "what lies there before byte {end} is not a row of such an export; --resume goes on \
             with an export of the same --format and --hex"
        ))
    })?;
    let key = (!is_header).then_some(key);
    Ok(LastRow { end, key })
}

/// Where the last row lies that has its end.
fn last_row(mut input: impl BufRead, format: FileFormat) -> io::Result<Option<Range<u64>>> {
    let quotes = format == FileFormat::Csv;
    let (mut at, mut start, mut quoted) = (0, 0, false);
    let mut last = None;
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(last);
        }
        for &byte in bytes {
            at += 1;
            match byte {
                b'"' if quotes => quoted = !quoted,
                b'\n' if !quoted => {
                    last = Some(start..at);
                    start = at;
                }
                _ => {}
            }
        }
        let length = bytes.len();
        input.consume(length);
    }
}

fn read_range(file: &mut File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(range.start))?;
    file.take(range.end - range.start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Key and value of a row as they stand there; `None` if it is none.
fn fields(row: &[u8], format: FileFormat) -> Option<(Vec<u8>, Vec<u8>)> {
    match format {
        FileFormat::Jsonl => {
            let row: Value = serde_json::from_slice(row).ok()?;
            let field = |name: &str| {
                let text = row.get(name).and_then(Value::as_str);
                let hex = row.get(format!("{name}_hex")).and_then(Value::as_str);
                let text = text.map(|text| text.as_bytes().to_vec());
                text.or_else(|| hex.and_then(|hex| from_hex(hex.as_bytes())))
            };
            Some((field(KEY)?, field(VALUE)?))
        }
        FileFormat::Csv => {
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .from_reader(row);
            let record = reader.byte_records().next()?.ok()?;
            let (key, value) = (record.get(0)?, record.get(1)?);
            (record.len() == 2).then(|| (key.to_vec(), value.to_vec()))
        }
        FileFormat::Tsv => {
            let row = row.strip_suffix(b"\n")?;
            let mut fields = row.split(|&byte| byte == b'\t');
            let (key, value) = (fields.next()?, fields.next()?);
            fields
                .next()
                .is_none()
                .then(|| (key.to_vec(), value.to_vec()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::export::Rows;

    fn resumed(bytes: &[u8], format: FileFormat, hex: bool) -> io::Result<LastRow> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        resume_point(&mut file, format, hex)
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
        for (bytes, format, hex) in [
            (
                &b"name,country\noslo,Norway\nrome,Italy,x\n"[..],
                Csv,
                false,
            ),
            (b"name,country\n", Csv, false),
            (b"key,value\nzz,00\n", Csv, true),
            (b"some text\n", Tsv, false),
            (b"{\"key\":1}\n", Jsonl, false),
            (b"key,value\n", Jsonl, false),
        ] {
            let error = resumed(bytes, format, hex).unwrap_err().to_string();
            assert!(error.contains("--resume goes on"), "{error}");
        }
    }
}
