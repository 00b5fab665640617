//! One run: a placement under requests for a time, and its traffic by level and by device.

use serde::{Deserialize, Serialize};
use terrace::{LevelStatistics, Purpose, TierStatistics};

use super::setting::Memory;
use super::store::{Counters, Measurement};

/// Findings of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Placement, or size of the data.
    pub case: String,
    /// Memory for reads.
    pub memory: Option<Memory>,
    /// Repeat, counted from 0.
    pub repeat: u32,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests a second.
    pub per_second: f64,
    /// The same before the measurement, on devices that took no time.
    pub instant_per_second: f64,
    /// Mean time of a request.
    pub mean_us: f64,
    /// Median time of a request.
    pub p50_us: f64,
    /// Time that one request of a hundred exceeds.
    pub p99_us: f64,
    /// Bytes of keys and values that requests wrote.
    pub written_bytes: u64,
    /// Bytes that arenas took.
    pub arena_bytes: u64,
    /// Levels from the top, down to the deepest with a table.
    pub levels: Vec<LevelTraffic>,
    /// Devices that hold tables.
    pub devices: Vec<DeviceTraffic>,
}

/// Traffic of a level, in bytes but for the reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelTraffic {
    /// Tables at the end of the run.
    pub stored_bytes: u64,
    /// Reads of requests that reached a device.
    pub reads: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_written_bytes: u64,
}

/// Traffic of tables on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceTraffic {
    /// Name of the device.
    pub name: String,
    /// Tables at the end of the run.
    pub stored_bytes: u64,
    /// Reads of requests.
    pub reads: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_written_bytes: u64,
}

impl DeviceTraffic {
    /// Returns the bytes that flushes and compactions wrote.
    pub fn written_bytes(&self) -> u64 {
        self.flushed_bytes + self.compaction_written_bytes
    }

    /// Returns the traffic without the name.
    pub fn as_level(&self) -> LevelTraffic {
        LevelTraffic {
            stored_bytes: self.stored_bytes,
            reads: self.reads,
            read_bytes: self.read_bytes,
            flushed_bytes: self.flushed_bytes,
            compaction_read_bytes: self.compaction_read_bytes,
            compaction_written_bytes: self.compaction_written_bytes,
        }
    }
}

impl Run {
    /// Reads a run off its measurement.
    pub fn of(case: &str, memory: Memory, repeat: u32, found: &Measurement) -> Run {
        let Measurement {
            driven,
            before,
            after,
            ..
        } = found;
        let latency = &driven.latency;
        let arena = |counters: &Counters| counters.store.io.of(Purpose::Arena).written_bytes;
        Run {
            case: case.into(),
            memory: Some(memory),
            repeat,
            requests: driven.requests,
            per_second: driven.per_second,
            instant_per_second: found.instant_per_second,
            mean_us: latency.mean_us,
            p50_us: latency.p50_us,
            p99_us: latency.p99_us,
            written_bytes: driven.written_bytes,
            arena_bytes: arena(after).saturating_sub(arena(before)),
            levels: levels(before, after),
            devices: devices(before, after),
        }
    }
}

fn levels(before: &Counters, after: &Counters) -> Vec<LevelTraffic> {
    let pairs = before.store.levels.iter().zip(&after.store.levels);
    let mut levels: Vec<LevelTraffic> = pairs.map(|(before, after)| level(before, after)).collect();
    let is_empty = |level: &LevelTraffic| *level == LevelTraffic::default();
    while levels.last().is_some_and(is_empty) {
        levels.pop();
    }
    levels
}

fn level(before: &LevelStatistics, after: &LevelStatistics) -> LevelTraffic {
    let since = |read: fn(&LevelStatistics) -> u64| read(after).saturating_sub(read(before));
    LevelTraffic {
        stored_bytes: after.bytes,
        reads: since(|level| level.reads),
        read_bytes: since(|level| level.read_bytes),
        flushed_bytes: since(|level| level.flushed_bytes),
        compaction_read_bytes: since(|level| level.compaction_read_bytes),
        compaction_written_bytes: since(|level| level.compaction_written_bytes),
    }
}

fn devices(before: &Counters, after: &Counters) -> Vec<DeviceTraffic> {
    let device = |now: &TierStatistics| {
        let mut tiers = before.tiers.iter();
        let then = tiers.find(|tier| tier.number == now.number)?;
        let io = now.io.since(&then.io);
        let compaction = io.of(Purpose::Compaction);
        Some(DeviceTraffic {
            name: now.name.clone(),
            stored_bytes: now.level_bytes.iter().sum(),
            reads: io.of(Purpose::Read).reads,
            read_bytes: io.of(Purpose::Read).read_bytes,
            flushed_bytes: io.of(Purpose::Flush).written_bytes,
            compaction_read_bytes: compaction.read_bytes,
            compaction_written_bytes: compaction.written_bytes,
        })
    };
    let devices = after.tiers.iter().filter_map(device);
    devices.filter(|device| device.stored_bytes > 0).collect()
}
