//! The division of a device into namespaces, and of a namespace into its parts.

use rand::{Rng, RngExt};

use crate::block::{BLOCK_BYTES, Extent};
use crate::error::{Error, Result};
use crate::format::MAX_DEVICE_BLOCKS;
use crate::format::checkpoint::slot_blocks;
use crate::format::location::SEGMENT_BLOCKS;
use crate::format::namespace::{
    Description, Domain, Kind, MAX_KEYS, MIN_DATA_BLOCKS, NO_EXTENT, WhenFull, is_name,
};
use crate::format::superblock::MAX_NAMESPACES;
use crate::format::value::MAX_VALUE_BYTES;

/// The largest value of a namespace whose request does not say it.
pub const DEFAULT_MAX_VALUE_BYTES: u32 = 32 << 20;

/// Blocks of data for each block of the journal.
const DATA_TO_JOURNAL: u64 = 32;
/// Blocks of the smallest and the largest journal: 256 KiB and 256 MiB.
const JOURNAL_BLOCKS: [u64; 2] = [64, 65_536];
/// The two superblocks.
const SUPERBLOCKS: u64 = 2;
/// Data begins at a multiple of this, so that segments can be aligned on the device.
const DATA_ALIGNMENT: u64 = SEGMENT_BLOCKS;

/// A namespace that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRequest {
    /// Its name, of 1 to 32 bytes.
    pub name: String,
    /// Its contents.
    pub kind: Kind,
    /// The failures that its stores survive.
    pub domain: Domain,
    /// The fate of a store when it is full.
    pub when_full: WhenFull,
    /// Bytes of the device, journal and checkpoints included; none takes the rest.
    pub bytes: Option<u64>,
    /// The most keys; none is as many as the data has blocks.
    pub max_keys: Option<u64>,
    /// The largest value.
    pub max_value_bytes: u32,
}

impl NamespaceRequest {
    /// Asks for keys in the rest of the device, power-safe, refusing stores when full.
    pub fn new(name: impl Into<String>) -> Self {
        NamespaceRequest {
            name: name.into(),
            kind: Kind::Keys,
            domain: Domain::PowerSafe,
            when_full: WhenFull::Refuse,
            bytes: None,
            max_keys: None,
            max_value_bytes: DEFAULT_MAX_VALUE_BYTES,
        }
    }

    /// Returns the blocks that are enough for the namespace, wherever it begins.
    fn least_blocks(&self) -> u64 {
        match self.kind {
            Kind::Blocks => 1,
            Kind::Keys => DATA_ALIGNMENT - 1 + self.data_end(0, MIN_DATA_BLOCKS),
        }
    }

    /// Returns the end of `data` blocks of data in a namespace that begins at `start`.
    fn data_end(&self, start: u64, data: u64) -> u64 {
        let slot = slot_blocks(self.max_keys.unwrap_or(data));
        let before = start + journal_blocks(data) + 2 * slot;
        before.next_multiple_of(DATA_ALIGNMENT) + data
    }

    fn check(&self) -> Result<()> {
        let name = &self.name;
        let refuse = |what: &str| {
            let message = format!("namespace {name:?}: {what}");
            Err(Error::InvalidArgument(message))
        };
        if !is_name(name) {
            return refuse("a name has 1 to 32 bytes, none of them zero");
        }
        if self.bytes.is_some_and(|bytes| bytes < BLOCK_BYTES as u64) {
            return refuse("a namespace has at least one block of 4096 bytes");
        }
        if self.kind == Kind::Blocks {
            return match (self.max_keys, self.when_full) {
                (None, WhenFull::Refuse) => Ok(()),
                _ => refuse("a namespace of blocks has no keys to count or evict"),
            };
        }
        if !(1..=MAX_KEYS).contains(&self.max_keys.unwrap_or(1)) {
            return refuse("the number of keys is 1 to 2^40");
        }
        if !(1..=MAX_VALUE_BYTES).contains(&self.max_value_bytes) {
            return refuse("the largest value is 1 byte to 256 MiB");
        }
        Ok(())
    }
}

