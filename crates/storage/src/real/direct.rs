//! Reads and writes that bypass the page cache, of any length at any offset.
//!
//! The kernel takes direct I/O only where the offset, the length and the memory are aligned to the
//! device's blocks. Here the aligned middle of a call goes directly (through an aligned staging
//! buffer unless the caller's memory is aligned already), and the ragged ends of a write go
//! through the page cache: padding them instead would change the file's length for other readers,
//! and for good if the process died before it could cut the file again. The kernel keeps the two
//! ways coherent for one caller at a time, so writes through a handle take turns.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::file::read_full;
use super::polling::{Pace, pace_of};

/// Satisfies every device with blocks up to the size of a page.
const ALIGNMENT: usize = 4096;
/// Staging is bounded; longer calls go in pieces.
const STAGING_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct DirectFile {
    file: fs::File,
    write_turn: Mutex<()>,
    /// Present for a file whose reads wait on the processor.
    pace: Option<Arc<Pace>>,
}

/// Returns whether the kernel finds the call unfit for direct I/O (the device's blocks may be
/// larger than a page), so that it has to go through the page cache.
fn is_unfit(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
        && bytes.len().is_multiple_of(ALIGNMENT)
        && offset.is_multiple_of(ALIGNMENT as u64)
}

impl DirectFile {
    pub(super) fn new(file: fs::File, is_polled: bool) -> io::Result<Self> {
        Ok(DirectFile {
            pace: match is_polled {
                true => pace_of(&file)?,
                false => None,
            },
            file,
            write_turn: Mutex::new(()),
        })
    }

    fn read_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let sleeping = |buffer: &mut [u8]| read_once(&self.file, buffer, offset);
        match &self.pace {
            Some(pace) => pace.read(&self.file, buffer, offset, sleeping),
            None => sleeping(buffer),
        }
    }

    /// Fills the buffer as far as the file goes.
    pub(super) fn read_at(
        &self,
        buffered: &fs::File,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let mut done = 0;
        if is_aligned(buffer, offset) {
            done = or_none_if_unfit(self.read_once(buffer, offset))?;
        } else {
            let mut staging = Staging::for_call(buffer.len(), offset);
            while done < buffer.len() {
                let rest = buffer.get_mut(done..).unwrap_or_default();
                let count = self.read_staged(&mut staging, rest, offset + done as u64)?;
                if count == 0 {
                    break;
                }
                done += count;
            }
        }
        // A short direct read is the end of the file, or a boundary at which the kernel stopped.
        let rest = buffer.get_mut(done..).unwrap_or_default();
        Ok(done + read_full(buffered, rest, offset + done as u64)?)
    }

    /// Reads the aligned stretch around the start of `buffer` and copies the part that belongs
    /// there.
    fn read_staged(
        &self,
        staging: &mut Staging,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let skipped = (offset % ALIGNMENT as u64) as usize;
        let wanted = (skipped + buffer.len()).next_multiple_of(ALIGNMENT);
        let stretch = staging.bytes_mut(wanted);
        let start = offset - skipped as u64;
        let count = or_none_if_unfit(self.read_once(stretch, start))?;
        let source = stretch.get(skipped..count).unwrap_or_default();
        let copied = source.len().min(buffer.len());
        if let (Some(target), Some(source)) = (buffer.get_mut(..copied), source.get(..copied)) {
            target.copy_from_slice(source);
        }
        Ok(copied)
    }

    pub(super) fn write_at(
        &self,
        buffered: &fs::File,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        let _turn = self.write_turn.lock();
        let into_page = (offset % ALIGNMENT as u64) as usize;
        let to_boundary = (ALIGNMENT - into_page) % ALIGNMENT;
        let head_length = bytes.len().min(to_boundary);
        let (head, rest) = bytes.split_at(head_length);
        let (middle, tail) = rest.split_at(rest.len() - rest.len() % ALIGNMENT);
        buffered.write_all_at(head, offset)?;
        let middle_offset = offset + head.len() as u64;
        self.write_aligned(buffered, middle, middle_offset)?;
        buffered.write_all_at(tail, middle_offset + middle.len() as u64)
    }

    /// Writes `bytes`, which begin and end on aligned offsets of the file; their memory may lie
    /// anywhere.
    fn write_aligned(&self, buffered: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if is_aligned(bytes, offset) {
            return self.write_direct(buffered, bytes, offset);
        }
        let mut staging = Staging::for_call(bytes.len(), offset);
        let mut position = offset;
        for piece in bytes.chunks(STAGING_BYTES) {
            let staged = staging.bytes_mut(piece.len());
            staged.copy_from_slice(piece);
            self.write_direct(buffered, staged, position)?;
            position += piece.len() as u64;
        }
        Ok(())
    }

    /// Writes directly. A write that the kernel cut short goes on where it stopped, through the
    /// page cache if that is no longer aligned.
    fn write_direct(&self, buffered: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut rest = bytes;
        let mut position = offset;
        while !rest.is_empty() {
            let count = if is_aligned(rest, position) {
                or_none_if_unfit(write_once(&self.file, rest, position))?
            } else {
                0
            };
            if count == 0 {
                return buffered.write_all_at(rest, position);
            }
            rest = rest.get(count..).unwrap_or_default();
            position += count as u64;
        }
        Ok(())
    }
}

