//! Opening a store, for reading or for writing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use terrace::explain::{Description, Explanation};
use terrace::inspect::{Answers, EventRequest};
use terrace::{
    Db, Error, EventListener, Keyspace, KeyspaceOptions, LevelsReport, Options, Statistics, inspect,
};

use crate::arguments::{ExplainCompaction, InKeyspace, StoreDirectory, WrittenStore};
use crate::failure::{Failure, Result};

/// The keyspace that every store has.
const DEFAULT_KEYSPACE: &str = "default";

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
pub fn options_to_write(store: &WrittenStore) -> Result<Options> {
    options_of(&store.directory, store.options.as_deref())
}

fn options_of(directory: &StoreDirectory, file: Option<&Path>) -> Result<Options> {
    let Some(file) = file else {
        return Ok(options(directory));
    };
    let text = fs::read_to_string(file).map_err(|error| Failure::file(file, error))?;
    let given = Options::from_toml(&text).map_err(|error| match error {
        Error::InvalidArgument(what) => Failure::Usage(format!("{}: {what}", file.display())),
        error => error.into(),
    })?;
    Ok(with_directory(given, directory))
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

/// What a store holds and has done; its owner is asked if it is open elsewhere.
pub fn statistics(store: &StoreDirectory) -> Result<Statistics> {
    match open_to_read(store) {
        Ok(db) => Ok(db.statistics()),
        Err(failure) => ask(failure, || inspect::statistics(&store.path)),
    }
}

/// Every table in its place; the owner is asked if the store is open elsewhere.
pub fn levels(store: &StoreDirectory) -> Result<LevelsReport> {
    match open_to_read(store) {
        Ok(db) => Ok(db.levels_with_duplicates()),
        Err(failure) => ask(failure, || inspect::levels(&store.path)),
    }
}

/// What would be merged now, by the owner's options if the store is open elsewhere, else by those given.
pub fn compaction_explanation(asked: &ExplainCompaction) -> Result<Explanation> {
    let directory = directory_of(asked)?;
    match open_to_explain(&directory, asked) {
        Ok(db) => Ok(db.explain_compaction()),
        Err(failure) => have_done(failure, || inspect::explain_compaction(&directory.path)),
    }
}

/// The levels of a keyspace, and what they are merged by; as above.
pub fn compaction_description(
    asked: &ExplainCompaction,
    keyspace: Option<&str>,
) -> Result<Description> {
    let directory = directory_of(asked)?;
    match open_to_explain(&directory, asked) {
        Ok(db) => Ok(db.describe_compaction(keyspace.unwrap_or(DEFAULT_KEYSPACE))?),
        Err(failure) => have_done(failure, || {
            inspect::describe_compaction(&directory.path, keyspace)
        }),
    }
}

fn directory_of(asked: &ExplainCompaction) -> Result<StoreDirectory> {
    let path = asked.path.clone().ok_or_else(|| {
        Failure::Usage("give --store or TERRACE_STORE, or a --description".to_owned())
    })?;
    Ok(StoreDirectory {
        path,
        region_dir: asked.region_dir.clone(),
        accept_region_loss: asked.accept_region_loss,
    })
}

/// Read-only, so that opening begins no merge.
fn open_to_explain(directory: &StoreDirectory, asked: &ExplainCompaction) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        error_if_exists: false,
        read_only: true,
        ..options_of(directory, asked.options.as_deref())?
    };
    Ok(Db::open(&directory.path, options)?)
}

/// Asks the owner that kept us from opening the store, if it lets itself be asked.
fn ask<T>(failure: Failure, question: impl FnOnce() -> terrace::Result<T>) -> Result<T> {
    match failure {
        Failure::Store(
            busy @ Error::Busy {
                socket: Some(_), ..
            },
        ) => question().map_err(|error| Failure::Unanswered {
            busy,
            what: error.to_string(),
        }),
        other => Err(other),
    }
}

/// Has the owner that kept us from opening the store do what was to be done, if it lets itself be
/// asked. What it refuses is the same failure as here.
pub fn have_done<T>(failure: Failure, request: impl FnOnce() -> terrace::Result<T>) -> Result<T> {
    match failure {
        Failure::Store(
            busy @ Error::Busy {
                socket: Some(_), ..
            },
        ) => request().map_err(|error| match error {
            Error::Owner(what) => Failure::Unanswered { busy, what },
            refused => refused.into(),
        }),
        other => Err(other),
    }
}

/// What a store's owner does. Where nobody answers, an attempt to open the store tells why.
pub fn events(store: &StoreDirectory, wanted: EventRequest) -> Result<Answers> {
    inspect::events(&store.path, wanted).map_err(|unanswered| match open_to_read(store) {
        Err(failure @ Failure::Store(Error::NoStore { .. })) => failure,
        Err(Failure::Store(busy @ Error::Busy { .. })) => Failure::Unanswered {
            busy,
            what: unanswered.to_string(),
        },
        _ => unanswered.into(),
    })
}

/// For commands that add: a store is made where there is none.
pub fn open_or_create(store: &WrittenStore) -> Result<Db> {
    Ok(Db::open(&store.directory.path, options_to_write(store)?)?)
}

/// The same for commands that take their time: others may look on, and `listener` hears what the
/// store does.
pub fn open_or_create_heard(
    store: &WrittenStore,
    listener: Option<Arc<dyn EventListener>>,
) -> Result<Db> {
    let options = Options {
        event_listener: listener,
        ..options_to_write(store)?
    };
    open_inspected(&store.directory.path, options)
}

/// With an inspection socket, where the file system has sockets.
fn open_inspected(path: &Path, options: Options) -> Result<Db> {
    let inspected = Options {
        inspect: true,
        ..options.clone()
    };
    match Db::open(path, inspected) {
        Err(Error::NoInspection { .. }) => Ok(Db::open(path, options)?),
        opened => Ok(opened?),
    }
}

/// For commands that change what must be there.
pub fn open_to_change(store: &WrittenStore) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        ..options_to_write(store)?
    };
    Ok(Db::open(&store.directory.path, options)?)
}

/// The same for commands that take their time.
pub fn open_to_maintain(store: &WrittenStore) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        ..options_to_write(store)?
    };
    open_inspected(&store.directory.path, options)
}

/// A keyspace that is to be written to.
pub fn keyspace_or_new(db: &Db, wanted: &InKeyspace) -> Result<Keyspace> {
    match db.keyspace(&wanted.name) {
        Err(Error::NoKeyspace { .. }) => {
            Ok(db.create_keyspace(&wanted.name, KeyspaceOptions::default())?)
        }
        keyspace => Ok(keyspace?),
    }
}
