//! Terrace, in each configuration that a report may want to set beside the others.

mod tables;
mod watch;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use terrace::{
    Compression, Db, Durability, IterOptions, KeyspaceOptions, Options, Purpose, TimeProfile,
    WriteBatch, WriteOptions,
};
use toml::{Table, Value};

use crate::settings::{DurabilityClass, Settings};
use crate::store::{Activity, Contestant, Direction, Opened, Store};
use crate::tables::Tables;
use crate::{Error, Result};

use tables::Keyspaces;
use watch::Watch;

/// Terrace as it comes, and in its other configurations. Every field of `terrace::Options` can be set
/// besides: `--set terrace.read_buffer.share_percent=25`.
pub const CONTESTANTS: &[Contestant] = &[
    Contestant {
        name: "terrace",
        about: "Terrace as it comes",
        open: |directory, settings| open(directory, settings, &[]),
    },
    Contestant {
        name: "terrace-log",
        about: "new writes by pwrite, as into a write-ahead log (persist method `written`)",
        open: |directory, settings| open(directory, settings, &[("persist_method", "written")]),
    },
    Contestant {
        name: "terrace-region",
        about: "new writes into a mapped region (persist method `mapped`)",
        open: |directory, settings| open(directory, settings, &[("persist_method", "mapped")]),
    },
    Contestant {
        name: "terrace-volatile",
        about: "new writes into anonymous memory: a crash loses them",
        open: |directory, settings| open(directory, settings, &[("durability", "Volatile")]),
    },
    Contestant {
        name: "terrace-blocks",
        about: "no read buffer: all memory for reads caches blocks",
        open: |directory, settings| {
            open(directory, settings, &[("read_buffer.share_percent", "0")])
        },
    },
    Contestant {
        name: "terrace-forward",
        about: "every write enters the read buffer, as in the WBL thesis",
        open: |directory, settings| open(directory, settings, &[("read_buffer.policy", "all")]),
    },
];

/// Names of the files that hold new writes, and of those that list tables (docs/formats.md).
const BESIDE_TABLES: [&[u8]; 2] = [b"arena-", b"MANIFEST-"];

struct Terrace {
    db: Db,
    watch: Arc<Watch>,
    sync: bool,
    /// Where several tables are needed.
    keyspaces: Option<Keyspaces>,
}

fn open(directory: &Path, settings: &Settings, preset: &[(&str, &str)]) -> Result<Opened> {
    open_with(directory, options(settings, preset)?, settings)
}

/// Opens a store with options that were made already, components included.
pub(crate) fn open_with(directory: &Path, options: Options, settings: &Settings) -> Result<Opened> {
    let watch = Arc::new(Watch::default());
    let told = told(&options.resolved()?)?;
    let of_keyspaces = options.default_keyspace.clone();
    let db = Db::open(
        directory,
        Options {
            event_listener: Some(watch.clone()),
            ..options
        },
    )?;
    let statistics = db.statistics();
    let emulated = if statistics.emulated {
        ", power safety emulated"
    } else {
        ""
    };
    let durability = format!(
        "{}, method {}, on {}{emulated}",
        statistics.durability, statistics.method, statistics.file_system
    );
    let sync = settings.durability == DurabilityClass::PowerCut;
    let write = WriteOptions::with_sync(sync);
    let keyspaces = match settings.tables.is_empty() {
        true => None,
        false => Some(Keyspaces::new(&db, &settings.tables, &of_keyspaces, write)?),
    };
    Ok(Opened {
        store: Box::new(Terrace {
            db,
            watch,
            sync,
            keyspaces,
        }),
        durability,
        settings: told,
    })
}

/// Makes options from the settings of all stores, then from those of the configuration, then from
/// those given by hand.
pub(crate) fn options(settings: &Settings, preset: &[(&str, &str)]) -> Result<Options> {
    let mut compression = vec![Compression::None];
    if settings.compressed {
        compression.extend([Compression::None, Compression::Lz4]);
    }
    let common = Options {
        durability: Some(match settings.durability {
            DurabilityClass::ProcessCrash => Durability::CrashSafe,
            DurabilityClass::PowerCut => Durability::PowerSafe,
        }),
        arena_bytes: settings.write_buffer_bytes,
        max_arenas: settings.write_buffers as usize,
        cache_bytes: settings.cache_bytes,
        direct_io: settings.direct_io,
        default_keyspace: KeyspaceOptions {
            block_bytes: settings.block_bytes as usize,
            filter_bits_per_key: settings.filter_bits_per_key,
            compression,
            ..KeyspaceOptions::default()
        },
        // The others flush in a thread of their own, too, within their number.
        compaction_threads: (settings.background_threads as usize)
            .saturating_sub(1)
            .max(1),
        ..Options::default()
    };
    let common = match settings.bound_bytes {
        Some(bound_bytes) => bounded(common, settings, bound_bytes),
        None => common,
    };
    let mut table: Table = common.to_toml()?.parse()?;
    let own = settings
        .own
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in preset.iter().copied().chain(own) {
        set(&mut table, name, value)?;
    }
    Ok(Options::from_toml(&table.to_string())?)
}

