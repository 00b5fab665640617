//! The figures of a footer, counted entry by entry: by the writer to state them, by the check to
//! compare them.

use super::superseded::Superseded;
use crate::key::{InternalKey, Kind, SequenceNumber};

#[derive(Default)]
pub(super) struct Tally {
    pub(super) entries: u64,
    pub(super) tombstones: u64,
    pub(super) user_key_bytes: u64,
    pub(super) value_bytes: u64,
    /// The first internal key, encoded.
    pub(super) smallest: Vec<u8>,
    pub(super) smallest_sequence: SequenceNumber,
    pub(super) largest_sequence: SequenceNumber,
    pub(super) superseded: Option<Superseded>,
}

impl Tally {
    /// Counts an entry; `superseded_by` is the number of the next newer version or range for its key, if any.
    pub(super) fn count(
        &mut self,
        key: InternalKey<'_>,
        value: &[u8],
        superseded_by: Option<SequenceNumber>,
    ) {
        if self.entries == 0 {
            key.encode_into(&mut self.smallest);
        }
        self.count_sequences(key.sequence(), key.sequence());
        self.entries += 1;
        self.tombstones += u64::from(key.tag.kind().is_some_and(Kind::deletes));
        self.user_key_bytes += key.user_key.len() as u64;
        self.value_bytes += value.len() as u64;
        if let Some(by) = superseded_by {
            let bytes = (key.user_key.len() + value.len()) as u64;
            Superseded::count(&mut self.superseded, bytes, by);
        }
    }

    /// Counts the numbers of all range tombstones, which are no entries, behind all entries.
    pub(super) fn count_sequences(&mut self, smallest: SequenceNumber, largest: SequenceNumber) {
        if self.entries == 0 {
            (self.smallest_sequence, self.largest_sequence) = (smallest, largest);
        }
        self.smallest_sequence = self.smallest_sequence.min(smallest);
        self.largest_sequence = self.largest_sequence.max(largest);
    }
}
