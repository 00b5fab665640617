//! Slots that are plain files: the code that every persist method on files shares.
//!
//! Files are filled with zeros when they are created and never change their size. So an fdatasync
//! has no metadata to commit, and a mapping has no end and no hole to run over. All methods write
//! the same bytes, so a region may be opened with another method than it was written with. A
//! recovery reads files by every method: a medium that cannot be read is then an error, where a
//! mapping would end the process.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_storage::{
    Directory, ErrorKind, File, FileSystem, OpenMode, OpenOptions, Purpose, Storage,
};

use crate::device::{Attached, Description, Device, DeviceSlot};
use crate::image::{ImagePool, ImageWriter};
use crate::mapped::{map_file, may_be_mapped_to_read};
use crate::mapping::MapKind;
use crate::persist_mark::PersistMark;
use crate::window::SlotReader;
use crate::{Error, HEADER_BYTES, Result};

const NAME_PREFIX: &str = "arena-";
/// Also the size of the page cache's folios: larger ones make each small write and each page
/// written again dearer, smaller ones the first store to each page.
const ZERO_FILL_BYTES: usize = 64 * 1024;
/// Images kept for reuse. Under load the next arena takes the one that was flushed last; at rest
/// the pool would only hold more of them.
pub(crate) const KEPT_IMAGES: usize = 1;

/// Minimum bytes of zeros synced at a time, and maximum number of such steps. A sync of another
/// arena beside them waits for all bytes, of any file, that the device has not written yet: 64 MiB
/// held it up for 40 ms.
const SYNCED_ZEROS_BYTES: u64 = 1 << 20;
const MOST_SYNCED_STEPS: u64 = 64;

/// How files `arena-<slot>` become arenas: one type per persist method.
pub(crate) trait FileMethod: Send + Sync + fmt::Debug {
    /// Readers of an arena read the file's mapping.
    const READS_IN_PLACE: bool;
    /// The zeros of a new file reach the medium before it is used. So no sync has to write them, or
    /// to commit that a block was written for the first time. A block that was never written reads
    /// as zeros, too: where few syncs are expected, no writer needs to wait.
    const WAITS_FOR_ZEROS: bool;

    /// Returns whether files bypass the page cache.
    fn is_direct(&self) -> bool {
        false
    }

    /// Returns its promises on a file system.
    fn description(&self, file_system: &FileSystem) -> Description;

    /// Opens a slot's file to be written from its beginning.
    fn attach(&self, slot: Opened<'_>) -> Result<Attached>;
}

/// Bytes that are stored again at a time: file systems that copy on write need room for them.
const STORED_AGAIN_BYTES: usize = 1 << 18;

/// A slot's file, open for reading and writing.
pub(crate) struct Opened<'a> {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    pub(crate) capacity_bytes: u64,
    pub(crate) file_system: &'a FileSystem,
    pub(crate) images: &'a Arc<ImagePool>,
    /// Syncs the file for a persist.
    pub(crate) mark: &'a Arc<PersistMark>,
    /// The same field of the device's description.
    pub(crate) can_persist: bool,
}

/// Plain files `arena-<slot>` in one directory.
#[derive(Debug)]
pub(crate) struct FileDevice<M> {
    directory: Arc<dyn Directory>,
    pub(crate) file_system: FileSystem,
    boot_id: [u8; 16],
    images: Arc<ImagePool>,
    mark: Arc<PersistMark>,
    method: M,
}

impl<M: FileMethod> FileDevice<M> {
    pub(crate) fn open(
        storage: &dyn Storage,
        directory: Arc<dyn Directory>,
        file_system: FileSystem,
        method: M,
    ) -> Result<Self> {
        Ok(FileDevice {
            boot_id: storage.boot_id()?,
            mark: Arc::new(PersistMark::new(Arc::clone(&directory))),
            directory,
            file_system,
            images: ImagePool::new(KEPT_IMAGES),
            method,
        })
    }

