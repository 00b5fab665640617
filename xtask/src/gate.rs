//! The gate: the steps that a change must pass, the same at the desk and in CI.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::process::{cargo, show};
use crate::{
    Outcome, browser, changes, features, full_disk, guest, mutants, peers, sanitizers, suite, tidy,
    tools,
};

/// How much of the gate is run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Before a commit: minutes on a warm tree.
    Quick,
    /// Before a change lands.
    Ci,
    /// Before a submission: everything that finds rare faults, without a limit of time.
    Deep,
}

struct Step {
    name: &'static str,
    /// The least tier that runs it.
    tier: Tier,
    run: fn(&Path) -> Outcome,
}

const fn quick(name: &'static str, run: fn(&Path) -> Outcome) -> Step {
    let tier = Tier::Quick;
    Step { name, tier, run }
}

const fn ci(name: &'static str, run: fn(&Path) -> Outcome) -> Step {
    let tier = Tier::Ci;
    Step { name, tier, run }
}

const fn deep(name: &'static str, run: fn(&Path) -> Outcome) -> Step {
    let tier = Tier::Deep;
    Step { name, tier, run }
}

/// Quick refusals first. A failed step does not stop the others: one run tells everything.
const STEPS: &[Step] = &[
    quick("format", format),
    quick("tidy", |root| tidy::run(root, false)),
    quick("lint", lint),
    ci("documentation", documentation),
    ci("tests", |root| suite::run(root, &[])),
    ci("shuttle", shuttle),
    ci("benches", benches),
    ci("full disk", full_disk::run),
    ci("guest, DAX", guest::dax),
    ci("guest, btrfs", guest::btrfs),
    ci("guest, NVMe", guest::nvme),
    ci("browser", browser::run),
    ci("mutants", |root| mutants::run(root, &[])),
    ci("peers", peers::run),
    ci("dependencies", dependencies),
    deep("address sanitizer", sanitizers::address),
    deep("thread sanitizer", sanitizers::thread),
    deep("miri", tools::miri),
    deep("aarch64", tools::aarch64),
    deep("model, long", |root| {
        scaled(root, "model", &[("TERRACE_MODEL_OPERATIONS", "250000")])
    }),
    deep("crashes, long", |root| {
        let scale = [
            ("TERRACE_CRASH_RUNS", "2"),
            ("TERRACE_CRASH_OPERATIONS", "150"),
            ("TERRACE_DOUBLE_CRASHES", "50"),
        ];
        scaled(root, "crash", &scale)
    }),
    deep("fuzz", tools::fuzz_long),
    deep("placements", placements),
    deep("peers, rocksdb", peers::with_rocksdb),
];

/// Runs a small form of the experiment on tiered storage. It fails where a store gives a wrong answer.
fn placements(root: &Path) -> Outcome {
    const RUN: [&str; 5] = ["run", "--release", "--locked", "--package", "terrace-cli"];
    let experiment = "-- reproduce tiers --scale 0.0005 --seconds 0.5 --repeats 2";
    show(cargo(root).args(RUN).args(experiment.split_whitespace()))
}

/// The quick tier tests changes alone.
const TESTS_OF_CHANGES: Step = quick("tests of changes", changes::test);

/// Returns the names of the steps of `--ci`.
pub fn ci_steps() -> Vec<&'static str> {
    let steps = STEPS.iter().filter(|step| step.tier <= Tier::Ci);
    steps.map(|step| step.name).collect()
}

pub fn run(root: &Path, tier: Tier) -> ExitCode {
    let steps = STEPS.iter().filter(|step| step.tier <= tier);
    let steps = steps.chain((tier == Tier::Quick).then_some(&TESTS_OF_CHANGES));
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
    // Without limits tidy has failed.
    summarise(&results, &tidy::step_minutes(root).unwrap_or_default())
}

fn summarise(results: &[(&str, Outcome, Duration)], minutes: &BTreeMap<String, u32>) -> ExitCode {
    println!("\n==> summary");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, outcome, elapsed) in results {
        let (count, word) = match outcome {
            Outcome::Passed | Outcome::PassedInPart(_) => (&mut passed, "passed"),
            Outcome::Failed(_) => (&mut failed, "FAILED"),
            Outcome::Skipped(_) => (&mut skipped, "skipped"),
        };
        *count += 1;
        // A slow machine is no failure.
        let over = minutes
            .get(*name)
            .filter(|limit| elapsed.as_secs() > u64::from(**limit) * 60)
            .map_or(String::new(), |limit| format!(", more than {limit} min"));
        println!(
            "{name:<18} {word:<8} {:>6.1} s{over}",
            elapsed.as_secs_f64()
        );
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

/// Checks licences and sources, and that the engine comes without its optional ones.
fn dependencies(root: &Path) -> Outcome {
    Outcome::of_parts([tools::deny(root), features::run(root)])
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
        "--features",
        "terrace/typed",
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

/// Tests concurrent structures under a scheduler that tries thousands of orders, and lints the code
/// that only this build compiles.
fn shuttle(root: &Path) -> Outcome {
    let build = [
        "-p",
        "terrace-lsm",
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

/// Runs the test programs of a name, at another scale than by default.
fn scaled(root: &Path, test: &str, scale: &[(&str, &str)]) -> Outcome {
    show(
        cargo(root)
            .args(["test", "--workspace", "--locked", "--test", test])
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
