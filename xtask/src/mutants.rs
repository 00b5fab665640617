//! The mutation check: each patch in `mutants/` breaks one rule of the design, and the test that
//! the patch names in its head must notice.
//!
//! A patch is caught only if its test passes without it, the patched code still builds, and the
//! test then fails (or hangs). Anything else is a failure of the check: a patch that no longer
//! applies, or a filter that matches no test, proves nothing.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Outcome;
use crate::process::{capture, cargo};

/// Building and testing the unpatched tree from nothing may take this long.
const BUILD_LIMIT: Duration = Duration::from_secs(1200);
/// A mutant whose test still runs after this hangs, which counts as caught.
const TEST_LIMIT: Duration = Duration::from_secs(300);

struct Mutant {
    name: String,
    patch: PathBuf,
    /// What follows `cargo test`.
    test: Vec<String>,
}

/// Of how many parts a run of the gate takes one. All of them take most of an hour.
const PARTS: u64 = 10;

/// Those of these names; all, if there are none.
pub fn run(root: &Path, names: &[String]) -> Outcome {
    match load(&root.join("mutants"), names) {
        Ok(mutants) if mutants.is_empty() => Outcome::Skipped("mutants/ holds no patch".into()),
        Ok(mutants) => check(root, &mutants),
        Err(what) => Outcome::Failed(what),
    }
}

/// Returns a tenth of them, another one for each commit in a row.
pub fn run_part(root: &Path) -> Outcome {
    let (mutants, part) = match (load(&root.join("mutants"), &[]), part_of_commit(root)) {
        (Ok(mutants), Ok(part)) => (mutants, part),
        (Err(what), _) | (_, Err(what)) => return Outcome::Failed(what),
    };
    let chosen: Vec<Mutant> = (0u64..)
        .zip(mutants)
        .filter_map(|(number, mutant)| (number % PARTS == part).then_some(mutant))
        .collect();
    match check(root, &chosen) {
        Outcome::Passed => Outcome::PassedInPart(format!(
            "all but part {} of {PARTS}, which this commit's turn is; `cargo xtask mutants` takes all",
            part + 1
        )),
        other => other,
    }
}

/// Which part is its turn: commits are counted, so that the next one takes the next.
fn part_of_commit(root: &Path) -> Result<u64, String> {
    let mut command = Command::new("git");
    command
        .args(["rev-list", "--count", "HEAD"])
        .current_dir(root);
    let counted = capture(&mut command, TEST_LIMIT).map_err(|error| error.to_string())?;
    let count: Result<u64, _> = counted.output.trim().parse();
    let count = count.map_err(|_| format!("git rev-list: {}", counted.output.trim()))?;
    Ok(count % PARTS)
}

fn check(root: &Path, mutants: &[Mutant]) -> Outcome {
    let workshop = Workshop::new(root);
    // All of them before the first patch: the unpatched code is built once, and not again for each.
    let mut proofs: HashMap<&[String], Proof> = HashMap::new();
    for mutant in mutants {
        if !proofs.contains_key(&*mutant.test) {
            println!("unpatched: cargo test {}", mutant.test.join(" "));
            proofs.insert(&mutant.test, prove(&workshop, &mutant.test));
        }
    }
    let mut rows = Vec::new();
    for mutant in mutants {
        println!(
            "mutant {}: cargo test {}",
            mutant.name,
            mutant.test.join(" ")
        );
        let proof = proofs.get(&*mutant.test).cloned().unwrap_or(Ok(()));
        let verdict = proof.and_then(|()| judge(&workshop, mutant));
        match &verdict {
            Ok(caught) => println!("  {caught}"),
            Err(what) => println!("  {what}"),
        }
        rows.push((mutant.name.as_str(), verdict));
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    println!("\n{:<width$}  verdict", "mutant");
    for (name, verdict) in &rows {
        match verdict {
            Ok(caught) => println!("{name:<width$}  {caught}"),
            Err(what) => println!("{name:<width$}  FAILED: {what}"),
        }
    }
    match rows.iter().filter(|(_, verdict)| verdict.is_err()).count() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("{count} of {} mutants not caught", rows.len())),
    }
}

