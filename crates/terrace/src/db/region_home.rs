//! The home of a store's arenas: its own directory, or a *region directory* on a device or mount of
//! their own.
//!
//! Goal: new writes never vanish because a directory was left out, mistaken for another, or not
//! mounted. A region directory says in its file `REGION` which store it belongs to and has a number
//! of its own. The manifest has the number of the directory with the live arenas. The number
//! decides, not the path, so that a device may be mounted elsewhere. The order: the file is durable
//! before the manifest names its number. The manifest does so (in the edit that retires all older
//! arenas) before the first arena is made there.
//!
//! A store may move to another home whenever no arena holds a write that is nowhere else: after
//! `flush` and `close`. From its own directory it may move at any time, since that is always at
//! hand. Until all is decided nothing is written, so that a refused opening changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_lsm::levels::{ArenaHome, ManifestState};
use terrace_region::Front;
use terrace_storage::{Access, Directory, Escaped, Lock, Storage};

use crate::db::directory::{has_been_made, open_if_there};
use crate::db::file_names;
use crate::db::owner_file::{OwnerFile, halves, whole};
use crate::db::ownership::{busy, lock_as_owner, lock_as_reader};
use crate::options::{Durability, Options};
use crate::{Error, Result};

/// The file that says whose region a directory is.
pub const NAME: &str = "REGION";
const FILE: OwnerFile<4> = OwnerFile {
    name: NAME,
    temporary_name: "REGION.tmp",
    front: Front {
        magic: *b"TerrRegn",
        version: 2,
    },
    kind: "region",
    contents: "arenas",
    is_content: file_names::is_arena,
    spared_name: file_names::PERSISTS,
    wrong,
};

/// The contents of the file `REGION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RegionIdentity {
    store_id: u128,
    region_id: u128,
}

impl RegionIdentity {
    fn of([s0, s1, r0, r1]: [u64; 4]) -> Self {
        RegionIdentity {
            store_id: whole([s0, s1]),
            region_id: whole([r0, r1]),
        }
    }

    fn numbers(self) -> [u64; 4] {
        let [s0, s1] = halves(self.store_id);
        let [r0, r1] = halves(self.region_id);
        [s0, s1, r0, r1]
    }
}

/// The place of the arenas that the manifest names.
#[derive(Clone, Debug)]
pub enum OldArenas {
    /// They are in this directory.
    In(Arc<dyn Directory>),
    /// Not at hand, and no write is in them alone.
    NotNeeded,
    /// Not at hand, and the caller goes on without.
    Lost,
}

impl OldArenas {
    /// Returns whether they are in a directory, by this very opening of it.
    pub fn are_in(&self, directory: &Arc<dyn Directory>) -> bool {
        matches!(self, OldArenas::In(old) if Arc::ptr_eq(old, directory))
    }
}

/// The region directory that the options name.
pub struct Given {
    /// Absolute, so that the manifest can name it.
    path: PathBuf,
    /// `None` if it is not there yet.
    directory: Option<Arc<dyn Directory>>,
}

/// Where arenas were and where they will be.
pub struct Homes {
    /// The place of the arenas that the manifest names.
    pub old: OldArenas,
    pub(crate) new: ArenaHome,
    /// The directory of the new home.
    pub directory: Arc<dyn Directory>,
    /// The lock on the region directory.
    pub lock: Option<Box<dyn Lock>>,
}

