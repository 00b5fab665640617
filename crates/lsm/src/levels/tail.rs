//! The end of a manifest that is no edit: dropped, and reported.

use std::fmt;

use super::manifest::manifest_file_name;
use super::mark::MARK_BYTES;
use super::record::{ALIGNMENT, KIND_EDIT, MAX_PAYLOAD_BYTES, RECORD_HEADER_BYTES, checksum};
use crate::coding::Decoder;
use crate::things::things;

/// Bytes at the end of the manifest that are no edit. The opening drops them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ManifestTail {
    /// Name of the manifest's file.
    pub file: String,
    /// Where the bytes begin.
    pub offset: u64,
    /// Their number.
    pub length_bytes: u64,
    /// Whether they are the beginning of an edit that was never completed. If not, they may be an
    /// edit that was damaged after it had been made durable.
    pub is_incomplete: bool,
}

impl ManifestTail {
    /// Judges the bytes from `offset` of manifest `number` to its end; `None` if there are none.
    pub(super) fn of(number: u64, offset: u64, bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| ManifestTail {
            file: manifest_file_name(number),
            offset,
            length_bytes: bytes.len() as u64,
            is_incomplete: is_incomplete(number, offset, bytes),
        })
    }
}

impl fmt::Display for ManifestTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ManifestTail {
            file,
            offset,
            length_bytes,
            is_incomplete,
        } = self;
        let what = if *is_incomplete {
            "an edit that was never completed"
        } else {
            "an edit that could not be read: cut short by a crash, or damaged"
        };
        write!(
            f,
            "{file} ends in {what} ({} at byte {offset})",
            things(*length_bytes, "byte")
        )
    }
}

/// Returns whether the bytes from `offset` of manifest `number` to its end certainly are an edit
/// that was never completed. Nothing of it came, or less than its header says. A damaged header may
/// say too much; then another length makes the checksum right.
fn is_incomplete(number: u64, offset: u64, tail: &[u8]) -> bool {
    if tail.iter().all(|&byte| byte == 0) {
        return true;
    }
    let mut decoder = Decoder::new(tail);
    let (Some(sum), Some(length), Some(kind)) = (decoder.u64(), decoder.u32(), decoder.u32())
    else {
        return true;
    };
    let length = length as usize;
    if kind != KIND_EDIT || length == 0 || length > MAX_PAYLOAD_BYTES {
        return false;
    }
    let rest = decoder.rest();
    length.next_multiple_of(ALIGNMENT) > rest.len()
        && !lengths_at_end(rest.len()).any(|length| {
            let padded = rest.get(..length.next_multiple_of(ALIGNMENT));
            padded.is_some_and(|padded| {
                let mut body = Vec::with_capacity(RECORD_HEADER_BYTES + padded.len());
                body.extend_from_slice(&(length as u32).to_le_bytes());
                body.extend_from_slice(&kind.to_le_bytes());
                body.extend_from_slice(padded);
                checksum(number, offset, &body) == sum
            })
        })
}

/// Returns the lengths of payloads that leave at most the place of a mark behind them.
fn lengths_at_end(bytes: usize) -> impl Iterator<Item = usize> {
    let least = bytes.saturating_sub(MARK_BYTES as usize + ALIGNMENT);
    (least..=bytes).filter(|&length| length > 0)
}
