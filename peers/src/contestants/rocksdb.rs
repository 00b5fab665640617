//! RocksDB, told what the page "Setup Options and Basic Tuning" of its wiki advises.

mod database;
mod options;
mod style;
mod tables;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rocksdb::properties::{
    ACTUAL_DELAYED_WRITE_RATE, IS_WRITE_STOPPED, NUM_RUNNING_COMPACTIONS, NUM_RUNNING_FLUSHES,
};
use rocksdb::statistics::Ticker;
use rocksdb::{DB, InfoLogger, LogLevel, Options, ReadOptions, WriteOptions};
use terrace_bench::Result;
use terrace_bench::settings::{DurabilityClass, Settings};
use terrace_bench::store::{Activity, Contestant, Direction, Opened, Store};
use terrace_bench::tables::Tables;

use self::database::Database;
use self::options::{FIRST_LEVEL_BUFFERS, OWN, options, sized, statistics, table};
use super::Told;
use super::options::OwnOptions;

/// RocksDB.
pub const CONTESTANT: Contestant = Contestant {
    name: "rocksdb",
    about: "LSM tree in C++, with a write-ahead log",
    open,
};

struct RocksDb<D> {
    db: D,
    /// Names of the column families that are tables.
    tables: Vec<String>,
    /// Made once: `get_pinned` makes and frees one for each read.
    read: ReadOptions,
    write: WriteOptions,
    watch: Watch,
}

struct Watch {
    ended: Arc<Ended>,
    /// Where statistics are kept, the options have them.
    counted: Option<Options>,
}

/// Counted from what RocksDB logs: its listeners cannot be had from Rust, and its statistics would
/// slow every operation down.
#[derive(Default)]
struct Ended {
    flushes: AtomicU64,
    compactions: AtomicU64,
}

impl Ended {
    fn count(&self, line: &str) {
        // Some lines are logged late and begin with the time they are of.
        if line.contains("\"event\": \"flush_finished\"") {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        } else if line.contains("\"event\": \"compaction_finished\"") {
            self.compactions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn open(directory: &Path, settings: &Settings) -> Result<Opened> {
    if settings.compressed {
        return Err(
            "RocksDB was built without LZ4: it cannot take part in a compressed comparison".into(),
        );
    }
    let first_level_bytes = settings.write_buffer_bytes * FIRST_LEVEL_BUFFERS;
    let own = OwnOptions::of(CONTESTANT.name, OWN, settings)?;
    let settings = &sized(settings, &own)?;
    let mut told = Told::default();
    told.say("version", env!("LIBROCKSDB_SYS_VERSION"));
    told.say("crate rocksdb", env!("ROCKSDB_CRATE_VERSION"));
    let table = table(settings, &own, &mut told)?;
    let mut options = options(settings, first_level_bytes, &own, &mut told)?;
    options.set_block_based_table_factory(&table);

    let ended = Arc::new(Ended::default());
    let counted = ended.clone();
    options.set_info_logger(InfoLogger::new_callback_logger(
        LogLevel::Info,
        move |_, line| counted.count(line),
    ));
    told.say("info_log", "counted, not written");

    let sync = settings.durability == DurabilityClass::PowerCut;
    let mut write = WriteOptions::default();
    write.set_sync(sync);
    told.say("WriteOptions::sync", sync);
    let counted = statistics(&mut options, &own, &mut told)?;
    let durability = if sync {
        "power cut: write-ahead log synced with each write"
    } else {
        "process crash: write-ahead log written to the operating system, not synced"
    };
    let watch = Watch { ended, counted };
    let store: Box<dyn Store> = if settings.tables.is_empty() {
        let db = DB::open(&options, directory)?;
        Box::new(RocksDb::new(db, Vec::new(), write, watch))
    } else {
        let db = tables::open(directory, options, settings, &mut told)?;
        Box::new(RocksDb::new(db, settings.tables.clone(), write, watch))
    };
    Ok(Opened {
        store,
        durability: durability.into(),
        settings: told.0,
    })
}

impl<D> RocksDb<D> {
    fn new(db: D, tables: Vec<String>, write: WriteOptions, watch: Watch) -> Self {
        RocksDb {
            db,
            tables,
            read: ReadOptions::default(),
            write,
            watch,
        }
    }
}

impl<D: Database> Store for RocksDb<D> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.set(key, value, &self.write)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.remove(key, &self.write)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned_opt(key, &self.read)?;
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
        let mut iterator = self.db.entries();
        match (start, direction) {
            (None, Direction::Forward) => iterator.seek_to_first(),
            (None, Direction::Backward) => iterator.seek_to_last(),
            (Some(start), Direction::Forward) => iterator.seek(start),
            (Some(start), Direction::Backward) => iterator.seek_for_prev(start),
        }
        for visited in 0..limit {
            if visited > 0 {
                match direction {
                    Direction::Forward => iterator.next(),
                    Direction::Backward => iterator.prev(),
                }
            }
            let Some((key, value)) = iterator.item() else {
                break;
            };
            visit(key, value);
        }
        Ok(iterator.status()?)
    }

    fn tables(&self) -> Option<&dyn Tables> {
        D::tables(self)
    }

    fn settle(&self) -> Result<Instant> {
        self.db.flush_and_wait()?;
        Ok(Instant::now())
    }

    /// Its log, and its manifest, of which it allocates 4 MiB at once; what it logs for people is not
    /// written.
    fn is_beside_tables(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        name.ends_with(b".log") || name.starts_with(b"MANIFEST-") || name.starts_with(b"OPTIONS-")
    }

    fn table_bytes_written(&self) -> Option<u64> {
        let options = self.watch.counted.as_ref()?;
        let tickers = [Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        Some(
            tickers
                .map(|ticker| options.get_ticker_count(ticker))
                .iter()
                .sum(),
        )
    }

    fn activity(&self) -> Activity {
        let stopped = self.db.number(IS_WRITE_STOPPED);
        let delayed = self.db.number(ACTUAL_DELAYED_WRITE_RATE);
        Activity {
            flushes: self.watch.ended.flushes.load(Ordering::Relaxed),
            compactions: self.watch.ended.compactions.load(Ordering::Relaxed),
            flushing: self.db.number(NUM_RUNNING_FLUSHES) > Some(0),
            compacting: self.db.number(NUM_RUNNING_COMPACTIONS) > Some(0),
            stalled: stopped
                .zip(delayed)
                .map(|(stopped, delayed)| stopped > 0 || delayed > 0),
        }
    }
}