fn load(directory: &Path, names: &[String]) -> Result<Vec<Mutant>, String> {
    let files = match fs::read_dir(directory) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", directory.display())),
    };
    let mut mutants = Vec::new();
    for patch in files.flatten().map(|file| file.path()) {
        let stem = patch
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let wanted = names.is_empty() || names.iter().any(|name| name == stem);
        if wanted
            && patch
                .extension()
                .is_some_and(|extension| extension == "patch")
        {
            mutants.push(Mutant {
                name: stem.to_string(),
                test: test_of(&patch)?,
                patch,
            });
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    match names
        .iter()
        .find(|name| mutants.iter().all(|mutant| mutant.name != **name))
    {
        Some(name) => Err(format!("there is no mutants/{name}.patch")),
        None => Ok(mutants),
    }
}

/// The arguments in the `test:` line of a patch's head.
fn test_of(patch: &Path) -> Result<Vec<String>, String> {
    let text =
        fs::read_to_string(patch).map_err(|error| format!("{}: {error}", patch.display()))?;
    let mut head = text
        .lines()
        .take_while(|line| !line.starts_with("diff --git"));
    let line = head.find_map(|line| line.strip_prefix("test:"));
    let words: Vec<String> = line
        .unwrap_or_default()
        .split_whitespace()
        .map(String::from)
        .collect();
    if words.is_empty() {
        return Err(format!(
            "{} has no `test: ARGUMENTS` line in its head",
            patch.display()
        ));
    }
    Ok(words)
}

/// Whether a test passes on the unpatched tree: only then its failure proves something.
type Proof = Result<(), String>;

fn prove(workshop: &Workshop, test: &[String]) -> Proof {
    let io = |error: io::Error| error.to_string();
    workshop.refresh().map_err(io)?;
    match workshop.test(test, BUILD_LIMIT).map_err(io)? {
        Verdict::Passed(0) => Err("its test line matches no test".into()),
        Verdict::Passed(_) => Ok(()),
        Verdict::Failed => Err("its test fails without the patch too".into()),
        Verdict::Hung => Err("its test hangs without the patch too".into()),
    }
}

/// How the mutant was caught, or what went wrong.
fn judge(workshop: &Workshop, mutant: &Mutant) -> Result<&'static str, String> {
    let io = |error: io::Error| error.to_string();
    workshop.refresh().map_err(io)?;
    workshop.apply(&mutant.patch)?;
    workshop.build(&mutant.test)?;
    match workshop.test(&mutant.test, TEST_LIMIT).map_err(io)? {
        Verdict::Failed => Ok("caught"),
        Verdict::Hung => Ok("caught (its test hangs)"),
        Verdict::Passed(_) => Err("survives: its test passes".into()),
    }
}

enum Verdict {
    /// With so many tests run.
    Passed(u64),
    Failed,
    Hung,
}

/// A copy of the workspace to break, with a target directory that all mutants share: between two
/// of them only what differs is built anew.
struct Workshop {
    source: PathBuf,
    copy: PathBuf,
    target: PathBuf,
}

impl Workshop {
    fn new(root: &Path) -> Self {
        let directory = root.join("target/mutants");
        Workshop {
            source: root.to_path_buf(),
            copy: directory.join("tree"),
            target: directory.join("target"),
        }
    }

