//! Scatter-gather descriptors: on fabrics a command has one (Base Specification, section 4.3.2).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A descriptor.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Sgl {
    /// Address or offset.
    pub address: U64,
    /// Bytes.
    pub bytes: U32,
    /// Zeros.
    pub reserved: [u8; 3],
    /// Type in the upper half, subtype in the lower.
    pub kind: u8,
}

const _: () = assert!(size_of::<Sgl>() == 16);

/// Data block by offset: the data are in the capsule.
pub const IN_CAPSULE: u8 = 0x01;
/// Transport data block: the data move by PDUs of their own.
pub const TRANSPORT: u8 = 0x5a;

impl Sgl {
    /// Makes a descriptor of `bytes` bytes.
    pub fn new(kind: u8, bytes: u32) -> Self {
        Sgl {
            address: U64::ZERO,
            bytes: bytes.into(),
            reserved: [0; 3],
            kind,
        }
    }
}
