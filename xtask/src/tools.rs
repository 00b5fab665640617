//! Steps that need tools beyond the toolchain; each is skipped, aloud, where its tool is missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{cargo, show, succeeds};

pub const FUZZ_SECONDS: u32 = 20;
/// The time that all targets share in the deep tier.
const LONG_FUZZ_SECONDS: u32 = 3600;

/// Fuzzes for an hour, in equal parts for all targets.
pub fn fuzz_long(root: &Path) -> Outcome {
    let targets = u32::try_from(fuzz_targets(root).len()).unwrap_or(u32::MAX);
    fuzz(root, LONG_FUZZ_SECONDS / targets.max(1))
}

/// Runs each target of `fuzz/fuzz_targets` on its corpus in `fuzz/corpus/<target>`, then on
/// mutations of it. Inputs found on the way are kept out of the repository's corpus, in
/// `fuzz/target/corpus/<target>`, where the next run takes them up.
pub fn fuzz(root: &Path, seconds: u32) -> Outcome {
    let targets = fuzz_targets(root);
    if targets.is_empty() {
        return Outcome::Skipped("fuzz/fuzz_targets holds no target".into());
    }
    if !succeeds(nightly(root).args(["fuzz", "--version"])) {
        return Outcome::Skipped("a nightly toolchain with cargo-fuzz is not installed".into());
    }
    for target in targets {
        let found = format!("fuzz/target/corpus/{target}");
        if let Err(error) = fs::create_dir_all(root.join(&found)) {
            return Outcome::Failed(format!("{found}: {error}"));
        }
        let corpus = format!("fuzz/corpus/{target}");
        let limit = format!("-max_total_time={seconds}");
        let outcome = show(
            nightly(root)
                .args(["fuzz", "run", &target])
                // New inputs go to the first directory.
                .args([&found, &corpus])
                .args(["--", "-verbosity=0", "-print_final_stats=1", &limit]),
        );
        if !matches!(outcome, Outcome::Passed) {
            return outcome;
        }
    }
    Outcome::Passed
}

fn fuzz_targets(root: &Path) -> Vec<String> {
    let files = fs::read_dir(root.join("fuzz/fuzz_targets"))
        .into_iter()
        .flatten()
        .flatten();
    let mut targets: Vec<String> = files
        .filter_map(|file| {
            file.file_name()
                .to_str()?
                .strip_suffix(".rs")
                .map(String::from)
        })
        .collect();
    targets.sort();
    targets
}

/// Tests the code of `region` that shares bytes between threads, under an interpreter that sees
/// undefined behaviour.
pub fn miri(root: &Path) -> Outcome {
    if !succeeds(nightly(root).args(["miri", "--version"])) {
        return Outcome::Skipped("a nightly toolchain with Miri is not installed".into());
    }
    show(
        nightly(root)
            .args(["miri", "test", "-p", "terrace-region", "--lib", "--"])
            .args(["image", "cache_lines"])
            .env("MIRIFLAGS", "-Zmiri-disable-isolation"),
    )
}

/// Runs the region's tests, which hold the code that differs by CPU. They are built for aarch64
/// with their own standard library and run by an emulator.
pub fn aarch64(root: &Path) -> Outcome {
    const LINKER: &str = "aarch64-linux-gnu-gcc";
    const EMULATOR: &str = "qemu-aarch64-static";
    if !has_nightly_sources() {
        return Outcome::Skipped("a nightly toolchain with rust-src is not installed".into());
    }
    for program in [LINKER, EMULATOR] {
        if !succeeds(Command::new(program).arg("--version")) {
            return Outcome::Skipped(format!("{program} is not installed"));
        }
    }
    // A CPU without DC CVAP: the emulator claims to have it and stops at the instruction.
    let runner = format!("{EMULATOR} -cpu cortex-a72 -L /usr/aarch64-linux-gnu");
    show(
        nightly(root)
            .args(["test", "-Zbuild-std", "--locked", "-p", "terrace-region"])
            .args(["--lib", "--target", "aarch64-unknown-linux-gnu"])
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner),
    )
}

/// Returns true if the standard library's sources are there, to be built in another way.
pub fn has_nightly_sources() -> bool {
    let asked = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--print", "sysroot"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .output();
    asked.is_ok_and(|output| {
        let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let library = "lib/rustlib/src/rust/library/Cargo.lock";
        output.status.success() && Path::new(&sysroot).join(library).is_file()
    })
}

pub fn deny(root: &Path) -> Outcome {
    if !succeeds(cargo(root).args(["deny", "--version"])) {
        return Outcome::Skipped("cargo-deny is not installed".into());
    }
    // Double dependencies of the peers are for the peers to settle.
    for (manifest, lints) in [
        ("Cargo.toml", &[][..]),
        ("peers/Cargo.toml", &["--allow", "duplicate"]),
    ] {
        let outcome = show(
            cargo(root)
                .args(["deny", "--all-features", "--manifest-path", manifest])
                .args(["--config", "deny.toml", "check"])
                .args(lints)
                .args(["licenses", "bans", "sources"]),
        );
        if !matches!(outcome, Outcome::Passed) {
            return outcome;
        }
    }
    Outcome::Passed
}

/// Returns cargo of the nightly toolchain. Not `$CARGO +nightly`: only rustup's own cargo knows
/// `+`, and its toolchain override must not win.
pub fn nightly(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command
        .arg("+nightly")
        .current_dir(root)
        .env_remove("RUSTUP_TOOLCHAIN");
    command
}
