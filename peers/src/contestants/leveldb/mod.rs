//! LevelDB: the LSM tree from which others descend, as the system packages it.

mod database;
mod ffi;
mod iterator;
mod shape;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use terrace_bench::Result;
use terrace_bench::settings::{DurabilityClass, Settings};
use terrace_bench::store::{Activity, Contestant, Direction, Opened, Store};

use self::database::{Configuration, Database};
use self::shape::Shape;
use super::options::{Accepted, OwnOptions};
use super::{Told, settling};

/// LevelDB.
pub const CONTESTANT: Contestant = Contestant {
    name: "leveldb",
    about: "LSM tree in C++ with a log, one background thread",
    open,
};

const OWN: &[Accepted] = &[
    (
        "write_buffer_bytes",
        "bytes of each of its two write buffers; as told to all",
    ),
    ("max_file_bytes", "bytes of a table; 2 MiB"),
    (
        "max_open_files",
        "tables kept open; enough for twice the data expected",
    ),
];

/// LevelDB's default.
const LEAST_OPEN_FILES: u64 = 1_000;
const MOST_OPEN_FILES: u64 = 50_000;
/// Greater than any key of a workload: a range here overlaps no table.
const BEYOND_ALL_KEYS: [u8; 64] = [0xff; 64];
/// Work that is due and makes no progress for this long is not going to be done: a compaction of
/// LevelDB takes a few tens of megabytes at a time.
const STUCK: Duration = Duration::from_secs(120);

struct LevelDb {
    database: Database,
    seen: Mutex<Seen>,
}

/// What was seen ten times a second: several flushes or compactions in between count as one.
#[derive(Default)]
struct Seen {
    written: (u64, u64),
    flushes: u64,
    compactions: u64,
}

fn open(directory: &Path, settings: &Settings) -> Result<Opened> {
    let own = OwnOptions::of(CONTESTANT.name, OWN, settings)?;
    let write_buffer_bytes: u64 = own.or("write_buffer_bytes", settings.write_buffer_bytes)?;
    let max_file_bytes: u64 = own.or("max_file_bytes", 2 << 20)?;
    let enough_files = settings.expected_data_bytes / max_file_bytes.max(1) * 2;
    let configuration = Configuration {
        cache_bytes: usize::try_from(settings.cache_bytes)?,
        write_buffer_bytes: usize::try_from(write_buffer_bytes)?,
        block_bytes: settings.block_bytes as usize,
        max_file_bytes: usize::try_from(max_file_bytes)?,
        max_open_files: own.or(
            "max_open_files",
            i32::try_from(enough_files.clamp(LEAST_OPEN_FILES, MOST_OPEN_FILES))?,
        )?,
        filter_bits_per_key: i32::try_from(settings.filter_bits_per_key)?,
        snappy: settings.compressed,
        sync: settings.durability == DurabilityClass::PowerCut,
    };
    std::fs::create_dir_all(directory)?;
    let database = Database::open(directory, &configuration)?;
    let durability = if configuration.sync {
        "power cut: log synced with each write"
    } else {
        "process crash: log written to the operating system, not synced"
    };
    Ok(Opened {
        store: Box::new(LevelDb {
            database,
            seen: Mutex::default(),
        }),
        durability: durability.into(),
        settings: told(&configuration),
    })
}

fn told(configuration: &Configuration) -> Vec<(String, String)> {
    let mut told = Told::default();
    told.say("version", Database::version());
    told.say("block_cache", format!("LRU, {}", configuration.cache_bytes));
    told.say("write_buffer_size", configuration.write_buffer_bytes);
    told.say("write buffers", "2, not to be set");
    told.say("background threads", "1, not to be set");
    told.say("block_size", configuration.block_bytes);
    told.say("max_file_size", configuration.max_file_bytes);
    told.say("max_open_files", configuration.max_open_files);
    let bits = configuration.filter_bits_per_key;
    told.say("filter_policy", format!("bloom, {bits} bits a key"));
    let compression = if configuration.snappy {
        "snappy on all levels: LZ4 is not available"
    } else {
        "none"
    };
    told.say("compression", compression);
    told.say("sync", configuration.sync);
    told.no_direct_io();
    told.0
}

