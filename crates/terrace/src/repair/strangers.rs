//! Arenas that a repair does not take, because they are not this store's or cannot be read by this
//! release.
//!
//! They prove nothing about the store: no number and no generation of theirs counts. Another store's
//! arena gets a name with `.damaged` behind it, after the commit. One of a newer release stays.

use std::path::Path;

use terrace_region::{Header, HeaderState, Region, SlotInfo};
use terrace_storage::{Directory, ErrorKind, OpenMode, OpenOptions, Purpose};

use super::report::LeftFile;
use super::state::Basis;
use crate::db::files;
use crate::db::regions::region_error;
use crate::{Error, Result};

/// Returns why the arena in a slot is not taken; `None` if it is this store's, or damaged.
pub(super) fn stranger(basis: &Basis, region: &Region, slot: &SlotInfo) -> Option<LeftFile> {
    let file = region.file(slot.number);
    let error = match slot.header {
        HeaderState::UnknownVersion(version) => {
            Error::unsupported(&file, format!("arena format version {version}"))
        }
        HeaderState::Foreign(header) => Error::corruption(&file, 0, region.owner_of(&header)),
        HeaderState::NotAFile => Error::corruption(&file, 0, "it is not a regular file"),
        HeaderState::Intact(_) if basis.of_copies.contains(&file) => {
            let detail = "it is of a copy of this store, which gave its numbers to other writes";
            Error::corruption(&file, 0, detail)
        }
        HeaderState::Intact(header) if !basis.takes_arenas => several(&file, &header),
        _ => return None,
    };
    Some(LeftFile::new(file, error))
}

/// Returns the arenas of a region that are not taken.
pub(super) fn strangers(basis: &Basis, region: &Region) -> Result<Vec<LeftFile>> {
    let slots = region.slots().map_err(region_error)?;
    let strangers = slots
        .iter()
        .filter_map(|slot| stranger(basis, region, slot));
    Ok(strangers.collect())
}

/// The error for an arena beside those of other stores.
fn several(file: &Path, header: &Header) -> Error {
    let number = u128::from_le_bytes(header.store);
    let detail = format!(
        "it belongs to store {number:032x}, and others here do not; no manifest tells which store \
         this is: repair with --arenas-of NUMBER to take its arenas"
    );
    Error::corruption(file, 0, detail)
}

/// Gives the arenas of the chosen store that an earlier repair put aside their names back, where no
/// other file has them.
pub(super) fn bring_back(directory: &dyn Directory, store: u128) -> Result<()> {
    let entries = directory.list()?;
    let mut is_changed = false;
    for entry in &entries {
        let name = files::without_damaged(&entry.name);
        let is_aside = name != entry.name && files::is_arena(name);
        if !is_aside || !is_arena_of(directory, &entry.name, store)? {
            continue;
        }
        match directory.rename_new(&entry.name, name) {
            Ok(()) => is_changed = true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    if is_changed {
        directory.sync()?;
    }
    Ok(())
}

fn is_arena_of(directory: &dyn Directory, name: &str, store: u128) -> Result<bool> {
    let file = match directory.open(name, OpenOptions::buffered(OpenMode::Read)) {
        Err(error) if error.kind() == ErrorKind::NotAFile => return Ok(false),
        file => file?,
    };
    let mut header = vec![0; terrace_region::HEADER_BYTES];
    let length = file.read_at(&mut header, 0, Purpose::Recovery)?;
    header.truncate(length);
    let header = Header::decode(&header);
    Ok(matches!(header, HeaderState::Intact(header) if header.store == store.to_le_bytes()))
}
