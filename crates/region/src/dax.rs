//! The persist method `dax`: frames are stored into persistent memory itself, mapped with MAP_SYNC;
//! a persist writes back the cache lines of the appended frames and waits for them.
//!
//! MAP_SYNC is the kernel's promise that the file's block map is durable before a store to a page
//! succeeds. So nothing but the CPU's caches lies between a store and the medium. Without the
//! promise the region does not open its arenas.

use std::sync::Arc;

use terrace_storage::{Directory, FileSystem, Storage};

use crate::cache_lines::{self, WriteBack};
use crate::device::{Attached, Description};
use crate::files::{FileDevice, FileMethod, Opened};
use crate::image::{Image, ImageWriter};
use crate::mapped::{map, unsupported};
use crate::mapping::MapKind;
use crate::stored::{Memory, Stored};
use crate::{Error, Result};

const METHOD: &str = "dax";
const NO_MAP_SYNC: &str = "its files cannot be mapped with MAP_SYNC; mount persistent memory with \
                           `-o dax=always` (ext4 or xfs) and put the region there, or use \
                           `mapped` or `written`";

/// How the files of a `dax` region are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaxOptions {
    /// Take memory that is not persistent (a tmpfs, or a page cache) for persistent memory. For
    /// benchmarks only; the region's description says so. Default: false.
    pub emulate_power_safety: bool,
}

/// The method, with the instruction of this CPU.
#[derive(Debug)]
pub(crate) struct Dax {
    options: DaxOptions,
    write_back: WriteBack,
}

pub(crate) fn open(
    storage: &dyn Storage,
    directory: Arc<dyn Directory>,
    options: DaxOptions,
) -> Result<FileDevice<Dax>> {
    let file_system = directory.file_system()?;
    if !options.emulate_power_safety && !matches!(file_system.name.as_str(), "ext4" | "xfs") {
        return Err(unsupported(METHOD, &file_system, NO_MAP_SYNC));
    }
    let Some(write_back) = WriteBack::detect() else {
        return Err(Error::MethodUnsupported {
            method: METHOD,
            medium: "this CPU".to_owned(),
            advice: "it has no instruction that writes cache lines back to persistent memory; use \
                     `written`",
        });
    };
    let method = Dax {
        options,
        write_back,
    };
    FileDevice::open(storage, directory, file_system, method)
}

impl FileMethod for Dax {
    const READS_IN_PLACE: bool = true;
    const WAITS_FOR_ZEROS: bool = true;

    fn description(&self, file_system: &FileSystem) -> Description {
        Description {
            method: METHOD,
            medium: format!("{}, {}", file_system.name, self.write_back.name()),
            survives_kill: true,
            can_persist: true,
            emulated: self.options.emulate_power_safety,
        }
    }

    fn attach(&self, slot: Opened<'_>) -> Result<Attached> {
        let kind = if self.options.emulate_power_safety {
            MapKind::Shared
        } else {
            MapKind::Synchronous
        };
        let Some(mapping) = map(&slot, kind)? else {
            return Err(unsupported(METHOD, slot.file_system, NO_MAP_SYNC));
        };
        let writer = ImageWriter::mapped(mapping);
        let memory = PersistentMemory {
            image: Arc::clone(writer.image()),
            write_back: self.write_back,
        };
        Ok(Attached {
            writer,
            medium: Box::new(Stored::new(memory)),
        })
    }
}

/// The persistent memory of one slot.
#[derive(Debug)]
struct PersistentMemory {
    image: Arc<Image>,
    write_back: WriteBack,
}

impl Memory for PersistentMemory {
    fn copy(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        image.copy(offset, bytes)
    }

    fn store_word(&self, image: &mut ImageWriter, offset: usize, word: u64) -> Result<()> {
        image.store_word(offset, word)
    }

    fn write_back(&self, offset: usize, length_bytes: usize) -> Result<()> {
        self.write_back.range(&self.image, offset, length_bytes);
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        cache_lines::fence();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
