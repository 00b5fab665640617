//! The bytes of one arena in memory: one writer at the end, any number of readers before it.
//!
//! Goal: readers get plain `&[u8]` without a lock or a copy while one thread goes on appending.
//!
//! Invariants
//! 1. `memory` points to `length` initialised bytes that stay where they are until the image drops:
//!    on the heap, a mapped file's, or the kernel's.
//! 2. Bytes below `published` never change while anyone can refer to them: they are written before
//!    `published` rises over them (release) and read after it was loaded (acquire); it never falls.
//! 3. Bytes from `published` on are touched by the one [`ImageWriter`] of the image only. It cannot
//!    be cloned, and its methods that write take `&mut self`.
//!
//! Why not a `Mutex<Vec<u8>>` or an append-only list of boxes: the first makes readers wait for
//! writers, the second gives up the contiguous image that files and mappings need.
#![expect(
    unsafe_code,
    reason = "a slice that grows at one end while its beginning is shared has no safe form"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::anonymous::AnonymousMemory;
use crate::mapping::Mapping;
use crate::{Error, Result};

/// A page: file systems and mappings work in this unit.
const ALIGNMENT_BYTES: usize = 4096;

/// Initialised, page-aligned bytes on the heap or of a mapped file.
struct Allocation {
    memory: NonNull<u8>,
    length: usize,
    owner: Owner,
}

/// The owner to which the bytes are given back.
enum Owner {
    Heap,
    /// Unmapped when it drops.
    Mapping {
        _mapping: Mapping,
    },
    /// As above.
    Anonymous {
        _memory: AnonymousMemory,
    },
}

// SAFETY: an allocation owns its bytes; they belong to no thread.
unsafe impl Send for Allocation {}
// SAFETY: through `&Allocation` only the pointer's value can be read, never the bytes.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn mapped(mapping: Mapping) -> Self {
        Allocation {
            memory: mapping.memory(),
            length: mapping.length(),
            owner: Owner::Mapping { _mapping: mapping },
        }
    }

    /// Zeros that take no memory before they are written, and give it back at once.
    fn anonymous(length: usize) -> Result<Self> {
        let memory = AnonymousMemory::new(length)?;
        Ok(Allocation {
            memory: memory.start(),
            length,
            owner: Owner::Anonymous { _memory: memory },
        })
    }

    fn layout(length: usize) -> Option<Layout> {
        Layout::from_size_align(length, ALIGNMENT_BYTES).ok()
    }

    fn new_zeroed(length: usize) -> Result<Self> {
        let out_of_memory = || Error::OutOfMemory {
            bytes: length as u64,
        };
        if length == 0 {
            return Err(out_of_memory());
        }
        let layout = Self::layout(length).ok_or_else(out_of_memory)?;
        // SAFETY: the layout's size is not 0.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        Ok(Allocation {
            memory,
            length,
            owner: Owner::Heap,
        })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let (Owner::Heap, Some(layout)) = (&self.owner, Self::layout(self.length)) {
            // SAFETY: `memory` came from `alloc_zeroed` with this layout and is freed only here.
            unsafe { dealloc(self.memory.as_ptr(), layout) }
        }
    }
}

/// Keeps the memory of dropped images for the next ones: the first touch of 64 MiB costs more than
/// filling it.
///
/// Only images of the last requested length are kept: an arena made for one large batch must not
/// hold its memory for ever.
#[derive(Default)]
pub struct ImagePool {
    free: Mutex<Free>,
    keep: usize,
}

#[derive(Default)]
struct Free {
    length: usize,
    allocations: Vec<Allocation>,
}

impl ImagePool {
    /// Returns a pool that keeps at most `keep` images.
    pub fn new(keep: usize) -> Arc<Self> {
        Arc::new(ImagePool {
            free: Mutex::default(),
            keep,
        })
    }

    /// Returns an image of `length` bytes, of unspecified content, with nothing published.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn image(self: &Arc<Self>, length: usize) -> Result<ImageWriter> {
        let reused = {
            let mut free = self.free.lock();
            if free.length != length {
                free.length = length;
                free.allocations.clear();
            }
            free.allocations.pop()
        };
        let allocation = match reused {
            Some(allocation) => allocation,
            None => Allocation::new_zeroed(length)?,
        };
        Ok(ImageWriter::over(allocation, Arc::downgrade(self)))
    }
}

impl fmt::Debug for ImagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImagePool")
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

