//! A copy of the workspace in which a switch chooses each mutant at run time, so that all of them come
//! from one build.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bodies::Source;
use super::patch::{Mutant, files_of};
use super::program::{Build, Executable};
use crate::process::{capture, cargo};

/// Building the whole copy from nothing may take this long.
const BUILD_LIMIT: Duration = Duration::from_secs(2400);
/// Git has this long for a patch.
const APPLY_LIMIT: Duration = Duration::from_secs(60);
/// The variable that chooses the mutant of a test.
const SWITCH: &str = "TERRACE_MUTANT";
/// Returns the function of each crate that reads the switch.
fn reader() -> String {
    format!(
        "
#[doc(hidden)]
pub fn switched_mutant() -> u32 {{
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *NUMBER.get_or_init(|| {{
        let number = std::env::var(\"{SWITCH}\").ok();
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }})
}}
"
    )
}

/// How a test ended.
pub enum Verdict {
    /// Number of tests that ran.
    Passed(u64),
    Failed,
    Hung,
}

/// The changed bodies of one file: the mutant's number, the body's index, its text.
type Changes = Vec<(u32, usize, String)>;
/// The files that a mutant changes, with the index and the text of each changed body.
type ChangedFiles = Vec<(PathBuf, Vec<(usize, String)>)>;

pub struct Workshop {
    source: PathBuf,
    copy: PathBuf,
    target: PathBuf,
}

impl Workshop {
    pub fn new(root: &Path) -> Self {
        let directory = root.join("target/mutants");
        Workshop {
            source: root.to_path_buf(),
            copy: directory.join("tree"),
            target: directory.join("target"),
        }
    }

    /// Makes the copy the source with all mutants woven in. Returns those that could not be, by number.
    pub fn weave(&self, mutants: &[Mutant]) -> Result<HashMap<u32, String>, String> {
        let mut refused = HashMap::new();
        let mut changes: BTreeMap<PathBuf, Changes> = BTreeMap::new();
        for mutant in mutants {
            match self.changes_of(mutant) {
                Ok(files) => {
                    for (file, bodies) in files {
                        let bodies = bodies
                            .into_iter()
                            .map(|(index, body)| (mutant.number, index, body));
                        changes.entry(file).or_default().extend(bodies);
                    }
                }
                Err(why) => {
                    refused.insert(mutant.number, why);
                }
            }
        }
        let mut woven = HashMap::new();
        let mut roots = HashSet::new();
        for (file, changes) in changes {
            let text = self.read(&file)?;
            let text = Source::parse(text)?.woven("crate::switched_mutant()", &changes);
            roots.insert(self.root_of(&file)?);
            woven.insert(file, text);
        }
        for root in roots {
            let text = match woven.remove(&root) {
                Some(text) => text,
                None => self.read(&root)?,
            };
            woven.insert(root, text + &reader());
        }
        self.refresh(woven).map_err(|error| error.to_string())?;
        Ok(refused)
    }

    /// Returns the bodies that a mutant changes, file by file.
    fn changes_of(&self, mutant: &Mutant) -> Result<ChangedFiles, String> {
        let io = |error: io::Error| error.to_string();
        let patch = fs::read_to_string(&mutant.patch).map_err(io)?;
        let scratch = tempfile::tempdir().map_err(io)?;
        for file in files_of(&patch) {
            let place = scratch.path().join(file);
            fs::create_dir_all(place.parent().unwrap_or(scratch.path())).map_err(io)?;
            fs::copy(self.source.join(file), place).map_err(|error| format!("{file}: {error}"))?;
        }
        apply(&mutant.patch, scratch.path())?;
        files_of(&patch)
            .map(|file| {
                let parse = |text| Source::parse(text).map_err(|why| format!("{file}, {why}"));
                let patched = fs::read_to_string(scratch.path().join(file)).map_err(io)?;
                let original = parse(self.read(Path::new(file))?)?;
                Ok((PathBuf::from(file), original.changes(&parse(patched)?)?))
            })
            .collect()
    }

    fn read(&self, file: &Path) -> Result<String, String> {
        fs::read_to_string(self.source.join(file))
            .map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Returns the root of the crate that a file belongs to.
    fn root_of(&self, file: &Path) -> Result<PathBuf, String> {
        let source = file.ancestors().find(|folder| folder.ends_with("src"));
        let roots = ["lib.rs", "main.rs"]
            .iter()
            .filter_map(|name| Some(source?.join(name)));
        let mut roots = roots.filter(|root| self.source.join(root).exists());
        roots
            .next()
            .ok_or_else(|| format!("{} belongs to no crate", file.display()))
    }

    /// Makes the copy equal to the source but for the woven files. Files that are equal already keep their
    /// times, so that cargo does not build them again.
    fn refresh(&self, mut woven: HashMap<PathBuf, String>) -> io::Result<()> {
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
            let wanted = match woven.remove(Path::new(name)) {
                Some(text) => text.into_bytes(),
                None => match fs::read(self.source.join(name)) {
                    Ok(bytes) => bytes,
                    // Deleted, but not yet in a commit.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
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

    /// Removes files of an older state of the source from the copy.
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

    /// Builds programs. A failure prints the compiler's words.
    pub fn build(&self, build: &Build) -> Result<Vec<Executable>, String> {
        let mut command = cargo(&self.copy);
        command
            .args(["test", "--quiet", "--locked", "--no-run"])
            .arg("--message-format=json-render-diagnostics")
            .args(&build.arguments)
            // The place where a mutant failed is not used, and the build is faster without.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .env("CARGO_TARGET_DIR", &self.target);
        let result = capture(&mut command, BUILD_LIMIT).map_err(|error| error.to_string())?;
        match result.status {
            Some(status) if status.success() => Ok(build.executables(&result.output)),
            _ => {
                let messages = result.output.lines();
                for words in messages.filter(|line| !line.starts_with('{')) {
                    println!("{words}");
                }
                Err("the copy with all mutants does not build".into())
            }
        }
    }
}

/// Runs a test as a mutant, or as none if the number is 0.
pub fn run_test(
    program: &Executable,
    arguments: &[String],
    number: u32,
    limit: Duration,
) -> io::Result<Verdict> {
    let mut command = program.command();
    command.arg("--quiet").args(arguments);
    let result = capture(command.env(SWITCH, number.to_string()), limit)?;
    Ok(match result.status {
        None => Verdict::Hung,
        Some(status) if status.success() => Verdict::Passed(tests_passed(&result.output)),
        Some(_) => Verdict::Failed,
    })
}

fn apply(patch: &Path, directory: &Path) -> Result<(), String> {
    let mut command = Command::new("git");
    command
        .args(["apply", "--whitespace=nowarn"])
        .arg(patch)
        .current_dir(directory)
        // Inside a repository, git would take the patch's paths from its root, and skip all.
        .env(
            "GIT_CEILING_DIRECTORIES",
            directory.parent().unwrap_or(directory),
        );
    let result = capture(&mut command, APPLY_LIMIT).map_err(|error| error.to_string())?;
    match result.status {
        Some(status) if status.success() => Ok(()),
        _ => Err(format!(
            "the patch does not apply: {}",
            result.output.trim()
        )),
    }
}

/// Returns the sum over the lines "test result: ok. N passed; ...".
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
}
