//! Finds the frames of one generation in the bytes of an arena.
//!
//! The bytes may be hostile: the search checks each pointer, length and count before it uses it.
//! The work is bounded, and so is the memory: one window and one [`Scan`].

use crate::Result;
use crate::format::{
    ArenaKey, FRAME_ALIGNMENT_BYTES, FRAME_HEADER_BYTES, FRAMES_START, FrameHasher, FrameInfo,
    GENERATION_OFFSET, frame_checksum,
};
use crate::window::Window;

/// The search behind the prefix hashes at most this many times the size of the arena. Honest bytes
/// need less than once; bytes made to look like overlapping frames would need its square.
const SEARCH_BUDGET_FACTOR: usize = 16;

/// Frames from the start of an arena on, each where the one before it ends, and with the number
/// after its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// Their number.
    pub frames: u64,
    /// The sequence number of the first record.
    pub first_sequence: u64,
    /// The sequence number of the last record.
    pub last_sequence: u64,
}

/// Frames that are evidence and are never taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSpan {
    /// Their number.
    pub frames: u64,
    /// The lowest sequence number of a record.
    pub first_sequence: u64,
    /// The highest sequence number of a record.
    pub last_sequence: u64,
}

/// The frames of one generation in an arena. These are facts; the caller, which knows the other
/// arenas and the manifest, decides whether damage is a torn tail or corruption.
///
/// Its size does not depend on the number of frames. That is enough for every decision. Recovery
/// takes frames while each continues the numbers of the one before: a run as a whole or not at all.
/// It never takes the first frame that does not continue the run, nor any behind it. Of those only
/// the extremes count: a later number in one, and the promise of the highest persisted-until number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The frames that can be taken.
    pub run: Option<FrameRun>,
    /// Their end: the first place without a whole frame that continues them.
    pub end_bytes: usize,
    /// The prefix of whole frames is followed by this generation: a frame was begun there and is not
    /// whole, unless a word left by an earlier use of the slot happens to have the generation's
    /// value. A hint, no proof.
    pub torn: bool,
    /// Whole frames behind the end.
    pub behind: Option<FrameSpan>,
    /// Whether `behind` is all there is: false if the bytes hold so many things that look like
    /// frames and are none that the search was given up.
    pub search_complete: bool,
    /// The highest persisted-until number in any whole frame.
    pub max_persisted_until: Option<u64>,
    /// The largest number in any whole frame, a record's or persisted-until, and the frame's offset.
    pub largest: Option<(u64, usize)>,
}

impl Scan {
    /// Returns the scan of an arena without frames.
    pub fn empty() -> Self {
        Scan {
            end_bytes: FRAMES_START,
            search_complete: true,
            ..Scan::default()
        }
    }

    /// Returns whether anything outside the run is, or looks, of this generation.
    pub fn is_damaged(&self) -> bool {
        self.torn || self.behind.is_some() || !self.search_complete
    }

    /// Returns whether there is a whole frame.
    pub fn has_frames(&self) -> bool {
        self.run.is_some() || self.behind.is_some()
    }

    /// Returns the number of frames that can be taken.
    pub fn frames(&self) -> u64 {
        self.run.map_or(0, |run| run.frames)
    }

    /// Returns the highest sequence number in any whole frame.
    pub fn max_sequence(&self) -> Option<u64> {
        let in_run = self.run.map(|run| run.last_sequence);
        in_run.max(self.behind.map(|span| span.last_sequence))
    }

    /// Adds the frame that lies where those before it end; one that does not continue their numbers
    /// ends the run.
    pub fn add(&mut self, frame: &FrameInfo) {
        let is_continued = match &mut self.run {
            _ if self.behind.is_some() => false,
            None => {
                self.run = Some(FrameRun {
                    frames: 1,
                    first_sequence: frame.first_sequence,
                    last_sequence: frame.last_sequence(),
                });
                true
            }
            Some(run) if run.last_sequence.checked_add(1) == Some(frame.first_sequence) => {
                run.frames += 1;
                run.last_sequence = frame.last_sequence();
                true
            }
            Some(_) => false,
        };
        if is_continued {
            self.end_bytes = frame.next_offset();
            self.note_numbers(frame);
        } else {
            self.add_behind(frame);
        }
    }

