use std::io::Cursor;

use super::*;

const CSV: Dialect = Dialect {
    delimiter: b',',
    quoting: true,
    header: true,
    columns: Vec::new(),
};

fn selection(key: &str, value: Option<&str>) -> Selection {
    Selection {
        key: key.into(),
        value: value.map(String::from),
    }
}

/// Returns rows as "line: key = value", errors as their text.
fn shown(records: impl Iterator<Item = Result<Record, RecordError>>) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    records
        .map(|record| match record {
            Ok(Record { line, key, value }) => {
                format!(
                    "{line}: {} = {}",
                    text(&key),
                    text(&value).replace("\\\"", "\"")
                )
            }
            Err(error) => error.to_string(),
        })
        .collect()
}

fn delimited(file: &[u8], dialect: Dialect, key: &str, value: Option<&str>) -> Vec<String> {
    match Delimited::open(file, dialect, &selection(key, value)) {
        Ok(records) => shown(records),
        Err(error) => vec![error.to_string()],
    }
}

fn json_lines(file: &[u8], key: &str, value: Option<&str>) -> Vec<String> {
    shown(JsonLines::new(Cursor::new(file), selection(key, value)))
}

#[test]
fn a_row_becomes_a_json_object_in_the_order_of_its_columns() {
    let rows = delimited(b"id,b,a\n1,x,y\n2,,z\n", CSV, "id", None);
    assert_eq!(
        rows,
        [
            r#"2: 1 = {"id":"1","b":"x","a":"y"}"#,
            r#"3: 2 = {"id":"2","b":"","a":"z"}"#
        ]
    );
}

#[test]
fn quotes_hold_delimiters_quotes_and_line_ends() {
    let file = b"id,text\r\n1,\"a,b\"\r\n2,\"say \"\"hi\"\"\"\r\n3,\"two\r\nlines\"\r\n4,end";
    let rows = delimited(file, CSV, "id", Some("text"));
    assert_eq!(
        rows,
        [
            "2: 1 = a,b",
            "3: 2 = say \"hi\"",
            "4: 3 = two\\r\\nlines",
            "6: 4 = end"
        ]
    );
}

#[test]
fn a_quote_left_open_is_a_bad_row_not_a_huge_value() {
    let rows = delimited(b"id,text\n1,a\n2,\"b\n3,c\n4,d\n", CSV, "id", Some("text"));
    assert_eq!(
        rows,
        ["2: 1 = a", "line 3: a quote is opened and never closed"]
    );
}

#[test]
fn a_quote_may_close_at_the_end_of_the_file() {
    for file in [
        &b"id,text\n1,\"a\nb\""[..],
        b"id,text\n1,\"a\nb\"\n",
        b"id,text\n1,\"a\nb\"\r\n\r\n\n",
    ] {
        let rows = delimited(file, CSV, "id", Some("text"));
        assert_eq!(rows, ["2: 1 = a\\nb"], "{}", file.escape_ascii());
    }
    // The mark of a first row is dropped, and one within the file is not.
    let first = b"\xef\xbb\xbf\"id,text\n";
    assert_eq!(
        delimited(first, CSV, "id", None),
        ["line 1: a quote is opened and never closed"]
    );
    let later = b"id\n\xef\xbb\xbf\"a";
    assert_eq!(
        delimited(later, CSV, "id", Some("id")),
        ["2: \\xef\\xbb\\xbf\\\"a = \\xef\\xbb\\xbf\"a"]
    );
}

