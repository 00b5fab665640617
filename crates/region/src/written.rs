//! The persist method `written`: frames are built in a DRAM image, one write carries each to a
//! plain file, one fdatasync persists.
//!
//! Readers read the image, never the file, so that a recycled slot can be written again at once.
//! Files are filled with zeros when they are created and never change their size: an fdatasync
//! then has no metadata to commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{ErrorKind, File, FileSystem, OpenMode, OpenOptions, Purpose, Storage};

use crate::device::{Attached, Description, Device, DeviceSlot, Medium};
use crate::format::is_valid_capacity;
use crate::image::{ImagePool, ImageWriter};
use crate::{Error, HEADER_BYTES, Result};

const METHOD: &str = "written";
const NAME_PREFIX: &str = "arena-";
const ZERO_FILL_BYTES: usize = 64 * 1024;
/// Images kept for reuse: those of the arenas that a store usually has.
pub(crate) const KEPT_IMAGES: usize = 4;

/// How the files of a `written` region are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenOptions {
    /// Bypass the page cache. Default: false.
    pub direct: bool,
    /// Let persist succeed on a file system that survives no power cut (tmpfs). For benchmarks
    /// only; the region's description says so. Default: false.
    pub emulate_power_safety: bool,
}

/// Plain files `arena-<slot>` in one directory.
#[derive(Debug)]
pub(crate) struct WrittenDevice {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    options: WrittenOptions,
    file_system: FileSystem,
    boot_id: [u8; 16],
    images: Arc<ImagePool>,
}

impl WrittenDevice {
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        directory: &Path,
        options: WrittenOptions,
    ) -> Result<Self> {
        Ok(WrittenDevice {
            file_system: storage.file_system(directory)?,
            boot_id: storage.boot_id()?,
            storage,
            directory: directory.to_path_buf(),
            options,
            images: ImagePool::new(KEPT_IMAGES),
        })
    }

    fn can_persist(&self) -> bool {
        self.file_system.survives_power_cut || self.options.emulate_power_safety
    }

    fn open_file(&self, slot: u64, mode: OpenMode) -> Result<Arc<dyn File>> {
        let direct = self.options.direct;
        let opened = self
            .storage
            .open(&self.file(slot), OpenOptions { mode, direct });
        opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::Missing {
                slot,
                file: self.file(slot),
            },
            _ => Error::Io(error),
        })
    }

    fn medium(&self, file: Arc<dyn File>) -> Box<dyn Medium> {
        Box::new(WrittenMedium {
            file,
            can_persist: self.can_persist(),
        })
    }

    fn fill(&self, slot: u64, capacity_bytes: u64) -> Result<()> {
        let file = self.open_file(slot, OpenMode::CreateNew)?;
        let zeros = vec![0; ZERO_FILL_BYTES];
        let mut offset = 0;
        while offset < capacity_bytes {
            let left = usize::try_from(capacity_bytes - offset).unwrap_or(usize::MAX);
            let part = zeros.get(..left).unwrap_or(&zeros);
            file.write_at(part, offset, Purpose::Arena)?;
            offset += part.len() as u64;
        }
        file.sync(Purpose::Arena)?;
        Ok(self.storage.sync_directory(&self.directory)?)
    }
}

impl Device for WrittenDevice {
    fn description(&self) -> Description {
        Description {
            method: METHOD,
            medium: self.file_system.name.clone(),
            survives_kill: true,
            can_persist: self.can_persist(),
            emulated: self.options.emulate_power_safety && !self.file_system.survives_power_cut,
        }
    }

    fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }

    fn file(&self, slot: u64) -> PathBuf {
        self.directory.join(format!("{NAME_PREFIX}{slot}"))
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn list(&self) -> Result<Vec<DeviceSlot>> {
        let entries = self.storage.list(&self.directory)?;
        let slots = entries.iter().filter(|entry| !entry.is_directory);
        let slots = slots.filter_map(|entry| {
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
            // The first error is the one to report; what cannot be removed is found at the next open.
            let _ = self.storage.remove(&self.file(slot));
        }
        filled
    }

    fn adopt(&self, slot: u64) -> Result<()> {
        let file = self.open_file(slot, OpenMode::ReadWrite)?;
        file.sync(Purpose::Recovery)?;
        Ok(self.storage.sync_directory(&self.directory)?)
    }

    fn remove(&self, slot: u64) -> Result<()> {
        match self.storage.remove(&self.file(slot)) {
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

    fn attach(&self, slot: u64, capacity_bytes: u64) -> Result<Attached> {
        Ok(Attached {
            writer: self.images.image(capacity_bytes as usize)?,
            medium: self.medium(self.open_file(slot, OpenMode::ReadWrite)?),
        })
    }

    fn load(&self, slot: u64) -> Result<Attached> {
        let file = self.open_file(slot, OpenMode::Read)?;
        let length_bytes = file.length_bytes()?;
        if !is_valid_capacity(length_bytes) {
            return Err(Error::Corruption {
                file: self.file(slot),
                offset: length_bytes,
                reason: "the file ends where no arena can end",
            });
        }
        let mut writer = self.images.image(length_bytes as usize)?;
        file.read_exact_at(writer.unpublished(), 0, Purpose::Recovery)?;
        Ok(Attached {
            writer,
            medium: self.medium(file),
        })
    }
}

/// The slot in a file's name, if it is one that this device gives.
fn parse_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(NAME_PREFIX)?;
    let slot = digits.parse::<u64>().ok()?;
    (slot.to_string() == digits).then_some(slot)
}

/// One arena's file.
#[derive(Debug)]
struct WrittenMedium {
    file: Arc<dyn File>,
    can_persist: bool,
}

impl Medium for WrittenMedium {
    fn store_header(&self, image: &mut ImageWriter, header: &[u8; HEADER_BYTES]) -> Result<()> {
        image.copy(0, header)?;
        self.file.write_at(header, 0, Purpose::Arena)?;
        Ok(self.file.sync(Purpose::Arena)?)
    }

    fn store(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        image.copy(offset, bytes)
    }

    fn complete(
        &self,
        image: &mut ImageWriter,
        offset: usize,
        length_word: u64,
        frame_bytes: usize,
    ) -> Result<()> {
        image.store_word(offset, length_word)?;
        let frame = image.range(offset, frame_bytes)?;
        Ok(self.file.write_at(frame, offset as u64, Purpose::Arena)?)
    }

    fn persist(&self, _from: usize, _to: usize) -> Result<()> {
        if !self.can_persist {
            return Err(Error::PersistUnsupported {
                method: METHOD,
                advice: "its file system survives no power cut; put the region on a disk file \
                         system, or write without `sync`",
            });
        }
        Ok(self.file.sync(Purpose::Arena)?)
    }
}

#[cfg(test)]
mod tests;
