//! The figures of a footer, counted entry by entry: by the writer to state them, by the check to
//! compare them.

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
}

impl Tally {
    pub(super) fn count(&mut self, key: InternalKey<'_>, value: &[u8]) {
        let sequence = key.sequence();
        if self.entries == 0 {
            key.encode_into(&mut self.smallest);
            self.smallest_sequence = sequence;
        }
        self.smallest_sequence = self.smallest_sequence.min(sequence);
        self.largest_sequence = self.largest_sequence.max(sequence);
        self.entries += 1;
        self.tombstones += u64::from(key.tag.kind() == Some(Kind::Delete));
        self.user_key_bytes += key.user_key.len() as u64;
        self.value_bytes += value.len() as u64;
    }
}
