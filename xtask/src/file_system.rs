//! A small file system in an image file.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::succeeds;

/// A file system, and the program that makes it.
pub struct FileSystem {
    pub name: &'static str,
    pub mkfs: &'static str,
    pub options: &'static [&'static str],
    /// Debian's package with the program.
    pub package: &'static str,
    pub bytes: u64,
}

impl FileSystem {
    /// Returns the reason why the file system cannot be made here.
    pub fn ready(&self) -> Result<(), Outcome> {
        match system_tool(self.mkfs).arg("-V").output() {
            Ok(_) => Ok(()),
            Err(_) => Err(Outcome::Skipped(format!(
                "{} is not installed (package {})",
                self.mkfs, self.package
            ))),
        }
    }

    /// Makes the file system in a new file.
    pub fn create(&self, image: &Path) -> Result<(), Outcome> {
        self.ready()?;
        fs::File::create(image)
            .and_then(|file| file.set_len(self.bytes))
            .map_err(|error| Outcome::Failed(format!("{}: {error}", image.display())))?;
        match succeeds(system_tool(self.mkfs).args(self.options).arg(image)) {
            true => Ok(()),
            false => Err(Outcome::Failed(format!("{} failed", self.mkfs))),
        }
    }
}

/// Returns a command of the system's. These lie in /usr/sbin, which is not on everybody's PATH.
pub fn system_tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}
