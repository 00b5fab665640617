//! Free chunks.
//!
//! A chunk that a file has lost stays out of use until a table without it is durable. After a power
//! cut the former table counts, and the file that it lists there must have its bytes.

use std::collections::BTreeSet;

/// The chunks that no file has.
#[derive(Debug, Default)]
pub struct Space {
    free: BTreeSet<u32>,
    /// Lost by a file since the last table.
    lost: Vec<u32>,
}

impl Space {
    /// Returns the space of a device whose chunks from `first` up to `end` are free but for those in use.
    pub fn new(first: u32, end: u32, used: &BTreeSet<u32>) -> Self {
        Space {
            free: (first..end).filter(|chunk| !used.contains(chunk)).collect(),
            lost: Vec::new(),
        }
    }

    /// Takes the lowest free chunk.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop_first()
    }

    /// Takes in the chunks that a file has lost.
    pub fn lose(&mut self, chunks: impl IntoIterator<Item = u32>) {
        self.lost.extend(chunks);
    }

    /// Returns the chunks lost so far, for a table without them.
    pub fn begin_release(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.lost)
    }

    /// Frees chunks after the table without them is durable.
    pub fn release(&mut self, chunks: Vec<u32>) {
        self.free.extend(chunks);
    }

    /// Returns the number of chunks that are free now or after the next table.
    pub fn available(&self) -> u64 {
        (self.free.len() + self.lost.len()) as u64
    }

    /// Returns whether a table would free chunks.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }
}