#[test]
fn no_bytes_of_a_row_end_the_file() {
    let mark = "\u{1a}".repeat(12);
    let file = format!("id,text\n1,a\n{mark}\n2,\"b\n{mark}\n\"\n3,\n{mark}");
    let rows = delimited(file.as_bytes(), CSV, "id", Some("text"));
    let shown = r"\x1a".repeat(12);
    assert_eq!(
        rows,
        [
            "2: 1 = a".to_owned(),
            "line 3: 1 field where 2 are expected".to_owned(),
            format!(r"4: 2 = b\n{shown}\n"),
            "7: 3 = ".to_owned(),
            "line 8: 1 field where 2 are expected".to_owned(),
        ]
    );
    let one = format!("id\n1\n{mark}\n2\n");
    assert_eq!(delimited(one.as_bytes(), CSV, "id", Some("id")).len(), 3);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_name() {
    assert_eq!(
        delimited(b"\xef\xbb\xbfid,a\n1,2\n", CSV, "id", Some("a")),
        ["2: 1 = 2"]
    );
    assert_eq!(
        json_lines(b"\xef\xbb\xbf{\"id\":1,\"a\":2}\n", "id", Some("a")),
        ["1: 1 = 2"]
    );
}

#[test]
fn a_column_that_is_not_there_is_named_with_those_that_are() {
    let rows = delimited(b"id,name\n1,x\n", CSV, "key", None);
    assert_eq!(
        rows,
        ["there is no column \"key\"; the columns are id, name"]
    );
    let rows = delimited(b"id,id\n1,x\n", CSV, "id", None);
    assert!(rows[0].starts_with("two columns are called \"id\""));
}

#[test]
fn rows_of_another_width_are_bad_and_the_next_is_read() {
    let rows = delimited(b"id,name\n1\n\n2,b,c\n3,d\n", CSV, "id", Some("name"));
    assert_eq!(
        rows,
        [
            "line 2: 1 field where 2 are expected",
            "line 4: 3 fields where 2 are expected",
            "5: 3 = d"
        ]
    );
}

#[test]
fn bytes_that_are_not_utf8_pass_as_a_value_but_not_as_json() {
    let file = b"id,name\n\xff,caf\xe9\n";
    assert_eq!(
        delimited(file, CSV, "id", Some("name")),
        ["2: \\xff = caf\\xe9"]
    );
    assert_eq!(
        delimited(file, CSV, "name", None),
        ["line 2: \"id\" is not UTF-8, which JSON needs; convert the file or use --value"]
    );
}

#[test]
fn without_a_header_columns_are_numbered_or_named() {
    let dialect = Dialect {
        delimiter: b';',
        header: false,
        ..CSV
    };
    assert_eq!(
        delimited(b"a;b\nc;d\n", dialect.clone(), "2", Some("1")),
        ["1: b = a", "2: d = c"]
    );
    let named = Dialect {
        columns: vec!["x".into(), "y".into()],
        ..dialect
    };
    assert_eq!(
        delimited(b"a;b\n", named, "y", None),
        [r#"1: b = {"x":"a","y":"b"}"#]
    );
}

#[test]
fn tsv_has_no_quotes() {
    let tsv = Dialect {
        delimiter: b'\t',
        quoting: false,
        ..CSV
    };
    assert_eq!(
        delimited(b"id\ta\n1\t\"x\n2\ty\"\n", tsv, "id", Some("a")),
        ["2: 1 = \"x", "3: 2 = y\""]
    );
}

#[test]
fn an_empty_file_has_no_rows() {
    assert!(delimited(b"", CSV, "id", None).is_empty());
    assert!(delimited(b"id\n", CSV, "id", None).is_empty());
    assert!(json_lines(b"\n \n", "id", None).is_empty());
}

#[test]
fn json_fields_keep_the_text_of_the_file() {
    let file = br#"{"id": 12345678901234567890123, "o": {"b": 1.0, "a": []}}"#;
    let rows = json_lines(file, "id", Some("o"));
    assert_eq!(
        rows,
        [r#"1: 12345678901234567890123 = {"b": 1.0, "a": []}"#]
    );
}

#[test]
fn a_json_row_is_the_value_as_it_is_written() {
    let rows = json_lines(b"{\"id\":\"\\u00e9\", \"x\":1}\r\n", "id", None);
    assert_eq!(rows, ["1: \\xc3\\xa9 = {\"id\":\"\\\\u00e9\", \"x\":1}"]);
}

#[test]
fn bad_json_lines_say_why_and_the_next_is_read() {
    let file = b"{\"id\":1\n[1]\n{\"x\":1}\n{\"id\":null}\n{\"id\":{}}\n\n\xff\n{\"id\":true}\n";
    let rows = json_lines(file, "id", Some("id"));
    assert_eq!(rows.len(), 7, "{rows:#?}");
    assert!(
        rows[0].starts_with("line 1: not a JSON object: EOF while parsing"),
        "{}",
        rows[0]
    );
    assert!(
        rows[1].starts_with("line 2: not a JSON object: invalid type"),
        "{}",
        rows[1]
    );
    assert_eq!(rows[2], "line 3: no \"id\"");
    assert_eq!(rows[3], "line 4: no \"id\"");
    assert_eq!(rows[4], "line 5: \"id\" is not a string or number");
    assert_eq!(rows[5], "line 7: not UTF-8 from byte 0 of the line on");
    assert_eq!(rows[6], "8: true = true");
}

/// Keeps the reports of an import.
#[derive(Default)]
struct Diary(Vec<String>);

impl Observer for Diary {
    fn acknowledged(&mut self, rows: u64, last: &[u8]) -> Result<(), Failure> {
        self.0.push(format!("{rows} to {}", last.escape_ascii()));
        Ok(())
    }

    fn skipped(&mut self, line: u64, _what: &str) {
        self.0.push(format!("skipped {line}"));
    }
}

fn import_numbers(file: &str, skip_bad: bool) -> (Vec<String>, Result<Imported, ImportError>, Db) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), terrace::Options::default()).unwrap();
    let mut records = Delimited::open(file.as_bytes(), CSV, &selection("id", Some("v"))).unwrap();
    let plan = Plan {
        keyspace: Keyspace::clone(&db),
        batch_rows: 2,
        sync: false,
        skip_bad,
        obsolete: None,
    };
    let mut diary = Diary::default();
    let result = import(&mut records, &db, &plan, None, &mut diary);
    (diary.0, result, db)
}

