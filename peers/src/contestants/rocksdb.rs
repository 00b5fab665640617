//! RocksDB, told what the page "Setup Options and Basic Tuning" of its wiki advises.

mod style;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rocksdb::properties::{
    ACTUAL_DELAYED_WRITE_RATE, IS_WRITE_STOPPED, NUM_RUNNING_COMPACTIONS, NUM_RUNNING_FLUSHES,
};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, InfoLogger, LogLevel, Options, ReadOptions,
    WaitForCompactOptions, WriteOptions,
};
use terrace_bench::Result;
use terrace_bench::settings::{DurabilityClass, Settings};
use terrace_bench::store::{Activity, Contestant, Direction, Opened, Store};

use self::style::Style;
use super::Told;
use super::options::{Accepted, OwnOptions};

/// RocksDB.
pub const CONTESTANT: Contestant = Contestant {
    name: "rocksdb",
    about: "LSM tree in C++, with a write-ahead log",
    open,
};

const OWN: &[Accepted] = &[
    (
        "pipelined_write",
        "true or false: log and memtable are written one behind the other; true",
    ),
    ("bytes_per_sync", "tables are written back by this; 1 MiB"),
    (
        "wal_bytes_per_sync",
        "the log is written back by this; 0: when the kernel does",
    ),
    (
        "lru_cache",
        "true or false: LRUCache in place of HyperClockCache; false",
    ),
    (
        "cache_index_and_filter_blocks",
        "true or false: within the block cache's memory; true",
    ),
    (
        "block_cache_bytes",
        "its cache of blocks; as large as all are told",
    ),
    (
        "row_cache_bytes",
        "a cache of rows beside that of blocks; 0, none, as by default",
    ),
    (
        "write_buffer_size",
        "a memtable, of which the first level holds as many as make max_bytes_for_level_base; as large as all are told",
    ),
    (
        "max_bytes_for_level_base",
        "bytes of the first sorted level; four write buffers, as large as the level above",
    ),
    (
        "level0_file_num_compaction_trigger",
        "tables of the first level that start a compaction; 4",
    ),
    (
        "compaction_style",
        "level or universal; level, as by default",
    ),
    (
        "statistics",
        "true or false: tickers, among them what flushes and compactions write; false",
    ),
];

/// Flushes leave so much in the first level before it is merged, by default.
const FIRST_LEVEL_BUFFERS: u64 = 4;

struct RocksDb {
    db: DB,
    /// Made once: `get_pinned` makes and frees one for each read.
    read: ReadOptions,
    write: WriteOptions,
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
    Ok(Opened {
        store: Box::new(RocksDb {
            db: DB::open(&options, directory)?,
            read: ReadOptions::default(),
            write,
            ended,
            counted,
        }),
        durability: durability.into(),
        settings: told.0,
    })
}

/// Where it reads past a page cache that is bounded, its cache has that one's share, too. Its own options
/// come before all that.
fn sized(settings: &Settings, own: &OwnOptions) -> Result<Settings> {
    let (cache_bytes, write_buffer_bytes) = if settings.bound_bytes.is_some() && settings.direct_io
    {
        (
            settings.direct_cache_bytes,
            settings.direct_write_buffer_bytes,
        )
    } else {
        (settings.cache_bytes, settings.write_buffer_bytes)
    };
    Ok(Settings {
        cache_bytes: own.or("block_cache_bytes", cache_bytes)?,
        write_buffer_bytes: own.or("write_buffer_size", write_buffer_bytes)?,
        ..settings.clone()
    })
}

fn table(settings: &Settings, own: &OwnOptions, told: &mut Told) -> Result<BlockBasedOptions> {
    let cache_bytes = usize::try_from(settings.cache_bytes)?;
    let (cache, cache_name) = if own.or("lru_cache", false)? {
        (Cache::new_lru_cache(cache_bytes), "LRUCache")
    } else {
        (
            Cache::new_hyper_clock_cache(cache_bytes, 0),
            "HyperClockCache",
        )
    };
    let cache_index = own.or("cache_index_and_filter_blocks", true)?;
    let bits = settings.filter_bits_per_key;
    told.say("block_cache", format!("{cache_name}, {cache_bytes}"));
    told.say("block_size", settings.block_bytes);
    told.say("filter_policy", format!("bloom, {bits} bits a key"));
    told.say("whole_key_filtering", true);
    told.say("cache_index_and_filter_blocks", cache_index);
    told.say("pin_l0_filter_and_index_blocks_in_cache", cache_index);

    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&cache);
    table.set_block_size(settings.block_bytes as usize);
    table.set_bloom_filter(f64::from(bits), false);
    table.set_whole_key_filtering(true);
    table.set_cache_index_and_filter_blocks(cache_index);
    table.set_pin_l0_filter_and_index_blocks_in_cache(cache_index);
    Ok(table)
}

