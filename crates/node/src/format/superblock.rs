//! The superblock: the device's identity, and its namespaces.

use std::mem::offset_of;

use rand::{Rng, RngExt};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::{BLOCK_BYTES, Buffer};
use crate::device::{NODE_MAGIC, NODE_MAGIC_OFFSET};
use crate::error::{Error, Result};
use crate::format::extents::Fault;
use crate::format::layout::{NamespaceRequest, as_uuid, layout};
use crate::format::namespace::{Description, DescriptionBytes};
use crate::format::sum;
use crate::format::{MAX_DEVICE_BLOCKS, is_zero};

/// The most namespaces of a device.
pub const MAX_NAMESPACES: usize = 16;
/// The version of the device's format.
pub const VERSION: u32 = 1;

/// Place and meaning of `checksum`, `magic` and `version` are frozen for all formats to come.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SuperblockBytes {
    checksum: U64,
    magic: [u8; 8],
    version: U32,
    count: U32,
    device_blocks: U64,
    uuid: [u8; 16],
    zeros: [u8; 16],
    namespaces: [DescriptionBytes; MAX_NAMESPACES],
    more_zeros: [u8; 960],
}

const DESCRIPTIONS_OFFSET: u64 = offset_of!(SuperblockBytes, namespaces) as u64;

const _: () = assert!(size_of::<SuperblockBytes>() == BLOCK_BYTES);
const _: () = assert!(offset_of!(SuperblockBytes, checksum) == 0);
const _: () = assert!(offset_of!(SuperblockBytes, magic) == NODE_MAGIC_OFFSET);
const _: () = assert!(offset_of!(SuperblockBytes, version) == 16);
const _: () = assert!(offset_of!(SuperblockBytes, device_blocks) == 24);
const _: () = assert!(DESCRIPTIONS_OFFSET == 64);

/// The content of the first and the last block of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// UUID of the device.
    pub uuid: [u8; 16],
    /// Size of the device when it was divided.
    pub device_blocks: u64,
    /// The namespaces, 16 at most.
    pub namespaces: Vec<Description>,
}

impl Superblock {
    /// Divides a device of `device_blocks`, and gives it random numbers.
    ///
    /// # Errors
    /// A request is illegal, or the device is too small.
    pub fn new(
        device_blocks: u64,
        requests: &[NamespaceRequest],
        random: &mut impl Rng,
    ) -> Result<Self> {
        Ok(Superblock {
            namespaces: layout(device_blocks, requests, random)?,
            uuid: as_uuid(random.random()),
            device_blocks,
        })
    }

    /// Returns the bytes of the copy in `block_number`: 0, or the last block.
    pub fn encode(&self, block_number: u64) -> Buffer {
        debug_assert_eq!(self.fault(), None);
        let mut block = SuperblockBytes::new_zeroed();
        block.magic = NODE_MAGIC;
        block.version = VERSION.into();
        block.count = U32::new(self.namespaces.len() as u32);
        block.device_blocks = self.device_blocks.into();
        block.uuid = self.uuid;
        for (to, namespace) in block.namespaces.iter_mut().zip(&self.namespaces) {
            *to = namespace.encode();
        }
        let mut buffer = Buffer::zeroed(1);
        buffer.copy_from_slice(block.as_bytes());
        sum::seal(&mut buffer, |rest| xxh3_64_with_seed(rest, block_number));
        buffer
    }

    /// Reads the copy in `block_number` of a device that has `device_blocks`.
    ///
    /// # Errors
    /// The copy is damaged, of another release, or of a larger device.
    pub fn decode(bytes: &[u8], block_number: u64, device_blocks: u64) -> Result<Superblock> {
        let offset = block_number.saturating_mul(BLOCK_BYTES as u64);
        let damaged = |at, what: &str| Error::damaged(offset.saturating_add(at), what);
        let (block, _) = SuperblockBytes::ref_from_prefix(bytes)
            .map_err(|_| damaged(0, "a superblock is cut off"))?;
        if block.magic != NODE_MAGIC {
            return Err(damaged(0, "there is no superblock of a storage node"));
        }
        let sum = |rest: &[u8]| xxh3_64_with_seed(rest, block_number);
        if sum::checked(block.as_bytes(), sum).is_none() {
            return Err(damaged(0, "the checksum of a superblock is wrong"));
        }
        if block.version != VERSION {
            let version = block.version;
            let what = format!("format version {version}; this release reads version {VERSION}");
            return Err(Error::Unsupported { offset, what });
        }
        let recorded = block.device_blocks.get();
        if recorded > device_blocks {
            let what = format!("the device had {recorded} blocks and has {device_blocks}");
            return Err(damaged(0, &what));
        }
        let mut namespaces = Vec::new();
        let count = block.count.get() as usize;
        if count > MAX_NAMESPACES {
            return Err(damaged(0, "a superblock has too many namespaces"));
        }
        for (index, description) in block.namespaces.iter().enumerate() {
            let at = DESCRIPTIONS_OFFSET + (index * size_of::<DescriptionBytes>()) as u64;
            if index < count {
                let decoded = Description::decode(description, recorded);
                namespaces.push(decoded.map_err(|what| damaged(at, what))?);
            } else if !is_zero(description.as_bytes()) {
                return Err(damaged(at, "a superblock has bytes behind its namespaces"));
            }
        }
        let superblock = Superblock {
            uuid: block.uuid,
            device_blocks: recorded,
            namespaces,
        };
        let is_padded = is_zero(&block.zeros) && is_zero(&block.more_zeros);
        let is_place = block_number == 0 || block_number.checked_add(1) == Some(recorded);
        match superblock.fault() {
            Some(what) => Err(damaged(0, what)),
            None if !is_padded => Err(damaged(0, "the padding of a superblock is not zero")),
            None if !is_place => Err(damaged(0, "a superblock is not in its place")),
            None => Ok(superblock),
        }
    }

    /// Returns the fault, if there is one.
    fn fault(&self) -> Option<Fault> {
        let namespaces = &self.namespaces;
        if self.device_blocks > MAX_DEVICE_BLOCKS || namespaces.len() > MAX_NAMESPACES {
            return Some("a superblock has an illegal size");
        }
        for (index, one) in namespaces.iter().enumerate() {
            if let Err(what) = one.check(self.device_blocks) {
                return Some(what);
            }
            for other in namespaces.iter().take(index) {
                if one.nsid == other.nsid || one.name == other.name {
                    return Some("two namespaces have the same number or name");
                }
                if one.whole.overlaps(other.whole) {
                    return Some("two namespaces overlap");
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
