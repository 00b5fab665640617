//! The bytes of an arena: its header and its frames, encoded and checked.
//!
//! `docs/formats.md` is the specification; the tests here hold both to each other.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use crate::front::{FRONT_BYTES, Front, FrontFault};

/// Bytes of an arena's header.
pub const HEADER_BYTES: usize = 80;
/// Where the first frame starts.
pub const FRAMES_START: usize = 4096;
/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 48;
/// Capacities are multiples of this.
pub const CAPACITY_STEP_BYTES: u64 = 4096;
/// The smallest arena: the header's page and one for frames.
pub const MIN_CAPACITY_BYTES: u64 = 2 * CAPACITY_STEP_BYTES;
/// The largest arena: every offset fits in 32 bits.
pub const MAX_CAPACITY_BYTES: u64 = (1 << 32) - CAPACITY_STEP_BYTES;

pub(crate) const FRONT: Front = Front {
    magic: *b"TERARENA",
    version: 2,
};
/// Frames start at multiples of this, so that the length word can be stored as one.
pub(crate) const FRAME_ALIGNMENT_BYTES: usize = 8;

/// Where the checksummed part of a frame starts.
pub(crate) const CHECKED_START: usize = 16;
/// Where a frame has its generation.
pub(crate) const GENERATION_OFFSET: usize = CHECKED_START;
const CHECKED_HEADER_BYTES: usize = FRAME_HEADER_BYTES - CHECKED_START;
const SECTOR_BYTES: usize = 512;

const _: () = assert!(HEADER_BYTES == FRONT_BYTES + 8 + 8 + 8 + 16 + 8 + 16);
const _: () = assert!(HEADER_BYTES <= SECTOR_BYTES && SECTOR_BYTES <= FRAMES_START);
const _: () = assert!(FRAME_HEADER_BYTES == 8 + 8 + 8 + 8 + 8 + 4 + 4);
const _: () = assert!(FRAME_HEADER_BYTES.is_multiple_of(FRAME_ALIGNMENT_BYTES));
const _: () = assert!(FRAMES_START.is_multiple_of(FRAME_ALIGNMENT_BYTES));
const _: () = assert!(FRAMES_START as u64 == CAPACITY_STEP_BYTES);

/// Returns the smallest capacity whose arena takes one frame with this payload.
pub fn capacity_for_payload(payload_bytes: u64) -> Option<u64> {
    let needed = payload_bytes.checked_add((FRAMES_START + FRAME_HEADER_BYTES) as u64)?;
    let capacity = needed.checked_next_multiple_of(CAPACITY_STEP_BYTES)?;
    is_valid_capacity(capacity).then_some(capacity)
}

pub(crate) fn is_valid_capacity(capacity_bytes: u64) -> bool {
    (MIN_CAPACITY_BYTES..=MAX_CAPACITY_BYTES).contains(&capacity_bytes)
        && capacity_bytes.is_multiple_of(CAPACITY_STEP_BYTES)
}

/// The owner of an arena's frames: one generation of one store. Their checksums are seeded with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaKey {
    generation: u64,
    seed: u64,
}

impl ArenaKey {
    /// Returns the key of a store's generation. Computed once for each arena.
    pub fn new(store: [u8; 16], generation: u64) -> Self {
        let mut owner = [0; 24];
        copy_fields(&mut owner, &[&store, &generation.to_le_bytes()]);
        ArenaKey {
            generation,
            seed: xxh3_64(&owner),
        }
    }

    /// Returns the generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// The contents of an arena's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The generation that the arena was last activated for.
    pub generation: u64,
    /// The size of its file.
    pub capacity_bytes: u64,
    /// The boot of the machine in which it was activated.
    pub boot_id: [u8; 16],
    /// Its slot.
    pub slot: u64,
    /// The number of the store that it belongs to.
    pub store: [u8; 16],
}

