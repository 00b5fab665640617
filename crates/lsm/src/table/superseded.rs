//! A table's note of its superseded versions. For each, the same table holds something newer for
//! its key, a version or a deleted range. Only a snapshot below the newer one can need them. So the
//! note shows when a merge of the table alone would drop them, and how much that gives.

use crate::coding::{Decoder, put_varint};
use crate::key::{MAX_STORED_SEQUENCE, SequenceNumber};

/// The superseded versions of a table; there is at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded {
    /// Their number.
    pub versions: u64,
    /// Their bytes: of keys and values in a footer, about those of the file in the levels.
    pub bytes: u64,
    /// The largest number of a version or a deleted range that supersedes one of them, each by its next newer.
    pub largest_by: SequenceNumber,
}

impl Superseded {
    /// Counts one more version.
    pub(super) fn count(counted: &mut Option<Self>, bytes: u64, by: SequenceNumber) {
        let counted = counted.get_or_insert(Superseded {
            versions: 0,
            bytes: 0,
            largest_by: 0,
        });
        counted.versions += 1;
        counted.bytes += bytes;
        counted.largest_by = counted.largest_by.max(by);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [self.versions, self.bytes, self.largest_by] {
            put_varint(&mut out, number);
        }
        out
    }

    /// Returns the note that fills `bytes`; `None` if it claims more than a table of this many
    /// entries and bytes holds.
    pub(crate) fn decode(bytes: &[u8], entries: u64, most_bytes: u64) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let superseded = Superseded {
            versions: decoder.varint()?,
            bytes: decoder.varint()?,
            largest_by: decoder.varint()?,
        };
        let is_possible = decoder.is_empty()
            && (1..=entries).contains(&superseded.versions)
            && superseded.bytes <= most_bytes
            && (1..=MAX_STORED_SEQUENCE).contains(&superseded.largest_by);
        is_possible.then_some(superseded)
    }

    /// Returns the same note with the bytes of a file of `file_bytes` that holds `all_bytes` of keys and values.
    pub(crate) fn in_file(self, all_bytes: u64, file_bytes: u64) -> Self {
        let bytes = u128::from(file_bytes) * u128::from(self.bytes) / u128::from(all_bytes.max(1));
        Superseded {
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX).min(file_bytes),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_round_trips_and_an_impossible_one_is_refused() {
        let note = Superseded {
            versions: 3,
            bytes: 400,
            largest_by: 1 << 40,
        };
        let decode = |note: Superseded| Superseded::decode(&note.encode(), 3, 400);
        assert_eq!(decode(note), Some(note));
        for impossible in [
            Superseded {
                versions: 0,
                ..note
            },
            Superseded {
                versions: 4,
                ..note
            },
            Superseded { bytes: 401, ..note },
            Superseded {
                largest_by: 0,
                ..note
            },
            Superseded {
                largest_by: u64::MAX,
                ..note
            },
        ] {
            assert_eq!(decode(impossible), None, "{impossible:?}");
        }
        let bytes = note.encode();
        for cut in 0..bytes.len() {
            assert_eq!(Superseded::decode(&bytes[..cut], 3, 400), None);
        }
        assert_eq!(
            Superseded::decode(&[&bytes[..], &[1]].concat(), 3, 400),
            None
        );
    }

    #[test]
    fn the_bytes_in_a_file_are_its_share_of_them() {
        let note = Superseded {
            versions: 1,
            bytes: 30,
            largest_by: 1,
        };
        assert_eq!(note.in_file(120, 80).bytes, 20);
        assert_eq!(note.in_file(0, 80).bytes, 80);
        assert_eq!(note.in_file(u64::MAX, u64::MAX).bytes, 30);
    }
}