    /// Makes the copy equal to the source. Files that are equal already keep their times, so that
    /// cargo does not build them again.
    fn refresh(&self) -> io::Result<()> {
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(&self.source)
            .output()?;
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        let names: HashSet<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return Err(io::Error::other("`git ls-files` lists nothing"));
        }
        for name in &names {
            let wanted = match fs::read(self.source.join(name)) {
                Ok(bytes) => bytes,
                // Deleted, but not yet in a commit.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let place = self.copy.join(name);
            if fs::read(&place).is_ok_and(|found| found == wanted) {
                continue;
            }
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&place, wanted)?;
        }
        self.remove_strangers(&self.copy, &names)
    }

    /// Removes what a patch, or an older state of the source, added to the copy.
    fn remove_strangers(&self, directory: &Path, names: &HashSet<&str>) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                self.remove_strangers(&path, names)?;
                continue;
            }
            let name = path
                .strip_prefix(&self.copy)
                .ok()
                .and_then(|name| name.to_str());
            let listed = name.is_some_and(|name| names.contains(name));
            if !listed || name.is_some_and(|name| !self.source.join(name).exists()) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn apply(&self, patch: &Path) -> Result<(), String> {
        let mut command = Command::new("git");
        command
            .args(["apply", "--whitespace=nowarn"])
            .arg(patch)
            .current_dir(&self.copy)
            // Inside a repository, git would take the patch's paths from its root, and skip all.
            .env(
                "GIT_CEILING_DIRECTORIES",
                self.copy.parent().unwrap_or(&self.copy),
            );
        let result = capture(&mut command, TEST_LIMIT).map_err(|error| error.to_string())?;
        match result.status {
            Some(status) if status.success() => Ok(()),
            _ => Err(format!(
                "the patch does not apply: {}",
                result.output.trim()
            )),
        }
    }

    fn build(&self, test: &[String]) -> Result<(), String> {
        // `--no-run` is cargo's: it goes before a `--` that starts the test program's arguments.
        let mut arguments = vec!["--no-run".to_string()];
        arguments.extend_from_slice(test);
        let result = capture(&mut self.cargo_test(&arguments), BUILD_LIMIT)
            .map_err(|error| error.to_string())?;
        match result.status {
            Some(status) if status.success() => Ok(()),
            _ => {
                print!("{}", result.output);
                Err("the patched code does not build".into())
            }
        }
    }

    fn test(&self, test: &[String], limit: Duration) -> io::Result<Verdict> {
        let result = capture(&mut self.cargo_test(test), limit)?;
        Ok(match result.status {
            None => Verdict::Hung,
            Some(status) if status.success() => Verdict::Passed(tests_passed(&result.output)),
            Some(_) => Verdict::Failed,
        })
    }

    fn cargo_test(&self, arguments: &[String]) -> Command {
        let mut command = cargo(&self.copy);
        command
            .args(["test", "--quiet", "--locked"])
            .args(arguments)
            // One crate, built again for each.
            .env("CARGO_INCREMENTAL", "1")
            // Nobody looks at where a mutant failed, and it builds faster without.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .env("CARGO_TARGET_DIR", &self.target);
        command
    }
}

/// The sum over the lines "test result: ok. N passed; ...".
fn tests_passed(output: &str) -> u64 {
    let results = output
        .lines()
        .filter_map(|line| line.trim().strip_prefix("test result: ok. "));
    results
        .filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_over_all_programs() {
        let output = "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed\n\
                      test result: ok. 0 passed; 0 failed\ntest result: ok. 11 passed; 0 failed\n";
        assert_eq!(tests_passed(output), 13);
        assert_eq!(tests_passed("error: no test target"), 0);
    }

    #[test]
    fn a_patch_without_a_test_line_is_refused() {
        let directory = std::env::temp_dir().join(format!("xtask-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let patch = directory.join("a.patch");
        fs::write(
            &patch,
            "why: x\ntest: -p terrace --lib db\ndiff --git a b\n",
        )
        .unwrap();
        assert_eq!(test_of(&patch).unwrap(), ["-p", "terrace", "--lib", "db"]);
        fs::write(&patch, "why: x\ndiff --git a b\ntest: -p terrace\n").unwrap();
        assert!(test_of(&patch).unwrap_err().contains("test:"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
