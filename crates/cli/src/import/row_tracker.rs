//! A reader that knows on which line a row begins, and gives up within a row that never ends.
//!
//! The CSV parser reads ahead, tells the offset at which it began a row, and counts lines. It does
//! not count those it skips before a row (empty ones, and the second half of CR LF). So the bytes
//! from the present row on are kept here.

use std::collections::VecDeque;
use std::io::{self, Read};

use crate::import::{ROW_BYTES, row_too_long};

pub struct RowTracker<R> {
    inner: R,
    /// Bytes passed on, from the present row's beginning.
    seen: VecDeque<u8>,
    /// Where in the file `seen` begins.
    offset: u64,
    /// Line ends before `seen`.
    lines: u64,
    /// The file has no more bytes.
    ended: bool,
}

impl<R> RowTracker<R> {
    pub fn new(inner: R) -> Self {
        RowTracker {
            inner,
            seen: VecDeque::new(),
            offset: 0,
            lines: 0,
            ended: false,
        }
    }

    /// Returns the bytes from the present row on, if nothing of the file lies behind `offset`.
    pub fn last_row(&self, offset: u64) -> Option<impl Read> {
        let end = self.offset + self.seen.len() as u64;
        let (front, back) = self.seen.as_slices();
        (self.ended && offset >= end).then(|| front.chain(back))
    }

    /// Takes note that a row begins at `offset`, or behind the line ends that are there, and
    /// returns its line, from 1.
    pub fn begin_row(&mut self, offset: u64) -> u64 {
        let passed = usize::try_from(offset.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let passed = self.seen.drain(..passed.min(self.seen.len()));
        self.lines += passed.filter(|&byte| byte == b'\n').count() as u64;
        self.offset = offset;
        let skipped = self
            .seen
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'));
        self.lines + skipped.filter(|&&byte| byte == b'\n').count() as u64 + 1
    }
}

impl<R: Read> Read for RowTracker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.ended |= length == 0 && !buffer.is_empty();
        self.seen.extend(buffer.iter().take(length));
        if self.seen.len() as u64 > ROW_BYTES {
            return Err(row_too_long());
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_an_end_is_given_up() {
        let mut endless = RowTracker::new(io::repeat(b'x'));
        let error = io::copy(&mut endless, &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("quote"));
    }

    #[test]
    fn lines_skipped_before_a_row_are_counted() {
        let mut rows = RowTracker::new(&b"a\r\n\r\n\nb\nc"[..]);
        io::copy(&mut rows, &mut io::sink()).unwrap();
        assert_eq!([0, 2, 7].map(|offset| rows.begin_row(offset)), [1, 4, 5]);
    }
}
