//! Opening a store, for reading or for writing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use terrace::{Db, Error, EventListener, LevelsReport, Options, Statistics, TierStatistics};
use terrace_tools::explain::{Description, Explanation, describe_compaction, explain_compaction};
use terrace_tools::inspect;
use terrace_tools::inspect::tiers::{self, KeyspacePlacement};
use terrace_tools::inspect::{Answers, EventRequest};

use crate::arguments::{
    ExplainCompaction, ReadStore, StoreDirectory, TierAdvise, Wait, WrittenStore,
};
use crate::failure::{Failure, Result};
use crate::text::shown;

/// The keyspace that every store has.
const DEFAULT_KEYSPACE: &str = "default";

/// The longest time without a look whether the owner has a socket by now.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Returns the options of a file and of the arguments. The arguments go first.
fn options_of(directory: &StoreDirectory, wait: Wait, file: Option<&Path>) -> Result<Options> {
    let given = match file {
        Some(file) => read_options(file)?,
        None => Options::default(),
    };
    Ok(with_arguments(given, directory, wait))
}

fn read_options(file: &Path) -> Result<Options> {
    let text = fs::read_to_string(file).map_err(|error| Failure::file(file, error))?;
    let options = Options::from_toml(&text).map_err(|error| match error {
        Error::InvalidArgument(what) => Failure::Usage(format!("{}: {what}", shown(file))),
        error => error.into(),
    })?;
    if options.memory_bytes.is_some() {
        keep_allocator_within_bounds();
    }
    Ok(options)
}

/// Has all threads share the allocator's memory: memory that one frees is to be room for the others. The
/// user's own setting takes precedence.
fn keep_allocator_within_bounds() {
    if env::var_os("MALLOC_ARENA_MAX").is_none() {
        terrace_region::limit_allocator_arenas(1);
    }
}

fn with_arguments(options: Options, store: &StoreDirectory, wait: Wait) -> Options {
    Options {
        region_dir: store.region_dir.clone().or(options.region_dir),
        accept_region_loss: store.accept_region_loss || options.accept_region_loss,
        accept_tier_loss: store.accept_tier_loss || options.accept_tier_loss,
        wait_for_lock: wait.wait.or(options.wait_for_lock),
        ..options
    }
}

/// Returns the options of the file and of the arguments, which go first.
pub fn options_to_write(store: &WrittenStore) -> Result<Options> {
    options_of(&store.directory, store.wait, store.options.as_deref())
}

/// Returns the options of commands that only look: nothing is written, and no store is made.
pub fn options_to_read(store: &ReadStore) -> Options {
    to_look(with_arguments(
        Options::default(),
        &store.directory,
        store.wait,
    ))
}

fn to_look(options: Options) -> Options {
    Options {
        create_if_missing: false,
        error_if_exists: false,
        read_only: true,
        ..options
    }
}

/// Opens a store for a command that only looks.
pub fn open_to_read(store: &ReadStore) -> Result<Db> {
    Ok(Db::open(&store.directory.path, options_to_read(store))?)
}

/// A store that is open here, or the answer of the process that has it open.
pub enum Found<T> {
    Here(Db),
    Asked(T),
}

/// Opens a store or, where it is open elsewhere, has its owner answer a request. Where the owner cannot,
/// or ends before it has answered, both are tried again until the time of `wait_for_lock` is over.
fn open_or_find_owner<T>(
    path: &Path,
    options: &Options,
    mut request: impl FnMut(&Path) -> terrace::Result<T>,
) -> Result<Found<T>> {
    let patience = options.wait_for_lock.unwrap_or_default();
    let began = Instant::now();
    let mut pause = Duration::ZERO;
    loop {
        let attempt = Options {
            wait_for_lock: Some(pause),
            ..options.clone()
        };
        let (held, socket) = match open_inspected(path, attempt) {
            Ok(db) => return Ok(Found::Here(db)),
            Err(Failure::Store(Error::Busy { path, socket, .. })) => (path, socket),
            Err(failure) => return Err(failure),
        };
        let has_socket = socket.is_some();
        let waited = began.elapsed().min(patience);
        let busy = Error::Busy {
            path: held,
            socket,
            waited,
        };
        let unanswered = match has_socket.then(|| request(path)) {
            None => Failure::Store(busy),
            Some(Ok(answer)) => return Ok(Found::Asked(answer)),
            Some(Err(Error::NoAnswer(what))) => Failure::Unanswered { busy, what },
            Some(Err(Error::Owner(what))) => return Err(Failure::Unanswered { busy, what }),
            // The same failure as here.
            Some(Err(refused)) => return Err(refused.into()),
        };
        pause = patience.saturating_sub(waited).min(LONGEST_PAUSE);
        if pause.is_zero() {
            return Err(unanswered);
        }
    }
}

