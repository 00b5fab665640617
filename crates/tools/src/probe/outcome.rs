//! The result of a measurement.

use terrace_storage::{DeviceProfile, FileSystem};

use super::figures::{Latency, Spread};

/// The thing that answered the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The device: the page cache was bypassed.
    Device,
    /// The page cache: the file system has no direct I/O.
    PageCache,
    /// Memory: the file system has no device.
    Memory,
}

impl Medium {
    /// Returns the medium of a file. Since Linux 6.6, tmpfs accepts direct I/O, so that alone proves no
    /// device.
    pub(super) fn of(file_system: &FileSystem, is_direct: bool) -> Medium {
        match (file_system.survives_power_cut, is_direct) {
            (false, _) => Medium::Memory,
            (true, false) => Medium::PageCache,
            (true, true) => Medium::Device,
        }
    }

    /// Returns the name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Medium::Device => "device",
            Medium::PageCache => "page cache",
            Medium::Memory => "memory",
        }
    }
}

/// The result of a measurement: a profile, and the spread of each figure among rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The file system's name, such as `ext4`.
    pub file_system: String,
    /// The thing that answered. Unless it is a device, the figures are those of memory.
    pub medium: Medium,
    /// Bytes of the file: the limit, or as many as the time allowed.
    pub file_bytes: u64,
    /// The facts, each the median of its spread. Price and endurance are those of the options.
    pub profile: DeviceProfile,
    /// Bytes that sequential writes of 1 MiB took in a second, with a sync behind each part of the file.
    pub write_bytes_per_second: Spread,
    /// Bytes that sequential reads of 1 MiB delivered in a second.
    pub read_bytes_per_second: Spread,
    /// Times of random reads of 4 KiB, one at a time.
    pub read: Latency,
    /// Times of random reads of 4 KiB, 32 at a time.
    pub queued_read: Latency,
    /// Times of syncs, each after a write of 4 KiB.
    pub sync: Latency,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_direct_requests_to_a_device_are_its_own() {
        let of = |survives_power_cut, is_direct| {
            let file_system = FileSystem {
                name: String::new(),
                overwrites_in_place: true,
                survives_power_cut,
                has_descriptors: true,
            };
            Medium::of(&file_system, is_direct)
        };
        assert_eq!(of(true, true), Medium::Device);
        assert_eq!(of(true, false), Medium::PageCache);
        assert_eq!(of(false, true), Medium::Memory);
        assert_eq!(of(false, false), Medium::Memory);
    }
}
