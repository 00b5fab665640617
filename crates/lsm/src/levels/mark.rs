//! The mark behind an edit: proof that the edit's sync had returned.
//!
//! An owner writes it after the sync and before anybody learns of the edit, without a sync of its
//! own. So an edit that does not check, with its mark behind it, is damage and not a torn write. A
//! power cut may take the mark; then nothing is proved. The next edit lies behind the mark's place in
//! any case, so that a mark that arrives late, or in part, hides nothing.

use super::record::{ALIGNMENT, KIND_MARK, RECORD_HEADER_BYTES, Record, encode_payload};
use crate::coding::Decoder;

const PAYLOAD_BYTES: usize = 16;

/// The room of a mark behind each edit, whether or not it was written.
pub(super) const MARK_BYTES: u64 = (RECORD_HEADER_BYTES + PAYLOAD_BYTES) as u64;

const _: () = assert!(PAYLOAD_BYTES.is_multiple_of(ALIGNMENT));

/// The edit that a mark names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) offset: u64,
    checksum: u64,
}

impl Mark {
    /// Returns the mark of an edit.
    pub(super) fn of(edit: &Record<'_>) -> Self {
        Mark {
            offset: edit.offset,
            checksum: edit.checksum,
        }
    }

    /// Reads a mark's payload.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(payload);
        let mark = Mark {
            offset: decoder.u64()?,
            checksum: decoder.u64()?,
        };
        decoder.is_empty().then_some(mark)
    }
}

/// Returns the mark of an edit that was encoded for `offset` of manifest `number`. Its place is the
/// edit's end.
pub(super) fn encode_mark(number: u64, offset: u64, edit: &[u8]) -> Vec<u8> {
    let mut payload = offset.to_le_bytes().to_vec();
    // The record begins with its checksum.
    payload.extend(edit.iter().take(PAYLOAD_BYTES - payload.len()));
    encode_payload(number, offset + edit.len() as u64, KIND_MARK, &payload)
}
