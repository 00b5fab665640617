//! Behaviour of a damaged store, and its damage.

use terrace::Error;

/// Behaviour of a damaged store.
#[derive(Debug)]
pub enum Verdict {
    /// Every answer is right.
    Right,
    /// The store does not open.
    Refused(Error),
    /// The store opens; some reads fail, all others are right.
    Unreadable(Error),
    /// A tail is missing and reported.
    Dropped,
    /// The last frame is missing and not reported.
    LastFrame,
    /// An answer is wrong.
    Wrong(String),
}

/// Count of each verdict.
#[derive(Debug, Default)]
pub struct Tally {
    pub right: u64,
    pub refused: u64,
    pub unreadable: u64,
    pub dropped: u64,
    pub last_frame: u64,
}

impl Tally {
    pub fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Right => self.right += 1,
            Verdict::Refused(_) => self.refused += 1,
            Verdict::Unreadable(_) => self.unreadable += 1,
            Verdict::Dropped => self.dropped += 1,
            Verdict::LastFrame => self.last_frame += 1,
            Verdict::Wrong(_) => unreachable!("has failed the test"),
        }
    }
}

/// Damage to a file, for messages.
pub struct Damage<'a> {
    pub file: &'a str,
    /// The first byte that differs.
    pub offset: usize,
    pub what: String,
}

impl Damage<'_> {
    /// Returns whether one bit differs, and so one file is at fault.
    pub fn is_flip(&self) -> bool {
        self.what.ends_with("flipped")
    }

    pub fn touches(&self, frame: Option<&(String, usize)>) -> bool {
        // A frame starts at a multiple of 8, and its first bytes may be those from before.
        frame.is_some_and(|(file, start)| self.file == file && self.offset >= start & !63)
    }
}

impl std::fmt::Display for Damage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.what)
    }
}
