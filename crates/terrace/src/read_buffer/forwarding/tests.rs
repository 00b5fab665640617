//! Forwarding without an index.

use super::*;
use crate::WriteBatch;
use crate::write_buffer::record::Records;

impl ReadBuffer {
    /// Forwards a batch as the leader does; its first number is `sequence`.
    pub(in crate::read_buffer) fn forward(
        &self,
        batch: &WriteBatch,
        mut sequence: SequenceNumber,
    ) -> bool {
        let payload = batch.payload();
        let last = sequence + u64::from(batch.records()) - 1;
        let Some(mut forwarding) = self.begin_forward(sequence..=last) else {
            return false;
        };
        for record in Records::new(payload) {
            let record = record.unwrap();
            forwarding.take(&Inserted::new(payload, &record, sequence, self.hash_seed));
            sequence += 1;
        }
        forwarding.end(payload.len())
    }
}