impl LevelDb {
    fn first_level_files(&self) -> Option<u64> {
        let files = self.database.property(c"leveldb.num-files-at-level0")?;
        files.trim().parse().ok()
    }

    fn property(&self, name: &std::ffi::CStr) -> Result<String> {
        let value = self.database.property(name);
        value.ok_or_else(|| format!("LevelDB has no property {name:?}").into())
    }
}

/// Whether a compaction is due, as last asked. The answer lists every table while LevelDB's lock is
/// held, so it is asked for no more than a twentieth of the time.
#[derive(Default)]
struct Due {
    answer: Option<Answer>,
}

struct Answer {
    shape: Shape,
    shape_since: Instant,
    next: Instant,
}

impl Due {
    const SHARE: u32 = 20;

    fn ask(&mut self, tables: impl FnOnce() -> Result<String>) -> Result<bool> {
        let begun = Instant::now();
        if let Some(answer) = &self.answer
            && begun < answer.next
        {
            return Ok(answer.shape.compaction_is_due());
        }
        let shape = Shape::parse(&tables()?);
        let shape_since = match &self.answer {
            Some(last) if last.shape == shape => last.shape_since,
            _ => begun,
        };
        let is_due = shape.compaction_is_due();
        if is_due && shape_since.elapsed() > STUCK {
            return Err("LevelDB: a compaction is due, but makes no progress".into());
        }
        self.answer = Some(Answer {
            shape,
            shape_since,
            next: Instant::now() + begun.elapsed() * Self::SHARE,
        });
        Ok(is_due)
    }
}

impl Store for LevelDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.database.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.database.delete(key)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.database.get(key, read)
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut iterator = self.database.iterator()?;
        match (start, direction) {
            (None, Direction::Forward) => iterator.seek_to_first(),
            (None, Direction::Backward) => iterator.seek_to_last(),
            (Some(start), Direction::Forward) => iterator.seek(start),
            (Some(start), Direction::Backward) => iterator.seek_for_previous(start),
        }
        for visited in 0..limit {
            if visited > 0 {
                match direction {
                    Direction::Forward => iterator.next(),
                    Direction::Backward => iterator.previous(),
                }
            }
            let Some((key, value)) = iterator.item() else {
                break;
            };
            visit(key, value);
        }
        iterator.status()
    }

    fn settle(&self) -> Result<Instant> {
        // The range is empty: nothing is merged, but the memtable is written out.
        self.database
            .compact_range(&BEYOND_ALL_KEYS, &BEYOND_ALL_KEYS);
        let mut due = Due::default();
        settling::wait(
            || self.property(c"leveldb.stats"),
            || due.ask(|| self.property(c"leveldb.sstables")),
        )
    }

    /// Its log, its manifest, and what it writes for people.
    fn is_beside_tables(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        let beside: [&[u8]; 2] = [b"MANIFEST-", b"LOG"];
        name.ends_with(b".log") || beside.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Its count is in whole MiB for each level.
    fn table_bytes_written(&self) -> Option<u64> {
        let stats = self.database.property(c"leveldb.stats")?;
        let (first, others) = shape::written(&stats);
        Some((first + others) << 20)
    }

    fn activity(&self) -> Activity {
        let stats = self.database.property(c"leveldb.stats").unwrap_or_default();
        let written = shape::written(&stats);
        let first_level_files = self.first_level_files();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.flushes += u64::from(written.0 != seen.written.0);
        seen.compactions += u64::from(written.1 != seen.written.1);
        seen.written = written;
        Activity {
            flushes: seen.flushes,
            compactions: seen.compactions,
            flushing: false,
            // One is due then, and its only thread is never idle while one is.
            compacting: first_level_files >= Some(shape::FIRST_LEVEL_TRIGGER),
            stalled: first_level_files.map(|files| files >= shape::FIRST_LEVEL_SLOWDOWN),
        }
    }
}
