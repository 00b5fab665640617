//! The gate: the steps that a change must pass, the same at the desk and in CI.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::process::{cargo, show};
use crate::{Outcome, browser, full_disk, guest, mutants, peers, sanitizers, suite, tidy, tools};

struct Step {
    name: &'static str,
    run: fn(&Path) -> Outcome,
}

/// Quick refusals first. A failed step does not stop the others: one run tells everything.
const STEPS: &[Step] = &[
    Step {
        name: "format",
        run: format,
    },
    Step {
        name: "tidy",
        run: |root| tidy::run(root, false),
    },
    Step {
        name: "lint",
        run: lint,
    },
    Step {
        name: "documentation",
        run: documentation,
    },
    Step {
        name: "tests",
        run: |root| suite::run(root, &[]),
    },
    Step {
        name: "shuttle",
        run: shuttle,
    },
    Step {
        name: "benches",
        run: benches,
    },
    Step {
        name: "full disk",
        run: full_disk::run,
    },
    Step {
        name: "guest, DAX",
        run: guest::dax,
    },
    Step {
        name: "guest, btrfs",
        run: guest::btrfs,
    },
    Step {
        name: "guest, NVMe",
        run: guest::nvme,
    },
    Step {
        name: "browser",
        run: browser::run,
    },
    Step {
        name: "mutants",
        run: |root| mutants::run(root, &[]),
    },
    Step {
        name: "fuzz",
        run: |root| tools::fuzz(root, tools::FUZZ_SECONDS),
    },
    Step {
        name: "miri",
        run: tools::miri,
    },
    Step {
        name: "aarch64",
        run: tools::aarch64,
    },
    Step {
        name: "peers",
        run: peers::run,
    },
    Step {
        name: "address sanitizer",
        run: sanitizers::address,
    },
    Step {
        name: "thread sanitizer",
        run: sanitizers::thread,
    },
    Step {
        name: "dependencies",
        run: tools::deny,
    },
];

/// What takes minutes, and runs in CI only.
const LONG_STEPS: &[Step] = &[
    Step {
        name: "model, long",
        run: |root| scaled(root, "model", &[("TERRACE_MODEL_OPERATIONS", "250000")]),
    },
    Step {
        name: "crashes, long",
        run: |root| {
            let scale = [
                ("TERRACE_CRASH_RUNS", "2"),
                ("TERRACE_CRASH_OPERATIONS", "150"),
                ("TERRACE_DOUBLE_CRASHES", "50"),
            ];
            scaled(root, "crash", &scale)
        },
    },
];

pub fn run(root: &Path, ci: bool, with_rocksdb: bool) -> ExitCode {
    let rocksdb = [Step {
        name: "peers, rocksdb",
        run: if with_rocksdb {
            peers::with_rocksdb
        } else {
            peers::without_rocksdb
        },
    }];
    let long = if ci { LONG_STEPS } else { &[] };
    let steps = STEPS.iter().chain(&rocksdb).chain(long);
    let results: Vec<_> = steps
        .map(|step| {
            println!("\n==> {}", step.name);
            let start = Instant::now();
            let outcome = (step.run)(root);
            if let Outcome::Failed(what) = &outcome {
                println!("FAILED: {what}");
            }
            (step.name, outcome, start.elapsed())
        })
        .collect();
    summarise(&results)
}

fn summarise(results: &[(&str, Outcome, Duration)]) -> ExitCode {
    println!("\n==> summary");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, outcome, elapsed) in results {
        let (count, word) = match outcome {
            Outcome::Passed | Outcome::PassedInPart(_) => (&mut passed, "passed"),
            Outcome::Failed(_) => (&mut failed, "FAILED"),
            Outcome::Skipped(_) => (&mut skipped, "skipped"),
        };
        *count += 1;
        println!("{name:<18} {word:<8} {:>6.1} s", elapsed.as_secs_f64());
    }
    for (name, outcome, _) in results {
        if let Outcome::Failed(what) = outcome {
            println!("FAILED: {name}, {what}");
        }
    }
    for (name, outcome, _) in results {
        if let Outcome::Skipped(why) | Outcome::PassedInPart(why) = outcome {
            println!("SKIPPED: {name}, {why}");
        }
    }
    let is_in_part =
        |(_, outcome, _): &(_, Outcome, _)| matches!(outcome, Outcome::PassedInPart(_));
    if skipped == 0 && !results.iter().any(is_in_part) {
        println!("SKIPPED: nothing");
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn format(root: &Path) -> Outcome {
    show(cargo(root).args(["fmt", "--all", "--check"]))
}

fn lint(root: &Path) -> Outcome {
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    show(cargo(root).args(arguments))
}

fn documentation(root: &Path) -> Outcome {
    let arguments = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--locked",
    ];
    show(
        cargo(root)
            .args(arguments)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Concurrent structures under a scheduler that tries thousands of orders, and lints of what only
/// this build compiles.
fn shuttle(root: &Path) -> Outcome {
    let build = [
        "-p",
        "terrace",
        "--features",
        "shuttle",
        "--lib",
        "--locked",
    ];
    let linted = show(
        cargo(root)
            .arg("clippy")
            .args(build)
            .args(["--tests", "--", "-D", "warnings"]),
    );
    if !matches!(linted, Outcome::Passed) {
        return linted;
    }
    show(cargo(root).arg("test").args(build).arg("shuttle_tests"))
}

/// One of the engine's test programs, at another scale than by default.
fn scaled(root: &Path, test: &str, scale: &[(&str, &str)]) -> Outcome {
    show(
        cargo(root)
            .args(["test", "-p", "terrace", "--locked", "--test", test])
            .envs(scale.iter().copied()),
    )
}

/// Benches run once each, as tests, so that they cannot rot.
fn benches(root: &Path) -> Outcome {
    let crates = std::fs::read_dir(root.join("crates"))
        .into_iter()
        .flatten()
        .flatten();
    if !crates
        .into_iter()
        .any(|entry| entry.path().join("benches").is_dir())
    {
        println!("no crate has benches");
        return Outcome::Passed;
    }
    show(cargo(root).args(["test", "--workspace", "--locked", "--bench", "*"]))
}