/// State of the bytes in the place of an arena's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderState {
    /// A header with a good checksum.
    Intact(Header),
    /// The same of another store's arena, or of one that belongs in another slot. Only a
    /// [`Region`](crate::Region) can tell. It proves nothing, and the region leaves it alone.
    Foreign(Header),
    /// Zeros: the slot was never activated.
    Blank,
    /// Intact, of a version that this program does not know.
    UnknownVersion(u32),
    /// A link, a FIFO or a device lies under the slot's name. Only a [`Region`](crate::Region) can
    /// tell. The region leaves it alone.
    NotAFile,
    /// Anything else; the text names the fault.
    Damaged(&'static str),
}

impl HeaderState {
    /// Returns whether the region leaves the slot alone: it holds another store's arena, one of a
    /// version that this program does not know, or no file.
    pub fn is_left_alone(&self) -> bool {
        matches!(
            self,
            HeaderState::Foreign(_) | HeaderState::UnknownVersion(_) | HeaderState::NotAFile
        )
    }
}

impl Header {
    /// Returns the key of the arena's frames.
    pub fn key(&self) -> ArenaKey {
        ArenaKey::new(self.store, self.generation)
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let front = FRONT.encode();
        let mut back = [0; HEADER_BYTES - FRONT_BYTES - 8];
        copy_fields(
            &mut back,
            &[
                &self.generation.to_le_bytes(),
                &self.capacity_bytes.to_le_bytes(),
                &self.boot_id,
                &self.slot.to_le_bytes(),
                &self.store,
            ],
        );
        let checksum = header_checksum(&front, &back);
        let mut bytes = [0; HEADER_BYTES];
        copy_fields(&mut bytes, &[&front, &checksum.to_le_bytes(), &back]);
        bytes
    }

    /// Reads the header of an arena from its first bytes.
    pub fn decode(bytes: &[u8]) -> HeaderState {
        Self::parse(bytes).unwrap_or(HeaderState::Damaged("the file ends within the header"))
    }

    fn parse(bytes: &[u8]) -> Option<HeaderState> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Some(HeaderState::Blank);
        }
        match FRONT.check(bytes) {
            Ok(()) => {}
            Err(FrontFault::Damaged { detail, .. }) => return Some(HeaderState::Damaged(detail)),
            Err(FrontFault::UnknownVersion(version)) => {
                return Some(HeaderState::UnknownVersion(version));
            }
        }
        let (front, rest) = bytes.split_first_chunk::<FRONT_BYTES>()?;
        let (checksum, back) = rest.split_first_chunk::<8>()?;
        if header_checksum(front, back) != u64::from_le_bytes(*checksum) {
            return Some(HeaderState::Damaged("the header's checksum is wrong"));
        }
        Some(HeaderState::Intact(Header {
            generation: read_u64(bytes, 24)?,
            capacity_bytes: read_u64(bytes, 32)?,
            boot_id: *bytes.get(40..)?.first_chunk()?,
            slot: read_u64(bytes, 56)?,
            store: *bytes.get(64..)?.first_chunk()?,
        }))
    }
}

fn header_checksum(front: &[u8; FRONT_BYTES], back: &[u8]) -> u64 {
    let mut checked = [0; HEADER_BYTES - 8];
    copy_fields(&mut checked, &[front, back]);
    xxh3_64(&checked)
}

/// The place of a frame and the contents of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// Where the frame starts in the arena.
    pub offset: usize,
    /// Bytes of payload, never 0.
    pub payload_bytes: usize,
    /// The sequence number of its first record.
    pub first_sequence: u64,
    /// Number of records, never 0; each has one sequence number.
    pub record_count: u32,
    /// Every sequence number up to this one was persisted when the frame was written.
    pub persisted_until: u64,
}

impl FrameInfo {
    /// Returns the offset of the payload in the arena.
    pub fn payload_offset(&self) -> usize {
        self.offset + FRAME_HEADER_BYTES
    }

    /// Returns the offset at which the next frame would start.
    pub fn next_offset(&self) -> usize {
        (self.payload_offset() + self.payload_bytes).next_multiple_of(FRAME_ALIGNMENT_BYTES)
    }

    /// Returns the sequence number of its last record.
    pub fn last_sequence(&self) -> u64 {
        let more = u64::from(self.record_count).saturating_sub(1);
        self.first_sequence.saturating_add(more)
    }

