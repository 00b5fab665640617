//! Bytes that wait to be sent, and the buffers that they lie in.

use std::collections::VecDeque;
use std::io::IoSlice;

/// A part of the output.
enum Segment<B> {
    Bytes(Vec<u8>),
    /// `buffer[at..at + bytes]`, of the command with a tag.
    Piece {
        tag: u64,
        buffer: B,
        at: usize,
        bytes: usize,
    },
}

/// The output of a connection.
pub struct Output<B> {
    segments: VecDeque<Segment<B>>,
    /// Bytes of the first segment that are sent.
    sent: usize,
    /// Bytes that wait.
    bytes: usize,
    /// Memory that the connection has for them beside buffers of the backend.
    own_bytes: usize,
}

impl<B: std::ops::Deref<Target = [u8]>> Output<B> {
    pub(super) fn new() -> Self {
        Output {
            segments: VecDeque::new(),
            sent: 0,
            bytes: 0,
            own_bytes: 0,
        }
    }

    /// Appends bytes. Small ones join those before them.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.own_bytes += bytes.len();
        match self.segments.back_mut() {
            Some(Segment::Bytes(last)) if last.len() < JOINED_BYTES => {
                last.extend_from_slice(bytes)
            }
            _ => {
                let mut segment = Vec::with_capacity(bytes.len().max(256));
                segment.extend_from_slice(bytes);
                self.segments.push_back(Segment::Bytes(segment));
            }
        }
    }

    /// Appends a part of a buffer, which [`Output::advance`] hands out when it is sent.
    pub(super) fn push_piece(&mut self, tag: u64, buffer: B, at: usize, bytes: usize) {
        self.bytes += bytes;
        self.segments.push_back(Segment::Piece {
            tag,
            buffer,
            at,
            bytes,
        });
    }

    /// Returns the number of bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of memory that it has beside buffers of the backend.
    pub fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Puts the next parts to send into `slices`.
    pub fn fill<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        let mut skip = self.sent;
        for segment in self.segments.iter().take(MAX_SLICES) {
            slices.push(IoSlice::new(&segment.as_bytes()[skip..]));
            skip = 0;
        }
    }

    /// Takes note of `sent` bytes that were sent. Calls `freed` with each buffer that is free again.
    pub fn advance(&mut self, sent: usize, mut freed: impl FnMut(u64, B)) {
        debug_assert!(sent <= self.bytes, "only bytes of the output are sent");
        self.bytes -= sent;
        self.sent += sent;
        while let Some(first) = self.segments.front() {
            let length = first.as_bytes().len();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            match self.segments.pop_front() {
                Some(Segment::Piece { tag, buffer, .. }) => freed(tag, buffer),
                Some(Segment::Bytes(bytes)) => self.own_bytes -= bytes.len(),
                None => {}
            }
        }
    }

    /// Drops everything. Calls `freed` with each buffer.
    pub(super) fn clear(&mut self, mut freed: impl FnMut(u64, B)) {
        (self.sent, self.bytes, self.own_bytes) = (0, 0, 0);
        for segment in self.segments.drain(..) {
            if let Segment::Piece { tag, buffer, .. } = segment {
                freed(tag, buffer);
            }
        }
    }
}

/// Bytes up to which a segment takes more.
const JOINED_BYTES: usize = 4096;
/// The most parts of one system call.
const MAX_SLICES: usize = 64;

impl<B: std::ops::Deref<Target = [u8]>> Segment<B> {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Segment::Bytes(bytes) => bytes,
            Segment::Piece {
                buffer, at, bytes, ..
            } => &buffer[*at..*at + *bytes],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(output: &mut Output<Vec<u8>>, bytes: usize) -> (Vec<u8>, Vec<u64>) {
        let mut slices = Vec::new();
        output.fill(&mut slices);
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let mut tags = Vec::new();
        output.advance(bytes, |tag, _| tags.push(tag));
        (all, tags)
    }

    #[test]
    fn a_buffer_comes_back_when_its_last_byte_is_sent() {
        let mut output = Output::new();
        output.push(b"ab");
        output.push(b"c");
        output.push_piece(7, vec![1, 2, 3, 4], 1, 2);
        output.push(b"d");
        assert_eq!((output.len(), output.own_bytes()), (6, 4));
        let (all, tags) = sent(&mut output, 4);
        assert_eq!((all.as_slice(), tags.len()), (&b"abc\x02\x03d"[..], 0));
        let (all, tags) = sent(&mut output, 1);
        assert_eq!((all.as_slice(), tags.as_slice()), (&b"\x03d"[..], &[7][..]));
        assert_eq!(sent(&mut output, 1).0, b"d");
        assert!(output.is_empty() && output.own_bytes() == 0);
    }

    #[test]
    fn a_cleared_output_returns_all_buffers() {
        let mut output = Output::new();
        output.push_piece(1, vec![0; 9], 0, 9);
        output.push_piece(2, vec![0; 9], 0, 9);
        output.advance(3, |_, _| unreachable!());
        let mut tags = Vec::new();
        output.clear(|tag, _| tags.push(tag));
        assert_eq!((tags.as_slice(), output.len()), (&[1, 2][..], 0));
    }
}