/// Returns the statistics of a store; asks its owner if it is open elsewhere.
pub fn statistics(store: &ReadStore) -> Result<Statistics> {
    let options = options_to_read(store);
    match open_or_find_owner(&store.directory.path, &options, inspect::statistics)? {
        Found::Here(db) => Ok(db.statistics()),
        Found::Asked(statistics) => Ok(statistics),
    }
}

/// Returns the statistics of a store, missing tiers aside; asks its owner if it is open elsewhere.
pub fn statistics_for_advice(asked: &TierAdvise) -> Result<Statistics> {
    let directory = StoreDirectory {
        path: asked.path.clone().ok_or_else(|| {
            Failure::Usage("give --store or TERRACE_STORE, or --traffic".to_owned())
        })?,
        region_dir: asked.region_dir.clone(),
        accept_region_loss: false,
        accept_tier_loss: true,
    };
    let wait = asked.wait;
    statistics(&ReadStore { directory, wait })
}

/// Returns the tiers of a store, missing ones included; asks its owner if it is open elsewhere.
pub fn tiers(store: &ReadStore) -> Result<Vec<TierStatistics>> {
    let options = with_tier_loss(options_to_read(store));
    match open_or_find_owner(&store.directory.path, &options, inspect::statistics)? {
        Found::Here(db) => Ok(db.tiers()),
        Found::Asked(statistics) => Ok(statistics.tiers),
    }
}

/// Returns the tables of a keyspace, or of all without a name, with the reasons for their tiers: by the
/// owner's options if the store is open elsewhere, else by those given.
pub fn placed_tables(
    store: &WrittenStore,
    keyspace: Option<&str>,
) -> Result<Vec<KeyspacePlacement>> {
    let options = with_tier_loss(to_look(options_to_write(store)?));
    let request = |path: &Path| inspect::placed_tables(path, keyspace);
    match open_or_find_owner(&store.directory.path, &options, request)? {
        Found::Here(db) => Ok(tiers::placed_tables(&db, keyspace)?),
        Found::Asked(placed) => Ok(placed),
    }
}

/// Returns options for a command that needs no table: a missing tier does not stop it.
pub fn with_tier_loss(options: Options) -> Options {
    Options {
        accept_tier_loss: true,
        ..options
    }
}

/// Returns every table in its place; asks the owner if the store is open elsewhere.
pub fn levels(store: &ReadStore) -> Result<LevelsReport> {
    let options = options_to_read(store);
    match open_or_find_owner(&store.directory.path, &options, inspect::levels)? {
        Found::Here(db) => Ok(db.levels_with_duplicates()),
        Found::Asked(levels) => Ok(levels),
    }
}

/// Returns every table in its place, without reading one; asks the owner if the store is open
/// elsewhere.
pub fn tables(store: &ReadStore) -> Result<LevelsReport> {
    let options = options_to_read(store);
    match open_or_find_owner(&store.directory.path, &options, inspect::levels)? {
        Found::Here(db) => Ok(db.levels()),
        Found::Asked(levels) => Ok(levels),
    }
}

/// Returns the next merge, by the owner's options if the store is open elsewhere, else by those
/// given.
pub fn compaction_explanation(asked: &ExplainCompaction) -> Result<Explanation> {
    let (path, options) = to_explain(asked)?;
    match open_or_find_owner(&path, &options, inspect::explain_compaction)? {
        Found::Here(db) => Ok(explain_compaction(&db)),
        Found::Asked(explanation) => Ok(explanation),
    }
}

