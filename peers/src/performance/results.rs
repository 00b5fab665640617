//! A directory of results, a file for each comparison.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use terrace_bench::Result;
use terrace_bench::outcome::Contest;

use super::measurements::{Measurement, SECTIONS};
use crate::arguments::Performance;

/// Names the program that made the results: figures of several builds are not one measurement.
const PROGRAM: &str = "program";

/// Where results are, and what may be in it.
pub struct Results {
    directory: PathBuf,
    tiny: bool,
}

impl Results {
    /// The directory that was asked for, made if something is to be measured.
    pub fn of(asked: &Performance) -> Result<Self> {
        let directory = asked.results.clone();
        let named = |error: io::Error| format!("--results {}: {error}", directory.display());
        if asked.tables_only {
            fs::read_dir(&directory).map_err(named)?;
        } else {
            fs::create_dir_all(&directory).map_err(named)?;
        }
        Ok(Results {
            directory,
            tiny: asked.tiny,
        })
    }

    /// The file of a comparison.
    pub fn path(&self, measurement: &Measurement) -> PathBuf {
        self.directory.join(format!("{}.json", measurement.name))
    }

    /// That all results here are of this program.
    ///
    /// # Errors
    /// They are of another one.
    pub fn claim(&self, program: &Path) -> Result<()> {
        let path = self.directory.join(PROGRAM);
        let own =
            fingerprint(program).map_err(|error| format!("{}: {error}", program.display()))?;
        match fs::read_to_string(&path) {
            Ok(other) if other == own => Ok(()),
            Ok(_) => Err(format!(
                "{} holds results of another build of this program; take another --results, or \
                 remove them",
                self.directory.display()
            )
            .into()),
            Err(_) => Ok(
                fs::write(&path, own).map_err(|error| format!("{}: {error}", path.display()))?
            ),
        }
    }

    /// Holds a comparison, and keeps what it found, failed stores included.
    pub fn hold(
        &self,
        program: &Path,
        asked: &Performance,
        measurement: &Measurement,
    ) -> Result<()> {
        let path = self.path(measurement);
        let unfinished = path.with_extension("unfinished");
        let named = |error: io::Error| format!("{}: {error}", unfinished.display());
        let output = File::create(&unfinished).map_err(named)?;
        let mut command = Command::new(program);
        command
            .arg("compare")
            .args(measurement.arguments.split_ascii_whitespace())
            .args(asked.tiny.then_some("--tiny"))
            .arg("--directory")
            .arg(&asked.directory)
            .arg("--json")
            .arg("--html")
            .arg(path.with_extension("html"))
            .stdout(output);
        let status = command.status()?;
        // With a store that failed there are results, too.
        if let Err(error) = self.read(measurement, &unfinished) {
            return Err(
                format!("ended with {status}, and its results cannot be used: {error}").into(),
            );
        }
        Ok(fs::rename(&unfinished, &path).map_err(named)?)
    }

    /// What was found, by name.
    pub fn contests(&self) -> Result<BTreeMap<&'static str, Contest>> {
        let mut found = BTreeMap::new();
        for measurement in SECTIONS.iter().flat_map(|section| section.measurements) {
            let path = self.path(measurement);
            if path.exists() {
                found.insert(measurement.name, self.read(measurement, &path)?);
            }
        }
        Ok(found)
    }

    fn read(&self, measurement: &Measurement, path: &Path) -> Result<Contest> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read(path).map_err(|error| named(&error))?;
        let contest: Contest = serde_json::from_slice(&text).map_err(|error| named(&error))?;
        let tiny = if self.tiny { " --tiny" } else { "" };
        let expected = format!("peers compare {}{tiny} --directory ", measurement.arguments);
        if !contest.command.starts_with(&expected) {
            let other = format!("it is of `{}`, not of `{expected}...`", contest.command);
            return Err(named(&other).into());
        }
        Ok(contest)
    }

    /// That all that was wanted is there, and no store has failed.
    ///
    /// # Errors
    /// What is missing, and who failed in what.
    pub fn succeeded(&self, wanted: &[&'static Measurement]) -> Result<()> {
        let contests = self.contests()?;
        let complaints = wanted
            .iter()
            .filter_map(|one| match contests.get(one.name) {
                None => Some(format!("{}: not measured", one.name)),
                Some(contest) => {
                    let failure = contest.succeeded().err()?;
                    Some(format!("{}: {failure}", one.name))
                }
            });
        let complaints: Vec<String> = complaints.collect();
        if complaints.is_empty() {
            return Ok(());
        }
        Err(complaints.join("\n").into())
    }
}

/// Of a program's bytes.
fn fingerprint(program: &Path) -> io::Result<String> {
    const CHUNK_BYTES: usize = 1 << 20;
    let mut file = File::open(program)?;
    let mut hasher = DefaultHasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = file.read(&mut chunk)?;
        let Some(read) = chunk.get(..length).filter(|read| !read.is_empty()) else {
            return Ok(format!("{:016x}\n", hasher.finish()));
        };
        hasher.write(read);
    }
}