    /// Adds a frame that is not to be taken.
    pub fn add_behind(&mut self, frame: &FrameInfo) {
        let (first, last) = (frame.first_sequence, frame.last_sequence());
        let so_far = self.behind.unwrap_or(FrameSpan {
            frames: 0,
            first_sequence: first,
            last_sequence: last,
        });
        self.behind = Some(FrameSpan {
            frames: so_far.frames + 1,
            first_sequence: so_far.first_sequence.min(first),
            last_sequence: so_far.last_sequence.max(last),
        });
        self.note_numbers(frame);
    }

    fn note_numbers(&mut self, frame: &FrameInfo) {
        self.max_persisted_until = self.max_persisted_until.max(Some(frame.persisted_until));
        let number = frame.last_sequence().max(frame.persisted_until);
        if self.largest.is_none_or(|(largest, _)| largest < number) {
            self.largest = Some((number, frame.offset));
        }
    }
}

/// The expectations of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes that can hold frames.
    pub(crate) capacity: usize,
    /// Where the frames end, if that is known. Nothing behind is read if whole frames end there.
    pub(crate) known_end: Option<usize>,
}

/// Receives the frames of an arena in the order of their places.
pub(crate) trait Visitor {
    /// Receives a frame that lies at the end of the one before it. Its checksum was compared;
    /// `window` reads it.
    fn in_prefix(&mut self, frame: &FrameInfo, window: &mut Window<'_>) -> Result<()>;

    /// Receives a frame behind a place without a whole one.
    fn behind(&mut self, frame: &FrameInfo);
}

/// How a walk over an arena ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked {
    /// Where the prefix ends: the first place without a whole frame.
    pub(crate) end_bytes: usize,
    /// A frame was begun there.
    pub(crate) torn: bool,
    pub(crate) search_complete: bool,
}

/// Shows all whole frames of `key` to the visitor.
pub(crate) fn walk(
    window: &mut Window<'_>,
    key: ArenaKey,
    bounds: Bounds,
    visitor: &mut dyn Visitor,
) -> Result<Walked> {
    let known_end = bounds.known_end.filter(|end| *end <= bounds.capacity);
    window.set_limit(known_end.unwrap_or(bounds.capacity));
    let mut end_bytes = walk_prefix(window, key, FRAMES_START, visitor)?;
    if known_end == Some(end_bytes) {
        return Ok(Walked {
            end_bytes,
            torn: false,
            search_complete: true,
        });
    }
    // Not as it was noted: everything is evidence.
    window.set_limit(bounds.capacity);
    end_bytes = walk_prefix(window, key, end_bytes, visitor)?;
    let begun = window.bytes(end_bytes.saturating_add(GENERATION_OFFSET), 8)?;
    let torn = begun == Some(&key.generation().to_le_bytes());
    Ok(Walked {
        end_bytes,
        torn,
        search_complete: search(window, key, end_bytes, visitor)?,
    })
}

fn walk_prefix(
    window: &mut Window<'_>,
    key: ArenaKey,
    from: usize,
    visitor: &mut dyn Visitor,
) -> Result<usize> {
    let mut end_bytes = from;
    while let Some((frame, checksum)) = parse(window, key, end_bytes)? {
        if checksum_of(window, key, &frame)? != Some(checksum) {
            break;
        }
        visitor.in_prefix(&frame, window)?;
        end_bytes = frame.next_offset();
    }
    Ok(end_bytes)
}

/// Shows the whole frames behind `end_bytes`. Returns whether those were all.
fn search(
    window: &mut Window<'_>,
    key: ArenaKey,
    end_bytes: usize,
    visitor: &mut dyn Visitor,
) -> Result<bool> {
    let mut budget = window.limit().saturating_mul(SEARCH_BUDGET_FACTOR);
    let mut offset = end_bytes.saturating_add(FRAME_ALIGNMENT_BYTES);
    while let Some(at) = next_candidate(window, key, offset)? {
        offset = at + FRAME_ALIGNMENT_BYTES;
        let Some((candidate, checksum)) = parse(window, key, at)? else {
            continue;
        };
        let Some(left) = budget.checked_sub(candidate.payload_bytes) else {
            return Ok(false);
        };
        budget = left;
        if checksum_of(window, key, &candidate)? == Some(checksum) {
            offset = candidate.next_offset();
            visitor.behind(&candidate);
        }
    }
    Ok(true)
}

