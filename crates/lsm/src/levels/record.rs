//! The frame of a manifest: a header, then records that carry their own length and checksum.
//!
//! A record's checksum is seeded with the manifest's number and the record's offset. So a record of
//! another file, or of another place in this one, is never taken for one of this place. Behind each
//! edit lies the place of its mark (see [`super::mark`]). An edit that does not check is a *dropped
//! tail* if nothing valid lies behind it, and damage otherwise.

use std::path::Path;

use terrace_region::Front;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::edit::Edit;
use super::fields::FieldError;
use super::mark::{MARK_BYTES, Mark};
use super::tail::ManifestTail;
use crate::coding::Decoder;
use crate::{Error, Result};

/// The first bytes of every manifest.
pub(super) const FRONT: Front = Front {
    magic: *b"TerrMani",
    version: 3,
};
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const RECORD_HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;
pub(super) const ALIGNMENT: usize = 8;

/// Kinds of records; 0 is never valid.
pub(super) const KIND_EDIT: u32 = 1;
pub(super) const KIND_MARK: u32 = 2;

/// The search behind damage hashes at most this many times the manifest's size. Honest bytes need
/// less than once; bytes made to look like overlapping records would need its square.
const SEARCH_BUDGET_FACTOR: usize = 16;

/// The longest payload that is written or believed.
pub(super) const MAX_PAYLOAD_BYTES: usize = 1 << 30;

pub(super) fn encode_header(number: u64) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(&FRONT.encode());
    header.extend_from_slice(&number.to_le_bytes());
    header.extend_from_slice(&xxh3_64(&header).to_le_bytes());
    header
}

/// Returns the record that holds `edit` at `offset` of manifest `number`.
pub(super) fn encode_record(number: u64, offset: u64, edit: &Edit) -> Result<Vec<u8>> {
    let payload = edit.encode();
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(Error::invalid(format!(
            "an edit of {} bytes is longer than a manifest record may be",
            payload.len()
        )));
    }
    Ok(encode_payload(number, offset, KIND_EDIT, &payload))
}

pub(super) fn encode_payload(number: u64, offset: u64, kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD_HEADER_BYTES + payload.len() + ALIGNMENT);
    record.extend_from_slice(&[0; CHECKSUM_BYTES]);
    record.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    record.extend_from_slice(&kind.to_le_bytes());
    record.extend_from_slice(payload);
    record.resize(record.len().next_multiple_of(ALIGNMENT), 0);
    if let Some((sum, body)) = record.split_first_chunk_mut::<CHECKSUM_BYTES>() {
        *sum = checksum(number, offset, body).to_le_bytes();
    }
    record
}

/// Hashes length, kind, payload and padding.
pub(super) fn checksum(number: u64, offset: u64, body: &[u8]) -> u64 {
    let mut place = [0; 16];
    let (first, second) = place.split_at_mut(8);
    first.copy_from_slice(&number.to_le_bytes());
    second.copy_from_slice(&offset.to_le_bytes());
    xxh3_64_with_seed(body, xxh3_64(&place))
}

/// A manifest's bytes, with its header checked. Iterates over the edits and passes by their marks.
pub(super) struct Records<'a> {
    file: &'a Path,
    bytes: &'a [u8],
    number: u64,
    offset: usize,
    is_ended: bool,
}

/// One record: where it begins and ends, its checksum, its kind and payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) checksum: u64,
    /// Whether its mark lies behind it.
    pub(super) is_marked: bool,
    kind: u32,
    payload: &'a [u8],
}

