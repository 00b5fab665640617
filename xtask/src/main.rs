//! Chores of this repository: `cargo xtask gate` decides whether a change may land.

mod browser;
mod changes;
mod features;
mod file_system;
mod full_disk;
mod gate;
mod guest;
mod mutants;
mod outcome;
mod paths;
mod peers;
mod process;
mod sanitizers;
mod suite;
mod test_log;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use outcome::Outcome;

const USAGE: &str = "\
Usage: cargo xtask <command>

  gate [--quick|--ci|--deep]
                      --quick, before a commit: format, tidy, lint, the tests of changed crates;
                      --ci (the default), the bar of every change that lands;
                      --deep, before a submission: sanitizers, Miri, long tests, fuzzing, RocksDB
  test [ARGS]         the tests of every crate, and the names of the failed ones at the end; with
                      arguments, those of cargo test --workspace
  tidy                count imports that go up, long functions and files, code lines, and the
                      words of clauses in prose
  mutants [NAME]...   switch each patch in mutants/ on, and expect its test to fail
  features            lint the engine with each of its features alone and with none; a program
                      that depends on it without them
  paths [TREE]        count the functions and files that a put and a get pass through, in this
                      checkout or another one (needs valgrind)
  full-disk           the full-disk test on small, loop-mounted ext4 and XFS (needs root)
  guest [dax|btrfs|nvme]
                      the tests of DAX, of full disks of btrfs, and of a node and Linux, in an
                      emulated guest (needs qemu; see guest/)
  browser             the reports' page in a real browser (needs chromium)
  peers [--with-rocksdb]
                      compare with other stores, at a scale that only checks values
  sanitizers          the libraries' tests under the address and the thread sanitizer
  fuzz [SECONDS]      run each fuzz target for some seconds (default 20)";

/// Build RocksDB, too.
const WITH_ROCKSDB: &str = "--with-rocksdb";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    let Some((command, rest)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let outcome = match command.as_str() {
        "gate" => {
            let tier = match rest {
                [] => gate::Tier::Ci,
                [flag] if flag == "--quick" => gate::Tier::Quick,
                [flag] if flag == "--ci" => gate::Tier::Ci,
                [flag] if flag == "--deep" => gate::Tier::Deep,
                _ => return usage(),
            };
            return gate::run(&root, tier);
        }
        "tidy" if rest.is_empty() => tidy::run(&root, true),
        "test" => suite::run(&root, rest),
        "mutants" => mutants::run(&root, rest),
        "features" if rest.is_empty() => features::run(&root),
        "paths" => match rest {
            [] => paths::run(&root, &root),
            [tree] => paths::run(&root, Path::new(tree)),
            _ => return usage(),
        },
        "full-disk" if rest.is_empty() => full_disk::run(&root),
        "guest" => match rest {
            [] => guest::run(&root),
            [part] if part == "dax" => guest::dax(&root),
            [part] if part == "btrfs" => guest::btrfs(&root),
            [part] if part == "nvme" => guest::nvme(&root),
            _ => return usage(),
        },
        "browser" if rest.is_empty() => browser::run(&root),
        "peers" => match rest {
            [] => peers::run(&root),
            [flag] if flag == WITH_ROCKSDB => peers::with_rocksdb(&root),
            _ => return usage(),
        },
        "sanitizers" if rest.is_empty() => match sanitizers::address(&root) {
            Outcome::Passed => sanitizers::thread(&root),
            other => other,
        },
        "fuzz" => match rest {
            [] => tools::fuzz(&root, tools::FUZZ_SECONDS),
            [seconds] if seconds.parse::<u32>().is_ok() => {
                tools::fuzz(&root, seconds.parse().unwrap_or(tools::FUZZ_SECONDS))
            }
            _ => return usage(),
        },
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => return usage(),
    };
    match outcome {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::PassedInPart(but) => {
            eprintln!("passed, {but}");
            ExitCode::SUCCESS
        }
        Outcome::Failed(what) => {
            eprintln!("FAILED: {what}");
            ExitCode::FAILURE
        }
        Outcome::Skipped(why) => {
            eprintln!("SKIPPED: {command}, {why}");
            ExitCode::SUCCESS
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Returns the workspace: this crate lies one directory below it.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
