//! Log pages.

use std::net::SocketAddr;

use super::controller::Controller;
use super::registry::Registry;
use crate::wire::command::{admin, block};
use crate::wire::log::{
    CHANGED_NAMESPACES, CHANGES_CONTENT, DISCOVERY, EFFECTS, EFFECTS_BYTES, EFFECTS_IO, ERRORS,
    FIRMWARE, HEALTH, SUPPORTED,
};
use crate::wire::{Status, SubmissionEntry, kv};

/// Returns the part of a log page that a command asks for.
pub(super) fn log_page(
    entry: &SubmissionEntry,
    controller: &Controller,
    registry: &Registry,
    own: SocketAddr,
) -> Result<Vec<u8>, Status> {
    let (cdw10, cdw11) = (entry.cdw10.get(), entry.cdw11.get());
    let words = (u64::from(cdw11 & 0xffff) << 16 | u64::from(cdw10 >> 16)) + 1;
    let offset = u64::from(entry.cdw13.get()) << 32 | u64::from(entry.cdw12.get());
    if words * 4 > u64::from(entry.data.bytes.get()) {
        return Err(Status::SGL_LENGTH_INVALID);
    }
    let command_set = (entry.cdw14.get() >> 24) as u8;
    let is_discovery = controller.subsystem.is_none();
    let page = match cdw10 as u8 {
        DISCOVERY if is_discovery => registry.discovery_log(&controller.host, own),
        _ if is_discovery => return Err(Status::INVALID_LOG_PAGE),
        EFFECTS => effects(command_set),
        ERRORS => vec![0; 64],
        HEALTH => health(),
        FIRMWARE => vec![0; 512],
        CHANGED_NAMESPACES => vec![0; 4096],
        _ => return Err(Status::INVALID_LOG_PAGE),
    };
    let offset = usize::try_from(offset).map_err(|_| Status::INVALID_FIELD)?;
    if offset > page.len() {
        return Err(Status::INVALID_FIELD);
    }
    let mut part = page[offset..].to_vec();
    // Zeros follow the page's own bytes, up to a limit: a host asks for pages faster than it takes
    // them.
    let most = part.len().max(MIN_LOG_BYTES) as u64;
    part.resize((words * 4).min(most) as usize, 0);
    Ok(part)
}

/// Bytes that a host gets of every page, if it asks for them.
const MIN_LOG_BYTES: usize = 4096;

/// Returns the commands of a command set, and which of them change contents. Kernels let users without
/// privileges send the others.
fn effects(command_set: u8) -> Vec<u8> {
    let mut page = vec![0; EFFECTS_BYTES];
    let mut put = |at: usize, effects: u32| {
        page[at..at + 4].copy_from_slice(&effects.to_le_bytes());
    };
    for opcode in [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT_REQUEST,
        admin::KEEP_ALIVE,
    ] {
        put(usize::from(opcode) * 4, SUPPORTED);
    }
    let of_keys: &[(u8, u32)] = &[
        (kv::STORE, CHANGES_CONTENT),
        (kv::DELETE, CHANGES_CONTENT),
        (kv::RETRIEVE, 0),
        (kv::LIST, 0),
        (kv::EXIST, 0),
        (block::FLUSH, 0),
    ];
    let of_blocks: &[(u8, u32)] = &[
        (block::FLUSH, 0),
        (block::WRITE, CHANGES_CONTENT),
        (block::READ, 0),
    ];
    let commands = if command_set == kv::COMMAND_SET {
        of_keys
    } else {
        of_blocks
    };
    for &(opcode, effect) in commands {
        put(EFFECTS_IO + usize::from(opcode) * 4, SUPPORTED | effect);
    }
    page
}

/// Returns a page that tells of a healthy device of 25 degrees.
fn health() -> Vec<u8> {
    let mut page = vec![0; 512];
    page[1..3].copy_from_slice(&298_u16.to_le_bytes());
    (page[3], page[4]) = (100, 10);
    page
}
