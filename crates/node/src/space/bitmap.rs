//! One bit a block: set if the block is free.

/// The bits of one partition. Bits are counted from the partition's first block.
pub(super) struct Bitmap {
    words: Vec<u64>,
    /// Words that searches have looked at.
    #[cfg(test)]
    pub(super) looked: std::cell::Cell<u64>,
}

/// Returns the bits of a word from `from` to before `to`.
fn mask(from: usize, to: usize) -> u64 {
    (u64::MAX >> (64 - (to - from))) << from
}

impl Bitmap {
    /// Makes a bitmap of free blocks.
    pub(super) fn new(blocks: usize) -> Self {
        let mut words = vec![u64::MAX; blocks.div_ceil(64)];
        if !blocks.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last = mask(0, blocks % 64);
        }
        Bitmap {
            words,
            #[cfg(test)]
            looked: 0.into(),
        }
    }

    fn look(&self, _words: usize) {
        #[cfg(test)]
        self.looked.set(self.looked.get() + _words as u64);
    }

    /// Calls `visit` with each word of `from..to` and the mask of the range in it.
    fn words(from: usize, to: usize) -> impl Iterator<Item = (usize, u64)> {
        let end = if from < to { to.div_ceil(64) } else { 0 };
        (from / 64..end).map(move |word| {
            let first = from.max(word * 64) - word * 64;
            (word, mask(first, to.min(word * 64 + 64) - word * 64))
        })
    }

    /// Marks `from..to`. Returns the number of blocks that were marked otherwise before.
    pub(super) fn mark(&mut self, from: usize, to: usize, free: bool) -> usize {
        let mut changed = 0;
        for (word, mask) in Bitmap::words(from, to) {
            let old = self.words[word];
            let new = if free { old | mask } else { old & !mask };
            self.words[word] = new;
            changed += (old ^ new).count_ones() as usize;
        }
        changed
    }

    /// Returns the number of free blocks in `from..to`.
    pub(super) fn count(&self, from: usize, to: usize) -> usize {
        self.look(to.div_ceil(64) - from / 64);
        Bitmap::words(from, to)
            .map(|(word, mask)| (self.words[word] & mask).count_ones() as usize)
            .sum()
    }

    /// Returns the first block of `from..to` whose bit is `free`.
    pub(super) fn next(&self, from: usize, to: usize, free: bool) -> Option<usize> {
        for (word, mask) in Bitmap::words(from, to) {
            self.look(1);
            let bits = if free {
                self.words[word]
            } else {
                !self.words[word]
            };
            if bits & mask != 0 {
                return Some(word * 64 + (bits & mask).trailing_zeros() as usize);
            }
        }
        None
    }

    /// Returns the next run of free blocks in `from..to`: its first block and the one behind it.
    pub(super) fn next_run(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        let start = self.next(from, to, true)?;
        Some((start, self.next(start, to, false).unwrap_or(to)))
    }

    /// Iterates over the runs of free blocks in `from..to`.
    pub(super) fn runs(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut next = from;
        std::iter::from_fn(move || {
            let run = self.next_run(next, to)?;
            next = run.1;
            Some(run)
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
