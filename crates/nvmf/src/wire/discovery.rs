//! The discovery log (Base Specification, section 5.1.12.3.1).

use std::mem::offset_of;
use std::net::SocketAddr;

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::fill_text;

/// The log's head.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Head {
    /// Number of changes of the log.
    pub generation: U64,
    /// Entries that follow.
    pub entries: U64,
    /// Format: 0.
    pub format: U16,
    /// Zeros.
    pub reserved: [u8; 1006],
}

/// A subsystem and its address.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Entry {
    /// Transport: 3 is TCP.
    pub transport: u8,
    /// Address family: 1 of IPv4, 2 of IPv6.
    pub family: u8,
    /// Kind of the subsystem.
    pub kind: u8,
    /// Requirements of the transport.
    pub requirements: u8,
    /// Number of the port.
    pub port_id: U16,
    /// The controller; FFFFh is any.
    pub controller_id: U16,
    /// Entries of the admin queue.
    pub admin_entries: U16,
    /// Flags.
    pub flags: U16,
    /// Zeros.
    pub reserved12: [u8; 20],
    /// Port as text.
    pub service: [u8; 32],
    /// Zeros.
    pub reserved64: [u8; 192],
    /// Name of the subsystem.
    pub subsystem: [u8; 256],
    /// Address as text.
    pub address: [u8; 256],
    /// Details of the transport: 0 is no security.
    pub transport_details: [u8; 256],
}

const _: () = assert!(size_of::<Head>() == 1024 && size_of::<Entry>() == 1024);
const _: () = assert!(offset_of!(Entry, service) == 32);
const _: () = assert!(offset_of!(Entry, subsystem) == 256);

/// A kind of subsystem: the discovery service itself.
pub const KIND_THIS_DISCOVERY: u8 = 3;
/// A kind of subsystem: of namespaces.
pub const KIND_IO: u8 = 2;

const TRANSPORT_TCP: u8 = 3;

/// Makes an entry for a subsystem that `address` reaches.
pub fn entry(subsystem: &str, kind: u8, address: SocketAddr) -> Entry {
    let mut entry = Entry::new_zeroed();
    entry.transport = TRANSPORT_TCP;
    entry.family = if address.is_ipv4() { 1 } else { 2 };
    entry.kind = kind;
    entry.controller_id = U16::MAX_VALUE;
    entry.admin_entries = 32.into();
    fill_text(&mut entry.service, &address.port().to_string(), b' ');
    fill_text(&mut entry.subsystem, subsystem, 0);
    fill_text(&mut entry.address, &address.ip().to_string(), b' ');
    entry
}

/// Returns the log of `entries`.
pub fn log(generation: u64, entries: &[Entry]) -> Vec<u8> {
    let mut head = Head::new_zeroed();
    head.generation = generation.into();
    head.entries = (entries.len() as u64).into();
    [head.as_bytes(), entries.as_bytes()].concat()
}
