//! `terrace simulate compaction`.

mod support;

use serde_json::Value;
use support::Shell;

fn simulated(arguments: &[&str]) -> Value {
    let shell = Shell::new();
    shell.json(&[&["simulate", "compaction", "--json"], arguments].concat())
}

fn number(report: &Value, at: usize, path: &str) -> f64 {
    let found = report[at].pointer(path);
    found
        .unwrap_or_else(|| panic!("no {path}"))
        .as_f64()
        .unwrap()
}

#[test]
fn policies_stand_beside_one_another() {
    let shell = Shell::new();
    let text = shell.out(&["simulate", "compaction", "--keys", "1e5"]);
    let named = [
        "leveled",
        "tiered",
        "lazy",
        "dedup:1.2",
        "dedup:1.8",
        "score:0.3",
        "trie",
    ];
    for policy in named {
        assert!(text.contains(&format!("\n{policy} ")), "{text}");
    }
    let report = simulated(&["--keys", "1e5", "--policies", "tiered,dedup:1.2"]);
    let written = |at| number(&report, at, "/outcome/write_amplification");
    let space = |at| number(&report, at, "/outcome/space/mean");
    assert!(
        written(0) < written(1) && space(0) > 1.5 * space(1),
        "{report}"
    );
    let row = text
        .lines()
        .find(|line| line.starts_with("tiered"))
        .unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1], format!("{:.2}", written(0)));
    assert_eq!(cells[3], format!("{:.2}", space(0)));
    let series = report[0]["outcome"]["series"].as_array().unwrap();
    assert!(series.len() > 100);
    assert_eq!(series.last().unwrap()["writes"], 1_000_000);
}

#[test]
fn any_size_is_simulated_with_larger_tables() {
    let report = simulated(&["--keys", "1e12", "--policies", "tiered,leveled"]);
    for at in [0, 1] {
        assert!(number(&report, at, "/outcome/user_bytes") > 1e15);
    }
    let small = simulated(&["--keys", "1e6", "--policies", "tiered"]);
    let written = |report| number(report, 0, "/outcome/write_amplification");
    // Buffers of a hundredth make the same tree.
    assert!((written(&report) / written(&small) - 1.0).abs() < 0.1);
    let shell = Shell::new();
    let sizes = "arena_bytes = \"1GiB\"";
    let file = shell.file("options.toml", sizes);
    let small_buffers = [
        "--keys",
        "1e12",
        "--writes-per-key",
        "0.01",
        "--options",
        &file,
    ];
    let report = simulated(&[&small_buffers[..], &["--policies", "tiered"]].concat());
    assert!(number(&report, 0, "/outcome/enlarged_table_bytes") > 1e9);
}

