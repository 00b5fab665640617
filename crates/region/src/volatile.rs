//! The persist method `volatile`: DRAM that dies with the process.

use std::path::PathBuf;
use std::sync::Arc;

use crate::device::{Attached, Description, Device, DeviceSlot, Medium};
use crate::files::KEPT_IMAGES;
use crate::image::{ImagePool, ImageWriter};
use crate::window::SlotReader;
use crate::{Error, HEADER_BYTES, Result};

const METHOD: &str = "volatile";

/// Slots are numbers only; every arena gets an image of its own.
#[derive(Debug)]
pub(crate) struct VolatileDevice {
    images: Arc<ImagePool>,
}

impl Default for VolatileDevice {
    fn default() -> Self {
        VolatileDevice {
            images: ImagePool::new(KEPT_IMAGES),
        }
    }
}

impl Device for VolatileDevice {
    fn description(&self) -> Description {
        Description {
            method: METHOD,
            medium: "dram".to_owned(),
            survives_kill: false,
            can_persist: false,
            emulated: false,
        }
    }

    fn boot_id(&self) -> [u8; 16] {
        [0; 16]
    }

    fn file(&self, slot: u64) -> PathBuf {
        PathBuf::from(format!("arena-{slot} in memory"))
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn list(&self) -> Result<Vec<DeviceSlot>> {
        Ok(Vec::new())
    }

    fn create(&self, _slot: u64, _capacity_bytes: u64) -> Result<()> {
        Ok(())
    }

    fn adopt(&self, _slot: u64) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _slot: u64) -> Result<()> {
        Ok(())
    }

    fn read_header(&self, _slot: u64) -> Result<Vec<u8>> {
        Ok(vec![0; HEADER_BYTES])
    }

    fn attach(&self, _slot: u64, capacity_bytes: u64) -> Result<Attached> {
        Ok(Attached {
            writer: self.images.image(capacity_bytes as usize)?,
            medium: Box::new(VolatileMedium),
        })
    }

    fn reader(&self, slot: u64) -> Result<Box<dyn SlotReader>> {
        Err(self.missing(slot))
    }
}

impl VolatileDevice {
    fn missing(&self, slot: u64) -> Error {
        Error::Missing {
            slot,
            file: self.file(slot),
        }
    }
}

/// The image is all there is.
#[derive(Debug)]
struct VolatileMedium;

impl Medium for VolatileMedium {
    fn store_header(&self, image: &mut ImageWriter, header: &[u8; HEADER_BYTES]) -> Result<()> {
        image.copy(0, header)
    }

    fn store(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        image.copy(offset, bytes)
    }

    fn complete(
        &self,
        image: &mut ImageWriter,
        offset: usize,
        length_word: u64,
        _frame_bytes: usize,
    ) -> Result<()> {
        image.store_word(offset, length_word)
    }

    fn persist(&self, _from: usize, _to: usize) -> Result<()> {
        Err(Error::PersistUnsupported {
            method: METHOD,
            advice: "open the store with a region that survives (CrashSafe or PowerSafe), \
                     or write without `sync`",
        })
    }
}
