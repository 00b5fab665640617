//! Why a command failed, and the exit code that tells a script.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use terrace::Error;
use terrace_storage::ErrorKind;
use terrace_tools::probe;

use crate::node::NodeFailure;
use crate::output;
use crate::report::things;
use crate::text::shown;

pub type Result<T> = std::result::Result<T, Failure>;

/// Exit codes; the text of `terrace --help` lists them.
pub mod exit {
    pub const KEY_NOT_FOUND: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const CORRUPTION: u8 = 3;
    pub const BUSY: u8 = 4;
    pub const NO_SPACE: u8 = 5;
    pub const IO: u8 = 6;
    pub const NO_STORE: u8 = 7;
}

#[derive(Debug)]
pub enum Failure {
    /// The key has no value.
    KeyNotFound,
    /// The arguments make no sense together.
    Usage(String),
    /// A row of an imported file cannot be used.
    BadRow {
        file: PathBuf,
        line: u64,
        what: String,
        /// Rows before it, which are in the store.
        imported: u64,
    },
    /// Lines of the shell failed. Each had its own message.
    Lines {
        failures: u64,
        /// The exit code of the first one.
        code: u8,
    },
    /// A check found damage; the report on stdout has the details.
    Damaged(String),
    /// The store refused or failed.
    Store(Error),
    /// The store is open elsewhere, and its owner does not answer.
    Unanswered { busy: Error, what: String },
    /// Tables of a tier cannot leave it.
    NoRoom(String),
    /// A file or stream other than the store's failed.
    Io { what: String, source: io::Error },
    /// A benchmark could not be run, or a store failed in it.
    Bench(terrace_bench::Error),
    /// A storage node's device refused or failed.
    Node(NodeFailure),
    /// A device could not be measured.
    Probe(probe::Error),
    /// The reader of our output has gone.
    BrokenPipe,
}

impl Failure {
    pub fn io(what: impl Into<String>, source: io::Error) -> Self {
        Failure::Io {
            what: what.into(),
            source,
        }
    }

    /// Makes the failure of an operation on a file that is not part of a store.
    pub fn file(path: &Path, source: io::Error) -> Self {
        Failure::io(shown(path), source)
    }

    /// Makes the failure of arguments that make no sense, with the parser's answer.
    pub fn of_arguments(answer: &clap::Error) -> Self {
        let answer = answer.to_string();
        let reason = answer.strip_prefix("error: ").unwrap_or(&answer);
        Failure::Usage(reason.trim_end().to_owned())
    }

