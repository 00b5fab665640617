//! What RocksDB is told: the settings of all stores, its wiki's advice, and its own options.

use rocksdb::statistics::StatsLevel;
use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, Options};
use terrace_bench::Result;
use terrace_bench::settings::Settings;

use super::style::Style;
use crate::contestants::Told;
use crate::contestants::options::{Accepted, OwnOptions};

/// Its own options.
pub const OWN: &[Accepted] = &[
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
pub const FIRST_LEVEL_BUFFERS: u64 = 4;

/// Where it reads past a page cache that is bounded, its cache has that one's share, too. Its own options
/// come before all that.
pub fn sized(settings: &Settings, own: &OwnOptions) -> Result<Settings> {
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

pub fn table(settings: &Settings, own: &OwnOptions, told: &mut Told) -> Result<BlockBasedOptions> {
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

pub fn options(
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
pub fn statistics(
    options: &mut Options,
    own: &OwnOptions,
    told: &mut Told,
) -> Result<Option<Options>> {
    let counts = own.or("statistics", false)?;
    told.say("statistics", counts);
    if !counts {
        return Ok(None);
    }
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    Ok(Some(options.clone()))
}
