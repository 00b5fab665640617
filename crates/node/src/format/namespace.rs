//! Descriptions of namespaces, as a superblock holds them.

use std::mem::offset_of;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::{Extent, MAX_EXTENTS};
use crate::format::checkpoint::slot_blocks;
use crate::format::extents::{Bounds, Fault};
use crate::format::location::SEGMENT_BLOCKS;
use crate::format::value::MAX_VALUE_BYTES;
use crate::format::{MAX_DEVICE_BLOCKS, is_zero};

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 32;
/// The most keys that a namespace may be made for.
pub const MAX_KEYS: u64 = 1 << 40;
/// The smallest journal: two blocks of a ring.
pub const MIN_JOURNAL_BLOCKS: u64 = 2;
/// The smallest data: one segment.
pub const MIN_DATA_BLOCKS: u64 = SEGMENT_BLOCKS;

/// The contents of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Keys with values, found by hash.
    Keys = 1,
    /// Blocks, read and written by number.
    Blocks = 2,
}

/// The failures that an acknowledged store survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Domain {
    /// A power cut.
    PowerSafe = 1,
    /// The death of the process.
    CrashSafe = 2,
}

/// The fate of a store when its namespace is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WhenFull {
    /// It is refused.
    Refuse = 1,
    /// Keys that were not used for long make room.
    Evict = 2,
}

/// A namespace: its properties, and the places of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Number of the namespace, 1 to 2^32 - 2.
    pub nsid: u32,
    /// Its contents.
    pub kind: Kind,
    /// The failures that its stores survive.
    pub domain: Domain,
    /// The fate of a store when it is full.
    pub when_full: WhenFull,
    /// Globally unique identifier, for hosts.
    pub nguid: [u8; 16],
    /// UUID, for hosts.
    pub uuid: [u8; 16],
    /// Random number that seeds hashes and checksums.
    pub secret: u64,
    /// All blocks of the namespace.
    pub whole: Extent,
    /// The ring of journal blocks; [`NO_EXTENT`] in a namespace of blocks.
    pub journal: Extent,
    /// The slots of checkpoints; [`NO_EXTENT`] in a namespace of blocks.
    pub checkpoints: [Extent; 2],
    /// The blocks of values.
    pub data: Extent,
    /// The most keys; 0 in a namespace of blocks.
    pub max_keys: u64,
    /// The largest value; 0 in a namespace of blocks.
    pub max_value_bytes: u32,
    /// Name of 1 to 32 bytes, without zeros.
    pub name: String,
}

/// The parts that a namespace of blocks does not have.
pub const NO_EXTENT: Extent = Extent {
    start: 0,
    blocks: 0,
};

/// A description on the device.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DescriptionBytes {
    nsid: U32,
    kind: u8,
    domain: u8,
    when_full: u8,
    zero: u8,
    nguid: [u8; 16],
    uuid: [u8; 16],
    secret: U64,
    /// Whole, journal, two slots, data: first block and number of blocks.
    extents: [[U64; 2]; 5],
    max_keys: U64,
    max_value_bytes: U32,
    zeros: [u8; 4],
    name: [u8; MAX_NAME_BYTES],
    more_zeros: [u8; 16],
}

const _: () = assert!(size_of::<DescriptionBytes>() == 192);
const _: () = assert!(offset_of!(DescriptionBytes, nguid) == 8);
const _: () = assert!(offset_of!(DescriptionBytes, secret) == 40);
const _: () = assert!(offset_of!(DescriptionBytes, extents) == 48);
const _: () = assert!(offset_of!(DescriptionBytes, max_keys) == 128);
const _: () = assert!(offset_of!(DescriptionBytes, name) == 144);

