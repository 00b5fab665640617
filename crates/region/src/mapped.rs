//! The persist method `mapped`: frames are stored into a mapping of a plain file, and the page
//! cache, or the memory of a tmpfs, keeps them when the process dies. One fdatasync persists.
//!
//! An append costs no system call. It costs a page fault for each page that it is the first to
//! touch since the mapping was made or the kernel wrote the page to the disk. Each use of a slot
//! makes a new mapping: its first faults take a folio at a time and cost a fifth of those of an old
//! mapping whose pages were written back.

use std::path::Path;
use std::sync::Arc;

use terrace_storage::{self as storage, Directory, File, FileSystem, Operation, Purpose, Storage};

use crate::device::{Attached, Description};
use crate::files::{FileDevice, FileMethod, Opened};
use crate::image::ImageWriter;
use crate::mapping::{MapKind, Mapping};
use crate::persist_mark::PersistMark;
use crate::stored::{Memory, Stored};
use crate::written::persist_unsupported;
use crate::{Error, Result};

const METHOD: &str = "mapped";
/// File systems that may go away.
const NETWORK: [&str; 7] = ["nfs", "cifs", "smb2", "ceph", "9p", "virtiofs", "gpfs"];

/// How the files of a `mapped` region are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedOptions {
    /// Let persist succeed on a file system that survives no power cut (tmpfs). For benchmarks
    /// only; the region's description says so. Default: false.
    pub emulate_power_safety: bool,
}

/// The method, on file systems that overwrite in place.
#[derive(Debug)]
pub(crate) struct Mapped {
    options: MappedOptions,
}

pub(crate) fn open(
    storage: &dyn Storage,
    directory: Arc<dyn Directory>,
    options: MappedOptions,
) -> Result<FileDevice<Mapped>> {
    let file_system = directory.file_system()?;
    if let Some(advice) = refusal(&file_system) {
        return Err(unsupported(METHOD, &file_system, advice));
    }
    FileDevice::open(storage, directory, file_system, Mapped { options })
}

/// Returns why a file system is no place for a mapping that is written to, and the next step.
fn refusal(file_system: &FileSystem) -> Option<&'static str> {
    if file_system.overwrites_in_place {
        return None;
    }
    Some(match file_system.name.as_str() {
        "overlay" => {
            "an overlay may replace a file under its mapping; use `written`, or put the region on \
             a volume (ext4, xfs, tmpfs)"
        }
        name if NETWORK.contains(&name) => {
            "a network file system may fail after a store was acknowledged; use `written`, or put \
             the region on a local ext4, xfs or tmpfs"
        }
        "fuse" => {
            "a FUSE file system may end under its mapping; use `written`, or put the region on \
             ext4, xfs or tmpfs"
        }
        _ => {
            "it is not known to overwrite files in place, and where each write takes new space, a \
             full disk would end the process; use `written`, or put the region on ext4, xfs or \
             tmpfs"
        }
    })
}

/// Returns the error for a medium that cannot do this.
pub(crate) fn unsupported(
    method: &'static str,
    file_system: &FileSystem,
    advice: &'static str,
) -> Error {
    Error::MethodUnsupported {
        method,
        medium: file_system.name.clone(),
        advice,
    }
}

/// Maps the whole of a slot's file. `None` if the file system has no such mappings.
pub(crate) fn map(slot: &Opened<'_>, kind: MapKind) -> Result<Option<Mapping>> {
    let length_bytes = slot.file.length_bytes()?;
    if length_bytes != slot.capacity_bytes {
        return Err(Error::Corruption {
            file: slot.path.clone(),
            offset: length_bytes,
            reason: "the file has changed its size",
        });
    }
    map_file(&*slot.file, &slot.path, slot.capacity_bytes as usize, kind)
}

/// Maps the first bytes of a file that has them. `None` if the file system has no such mappings.
pub(crate) fn map_file(
    file: &dyn File,
    path: &Path,
    length_bytes: usize,
    kind: MapKind,
) -> Result<Option<Mapping>> {
    let Some(descriptor) = file.descriptor() else {
        return Ok(None);
    };
    match Mapping::new(descriptor, length_bytes, kind) {
        Ok(mapping) => Ok(Some(mapping)),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NODEV) => Ok(None),
        Err(rustix::io::Errno::NOMEM) => Err(Error::OutOfMemory {
            bytes: length_bytes as u64,
        }),
        Err(errno) => {
            let error = storage::Error::new(Operation::Map, path, errno.into());
            Err(Error::Io(error))
        }
    }
}

/// Returns whether files that do not change may be mapped to be read. A file system that can go
/// away would end the process. Miri maps no files.
pub(crate) fn may_be_mapped_to_read(file_system: &FileSystem) -> bool {
    let can_go_away = NETWORK.contains(&&*file_system.name) || file_system.name == "fuse";
    !cfg!(miri) && !can_go_away
}

impl FileMethod for Mapped {
    const READS_IN_PLACE: bool = true;
    const WAITS_FOR_ZEROS: bool = false;

    fn description(&self, file_system: &FileSystem) -> Description {
        Description::of_files(METHOD, file_system, self.options.emulate_power_safety)
    }

    fn attach(&self, slot: Opened<'_>) -> Result<Attached> {
        let Some(mapping) = map(&slot, MapKind::Shared)? else {
            let advice = "its files cannot be mapped; use `written`";
            return Err(unsupported(METHOD, slot.file_system, advice));
        };
        let memory = PageCache {
            file: slot.file,
            mark: Arc::clone(slot.mark),
        };
        Ok(Attached {
            writer: ImageWriter::mapped(mapping),
            medium: Box::new(if slot.can_persist {
                Stored::new(memory)
            } else {
                Stored::without_persist(memory, || persist_unsupported(METHOD))
            }),
        })
    }
}

/// The page cache of a mapped file. The kernel notes itself which pages were stored to.
#[derive(Debug)]
struct PageCache {
    file: Arc<dyn File>,
    mark: Arc<PersistMark>,
}

impl Memory for PageCache {
    fn copy(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        image.copy(offset, bytes)
    }

    fn copy_durably(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        // A write into the file is a store into its mapping; this one syncs its own range only.
        image.range(offset, bytes.len())?;
        Ok(self
            .file
            .write_durable_at(bytes, offset as u64, Purpose::Arena)?)
    }

    fn store_word(&self, image: &mut ImageWriter, offset: usize, word: u64) -> Result<()> {
        image.store_word(offset, word)
    }

    fn write_back(&self, _offset: usize, _length_bytes: usize) -> Result<()> {
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        self.mark.sync(&*self.file)
    }
}

#[cfg(test)]
mod tests;
