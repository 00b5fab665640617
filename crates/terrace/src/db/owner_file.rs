//! The file that says which store a directory belongs to: `REGION` and `TIER`.
//!
//! Numbers decide and paths are messages, so that a device may be mounted elsewhere. The file is durable
//! before the manifest names the directory, and before other files lie there. It is whole or absent.
//! docs/formats.md has its bytes: the front, numbers, a checksum.

use std::path::Path;

use terrace_lsm::coding::Decoder;
use terrace_lsm::levels::read_file;
use terrace_region::{FRONT_BYTES, Front};
use terrace_storage::{Directory, ErrorKind, OpenMode, OpenOptions, Purpose};
use xxhash_rust::xxh3::xxh3_64;

use crate::db::file_names;
use crate::{Error, Result};

/// Most bytes that are read of such a file.
const MAX_BYTES: u64 = 1 << 16;

/// One kind of such files, each of `NUMBERS` numbers.
pub(crate) struct OwnerFile<const NUMBERS: usize> {
    pub(crate) name: &'static str,
    pub(crate) temporary_name: &'static str,
    pub(crate) front: Front,
    /// The word for the kind in messages.
    pub(crate) kind: &'static str,
    /// The word for the files that lie beside it.
    pub(crate) contents: &'static str,
    /// Returns whether a file is one of these.
    pub(crate) is_content: fn(&str) -> bool,
    /// Name of a file that may lie in a directory without an owner.
    pub(crate) spared_name: &'static str,
    /// Returns the error for a directory that holds something else: store, directory and detail.
    pub(crate) wrong: fn(&Path, &Path, String) -> Error,
}

impl<const NUMBERS: usize> OwnerFile<NUMBERS> {
    /// Returns the numbers in a directory's file; `None` if the directory is empty. Writes nothing.
    pub(crate) fn examine(
        &self,
        store: &Path,
        directory: &dyn Directory,
    ) -> Result<Option<[u64; NUMBERS]>> {
        let entries = directory.list()?;
        let file = directory.shown(self.name);
        // By name, and after the listing, which may miss a name that is made meanwhile.
        match read_file(directory, self.name, MAX_BYTES, Purpose::Recovery) {
            Ok(bytes) => return self.decode(&file, &bytes).map(Some),
            Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        for entry in entries {
            let name = entry.name.as_str();
            let is_own = [file_names::LOCK, self.spared_name, self.temporary_name].contains(&name);
            if is_own || entry.is_of_file_system() {
                continue;
            }
            if (self.is_content)(name) {
                let detail = format!("the file is missing, but {} are there", self.contents);
                return Err(Error::corruption(&file, 0, detail));
            }
            let detail =
                format!("it holds {name:?}; name a directory that is empty or not there yet");
            return Err((self.wrong)(store, directory.path(), detail));
        }
        Ok(None)
    }

    /// Writes the file by a rename, durably.
    pub(crate) fn write(&self, directory: &dyn Directory, numbers: [u64; NUMBERS]) -> Result<()> {
        match directory.remove(self.temporary_name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let options = OpenOptions::buffered(OpenMode::CreateNew);
        let file = directory.open(self.temporary_name, options)?;
        file.write_at(&self.encode(numbers), 0, Purpose::Recovery)?;
        file.sync(Purpose::Recovery)?;
        directory.rename(self.temporary_name, self.name)?;
        Ok(directory.sync()?)
    }

    pub(crate) fn encode(&self, numbers: [u64; NUMBERS]) -> Vec<u8> {
        let mut bytes = self.front.encode().to_vec();
        for number in numbers {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    pub(crate) fn decode(&self, file: &Path, bytes: &[u8]) -> Result<[u64; NUMBERS]> {
        self.front
            .check(bytes)
            .map_err(|fault| Error::of_front(file, self.kind, self.front, fault))?;
        Self::take_numbers(bytes).ok_or_else(|| Self::damaged(file))
    }

    fn take_numbers(bytes: &[u8]) -> Option<[u64; NUMBERS]> {
        let mut rest = Decoder::new(bytes.get(FRONT_BYTES..)?);
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            *number = rest.u64()?;
        }
        let checksum = rest.u64()?;
        let covered = bytes.get(..FRONT_BYTES + 8 * NUMBERS)?;
        (rest.is_empty() && checksum == xxh3_64(covered)).then_some(numbers)
    }

    /// Returns the error for a file with numbers that cannot be believed.
    pub(crate) fn damaged(file: &Path) -> Error {
        let detail = "the checksum does not match, or it is cut short";
        Error::corruption(file, FRONT_BYTES as u64, detail)
    }
}

/// Returns the low and the high half of a number.
pub(crate) fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

/// Returns the number of two halves.
pub(crate) fn whole([low, high]: [u64; 2]) -> u128 {
    u128::from(low) | u128::from(high) << 64
}