    /// Returns the frame's header without the length word and the checksum: bytes 16..48.
    pub(crate) fn encode_checked(&self, generation: u64) -> [u8; CHECKED_HEADER_BYTES] {
        let mut bytes = [0; CHECKED_HEADER_BYTES];
        copy_fields(
            &mut bytes,
            &[
                &generation.to_le_bytes(),
                &self.first_sequence.to_le_bytes(),
                &self.persisted_until.to_le_bytes(),
                &self.record_count.to_le_bytes(),
            ],
        );
        bytes
    }

    /// Returns the offset of the checksummed part in the arena.
    pub(crate) fn checked_offset(&self) -> usize {
        self.offset + CHECKED_START
    }

    /// Reads the header of a frame of the key's generation, which begins at `offset`, `room` bytes
    /// before the end of the arena. The frame is in bounds and makes sense; its checksum (returned)
    /// is not yet compared.
    pub(crate) fn parse(
        header: &[u8],
        key: ArenaKey,
        offset: usize,
        room: usize,
    ) -> Option<(FrameInfo, u64)> {
        if read_u64(header, GENERATION_OFFSET)? != key.generation {
            return None;
        }
        let payload_bytes = usize::try_from(read_u64(header, 0)?).ok()?;
        let room = room.checked_sub(FRAME_HEADER_BYTES)?;
        let record_count = read_u32(header, 40)?;
        let reserved = read_u32(header, 44)?;
        if payload_bytes == 0 || payload_bytes > room || record_count == 0 || reserved != 0 {
            return None;
        }
        let info = FrameInfo {
            offset,
            payload_bytes,
            first_sequence: read_u64(header, 24)?,
            record_count,
            persisted_until: read_u64(header, 32)?,
        };
        Some((info, read_u64(header, 8)?))
    }

    /// Returns the frame of `key` at `offset`, if a whole one with a good checksum is there.
    pub(crate) fn read(bytes: &[u8], key: ArenaKey, offset: usize) -> Option<FrameInfo> {
        let frame = bytes.get(offset..)?;
        let (info, checksum) = Self::parse(frame, key, offset, frame.len())?;
        (info.checksum(bytes, key)? == checksum).then_some(info)
    }

    /// Returns the checksum of the bytes that lie at this frame's place.
    pub(crate) fn checksum(&self, bytes: &[u8], key: ArenaKey) -> Option<u64> {
        let end = self.payload_offset().checked_add(self.payload_bytes)?;
        let checked = bytes.get(self.offset.checked_add(CHECKED_START)?..end)?;
        Some(frame_checksum(
            checked,
            key,
            self.offset as u64,
            self.payload_bytes as u64,
        ))
    }
}

/// Returns the checksum of bytes 16.. of a frame. The seed binds it to its place, store and
/// generation: a frame left by an earlier use of the slot, of another store, or lying elsewhere
/// never passes.
pub(crate) fn frame_checksum(
    checked: &[u8],
    key: ArenaKey,
    offset: u64,
    payload_bytes: u64,
) -> u64 {
    xxh3_64_with_seed(checked, checksum_seed(key, offset, payload_bytes))
}

fn checksum_seed(key: ArenaKey, offset: u64, payload_bytes: u64) -> u64 {
    let mut place = [0; 24];
    copy_fields(
        &mut place,
        &[
            &key.seed.to_le_bytes(),
            &offset.to_le_bytes(),
            &payload_bytes.to_le_bytes(),
        ],
    );
    xxh3_64(&place)
}

/// The checksum of a frame that is read in parts.
pub(crate) struct FrameHasher(Xxh3);

impl FrameHasher {
    pub(crate) fn new(key: ArenaKey, offset: u64, payload_bytes: u64) -> Self {
        FrameHasher(Xxh3::with_seed(checksum_seed(key, offset, payload_bytes)))
    }

    pub(crate) fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.digest()
    }
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Copies fields one behind the other to the beginning of `target`.
fn copy_fields(target: &mut [u8], fields: &[&[u8]]) {
    let bytes = fields.iter().flat_map(|field| field.iter());
    for (to, from) in target.iter_mut().zip(bytes) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests;
