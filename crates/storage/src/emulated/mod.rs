//! A storage that takes the time of a device: a hard disk, or flash of several kinds.
//!
//! The files lie in another storage, by custom a directory in memory, and each call waits until the
//! device would have answered. So a machine without the device shows the times that a store has there.
//!
//! The model, one part of it a file:
//!
//! - `speed`: a read elsewhere takes the latency for the number of such reads under way, which is linear
//!   from depth 1 to depth 32 and proportional beyond. So throughput rises to that at depth 32 and stays
//!   there. A read that continues the last one of its file takes its share of the bandwidth alone, since
//!   the kernel and the device read ahead.
//! - `queue`: the device has one channel. A request takes its bytes at the bandwidth, and as much of the
//!   channel for a change of place as leaves the throughput at depth 32. Reads and writes share the
//!   channel by halves while both wait, as under the kernel's schedulers. Time in which the channel idled
//!   is made up for: a continued read finds 128 KiB read ahead.
//! - Writes stay in a cache of bounded size that all files share, and a file's sync sends its part to
//!   the device. A full cache makes the writer send its part and wait. So do direct writes at once.
//! - A sync waits for the file's bytes, and then for a flush. Syncs that wait while a flush runs share the
//!   next one, as in the kernel. A sync of a file without changes takes no time.
//! - `turn`: a caller waits for its deadline. A thread that was late pays less for its next request, so
//!   late timers change neither bandwidth nor the median.
//!
//! The model leaves out: a cache of pages for reads (each read goes to the device, also of bytes that
//! were just written, and a hint to read ahead is refused), the time of names (a directory's sync is a
//! flush), the wear of flash, its cache of one bit a cell, and the distance of seeks. Dirty bytes belong
//! to the opening of a file that wrote them. An opening that ends sends its bytes without a wait.

mod clock;
mod device;
mod file;
mod queue;
#[cfg(test)]
mod queue_tests;
mod space;
mod speed;
#[cfg(test)]
mod tests;
mod turn;

use std::path::Path;
use std::sync::Arc;

pub use self::clock::PreciseClock;
pub use self::device::EmulatedDevice;

use self::file::EmulatedFile;
use self::turn::Turn;
use crate::layered::{DirectoryLayer, LayeredStorage};
use crate::layered_file::LayeredFile;
use crate::{File, FileSystem, Operation, Result, Storage};

/// A storage whose calls take the time of an [`EmulatedDevice`].
///
/// Its files have no descriptors, so no caller maps them past the device. All storages on one device
/// share its time and its capacity.
///
/// ```
/// # fn main() -> terrace_storage::Result<()> {
/// use std::sync::Arc;
/// use std::time::Instant;
/// use terrace_storage::*;
///
/// let directory = tempfile::tempdir().unwrap();
/// let disk = Arc::new(EmulatedDevice::new("wd10ezex", DeviceProfile::WD10EZEX));
/// let storage = EmulatedStorage::new(Arc::new(RealStorage), disk);
/// let file = storage.open(&directory.path().join("f"), OpenOptions::buffered(OpenMode::CreateNew))?;
/// file.append(&[7; 4096], Purpose::Other)?;
/// let begun = Instant::now();
/// file.sync(Purpose::Other)?;
/// assert!(begun.elapsed().as_millis() >= 11);
/// # Ok(())
/// # }
/// ```
pub type EmulatedStorage = LayeredStorage<EmulatedLayer>;

impl EmulatedStorage {
    /// Puts the device's time around the calls to `inner`.
    pub fn new(inner: Arc<dyn Storage>, device: Arc<EmulatedDevice>) -> Self {
        let layer = EmulatedLayer {
            inner: Arc::clone(&inner),
            device,
        };
        LayeredStorage::within(inner, layer)
    }
}

/// The layer of an [`EmulatedStorage`].
#[derive(Clone, Debug)]
pub struct EmulatedLayer {
    inner: Arc<dyn Storage>,
    device: Arc<EmulatedDevice>,
}

impl DirectoryLayer for EmulatedLayer {
    type Call = Option<Turn>;

    fn begin(&self, operation: Operation, directory: &Path, _: &[&str]) -> Result<Option<Turn>> {
        Ok(match operation {
            Operation::SyncDirectory | Operation::CreateDirectory => self.device.flush(),
            Operation::OpenDirectory => {
                self.device.space().add(&self.inner, directory);
                None
            }
            _ => None,
        })
    }

    fn wrap(&self, file: Arc<dyn File>, directory: &Path, name: &str) -> Arc<dyn File> {
        let identity = self.device.space().identity(&self.inner, directory, name);
        let layer = EmulatedFile::new(
            Arc::clone(&self.device),
            Arc::clone(&file),
            directory.join(name),
            identity,
        );
        Arc::new(LayeredFile::new(file, layer))
    }

    fn can_poll(&self) -> bool {
        false
    }

    fn file_system(&self, below: FileSystem) -> FileSystem {
        FileSystem {
            name: format!("emulated {}", self.device.name()),
            overwrites_in_place: true,
            survives_power_cut: below.survives_power_cut,
            has_descriptors: false,
        }
    }

    fn free_space_bytes(&self, below: u64) -> Result<u64> {
        Ok(self.device.space().free_bytes(below))
    }
}
