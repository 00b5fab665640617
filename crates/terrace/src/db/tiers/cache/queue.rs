//! The blocks that wait for the writer of a cache, and the tables that are gone.

use std::collections::BTreeMap;

use super::writer::Offer;

/// Maximum bytes of blocks that wait. A writer that is slower than the readers takes fewer blocks.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// Maximum number of removed tables that are remembered.
const MAX_REMOVED: usize = 1 << 16;

/// The wishes of readers, and the end.
#[derive(Debug, Default)]
pub(super) struct Queue {
    offers: Vec<Offer>,
    bytes: usize,
    /// The number of each removed table, with that of the segment that was next.
    removed: BTreeMap<u64, u64>,
    pub(super) is_closed: bool,
}

impl Queue {
    /// Adds a block, if there is room.
    pub(super) fn push(&mut self, offer: Offer) -> bool {
        let bytes = self.bytes + offer.block.len();
        let has_room = !self.is_closed && (bytes <= MAX_WAITING_BYTES || self.offers.is_empty());
        if has_room {
            self.bytes = bytes;
            self.offers.push(offer);
        }
        has_room
    }

    /// Returns all blocks that wait.
    pub(super) fn take(&mut self) -> Vec<Offer> {
        self.bytes = 0;
        std::mem::take(&mut self.offers)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    /// Notes that a table is gone: its entries do not stay.
    pub(super) fn remove_table(&mut self, number: u64, next_sequence: u64) {
        self.removed.insert(number, next_sequence);
        if self.removed.len() > MAX_REMOVED {
            self.removed.pop_first();
        }
    }

    /// Notes that a table is read after all: it has moved. So of a removal and an opening the later one counts.
    pub(super) fn table_opened(&mut self, number: u64) {
        self.removed.remove(&number);
    }

    pub(super) fn is_removed(&self, table: u64) -> bool {
        self.removed.contains_key(&table)
    }

    /// Forgets removed tables that no segment has entries of any more.
    pub(super) fn forget_before(&mut self, oldest_sequence: u64) {
        self.removed.retain(|_, next| *next > oldest_sequence);
    }
}
