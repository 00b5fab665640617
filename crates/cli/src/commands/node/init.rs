//! A new node.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use terrace_node::block::BLOCK_BYTES;
use terrace_node::device::{Access, Medium, create_file, signature};
use terrace_node::engine::create;
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::superblock::Superblock;

use super::report::{as_json, as_text, device_bytes};
use crate::arguments::NodeInit;
use crate::failure::{Failure, Result, exit};
use crate::node;
use crate::output::{print, print_json};
use crate::progress::Steps;
use crate::report::bytes;
use crate::text::shown;

/// The namespace of a node for which none is named.
const DEFAULT_NAMESPACE: &str = "default";

pub fn run(arguments: &NodeInit) -> Result<()> {
    let path = &arguments.path;
    let superblock = match file_size(arguments)? {
        Some(bytes) => make_file(arguments, bytes)?,
        None => use_device(arguments)?,
    };
    if arguments.json {
        return print_json(&as_json(path, &superblock, None));
    }
    print(format!(
        "made a storage node of {} on {}\n\n{}",
        bytes(device_bytes(&superblock)),
        shown(path),
        as_text(path, &superblock, None)
    ))
}

/// Returns the size of the file to make; none if the path is to be used as it is.
fn file_size(arguments: &NodeInit) -> Result<Option<u64>> {
    let path = &arguments.path;
    let shown = shown(path);
    let usage = |what: String, hint| Err(node::failed(what, exit::USAGE, Some(hint)));
    match (path.metadata(), arguments.size) {
        (Ok(_), None) => Ok(None),
        (Ok(there), Some(_)) if there.file_type().is_block_device() => usage(
            format!("{shown} is a block device, which has its size"),
            "leave --size out",
        ),
        (Ok(_), Some(_)) if !arguments.force => usage(
            format!("{shown} exists; nothing is written"),
            "leave --size out to use the file as it is, or --force makes it anew",
        ),
        (Err(error), None) if error.kind() == io::ErrorKind::NotFound => usage(
            format!("{shown} does not exist"),
            "check the path, or --size makes a file",
        ),
        (Err(error), _) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::file(path, error))
        }
        (_, size) => Ok(size.map(|size| size - size % BLOCK_BYTES as u64)),
    }
}

fn make_file(arguments: &NodeInit, bytes: u64) -> Result<Superblock> {
    let path = &arguments.path;
    // Errors of the namespaces show before a file is made or emptied.
    let superblock = divide(arguments, bytes)?;
    let mut steps = Steps::of_bytes(format!("{}: filled", shown(path)));
    let made = create_file(path, bytes, arguments.force, &mut |done| {
        steps.reach(done, Some(bytes));
    });
    steps.finish();
    made.map_err(|error| node::failure(path, error))?;
    let medium = node::open_medium(path, Access::Write)?;
    write(path, medium, &superblock)?;
    Ok(superblock)
}

fn use_device(arguments: &NodeInit) -> Result<Superblock> {
    let path = &arguments.path;
    let medium = node::open_medium(path, Access::Write)?;
    let found = signature(&medium).map_err(|error| node::failure(path, error))?;
    if let Some(found) = found.filter(|_| !arguments.force) {
        return Err(node::failed(
            format!("{} holds {found}; nothing is written", shown(path)),
            exit::USAGE,
            Some("check the path; --force overwrites the contents"),
        ));
    }
    let superblock = divide(arguments, medium.bytes)?;
    write(path, medium, &superblock)?;
    Ok(superblock)
}

fn divide(arguments: &NodeInit, bytes: u64) -> Result<Superblock> {
    let only = [NamespaceRequest::new(DEFAULT_NAMESPACE)];
    let requests = match arguments.namespaces.is_empty() {
        true => &only[..],
        false => &arguments.namespaces,
    };
    let blocks = bytes / BLOCK_BYTES as u64;
    Superblock::new(blocks, requests, &mut rand::rng())
        .map_err(|error| node::failure(&arguments.path, error))
}

fn write(path: &Path, medium: Medium, superblock: &Superblock) -> Result<()> {
    let mut device = node::device(path, medium)?;
    create(&mut *device, superblock).map_err(|error| node::failure(path, error))
}
