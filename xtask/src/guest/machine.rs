//! The guest while it runs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::process::show_at_end;
use crate::test_log::TestLog;

/// A guest that runs one program.
pub struct Machine {
    script: PathBuf,
    directory: PathBuf,
    program: &'static str,
    disk: Option<(PathBuf, Duration)>,
}

impl Machine {
    pub fn new(root: &Path, directory: &Path, program: &'static str) -> Self {
        Machine {
            script: root.join("guest/run.sh"),
            directory: directory.to_owned(),
            program,
            disk: None,
        }
    }

    /// Adds a disk to write to, for a program that takes a while.
    pub fn with_disk(mut self, image: &Path, limit: Duration) -> Self {
        self.disk = Some((image.to_owned(), limit));
        self
    }

    /// Boots the guest and shows its console at the end. A failure names the panics of the guest's test.
    pub fn run(&self) -> Outcome {
        let mut log = TestLog::default();
        match show_at_end(&mut self.command(&[]), |piece| log.read(piece)) {
            Outcome::Failed(what) => Outcome::Failed(what + &log.panics()),
            outcome => outcome,
        }
    }

    /// Returns the command that boots the guest. Its program finds `words` on the kernel's command
    /// line. The exit code is the program's.
    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&self.script);
        command.arg(&self.directory).arg(self.program).args(words);
        if let Some((image, limit)) = &self.disk {
            command.env("GUEST_DISK", image);
            command.env("GUEST_TIMEOUT_S", limit.as_secs().to_string());
        }
        command
    }

    /// Boots the guest, shows its console and hands each line to `react`.
    pub fn watch(
        &self,
        words: &[String],
        mut react: impl FnMut(&str) -> Result<(), Outcome>,
    ) -> Result<(), Outcome> {
        let failed = |error: std::io::Error| Outcome::Failed(format!("guest/run.sh: {error}"));
        println!("$ guest/run.sh {}", self.program);
        let mut child = self
            .command(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut reaction = Ok(());
        if let Some(console) = child.stdout.take() {
            for line in BufReader::new(console).split(b'\n') {
                let line = line.map_err(failed)?;
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                if reaction.is_ok() {
                    reaction = react(line.trim());
                }
            }
        }
        let status = child.wait().map_err(failed)?;
        reaction?;
        match status.success() {
            true => Ok(()),
            false => Err(Outcome::Failed(format!(
                "{} in the guest ({status})",
                self.program
            ))),
        }
    }
}