    /// Tells people why a command failed or, as an object on one line, programs. `line` is that of the
    /// shell.
    pub fn tell(&self, line: Option<u64>, json: bool) {
        if json {
            let mut object = json!({
                "error": self.to_string(),
                "hint": self.hint(),
                "exit_code": self.exit_code(),
            });
            if let (Some(line), Some(fields)) = (line, object.as_object_mut()) {
                fields.insert("line".to_owned(), line.into());
            }
            return output::tell_json(&object);
        }
        let place = line.map_or_else(String::new, |line| format!("line {line}: "));
        output::tell(format!("terrace: {place}{self}"));
        if let Some(hint) = self.hint() {
            output::tell(format!("hint: {hint}"));
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::KeyNotFound => exit::KEY_NOT_FOUND,
            Failure::Usage(_) | Failure::BadRow { .. } => exit::USAGE,
            Failure::Damaged(_) => exit::CORRUPTION,
            Failure::Store(error) => code_of(error),
            Failure::Node(failure) => failure.code,
            Failure::Probe(error) => code_of_probe(error),
            Failure::Lines { code, .. } => *code,
            Failure::Unanswered { .. } => exit::BUSY,
            Failure::NoRoom(_) => exit::NO_SPACE,
            Failure::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                exit::NO_SPACE
            }
            Failure::Bench(error) => error.downcast_ref().map_or(exit::USAGE, code_of),
            Failure::Io { .. } | Failure::BrokenPipe => exit::IO,
        }
    }

    /// Returns the next step, where the message itself does not say it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Failure::BadRow { .. } => Some("correct the row, or skip such rows with --skip-bad"),
            Failure::Store(Error::NoStore { .. }) => Some(
                "check --store or TERRACE_STORE; `terrace put`, `import` and `shell` make a store",
            ),
            Failure::Store(Error::NoKeyspace { .. }) => {
                Some("`terrace keyspaces list` shows a store's keyspaces")
            }
            Failure::Store(Error::WrongRegion { .. }) => {
                Some("check --region-dir or TERRACE_REGION_DIR")
            }
            Failure::Store(Error::TierLost { missing, .. }) if missing.files.is_empty() => {
                Some("`terrace tier list` shows the tiers of the store")
            }
            Failure::Store(Error::TierLost { .. }) => Some(
                "--accept-tier-loss opens the store without the tier; if the tier is gone for good, `terrace \
                 tier remove --accept-loss` gives it up",
            ),
            Failure::Store(Error::WrongTier { .. }) => {
                Some("`terrace tier list` shows the tiers with their directories")
            }
            Failure::NoRoom(_) => Some(
                "the tier stays draining; `terrace tier list` shows the room of each tier, and `terrace \
                 tier add` adds one",
            ),
            Failure::Store(Error::Busy { .. }) | Failure::Unanswered { .. } => Some(
                "commands that open a store wait for its owner to close it with --wait, or longer \
                 with --wait=SECONDS",
            ),
            Failure::Store(Error::Owner(_) | Error::NoAnswer(_)) => Some(
                "asked is a process that has the store open with terrace_tools::inspect, as `terrace \
                 import` does",
            ),
            Failure::Node(failure) => failure.hint,
            Failure::Probe(probe::Error::Storage(error)) => match error.kind() {
                ErrorKind::NotFound => {
                    Some("give a directory that exists, on the device to measure")
                }
                ErrorKind::PermissionDenied => Some("check the owner and the permissions"),
                _ => None,
            },
            Failure::Damaged(_) => Some(
                "copy the directory before anything else; `terrace dump FILE` shows what is left",
            ),
            Failure::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("check the owner and the permissions")
            }
            _ => None,
        }
    }
}

fn code_of(error: &Error) -> u8 {
    match error {
        _ if error.is_no_space() => exit::NO_SPACE,
        Error::Corruption { .. }
        | Error::Unsupported { .. }
        | Error::RegionLost { .. }
        | Error::TierLost { .. } => exit::CORRUPTION,
        Error::InvalidArgument(_) | Error::WrongRegion { .. } | Error::WrongTier { .. } => {
            exit::USAGE
        }
        Error::Busy { .. } => exit::BUSY,
        Error::NoStore { .. } | Error::NoKeyspace { .. } => exit::NO_STORE,
        Error::Poisoned { cause } => code_of(cause),
        _ => exit::IO,
    }
}

fn code_of_probe(error: &probe::Error) -> u8 {
    match error {
        probe::Error::NoSpace { .. } => exit::NO_SPACE,
        probe::Error::Storage(error) if error.kind() == ErrorKind::NoSpace => exit::NO_SPACE,
        probe::Error::WrongBytes { .. } => exit::CORRUPTION,
        _ => exit::IO,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::KeyNotFound => f.write_str("key not found"),
            Failure::Usage(what) | Failure::Damaged(what) | Failure::NoRoom(what) => {
                f.write_str(what)
            }
            Failure::BadRow {
                file,
                line,
                what,
                imported,
            } => write!(
                f,
                "{}, line {line}: {what} (before it, {} imported)",
                shown(file),
                things(*imported, "row")
            ),
            Failure::Store(error) => error.fmt(f),
            Failure::Node(failure) => failure.fmt(f),
            Failure::Probe(error) => error.fmt(f),
            Failure::Lines { failures, .. } => {
                write!(f, "{} failed", things(*failures, "line"))
            }
            Failure::Unanswered { busy, what } => write!(f, "{busy}; {what}"),
            Failure::Io { what, source } => write!(f, "{what}: {source}"),
            Failure::Bench(error) => error.fmt(f),
            Failure::BrokenPipe => f.write_str("nobody reads the output"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Store(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poisoned_store_tells_its_cause() {
        let full = Error::NoSpace {
            path: "x".into(),
            needed_bytes: 1,
        };
        let poisoned = Failure::from(Error::Poisoned { cause: full.into() });
        assert_eq!(poisoned.exit_code(), exit::NO_SPACE);
        assert_eq!(Failure::from(Error::Closed).exit_code(), exit::IO);
    }
}
