//! `terrace bench`: contests from end to end, each run in a process of its own.

mod support;

use std::fs;
use std::io::Write;

use support::Shell;

fn bench(shell: &Shell, arguments: &[&str]) -> support::Ran {
    let directory = shell.path("runs");
    fs::create_dir_all(&directory).unwrap();
    let directory = directory.to_str().unwrap().to_string();
    let ran = shell.run(
        &[
            &["bench"],
            arguments,
            &["--tiny", "--directory", &directory],
        ]
        .concat(),
    );
    let left: Vec<_> = fs::read_dir(&directory).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    ran
}

/// Runs a contest that must go well. Returns its output with `--json`.
fn held(shell: &Shell, arguments: &[&str]) -> serde_json::Value {
    let ran = bench(shell, &[arguments, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn two_configurations_alternate_and_find_the_same() {
    let shell = Shell::new();
    let page = shell.path("report.html");
    let html = ["--html", page.to_str().unwrap()];
    let ycsb = [
        "ycsb",
        "c",
        "a",
        "--stores",
        "terrace,terrace-log",
        "--json",
    ];
    let ran = bench(&shell, &[&ycsb[..], &html].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("run 2/2: terrace-log"),
        "{}",
        ran.stderr
    );

    let contest: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let runs = contest["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let phases = run["phases"].as_array().unwrap();
        let names: Vec<_> = phases
            .iter()
            .map(|phase| phase["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["load", "C", "A"]);
        assert_eq!(phases[1]["found"], 3000);
        assert_eq!(phases[1]["found"], runs[0]["phases"][1]["found"]);
        assert!(phases[0]["user_written_bytes"].as_u64().unwrap() > 3_000_000);
        assert!(phases[0]["usage"]["write_bytes"].as_u64().unwrap() > 0);
        assert!(phases[0]["settled_s"].as_f64() >= phases[0]["acknowledged_s"].as_f64());
    }
    assert!(
        runs[0]["durability"]
            .as_str()
            .unwrap()
            .contains("CrashSafe")
    );
    assert!(
        runs[1]["durability"]
            .as_str()
            .unwrap()
            .contains("method written")
    );
    let harness = contest["machine"]["harness"].as_array().unwrap();
    let phases: Vec<_> = harness.iter().map(|cost| cost["phase"].as_str()).collect();
    assert_eq!(phases, [Some("load"), Some("C"), Some("A")]);
    assert!(
        harness
            .iter()
            .all(|cost| cost["nanoseconds"].as_f64() > Some(0.0))
    );
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("terrace-log") && page.contains("Content-Security-Policy"));
}

#[test]
fn a_table_has_every_figure_and_every_setting() {
    let shell = Shell::new();
    let ran = bench(&shell, &["db-bench", "fillrandom", "readrandom", "readseq"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in [
        "== fillrandom",
        "== readrandom",
        "== readseq",
        "op/s, acknowledged",
        "longest gap",
        "p99.9",
        "write amplification",
        "peak memory",
        "harness alone, readseq",
        "Settings of terrace",
        "read_buffer.share_percent",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    assert!(ran.stdout.rfind("Settings of") < ran.stdout.find("== fillrandom"));
}

#[test]
fn an_open_loop_runs_at_the_rate_that_was_asked_for() {
    let shell = Shell::new();
    let contest = held(&shell, &["ycsb", "c", "--rate", "5000"]);
    let phase = &contest["runs"][0]["phases"][1];
    assert_eq!(phase["rate"], 5000.0);
    // 3,000 operations are due within 0.6 s; none is asked for earlier.
    assert!(phase["acknowledged_s"].as_f64().unwrap() >= 0.59, "{phase}");
}

#[test]
fn a_paced_contest_follows_the_closed_one() {
    let shell = Shell::new();
    let contest = held(&shell, &["ycsb", "c", "--paced", "50"]);
    let phases = contest["runs"][0]["phases"].as_array().unwrap();
    let names: Vec<_> = phases
        .iter()
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["load", "C", "C, open loop at 50 %"]);
    let reached =
        phases[1]["operations"].as_f64().unwrap() / phases[1]["acknowledged_s"].as_f64().unwrap();
    let rate = phases[2]["rate"].as_f64().unwrap();
    assert!(
        (rate / (reached / 2.0) - 1.0).abs() < 1e-6,
        "{rate} of {reached}"
    );
}

/// The run itself is in the memory group that the contest makes: it reports that group's peak.
#[test]
fn a_bounded_run_is_within_its_bound() {
    let shell = Shell::new();
    let bound = ["--memory", "both", "--memory-mib", "96"];
    let contest = held(&shell, &[&["ycsb", "c"], &bound[..]].concat());
    let peaks = |label: &str| -> Vec<Option<u64>> {
        let runs = contest["runs"].as_array().unwrap().iter();
        let runs = runs.filter(|run| run["label"] == label);
        let phases = runs.flat_map(|run| run["phases"].as_array().unwrap());
        let peaks = phases.map(|phase| phase["usage"]["peak_cgroup_bytes"].as_u64());
        peaks.collect()
    };
    assert_eq!(peaks(", fits"), [None, None]);
    let conditions = contest["conditions"].as_array().unwrap();
    let is_bounded = |pair: &&serde_json::Value| pair[0] == "memory, bounded";
    let told = conditions.iter().find(is_bounded).unwrap()[1]
        .as_str()
        .unwrap();
    if told.starts_with("no bound") {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {told}");
        assert_eq!(peaks(", bounded"), [None, None]);
        return;
    }
    assert!(
        told.starts_with("at most 96 MiB in a memory cgroup"),
        "{told}"
    );
    let bounded = peaks(", bounded");
    assert_eq!(bounded.len(), 2);
    for peak in bounded {
        let peak = peak.expect("the run is in a group of its own");
        assert!((1 << 20..=96 << 20).contains(&peak), "{peak}");
    }
}

#[test]
fn explain_tells_where_the_time_of_each_path_went() {
    let shell = Shell::new();
    let ran = bench(
        &shell,
        &["explain", "c", "a", "--stores", "terrace,nothing"],
    );
    assert_eq!(ran.code, 2, "a store that finds nothing is wrong");
    let ran = bench(&shell, &["explain", "g", "c", "e"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in [
        "== terrace, G:",
        "write: about",
        "== terrace, C:",
        "get: about",
        "seek: about",
        "flush: ",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
}

#[test]
fn a_load_alone_has_a_pace_too() {
    let shell = Shell::new();
    let contest = held(&shell, &["ycsb", "g", "--rate", "6000"]);
    let phase = &contest["runs"][0]["phases"][0];
    assert_eq!(phase["rate"], 6000.0);
    assert!(phase["acknowledged_s"].as_f64().unwrap() >= 0.49, "{phase}");
    let contest = held(&shell, &["ycsb", "g", "--paced", "50"]);
    let phases = contest["runs"][0]["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 2);
    assert!(phases[1]["rate"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_killed_store_is_opened_again_with_all_it_acknowledged() {
    let shell = Shell::new();
    let stores = ["--stores", "terrace,terrace-log"];
    let report = held(&shell, &[&["reopen"], &stores[..]].concat());
    let runs = report["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| &run["store"]).collect();
    assert_eq!(names, ["terrace", "terrace-log"]);
    for run in runs {
        assert_eq!(run["lost"], 0);
        assert_eq!(run["records"], 1845);
        assert!(run["open_us"].as_f64().unwrap() > 0.0);
        assert!(run["first_get_us"].as_f64().unwrap() > 0.0);
        assert!(run["space_bytes"].as_u64().unwrap() > 1_000_000);
    }
    // Temporary directories may be on a tmpfs; an option makes Terrace treat it as a disk.
    let emulated = ["--set", "terrace.constants.emulate_power_safety=true"];
    let ran = bench(&shell, &[&["reopen", "--durable"], &emulated[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in ["open, ", "records lost", "SIGKILL", "Settings of terrace"] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    // A terminal shows the end, and the figures are there.
    assert!(ran.stdout.rfind("Settings of") < ran.stdout.find("== reopen"));
    assert!(ran.stdout.lines().last().unwrap().contains("op/s, fill"));
}

#[test]
fn a_killed_store_without_its_records_has_no_figures() {
    let shell = Shell::new();
    for store in ["nothing", "terrace-volatile"] {
        let ran = bench(&shell, &["reopen", "--stores", store]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        let lost = format!("{store}: of 1845 acknowledged records");
        assert!(ran.stderr.contains(&lost), "{}", ran.stderr);
        assert!(ran.stdout.is_empty());
    }
    // The others go on.
    let ran = bench(&shell, &["reopen", "--stores", "nothing,terrace"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let failed = "FAILED: nothing, repeat 1: of 1845 acknowledged records";
    for part in [failed, "records lost", "Settings of terrace"] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    assert!(ran.stderr.contains(failed), "{}", ran.stderr);
}

#[test]
fn what_makes_no_sense_is_a_wrong_usage() {
    let shell = Shell::new();
    for (arguments, expected) in [
        (&["ycsb", "x"][..], "there is no workload x"),
        (
            &["ycsb", "c", "--stores", "rocksdb"],
            "there is no store rocksdb here; there are terrace",
        ),
        (&["ycsb", "c", "--set", "lmdb.x=1"], "does not take part"),
        (&["ycsb", "c", "--set", "terrace.no_such=1"], "no_such"),
        (&["ycsb", "c", "--paced", "0"], "above 0"),
        (&["ycsb", "c", "--rate", "0"], "above 0"),
        (
            &["ycsb", "c", "--rate", "9", "--paced", "70"],
            "--rate leaves none",
        ),
        (&["reopen", "--html", "x.html"], "unexpected argument"),
    ] {
        let ran = bench(&shell, arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(expected),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_store_that_fails_has_no_more_figures_and_the_others_have_theirs() {
    let shell = Shell::new();
    let page = shell.path("report.html");
    let html = ["--html", page.to_str().unwrap()];
    let ycsb = [
        "ycsb",
        "c",
        "--stores",
        "nothing,terrace",
        "--memory",
        "both",
    ];
    let paced = ["--paced", "50"];
    let ran = bench(&shell, &[&ycsb[..], &html, &paced].concat());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let failed = "FAILED: nothing, fits, repeat 1: phase C: key user";
    assert!(ran.stderr.contains(failed), "{}", ran.stderr);
    for part in [failed, "== C, bounded, open loop", "Settings of terrace"] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    // A store that has failed does not run again.
    assert_eq!(ran.stdout.matches("FAILED").count(), 1, "{}", ran.stdout);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("FAILED: nothing"));
}

/// A run that goes on alone would burden the next measurement.
#[test]
fn a_run_ends_with_the_contest_that_started_it() {
    let shell = Shell::new();
    let directory = shell.path("runs");
    fs::create_dir_all(&directory).unwrap();
    let mut contest = std::process::Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["bench", "ycsb", "c", "--records", "100000", "--rate", "100"])
        .args(["--directory", directory.to_str().unwrap()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let child = eventually(|| children(contest.id()).first().copied());
    // The run has its job once it has made something.
    eventually(|| {
        let mut runs = fs::read_dir(&directory).unwrap();
        let run = runs.next()?.unwrap().path();
        fs::read_dir(run).unwrap().next().map(|_| ())
    });
    contest.kill().unwrap();
    contest.wait().unwrap();
    eventually(|| is_gone(child).then_some(()));
}

fn eventually<T>(found: impl Fn() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        let waited = start.elapsed();
        assert!(waited < std::time::Duration::from_secs(60), "{waited:?}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Returns state and parent of a process; `None` if there is no such process.
fn stat(process: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    Some((fields.next()?.to_string(), fields.next()?.parse().ok()?))
}

/// Returns whether a process has ended, even if its new parent has not looked yet.
fn is_gone(process: u32) -> bool {
    stat(process).is_none_or(|(state, _)| state == "Z" || state == "X")
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| stat(*process).is_some_and(|(_, of)| of == parent))
        .collect()
}