/// Returns the levels of a keyspace and the settings of their merges, as above.
pub fn compaction_description(
    asked: &ExplainCompaction,
    keyspace: Option<&str>,
) -> Result<Description> {
    let (path, options) = to_explain(asked)?;
    let request = |path: &Path| inspect::describe_compaction(path, keyspace);
    match open_or_find_owner(&path, &options, request)? {
        Found::Here(db) => Ok(describe_compaction(
            &db,
            keyspace.unwrap_or(DEFAULT_KEYSPACE),
        )?),
        Found::Asked(description) => Ok(description),
    }
}

/// Returns the path and read-only options, so that opening begins no merge.
fn to_explain(asked: &ExplainCompaction) -> Result<(PathBuf, Options)> {
    let path = asked.path.clone().ok_or_else(|| {
        Failure::Usage("give --store or TERRACE_STORE, or a --description".to_owned())
    })?;
    let directory = StoreDirectory {
        path: path.clone(),
        region_dir: asked.region_dir.clone(),
        accept_region_loss: asked.accept_region_loss,
        accept_tier_loss: asked.accept_tier_loss,
    };
    let options = options_of(&directory, asked.wait, asked.options.as_deref())?;
    Ok((path, to_look(options)))
}

/// Opens a store for a command that takes its time, or has the owner do its work.
pub fn maintain<T>(
    store: &WrittenStore,
    work: impl FnMut(&Path) -> terrace::Result<T>,
) -> Result<Found<T>> {
    maintain_by(store, options_to_write(store)?, work)
}

/// Does the same by options that the caller has changed.
pub fn maintain_by<T>(
    store: &WrittenStore,
    options: Options,
    work: impl FnMut(&Path) -> terrace::Result<T>,
) -> Result<Found<T>> {
    let options = Options {
        create_if_missing: false,
        ..options
    };
    open_or_find_owner(&store.directory.path, &options, work)
}

/// Changes a store that was found, and closes it, unless its owner has changed it. Returns whether the
/// owner did.
pub fn change<T>(
    found: Found<T>,
    here: impl FnOnce(&Db) -> terrace::Result<T>,
) -> Result<(T, bool)> {
    match found {
        Found::Here(db) => {
            let changed = here(&db);
            let closed = db.close();
            let changed = changed?;
            closed?;
            Ok((changed, false))
        }
        Found::Asked(changed) => Ok((changed, true)),
    }
}

/// Returns the events of a store's owner. Without an answer, an attempt to open the store says why.
pub fn events(store: &StoreDirectory, wanted: EventRequest) -> Result<Answers> {
    inspect::events(&store.path, wanted).map_err(|unanswered| {
        let options = with_arguments(Options::default(), store, Wait::default());
        match Db::open(&store.path, to_look(options)) {
            Err(missing @ Error::NoStore { .. }) => missing.into(),
            Err(busy @ Error::Busy { .. }) => Failure::Unanswered {
                busy,
                what: unanswered.to_string(),
            },
            _ => unanswered.into(),
        }
    })
}

/// Opens a store for commands that add; makes one where there is none.
pub fn open_or_create(store: &WrittenStore) -> Result<Db> {
    Ok(Db::open(&store.directory.path, options_to_write(store)?)?)
}

/// Opens a store as above for commands that take their time: others may look on, and `listener`
/// hears the store's events.
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

/// Opens a store with an inspection socket, where the file system has sockets.
fn open_inspected(path: &Path, options: Options) -> Result<Db> {
    let db = Db::open(path, options)?;
    match inspect::serve(&db) {
        Ok(()) | Err(Error::NoInspection { .. }) => Ok(db),
        Err(error) => Err(error.into()),
    }
}

/// Opens a store for commands that change it; the store must exist.
pub fn open_to_change(store: &WrittenStore) -> Result<Db> {
    let options = Options {
        create_if_missing: false,
        ..options_to_write(store)?
    };
    Ok(Db::open(&store.directory.path, options)?)
}