/// Opens the region directory that the options name. Refuses one that cannot be any store's, before
/// the store itself is made.
pub fn given(
    storage: &dyn Storage,
    store: &dyn Directory,
    options: &Options,
    store_exists: bool,
) -> Result<Option<Given>> {
    let Some(path) = &options.region_dir else {
        return Ok(None);
    };
    let absolute = std::path::absolute(path)
        .map_err(|error| Error::invalid(format!("{}: {error}", Escaped::path(path))))?;
    let Some(directory) = open_if_there(storage, &absolute, options.file_access.into())? else {
        let path = absolute;
        let directory = None;
        return Ok(Some(Given { path, directory }));
    };
    if directory.identity()? == store.identity()? {
        return Err(Error::invalid(format!(
            "region_dir is the store's own directory, {}; leave it unset",
            Escaped::path(store.path())
        )));
    }
    match examine(store.path(), &*directory)? {
        // Another process may have made the store, and its region, since.
        Some(identity) if !store_exists && !has_been_made(store, options)? => {
            Err(wrong(store.path(), &absolute, foreign(identity, None)))
        }
        _ => Ok(Some(Given {
            path: absolute,
            directory: Some(directory),
        })),
    }
}

/// Returns the owner of a region directory: the numbers of the store and of the region.
pub fn owner(store: &Path, directory: &dyn Directory) -> Result<Option<(u128, u128)>> {
    let identity = examine(store, directory)?;
    Ok(identity.map(|identity| (identity.store_id, identity.region_id)))
}

/// Writes the file `REGION` again, where the one before is damaged or gone.
pub fn restore(directory: &dyn Directory, (store_id, region_id): (u128, u128)) -> Result<()> {
    let identity = RegionIdentity {
        store_id,
        region_id,
    };
    write(directory, identity)
}

/// Finds the old arenas and takes the new home.
///
/// # Errors
/// [`Error::WrongRegion`] if the directory is another store's or the writes are elsewhere,
/// [`Error::RegionLost`] if they are nowhere, [`Error::Busy`] if the directory is in use.
pub fn settle(
    storage: &dyn Storage,
    store: &Arc<dyn Directory>,
    given: Option<Given>,
    options: &Options,
    state: &ManifestState,
) -> Result<Homes> {
    let path = store.path();
    let directory = given.as_ref().and_then(|given| given.directory.as_ref());
    let found = match directory {
        Some(directory) => examine(path, &**directory)?,
        None => None,
    };
    let store_id = state.identity.store_id;
    if let (Some(given), Some(identity)) = (&given, found)
        && identity.store_id != store_id
    {
        let detail = foreign(identity, Some(store_id));
        return Err(wrong(path, &given.path, detail));
    }
    let old = old_arenas(storage, store, given.as_ref(), found, options, state)?;
    let own = |old| Homes {
        old,
        new: ArenaHome::Store,
        directory: Arc::clone(store),
        lock: None,
    };
    let Some(given) = given else {
        return Ok(own(old));
    };
    let (directory, identity, lock) = if options.read_only {
        match (given.directory, found) {
            (Some(directory), Some(identity)) => {
                let lock = lock_as_reader(&*directory)?;
                (directory, identity, lock)
            }
            // Nothing is there to be read, nothing will be written.
            _ => return Ok(own(old)),
        }
    } else {
        let access = options.file_access.into();
        let directory = match given.directory {
            Some(directory) => directory,
            None => {
                storage.create_directory_for(&given.path, access)?;
                storage.directory(&given.path, access)?
            }
        };
        let (identity, lock) = claim(path, &*directory, store_id, found)?;
        (directory, identity, Some(lock))
    };
    Ok(Homes {
        old,
        new: ArenaHome::Region {
            id: identity.region_id,
            path: given.path,
        },
        directory,
        lock,
    })
}

