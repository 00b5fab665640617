//! `terrace tier`.

mod support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use support::Shell;

/// A measurement that takes a moment.
const SHORT: [&str; 4] = ["--size", "1MiB", "--seconds", "0.2"];

/// Returns a directory with one file.
fn directory(shell: &Shell) -> String {
    shell.file("other.tmp", "other");
    shell.path(".").to_str().unwrap().to_owned()
}

fn names(shell: &Shell) -> Vec<String> {
    let entries = fs::read_dir(shell.path(".")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

fn probed(shell: &Shell, path: &str, arguments: &[&str]) -> Value {
    let arguments = [&["tier", "probe", path, "--json"], &SHORT[..], arguments];
    shell.json(&arguments.concat())
}

#[test]
fn a_directory_is_measured_and_left_as_it_was() {
    let shell = Shell::new();
    let path = directory(&shell);
    let costs = ["--price-per-gb", "0.25", "--endurance-writes", "600"];
    let report = probed(&shell, &path, &costs);
    for figure in [
        "write_bytes_per_second",
        "read_bytes_per_second",
        "read_latency_p50_us",
        "read_latency_p99_us",
        "queued_read_latency_p50_us",
        "queued_read_latency_p99_us",
        "sync_latency_p50_us",
        "sync_latency_p99_us",
    ] {
        let number = |of: &str| report[figure][of].as_f64().unwrap();
        let (min, median, max) = (number("min"), number("median"), number("max"));
        assert!(
            0.0 < min && min <= median && median <= max,
            "{figure}: {report}"
        );
    }
    assert_eq!(report["file_bytes"], 1 << 20);
    assert_eq!(report["path"], path);
    if report["medium"] == "device" {
        let profile = &report["profile"];
        assert_eq!(
            (&profile["price_per_gb"], &profile["endurance_writes"]),
            (&0.25.into(), &600.0.into())
        );
        assert_eq!(
            profile["sync_latency_us"],
            report["sync_latency_p50_us"]["median"]
        );
        assert!(report["guessed_preset"].is_string(), "{report}");
    } else {
        assert_eq!(report["profile"], Value::Null);
    }
    assert_eq!(names(&shell), ["other.tmp"]);
    assert_eq!(fs::read(shell.path("other.tmp")).unwrap(), b"other");
}

#[test]
fn the_text_has_a_table_and_a_profile_to_paste() {
    let shell = Shell::new();
    let path = directory(&shell);
    let text = shell.out(&[&["tier", "probe", &path], &SHORT[..]].concat());
    assert!(text.contains("median       least    greatest"), "{text}");
    assert!(
        text.contains("random read, 32 at a time, p99, us"),
        "{text}"
    );
    let is_device = probed(&shell, &path, &[])["medium"] == "device";
    assert_eq!(
        text.contains("\n[tiers.profile]\nread_bytes_per_second = "),
        is_device,
        "{text}"
    );
    assert_eq!(text.contains("those of memory"), !is_device, "{text}");
}

#[test]
fn memory_is_not_taken_for_a_device() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let shell = Shell::new();
    let ran = shell.run(
        &[
            &["tier", "probe", directory.path().to_str().unwrap()],
            &SHORT[..],
        ]
        .concat(),
    );
    // A container may give it next to nothing.
    if ran.code == 0 {
        assert!(
            ran.stdout.contains("tmpfs KEEPS ITS FILES IN MEMORY"),
            "{}",
            ran.stdout
        );
        assert!(!ran.stdout.contains("[tiers.profile]"), "{}", ran.stdout);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn failures_have_codes_and_hints() {
    let shell = Shell::new();
    let nowhere = shell.path("nowhere").to_str().unwrap().to_owned();
    let ran = shell.run(&["tier", "probe", &nowhere]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: give a directory that exists"),
        "{}",
        ran.stderr
    );
    let ran = shell.run(&["tier", "probe", &nowhere, "--json"]);
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(told["exit_code"], 6, "{told}");
    let file = shell.file("file", "x");
    assert_eq!(shell.run(&["tier", "probe", &file]).code, 6);
    for wrong in [
        &["--size", "1KiB"][..],
        &["--seconds", "0"],
        &["--price-per-gb=-1"],
        &["--endurance-writes", "many"],
        &["--size", "1MiB", "another"],
    ] {
        let ran = shell.run(&[&["tier", "probe", &file], wrong].concat());
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.stderr);
    }
    assert_eq!(shell.run(&["tier"]).code, 2);
}

/// The signal ends the process as it would have without the file, and the file is gone.
#[test]
fn a_signal_ends_the_command_and_leaves_no_file() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let shell = Shell::new();
        let path = directory(&shell);
        let arguments = ["tier", "probe", &path, "--size=1MiB", "--seconds=3600"];
        let child = shell.command(&arguments).spawn().unwrap();
        let file = shell.path(&format!("terrace-probe-{}.tmp", child.id()));
        while !file.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        let id = child.id().to_string();
        let killed = Command::new("kill").args(["-s", name, &id]).status();
        assert!(killed.unwrap().success());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.signal(), Some(number), "{ended:?}");
        assert!(!Path::exists(&file), "{name}");
        assert_eq!(names(&shell), ["other.tmp"]);
    }
}

#[test]
fn the_help_has_examples() {
    let shell = Shell::new();
    for arguments in [&["tier", "--help"][..], &["tier", "probe", "--help"]] {
        let help = shell.out(arguments);
        assert!(
            help.contains("Examples:\n") && help.contains("\n  terrace tier probe /mnt/fast\n"),
            "{help}"
        );
    }
}
