//! Structures that Identify returns (Base Specification, section 5.1.13).

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of every structure.
pub const IDENTIFY_BYTES: usize = 4096;

/// Things to identify (CNS).
pub mod cns {
    /// A namespace, as the NVM command set has it.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Numbers of the active namespaces.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    /// Identifiers of a namespace.
    pub const DESCRIPTORS: u8 = 0x03;
    /// A namespace, as its command set has it.
    pub const NAMESPACE_OF_SET: u8 = 0x05;
    /// The controller, as a command set has it.
    pub const CONTROLLER_OF_SET: u8 = 0x06;
    /// Numbers of the active namespaces of a command set.
    pub const ACTIVE_NAMESPACES_OF_SET: u8 = 0x07;
    /// A namespace, apart from command sets.
    pub const NAMESPACE_OF_ANY_SET: u8 = 0x08;
    /// Combinations of command sets.
    pub const COMMAND_SETS: u8 = 0x1c;
}

/// Identify Controller.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Controller {
    /// PCI vendors: zeros on fabrics.
    pub vendors: [u8; 4],
    /// Serial number.
    pub serial: [u8; 20],
    /// Model.
    pub model: [u8; 40],
    /// Firmware revision.
    pub firmware: [u8; 8],
    /// Recommended arbitration burst, IEEE number, multipath capabilities.
    pub reserved72: [u8; 5],
    /// The most data of a command: a power of two in pages of 4 KiB (MDTS).
    pub max_transfer: u8,
    /// The controller's number.
    pub controller_id: U16,
    /// Version of the specification.
    pub version: U32,
    /// Times of power states.
    pub reserved84: [u8; 8],
    /// Optional asynchronous events.
    pub async_events: U32,
    /// Attributes: bit 0 says that host identifiers have 16 bytes.
    pub attributes: U32,
    /// Fields of local transports.
    pub reserved100: [u8; 11],
    /// 1 of I/O, 2 of discovery.
    pub kind: u8,
    /// Fields not in use.
    pub reserved112: [u8; 144],
    /// Optional admin commands.
    pub admin_commands: U16,
    /// Commands to abort at a time, 0's based.
    pub abort_limit: u8,
    /// Event requests at a time, 0's based.
    pub event_limit: u8,
    /// Firmware updates.
    pub firmware_updates: u8,
    /// Attributes of log pages: bit 1 effects, bit 2 extended offset.
    pub log_attributes: u8,
    /// Entries of the error log, 0's based.
    pub error_entries: u8,
    /// Fields not in use.
    pub reserved263: [u8; 57],
    /// Granularity of Keep Alive in 100 ms.
    pub keep_alive_granularity: U16,
    /// Fields not in use.
    pub reserved322: [u8; 190],
    /// Sizes of submission entries.
    pub submission_sizes: u8,
    /// Sizes of completion entries.
    pub completion_sizes: u8,
    /// The most commands in flight of a queue.
    pub max_commands: U16,
    /// The highest namespace number.
    pub namespaces: U32,
    /// Optional commands of the NVM command set.
    pub commands: U16,
    /// Fused operations.
    pub fused: U16,
    /// Format attributes.
    pub format_attributes: u8,
    /// Volatile write cache.
    pub write_cache: u8,
    /// Atomic writes.
    pub reserved526: [u8; 10],
    /// Support of scatter-gather lists.
    pub sgl: U32,
    /// The most namespaces.
    pub max_namespaces: U32,
    /// Fields not in use.
    pub reserved544: [u8; 224],
    /// Name of the subsystem.
    pub subsystem: [u8; 256],
    /// Fields not in use.
    pub reserved1024: [u8; 768],
    /// Bytes of a command capsule in units of 16.
    pub command_capsule: U32,
    /// Bytes of a response capsule in units of 16.
    pub response_capsule: U32,
    /// Where in-capsule data begin.
    pub capsule_data_offset: U16,
    /// Attributes of the controller model: 0 is dynamic.
    pub model_attributes: u8,
    /// Descriptors of a scatter-gather list.
    pub max_descriptors: u8,
    /// Optional fabrics commands.
    pub fabrics_commands: U16,
    /// Power states and vendor's bytes.
    pub reserved1806: [u8; 2290],
}

const _: () = assert!(size_of::<Controller>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(Controller, max_transfer) == 77);
const _: () = assert!(offset_of!(Controller, kind) == 111);
const _: () = assert!(offset_of!(Controller, admin_commands) == 256);
const _: () = assert!(offset_of!(Controller, keep_alive_granularity) == 320);
const _: () = assert!(offset_of!(Controller, submission_sizes) == 512);
const _: () = assert!(offset_of!(Controller, write_cache) == 525);
const _: () = assert!(offset_of!(Controller, sgl) == 536);
const _: () = assert!(offset_of!(Controller, subsystem) == 768);
const _: () = assert!(offset_of!(Controller, command_capsule) == 1792);

/// SGL support: any alignment, and offsets in the capsule and by transport.
pub const SGL_SUPPORT: u32 = 1 | 1 << 20;
/// A kind of [`Controller`]: of I/O.
pub const KIND_IO: u8 = 1;
/// A kind of [`Controller`]: of discovery.
pub const KIND_DISCOVERY: u8 = 2;

