//! An arena: frames appended at its end, read anywhere before it.
//!
//! Order of an append: payload and header are stored, then the checksum over the bytes in the
//! image. Then the medium completes the frame (length word last, or one write), and only then do
//! readers see it. A failure before that leaves the end where it was; the next append stores over
//! the same place.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use terrace_storage as storage;

use crate::device::{Attached, Medium};
use crate::format::{
    ArenaKey, CHECKED_START, FRAME_HEADER_BYTES, FRAMES_START, FrameInfo, frame_checksum,
};
use crate::image::{Image, ImageWriter};
use crate::{Error, Result};

/// A frame to be appended.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The sequence number of its first record.
    pub first_sequence: u64,
    /// Number of records, at least one.
    pub record_count: u32,
    /// Every sequence number up to this one is known to be persisted.
    pub persisted_until: u64,
    /// The payload in parts, stored one behind the other; not empty.
    pub payload: &'a [&'a [u8]],
}

/// Where an appended frame lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where the frame starts in the arena.
    pub offset: usize,
    /// Where its payload starts in the arena.
    pub payload_offset: usize,
    /// Bytes of payload.
    pub payload_bytes: usize,
}

/// A frame read back, its checksum compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameView<'a> {
    /// Its place and the contents of its header.
    pub info: FrameInfo,
    /// Its payload.
    pub payload: &'a [u8],
}

/// State that only the holder of the appender's lock may touch.
struct Appender {
    writer: ImageWriter,
    sealed: bool,
    /// Whether a frame that failed may lie behind the end, whole: the medium may have taken all of
    /// it before it reported an error.
    unclean: bool,
}

/// Memory that takes frames until it is full or sealed.
pub struct Arena {
    slot: u64,
    key: ArenaKey,
    file: PathBuf,
    image: Arc<Image>,
    medium: Box<dyn Medium>,
    appender: Mutex<Appender>,
    /// Offset below which everything was made power-safe.
    persisted: AtomicUsize,
    /// The first failed persist. A later one may not heal it: the kernel drops the pages that it
    /// could not write and the next sync reports success.
    persist_failure: OnceLock<Arc<storage::Error>>,
    /// Lets one persist run at a time. The kernel reports a failed write to one of several callers.
    persisting: Mutex<()>,
}

impl Arena {
    /// Returns an arena over an attached slot; the bytes below `end_bytes` are published.
    pub(crate) fn new(
        slot: u64,
        key: ArenaKey,
        file: PathBuf,
        attached: Attached,
        end_bytes: usize,
    ) -> Result<Self> {
        let Attached { mut writer, medium } = attached;
        writer.publish(end_bytes)?;
        Ok(Arena {
            slot,
            key,
            file,
            image: Arc::clone(writer.image()),
            medium,
            appender: Mutex::new(Appender {
                writer,
                sealed: false,
                unclean: false,
            }),
            persisted: AtomicUsize::new(FRAMES_START),
            persist_failure: OnceLock::new(),
            persisting: Mutex::new(()),
        })
    }

    /// Returns the slot of the arena.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Returns the generation that it was activated for.
    pub fn generation(&self) -> u64 {
        self.key.generation()
    }

    /// Returns the file that holds it, or its name where it is none.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns its size, header included.
    pub fn capacity_bytes(&self) -> u64 {
        self.image.length_bytes() as u64
    }

    /// Returns the offset at which the next frame would start.
    pub fn end_bytes(&self) -> usize {
        self.image.published_bytes()
    }

    /// Returns whether it holds no frame.
    pub fn is_empty(&self) -> bool {
        self.end_bytes() == FRAMES_START
    }

    /// Returns the size of the largest payload that still fits.
    pub fn remaining_payload_bytes(&self) -> usize {
        let used = self.end_bytes() + FRAME_HEADER_BYTES;
        self.image.length_bytes().saturating_sub(used)
    }

    /// Appends a frame. When this returns, readers see it and it survives all that the region's
    /// appended frames survive.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Sealed`], [`Error::InvalidArgument`] for a frame without payload
    /// or records, [`Error::Io`]. After each of them the arena is as before; after an I/O error the
    /// frame may be found by a recovery, unless another was appended since.
    pub fn append(&self, frame: &Frame<'_>) -> Result<Appended> {
        let mut appender = self.appender.lock();
        if appender.sealed {
            return Err(Error::Sealed);
        }
        let payload_bytes = self.check_fit(frame)?;
        let info = FrameInfo {
            offset: self.end_bytes(),
            payload_bytes,
            first_sequence: frame.first_sequence,
            record_count: frame.record_count,
            persisted_until: frame.persisted_until,
        };
        appender.unclean = true;
        self.store(&mut appender.writer, &info, frame.payload)?;
        appender.writer.publish(info.next_offset())?;
        appender.unclean = false;
        Ok(Appended {
            offset: info.offset,
            payload_offset: info.payload_offset(),
            payload_bytes,
        })
    }

    /// Returns the payload's size, if the frame is a legal one and fits.
    fn check_fit(&self, frame: &Frame<'_>) -> Result<usize> {
        let sizes = frame.payload.iter().map(|part| part.len() as u64);
        let payload_bytes = sizes.fold(0, u64::saturating_add);
        if payload_bytes == 0 || frame.record_count == 0 {
            return Err(Error::InvalidArgument(
                "a frame holds at least one record and one byte of payload".to_owned(),
            ));
        }
        let remaining = self.remaining_payload_bytes();
        match usize::try_from(payload_bytes) {
            Ok(bytes) if bytes <= remaining => Ok(bytes),
            _ => Err(Error::Full {
                payload_bytes,
                remaining_payload_bytes: remaining as u64,
            }),
        }
    }

