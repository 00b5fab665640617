//! The bytes of a cache file; docs/formats.md has each of them.
//!
//! Nothing that is read here is believed before its checksum, and no fault is an error. A reader finds no entry then,
//! and goes to the table.

use terrace_lsm::coding::Decoder;
use terrace_lsm::table::copies::CopiedBlock;
use terrace_region::{FRONT_BYTES, Front};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed, xxh3_128};

use crate::options::MIN_CACHE_BYTES;

const FRONT: Front = Front {
    magic: *b"TerrCach",
    version: 1,
};

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 72;
/// Offset of the first segment: segments begin where pages do.
pub(super) const FIRST_SEGMENT: u64 = 4096;
/// Bytes of the head of a segment.
pub(super) const HEAD_BYTES: usize = 32;
/// Bytes of an item in a segment's list.
pub(super) const ITEM_BYTES: usize = 24;
/// Bytes of an entry before its block.
pub(super) const ENTRY_BYTES: usize = 48;
/// The kind of an entry with a block of a table; 0 is never valid.
const BLOCK: u32 = 1;

const _: () = assert!(HEADER_BYTES == FRONT_BYTES + 16 + 16 + 8 + 8 + 8);
const _: () = assert!(HEADER_BYTES as u64 <= FIRST_SEGMENT);
const _: () = assert!(HEAD_BYTES == 8 + 4 + 4 + 8 + 8);
const _: () = assert!(ITEM_BYTES == 8 + 8 + 4 + 4);
const _: () = assert!(ENTRY_BYTES == 16 + 8 + 8 + 4 + 4 + 8);

const MIN_SEGMENT_BYTES: u64 = 16 << 10;
const MAX_SEGMENT_BYTES: u64 = 4 << 20;
/// The largest number of a segment; a larger one leaves no room for the next.
const MAX_SEQUENCE: u64 = 1 << 56;
/// Number of segments up to which they have their smallest size.
const USUAL_SEGMENTS: u64 = 64;

/// The division of the file into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// A multiple of the page size.
    pub(super) segment_bytes: u64,
    /// At least four.
    pub(super) segments: u64,
}

impl Geometry {
    /// Returns the division of a file of at most `cache_bytes`. A segment is a small part of the file, since one
    /// at a time is emptied.
    pub(super) fn of(cache_bytes: u64) -> Geometry {
        let segment_bytes = cache_bytes / USUAL_SEGMENTS / FIRST_SEGMENT * FIRST_SEGMENT;
        let segment_bytes = segment_bytes.clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        let segments = cache_bytes.saturating_sub(FIRST_SEGMENT) / segment_bytes;
        Geometry {
            segment_bytes,
            segments,
        }
    }

    /// Returns the length of the file when all segments are full.
    pub(super) fn file_bytes(self) -> u64 {
        FIRST_SEGMENT + self.segments * self.segment_bytes
    }

    /// Returns the offset of a segment in the file.
    pub(super) fn offset_of(self, segment: u32) -> u64 {
        FIRST_SEGMENT + u64::from(segment) * self.segment_bytes
    }

    /// Returns whether a block may be kept: one that takes more than a quarter of a segment would empty too much.
    pub(super) fn takes(self, block_bytes: u64) -> bool {
        block_bytes > 0 && block_bytes.saturating_add(ENTRY_BYTES as u64) <= self.segment_bytes / 4
    }
}

/// Whose a cache file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) store_id: u128,
    /// As in the file `TIER`; 0 for the store's own directory.
    pub(super) tier_id: u128,
}

/// Returns the header of a file.
pub(super) fn encode_header(owner: Owner, geometry: Geometry) -> Vec<u8> {
    let mut bytes = FRONT.encode().to_vec();
    bytes.extend(owner.store_id.to_le_bytes());
    bytes.extend(owner.tier_id.to_le_bytes());
    bytes.extend(geometry.segment_bytes.to_le_bytes());
    bytes.extend(geometry.segments.to_le_bytes());
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// Returns whether a file is an owner's, of this format and division.
pub(super) fn is_header_of(bytes: &[u8], owner: Owner, geometry: Geometry) -> bool {
    bytes == encode_header(owner, geometry)
}

/// Returns whether a file is none of a cache, by its begin. A crash may leave one of ours empty, or with zeros.
pub(super) fn is_foreign(bytes: &[u8]) -> bool {
    let begin = bytes.get(..FRONT.magic.len()).unwrap_or(bytes);
    !FRONT.magic.starts_with(begin) && begin.iter().any(|byte| *byte != 0)
}

/// The head of a whole segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Rises with each segment that is begun; never 0.
    pub(super) sequence: u64,
    /// Position of the list in the segment: the end of the entries.
    pub(super) list_position: u32,
    /// Number of entries; never 0.
    pub(super) entries: u32,
    /// Checksum of the list.
    pub(super) list_checksum: u64,
}