/// Returns the first place from `offset` on that has the generation where a frame has it.
fn next_candidate(
    window: &mut Window<'_>,
    key: ArenaKey,
    mut offset: usize,
) -> Result<Option<usize>> {
    let generation = key.generation().to_le_bytes();
    loop {
        let bytes = window.bytes_from(offset, FRAME_HEADER_BYTES)?;
        let Some(room) = bytes.len().checked_sub(FRAME_HEADER_BYTES) else {
            return Ok(None);
        };
        let places = room / FRAME_ALIGNMENT_BYTES + 1;
        let words = bytes.get(GENERATION_OFFSET..).unwrap_or_default();
        let mut words = words.chunks_exact(FRAME_ALIGNMENT_BYTES).take(places);
        if let Some(found) = words.position(|word| word == generation) {
            return Ok(Some(offset + found * FRAME_ALIGNMENT_BYTES));
        }
        offset += places * FRAME_ALIGNMENT_BYTES;
    }
}

fn parse(
    window: &mut Window<'_>,
    key: ArenaKey,
    offset: usize,
) -> Result<Option<(FrameInfo, u64)>> {
    let room = window.limit().saturating_sub(offset);
    let header = window.bytes(offset, FRAME_HEADER_BYTES)?;
    Ok(header.and_then(|header| FrameInfo::parse(header, key, offset, room)))
}

/// Returns the checksum of the bytes at a frame's place.
fn checksum_of(window: &mut Window<'_>, key: ArenaKey, frame: &FrameInfo) -> Result<Option<u64>> {
    let mut at = frame.checked_offset();
    let end = frame.payload_offset() + frame.payload_bytes;
    let length_word = frame.payload_bytes as u64;
    if end - at <= window.size_bytes() {
        let checked = window.bytes(at, end - at)?;
        return Ok(
            checked.map(|checked| frame_checksum(checked, key, frame.offset as u64, length_word))
        );
    }
    let mut hasher = FrameHasher::new(key, frame.offset as u64, length_word);
    while at < end {
        let bytes = window.bytes_from(at, 1)?;
        let part = bytes.get(..end - at).unwrap_or(bytes);
        if part.is_empty() {
            return Ok(None);
        }
        hasher.update(part);
        at += part.len();
    }
    Ok(Some(hasher.finish()))
}

/// The frames of an arena, one by one: for programs that show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameList {
    /// The prefix: whole frames, each where the one before it ends.
    pub frames: Vec<FrameInfo>,
    /// Where the prefix ends: the first place without a whole frame.
    pub end_bytes: usize,
    /// As in [`Scan`].
    pub torn: bool,
    /// Whole frames behind that place.
    pub behind: Vec<FrameInfo>,
    /// As in [`Scan`].
    pub search_complete: bool,
}

impl Visitor for FrameList {
    fn in_prefix(&mut self, frame: &FrameInfo, _: &mut Window<'_>) -> Result<()> {
        self.frames.push(*frame);
        Ok(())
    }

    fn behind(&mut self, frame: &FrameInfo) {
        self.behind.push(*frame);
    }
}

/// Lists the frames of `key` in the bytes of a whole arena, header included.
pub fn list_frames(bytes: &[u8], key: ArenaKey) -> FrameList {
    list_in_windows(bytes, key, bytes.len())
}

fn list_in_windows(bytes: &[u8], key: ArenaKey, window_bytes: usize) -> FrameList {
    let mut list = FrameList {
        frames: Vec::new(),
        end_bytes: FRAMES_START,
        torn: false,
        behind: Vec::new(),
        search_complete: true,
    };
    let bounds = Bounds {
        capacity: bytes.len(),
        known_end: None,
    };
    let mut window = Window::new(&bytes, bytes.len(), window_bytes);
    // Memory can be read.
    if let Ok(walked) = walk(&mut window, key, bounds, &mut list) {
        list.end_bytes = walked.end_bytes;
        list.torn = walked.torn;
        list.search_complete = walked.search_complete;
    }
    list
}

#[cfg(test)]
mod tests;
