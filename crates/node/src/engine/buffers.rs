//! The budget of buffers: memory in use stays within it under any load.

use std::collections::BTreeMap;

use crate::block::Buffer;

/// The least budget: two of the largest pieces.
pub(crate) const MIN_BUFFER_BLOCKS: usize = 512;

/// Buffers of one event loop.
pub(crate) struct Buffers {
    /// The most blocks that are handed out or kept.
    budget: usize,
    /// Blocks handed out.
    used: usize,
    /// Blocks kept for reuse.
    kept: usize,
    /// Kept buffers by their size in blocks.
    free: BTreeMap<usize, Vec<Buffer>>,
    /// The most blocks that were handed out and kept at one time.
    peak: usize,
}

impl Buffers {
    /// Makes a budget of `budget` blocks.
    pub(crate) fn new(budget: usize) -> Self {
        Buffers {
            budget,
            used: 0,
            kept: 0,
            free: BTreeMap::new(),
            peak: 0,
        }
    }

    /// Returns the budget, in blocks.
    pub(crate) fn budget(&self) -> usize {
        self.budget
    }

    /// Returns a buffer of at least `blocks` blocks, of any contents; none while the budget is used up.
    pub(crate) fn take(&mut self, blocks: usize) -> Option<Buffer> {
        let size = size_class(blocks);
        if self.used + size > self.budget {
            return None;
        }
        let kept = self.free.get_mut(&size).and_then(Vec::pop);
        if kept.is_some() {
            self.kept -= size;
        }
        while self.used + size + self.kept > self.budget {
            self.forget_one();
        }
        self.used += size;
        self.peak = self.peak.max(self.used + self.kept);
        Some(kept.unwrap_or_else(|| Buffer::zeroed(size)))
    }

    /// Takes back a buffer of `take`.
    pub(crate) fn put(&mut self, buffer: Buffer) {
        let size = buffer.blocks();
        if size == 0 {
            return;
        }
        debug_assert!(self.used >= size, "a buffer comes back once");
        self.used = self.used.saturating_sub(size);
        self.kept += size;
        self.free.entry(size).or_default().push(buffer);
    }

    /// Returns the number of blocks handed out, and the most that were ever in use or kept.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.used, self.peak)
    }

    /// Drops a kept buffer, the largest first.
    fn forget_one(&mut self) {
        let Some(mut largest) = self.free.last_entry() else {
            debug_assert!(false, "kept blocks have buffers");
            self.kept = 0;
            return;
        };
        if largest.get_mut().pop().is_some() {
            self.kept -= *largest.key();
        }
        if largest.get().is_empty() {
            largest.remove();
        }
    }
}

/// Returns the number of blocks that a request for `blocks` gets: at most an eighth more, so that few
/// sizes exist and kept buffers fit.
fn size_class(blocks: usize) -> usize {
    let step = (blocks.max(1).next_power_of_two() / 16).max(1);
    blocks.max(1).next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_an_eighth_larger_at_most() {
        for blocks in 1..600 {
            let size = size_class(blocks);
            assert!(
                size >= blocks && size * 8 <= blocks * 9 + 7,
                "{blocks} {size}"
            );
        }
    }

    #[test]
    fn memory_stays_within_the_budget() {
        let mut buffers = Buffers::new(32);
        let (a, b) = (buffers.take(16).unwrap(), buffers.take(16).unwrap());
        assert!(buffers.take(1).is_none());
        buffers.put(a);
        buffers.put(b);
        // Kept buffers of another size make room.
        let c = buffers.take(20).unwrap();
        assert_eq!(c.blocks(), 20);
        assert!(buffers.used + buffers.kept <= 32);
        buffers.put(c);
        assert!(buffers.take(33).is_none());
        assert_eq!(buffers.usage(), (0, 32));
    }
}
