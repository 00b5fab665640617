//! Opening a storage node's device, and the failures of it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use terrace_node::Error;
use terrace_node::device::{Access, Backend, Device, Medium, NODE_NAME, open_device, signature};
use terrace_node::engine::read_superblock;
use terrace_node::format::superblock::Superblock;

use crate::failure::{Failure, Result, exit};
use crate::text::shown;

/// Requests that the system has at once. The commands here wait for each one.
const DEPTH: usize = 4;

const RESCUE: &str = "copy the device before anything else; `terrace node recover --scan` rebuilds \
                      the index from the values";
const NO_SUPERBLOCK: &str = "neither copy of the superblock can be used, so nothing tells where the \
                             namespaces lie; restore the device from a copy";

/// Why a command failed on a node's device.
#[derive(Debug)]
pub struct NodeFailure {
    what: String,
    pub code: u8,
    pub hint: Option<&'static str>,
}

impl fmt::Display for NodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Returns a failure with an exit code and a hint for the next step.
pub fn failed(what: impl Into<String>, code: u8, hint: Option<&'static str>) -> Failure {
    Failure::Node(NodeFailure {
        what: what.into(),
        code,
        hint,
    })
}

/// Returns the failure that an engine's error is to the user.
pub fn failure(path: &Path, error: Error) -> Failure {
    let (code, hint) = match &error {
        Error::Damaged { .. } => (exit::CORRUPTION, Some(RESCUE)),
        Error::Unsupported { .. } => (
            exit::CORRUPTION,
            Some("use the release that made the node, or a newer one"),
        ),
        Error::Occupied { .. } => (exit::BUSY, None),
        Error::InvalidArgument(_) => (exit::USAGE, None),
        Error::Io { source, .. } => match source.kind() {
            io::ErrorKind::StorageFull => (exit::NO_SPACE, None),
            io::ErrorKind::PermissionDenied => {
                (exit::IO, Some("check the owner and the permissions"))
            }
            _ => (exit::IO, None),
        },
        _ => (exit::IO, None),
    };
    let what = match &error {
        Error::Damaged { .. } | Error::Unsupported { .. } => format!("{}: {error}", shown(path)),
        // The others name it.
        _ => error.to_string(),
    };
    failed(what, code, hint)
}

/// Adds the way to the status of a node that a server has open.
pub fn ask_its_server(failure: Failure) -> Failure {
    match failure {
        Failure::Node(busy) if busy.code == exit::BUSY => Failure::Node(NodeFailure {
            hint: Some(
                "if a server has it, `terrace node status --server ADDRESS` asks that one: the \
                 address is its option `metrics`",
            ),
            ..busy
        }),
        other => other,
    }
}

/// Opens a block device or a file, with any content.
pub fn open_medium(path: &Path, access: Access) -> Result<Medium> {
    Medium::open(path, access).map_err(|error| match &error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => failed(
            format!("{} does not exist", shown(path)),
            exit::NO_STORE,
            Some("check the path; `terrace node init --size` makes a file with a node"),
        ),
        _ if path.is_dir() => failed(
            error.to_string(),
            exit::USAGE,
            Some("a store's directory is served by `node serve --store`; `terrace stats` shows it"),
        ),
        _ => failure(path, error),
    })
}

/// Returns the way to a medium's blocks.
pub fn device(path: &Path, medium: Medium) -> Result<Box<dyn Device>> {
    open_device(Arc::new(medium), Backend::Auto, DEPTH).map_err(|error| failure(path, error))
}

/// Opens the device of a node, and reads its superblock.
pub fn open(path: &Path, access: Access) -> Result<(Box<dyn Device>, Superblock)> {
    let medium = open_medium(path, access)?;
    let found = signature(&medium).map_err(|error| failure(path, error))?;
    if found.as_deref() != Some(NODE_NAME) {
        let path = shown(path);
        let what = match found {
            Some(other) => format!("{path} holds {other}, not a storage node"),
            None => format!("{path} holds no storage node"),
        };
        let hint = "check the path; `terrace node init` makes a node";
        return Err(failed(what, exit::NO_STORE, Some(hint)));
    }
    let mut device = device(path, medium)?;
    let superblock = read_superblock(&mut *device).map_err(|error| match error {
        Error::Damaged { .. } => {
            let what = format!("{}: {error}", shown(path));
            failed(what, exit::CORRUPTION, Some(NO_SUPERBLOCK))
        }
        other => failure(path, other),
    })?;
    Ok((device, superblock))
}
