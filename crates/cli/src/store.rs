//! Opening a store, for reading or for writing.

use std::fs;
use std::sync::Arc;

use terrace::{Db, EventListener, Options};

use crate::arguments::{StoreDirectory, WrittenStore};
use crate::failure::{Failure, Result};

/// What the arguments say of a store.
pub fn options(store: &StoreDirectory) -> Options {
    with_directory(Options::default(), store)
}

fn with_directory(options: Options, store: &StoreDirectory) -> Options {
    Options {
        region_dir: store.region_dir.clone().or(options.region_dir),
        accept_region_loss: store.accept_region_loss || options.accept_region_loss,
        ..options
    }
}

/// What the file of options says, and the arguments, which go first.
fn options_to_write(store: &WrittenStore) -> Result<Options> {
    let Some(file) = &store.options else {
        return Ok(options(&store.directory));
    };
    let text = fs::read_to_string(file).map_err(|error| Failure::file(file, error))?;
    let given = Options::from_toml(&text).map_err(|error| match error {
        terrace::Error::InvalidArgument(what) => {
            Failure::Usage(format!("{}: {what}", file.display()))
        }
        error => error.into(),
    })?;
    Ok(with_directory(given, &store.directory))
}

/// For commands that only look: nothing is written, and no store is made.
pub fn open_to_read(store: &StoreDirectory) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        read_only: true,
        ..options(store)
    };
    Ok(Db::open(&store.path, options)?)
}

/// For commands that add: a store is made where there is none.
pub fn open_or_create(store: &WrittenStore) -> Result<Db> {
    open_or_create_heard(store, None)
}

/// The same, and `listener` hears what the store does.
pub fn open_or_create_heard(
    store: &WrittenStore,
    listener: Option<Arc<dyn EventListener>>,
) -> Result<Db> {
    let options = Options {
        event_listener: listener,
        ..options_to_write(store)?
    };
    Ok(Db::open(&store.directory.path, options)?)
}

/// For commands that change what must be there.
pub fn open_to_change(store: &WrittenStore) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        ..options_to_write(store)?
    };
    Ok(Db::open(&store.directory.path, options)?)
}