/// Tells the store its bound and no size besides, unless the user chose one.
fn bounded(options: Options, settings: &Settings, bound_bytes: u64) -> Options {
    let unset = Options::default();
    Options {
        memory_bytes: Some(bound_bytes),
        // Only a buffer below the default was chosen for this store.
        arena_bytes: match settings.write_buffer_bytes < unset.arena_bytes {
            true => settings.direct_write_buffer_bytes,
            false => unset.arena_bytes,
        },
        cache_bytes: match settings.cache_is_chosen {
            true => settings.direct_cache_bytes,
            false => unset.cache_bytes,
        },
        ..options
    }
}

/// Sets an option by its name in TOML, with dots; the value is TOML, too, or a plain string.
fn set(table: &mut Table, name: &str, value: &str) -> Result<()> {
    let parsed = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(value.into()));
    let (path, last) = name.rsplit_once('.').unwrap_or(("", name));
    let mut inner = table;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        inner = inner
            .entry(part)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| Error::from(format!("terrace's option {part} has no options in it")))?;
    }
    inner.insert(last.to_string(), parsed);
    Ok(())
}

/// Returns every option, with its name in TOML.
pub(crate) fn told(options: &Options) -> Result<Vec<(String, String)>> {
    fn flatten(prefix: &str, table: &Table, told: &mut Vec<(String, String)>) {
        for (name, value) in table {
            match value {
                Value::Table(inner) => flatten(&format!("{prefix}{name}."), inner, told),
                Value::String(text) => told.push((format!("{prefix}{name}"), text.clone())),
                other => told.push((format!("{prefix}{name}"), other.to_string())),
            }
        }
    }
    let mut told = vec![("version".to_string(), env!("CARGO_PKG_VERSION").to_string())];
    flatten("", &options.to_toml()?.parse()?, &mut told);
    Ok(told)
}

impl Store for Terrace {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if !self.sync {
            return Ok(self.db.put(key, value)?);
        }
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        Ok(self.db.write(batch, WriteOptions::with_sync(true))?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        if !self.sync {
            return Ok(self.db.delete(key)?);
        }
        let mut batch = WriteBatch::new();
        batch.delete(key)?;
        Ok(self.db.write(batch, WriteOptions::with_sync(true))?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get(key)?;
        if let Some(value) = &value {
            read(value);
        }
        Ok(value.is_some())
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let bound = start.map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
        match direction {
            Direction::Forward => {
                let mut iterator = self.db.iter(IterOptions {
                    lower: bound,
                    ..IterOptions::default()
                })?;
                iterator.seek_to_first()?;
                for visited in 0..limit {
                    if visited > 0 {
                        iterator.next()?;
                    }
                    if !iterator.valid() {
                        break;
                    }
                    visit(iterator.key(), iterator.value());
                }
            }
            Direction::Backward => {
                let mut iterator = self.db.iter(IterOptions {
                    upper: bound,
                    ..IterOptions::default()
                })?;
                iterator.seek_to_last()?;
                for visited in 0..limit {
                    if visited > 0 {
                        iterator.prev()?;
                    }
                    if !iterator.valid() {
                        break;
                    }
                    visit(iterator.key(), iterator.value());
                }
            }
        }
        Ok(())
    }

    fn tables(&self) -> Option<&dyn Tables> {
        let keyspaces = self.keyspaces.as_ref()?;
        Some(keyspaces)
    }

    fn settle(&self) -> Result<Instant> {
        self.db.flush()?;
        self.db.compact()?;
        let settled = Instant::now();
        // Tables are deleted slowly on purpose, and no writer waits for it; but their space is not
        // the store's. The next step, which `compact` asks for, looks for tables whose last reader
        // has just gone.
        while self.db.statistics().tables_to_delete > 0 {
            thread::sleep(Duration::from_millis(5));
            self.db.compact()?;
        }
        Ok(settled)
    }

    fn is_beside_tables(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default();
        let name = name.as_encoded_bytes();
        BESIDE_TABLES.iter().any(|prefix| name.starts_with(prefix))
    }

    fn table_bytes_written(&self) -> Option<u64> {
        let io = self.db.statistics().io;
        let written = |purpose| io.of(purpose).written_bytes;
        Some(written(Purpose::Flush) + written(Purpose::Compaction))
    }

    fn activity(&self) -> Activity {
        self.watch.activity(&self.db)
    }

    fn time_profile(&self) -> Option<TimeProfile> {
        Some(self.db.time_profile())
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Keyspaces keep the store open.
        drop(self.keyspaces);
        Ok(self.db.close()?)
    }
}

#[cfg(test)]
mod tests;
