//! The block device under a directory, and its counters.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Sectors in `/sys/.../stat` have this size, whatever the device's are (kernel documentation,
/// "Block layer statistics in `/sys/block/DEVICE/stat`").
const SECTOR_BYTES: u64 = 512;

/// The place where the kernel counts a device's requests.
#[derive(Clone, Debug)]
pub struct Device {
    stat: PathBuf,
    /// Its name, `vda1` for example.
    pub name: String,
}

/// Counts of a device since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

impl Device {
    /// Returns the device that holds `directory`; `None` where it has no counters (tmpfs, overlay,
    /// network).
    pub fn of(directory: &Path) -> Option<Self> {
        let number = fs::metadata(directory).ok()?.dev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let name = device.file_name()?.to_string_lossy().into_owned();
        let stat = device.join("stat");
        stat.is_file().then_some(Device { stat, name })
    }

    /// Returns the KiB that the kernel reads ahead of a sequential reader, and around a fault of a
    /// mapping. A partition has its disk's.
    pub fn read_ahead_kib(&self) -> Option<u64> {
        let device = self.stat.parent()?;
        let of = |device: &Path| fs::read_to_string(device.join("queue/read_ahead_kb")).ok();
        let text = of(device).or_else(|| of(device.parent()?))?;
        text.trim().parse().ok()
    }

    /// Returns the counters now; `None` if they cannot be read any more.
    pub fn counts(&self) -> Option<DeviceCounts> {
        parse(&fs::read_to_string(&self.stat).ok()?)
    }
}

fn parse(stat: &str) -> Option<DeviceCounts> {
    let mut fields = stat.split_ascii_whitespace().map(str::parse::<u64>);
    let reads = fields.next()?.ok()?;
    let sectors_read = fields.nth(1)?.ok()?;
    let sectors_written = fields.nth(3)?.ok()?;
    Some(DeviceCounts {
        reads,
        read_bytes: sectors_read.saturating_mul(SECTOR_BYTES),
        write_bytes: sectors_written.saturating_mul(SECTOR_BYTES),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_and_its_partition_have_the_same_read_ahead() {
        let disk = tempfile::tempdir().unwrap();
        let device = |directory: &Path| Device {
            stat: directory.join("stat"),
            name: "vda".into(),
        };
        assert_eq!(device(disk.path()).read_ahead_kib(), None);
        fs::create_dir(disk.path().join("queue")).unwrap();
        fs::write(disk.path().join("queue/read_ahead_kb"), "128\n").unwrap();
        let partition = disk.path().join("vda1");
        let both = [disk.path(), partition.as_path()].map(|path| device(path).read_ahead_kib());
        assert_eq!(both, [Some(128); 2]);
    }

    #[test]
    fn fields_are_those_of_the_kernel_s_documentation() {
        let line = "  100 5 2048 7 300 9 4096 11 0 13 15 0 0 0 0 0 0\n";
        let counts = parse(line).unwrap();
        assert_eq!(
            counts,
            DeviceCounts {
                reads: 100,
                read_bytes: 2048 * 512,
                write_bytes: 4096 * 512
            }
        );
        assert_eq!(parse("1 2"), None);
        assert_eq!(parse("1 2 x 4 5 6 7"), None);
    }
}
