//! The errors of finding and opening a device.

use std::fmt;
use std::io;
use std::path::PathBuf;

use terrace_nvmf::wire::Status;

use crate::node::{Found, Wanted};

/// The reason why no device can be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// No device is of the namespace.
    NotFound {
        /// The namespace.
        wanted: Wanted,
        /// The devices that are there.
        found: Vec<Found>,
    },
    /// Several subsystems have a namespace of this number.
    Ambiguous {
        /// The namespace.
        wanted: Wanted,
        /// The devices of it.
        found: Vec<Found>,
    },
    /// The device is of another namespace.
    OtherNamespace {
        /// The device.
        path: PathBuf,
        /// Its namespace.
        nsid: u32,
        /// The namespace that it was taken for.
        wanted: u32,
    },
    /// The device is of another subsystem.
    OtherSubsystem {
        /// The device.
        path: PathBuf,
        /// Its subsystem, as sysfs has it.
        nqn: Option<String>,
        /// The namespace that it was taken for.
        wanted: Wanted,
    },
    /// The namespace is not of keys.
    NoKeys {
        /// The device.
        path: PathBuf,
        /// The controller's answer to a question about keys.
        status: Status,
    },
    /// The operating system refused an operation.
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotFound { wanted, found } if found.is_empty() => {
                write!(f, "no device is of {wanted}: there are no generic devices")
            }
            OpenError::NotFound { wanted, found } => {
                write!(f, "no device is of {wanted}; there are ")?;
                list(f, found)
            }
            OpenError::Ambiguous { wanted, found } => {
                write!(f, "several subsystems have {wanted}: ")?;
                list(f, found)
            }
            OpenError::OtherNamespace { path, nsid, wanted } => {
                let path = path.display();
                write!(f, "{path} is of namespace {nsid}, not of {wanted}")
            }
            OpenError::OtherSubsystem { path, nqn, wanted } => {
                let (path, nqn) = (path.display(), nqn.as_deref().unwrap_or("an unknown one"));
                write!(
                    f,
                    "{path} is of subsystem {}, not {wanted}",
                    nqn.escape_default()
                )
            }
            OpenError::NoKeys { path, status } => {
                let path = path.display();
                write!(f, "{path} is of a namespace without keys: {status}")
            }
            OpenError::Io { what, path, source } => {
                write!(f, "{}: {what}: {source}", path.display())
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, found: &[Found]) -> fmt::Result {
    for (number, device) in found.iter().enumerate() {
        let separator = if number == 0 { "" } else { ", " };
        write!(f, "{separator}{device}")?;
    }
    Ok(())
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