/// Divides a device of `device_blocks` among namespaces, in the order of the requests.
///
/// # Errors
/// A request is illegal, or the device is too small for them; the error gives the size needed.
pub fn layout(
    device_blocks: u64,
    requests: &[NamespaceRequest],
    random: &mut impl Rng,
) -> Result<Vec<Description>> {
    let sizes = sizes(device_blocks, requests)?;
    let mut start = 1;
    let mut descriptions = Vec::new();
    for (index, (request, blocks)) in requests.iter().zip(sizes).enumerate() {
        let whole = Extent { start, blocks };
        start = whole.end();
        descriptions.push(divide(index as u32 + 1, whole, request, random));
    }
    Ok(descriptions)
}

/// Returns the blocks of each namespace.
fn sizes(device_blocks: u64, requests: &[NamespaceRequest]) -> Result<Vec<u64>> {
    let refuse = |what: String| Err(Error::InvalidArgument(what));
    if requests.len() > MAX_NAMESPACES || device_blocks > MAX_DEVICE_BLOCKS {
        return refuse("a device has at most 16 namespaces and 2^40 blocks".into());
    }
    let mut needed = SUPERBLOCKS;
    for (index, request) in requests.iter().enumerate() {
        request.check()?;
        let mut before = requests.iter().take(index);
        let is_second = |other: &NamespaceRequest| {
            other.name == request.name || (other.bytes.is_none() && request.bytes.is_none())
        };
        if before.any(is_second) {
            return refuse("two namespaces have one name, or both want the rest".into());
        }
        let (name, least) = (&request.name, request.least_blocks());
        let blocks = request.bytes.map(|bytes| bytes / BLOCK_BYTES as u64);
        if blocks.is_some_and(|blocks| blocks < least) {
            let bytes = least * BLOCK_BYTES as u64;
            return refuse(format!("namespace {name:?} needs at least {bytes} bytes"));
        }
        needed += blocks.unwrap_or(least);
    }
    if needed > device_blocks {
        let bytes = |blocks: u64| u128::from(blocks) * BLOCK_BYTES as u128;
        let (needed, has) = (bytes(needed), bytes(device_blocks));
        return refuse(format!(
            "the namespaces need {needed} bytes, the device has {has}"
        ));
    }
    let rest = device_blocks - needed;
    let size = |request: &NamespaceRequest| match request.bytes {
        Some(bytes) => bytes / BLOCK_BYTES as u64,
        None => request.least_blocks() + rest,
    };
    Ok(requests.iter().map(size).collect())
}

/// Divides one namespace into its parts: the most data that leaves room for the others.
fn divide(
    nsid: u32,
    whole: Extent,
    request: &NamespaceRequest,
    random: &mut impl Rng,
) -> Description {
    let mut description = Description {
        nsid,
        kind: request.kind,
        domain: request.domain,
        when_full: request.when_full,
        nguid: random.random(),
        uuid: as_uuid(random.random()),
        secret: random.random(),
        whole,
        journal: NO_EXTENT,
        checkpoints: [NO_EXTENT; 2],
        data: whole,
        max_keys: 0,
        max_value_bytes: 0,
        name: request.name.clone(),
    };
    if request.kind == Kind::Blocks {
        return description;
    }
    let fits = |data| request.data_end(whole.start, data) <= whole.end();
    let (mut data, mut too_many) = (MIN_DATA_BLOCKS, whole.blocks + 1);
    while too_many - data > 1 {
        let middle = data.midpoint(too_many);
        if fits(middle) {
            data = middle;
        } else {
            too_many = middle;
        }
    }
    let max_keys = request.max_keys.unwrap_or(data);
    let mut start = whole.start;
    let mut take = |blocks| {
        let extent = Extent { start, blocks };
        start = extent.end();
        extent
    };
    description.journal = take(journal_blocks(data));
    description.checkpoints = [take(slot_blocks(max_keys)), take(slot_blocks(max_keys))];
    description.data = Extent {
        start: start.next_multiple_of(DATA_ALIGNMENT),
        blocks: data,
    };
    description.max_keys = max_keys;
    description.max_value_bytes = request.max_value_bytes;
    description
}

/// Returns the blocks of the journal beside `data` blocks of data.
fn journal_blocks(data: u64) -> u64 {
    let [least, most] = JOURNAL_BLOCKS;
    (data / DATA_TO_JOURNAL).clamp(least, most)
}

/// Marks random bytes as a UUID of version 4.
pub(super) fn as_uuid(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

#[cfg(test)]
mod tests;
