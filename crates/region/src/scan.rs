//! Finds the frames of one generation in the bytes of an arena.
//!
//! A pure function over hostile bytes: it takes no pointer, length or count from them that was not
//! checked, and its work is bounded.

use crate::format::{ArenaKey, FRAME_ALIGNMENT_BYTES, FRAMES_START, FrameInfo, is_begun};

/// The search behind the prefix hashes at most this many times the size of the arena. Honest bytes
/// need less than once; bytes made to look like overlapping frames would need its square.
const SEARCH_BUDGET_FACTOR: usize = 16;

/// What an arena holds of one generation. These are facts; whether damage is a torn tail or
/// corruption is decided by whoever knows the other arenas and the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The prefix: whole frames, each where the one before it ends.
    pub frames: Vec<FrameInfo>,
    /// Where the prefix ends: the first place without a whole frame.
    pub end_bytes: usize,
    /// That place carries this generation: a frame was begun there and is not whole, unless a word
    /// left by an earlier use of the slot happens to have the generation's value. A hint, no proof.
    pub torn: bool,
    /// Whole frames behind that place. They are evidence, never taken.
    pub behind: Vec<FrameInfo>,
    /// Whether `behind` is all there is: false if the bytes hold so many things that look like
    /// frames and are none that the search was given up.
    pub search_complete: bool,
}

impl Scan {
    /// Whether anything lies outside the prefix that is, or looks, of this generation.
    pub fn is_damaged(&self) -> bool {
        self.torn || !self.behind.is_empty() || !self.search_complete
    }

    /// Every whole frame, those behind the damage too.
    pub fn all_frames(&self) -> impl Iterator<Item = &FrameInfo> {
        self.frames.iter().chain(&self.behind)
    }

    /// The highest persisted-until number in any whole frame.
    pub fn max_persisted_until(&self) -> Option<u64> {
        self.all_frames().map(|frame| frame.persisted_until).max()
    }

    /// The highest sequence number in any whole frame.
    pub fn max_sequence(&self) -> Option<u64> {
        self.all_frames().map(FrameInfo::last_sequence).max()
    }
}

/// Scans the bytes of a whole arena, header included, for frames of `key`.
pub fn scan(bytes: &[u8], key: ArenaKey) -> Scan {
    let mut frames = Vec::new();
    let mut end_bytes = FRAMES_START;
    while let Some(frame) = FrameInfo::read(bytes, key, end_bytes) {
        end_bytes = frame.next_offset();
        frames.push(frame);
    }
    let (behind, search_complete) = search(bytes, key, end_bytes);
    Scan {
        frames,
        end_bytes,
        torn: is_begun(bytes, key.generation(), end_bytes),
        behind,
        search_complete,
    }
}

/// Whole frames behind `end_bytes`, and whether all of them were found.
fn search(bytes: &[u8], key: ArenaKey, end_bytes: usize) -> (Vec<FrameInfo>, bool) {
    let mut found = Vec::new();
    let mut budget = bytes.len().saturating_mul(SEARCH_BUDGET_FACTOR);
    let mut offset = end_bytes + FRAME_ALIGNMENT_BYTES;
    while offset < bytes.len() {
        let mut next = offset + FRAME_ALIGNMENT_BYTES;
        if let Some((candidate, checksum)) = FrameInfo::parse(bytes, key, offset) {
            let Some(left) = budget.checked_sub(candidate.payload_bytes) else {
                return (found, false);
            };
            budget = left;
            if candidate.checksum(bytes, key) == Some(checksum) {
                next = candidate.next_offset();
                found.push(candidate);
            }
        }
        offset = next;
    }
    (found, true)
}

#[cfg(test)]
mod tests;