impl<'a> Records<'a> {
    /// Checks the header. `number` is the one in the file's name.
    pub(super) fn new(file: &'a Path, bytes: &'a [u8], number: u64) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::corruption(file, 0, "the file is empty"));
        }
        FRONT
            .check(bytes)
            .map_err(|fault| Error::of_front(file, "manifest", FRONT, fault))?;
        let short = || Error::corruption(file, bytes.len() as u64, "the header is cut short");
        let (body, rest) = bytes
            .split_at_checked(HEADER_BYTES - CHECKSUM_BYTES)
            .ok_or_else(short)?;
        let written_number = body.last_chunk().copied().map(u64::from_le_bytes);
        let sum = Decoder::new(rest).u64().ok_or_else(short)?;
        if sum != xxh3_64(body) {
            let detail = "the header does not match its checksum";
            return Err(Error::corruption(file, 0, detail));
        }
        if written_number != Some(number) {
            return Err(Error::corruption(
                file,
                16,
                format!("this is manifest {}, renamed", written_number.unwrap_or(0)),
            ));
        }
        Ok(Records {
            file,
            bytes,
            number,
            offset: HEADER_BYTES,
            is_ended: false,
        })
    }

    /// Returns the place of the next edit: behind the last one that checks, and its mark's place.
    pub(super) fn end(&self) -> u64 {
        self.offset as u64
    }

    /// Returns the bytes that are left behind the last edit, once there is no other.
    pub(super) fn tail(&self) -> Option<ManifestTail> {
        let bytes = self.bytes.get(self.offset..)?;
        ManifestTail::of(self.number, self.end(), bytes)
    }

    /// Returns the candidate at an offset, if its header could be a record's. Hashes nothing.
    fn candidate_at(&self, offset: usize) -> Option<Candidate<'a>> {
        let mut decoder = Decoder::new(self.bytes.get(offset..)?);
        let checksum = decoder.u64()?;
        let body = decoder.rest();
        let length = decoder.u32()? as usize;
        let kind = decoder.u32()?;
        if length == 0 || length > MAX_PAYLOAD_BYTES || kind == 0 {
            return None;
        }
        let padded = decoder.take(length.next_multiple_of(ALIGNMENT))?;
        let body = body.get(..RECORD_HEADER_BYTES - CHECKSUM_BYTES + padded.len())?;
        let record = Record {
            offset: offset as u64,
            end: (offset + RECORD_HEADER_BYTES + padded.len()) as u64,
            checksum,
            is_marked: false,
            kind,
            payload: padded.get(..length)?,
        };
        Some(Candidate { body, record })
    }

    fn record_at(&self, offset: usize) -> Option<Record<'a>> {
        let candidate = self.candidate_at(offset)?;
        let sum = checksum(self.number, offset as u64, candidate.body);
        (sum == candidate.record.checksum).then_some(candidate.record)
    }

    /// Returns whether the mark of `edit` lies behind it. Bytes that are no record prove nothing: a
    /// power cut may have taken the mark.
    fn is_marked(&self, edit: &Record<'_>) -> Result<bool> {
        let Some(found) = self.record_at(edit.end as usize) else {
            return Ok(false);
        };
        if found.mark() == Some(Mark::of(edit)) {
            return Ok(true);
        }
        let detail = format!(
            "the record behind the edit at byte {} is not its mark",
            edit.offset
        );
        Err(Error::corruption(self.file, edit.end, detail))
    }

    /// Returns the fault of the bytes from a damaged edit on; `None` if they are a dropped tail.
    fn damage_behind(&self, damaged: usize) -> Option<String> {
        let mut budget_bytes = self.bytes.len().saturating_mul(SEARCH_BUDGET_FACTOR);
        for offset in (damaged + ALIGNMENT..self.bytes.len()).step_by(ALIGNMENT) {
            let Some(candidate) = self.candidate_at(offset) else {
                continue;
            };
            let Some(left) = budget_bytes.checked_sub(candidate.body.len()) else {
                return Some("too much follows that looks like records and is none".to_owned());
            };
            budget_bytes = left;
            if let Some(record) = self.record_at(offset) {
                return Some(match record.mark() {
                    Some(mark) if mark.offset == damaged as u64 => format!(
                        "the edit does not match its checksum, and its mark at {offset} says that it \
                         was durable"
                    ),
                    _ => format!(
                        "a record does not match its checksum, and a valid one follows at {offset}"
                    ),
                });
            }
        }
        None
    }
}

/// Returns whether a record lies in manifest `number` that is neither its first edit nor the mark of that.
/// Its header, and the first edit, may be damaged.
pub(super) fn holds_more_than_first(bytes: &[u8], number: u64) -> bool {
    let records = Records {
        file: Path::new(""),
        bytes,
        number,
        offset: HEADER_BYTES,
        is_ended: false,
    };
    let mut budget_bytes = bytes.len().saturating_mul(SEARCH_BUDGET_FACTOR);
    for offset in (HEADER_BYTES + ALIGNMENT..bytes.len()).step_by(ALIGNMENT) {
        let Some(candidate) = records.candidate_at(offset) else {
            continue;
        };
        let Some(left) = budget_bytes.checked_sub(candidate.body.len()) else {
            return true;
        };
        budget_bytes = left;
        let record = records.record_at(offset);
        let mark = record.as_ref().map(|record| record.mark());
        let is_another =
            |mark: Option<Mark>| mark.is_none_or(|mark| mark.offset != HEADER_BYTES as u64);
        if mark.is_some_and(is_another) {
            return true;
        }
    }
    false
}

/// Bytes whose header could be a record's.
struct Candidate<'a> {
    body: &'a [u8],
    record: Record<'a>,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended || self.offset >= self.bytes.len() {
            return None;
        }
        if let Some(record) = self.record_at(self.offset) {
            let is_marked = self.is_marked(&record);
            self.is_ended = is_marked.is_err();
            self.offset = (record.end + MARK_BYTES) as usize;
            return Some(is_marked.map(|is_marked| Record {
                is_marked,
                ..record
            }));
        }
        self.is_ended = true;
        let damage = self.damage_behind(self.offset)?;
        let offset = self.offset as u64;
        Some(Err(Error::corruption(self.file, offset, damage)))
    }
}

impl Record<'_> {
    fn mark(&self) -> Option<Mark> {
        (self.kind == KIND_MARK)
            .then(|| Mark::decode(self.payload))
            .flatten()
    }

    pub(super) fn edit(&self, file: &Path) -> Result<Edit> {
        if self.kind == KIND_MARK {
            let detail = "a mark stands where an edit belongs";
            return Err(Error::corruption(file, self.offset, detail));
        }
        if self.kind != KIND_EDIT {
            return Err(Error::unsupported(
                file,
                format!("record kind {} at byte {}", self.kind, self.offset),
            ));
        }
        Edit::decode(self.payload).map_err(|error| match error {
            FieldError::Malformed(detail) => Error::corruption(file, self.offset, detail),
            FieldError::Unknown(detail) => Error::unsupported(
                file,
                format!("{detail} in the record at byte {}", self.offset),
            ),
        })
    }
}
