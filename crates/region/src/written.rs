//! The persist method `written`: frames are built in a DRAM image, one write carries each to a
//! plain file, one fdatasync persists.
//!
//! Readers read the image, never the file, so that a recycled slot can be written again at once.

use std::sync::Arc;

use terrace_storage::{Directory, File, FileSystem, Purpose, Storage};

use crate::device::{Attached, Description, Medium};
use crate::files::{FileDevice, FileMethod, Opened};
use crate::image::ImageWriter;
use crate::persist_mark::PersistMark;
use crate::{Error, HEADER_BYTES, Result};

const METHOD: &str = "written";

/// How the files of a `written` region are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenOptions {
    /// Bypass the page cache. Default: false.
    pub direct: bool,
    /// Let persist succeed on a file system that survives no power cut (tmpfs). For benchmarks
    /// only; the region's description says so. Default: false.
    pub emulate_power_safety: bool,
}

/// The method, through the page cache or past it.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) options: WrittenOptions,
}

pub(crate) fn open(
    storage: &dyn Storage,
    directory: Arc<dyn Directory>,
    options: WrittenOptions,
) -> Result<FileDevice<Written>> {
    let file_system = directory.file_system()?;
    FileDevice::open(storage, directory, file_system, Written { options })
}

impl FileMethod for Written {
    const READS_IN_PLACE: bool = false;
    const WAITS_FOR_ZEROS: bool = true;

    fn is_direct(&self) -> bool {
        self.options.direct
    }

    fn description(&self, file_system: &FileSystem) -> Description {
        Description::of_files(METHOD, file_system, self.options.emulate_power_safety)
    }

    fn attach(&self, slot: Opened<'_>) -> Result<Attached> {
        Ok(Attached {
            writer: slot.images.image(slot.capacity_bytes as usize)?,
            medium: Box::new(WrittenMedium {
                file: slot.file,
                mark: Arc::clone(slot.mark),
                can_persist: slot.can_persist,
            }),
        })
    }
}

/// One arena's file.
#[derive(Debug)]
struct WrittenMedium {
    file: Arc<dyn File>,
    mark: Arc<PersistMark>,
    can_persist: bool,
}

impl Medium for WrittenMedium {
    fn store_header(&self, image: &mut ImageWriter, header: &[u8; HEADER_BYTES]) -> Result<()> {
        image.copy(0, header)?;
        // Alone: an earlier generation's frames need not reach the medium any more.
        Ok(self.file.write_durable_at(header, 0, Purpose::Arena)?)
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
            return Err(persist_unsupported(METHOD));
        }
        self.mark.sync(&*self.file)
    }
}

/// Returns the error of a persist of files on a file system in memory.
pub(crate) fn persist_unsupported(method: &'static str) -> Error {
    Error::PersistUnsupported {
        method,
        advice: "its file system survives no power cut; put the region on a disk file system, or \
                 write without `sync`",
    }
}

#[cfg(test)]
mod tests;