fn or_none_if_unfit(outcome: io::Result<usize>) -> io::Result<usize> {
    match outcome {
        Err(error) if is_unfit(&error) => Ok(0),
        outcome => outcome,
    }
}

fn read_once(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn write_once(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.write_at(bytes, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Aligned memory, carved out of a longer allocation.
struct Staging {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Staging {
    /// Allocates enough for a call of this length at this offset, or for a piece of it.
    fn for_call(length: usize, offset: u64) -> Self {
        let skipped = (offset % ALIGNMENT as u64) as usize;
        let length = length.saturating_add(skipped).min(STAGING_BYTES);
        let length = length.next_multiple_of(ALIGNMENT);
        let memory = vec![0; length + ALIGNMENT];
        let address = memory.as_ptr().addr();
        Staging {
            start: address.next_multiple_of(ALIGNMENT) - address,
            memory,
            length,
        }
    }

    /// Returns the first `length` bytes, or all if there are fewer.
    fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        let end = self.start + length.min(self.length);
        self.memory.get_mut(self.start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    use rustix::fs::OFlags;

    use super::*;

    /// Opens a direct file and, in the place of its own buffered descriptor, another file. So bytes
    /// that went through the page cache can be told apart. None where the file system has no direct
    /// I/O.
    fn open_apart(directory: &Path, is_polled: bool) -> Option<(DirectFile, fs::File)> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let buffered = options.open(directory.join("buffered")).unwrap();
        options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        match options.open(directory.join("direct")) {
            Ok(file) => Some((DirectFile::new(file, is_polled).unwrap(), buffered)),
            Err(error) if is_unfit(&error) => None,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn reads_bypass_the_page_cache_wherever_they_begin() {
        for is_polled in [false, true] {
            reads_bypass_the_page_cache(is_polled);
        }
    }

    fn reads_bypass_the_page_cache(is_polled: bool) {
        let directory = tempfile::tempdir().unwrap();
        let length = 2 * STAGING_BYTES + 8192;
        let bytes: Vec<u8> = (0..length).map(|index| (index / 7) as u8).collect();
        fs::write(directory.path().join("direct"), &bytes).unwrap();
        let Some((direct, buffered)) = open_apart(directory.path(), is_polled) else {
            return;
        };
        for (offset, length) in [
            (0, 4096),
            (1, 1),
            (4095, 2),
            (5000, length - 9000),
            (77, 8192),
        ] {
            let mut buffer = vec![0; length];
            let count = direct
                .read_at(&buffered, &mut buffer, offset as u64)
                .unwrap();
            assert_eq!(count, length, "{length} at {offset}");
            assert!(
                buffer == bytes[offset..offset + length],
                "{length} at {offset}"
            );
        }
    }

    #[test]
    fn the_aligned_middle_of_a_write_bypasses_the_page_cache() {
        let directory = tempfile::tempdir().unwrap();
        let Some((direct, buffered)) = open_apart(directory.path(), false) else {
            return;
        };
        let bytes = vec![1; 4096 + 2 * STAGING_BYTES + 100];
        direct.write_at(&buffered, &bytes, 4000).unwrap();
        let read = |name| fs::read(directory.path().join(name)).unwrap();
        let (before, middle) = (vec![0; 4096], vec![1; 2 * STAGING_BYTES + 4096]);
        assert!(read("direct") == [before, middle].concat());
        let through_cache = read("buffered").iter().filter(|byte| **byte == 1).count();
        assert_eq!(through_cache, 96 + 4, "head and tail");
    }
}
