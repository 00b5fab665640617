//! The bytes of a slot, read a window at a time.
//!
//! Goal: an arena of any size is searched in the memory of one window.

use std::fmt;

use crate::image::ImageWriter;
use crate::{Error, Result};

/// Bytes that a search reads at a time.
pub(crate) const WINDOW_BYTES: usize = 1 << 20;

/// Read access to a slot as it was found. Writes nothing.
pub trait SlotReader: Send + Sync + fmt::Debug {
    /// Returns the length of the slot.
    ///
    /// # Errors
    /// As the medium.
    fn length_bytes(&self) -> Result<u64>;

    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// As the medium; the slot ends before that.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// Maps the first bytes of the slot privately, so that the kernel may take their memory back.
    /// `None` if the medium has no such mappings or may end under one.
    ///
    /// # Errors
    /// As the medium.
    fn map(&self, _length_bytes: usize) -> Result<Option<ImageWriter>> {
        Ok(None)
    }
}

/// Bytes that are in memory already.
impl SlotReader for &[u8] {
    fn length_bytes(&self) -> Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let source = self.get(from..).unwrap_or_default();
        match source.get(..buffer.len()) {
            Some(source) => buffer.copy_from_slice(source),
            None => {
                return Err(Error::InvalidArgument(
                    "the bytes end before that".to_owned(),
                ));
            }
        }
        Ok(())
    }
}

/// A part of a slot in memory. It moves to each requested place.
#[derive(Debug)]
pub struct Window<'a> {
    reader: &'a dyn SlotReader,
    size_bytes: usize,
    /// Bytes from here on are not read.
    limit: usize,
    start: usize,
    buffer: Vec<u8>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(reader: &'a dyn SlotReader, limit: usize, size_bytes: usize) -> Self {
        Window {
            reader,
            size_bytes,
            limit,
            start: 0,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Lets bytes up to `limit` be read. The bytes at hand stay.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the bytes at an offset, `None` if they do not end before the limit. Ask for few:
    /// they are all in memory.
    ///
    /// # Errors
    /// As the medium.
    pub fn bytes(&mut self, offset: usize, length: usize) -> Result<Option<&[u8]>> {
        let is_inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.limit);
        if !is_inside {
            return Ok(None);
        }
        self.hold(offset, length)?;
        Ok(self.at_hand(offset).get(..length))
    }

    /// Returns all that is at hand from an offset on: at least `least` bytes, or those up to the limit.
    ///
    /// # Errors
    /// As the medium.
    pub(crate) fn bytes_from(&mut self, offset: usize, least: usize) -> Result<&[u8]> {
        self.hold(offset, least.min(self.limit.saturating_sub(offset)))?;
        Ok(self.at_hand(offset))
    }

    fn at_hand(&self, offset: usize) -> &[u8] {
        let from = offset.checked_sub(self.start);
        let held = from.and_then(|from| self.buffer.get(from..));
        held.unwrap_or_default()
    }

    /// Moves to an offset, unless the bytes there are held.
    fn hold(&mut self, offset: usize, length: usize) -> Result<()> {
        if self.at_hand(offset).len() >= length {
            return Ok(());
        }
        let left = self.limit.saturating_sub(offset);
        self.buffer.resize(self.size_bytes.max(length).min(left), 0);
        self.start = offset;
        let read = self.reader.read_exact_at(&mut self.buffer, offset as u64);
        if read.is_err() {
            self.buffer.clear();
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_moves_to_what_is_asked_and_ends_at_its_limit() {
        let bytes: Vec<u8> = (0..200).collect();
        let reader = &bytes[..];
        let mut window = Window::new(&reader, 150, 32);
        assert_eq!(window.bytes(10, 20).unwrap(), Some(&bytes[10..30]));
        assert_eq!(window.bytes_from(15, 8).unwrap(), &bytes[15..42]);
        assert_eq!(window.bytes(100, 50).unwrap(), Some(&bytes[100..150]));
        assert_eq!(window.bytes(120, 40).unwrap(), None);
        assert_eq!(window.bytes(usize::MAX, 2).unwrap(), None);
        assert_eq!(window.bytes_from(149, 8).unwrap(), &bytes[149..150]);
        assert_eq!(window.bytes_from(150, 8).unwrap(), b"");
        window.set_limit(200);
        assert_eq!(window.bytes(120, 40).unwrap(), Some(&bytes[120..160]));
        assert_eq!(window.bytes(0, 4).unwrap(), Some(&bytes[..4]), "and back");
    }
}
