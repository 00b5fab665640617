//! Exports, their resumption, and the way back.

mod support;

use std::fs;

use support::Shell;
use terrace::{Db, Options};

/// Writes keys and values that text formats find hard.
fn odd_store(shell: &Shell) {
    let db = Db::open(shell.store(), Options::default()).unwrap();
    for number in 0..50u8 {
        db.put(
            [b'k', number],
            format!("value {number}, \"quoted\"\nand\tmore").as_bytes(),
        )
        .unwrap();
    }
    db.put(b"\xff\xfe", b"\x00\xff").unwrap();
    db.put(b"", b"").unwrap();
    db.close().unwrap();
}

fn entries(shell: &Shell, store: &str) -> String {
    shell.out(&["scan", "--hex", "-d", shell.path(store).to_str().unwrap()])
}

#[test]
fn what_was_exported_is_imported_as_it_was() {
    let shell = Shell::new();
    odd_store(&shell);
    for (name, hex) in [
        ("a.csv", false),
        ("b.csv", true),
        ("c.tsv", true),
        ("d.jsonl", true),
        ("e.jsonl", false),
    ] {
        let file = shell.path(name);
        let file = file.to_str().unwrap();
        let (hex, key, value): (&[&str], _, _) = match hex {
            true => (&["--hex"], "key_hex", "value_hex"),
            false => (&[], "key", "value"),
        };
        let told = shell.out(&[&["export", file], hex].concat());
        assert!(told.starts_with("52 rows ("), "{told}");
        let copy = shell.path(&format!("{name}.store"));
        let import = [
            "import",
            file,
            "--key",
            key,
            "--value",
            value,
            "-d",
            copy.to_str().unwrap(),
        ];
        shell.out(&[&import, hex].concat());
        assert_eq!(
            entries(&shell, &format!("{name}.store")),
            entries(&shell, "store"),
            "{name}"
        );
    }
}

#[test]
fn an_export_goes_on_behind_its_last_whole_row() {
    let shell = Shell::new();
    odd_store(&shell);
    for (name, hex) in [("a.csv", false), ("b.tsv", true), ("c.jsonl", false)] {
        let hex: &[&str] = if hex { &["--hex"] } else { &[] };
        let path = shell.path(name);
        let resume = |from: &[u8]| {
            fs::write(&path, from).unwrap();
            let arguments = ["export", path.to_str().unwrap(), "--resume", "--json"];
            let told = shell.json(&[&arguments, hex].concat());
            (fs::read(&path).unwrap(), told["rows"].as_u64().unwrap())
        };
        let (whole, rows) = resume(b"");
        assert_eq!(rows, 52);
        for cut in [
            1,
            9,
            10,
            11,
            whole.len() / 3,
            whole.len() / 2,
            whole.len() - 1,
        ] {
            let (resumed, rows) = resume(&whole[..cut]);
            assert_eq!(resumed, whole, "{name} cut at {cut}");
            assert!(rows >= 1, "{name} cut at {cut}");
        }
        assert_eq!(resume(&whole), (whole.clone(), 0));
    }
}

#[test]
fn an_export_overwrites_nothing_and_cuts_no_other_file() {
    let shell = Shell::with_tables();
    let notes = "notes of mine, not an export\nmore of them";
    let file = shell.file("notes.csv", notes);
    let ran = shell.run(&["export", &file]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("is there already"), "{}", ran.stderr);
    let ran = shell.run(&["export", &file, "--resume"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), notes);
    let nothing = shell.path("none.csv");
    let missing = shell.path("no store");
    let ran = shell.run(&[
        "export",
        nothing.to_str().unwrap(),
        "-d",
        missing.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(!nothing.exists());
}

#[test]
fn a_file_that_is_no_export_is_left_as_it_is_though_it_has_no_whole_row() {
    let shell = Shell::with_tables();
    for (name, content) in [
        ("one line.csv", "notes of mine"),
        ("one line.tsv", "notes of mine"),
        ("one line.jsonl", "{\"name\":\"of mine\"}"),
        ("quote.csv", "\"never closed\nmore,notes\n"),
        ("first row.csv", "my,notes\noslo,Norway\n"),
        ("first row.jsonl", "{}\n{\"key\":\"a\",\"value\":\"b\"}\n"),
    ] {
        let file = shell.file(name, content);
        let ran = shell.run(&["export", &file, "--resume"]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("--resume goes on with an export"),
            "{}",
            ran.stderr
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), content, "{name}");
    }
}

#[test]
fn an_export_is_not_resumed_nor_imported_with_another_hex() {
    let shell = Shell::new();
    // Keys and values that are hexadecimal, too.
    for (key, value) in [("abba", "cafe"), ("beef", "00"), ("cafe", "abba")] {
        shell.out(&["put", key, value]);
    }
    for name in ["a.csv", "b.tsv", "c.jsonl"] {
        for (hex, other, [key, value]) in [
            (&[][..], &["--hex"][..], ["key_hex", "value_hex"]),
            (&["--hex"], &[], ["key", "value"]),
        ] {
            let file = shell.file(name, "");
            let export = ["export", &file, "--resume"];
            shell.out(&[&export, hex].concat());
            let whole = fs::read(&file).unwrap();
            let cut = &whole[..whole.len() - 1];
            fs::write(&file, cut).unwrap();
            let ran = shell.run(&[&export, other].concat());
            assert_eq!(ran.code, 2, "{name} {hex:?}: {}", ran.stderr);
            assert_eq!(fs::read(&file).unwrap(), cut);
            shell.out(&[&export, hex].concat());
            assert_eq!(fs::read(&file).unwrap(), whole);
            // The columns of the other form are not there.
            let import = ["import", &file, "--key", key, "--value", value];
            let ran = shell.run(&[&import, other].concat());
            assert_eq!(ran.code, 2, "{name} {hex:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_range_goes_to_standard_output() {
    let shell = Shell::with_tables();
    assert_eq!(
        shell.out(&["export", "-", "--prefix", "o"]),
        "{\"key\":\"oslo\",\"value\":\"Norway\"}\n"
    );
    assert_eq!(
        shell.out(&["export", "-", "--from", "oslo", "--format", "csv"]),
        "key,value\noslo,Norway\nrome,Italy\n"
    );
    let file = shell.path("o.jsonl");
    let file = file.to_str().unwrap();
    for rows in ["1 row (", "0 rows ("] {
        let told = shell.out(&["export", file, "--prefix", "o", "--resume"]);
        assert!(told.starts_with(rows), "{told}");
    }
}

#[test]
fn what_tsv_cannot_hold_is_an_error_that_names_the_key() {
    let shell = Shell::new();
    shell.out(&["put", "tabbed", "a\tb"]);
    let ran = shell.run(&["export", "-", "--format", "tsv"]);
    assert_eq!(ran.code, 6);
    assert!(
        ran.stderr.contains("key tabbed") && ran.stderr.contains("--hex"),
        "{}",
        ran.stderr
    );
}

#[test]
fn hexadecimal_that_is_none_is_a_bad_row() {
    let shell = Shell::new();
    let file = shell.file("rows.csv", "key,value\n00,ff\nzz,00\n");
    let import = ["import", &file, "--key", "key", "--value", "value", "--hex"];
    let ran = shell.run(&import);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("line 3: \"zz\" is not hexadecimal"),
        "{}",
        ran.stderr
    );
    let skipped = shell.run(&[&import[..], &["--skip-bad"]].concat());
    assert!(
        skipped.stdout.contains("; 1 bad row skipped"),
        "{}",
        skipped.stdout
    );
    assert_eq!(shell.out(&["scan", "--hex"]), "00\tff\n");
}
