//! The directory of a tier: the file `TIER` says which store and which tier it belongs to.
//!
//! As with a region directory, numbers decide and paths are messages, so that a device may be mounted
//! elsewhere. The file is durable before the manifest names the tier, and before a table lies there.

use std::path::Path;

use terrace_lsm::coding::Decoder;
use terrace_lsm::data_files::FileId;
use terrace_lsm::levels::{TierRecord, read_file};
use terrace_region::{FRONT_BYTES, Front};
use terrace_storage::{Directory, ErrorKind, Purpose};
use xxhash_rust::xxh3::xxh3_64;

use crate::db::file_names;
use crate::db::written_once::write_by_rename;
use crate::{Error, Result};

/// The file that says whose tier a directory is.
pub(crate) const NAME: &str = "TIER";
const TEMPORARY_NAME: &str = "TIER.tmp";
const FRONT: Front = Front {
    magic: *b"TerrTier",
    version: 1,
};
const IDENTITY_BYTES: usize = 64;

/// The contents of the file `TIER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TierIdentity {
    pub(super) store_id: u128,
    pub(super) tier_id: u128,
    pub(super) number: u8,
}

impl TierIdentity {
    /// Returns the identity that the directory of a tier must have.
    pub(super) fn of(store_id: u128, tier: &TierRecord) -> Self {
        TierIdentity {
            store_id,
            tier_id: tier.id,
            number: tier.number,
        }
    }
}

/// Returns the identity of a tier's directory; `None` if it is empty. Writes nothing.
pub(super) fn examine(store: &Path, directory: &dyn Directory) -> Result<Option<TierIdentity>> {
    let entries = directory.list()?;
    let file = directory.shown(NAME);
    // By name, and after the listing, which may miss a name that is made meanwhile.
    match read_file(directory, NAME, 1 << 16, Purpose::Recovery) {
        Ok(bytes) => return decode(&file, &bytes).map(Some),
        Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    for entry in entries {
        match entry.name.as_str() {
            // A tier that was removed may have left its cache.
            file_names::LOCK | file_names::CACHE | TEMPORARY_NAME => {}
            _ if entry.is_of_file_system() => {}
            name if FileId::parse(name).is_some() => {
                let detail = "the file is missing, but tables are there";
                return Err(Error::corruption(&file, 0, detail));
            }
            name => {
                let detail =
                    format!("it holds {name:?}; name a directory that is empty or not there yet");
                return Err(wrong(store, directory.path(), detail));
            }
        }
    }
    Ok(None)
}

/// Writes the file by a rename, so that it is whole or absent.
pub(super) fn write(directory: &dyn Directory, identity: TierIdentity) -> Result<()> {
    write_by_rename(directory, (TEMPORARY_NAME, NAME), &encode(identity))
}

/// Removes the file, so that the directory is nobody's.
pub(super) fn give_up(directory: &dyn Directory) -> Result<()> {
    directory.remove(NAME)?;
    Ok(directory.sync()?)
}

pub(super) fn wrong(store: &Path, directory: &Path, detail: String) -> Error {
    Error::WrongTier {
        store: store.to_path_buf(),
        directory: directory.to_path_buf(),
        detail,
    }
}

fn encode(identity: TierIdentity) -> Vec<u8> {
    let mut bytes = FRONT.encode().to_vec();
    bytes.extend(identity.store_id.to_le_bytes());
    bytes.extend(identity.tier_id.to_le_bytes());
    bytes.extend(u64::from(identity.number).to_le_bytes());
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

fn decode(file: &Path, bytes: &[u8]) -> Result<TierIdentity> {
    FRONT
        .check(bytes)
        .map_err(|fault| Error::of_front(file, "tier", FRONT, fault))?;
    take_identity(bytes).ok_or_else(|| {
        let offset = FRONT_BYTES as u64;
        Error::corruption(
            file,
            offset,
            "the checksum does not match, or it is cut short",
        )
    })
}

fn take_identity(bytes: &[u8]) -> Option<TierIdentity> {
    let mut rest = Decoder::new(bytes.get(FRONT_BYTES..)?);
    let mut id = || Some(u128::from(rest.u64()?) | u128::from(rest.u64()?) << 64);
    let (store_id, tier_id) = (id()?, id()?);
    let number = u8::try_from(rest.u64()?).ok()?;
    let checksum = rest.u64()?;
    let covered = bytes.get(..IDENTITY_BYTES - 8)?;
    let identity = TierIdentity {
        store_id,
        tier_id,
        number,
    };
    (number > 0 && rest.is_empty() && checksum == xxh3_64(covered)).then_some(identity)
}

/// Reads `bytes` as the file `TIER`, for fuzzers: accepted bytes are those that would be written.
pub fn fuzz_tier(bytes: &[u8]) {
    if let Ok(identity) = decode(Path::new(NAME), bytes) {
        assert_eq!(encode(identity), bytes, "{identity:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_read_as_it_was_written_and_no_bit_may_change() {
        let identity = TierIdentity {
            store_id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
            tier_id: 8,
            number: 2,
        };
        let file = Path::new("TIER");
        let bytes = encode(identity);
        assert_eq!(bytes.len(), IDENTITY_BYTES);
        assert_eq!(bytes[..16], FRONT.encode());
        assert_eq!(bytes[16..24], *b"\x77\x66\x55\x44\x33\x22\x11\0");
        assert_eq!(bytes[48..56], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode(file, &bytes).unwrap(), identity);
        for cut in 0..bytes.len() {
            assert!(decode(file, &bytes[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let is_damage = matches!(decode(file, &damaged), Err(Error::Corruption { .. }));
            assert!(is_damage, "bit {bit}");
        }
        assert!(decode(file, &[&bytes[..], b"x"].concat()).is_err());
    }
}
