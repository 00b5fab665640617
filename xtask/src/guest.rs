//! The tests of real persistent-memory mappings, in an emulated guest whose memory has a DAX
//! device: `guest/` makes and boots it. It needs qemu, a few Debian packages and, once, the network.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::process::{cargo, show, succeeds};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// `guest/prepare.sh` says by this that something is not installed or cannot be fetched.
const MISSING: i32 = 3;

pub fn run(root: &Path) -> Outcome {
    let directory = root.join("target/guest");
    if !cfg!(target_arch = "x86_64") {
        return Outcome::Skipped("the guest is an x86-64 machine".into());
    }
    if !succeeds(Command::new("qemu-system-x86_64").arg("--version")) {
        return Outcome::Skipped(
            "qemu-system-x86_64 is not installed (package qemu-system-x86)".into(),
        );
    }
    // The guest without the test first: no need to build what cannot be run.
    if let Some(outcome) = prepare(root, &directory, &[]) {
        return outcome;
    }
    let program = match test_program(root, &directory) {
        Ok(program) => program,
        Err(what) => return Outcome::Failed(what),
    };
    if let Some(outcome) = prepare(root, &directory, &[root.join("guest/dax.sh"), program]) {
        return outcome;
    }
    show(
        Command::new(root.join("guest/run.sh"))
            .arg(&directory)
            .arg("dax.sh"),
    )
}

/// How preparing ended, unless it went well.
fn prepare(root: &Path, directory: &Path, programs: &[PathBuf]) -> Option<Outcome> {
    let output = Command::new(root.join("guest/prepare.sh"))
        .arg(directory)
        .args(programs)
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return Some(Outcome::Failed(format!("guest/prepare.sh: {error}"))),
    };
    if output.status.success() {
        return None;
    }
    print!("{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let why = said.lines().last().unwrap_or("it did not say why");
    Some(match output.status.code() {
        Some(MISSING) => Outcome::Skipped(why.to_owned()),
        _ => Outcome::Failed(format!("guest/prepare.sh ({}): {why}", output.status)),
    })
}

/// Builds `crates/terrace/tests/dax.rs` for a machine without libraries, under a name of its own.
fn test_program(root: &Path, directory: &Path) -> Result<PathBuf, String> {
    let mut command = cargo(root);
    command
        .args(["test", "-p", "terrace", "--locked", "--test", "dax"])
        // With a target the flags are for the test alone and not for build scripts and macros.
        .args(["--no-run", "--target", TARGET])
        .arg("--message-format=json-render-diagnostics")
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_TARGET_DIR", directory.join("target"));
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("the test does not build".into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let built = messages
        .rsplit_once("\"executable\":\"")
        .and_then(|(_, rest)| rest.split('"').next())
        .ok_or("cargo does not say what it has built")?;
    let program = directory.join("dax-test");
    std::fs::copy(built, &program).map_err(|error| format!("{built}: {error}"))?;
    Ok(program)
}
