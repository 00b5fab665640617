//! Opening a store, for reading or for writing.

use std::path::Path;

use terrace::{Db, Options};

use crate::failure::Result;

/// For commands that only look: nothing is written, and no store is made.
pub fn open_to_read(path: &Path) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        read_only: true,
        ..Options::default()
    };
    Ok(Db::open(path, options)?)
}

/// For commands that add: a store is made where there is none.
pub fn open_or_create(path: &Path) -> Result<Db> {
    Ok(Db::open(path, Options::default())?)
}

/// For commands that change what must be there.
pub fn open_to_change(path: &Path) -> Result<Db> {
    Ok(Db::open(
        path,
        Options {
            create_if_missing: false,
            ..Options::default()
        },
    )?)
}
