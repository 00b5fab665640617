//! The parts in which a migration reads and writes a file, and a file that is read in such parts.
//!
//! Readers wait behind one part. So a part takes a quarter of the time in which the device answers a read
//! anyway. On a disk each part may cost a seek, and its parts are larger.

use std::path::Path;
use std::sync::Arc;

use terrace_lsm::levels::TierRecord;
use terrace_lsm::sync::Mutex;
use terrace_storage::{
    DeviceProfile, DirectoryLayer, File, Lock, LockKind, Operation, Purpose, Result,
};

/// Bounds of a part. A part of an unknown device has the least.
const MIN_PART_BYTES: u64 = 64 << 10;
const MAX_PART_BYTES: u64 = 1 << 20;

/// The bytes that a copy from one device to another reads and writes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// Bytes that a check of the copy reads at a time.
    pub(super) checked_bytes: u64,
}

impl Parts {
    /// Returns the parts for two devices, whose profiles may be unknown.
    pub(super) fn of(source: Option<&TierRecord>, target: Option<&TierRecord>) -> Parts {
        let profile = |tier: Option<&TierRecord>| tier.and_then(|tier| tier.profile);
        let (source, target) = (
            profile(source).unwrap_or_default(),
            profile(target).unwrap_or_default(),
        );
        Parts {
            read_bytes: part_bytes(&source, source.read_bytes_per_second),
            written_bytes: part_bytes(&target, target.write_bytes_per_second),
            checked_bytes: part_bytes(&target, target.read_bytes_per_second),
        }
    }
}

/// Returns a quarter of the bytes that a device moves during its read latency, in whole least parts.
fn part_bytes(profile: &DeviceProfile, bytes_per_second: f64) -> u64 {
    let bytes = profile.read_latency_us / 1e6 * bytes_per_second / 4.0;
    // A figure that is no number becomes 0.
    let bytes = (bytes as u64).clamp(MIN_PART_BYTES, MAX_PART_BYTES);
    bytes - bytes % MIN_PART_BYTES
}

/// Reads the files of a directory in parts, where a caller reads them from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadInParts {
    pub(super) part_bytes: u64,
}

impl DirectoryLayer for ReadInParts {
    type Call = ();

    fn begin(&self, _: Operation, _: &Path, _: &[&str]) -> Result<()> {
        Ok(())
    }

    fn wrap(&self, file: Arc<dyn File>, _: &Path, _: &str) -> Arc<dyn File> {
        Arc::new(PartedFile {
            file,
            part_bytes: self.part_bytes,
            part: Mutex::default(),
        })
    }
}

/// A file that keeps the last part read. A read that jumps ahead, such as one of an index, leaves it.
#[derive(Debug)]
struct PartedFile {
    file: Arc<dyn File>,
    part_bytes: u64,
    part: Mutex<Part>,
}

#[derive(Debug, Default)]
struct Part {
    begin: u64,
    bytes: Vec<u8>,
}

impl Part {
    fn get(&self, length: usize, offset: u64) -> Option<&[u8]> {
        let begin = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        self.bytes.get(begin..begin.checked_add(length)?)
    }

    /// Returns whether a read goes on where the part ends, or a quarter of a part behind that.
    fn leads_to(&self, offset: u64, part_bytes: u64) -> bool {
        let end = self.begin + self.bytes.len() as u64;
        (self.begin..=end + part_bytes / 4).contains(&offset)
    }
}

impl PartedFile {
    /// Fills a buffer from the part, or from the next one. Returns false if the bytes lie elsewhere.
    fn fill(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<bool> {
        let mut part = self.part.lock();
        let length_bytes = buffer.len() as u64;
        if length_bytes > self.part_bytes && part.leads_to(offset, self.part_bytes) {
            // It is read alone, and the next part begins behind it.
            part.begin = offset + length_bytes;
            part.bytes.clear();
            return Ok(false);
        }
        if part.get(buffer.len(), offset).is_none() && part.leads_to(offset, self.part_bytes) {
            let left_bytes = self.file.length_bytes()?.saturating_sub(offset);
            let length = self.part_bytes.min(left_bytes) as usize;
            part.bytes = self.file.read_vec_at(length, offset, purpose)?;
            part.begin = offset;
        }
        let found = part.get(buffer.len(), offset);
        if let Some(bytes) = found {
            buffer.copy_from_slice(bytes);
        }
        Ok(found.is_some())
    }
}

impl File for PartedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<()> {
        match self.fill(buffer, offset, purpose)? {
            true => Ok(()),
            false => self.file.read_exact_at(buffer, offset, purpose),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.file.read_at(buffer, offset, purpose)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.file.write_at(bytes, offset, purpose)
    }

