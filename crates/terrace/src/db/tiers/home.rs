//! The directory of a tier: the file `TIER` says which store and which tier it belongs to.
//!
//! It is like the file of a region directory (`owner_file.rs`).

use std::path::Path;

use terrace_lsm::data_files::FileId;
use terrace_lsm::levels::TierRecord;
use terrace_region::Front;
use terrace_storage::Directory;

use crate::db::file_names;
use crate::db::owner_file::{OwnerFile, halves, whole};
use crate::{Error, Result};

/// The file that says whose tier a directory is.
pub(crate) const NAME: &str = "TIER";
const FILE: OwnerFile<5> = OwnerFile {
    name: NAME,
    temporary_name: "TIER.tmp",
    front: Front {
        magic: *b"TerrTier",
        version: 1,
    },
    kind: "tier",
    contents: "tables",
    is_content: |name| FileId::parse(name).is_some(),
    // A tier that was removed may have left its cache.
    spared_name: file_names::CACHE,
    wrong,
};

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

    fn numbers(self) -> [u64; 5] {
        let [s0, s1] = halves(self.store_id);
        let [t0, t1] = halves(self.tier_id);
        [s0, s1, t0, t1, self.number.into()]
    }
}

/// Returns the identity of a tier's directory; `None` if it is empty. Writes nothing.
pub(super) fn examine(store: &Path, directory: &dyn Directory) -> Result<Option<TierIdentity>> {
    let numbers = FILE.examine(store, directory)?;
    let identity = |numbers| identity(&directory.shown(NAME), numbers);
    numbers.map(identity).transpose()
}

/// Writes the file by a rename, so that it is whole or absent.
pub(super) fn write(directory: &dyn Directory, identity: TierIdentity) -> Result<()> {
    FILE.write(directory, identity.numbers())
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

fn decode(file: &Path, bytes: &[u8]) -> Result<TierIdentity> {
    identity(file, FILE.decode(file, bytes)?)
}

/// Returns the identity of these numbers.
fn identity(file: &Path, [s0, s1, t0, t1, number]: [u64; 5]) -> Result<TierIdentity> {
    match u8::try_from(number) {
        Ok(number) if number > 0 => Ok(TierIdentity {
            store_id: whole([s0, s1]),
            tier_id: whole([t0, t1]),
            number,
        }),
        _ => Err(OwnerFile::<5>::damaged(file)),
    }
}

/// Reads `bytes` as the file `TIER`, for fuzzers: accepted bytes are those that would be written.
pub fn fuzz_tier(bytes: &[u8]) {
    if let Ok(identity) = decode(Path::new(NAME), bytes) {
        assert_eq!(FILE.encode(identity.numbers()), bytes, "{identity:?}");
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
        let bytes = FILE.encode(identity.numbers());
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[..16], FILE.front.encode());
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
