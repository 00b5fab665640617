//! Subsystems that a discovery controller knows.

use std::net::{IpAddr, SocketAddr};

use zerocopy::FromBytes;

use super::association::open_admin;
use super::client::Settings;
use super::controller::Controller;
use super::error::{Error, Result};
use super::queue::Channel;
use crate::wire::discovery::{Entry, Head, KIND_IO};
use crate::wire::fabrics::DISCOVERY_NQN;
use crate::wire::log;

/// The most entries to read.
const MAX_ENTRIES: u64 = 4096;
/// Entries of one command, if the controller takes offsets.
const PAGE_ENTRIES: u64 = 16;
/// Attempts to read a log that changes meanwhile.
const ATTEMPTS: u32 = 5;
/// Bit of the log attributes: the controller takes offsets.
const EXTENDED: u8 = 1 << 2;
const TRANSPORT_TCP: u8 = 3;

/// An entry of a discovery log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// Name of the subsystem.
    pub nqn: String,
    /// Its address; none if it is not reached by TCP and IP.
    pub address: Option<SocketAddr>,
    /// The entry is of a subsystem with namespaces, not of a discovery service.
    pub has_namespaces: bool,
}

/// Asks the discovery controller at `address` for its log. Of `settings`, the subsystem's name and
/// the time of Keep Alive have no effect.
///
/// # Errors
/// The controller refuses, is out of reach, or its log is malformed.
pub fn discover(address: SocketAddr, settings: &Settings) -> Result<Vec<Subsystem>> {
    let mut settings = settings.clone();
    settings.subsystem_nqn = DISCOVERY_NQN.to_owned();
    settings.keep_alive = std::time::Duration::ZERO;
    let (mut controller, _) = open_admin(address, &settings)?;
    let subsystems = read_log(&mut controller)?;
    // The answers are there: a controller that does not shut down in order does no harm.
    let _ = controller.shut_down();
    Ok(subsystems)
}

/// Reads the log of a discovery controller.
///
/// # Errors
/// The controller refuses, its log is malformed, or changes all the time.
pub fn read_log<C: Channel>(controller: &mut Controller<C>) -> Result<Vec<Subsystem>> {
    for _ in 0..ATTEMPTS {
        let head = read_head(controller)?;
        let count = head.entries.get();
        if count > MAX_ENTRIES {
            return Err(Error::Malformed("discovery log"));
        }
        let bytes = match controller.identity().log_attributes & EXTENDED {
            0 => read_whole(controller, count)?,
            _ => read_pages(controller, count)?,
        };
        if read_head(controller)?.generation == head.generation {
            let (entries, _) = bytes.as_chunks::<{ size_of::<Entry>() }>();
            return entries.iter().map(subsystem).collect();
        }
    }
    Err(Error::Malformed("discovery log: it changes all the time"))
}

fn read_head<C: Channel>(controller: &mut Controller<C>) -> Result<Head> {
    let bytes = controller.log_page(log::DISCOVERY, 0, size_of::<Head>() as u32)?;
    let head = Head::read_from_bytes(&bytes).map_err(|_| Error::Malformed("discovery log"))?;
    if head.format.get() != 0 {
        return Err(Error::Unsupported("a discovery log of format 0"));
    }
    Ok(head)
}

/// Reads all entries by one command, with the head before them.
fn read_whole<C: Channel>(controller: &mut Controller<C>, count: u64) -> Result<Vec<u8>> {
    let bytes = size_of::<Head>() as u64 + count * size_of::<Entry>() as u64;
    let mut bytes = controller.log_page(log::DISCOVERY, 0, bytes as u32)?;
    Ok(bytes.split_off(size_of::<Head>()))
}

fn read_pages<C: Channel>(controller: &mut Controller<C>, count: u64) -> Result<Vec<u8>> {
    let entry_bytes = size_of::<Entry>() as u64;
    let most = controller.max_transfer().unwrap_or(u64::MAX) / entry_bytes;
    let page = PAGE_ENTRIES.min(most).max(1);
    let mut bytes = Vec::new();
    let mut read = 0;
    while read < count {
        let entries = page.min(count - read);
        let offset = size_of::<Head>() as u64 + read * entry_bytes;
        let part = controller.log_page(log::DISCOVERY, offset, (entries * entry_bytes) as u32)?;
        bytes.extend(part);
        read += entries;
    }
    Ok(bytes)
}

fn subsystem(bytes: &[u8; size_of::<Entry>()]) -> Result<Subsystem> {
    let malformed = Error::Malformed("entry of the discovery log");
    let entry = Entry::read_from_bytes(bytes).map_err(|_| malformed.clone())?;
    let nqn = text(&entry.subsystem).filter(|name| !name.is_empty());
    let address = || {
        let address: IpAddr = text(&entry.address)?.parse().ok()?;
        let port = text(&entry.service)?.parse().ok()?;
        Some(SocketAddr::new(address, port))
    };
    let nqn = nqn.ok_or(malformed)?;
    Ok(Subsystem {
        address: (entry.transport == TRANSPORT_TCP).then(address).flatten(),
        has_namespaces: entry.kind == KIND_IO && nqn != DISCOVERY_NQN,
        nqn: nqn.to_owned(),
    })
}

/// Returns a field's text without its padding.
fn text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0);
    let text = std::str::from_utf8(&field[..end.unwrap_or(field.len())]).ok()?;
    Some(text.trim_end_matches(' '))
}

#[cfg(test)]
mod tests;