    fn open_file(&self, slot: u64, mode: OpenMode) -> Result<Arc<dyn File>> {
        let options = OpenOptions {
            direct: self.method.is_direct(),
            ..OpenOptions::buffered(mode)
        };
        let opened = self.directory.open(&file_name(slot), options);
        opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::Missing {
                slot,
                file: self.file(slot),
            },
            _ => Error::Io(error),
        })
    }

    /// Makes a file of zeros, its name, length and blocks durable.
    fn fill(&self, slot: u64, capacity_bytes: u64) -> Result<()> {
        let file = self.open_file(slot, OpenMode::CreateNew)?;
        if M::WAITS_FOR_ZEROS {
            write_durable_zeros(&*file, capacity_bytes)?;
        } else {
            let last = capacity_bytes.saturating_sub(ZERO_FILL_BYTES as u64);
            occupy(&*file, capacity_bytes)?;
            write_zeros(&*file, last, capacity_bytes)?;
            file.sync(Purpose::Arena)?;
            write_zeros(&*file, 0, last)?;
            // A hint: the first persist does the rest.
            let _ = file.start_write_back(0, capacity_bytes);
        }
        if self.description().can_persist {
            self.mark.make();
        }
        Ok(self.directory.sync()?)
    }
}

impl<M: FileMethod> Device for FileDevice<M> {
    fn description(&self) -> Description {
        self.method.description(&self.file_system)
    }

    fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }

    fn file(&self, slot: u64) -> PathBuf {
        self.directory.shown(&file_name(slot))
    }

    fn reads_in_place(&self) -> bool {
        M::READS_IN_PLACE
    }

    fn list(&self) -> Result<Vec<DeviceSlot>> {
        let entries = self.directory.list()?;
        // Directories, too: no slot can get their names.
        let slots = entries.iter().filter_map(|entry| {
            Some(DeviceSlot {
                number: parse_name(&entry.name)?,
                length_bytes: entry.length_bytes,
            })
        });
        let mut slots: Vec<_> = slots.collect();
        slots.sort_by_key(|slot| slot.number);
        Ok(slots)
    }

    fn create(&self, slot: u64, capacity_bytes: u64) -> Result<()> {
        let filled = self.fill(slot, capacity_bytes);
        let left_over = match &filled {
            Err(Error::Io(error)) => error.kind() != ErrorKind::AlreadyExists,
            _ => false,
        };
        if left_over {
            // The first error is the one to report; the next opening finds a file that cannot be
            // removed.
            let _ = self.directory.remove(&file_name(slot));
        }
        filled
    }

    fn occupy(&self, slot: u64) -> Result<()> {
        if !M::READS_IN_PLACE {
            return Ok(());
        }
        let file = self.open_file(slot, OpenMode::ReadWrite)?;
        occupy(&*file, file.length_bytes()?)
    }

    fn adopt(&self, slot: u64) -> Result<()> {
        self.occupy(slot)?;
        let file = self.open_file(slot, OpenMode::ReadWrite)?;
        file.sync(Purpose::Recovery)?;
        Ok(self.directory.sync()?)
    }

    fn remove(&self, slot: u64) -> Result<()> {
        match self.directory.remove(&file_name(slot)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::Io(error)),
            _ => Ok(()),
        }
    }

    fn read_header(&self, slot: u64) -> Result<Vec<u8>> {
        let file = self.open_file(slot, OpenMode::Read)?;
        let mut header = vec![0; HEADER_BYTES];
        let read = file.read_at(&mut header, 0, Purpose::Recovery)?;
        header.truncate(read);
        Ok(header)
    }

    fn store_again(&self, slot: u64, bytes: &[u8]) -> Result<()> {
        if !self.mark.doubts_others() {
            return Ok(());
        }
        let options = OpenOptions::buffered(OpenMode::ReadWrite);
        let file = self.directory.open(&file_name(slot), options)?;
        let mut offset = 0;
        for part in bytes.chunks(STORED_AGAIN_BYTES) {
            file.write_at(part, offset, Purpose::Recovery)?;
            file.sync(Purpose::Recovery)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn end_recovery(&self) {
        if self.description().can_persist {
            self.mark.trust_others();
        }
    }

    fn attach(&self, slot: u64, capacity_bytes: u64) -> Result<Attached> {
        self.method.attach(Opened {
            file: self.open_file(slot, OpenMode::ReadWrite)?,
            path: self.file(slot),
            capacity_bytes,
            file_system: &self.file_system,
            images: &self.images,
            mark: &self.mark,
            can_persist: self.description().can_persist,
        })
    }

    fn reader(&self, slot: u64) -> Result<Box<dyn SlotReader>> {
        Ok(Box::new(FileReader {
            file: self.open_file(slot, OpenMode::Read)?,
            path: self.file(slot),
            can_be_mapped: may_be_mapped_to_read(&self.file_system),
        }))
    }
}

/// A slot's file, open for reading.
#[derive(Debug)]
struct FileReader {
    file: Arc<dyn File>,
    path: PathBuf,
    can_be_mapped: bool,
}

impl SlotReader for FileReader {
    fn length_bytes(&self) -> Result<u64> {
        Ok(self.file.length_bytes()?)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        Ok(self.file.read_exact_at(buffer, offset, Purpose::Recovery)?)
    }

    fn map(&self, length_bytes: usize) -> Result<Option<ImageWriter>> {
        if !self.can_be_mapped {
            return Ok(None);
        }
        // No process cuts the file meanwhile: this is where a mapping would end the process.
        if self.file.length_bytes()? < length_bytes as u64 {
            return Err(Error::Corruption {
                file: self.path.clone(),
                offset: length_bytes as u64,
                reason: "the file has changed its size",
            });
        }
        let mapping = map_file(&*self.file, &self.path, length_bytes, MapKind::Private)?;
        Ok(mapping.map(ImageWriter::mapped))
    }
}

/// Gives a file, of contents that are not needed, all its blocks. Where they cannot be reserved
/// (ext4 on a disk formatted as ext3), zeros take them.
fn occupy(file: &dyn File, length_bytes: u64) -> Result<()> {
    match file.allocate(length_bytes) {
        Err(error) if error.kind() == ErrorKind::Unsupported => write_zeros(file, 0, length_bytes),
        reserved => Ok(reserved?),
    }
}

fn write_durable_zeros(file: &dyn File, length_bytes: u64) -> Result<()> {
    let step_bytes = SYNCED_ZEROS_BYTES.max(length_bytes.div_ceil(MOST_SYNCED_STEPS));
    let mut from = 0;
    while from < length_bytes {
        let to = length_bytes.min(from + step_bytes);
        write_zeros(file, from, to)?;
        file.sync(Purpose::Arena)?;
        from = to;
    }
    Ok(())
}

fn write_zeros(file: &dyn File, from: u64, to: u64) -> Result<()> {
    let zeros = vec![0; ZERO_FILL_BYTES];
    let mut offset = from;
    while offset < to {
        let left = usize::try_from(to - offset).unwrap_or(usize::MAX);
        let part = zeros.get(..left).unwrap_or(&zeros);
        file.write_at(part, offset, Purpose::Arena)?;
        offset += part.len() as u64;
    }
    Ok(())
}

fn file_name(slot: u64) -> String {
    format!("{NAME_PREFIX}{slot}")
}

/// Returns the slot in a file's name, if it is one that this device gives.
fn parse_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(NAME_PREFIX)?;
    let slot = digits.parse::<u64>().ok()?;
    (slot.to_string() == digits).then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_device_gives_are_slots() {
        assert_eq!(parse_name("arena-0"), Some(0));
        assert_eq!(parse_name("arena-18446744073709551615"), Some(u64::MAX));
        for name in [
            "arena-",
            "arena-01",
            "arena-+1",
            "arena- 1",
            "arena-18446744073709551616",
            "arena",
            "1",
        ] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