    fn append(&self, bytes: &[u8], purpose: Purpose) -> Result<u64> {
        self.file.append(bytes, purpose)
    }

    fn allocate(&self, length_bytes: u64) -> Result<()> {
        self.file.allocate(length_bytes)
    }

    fn truncate(&self, length_bytes: u64) -> Result<()> {
        self.file.truncate(length_bytes)
    }

    fn sync(&self, purpose: Purpose) -> Result<()> {
        self.file.sync(purpose)
    }

    fn length_bytes(&self) -> Result<u64> {
        self.file.length_bytes()
    }

    fn lock(&self, kind: LockKind) -> Result<Box<dyn Lock>> {
        self.file.lock(kind)
    }

    fn links(&self) -> Result<u64> {
        self.file.links()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use terrace_storage::{Access, OpenMode, OpenOptions, Storage};
    use terrace_storage::{
        CountingLayer, CrashSwitch, Directory, FilePlace, LayeredDirectory, SimulatedStorage,
    };

    use super::*;

    #[test]
    fn a_part_takes_a_quarter_of_a_read_s_latency() {
        let read = |profile: DeviceProfile| part_bytes(&profile, profile.read_bytes_per_second);
        // 13 ms at 150 MB/s are 1,950,000 bytes.
        assert_eq!(read(DeviceProfile::WD10EZEX), 7 * MIN_PART_BYTES);
        assert_eq!(read(DeviceProfile::NVME_960_PRO), MIN_PART_BYTES);
        assert_eq!(read(DeviceProfile::default()), MIN_PART_BYTES);
        let slower = DeviceProfile {
            read_latency_us: 1e6,
            ..DeviceProfile::WD10EZEX
        };
        assert_eq!(read(slower), MAX_PART_BYTES);
        assert_eq!(part_bytes(&slower, f64::NAN), MIN_PART_BYTES);
        assert_eq!(part_bytes(&slower, f64::INFINITY), MAX_PART_BYTES);
    }

    #[test]
    fn a_file_read_from_the_front_is_read_in_parts() {
        let storage = SimulatedStorage::new(1, CrashSwitch::new());
        let path: &Path = "/d".as_ref();
        storage.create_directory(path).unwrap();
        let counters = CountingLayer::default();
        let directory: Arc<dyn Directory> = Arc::new(LayeredDirectory::new(
            storage.directory(path, Access::Owner).unwrap(),
            counters.clone(),
        ));
        let options = OpenOptions::buffered(OpenMode::CreateNew);
        let bytes: Vec<u8> = (0..10_000_u32).map(|number| (number % 251) as u8).collect();
        let written = directory.open("f", options).unwrap();
        written.write_at(&bytes, 0, Purpose::Other).unwrap();
        let parted = LayeredDirectory::new(directory, ReadInParts { part_bytes: 1_000 });
        let file = parted
            .open("f", OpenOptions::buffered(OpenMode::Read))
            .unwrap();
        let read = |offset: usize, length: usize| {
            let found = file.read_vec_at(length, offset as u64, Purpose::Read);
            assert_eq!(found.unwrap(), bytes[offset..offset + length]);
        };
        let reads = || counters.snapshot().of(Purpose::Read).reads;
        // Blocks of 90 bytes, and after each ten of them a look far ahead.
        for block in 0..100 {
            read(90 * block, 90);
            if block % 10 == 0 {
                read(9_900, 100);
            }
        }
        assert_eq!(reads(), 10 + 10, "ten parts, and ten looks");
        read(5_000, 2_000);
        let beyond = file.read_vec_at(90, 9_990, Purpose::Read);
        assert!(beyond.is_err(), "the file ends before");
    }
}
