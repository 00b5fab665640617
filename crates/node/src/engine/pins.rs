//! Space that readers use is not given away.
//!
//! A reader pins the place of a value while it holds the lock of the key's partition. A writer
//! replaces the value under that lock, too, and frees the place after it. So a place that is freed
//! is either pinned already, or no reader will come.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::block::Extents;

const SHARDS: usize = 16;

#[derive(Default)]
struct Pin {
    readers: u32,
    /// Blocks to be freed when the last reader leaves.
    freed: Option<Extents>,
}

/// Places that are being read, by their first block.
pub(super) struct Pins {
    shards: Vec<Mutex<HashMap<u64, Pin>>>,
}

impl Pins {
    pub(super) fn new() -> Self {
        Pins {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Adds a reader of the place that begins at `start`.
    pub(super) fn pin(&self, start: u64) {
        self.shard(start).lock().entry(start).or_default().readers += 1;
    }

    /// Takes a reader away. Returns the blocks that can be freed now.
    pub(super) fn unpin(&self, start: u64) -> Option<Extents> {
        let mut pins = self.shard(start).lock();
        let pin = pins.get_mut(&start);
        debug_assert!(pin.is_some(), "a place is unpinned by its reader");
        let pin = pin?;
        pin.readers -= 1;
        if pin.readers > 0 {
            return None;
        }
        pins.remove(&start).and_then(|pin| pin.freed)
    }

    /// Returns `extents` if they can be freed now; else the last reader frees them.
    pub(super) fn free(&self, extents: Extents) -> Option<Extents> {
        let start = extents.first().start;
        let mut pins = self.shard(start).lock();
        match pins.get_mut(&start) {
            Some(pin) => {
                debug_assert!(pin.freed.is_none(), "a place is freed once");
                pin.freed = Some(extents);
                None
            }
            None => Some(extents),
        }
    }

    fn shard(&self, start: u64) -> &Mutex<HashMap<u64, Pin>> {
        &self.shards[(start % SHARDS as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Extent;

    #[test]
    fn a_place_is_freed_when_its_last_reader_leaves() {
        let pins = Pins::new();
        let extents = Extents::one(Extent {
            start: 9,
            blocks: 2,
        });
        pins.pin(9);
        pins.pin(9);
        assert!(pins.free(extents.clone()).is_none());
        assert!(pins.unpin(9).is_none());
        assert_eq!(pins.unpin(9), Some(extents.clone()));
        assert_eq!(pins.free(extents.clone()), Some(extents));
    }
}
