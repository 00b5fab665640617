//! Standard output and standard error. Nothing else in this program writes to them.
//!
//! The macros of the standard library panic when a write fails. Here output that cannot be written
//! is a failure of the command, and a lost message is none: it changes no exit code and stops no
//! work.

use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::text::{readable, readable_json};

/// Standard output without a buffer. That of the standard library takes a descriptor that cannot be
/// written for one that was.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(io::stdout(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns standard output for many small writes.
pub fn buffered() -> BufWriter<Stdout> {
    BufWriter::with_capacity(64 << 10, Stdout)
}

/// Returns the failure of a write to standard output.
pub fn failed(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::io("standard output", error),
    }
}

/// Prints bytes as they are.
pub fn print_bytes(bytes: impl AsRef<[u8]>) -> Result<()> {
    Stdout.write_all(bytes.as_ref()).map_err(failed)
}

/// Prints a text for people. Names in it cannot steer the terminal.
pub fn print(text: impl AsRef<str>) -> Result<()> {
    print_bytes(readable(text.as_ref()).as_bytes())
}

/// Prints an indented JSON object.
pub fn print_json(report: &impl Serialize) -> Result<()> {
    // A value has its names in order.
    let value = serde_json::to_value(report).map_err(not_json)?;
    print_bytes(readable_json(format!("{value:#}\n")))
}

/// Prints a JSON object on one line.
pub fn print_json_line(report: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(report).map_err(not_json)?;
    print_bytes(readable_json(line + "\n"))
}

fn not_json(error: serde_json::Error) -> Failure {
    Failure::io("JSON", error.into())
}

/// Tells people a line on standard error.
pub fn tell(line: impl AsRef<str>) {
    tell_as_it_is(&readable(line.as_ref()));
}

/// Tells programs a JSON object on standard error.
pub fn tell_json(report: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(report) {
        tell_as_it_is(&readable_json(line));
    }
}

fn tell_as_it_is(line: &str) {
    // Nothing is left to report the loss to.
    let _ = io::stderr()
        .lock()
        .write_all(format!("{line}\n").as_bytes());
}

/// Prints the help or the version, or tells of wrong arguments. On a terminal the library of
/// arguments does it, for the colours.
pub fn show(answer: &clap::Error) -> Result<()> {
    let plain = answer.to_string();
    let is_readable = readable(&plain) == plain;
    match answer.use_stderr() {
        true if is_readable && io::stderr().is_terminal() => {
            let _ = answer.print();
            Ok(())
        }
        true => {
            tell(plain.trim_end());
            Ok(())
        }
        false if is_readable && io::stdout().is_terminal() => answer.print().map_err(failed),
        false => print(&plain),
    }
}