    fn store(&self, image: &mut ImageWriter, info: &FrameInfo, payload: &[&[u8]]) -> Result<()> {
        let checked = info.encode_checked(self.generation());
        self.medium
            .store(image, info.offset + CHECKED_START, &checked)?;
        let mut at = info.payload_offset();
        for part in payload.iter().filter(|part| !part.is_empty()) {
            self.medium.store(image, at, part)?;
            at += part.len();
        }
        let checked = image.range(
            info.offset + CHECKED_START,
            FRAME_HEADER_BYTES - CHECKED_START + info.payload_bytes,
        )?;
        let length_word = info.payload_bytes as u64;
        let checksum = frame_checksum(checked, self.key, info.offset as u64, length_word);
        self.medium
            .store(image, info.offset + 8, &checksum.to_le_bytes())?;
        let frame_bytes = FRAME_HEADER_BYTES + info.payload_bytes;
        self.medium
            .complete(image, info.offset, length_word, frame_bytes)
    }

    /// Makes everything appended so far survive a power cut.
    ///
    /// # Errors
    /// [`Error::PersistUnsupported`] where the region cannot, [`Error::PersistFailed`] if it should
    /// have; from then on every call fails with the same cause.
    pub fn persist(&self) -> Result<()> {
        let _persisting = self.persisting.lock();
        if let Some(failure) = self.persist_failure.get() {
            return Err(Error::PersistFailed(Arc::clone(failure)));
        }
        let from = self.persisted_bytes();
        let to = self.end_bytes();
        if to <= from {
            return Ok(());
        }
        match self.medium.persist(from, to) {
            Ok(()) => {
                self.persisted.fetch_max(to, Ordering::AcqRel);
                Ok(())
            }
            Err(Error::Io(error)) => {
                let failure = self.persist_failure.get_or_init(|| Arc::new(error));
                Err(Error::PersistFailed(Arc::clone(failure)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the offset below which everything survives a power cut.
    pub fn persisted_bytes(&self) -> usize {
        self.persisted.load(Ordering::Acquire)
    }

    /// Returns whether everything appended so far survives a power cut.
    pub fn is_persisted(&self) -> bool {
        self.persisted_bytes() >= self.end_bytes()
    }

    /// Lets no further frame in. When this returns the end does not move any more, and no frame
    /// that failed lies behind it: the next frame with its numbers goes to another arena, where it
    /// could not overwrite it, and a recovery would take the failed one instead.
    ///
    /// # Errors
    /// [`Error::Io`] if a failed frame could not be wiped out; the arena is not sealed.
    /// [`Error::PersistFailed`] if it is not known whether it was.
    pub fn seal(&self) -> Result<()> {
        let mut appender = self.appender.lock();
        if appender.unclean {
            self.wipe_tail(&mut appender.writer)?;
            appender.unclean = false;
        }
        appender.sealed = true;
        Ok(())
    }

    fn wipe_tail(&self, image: &mut ImageWriter) -> Result<()> {
        let end = self.end_bytes();
        if self.image.length_bytes() - end < FRAME_HEADER_BYTES {
            // No frame fits here, so none can lie here.
            return Ok(());
        }
        self.medium.store(image, end, &[0; FRAME_HEADER_BYTES])?;
        self.medium.complete(image, end, 0, FRAME_HEADER_BYTES)?;
        match self.medium.persist(end, end + FRAME_HEADER_BYTES) {
            Ok(()) | Err(Error::PersistUnsupported { .. }) => Ok(()),
            Err(Error::Io(error)) => {
                let failure = self.persist_failure.get_or_init(|| Arc::new(error));
                Err(Error::PersistFailed(Arc::clone(failure)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns published bytes at an offset; `None` beyond the end. Never blocks.
    pub fn read(&self, offset: usize, length: usize) -> Option<&[u8]> {
        self.image
            .published()
            .get(offset..offset.checked_add(length)?)
    }

    /// Returns the frames from the first on, each compared with its checksum. Ends after an error.
    pub fn frames(&self) -> Frames<'_> {
        Frames {
            arena: self,
            bytes: self.image.published(),
            offset: FRAMES_START,
        }
    }

    /// Compares every frame with its checksum.
    ///
    /// # Errors
    /// [`Error::Corruption`] for the first that differs.
    pub fn verify(&self) -> Result<()> {
        self.frames().try_for_each(|frame| frame.map(|_| ()))
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("slot", &self.slot)
            .field("generation", &self.generation())
            .field("image", &self.image)
            .field("persisted_bytes", &self.persisted_bytes())
            .finish_non_exhaustive()
    }
}

/// The frames of an arena; see [`Arena::frames`].
#[derive(Debug)]
pub struct Frames<'a> {
    arena: &'a Arena,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<FrameView<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        let info = FrameInfo::read(self.bytes, self.arena.key, self.offset);
        let view = info.and_then(|info| {
            let payload = self.bytes.get(info.payload_offset()..)?;
            let payload = payload.get(..info.payload_bytes)?;
            Some(FrameView { info, payload })
        });
        let offset = self.offset;
        self.offset = info.map_or(self.bytes.len(), |info| info.next_offset());
        Some(view.ok_or_else(|| Error::Corruption {
            file: self.arena.file.clone(),
            offset: offset as u64,
            reason: "a frame that was appended is no longer whole",
        }))
    }
}

#[cfg(test)]
mod tests;