#[test]
fn each_batch_is_told_when_it_is_acknowledged() {
    let (diary, result, db) = import_numbers("id,v\n1,a\n2,b\nx\n3,c\n4,d\n5,e\n", true);
    assert_eq!(diary, ["2 to 2", "skipped 4", "4 to 4", "5 to 5"]);
    assert_eq!(
        result.unwrap(),
        Imported {
            passed_rows: 0,
            rows: 5,
            keys: Keys {
                number: 5,
                is_estimated: false
            },
            bad_rows: 1,
            bytes: 10
        }
    );
    assert_eq!(db.get(b"5").unwrap().unwrap()[..], *b"e");
}

#[test]
fn the_rows_before_a_bad_one_are_imported() {
    let (diary, result, db) = import_numbers("id,v\n1,a\n2,b\n3,c\nx\n4,d\n", false);
    assert_eq!(diary, ["2 to 2", "3 to 3"]);
    let Err(ImportError::Record {
        error: RecordError::Bad { line: 5, .. },
        rows: 3,
    }) = result
    else {
        panic!("{result:?}");
    };
    assert!(db.get(b"3").unwrap().is_some() && db.get(b"4").unwrap().is_none());
}

#[test]
fn a_key_too_long_is_a_bad_row() {
    let file = format!("id,v\n{},a\n2,b\n", "k".repeat(65_536));
    let (diary, result, _db) = import_numbers(&file, true);
    assert_eq!(diary, ["skipped 2", "1 to 2"]);
    assert_eq!(result.unwrap().bad_rows, 1);
}

#[test]
fn a_row_of_an_export_may_have_its_bytes_in_hexadecimal() {
    let file = b"{\"key\":\"a\",\"value\":\"b\"}\n{\"key_hex\":\"FE\",\"value\":\"c\"}\n\
        {\"key\":\"d\",\"value_hex\":\"ff00\"}\n{\"key\":\"e\",\"key_hex\":\"fe\",\"value\":\"f\"}\n";
    let rows = json_lines(file, "key", Some("value"));
    let expected = ["1: a = b", "2: \\xfe = c", "3: d = \\xff\\x00", "4: e = f"];
    assert_eq!(rows, expected);
    // Text in hexadecimal, digits that are none, and a number.
    let file =
        b"{\"key_hex\":\"61\"}\n{\"key_hex\":\"zz\"}\n{\"key_hex\":99}\n{\"key\":null}\n{}\n";
    for (row, line) in json_lines(file, "key", None).iter().zip(1..) {
        assert!(
            row.starts_with(&format!("line {line}: no \"key\"")),
            "{row}"
        );
        assert_eq!(row.contains("--hex"), line < 4, "{row}");
    }
}