fn options(
    settings: &Settings,
    first_level_bytes: u64,
    own: &OwnOptions,
    told: &mut Told,
) -> Result<Options> {
    let bytes_per_sync = own.or("bytes_per_sync", 1 << 20)?;
    let wal_bytes_per_sync = own.or("wal_bytes_per_sync", 0)?;
    let pipelined_write = own.or("pipelined_write", true)?;
    // With the default buffer of 64 MiB these are RocksDB's defaults; its tuning guide wants the
    // first two levels equally large. Smaller buffers for the sake of the cache leave the levels alone.
    let tables = i32::try_from(first_level_bytes / settings.write_buffer_bytes.max(1))?;
    let trigger = own.or("level0_file_num_compaction_trigger", tables)?;
    let level_base = own.or("max_bytes_for_level_base", first_level_bytes)?;
    let table_bytes = level_base / 4;
    let row_cache_bytes = own.or("row_cache_bytes", 0)?;
    told.say("row_cache", row_cache_bytes);
    told.say("write_buffer_size", settings.write_buffer_bytes);
    told.say("max_write_buffer_number", settings.write_buffers);
    told.say("max_background_jobs", settings.background_threads);
    told.say("level0_file_num_compaction_trigger", trigger);
    told.say("max_bytes_for_level_base", level_base);
    told.say("target_file_size_base", table_bytes);
    told.say("level_compaction_dynamic_level_bytes", true);
    let style: Style = own.or("compaction_style", Style::Level)?;
    told.say("compaction_style", format!("{style:?}").to_lowercase());
    told.say("compression", "none");
    told.say("bytes_per_sync", bytes_per_sync);
    told.say("wal_bytes_per_sync", wal_bytes_per_sync);
    told.say("enable_pipelined_write", pipelined_write);
    told.say("use_direct_reads", settings.direct_io);
    told.say("use_direct_io_for_flush_and_compaction", settings.direct_io);

    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(usize::try_from(settings.write_buffer_bytes)?);
    options.set_max_write_buffer_number(i32::try_from(settings.write_buffers)?);
    options.set_max_background_jobs(i32::try_from(settings.background_threads)?);
    options.set_level_zero_file_num_compaction_trigger(trigger);
    options.set_max_bytes_for_level_base(level_base);
    options.set_target_file_size_base(table_bytes);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_compaction_style(style.into());
    options.set_compression_type(DBCompressionType::None);
    options.set_bytes_per_sync(bytes_per_sync);
    options.set_wal_bytes_per_sync(wal_bytes_per_sync);
    options.set_enable_pipelined_write(pipelined_write);
    options.set_use_direct_reads(settings.direct_io);
    options.set_use_direct_io_for_flush_and_compaction(settings.direct_io);
    if row_cache_bytes > 0 {
        options.set_row_cache(&Cache::new_lru_cache(row_cache_bytes));
    }
    Ok(options)
}

/// Tickers without histograms and timers, where they are asked for; the options then have them.
fn statistics(options: &mut Options, own: &OwnOptions, told: &mut Told) -> Result<Option<Options>> {
    let counts = own.or("statistics", false)?;
    told.say("statistics", counts);
    if !counts {
        return Ok(None);
    }
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    Ok(Some(options.clone()))
}

impl RocksDb {
    fn number(&self, property: &rocksdb::properties::PropName) -> Option<u64> {
        self.db.property_int_value(property).ok().flatten()
    }
}

impl Store for RocksDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete_opt(key, &self.write)?)
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
        let mut iterator = self.db.raw_iterator();
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

    fn settle(&self) -> Result<Instant> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.wait_for_compact(&options)?;
        Ok(Instant::now())
    }

    /// Its log, and its manifest, of which it allocates 4 MiB at once; what it logs for people is not
    /// written.
    fn is_beside_tables(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        name.ends_with(b".log") || name.starts_with(b"MANIFEST-") || name.starts_with(b"OPTIONS-")
    }

    fn table_bytes_written(&self) -> Option<u64> {
        let options = self.counted.as_ref()?;
        let tickers = [Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        Some(
            tickers
                .map(|ticker| options.get_ticker_count(ticker))
                .iter()
                .sum(),
        )
    }

    fn activity(&self) -> Activity {
        let stopped = self.number(IS_WRITE_STOPPED);
        let delayed = self.number(ACTUAL_DELAYED_WRITE_RATE);
        Activity {
            flushes: self.ended.flushes.load(Ordering::Relaxed),
            compactions: self.ended.compactions.load(Ordering::Relaxed),
            flushing: self.number(NUM_RUNNING_FLUSHES) > Some(0),
            compacting: self.number(NUM_RUNNING_COMPACTIONS) > Some(0),
            stalled: stopped
                .zip(delayed)
                .map(|(stopped, delayed)| stopped > 0 || delayed > 0),
        }
    }
}
