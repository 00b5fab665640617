//! Opening a store, for reading or for writing.

use std::sync::Arc;

use terrace::{Db, EventListener, Options};

use crate::arguments::StoreDirectory;
use crate::failure::Result;

/// What the arguments say of a store.
pub fn options(store: &StoreDirectory) -> Options {
    Options {
        region_dir: store.region_dir.clone(),
        accept_region_loss: store.accept_region_loss,
        ..Options::default()
    }
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
pub fn open_or_create(store: &StoreDirectory) -> Result<Db> {
    Ok(Db::open(&store.path, options(store))?)
}

/// The same, and `listener` hears what the store does.
pub fn open_or_create_heard(
    store: &StoreDirectory,
    listener: Option<Arc<dyn EventListener>>,
) -> Result<Db> {
    let options = Options {
        event_listener: listener,
        ..options(store)
    };
    Ok(Db::open(&store.path, options)?)
}

/// For commands that change what must be there.
pub fn open_to_change(store: &StoreDirectory) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        ..options(store)
    };
    Ok(Db::open(&store.path, options)?)
}
