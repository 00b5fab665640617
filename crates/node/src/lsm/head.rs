//! The records of a namespace in the store. The store's blocks have checksums.

use crate::engine::PIECE_BYTES;
use crate::format::value::MAX_VALUE_BYTES;
use crate::lsm::INLINE_BYTES;

/// Says that the value lies behind the head.
const INLINE: u8 = 1;
/// Says that the value lies in pieces.
const IN_PIECES: u8 = 2;
/// A kind, and the size of the value.
const HEAD_BYTES: usize = 5;

/// The record of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) value_bytes: u32,
    /// The version that its pieces lie under; none if the value lies behind the head.
    pub(super) version: Option<u64>,
}

impl Head {
    /// Stands for a record that cannot be read. Pieces that it may name are not found again.
    pub(super) const UNKNOWN: Head = Head {
        value_bytes: 0,
        version: None,
    };

    /// Returns the record of a key with a value that lies in pieces under `version`.
    pub(super) fn in_pieces(value_bytes: u32, version: u64) -> Vec<u8> {
        let mut record = vec![IN_PIECES];
        record.extend_from_slice(&value_bytes.to_le_bytes());
        record.extend_from_slice(&version.to_le_bytes());
        record
    }

    /// Returns the record of a key with its value.
    pub(super) fn with_value(value: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(HEAD_BYTES + value.len());
        record.push(INLINE);
        record.extend_from_slice(&(value.len() as u32).to_le_bytes());
        record.extend_from_slice(value);
        record
    }

    /// Reads a record; none if it is not one.
    pub(super) fn decode(record: &[u8]) -> Option<Head> {
        let (&kind, rest) = record.split_first()?;
        let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
        let value_bytes = u32::from_le_bytes(*value_bytes);
        let version = match kind {
            INLINE if rest.len() == value_bytes as usize && value_bytes <= INLINE_BYTES => None,
            IN_PIECES if (INLINE_BYTES + 1..=MAX_VALUE_BYTES).contains(&value_bytes) => {
                Some(u64::from_le_bytes(rest.try_into().ok()?))
            }
            _ => return None,
        };
        Some(Head {
            value_bytes,
            version,
        })
    }

    /// Returns the value behind the head.
    pub(super) fn value(record: &[u8]) -> &[u8] {
        record.get(HEAD_BYTES..).unwrap_or_default()
    }
}

/// Returns the key of the piece at `offset` of the value under `version`.
pub(super) fn piece_key(version: u64, offset: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&version.to_be_bytes());
    key[8..].copy_from_slice(&(offset / PIECE_BYTES).to_be_bytes());
    key
}

/// Returns the version of a piece's key, or of a mark; none if it is neither.
pub(super) fn version_of(key: &[u8]) -> Option<u64> {
    key.first_chunk()
        .map(|version| u64::from_be_bytes(*version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_as_it_was_written_and_nothing_else_does() {
        let inline = Head::with_value(b"value");
        let decoded = Head::decode(&inline).unwrap();
        assert_eq!((decoded.value_bytes, decoded.version), (5, None));
        assert_eq!(Head::value(&inline), b"value");
        let pieces = Head::in_pieces(100_000, 7);
        let decoded = Head::decode(&pieces).unwrap();
        assert_eq!((decoded.value_bytes, decoded.version), (100_000, Some(7)));
        for wrong in [
            &b""[..],
            &[0, 0, 0, 0, 0],
            &[3, 0, 0, 0, 0],
            &inline[..9],
            &[&inline[..], b"x"].concat(),
            &pieces[..12],
            &Head::in_pieces(INLINE_BYTES, 7),
            &Head::in_pieces(MAX_VALUE_BYTES + 1, 7),
        ] {
            assert_eq!(Head::decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn pieces_of_a_version_follow_each_other() {
        let keys = [(1, 0), (1, PIECE_BYTES), (1, 255 * PIECE_BYTES), (2, 0)];
        let keys = keys.map(|(version, offset)| piece_key(version, offset));
        assert!(keys.is_sorted());
        assert_eq!(version_of(&keys[3]), Some(2));
    }
}