/// The shared side of an arena's memory: reads the published bytes.
pub struct Image {
    /// `None` only while the image drops.
    allocation: Option<Allocation>,
    published: AtomicUsize,
    pool: Weak<ImagePool>,
}

impl Image {
    /// Returns the number of all bytes, published or not.
    pub fn length_bytes(&self) -> usize {
        self.allocation.as_ref().map_or(0, |kept| kept.length)
    }

    /// Returns the start of the bytes. They may be referred to as the invariants say, and not
    /// otherwise.
    pub(crate) fn memory(&self) -> *const u8 {
        let dangling = NonNull::<u8>::dangling().as_ptr();
        let memory = self.allocation.as_ref();
        memory.map_or(dangling, |kept| kept.memory.as_ptr())
    }

    /// Returns the end of the published bytes.
    pub fn published_bytes(&self) -> usize {
        self.published.load(Ordering::Acquire)
    }

    /// Returns the published bytes.
    pub fn published(&self) -> &[u8] {
        let length = self.published_bytes();
        match &self.allocation {
            // SAFETY: invariants 1 and 2: `length` bytes are initialised, and nobody writes to
            // them any more; the load above acquires the writes that filled them.
            Some(kept) => unsafe { slice::from_raw_parts(kept.memory.as_ptr(), length) },
            None => &[],
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let (Some(allocation), Some(pool)) = (self.allocation.take(), self.pool.upgrade())
            // Never waits: in a forked child the holder of the lock may be gone.
            && let Some(mut free) = pool.free.try_lock()
            && free.length == allocation.length
            && free.allocations.len() < pool.keep
        {
            free.allocations.push(allocation);
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("length_bytes", &self.length_bytes())
            .field("published_bytes", &self.published_bytes())
            .finish()
    }
}

/// The one writer of an [`Image`]. Offsets count from the beginning of the image; a range that is
/// not wholly in the unpublished part is refused.
#[derive(Debug)]
pub struct ImageWriter {
    image: Arc<Image>,
}

impl ImageWriter {
    fn over(allocation: Allocation, pool: Weak<ImagePool>) -> Self {
        ImageWriter {
            image: Arc::new(Image {
                allocation: Some(allocation),
                published: AtomicUsize::new(0),
                pool,
            }),
        }
    }

    /// Returns an image that is the mapped file itself, with nothing published.
    pub(crate) fn mapped(mapping: Mapping) -> Self {
        Self::over(Allocation::mapped(mapping), Weak::new())
    }

    /// Returns an image in memory of its own, with nothing published.
    pub(crate) fn anonymous(length: usize) -> Result<Self> {
        Ok(Self::over(Allocation::anonymous(length)?, Weak::new()))
    }

    /// Returns the shared side.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Returns everything not yet published, from [`Image::published_bytes`] on.
    pub fn unpublished(&mut self) -> &mut [u8] {
        let start = self.image.published.load(Ordering::Relaxed);
        match &self.image.allocation {
            // SAFETY: invariants 1 and 3: the bytes from `start` on are initialised, in bounds
            // (`publish` checks) and reached by no one but this writer, borrowed mutably.
            Some(kept) => unsafe {
                slice::from_raw_parts_mut(kept.memory.as_ptr().add(start), kept.length - start)
            },
            None => &mut [],
        }
    }

    /// Returns the unpublished bytes at `offset`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if they are not wholly in the unpublished part.
    pub fn range(&mut self, offset: usize, length: usize) -> Result<&mut [u8]> {
        let start = self.image.published.load(Ordering::Relaxed);
        let range = offset
            .checked_sub(start)
            .and_then(|from| Some(from..from.checked_add(length)?));
        range
            .and_then(|range| self.unpublished().get_mut(range))
            .ok_or_else(|| outside(offset, length))
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if they are not wholly in the unpublished part.
    pub fn copy(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.range(offset, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Stores a word, little-endian, by one aligned 8-byte store that follows every copy before it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `offset` is not a multiple of 8 in the unpublished part.
    pub fn store_word(&mut self, offset: usize, word: u64) -> Result<()> {
        let target = self.range(offset, size_of::<u64>())?.as_mut_ptr();
        if !target.cast::<AtomicU64>().is_aligned() {
            return Err(outside(offset, size_of::<u64>()));
        }
        // SAFETY: `target` is aligned and points to 8 bytes that `range` lent to this call alone.
        let target = unsafe { AtomicU64::from_ptr(target.cast()) };
        target.store(word.to_le(), Ordering::Release);
        Ok(())
    }

    /// Publishes everything below `end`: from now on it is read-only.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `end` lies before the end of the published bytes or beyond the
    /// image.
    pub fn publish(&mut self, end: usize) -> Result<()> {
        let start = self.image.published.load(Ordering::Relaxed);
        if end < start || end > self.image.length_bytes() {
            return Err(outside(end, 0));
        }
        self.image.published.store(end, Ordering::Release);
        Ok(())
    }
}

fn outside(offset: usize, length: usize) -> Error {
    Error::InvalidArgument(format!(
        "{length} bytes at offset {offset} are not in the unpublished part of the arena"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::mapping::MapKind;

    #[test]
    fn readers_see_published_bytes_only() {
        let mut writer = ImagePool::new(0).image(8192).unwrap();
        let image = Arc::clone(writer.image());
        writer.copy(0, b"hello").unwrap();
        assert_eq!(image.published(), b"");
        writer.publish(5).unwrap();
        assert_eq!(image.published(), b"hello");
        writer.copy(5, b"!").unwrap();
        assert_eq!(image.published(), b"hello");
    }

    #[test]
    fn published_bytes_cannot_be_written_again() {
        let mut writer = ImagePool::new(0).image(8192).unwrap();
        writer.publish(16).unwrap();
        assert!(writer.copy(15, b"x").is_err());
        assert!(writer.store_word(8, 1).is_err());
        assert!(writer.publish(8).is_err());
        writer.copy(16, b"x").unwrap();
    }

    #[test]
    fn ranges_beyond_the_image_are_refused() {
        let mut writer = ImagePool::new(0).image(4096).unwrap();
        assert!(writer.copy(4095, b"xy").is_err());
        assert!(writer.copy(usize::MAX, b"xy").is_err());
        assert!(writer.publish(4097).is_err());
        assert!(writer.store_word(4, 1).is_err(), "not aligned");
        writer.store_word(8, 0x0102).unwrap();
        writer.publish(4096).unwrap();
        assert_eq!(writer.image().published()[8..12], [2, 1, 0, 0]);
        assert!(writer.unpublished().is_empty());
    }

    #[test]
    fn memory_is_reused_up_to_the_limit() {
        let pool = ImagePool::new(1);
        let mut first = pool.image(4096).unwrap();
        let second = pool.image(4096).unwrap();
        first.copy(0, b"old").unwrap();
        drop(first);
        drop(second);
        assert_eq!(pool.free.lock().allocations.len(), 1);
        let mut third = pool.image(4096).unwrap();
        assert_eq!(&third.unpublished()[..3], b"old");
        assert_eq!(pool.free.lock().allocations.len(), 0);
    }

    /// Returns an image over a mapping, of zeros.
    fn mapped(length: usize) -> ImageWriter {
        // Miri has no temporary files and does not look into the one it is given.
        #[cfg(miri)]
        let file = std::fs::File::open("/dev/null").unwrap();
        #[cfg(not(miri))]
        let file = {
            let file = tempfile::tempfile().unwrap();
            file.set_len(length as u64).unwrap();
            file
        };
        let mapping = Mapping::new(file.as_fd(), length, MapKind::Shared);
        ImageWriter::mapped(mapping.unwrap())
    }

    #[test]
    fn a_mapping_lives_as_long_as_its_last_reader() {
        let mut writer = mapped(8192);
        writer.copy(100, b"mapped").unwrap();
        writer.store_word(8, 7).unwrap();
        writer.publish(4096).unwrap();
        writer.unpublished().fill(1);
        let image = Arc::clone(writer.image());
        drop(writer);
        assert_eq!(&image.published()[100..106], b"mapped");
        assert_eq!(image.published()[8..16], [7, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn readers_run_beside_the_writer() {
        run_beside(ImagePool::new(0).image(4096).unwrap());
        run_beside(mapped(4096));
    }

    fn run_beside(mut writer: ImageWriter) {
        let image = Arc::clone(writer.image());
        let reader = std::thread::spawn(move || {
            loop {
                let published = image.published();
                for (at, byte) in published.iter().enumerate() {
                    assert_eq!(*byte, at as u8);
                }
                if published.len() == 256 {
                    return;
                }
                std::thread::yield_now();
            }
        });
        for at in 0..256_usize {
            writer.copy(at, &[at as u8]).unwrap();
            writer.publish(at + 1).unwrap();
        }
        reader.join().unwrap();
    }
}
