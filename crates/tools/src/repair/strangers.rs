//! Arenas that a repair does not take, because they are not this store's or cannot be read by this
//! release.
//!
//! They prove nothing about the store: no number and no generation of theirs counts. Another store's
//! arena gets a name with `.damaged` behind it, after the commit. One of a newer release stays.

use std::path::Path;

use terrace::offline::{files, region_error};
use terrace::{Error, Result};
use terrace_lsm::levels::MAX_NUMBER;
use terrace_region::{Header, HeaderState, Region, SlotInfo};
use terrace_storage::{Directory, ErrorKind, OpenMode, OpenOptions, Purpose};

use super::aside::rename_damaged;
use super::report::LeftFile;
use super::state::Basis;

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
        HeaderState::Intact(header) if header.generation >= MAX_NUMBER => {
            Error::corruption(&file, 0, "its generation leaves no room for those to come")
        }
        HeaderState::Intact(header) if !basis.takes_arenas => several(&file, &header),
        _ => return None,
    };
    // A new manifest may say of a generation of this store that it was issued and is not live, and of an
    // arena of a newer release nothing.
    let is_endangered = match slot.header {
        HeaderState::Intact(_) => basis.manifest.is_err(),
        HeaderState::UnknownVersion(_) => {
            basis.manifest.is_err() || basis.state.is_in_live_slot(slot.number)
        }
        _ => false,
    };
    Some(LeftFile::new(file, error).endangered(is_endangered))
}

/// Returns the arenas of a region that are not taken.
pub(super) fn strangers(basis: &Basis, region: &Region) -> Result<Vec<LeftFile>> {
    let slots = region.slots().map_err(region_error)?;
    let strangers = slots
        .iter()
        .filter_map(|slot| stranger(basis, region, slot));
    Ok(strangers.collect())
}

/// Returns the error for an arena beside those of other stores.
fn several(file: &Path, header: &Header) -> Error {
    let number = u128::from_le_bytes(header.store);
    let detail = format!(
        "it belongs to store {number:032x}, and others here do not; no manifest tells which store \
         this is: repair with --arenas-of NUMBER to take its arenas"
    );
    Error::corruption(file, 0, detail)
}

/// Gives the arenas of the chosen store that an earlier repair put aside their names back. The arenas in
/// their way, of a store that holds nothing in them alone, are put aside. Returns those that stay aside,
/// since an arena of the chosen store has the name already, or a file that no store may move.
pub(super) fn bring_back(directory: &dyn Directory, store: u128) -> Result<Vec<LeftFile>> {
    let (mut left, mut is_changed) = (Vec::new(), false);
    for (aside, name) in arenas_aside(directory, store)? {
        let renamed = directory.rename_new(&aside, &name);
        let is_taken = |error: &terrace_storage::Error| error.kind() == ErrorKind::AlreadyExists;
        if renamed.as_ref().is_err_and(is_taken) {
            let (is_own, stays) = match header_of(directory, &name)? {
                HeaderState::Intact(header) => (header.store == store.to_le_bytes(), false),
                header => (false, header.is_left_alone()),
            };
            if is_own || stays {
                let detail = format!("it stays aside: {name} is another file");
                let file = directory.shown(&aside);
                left.push(LeftFile::aside(
                    file.clone(),
                    Error::corruption(&file, 0, detail),
                ));
                continue;
            }
            rename_damaged(directory, &name)?;
            directory.rename_new(&aside, &name)?;
        } else {
            renamed?;
        }
        is_changed = true;
    }
    if is_changed {
        directory.sync()?;
    }
    Ok(left)
}

/// Returns the arenas of a store that a repair put aside and that stay there: its manifest is whole and
/// names others.
pub(super) fn still_aside(directory: &dyn Directory, store: u128) -> Result<Vec<LeftFile>> {
    let aside = arenas_aside(directory, store)?.into_iter();
    let left = aside.map(|(aside, _)| {
        let file = directory.shown(&aside);
        let detail = "it stays aside: the store's manifest is whole and does not name it";
        LeftFile::aside(file.clone(), Error::corruption(&file, 0, detail))
    });
    Ok(left.collect())
}

/// Returns the names of a store's arenas that a repair put aside, and the names that they had.
fn arenas_aside(directory: &dyn Directory, store: u128) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in directory.list()? {
        let name = files::without_damaged(&entry.name);
        if name == entry.name || !files::is_arena(name) {
            continue;
        }
        let header = header_of(directory, &entry.name)?;
        if matches!(header, HeaderState::Intact(header) if header.store == store.to_le_bytes()) {
            found.push((entry.name.clone(), name.to_owned()));
        }
    }
    found.sort();
    Ok(found)
}

fn header_of(directory: &dyn Directory, name: &str) -> Result<HeaderState> {
    let file = match directory.open(name, OpenOptions::buffered(OpenMode::Read)) {
        Err(error) if error.kind() == ErrorKind::NotAFile => return Ok(HeaderState::NotAFile),
        file => file?,
    };
    let mut header = vec![0; terrace_region::HEADER_BYTES];
    let length = file.read_at(&mut header, 0, Purpose::Recovery)?;
    header.truncate(length);
    Ok(Header::decode(&header))
}