impl Head {
    /// Returns the bytes of a head at an offset of the file.
    pub(super) fn encode(self, offset: u64) -> Vec<u8> {
        let mut bytes = self.sequence.to_le_bytes().to_vec();
        bytes.extend(self.list_position.to_le_bytes());
        bytes.extend(self.entries.to_le_bytes());
        bytes.extend(self.list_checksum.to_le_bytes());
        bytes.extend(xxh3_64_with_seed(&bytes, offset).to_le_bytes());
        bytes
    }

    /// Returns the head at an offset, if it is whole and its list lies inside the segment.
    pub(super) fn decode(bytes: &[u8], offset: u64, geometry: Geometry) -> Option<Head> {
        let (covered, checksum) = bytes.get(..HEAD_BYTES)?.split_last_chunk::<8>()?;
        if u64::from_le_bytes(*checksum) != xxh3_64_with_seed(covered, offset) {
            return None;
        }
        let mut rest = Decoder::new(covered);
        let head = Head {
            sequence: rest.u64()?,
            list_position: take_u32(&mut rest)?,
            entries: take_u32(&mut rest)?,
            list_checksum: rest.u64()?,
        };
        let is_inside =
            head.list_position as usize >= HEAD_BYTES && head.end_bytes() <= geometry.segment_bytes;
        let is_number = (1..=MAX_SEQUENCE).contains(&head.sequence);
        (is_number && head.entries > 0 && is_inside).then_some(head)
    }

    /// Returns the position behind the list.
    pub(super) fn end_bytes(&self) -> u64 {
        u64::from(self.list_position) + u64::from(self.entries) * ITEM_BYTES as u64
    }
}

/// An entry of a segment, as the segment's list has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The hash of its key.
    pub(super) hash: u64,
    /// The number of its table; never 0.
    pub(super) table: u64,
    /// Its position in the segment.
    pub(super) position: u32,
    /// The length of its block; never 0.
    pub(super) block_bytes: u32,
}

impl Item {
    /// Returns the bytes of the whole entry.
    pub(super) fn entry_bytes(&self) -> u64 {
        ENTRY_BYTES as u64 + u64::from(self.block_bytes)
    }
}

/// Returns the bytes of a list.
pub(super) fn encode_list(items: &[Item]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(items.len() * ITEM_BYTES);
    for item in items {
        bytes.extend(item.hash.to_le_bytes());
        bytes.extend(item.table.to_le_bytes());
        bytes.extend(item.position.to_le_bytes());
        bytes.extend(item.block_bytes.to_le_bytes());
    }
    bytes
}

/// Returns the checksum of a list at an offset of the file.
pub(super) fn list_checksum(list: &[u8], offset: u64) -> u64 {
    xxh3_64_with_seed(list, offset)
}

/// Returns the list that a head tells of, if it is whole. `offset` is the list's in the file.
pub(super) fn decode_list(head: &Head, list: &[u8], offset: u64) -> Option<Vec<Item>> {
    let is_whole = list.len() == head.entries as usize * ITEM_BYTES
        && list_checksum(list, offset) == head.list_checksum;
    if !is_whole {
        return None;
    }
    let items = list.chunks_exact(ITEM_BYTES).map(|bytes| {
        let mut rest = Decoder::new(bytes);
        let item = Item {
            hash: rest.u64()?,
            table: rest.u64()?,
            position: take_u32(&mut rest)?,
            block_bytes: take_u32(&mut rest)?,
        };
        let end = u64::from(item.position) + item.entry_bytes();
        let is_inside =
            item.position as usize >= HEAD_BYTES && end <= u64::from(head.list_position);
        (item.table > 0 && item.block_bytes > 0 && is_inside).then_some(item)
    });
    items.collect()
}

/// The name of a block in one store: its table and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// A hash of the store's number and of all that is known of the table.
    pub(super) fingerprint: u128,
    pub(super) table: u64,
    pub(super) offset: u64,
}

