//! The forwarding of one frame.

use std::ops::RangeInclusive;

use terrace_lsm::fold::Step;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};

use super::ReadBuffer;
use super::structure::{Key, SHRINK_PACE, Structure, Version};
use crate::SequenceNumber;
use crate::write_buffer::memtable::Inserted;

/// A frame on its way into a buffer that is awake.
pub(crate) struct Forwarding<'a> {
    buffer: &'a ReadBuffer,
    structure: &'a dyn Structure,
    stores_all: bool,
    stored: u64,
    told: u64,
}

impl ReadBuffer {
    /// Begins the forwarding of a frame with these numbers. `None`: the buffer sleeps, and goes by the last
    /// number when it wakes. The leader calls it, frame by frame, before the frame is visible.
    #[inline]
    pub(crate) fn begin_forward(
        &self,
        numbers: RangeInclusive<SequenceNumber>,
    ) -> Option<Forwarding<'_>> {
        let stores_all = self.stores_all();
        let awake = match stores_all {
            true => Some(self.awaken()),
            false => self.awake_or_told(*numbers.end()),
        };
        let Some(structure) = awake else {
            self.worth.spared(1 + numbers.end() - numbers.start());
            return None;
        };
        Some(Forwarding {
            buffer: self,
            structure,
            stores_all,
            stored: 0,
            told: 0,
        })
    }
}

impl Forwarding<'_> {
    /// Takes the frame's next record, which is not yet visible.
    pub(crate) fn take(&mut self, record: &Inserted<'_>) {
        if record.kind.is_of_range() {
            return self.buffer.raise_floor(record.keyspace, record.sequence);
        }
        let key = Key::new(record.keyspace, record.key, record.hash);
        let value = match record.kind.step() {
            Some(Step::Value) => Some(record.value),
            Some(Step::Nothing) => None,
            // Only readers know its effect on the key.
            None => return self.structure.invalidate(&key, record.sequence),
        };
        let version = Version {
            sequence: record.sequence,
            value,
        };
        self.told += 1;
        self.stored += u64::from(self.structure.forward(&key, version, self.stores_all));
    }

    /// Ends the forwarding of a frame of some bytes. Returns whether the claim on the budget has changed.
    pub(crate) fn end(self, payload_bytes: usize) -> bool {
        let (buffer, structure) = (self.buffer, self.structure);
        let [all_stored, all_skipped] = &buffer.forwards;
        let add =
            |to: &AtomicU64, more| to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        add(all_stored, self.stored);
        add(all_skipped, self.told - self.stored);
        if structure.memory_bytes() > buffer.limit_bytes() {
            // All writes count, stored here or not, so that it comes back in any case.
            structure.shrink(SHRINK_PACE * payload_bytes as u64);
        }
        let is_worth =
            || !buffer.is_needless() && (!buffer.worth.told(self.told) || buffer.pays(structure));
        if !self.stores_all && !is_worth() {
            buffer.fall_asleep(structure);
            return true;
        }
        buffer.has_to_claim(structure)
    }
}

#[cfg(test)]
mod tests;