/// Identify Namespace of a namespace of keys.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct KeyNamespace {
    /// Size in bytes.
    pub size: U64,
    /// Zeros.
    pub reserved8: [u8; 8],
    /// Bytes in use.
    pub used: U64,
    /// Features.
    pub features: u8,
    /// Number of formats, 0's based.
    pub formats: u8,
    /// Sharing: bit 0, several controllers may have the namespace.
    pub sharing: u8,
    /// Fields not in use.
    pub reserved27: [u8; 21],
    /// Identifier of 16 bytes.
    pub nguid: [u8; 16],
    /// Identifier of 8 bytes.
    pub eui64: [u8; 8],
    /// Limits of the first format.
    pub format: KeyFormat,
    /// Other formats and fields not in use.
    pub reserved88: [u8; 4008],
}

/// Limits of a namespace of keys.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct KeyFormat {
    /// The longest key in bytes.
    pub max_key: U16,
    /// Zeros.
    pub reserved2: u8,
    /// Relative performance.
    pub performance: u8,
    /// The largest value in bytes.
    pub max_value: U32,
    /// The most keys; 0 is no limit.
    pub max_keys: U32,
    /// Zeros.
    pub reserved12: [u8; 4],
}

const _: () = assert!(size_of::<KeyNamespace>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(KeyNamespace, nguid) == 48);
const _: () = assert!(offset_of!(KeyNamespace, format) == 72);

/// Identify Namespace of a namespace of blocks.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockNamespace {
    /// Size in blocks.
    pub size: U64,
    /// Capacity in blocks.
    pub capacity: U64,
    /// Blocks in use.
    pub used: U64,
    /// Features.
    pub features: u8,
    /// Number of formats, 0's based.
    pub formats: u8,
    /// Format in use.
    pub format: u8,
    /// Fields not in use.
    pub reserved27: [u8; 3],
    /// Sharing: bit 0, several controllers may have the namespace.
    pub sharing: u8,
    /// Fields not in use.
    pub reserved31: [u8; 73],
    /// Identifier of 16 bytes.
    pub nguid: [u8; 16],
    /// Identifier of 8 bytes.
    pub eui64: [u8; 8],
    /// Formats: metadata bytes, block size as a power of two, performance.
    pub block_format: [u8; 4],
    /// Other formats and fields not in use.
    pub reserved132: [u8; 3964],
}

const _: () = assert!(size_of::<BlockNamespace>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(BlockNamespace, sharing) == 30);
const _: () = assert!(offset_of!(BlockNamespace, nguid) == 104);
const _: () = assert!(offset_of!(BlockNamespace, block_format) == 128);

/// Identify Namespace apart from command sets.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AnyNamespace {
    /// Features.
    pub features: u8,
    /// Sharing: bit 0, several controllers may have the namespace.
    pub sharing: u8,
    /// Fields not in use.
    pub reserved2: [u8; 12],
    /// Status: bit 0, the namespace is ready.
    pub status: u8,
    /// Fields not in use.
    pub reserved15: [u8; 4081],
}

const _: () = assert!(size_of::<AnyNamespace>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(AnyNamespace, status) == 14);

/// Identifiers of a namespace, one after another.
#[derive(Debug)]
pub struct Descriptors {
    bytes: [u8; IDENTIFY_BYTES],
    end: usize,
}

/// Kinds of identifiers.
pub mod descriptor {
    /// IEEE identifier of 16 bytes.
    pub const NGUID: u8 = 2;
    /// UUID.
    pub const UUID: u8 = 3;
    /// Command set.
    pub const COMMAND_SET: u8 = 4;
}

impl Default for Descriptors {
    fn default() -> Self {
        Descriptors {
            bytes: [0; IDENTIFY_BYTES],
            end: 0,
        }
    }
}

impl Descriptors {
    /// Adds an identifier.
    pub fn push(&mut self, kind: u8, identifier: &[u8]) {
        let entry = &mut self.bytes[self.end..][..4 + identifier.len()];
        entry[0] = kind;
        entry[1] = identifier.len() as u8;
        entry[4..].copy_from_slice(identifier);
        self.end += 4 + identifier.len();
    }

    /// Returns the structure's bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.to_vec()
    }
}

/// Iterates over the identifiers of a structure: kind and bytes.
pub fn descriptors(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (&kind, &length) = (rest.first()?, rest.get(1)?);
        let identifier = rest.get(4..4 + usize::from(length))?;
        rest = &rest[4 + identifier.len()..];
        (length > 0).then_some((kind, identifier))
    })
}

/// Returns the structure of a list of namespace numbers: those above `after`, in ascending order.
pub fn namespace_list(numbers: impl Iterator<Item = u32>, after: u32) -> Vec<u8> {
    let mut numbers: Vec<u32> = numbers.filter(|&number| number > after).collect();
    numbers.sort_unstable();
    let mut bytes: Vec<u8> = numbers
        .iter()
        .take(IDENTIFY_BYTES / 4)
        .flat_map(|number| number.to_le_bytes())
        .collect();
    bytes.resize(IDENTIFY_BYTES, 0);
    bytes
}

/// Returns an empty structure.
pub fn empty<T: FromZeros>() -> T {
    T::new_zeroed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_read_as_written() {
        let mut written = Descriptors::default();
        written.push(descriptor::UUID, &[7; 16]);
        written.push(descriptor::COMMAND_SET, &[1]);
        let bytes = written.into_bytes();
        let read: Vec<_> = descriptors(&bytes).collect();
        assert_eq!(read, [(3, &[7; 16][..]), (4, &[1][..])]);
        assert_eq!(descriptors(&[3, 16, 0, 0, 1]).count(), 0);
    }

    #[test]
    fn a_list_begins_behind_the_number_asked_for() {
        let bytes = namespace_list([5, 1, 3].into_iter(), 1);
        assert_eq!(bytes[..12], [3, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes.len(), IDENTIFY_BYTES);
    }
}
