//! Where a report goes: to standard output as text or as JSON, and into a file as a page.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use terrace_storage::Escaped;

use crate::{Error, Result};

/// Output options of a command.
pub struct Output<'a> {
    /// JSON in place of text.
    pub json: bool,
    /// The page's file.
    pub html: Option<&'a Path>,
}

impl Output<'_> {
    /// Checks that the page can be written: before hours of work, not after.
    pub fn check(&self) -> Result<()> {
        let Some(path) = self.html else { return Ok(()) };
        let opened = fs::OpenOptions::new().create(true).append(true).open(path);
        opened.map(drop).map_err(|error| cannot_write(path, &error))
    }

    /// Writes the page, and then prints.
    pub fn show(
        &self,
        report: &impl Serialize,
        text: impl FnOnce() -> String,
        page: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        if let Some(path) = self.html {
            fs::write(path, page()?).map_err(|error| cannot_write(path, &error))?;
        }
        self.print(report, text)?;
        if let (Some(path), false) = (self.html, self.json) {
            writeln!(
                std::io::stdout(),
                "\nThe page is in {}",
                Escaped::path(path)
            )?;
        }
        Ok(())
    }

    /// Prints a report that has no page.
    pub fn print(&self, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        let printed = match self.json {
            true => serde_json::to_string_pretty(report)? + "\n",
            false => text(),
        };
        Ok(std::io::stdout().write_all(printed.as_bytes())?)
    }
}

/// Tells people a line on standard error. A line that cannot be written stops no work.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    format!("cannot write {}: {error}", Escaped::path(path)).into()
}