/// Merges that are no faster than the writes hold writers back, and fast ones do not.
#[test]
fn slow_merges_hold_writers_back() {
    let held_back = |merge_mb_s| {
        let speeds = ["--write-mb-s", "20", "--merge-mb-s", merge_mb_s];
        let report =
            simulated(&[&["--keys", "1e5", "--policies", "leveled"], &speeds[..]].concat());
        let seconds = |name: &str| number(&report, 0, &format!("/outcome/seconds/{name}"));
        seconds("held_back") / seconds("load")
    };
    assert!(held_back("2000") < 0.1);
    assert!(held_back("20") > 0.3);
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let shell = Shell::new();
    for (arguments, what) in [
        (&["--policies", "univers"][..], "is no policy"),
        (&["--policies", "tiered:2"], "is no policy"),
        (
            &["--policies", "dedup:1"],
            "dedup_threshold must be above 1",
        ),
        (
            &["--keys", "0"],
            "--keys is 0; it must be from 1 to 1000000000000000",
        ),
        (&["--keys", "many"], "a whole number"),
        (
            &["--deletes", "1"],
            "--deletes is 1; it must be from 0 to 0.99",
        ),
        (&["--shuffled", "--fill-first"], "cannot be used with"),
        (&["--merge-mb-s", "5"], "--write-mb-s"),
        (
            &[
                "--policies",
                "trie",
                "--write-mb-s",
                "5",
                "--merge-mb-s",
                "5",
            ],
            "without speeds",
        ),
    ] {
        let ran = shell.run(&[&["simulate", "compaction"][..], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{arguments:?}: {}", ran.stderr);
    }
}

/// Returns the error of a refused command. A load is accepted if the error is the unknown policy.
fn refusal(arguments: &[&str]) -> String {
    let ran = Shell::new().run(&[&["simulate", "compaction"][..], arguments].concat());
    assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
    ran.stderr
}

#[test]
fn numbers_beyond_reason_are_refused_with_the_option_and_its_range() {
    for (option, value, range) in [
        ("--keys", "1e18", "from 1 to 1000000000000000"),
        ("--key-bytes", "0", "from 1 to 65535"),
        ("--key-bytes", "1000000", "from 1 to 65535"),
        ("--value-bytes", "1048577", "from 0 to 1048576"),
        ("--buffer", "0", "from 8192 to 1125899906842624"),
        ("--buffer", "1e18", "from 8192 to 1125899906842624"),
        ("--zipfian", "NaN", "from 0.01 to 3"),
        ("--writes-per-key", "0", "at least 0.000001"),
        ("--writes-per-key", "NaN", "at least 0.000001"),
        ("--writes-per-key", "-1", "at least 0.000001"),
        ("--writes-per-key", "inf", "--writes-per-key can be at most"),
        (
            "--writes-per-key",
            "1e300",
            "--writes-per-key can be at most",
        ),
    ] {
        let told = refusal(&[&format!("{option}={value}")]);
        assert!(told.contains(option) && told.contains(range), "{told}");
    }
    let slow = refusal(&["--write-mb-s=0", "--merge-mb-s=5"]);
    assert!(
        slow.contains("--write-mb-s is 0; it must be from 0.001"),
        "{slow}"
    );
}

#[test]
fn the_largest_load_that_is_named_is_accepted() {
    for arguments in [
        &["--writes-per-key=1e9"][..],
        &["--writes-per-key=1e9", "--shuffled"],
        &["--writes-per-key=1e9", "--keys=1"],
        &["--keys=1e12", "--buffer=65536"],
        &["--keys=1e15", "--value-bytes=1048576"],
    ] {
        let told = refusal(arguments);
        assert!(told.contains("1,000,000 write buffers"), "{told}");
        let (_, option) = told.split_once("at most): ").expect("a number");
        let (option, number) = option.split_once(" can be at most ").unwrap();
        let number: u64 = number.split(' ').next().unwrap().parse().unwrap();
        let others = arguments
            .iter()
            .filter(|argument| !argument.starts_with(option))
            .map(|argument| argument.to_string());
        let with = |number: u64| {
            let mut all: Vec<String> = others.clone().collect();
            all.extend([format!("{option}={number}"), "--policies=none".into()]);
            refusal(&all.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert!(with(number).contains("is no policy"), "{}", with(number));
        assert!(
            with(number + 1).contains("too many"),
            "{arguments:?} {number}"
        );
    }
}

/// In a pipe nothing is drawn: plain lines come, and only of a simulation that lasts.
#[test]
fn a_pipe_gets_no_bar() {
    let ran = Shell::new().run(&["simulate", "compaction", "--keys=1e5", "--policies=tiered"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn the_help_has_examples() {
    let help = Shell::new().out(&["simulate", "compaction", "--help"]);
    assert!(
        help.contains("terrace simulate compaction --keys 1e12"),
        "{help}"
    );
}

/// Sizes that follow from a bound are those of a store that has it.
#[test]
fn a_bound_on_memory_sizes_the_buffers() {
    let shell = Shell::new();
    let load = ["--keys", "1e6", "--policies", "tiered", "--options"];
    let outcome = |text: &str| {
        let file = shell.file("options.toml", text);
        let report = simulated(&[&load[..], &[&file]].concat());
        number(&report, 0, "/outcome/flushes")
    };
    let bounded = outcome("memory_bytes = 67108864");
    assert!(bounded > 2.0 * outcome(""), "{bounded}");
}