fn old_arenas(
    storage: &dyn Storage,
    store: &Arc<dyn Directory>,
    given: Option<&Given>,
    found: Option<RegionIdentity>,
    options: &Options,
    state: &ManifestState,
) -> Result<OldArenas> {
    if Durability::of(state.identity.domain) == Durability::Volatile {
        // They died with the process.
        return Ok(OldArenas::NotNeeded);
    }
    let ArenaHome::Region { id, path: recorded } = &state.arena_home else {
        return Ok(OldArenas::In(Arc::clone(store)));
    };
    let is_the_one = |identity: RegionIdentity| identity.region_id == *id;
    if let Some(directory) = given.and_then(|given| given.directory.as_ref())
        && found.is_some_and(is_the_one)
    {
        return Ok(OldArenas::In(Arc::clone(directory)));
    }
    if !state.may_hold_writes() {
        return Ok(OldArenas::NotNeeded);
    }
    // A region that cannot be read there is as lost as one that is not there.
    let elsewhere = open_if_there(storage, recorded, Access::Owner)
        .ok()
        .flatten()
        .and_then(|directory| examine(store.path(), &*directory).ok().flatten());
    if elsewhere.is_some_and(is_the_one) {
        let region = given.map_or(store.path(), |given| &given.path);
        let detail = format!(
            "unflushed writes are in {0}; open the store with region_dir {0}, or flush and close \
             it there before it moves",
            Escaped::path(recorded)
        );
        return Err(wrong(store.path(), region, detail));
    }
    if options.accept_region_loss {
        return Ok(OldArenas::Lost);
    }
    Err(lost(state, recorded))
}

/// Returns the error for writes that are missing with `path`.
pub fn lost(state: &ManifestState, path: &Path) -> Error {
    Error::RegionLost {
        path: path.to_path_buf(),
        loss: Some(state.loss()),
    }
}

fn wrong(store: &Path, region: &Path, detail: String) -> Error {
    Error::WrongRegion {
        store: store.to_path_buf(),
        region: region.to_path_buf(),
        detail,
    }
}

fn foreign(identity: RegionIdentity, store_id: Option<u128>) -> String {
    let this = store_id.map_or_else(|| "new".to_owned(), |id| format!("store {id:032x}"));
    format!(
        "it belongs to store {:032x}, and this one is {this}; name another directory, or empty \
         this one if that store is gone",
        identity.store_id
    )
}

/// Returns the identity of a region directory; `None` if it is empty. Writes nothing.
fn examine(store: &Path, directory: &dyn Directory) -> Result<Option<RegionIdentity>> {
    let numbers = FILE.examine(store, directory)?;
    Ok(numbers.map(RegionIdentity::of))
}

/// Makes the directory this store's, durably, if no store owns it.
fn claim(
    store: &Path,
    directory: &dyn Directory,
    store_id: u128,
    found: Option<RegionIdentity>,
) -> Result<(RegionIdentity, Box<dyn Lock>)> {
    let lock = lock_as_owner(directory)?;
    // Another process may have taken it before it was locked.
    match examine(store, directory)? {
        now if now != found => Err(busy(directory)),
        Some(identity) => {
            // The process that wrote it may have died before the name was durable.
            directory.sync()?;
            Ok((identity, lock))
        }
        None => {
            let identity = RegionIdentity {
                store_id,
                region_id: rand::random(),
            };
            write(directory, identity)?;
            Ok((identity, lock))
        }
    }
}

/// Writes the file by a rename, so that it is whole or absent.
fn write(directory: &dyn Directory, identity: RegionIdentity) -> Result<()> {
    FILE.write(directory, identity.numbers())
}

fn decode(file: &Path, bytes: &[u8]) -> Result<RegionIdentity> {
    FILE.decode(file, bytes).map(RegionIdentity::of)
}

/// Reads `bytes` as the file `REGION`, for fuzzers: accepted bytes are those that would be written.
pub fn fuzz_region(bytes: &[u8]) {
    if let Ok(identity) = decode(Path::new(NAME), bytes) {
        assert_eq!(FILE.encode(identity.numbers()), bytes, "{identity:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_read_as_it_was_written_and_no_bit_may_change() {
        let identity = RegionIdentity {
            store_id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
            region_id: 8,
        };
        let file = Path::new("REGION");
        let bytes = FILE.encode(identity.numbers());
        assert_eq!(bytes.len(), 56);
        assert_eq!(bytes[..16], FILE.front.encode());
        assert_eq!(bytes[16..24], *b"\x77\x66\x55\x44\x33\x22\x11\0");
        assert_eq!(bytes[48..], [112, 99, 55, 17, 18, 206, 108, 106]);
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
