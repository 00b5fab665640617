//! Tests under sanitizers, which see faults that no assertion checks.

use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{show, succeeds};
use crate::tools::{has_nightly_sources, nightly};

/// The machines that they are run on.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Crates that share memory between threads, or have unsafe code.
const TESTS: [&str; 9] = [
    "-p",
    "terrace-region",
    "-p",
    "terrace-lsm",
    "-p",
    "terrace",
    "-p",
    "terrace-tools",
    "--lib",
];

/// Parts of the names of the tests with several threads.
const CONCURRENT: &[&str] = &[
    "commit_queue",
    "image",
    "threads_append",
    "index::tests::readers",
];

/// Finds reads and writes outside of allocated memory, and leaks.
pub fn address(root: &Path) -> Outcome {
    if !succeeds(nightly(root).arg("--version")) {
        return Outcome::Skipped("a nightly toolchain is not installed".into());
    }
    show(test(root, "address").args(TESTS))
}

/// Finds data races. The standard library is built with the sanitizer, which must see the
/// synchronisation inside.
pub fn thread(root: &Path) -> Outcome {
    if !has_nightly_sources() {
        return Outcome::Skipped("a nightly toolchain with rust-src is not installed".into());
    }
    let test = &mut test(root, "thread");
    show(
        test.arg("-Zbuild-std")
            .args(TESTS)
            .arg("--")
            .args(CONCURRENT),
    )
}

/// Returns `cargo test` with a sanitizer, in a directory of its own: its flags fit no other build.
fn test(root: &Path, sanitizer: &str) -> Command {
    let directory = root.join("target/sanitizer").join(sanitizer);
    let mut command = nightly(root);
    command
        // With a target named, build scripts and procedural macros stay as they are.
        .args(["test", "--target", TARGET, "--locked"])
        .env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"))
        .env("CARGO_TARGET_DIR", directory);
    command
}
