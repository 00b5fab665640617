//! The home of the arenas as bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::levels::edit::ArenaHome;
use crate::levels::fields::{Field, FieldError, FieldWriter, Group};

/// Tags inside the home of the arenas; without both of them it is the store's directory.
mod tag {
    pub(super) const REGION_ID: u32 = 1;
    pub(super) const PATH: u32 = 2;
    pub(super) const LARGEST: u32 = PATH;
}

pub(super) fn put_home(out: &mut FieldWriter, value: &ArenaHome) {
    if let ArenaHome::Region { id, path } = value {
        out.bytes(tag::REGION_ID, &id.to_le_bytes());
        out.bytes(tag::PATH, path.as_os_str().as_bytes());
    }
}

pub(super) fn take_home(field: Field<'_>) -> Result<ArenaHome, FieldError> {
    let group = Group::read(field, "the home of the arenas", tag::LARGEST)?;
    if group.is_empty() {
        return Ok(ArenaHome::Store);
    }
    let id = <[u8; 16]>::try_from(group.bytes(tag::REGION_ID)?)
        .map_err(|_| group.malformed(tag::REGION_ID))?;
    Ok(ArenaHome::Region {
        id: u128::from_le_bytes(id),
        path: PathBuf::from(OsStr::from_bytes(group.bytes(tag::PATH)?)),
    })
}
