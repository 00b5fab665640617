//! import, as a script sees it.

mod support;

use support::Shell;

#[test]
fn the_extension_tells_the_format() {
    for (name, content) in [
        ("a.csv", "id,name\n1,\"x, y\"\n"),
        ("a.tsv", "id\tname\n1\tx, y\n"),
        ("a.TAB", "id\tname\r\n1\tx, y\r\n"),
        ("a.jsonl", "{\"id\":1,\"name\":\"x, y\"}\n"),
        ("a.ndjson", "{\"name\":\"x, y\",\"id\":\"1\"}"),
    ] {
        let shell = Shell::new();
        let file = shell.file(name, content);
        let told = shell.out(&["import", &file, "--key", "id", "--value", "name"]);
        // Nearly all of the time is the opening of the store.
        assert!(told.starts_with("1 row (5 B) imported in "), "{told}");
        assert!(told.ends_with(" s\n"), "{told}");
        assert_eq!(shell.out(&["scan"]), "1\tx, y\n", "{name}");
    }
}

#[test]
fn a_row_is_kept_as_json_unless_a_column_is_named() {
    let shell = Shell::new();
    let file = shell.file("a.csv", "id,name\n1,x\n");
    shell.out(&["import", &file, "--key", "name"]);
    assert_eq!(shell.out(&["get", "x"]), "{\"id\":\"1\",\"name\":\"x\"}\n");
}

#[test]
fn standard_input_needs_a_format() {
    let shell = Shell::new();
    let ran = shell.run(&["import", "-", "--key", "1"]);
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.stderr,
        "terrace: the name - does not tell the format; give --format csv, tsv or jsonl\n"
    );
    let arguments = [
        "import",
        "-",
        "--format",
        "csv",
        "--delimiter",
        ";",
        "--no-header",
    ];
    let ran = shell.run_with(
        &[&arguments[..], &["--key", "2", "--json"]].concat(),
        b"a;b\nc;d\n",
    );
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&told["rows"], &told["bad_rows"]), (&2.into(), &0.into()));
    assert_eq!(shell.out(&["get", "d"]), "{\"1\":\"c\",\"2\":\"d\"}\n");
}

#[test]
fn a_bad_row_is_named_and_what_is_before_it_stays() {
    let shell = Shell::new();
    let file = shell.file("a.csv", "id,name\n1,x\n2\n3,z\n");
    let ran = shell.run(&["import", &file, "--key", "id"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    let expected = format!(
        "terrace: {file}, line 3: 1 field where 2 are expected (before it, 1 row \
         imported)\nhint: correct the row, or skip such rows with --skip-bad\n"
    );
    assert_eq!(ran.stderr, expected);
    assert_eq!(shell.run(&["get", "3"]).code, 1);

    let ran = shell.run(&["import", &file, "--key", "id", "--skip-bad"]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.stdout.ends_with("; 1 bad row skipped\n"),
        "{}",
        ran.stdout
    );
    assert_eq!(
        ran.stderr,
        format!("{file}, line 3: 1 field where 2 are expected; skipped\n")
    );
    assert_eq!(
        shell.out(&["scan", "--from", "3"]),
        "3\t{\"id\":\"3\",\"name\":\"z\"}\n"
    );
}

#[test]
fn a_wrong_column_makes_no_store() {
    let shell = Shell::new();
    let file = shell.file("a.csv", "id,name\n1,x\n");
    let ran = shell.run(&["import", &file, "--key", "nom"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr
            .contains("there is no column \"nom\"; the columns are id, name")
    );
    assert!(!shell.store().exists());
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let shell = Shell::new();
    let file = shell.file("a.jsonl", "{\"id\":1}\n");
    for arguments in [
        &["--no-header"][..],
        &["--columns", "a"],
        &["--delimiter", ";"],
    ] {
        let ran = shell.run(&[&["import", &file, "--key", "id"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}");
    }
    let file = shell.file("a.csv", "id\n1\n");
    let ran = shell.run(&["import", &file, "--key", "id", "--delimiter", "ab"]);
    assert_eq!(ran.code, 2);
    let ran = shell.run(&["import", &file, "--key", "id", "--batch-rows", "0"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn events_are_told_line_by_line_on_standard_error() {
    let shell = Shell::new();
    let file = shell.file("a.csv", "id\n1\n");
    let import = ["import", &file, "--key", "id", "--events"];
    // The next opening flushes the writes that lie in an arena.
    shell.out(&["put", "0", "unflushed"]);
    let told = shell.run(&import);
    assert!(told.stdout.starts_with("1 row "), "{told:?}");
    let begun = "1 main flush of 1 arena begun\n2 main flush of 1 arena ended: 1 table, ";
    assert!(told.stderr.starts_with(begun), "{told:?}");

    let told = shell.run(&[&import[..], &["--json"]].concat());
    let events: Vec<serde_json::Value> = told
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // The third may be the removal of the table that went along.
    assert!(events.len() >= 2, "{told:?}");
    assert_eq!(events[0]["event"], "flush of 1 arena begun");
    assert_eq!(
        (&events[1]["number"], &events[1]["thread"]),
        (&2.into(), &"main".into())
    );
    assert!(events[1]["seconds"].as_f64().unwrap() > 1e9);
}

#[test]
fn an_import_says_how_many_keys_its_rows_made() {
    let shell = Shell::new();
    let file = shell.file("a.csv", "id,v\n1,a\n2,b\n1,c\n");
    let import = ["import", &file, "--key", "id", "--value", "v"];
    let told = shell.out(&import);
    assert!(
        told.starts_with("3 rows, 2 keys (6 B) imported in "),
        "{told}"
    );
    let told = shell.json(&[&import[..], &["--json"]].concat());
    assert_eq!((&told["rows"], &told["keys"]), (&3.into(), &2.into()));
    assert_eq!(told["keys_are_estimated"], false);
    assert_eq!(shell.out(&["scan"]), "1\tc\n2\tb\n");
}

#[test]
fn bytes_of_an_end_mark_end_no_import() {
    let shell = Shell::new();
    let mark = "\u{1a}".repeat(12);
    let file = shell.file("a.csv", format!("id,name\n1,x\n{mark}\n2,y\n3,z\n"));
    let ran = shell.run(&["import", &file, "--key", "id"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("line 3: 1 field"), "{}", ran.stderr);
    let ran = shell.run(&["import", &file, "--key", "id", "--skip-bad"]);
    assert!(ran.stdout.starts_with("3 rows ("), "{}", ran.stdout);
    assert!(
        ran.stdout.ends_with("; 1 bad row skipped\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_example_with_a_file_of_the_sources_imports_it() {
    let shell = Shell::new();
    let help = shell.out(&["import", "--help"]).replace("\\\n", "");
    let mut lines = help.lines();
    let example = lines
        .find(|line| line.contains("data/UnicodeData.txt"))
        .unwrap();
    let example = example.replace("-d ./unicode ", "");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_terrace"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let ran = std::process::Command::new("sh")
        .args(["-c", &example])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env("PATH", path)
        .env("TERRACE_STORE", shell.store())
        .output()
        .unwrap();
    let told = String::from_utf8(ran.stdout).unwrap();
    assert!(
        ran.status.success() && told.starts_with("34,924 rows ("),
        "{example}: {told}"
    );
}
