//! put, get, del and scan, as a script sees them.

mod support;

use support::{Shell, damage};

fn cities() -> Shell {
    let shell = Shell::new();
    for (city, country) in [
        ("oslo", "Norway"),
        ("lisbon", "Portugal"),
        ("rome", "Italy"),
    ] {
        assert_eq!(shell.out(&["put", city, country]), "");
    }
    shell
}

#[test]
fn what_is_put_is_got_until_it_is_deleted() {
    let shell = cities();
    assert_eq!(shell.out(&["get", "oslo"]), "Norway\n");
    assert_eq!(shell.out(&["put", "oslo", "Norge", "--sync"]), "");
    assert_eq!(shell.out(&["get", "oslo", "--raw"]), "Norge");
    assert_eq!(
        shell.out(&["get", "oslo", "--json"]),
        "{\"key\":\"oslo\",\"value\":\"Norge\"}\n"
    );
    assert_eq!(shell.out(&["del", "oslo"]), "");
    let ran = shell.run(&["get", "oslo"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert_eq!(ran.stderr, "terrace: key not found\n");
    // One that is absent is no error.
    assert_eq!(shell.out(&["del", "oslo"]), "");
}

#[test]
fn an_empty_value_and_an_empty_key_are_something() {
    let shell = Shell::new();
    shell.out(&["put", "", ""]);
    assert_eq!(shell.out(&["get", ""]), "\n");
    assert_eq!(
        shell.out(&["scan", "--format", "json"]),
        "{\"key\":\"\",\"value\":\"\"}\n"
    );
}

#[test]
fn a_value_comes_from_standard_input_byte_by_byte() {
    let shell = Shell::new();
    assert_eq!(shell.run_with(&["put", "k"], b"two\nlines\n\0").code, 0);
    assert_eq!(shell.out(&["get", "k", "--raw"]), "two\nlines\n\0");
    assert_eq!(shell.run_with(&["put", "--hex", "ff"], b"00ff\n").code, 0);
    assert_eq!(shell.out(&["get", "--hex", "ff"]), "00ff\n");
}

#[test]
fn a_scan_keeps_order_bounds_limit_and_direction() {
    let shell = cities();
    let all = "lisbon\tPortugal\noslo\tNorway\nrome\tItaly\n";
    assert_eq!(shell.out(&["scan"]), all);
    assert_eq!(
        shell.out(&["scan", "--from", "oslo", "--to", "rome"]),
        "oslo\tNorway\n"
    );
    assert_eq!(shell.out(&["scan", "--prefix", "ro"]), "rome\tItaly\n");
    let backward = shell.out(&["scan", "--reverse", "--limit", "2"]);
    assert_eq!(backward, "rome\tItaly\noslo\tNorway\n");
    assert_eq!(shell.out(&["scan", "--limit", "0"]), "");
    let backward = shell.out(&["scan", "--reverse", "--to", "rome", "--from", "m"]);
    assert_eq!(backward, "oslo\tNorway\n");
}

#[test]
fn every_format_shows_bytes_that_are_no_text() {
    let shell = Shell::new();
    shell.out(&["put", "--hex", "00ff", "610962"]);
    assert_eq!(shell.out(&["scan"]), "\\x00\\xff\ta\\tb\n");
    assert_eq!(shell.out(&["scan", "--format", "hex"]), "00ff\t610962\n");
    let json = shell.json(&["scan", "--format", "json"]);
    assert_eq!(
        json,
        serde_json::json!({"key_hex": "00ff", "value": "a\tb"})
    );
    assert_eq!(
        shell.out(&["scan", "--hex", "--prefix", "00"]),
        "00ff\t610962\n"
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let shell = Shell::new();
    let rows: String = (0..20_000)
        .map(|row| format!("{row:020},{row:080}\n"))
        .collect();
    let file = shell.file("rows.csv", rows);
    shell.out(&["import", &file, "--no-header", "--key", "1"]);
    let mut child = shell.command(&["scan"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn keyspaces_are_made_by_writing_and_have_keys_of_their_own() {
    let shell = Shell::new();
    shell.out(&["put", "rhine", "a name"]);
    shell.out(&["put", "--keyspace", "rivers", "rhine", "1233"]);
    let file = shell.file("more.csv", "name,km\noder,840\n");
    let import = ["import", &file, "--key", "name", "--value", "km"];
    shell.out(&[&import[..], &["--keyspace", "rivers", "--resume"]].concat());
    assert_eq!(shell.out(&["get", "rhine"]), "a name\n");
    assert_eq!(
        shell.out(&["scan", "--keyspace", "rivers"]),
        "oder\t840\nrhine\t1233\n"
    );
    assert_eq!(
        shell.out(&["export", "-", "--format", "csv", "--keyspace", "rivers"]),
        "key,value\noder,840\nrhine,1233\n"
    );
    shell.out(&["del", "--keyspace", "rivers", "rhine"]);
    assert_eq!(shell.run(&["get", "--keyspace", "rivers", "rhine"]).code, 1);
    assert_eq!(shell.out(&["scan"]), "rhine\ta name\n");
    // Rows that another keyspace took from the file do not count as rows of this one.
    let told = shell.out(&[&import[..], &["--resume"]].concat());
    assert!(told.starts_with("1 row ("), "{told}");
    for command in [
        &["get", "k"][..],
        &["del", "k"],
        &["scan"],
        &["export", "-"],
    ] {
        let ran = shell.run(&[command, &["--keyspace", "lakes"]].concat());
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(ran.stderr.contains("no keyspace lakes"), "{}", ran.stderr);
    }
}

#[test]
fn keys_are_counted_and_printed_without_their_values() {
    let shell = cities();
    assert_eq!(shell.out(&["count"]), "3\n");
    assert_eq!(shell.out(&["count", "--from", "m", "--to", "p"]), "1\n");
    assert_eq!(shell.json(&["count", "--prefix", "x", "--json"])["keys"], 0);
    let reversed = ["scan", "--keys-only", "--reverse", "--limit", "2"];
    assert_eq!(shell.out(&reversed), "rome\noslo\n");
    assert_eq!(
        shell.out(&["scan", "--keys-only", "--prefix", "o", "--format", "json"]),
        "{\"key\":\"oslo\"}\n"
    );
    assert_eq!(
        shell.out(&["scan", "--keys-only", "--hex", "--from", "72"]),
        "726f6d65\n"
    );
}

#[test]
fn a_range_is_removed_at_once() {
    let shell = cities();
    shell.out(&["put", "porto", "Portugal"]);
    assert_eq!(shell.out(&["del", "--prefix", "o", "--sync"]), "");
    assert_eq!(shell.out(&["scan", "--keys-only"]), "lisbon\nporto\nrome\n");
    shell.out(&["del", "--from", "m", "--to", "q"]);
    assert_eq!(shell.out(&["scan", "--keys-only"]), "lisbon\nrome\n");
    shell.out(&["del", "--hex", "--from", "72"]);
    assert_eq!(shell.out(&["scan", "--keys-only"]), "lisbon\n");
    for wrong in [&["del"][..], &["del", "lisbon", "--prefix", "l"]] {
        assert_eq!(shell.run(wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(shell.out(&["count"]), "1\n");
}

#[test]
fn failures_are_json_where_the_output_is() {
    let shell = cities();
    let failure = |arguments: &[&str]| -> (i32, serde_json::Value) {
        let ran = shell.run(arguments);
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        (ran.code, serde_json::from_str(&ran.stderr).unwrap())
    };
    let (code, absent) = failure(&["get", "--json", "paris"]);
    assert_eq!((code, &absent["exit_code"]), (1, &1.into()));
    assert_eq!(absent["error"], "key not found");
    assert!(absent["hint"].is_null(), "{absent}");
    let (code, unknown) = failure(&["count", "--json", "--keyspace", "rivers"]);
    assert_eq!(code, 7);
    assert!(unknown["hint"].as_str().unwrap().contains("keyspaces list"));
    let (code, usage) = failure(&["count", "--json", "--no-such-option"]);
    assert_eq!(code, 2);
    let error = usage["error"].as_str().unwrap();
    assert!(error.starts_with("unexpected argument"), "{error}");
    // Behind `--` it is a key.
    let ran = shell.run(&["get", "--", "--json"]);
    assert_eq!(ran.stderr, "terrace: key not found\n");
}

/// A scan that has its entries looks no further.
#[test]
fn damage_behind_the_last_entry_of_a_scan_does_not_matter() {
    let shell = Shell::new();
    let db = terrace::Db::open(shell.store(), Shell::options()).unwrap();
    for key in ["a", "b"] {
        // Each in a block of its own.
        db.put(key, vec![b'v'; 10_000]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let table = shell.store_file(|name| name.ends_with(".table"));
    damage(&table, 15_000);
    let one = ["scan", "--keys-only", "--limit"];
    assert_eq!(shell.out(&[&one[..], &["1"]].concat()), "a\n");
    assert_eq!(shell.run(&[&one[..], &["2"]].concat()).code, 3);
}

#[test]
fn keys_are_checked_before_a_store_is_opened() {
    let shell = Shell::new();
    for wrong in [&["get", "--hex", "zz"][..], &["del", "--hex", "zz"]] {
        assert_eq!(shell.run(wrong).code, 2, "{wrong:?}");
    }
}