impl Description {
    /// Returns the limits that locations of values must keep.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            data: self.data,
            max_value_bytes: self.max_value_bytes,
        }
    }

    /// Returns the most extents of values that have several. A slot of a checkpoint has room for one more
    /// extent of each eighth key; the smallest namespace takes a value of the most extents.
    pub fn max_extra_extents(&self) -> u64 {
        (self.max_keys / 8).max(MAX_EXTENTS as u64)
    }

    /// Returns the bytes of the description.
    pub(super) fn encode(&self) -> DescriptionBytes {
        let [slot_0, slot_1] = self.checkpoints;
        let extents = [self.whole, self.journal, slot_0, slot_1, self.data];
        let mut name = [0; MAX_NAME_BYTES];
        for (to, from) in name.iter_mut().zip(self.name.bytes()) {
            *to = from;
        }
        DescriptionBytes {
            nsid: self.nsid.into(),
            kind: self.kind as u8,
            domain: self.domain as u8,
            when_full: self.when_full as u8,
            zero: 0,
            nguid: self.nguid,
            uuid: self.uuid,
            secret: self.secret.into(),
            extents: extents.map(|extent| [extent.start.into(), extent.blocks.into()]),
            max_keys: self.max_keys.into(),
            max_value_bytes: self.max_value_bytes.into(),
            zeros: [0; 4],
            name,
            more_zeros: [0; 16],
        }
    }

    /// Reads a description and checks all of it that concerns no other namespace.
    pub(super) fn decode(bytes: &DescriptionBytes, device_blocks: u64) -> Result<Self, Fault> {
        let zeros = [&[bytes.zero][..], &bytes.zeros, &bytes.more_zeros];
        if !zeros.into_iter().all(is_zero) {
            return Err("the padding of a namespace's description is not zero");
        }
        let mut extents = [NO_EXTENT; 5];
        for (to, [start, blocks]) in extents.iter_mut().zip(bytes.extents) {
            *to = extent(start.get(), blocks.get())?;
        }
        let [whole, journal, slot_0, slot_1, data] = extents;
        let description = Description {
            nsid: bytes.nsid.into(),
            kind: kind(bytes.kind)?,
            domain: domain(bytes.domain)?,
            when_full: when_full(bytes.when_full)?,
            nguid: bytes.nguid,
            uuid: bytes.uuid,
            secret: bytes.secret.into(),
            whole,
            journal,
            checkpoints: [slot_0, slot_1],
            data,
            max_keys: bytes.max_keys.into(),
            max_value_bytes: bytes.max_value_bytes.into(),
            name: name(&bytes.name)?,
        };
        description.check(device_blocks)?;
        Ok(description)
    }

    /// Checks all that concerns no other namespace.
    pub(super) fn check(&self, device_blocks: u64) -> Result<(), Fault> {
        if self.nsid == 0 || self.nsid == u32::MAX {
            return Err("the number of a namespace is illegal");
        }
        if !is_name(&self.name) {
            return Err("the name of a namespace is illegal");
        }
        let whole = self.whole;
        if whole.blocks == 0 || whole.start == 0 || whole.end() >= device_blocks {
            return Err("a namespace is not between the superblocks");
        }
        match self.kind {
            Kind::Keys => self.check_keys(),
            Kind::Blocks => self.check_blocks(),
        }
    }

    fn check_keys(&self) -> Result<(), Fault> {
        let [slot_0, slot_1] = self.checkpoints;
        let parts = [self.journal, slot_0, slot_1, self.data];
        for (index, part) in parts.iter().enumerate() {
            let is_inside = part.start >= self.whole.start && part.end() <= self.whole.end();
            let mut before = parts.iter().take(index);
            if !is_inside || before.any(|other| other.overlaps(*part)) {
                return Err("a part of a namespace is outside of it, or in another part");
            }
        }
        if !(1..=MAX_KEYS).contains(&self.max_keys) {
            return Err("the number of keys of a namespace is illegal");
        }
        if !(1..=MAX_VALUE_BYTES).contains(&self.max_value_bytes) {
            return Err("the largest value of a namespace is illegal");
        }
        let slot = slot_blocks(self.max_keys);
        let least = [MIN_JOURNAL_BLOCKS, slot, slot, MIN_DATA_BLOCKS];
        let mut sizes = parts.iter().zip(least);
        if sizes.any(|(part, least)| part.blocks < least) {
            return Err("a part of a namespace is too small");
        }
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), Fault> {
        let has_parts = self.journal != NO_EXTENT || self.checkpoints != [NO_EXTENT; 2];
        if has_parts || self.data != self.whole || self.when_full != WhenFull::Refuse {
            return Err("a namespace of blocks has parts");
        }
        if self.max_keys != 0 || self.max_value_bytes != 0 {
            return Err("a namespace of blocks has keys");
        }
        Ok(())
    }
}

/// Returns whether `name` may be the name of a namespace.
pub(super) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains('\0')
}

fn name(bytes: &[u8; MAX_NAME_BYTES]) -> Result<String, Fault> {
    let own = bytes.iter().take_while(|&&byte| byte != 0).count();
    let (own, padding) = bytes.split_at(own);
    let name = str::from_utf8(own).map_err(|_| "the name of a namespace is not UTF-8")?;
    if !is_zero(padding) {
        return Err("the name of a namespace is illegal");
    }
    Ok(name.to_owned())
}

fn extent(start: u64, blocks: u64) -> Result<Extent, Fault> {
    let end = start.checked_add(blocks);
    if end.is_none_or(|end| end > MAX_DEVICE_BLOCKS) {
        return Err("an extent of a namespace ends behind the largest device");
    }
    Ok(Extent { start, blocks })
}

fn kind(byte: u8) -> Result<Kind, Fault> {
    match byte {
        1 => Ok(Kind::Keys),
        2 => Ok(Kind::Blocks),
        _ => Err("the kind of a namespace is unknown"),
    }
}

fn domain(byte: u8) -> Result<Domain, Fault> {
    match byte {
        1 => Ok(Domain::PowerSafe),
        2 => Ok(Domain::CrashSafe),
        _ => Err("the domain of a namespace is unknown"),
    }
}

fn when_full(byte: u8) -> Result<WhenFull, Fault> {
    match byte {
        1 => Ok(WhenFull::Refuse),
        2 => Ok(WhenFull::Evict),
        _ => Err("it is unknown what a namespace does when it is full"),
    }
}
