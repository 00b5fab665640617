//! Tests: rows of any bytes. An import reads them from an export, also after both were cut short.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::Bound;
use std::path::Path;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use terrace::{Db, IterOptions, Keyspace, Options, WriteBatch, WriteOptions};

use crate::arguments::FileFormat::{self, Csv, Jsonl, Tsv};
use crate::export::{Rows, columns, resume_point};
use crate::failure::Failure;
use crate::import::{
    Checkpoint, Delimited, Dialect, JsonLines, Observer, Plan, Record, Records, Selection, import,
};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Text that one of the formats, or an end mark of them, would find hard.
const HARD: [&str; 18] = [
    "\"",
    "\"\"",
    ",",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\\",
    "\u{feff}",
    "key",
    "_hex",
    "abba",
    "{",
    "}",
    "ä",
    "\u{202e}",
    "\u{9b}",
    "\u{1a}\u{1a}\u{1a}\u{1a}\u{1a}\u{1a}\u{1a}\u{1a}\u{1a}\u{1a}\u{1a}\u{1a}",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => select(&HARD[..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..4),
    ];
    vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn export(entries: &Entries, format: FileFormat, hex: bool, header: bool) -> Option<Vec<u8>> {
    let mut file = Vec::new();
    let mut rows = Rows::new(&mut file, format, hex);
    if header {
        rows.write_header().unwrap();
    }
    for (key, value) in entries {
        rows.write(key, value).ok()?;
    }
    rows.flush().unwrap();
    drop(rows);
    Some(file)
}

/// Returns the rows of a file, as `terrace import --key key --value value` reads them.
fn rows_of(file: &[u8], format: FileFormat, hex: bool) -> Box<Records<'_>> {
    let [key, value] = columns(hex).map(str::to_owned);
    let value = Some(value);
    let selection = Selection { key, value };
    let dialect = |delimiter, quoting| Dialect {
        delimiter,
        quoting,
        header: true,
        columns: Vec::new(),
    };
    let rows: Box<Records<'_>> = match format {
        Jsonl => Box::new(JsonLines::new(file, selection)),
        Csv => Box::new(Delimited::open(file, dialect(b',', true), &selection).unwrap()),
        Tsv => Box::new(Delimited::open(file, dialect(b'\t', false), &selection).unwrap()),
    };
    match hex {
        true => Box::new(rows.map(|row| row.and_then(Record::decoded))),
        false => rows,
    }
}

/// Cuts an export short and resumes it.
fn resumed(file: &[u8], entries: &Entries, format: FileFormat, hex: bool, cut: usize) -> Vec<u8> {
    let mut part = file[..cut].to_vec();
    let last = resume_point(&mut Cursor::new(&part), format, hex).unwrap();
    part.truncate(last.end as usize);
    let behind = last.key.map_or(Bound::Unbounded, Bound::Excluded);
    let rest = entries.range((behind, Bound::Unbounded));
    let rest = rest.map(|(key, value)| (key.clone(), value.clone()));
    part.extend(export(&rest.collect(), format, hex, last.end == 0).unwrap());
    part
}

struct Silent;

impl Observer for Silent {
    fn acknowledged(&mut self, _rows: u64, _last: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn skipped(&mut self, _line: u64, _what: &str) {}
}

/// Imports the first rows of a file and then all of it, resumed. The store is empty before and after.
fn imported(
    db: &Db,
    name: &Path,
    file: &[u8],
    format: FileFormat,
    hex: bool,
    cut: usize,
) -> Entries {
    let keyspace = Keyspace::clone(db);
    let plan = Plan {
        keyspace: keyspace.clone(),
        batch_rows: 2,
        sync: false,
        skip_bad: false,
        obsolete: None,
    };
    for rows in [cut, usize::MAX] {
        let checkpoint = Checkpoint::open(db, name, &keyspace).unwrap();
        let mut rows = rows_of(file, format, hex).take(rows);
        import(&mut rows, db, &plan, Some(checkpoint), &mut Silent).unwrap();
    }
    let found = keyspace.iter(IterOptions::default()).unwrap().entries();
    let found: Entries = found.collect::<Result<_, _>>().unwrap();
    let mut batch = WriteBatch::new();
    for key in found.keys() {
        batch.delete_in(&keyspace, key).unwrap();
    }
    db.write(batch, WriteOptions::default()).unwrap();
    found
}

#[test]
fn an_import_reads_what_an_export_wrote_wherever_both_were_cut() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), Options::default()).unwrap();
    let entries = btree_map(bytes(), bytes(), 0..6);
    let imports = Cell::new(0_u32);
    let mut runner = TestRunner::default();
    let cases = (entries, any::<Index>(), any::<Index>());
    let tried = runner.run(&cases, |(entries, cut, cut_import)| {
        for (format, hex) in [Csv, Tsv, Jsonl]
            .into_iter()
            .flat_map(|f| [(f, false), (f, true)])
        {
            let breaks = |bytes: &Vec<u8>| bytes.iter().any(|byte| b"\t\n\r".contains(byte));
            let is_held =
                format != Tsv || hex || !entries.iter().any(|(k, v)| breaks(k) || breaks(v));
            let file = export(&entries, format, hex, true);
            prop_assert_eq!(file.is_some(), is_held);
            let Some(file) = file else { continue };
            let cut = cut.index(file.len() + 1);
            let again = resumed(&file, &entries, format, hex, cut);
            prop_assert_eq!(&again, &file, "{:?}, hex {}, cut at {}", format, hex, cut);
            let cut = cut_import.index(entries.len() + 1);
            imports.set(imports.get() + 1);
            let name = imports.get().to_string();
            let found = imported(&db, Path::new(&name), &file, format, hex, cut);
            prop_assert_eq!(&found, &entries, "{:?}, hex {}", format, hex);
        }
        Ok(())
    });
    tried.unwrap();
    db.close().unwrap();
}