impl Key {
    /// Returns the key of a block in a store.
    pub(super) fn of(store_id: u128, block: &CopiedBlock) -> Key {
        let table = &block.table;
        let mut bytes = [0; 48];
        let fields = [
            &store_id.to_le_bytes()[..],
            &table.identity.to_le_bytes(),
            &table.number.to_le_bytes(),
            &table.file_bytes.to_le_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        Key {
            fingerprint: xxh3_128(&bytes),
            table: table.number,
            offset: block.offset,
        }
    }

    /// Returns the hash by which index and sketch know the key.
    pub(super) fn hash(&self) -> u64 {
        xxh3_64_with_seed(&self.fingerprint.to_le_bytes(), self.offset)
    }
}

/// Appends an entry to bytes that begin at a place of the file. `at` is the entry's own place.
pub(super) fn encode_entry(bytes: &mut Vec<u8>, key: &Key, block: &[u8], at: u64) {
    let begin = bytes.len();
    bytes.extend(key.fingerprint.to_le_bytes());
    bytes.extend(key.table.to_le_bytes());
    bytes.extend(key.offset.to_le_bytes());
    bytes.extend((block.len() as u32).to_le_bytes());
    bytes.extend(BLOCK.to_le_bytes());
    let head = bytes.get(begin..).unwrap_or_default();
    let checksum = entry_checksum(head, block, at);
    bytes.extend(checksum.to_le_bytes());
    bytes.extend(block);
}

fn entry_checksum(head: &[u8], block: &[u8], at: u64) -> u64 {
    let mut hasher = Xxh3::with_seed(at);
    hasher.update(head);
    hasher.update(block);
    hasher.digest()
}

/// Returns the key and the block of an entry, if it is whole. `at` is its place in the file.
pub(super) fn decode_entry(bytes: &[u8], at: u64) -> Option<(Key, &[u8])> {
    let (head, block) = bytes.split_at_checked(ENTRY_BYTES)?;
    let (covered, checksum) = head.split_last_chunk::<8>()?;
    let mut rest = Decoder::new(covered);
    let fingerprint = u128::from(rest.u64()?) | u128::from(rest.u64()?) << 64;
    let key = Key {
        fingerprint,
        table: rest.u64()?,
        offset: rest.u64()?,
    };
    let (length, kind) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
    let is_whole = kind == BLOCK
        && length as usize == block.len()
        && u64::from_le_bytes(*checksum) == entry_checksum(covered, block, at);
    is_whole.then_some((key, block))
}

fn take_u32(rest: &mut Decoder<'_>) -> Option<u32> {
    let bytes: [u8; 4] = rest.take(4)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}

/// Reads `bytes` as a cache file of the smallest size, for fuzzers: accepted parts are those that would be
/// written.
pub fn fuzz_cache(bytes: &[u8]) {
    let geometry = Geometry::of(MIN_CACHE_BYTES);
    for segment in 0..geometry.segments as u32 {
        let at = geometry.offset_of(segment);
        let segment = bytes.get(at as usize..).unwrap_or_default();
        let Some(head) = Head::decode(segment, at, geometry) else {
            continue;
        };
        assert_eq!(
            head.encode(at),
            segment.get(..HEAD_BYTES).unwrap_or_default()
        );
        let list_at = at + u64::from(head.list_position);
        let list = segment.get(head.list_position as usize..head.end_bytes() as usize);
        let items = list.and_then(|list| decode_list(&head, list, list_at));
        for item in items.unwrap_or_default() {
            let begin = item.position as usize;
            let entry = segment.get(begin..begin + item.entry_bytes() as usize);
            let entry = entry.unwrap_or_default();
            let place = at + u64::from(item.position);
            if let Some((key, block)) = decode_entry(entry, place) {
                let mut again = Vec::new();
                encode_entry(&mut again, &key, block, place);
                assert_eq!(again, entry, "{key:?}");
            }
        }
    }
    // A fuzzer finds no checksum: parts at the beginning are tried as they are.
    let _ = decode_entry(bytes, 0);
    let _ = Head::decode(bytes, FIRST_SEGMENT, geometry);
    let head = Head {
        sequence: 1,
        list_position: geometry.segment_bytes as u32 / 2,
        entries: (bytes.len() / ITEM_BYTES) as u32,
        list_checksum: list_checksum(bytes, 0),
    };
    let items = decode_list(&head, bytes, 0).unwrap_or_default();
    assert!(items.is_empty() || encode_list(&items) == bytes);
}

#[cfg(test)]
mod tests;
