//! The paper's setting at a scale, and our choices where it is silent.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use terrace::{Compression, KeyspaceOptions, Options, TierOptions};

use super::devices::{Device, Devices};
use super::paper;
use crate::Result;
use crate::reproduce::arguments::Tiers;
use crate::told::mib;
use crate::workload::Dataset;
use crate::workload::graph;

/// RocksDB's write buffer and table of that time.
const BUFFER_BYTES: f64 = (64 << 20) as f64;
const MIN_BUFFER_BYTES: u64 = 64 << 10;
const BUFFER_STEP_BYTES: u64 = 4 << 10;
const MIN_TABLE_BYTES: u64 = 8 << 10;
const MAX_ARENAS: usize = 3;
/// Bytes of data for each byte of memory in the bounded regime.
const BOUNDED_PART: u64 = 8;
const MIN_CACHE_BYTES: u64 = 128 << 10;
/// Parts of level 1 with which 42 GB have a fifth level: targets of levels count from below.
const FIFTH_LEVEL_PART: u64 = 4;
/// Nodes for each request before the measurement.
const WARM_UP_PART: u64 = 8;
const TINY_SCALE: f64 = 0.00006;
const TINY_SECONDS: f64 = 0.1;
const FULL_SECONDS: f64 = 600.0;

/// Memory for reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// All data fit.
    Fits,
    /// An eighth of the data.
    Bounded,
}

impl Memory {
    /// Both of them.
    pub const ALL: [Memory; 2] = [Memory::Fits, Memory::Bounded];

    /// Returns its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Memory::Fits => "all data fit in memory",
            Memory::Bounded => "memory for an eighth of the data",
        }
    }
}

/// Settings of all runs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Share of the paper's bytes.
    pub scale: f64,
    /// Time of a measurement.
    pub time: Duration,
    /// Runs of each placement.
    pub repeats: u32,
    /// Clients, each with one request at a time.
    pub clients: u32,
    /// Seed of graphs and requests.
    pub seed: u64,
    /// Place of the devices' files.
    pub directory: PathBuf,
    /// Everything as small as it can be.
    pub is_tiny: bool,
}

impl Setting {
    /// Returns the setting that was asked for.
    ///
    /// # Errors
    /// Numbers that make no sense.
    pub fn of(asked: &Tiers) -> Result<Self> {
        if !asked.scale.is_finite() || asked.scale <= 0.0 || asked.scale > 1.0 {
            return Err("--scale must be above 0 and at most 1".into());
        }
        let is_time = |seconds: f64| seconds.is_finite() && seconds > 0.0 && seconds < 1e6;
        if !is_time(asked.seconds) {
            return Err("--seconds must be above 0".into());
        }
        if asked.repeats == 0 {
            return Err("there must be at least one repeat".into());
        }
        if asked.clients == 0 {
            return Err("there must be at least one client".into());
        }
        let (scale, seconds) = match (asked.tiny, asked.full) {
            (true, _) => (TINY_SCALE, TINY_SECONDS),
            (_, true) => (1.0, FULL_SECONDS),
            _ => (asked.scale, asked.seconds),
        };
        Ok(Setting {
            scale,
            time: Duration::from_secs_f64(seconds),
            repeats: if asked.tiny { 1 } else { asked.repeats },
            clients: asked.clients,
            seed: asked.seed,
            directory: asked.directory.clone(),
            is_tiny: asked.tiny,
        })
    }

    /// Returns the bytes that stand for gigabytes of the paper's.
    pub fn bytes(&self, paper_gb: f64) -> u64 {
        (paper_gb * 1e9 * self.scale) as u64
    }

    /// Returns the nodes of a graph with as many bytes as gigabytes of the paper's stand for.
    pub fn nodes(&self, paper_gb: f64) -> u64 {
        let node_bytes = u64::from(crate::linkbench::rows::MEAN_NODE_BYTES);
        (self.bytes(paper_gb) / node_bytes).max(100)
    }

    /// Returns the records of a graph.
    pub fn dataset(&self, paper_gb: f64) -> Dataset {
        graph::dataset(self.nodes(paper_gb))
    }

    /// Returns the requests of each client before the measurement.
    pub fn warm_up(&self, paper_gb: f64) -> u64 {
        (self.nodes(paper_gb) / WARM_UP_PART / u64::from(self.clients)).max(1)
    }

    /// Returns the bytes of level 1, which with `has_fifth_level` are so few that 42 GB take five levels.
    pub fn level1_bytes(&self, has_fifth_level: bool) -> u64 {
        let level1_bytes = (paper::LEVEL1_BYTES as f64 * self.scale) as u64;
        match has_fifth_level {
            true => level1_bytes / FIFTH_LEVEL_PART,
            false => level1_bytes,
        }
    }

    fn table_bytes(&self) -> u64 {
        ((BUFFER_BYTES * self.scale) as u64).max(MIN_TABLE_BYTES)
    }

    fn buffer_bytes(&self) -> u64 {
        let bytes = (BUFFER_BYTES * self.scale) as u64;
        (bytes / BUFFER_STEP_BYTES * BUFFER_STEP_BYTES).max(MIN_BUFFER_BYTES)
    }

    /// Returns the memory for blocks and records.
    pub fn cache_bytes(&self, memory: Memory, paper_gb: f64) -> u64 {
        match memory {
            // Blocks of tables that a compaction is about to replace take their place, too.
            Memory::Fits => self.bytes(paper_gb) * 4,
            Memory::Bounded => (self.bytes(paper_gb) / BOUNDED_PART).max(MIN_CACHE_BYTES),
        }
    }

    /// Returns the form of the tree.
    pub fn keyspace(&self, has_fifth_level: bool, levels: &[Device]) -> KeyspaceOptions {
        KeyspaceOptions {
            compression: vec![Compression::None],
            table_bytes: self.table_bytes(),
            level1_bytes: self.level1_bytes(has_fifth_level),
            level_ratio: paper::LEVEL_RATIO,
            level_tiers: levels.iter().map(|device| device.name().into()).collect(),
            ..KeyspaceOptions::default()
        }
    }

    /// Returns the options of the store. A store of the sweep has NVMe flash of a bounded capacity.
    pub fn options(&self, devices: &Devices, cache_bytes: u64, is_sweep: bool) -> Options {
        let tier = |device: Device| {
            let capacity_gb = match device {
                Device::Nvme if is_sweep => Some(paper::SWEEP_NVME_GB),
                Device::Ssd if is_sweep => Some(paper::SWEEP_SSD_GB),
                _ => None,
            };
            TierOptions {
                name: device.name().into(),
                // The store's own directory is on NVMe flash.
                directory: (device != Device::Nvme).then(|| devices.tables(device)),
                capacity_bytes: capacity_gb.map(|gb| self.bytes(gb)),
                // For tables that are larger than expected: a flush does not fail for them.
                reserve_bytes: capacity_gb.map_or(0, |_| 2 * self.table_bytes()),
                profile: Some(device.profile()),
                cache_bytes: 0,
            }
        };
        Options {
            arena_bytes: self.buffer_bytes(),
            max_arenas: MAX_ARENAS,
            cache_bytes,
            compaction_threads: 1,
            region_dir: Some(devices.log()),
            tiers: Device::ALL.map(tier).into(),
            storage: devices.storage(),
            ..Options::default()
        }
    }

    /// Returns the conditions that a reader must know.
    pub fn conditions(&self) -> Vec<(String, String)> {
        let kib = |bytes: u64| format!("{} KiB", bytes >> 10);
        let bounded = self.cache_bytes(Memory::Bounded, paper::PLACED_GB);
        [
            (
                "devices",
                "emulated: WD10EZEX, 850 PRO and 960 PRO by their data sheets; files in memory, no page cache. \
                 Loads, moves and warm-ups take no device time"
                    .into(),
            ),
            (
                "scale",
                format!(
                    "{:.5}: 42 GB are {}; level 1, tables, write buffers and memory scale along, latencies \
                     do not",
                    self.scale,
                    mib(self.bytes(paper::PLACED_GB))
                ),
            ),
            (
                "tree",
                format!(
                    "leveled, level 1 of {}, ratio {}; targets count from below; tables of {}; one tree of \
                     LinkBench's four tables",
                    kib(self.level1_bytes(false)),
                    paper::LEVEL_RATIO,
                    kib(self.table_bytes())
                ),
            ),
            (
                "new writes",
                format!(
                    "arenas of {} on an 850 PRO of their own, not synced; the manifest on the 960 PRO",
                    kib(self.buffer_bytes())
                ),
            ),
            (
                "memory for reads",
                format!(
                    "four times the data, and read once before; or an eighth of the data ({} KiB at 42 GB)",
                    bounded >> 10
                ),
            ),
            (
                "runs",
                format!(
                    "each of {} s by {} clients from a copy of the same loaded store, whose tables move to \
                     their tiers before; repeats: {}, each in another order and with other requests",
                    self.time.as_secs_f64(),
                    self.clients,
                    self.repeats
                ),
            ),
            ("seed", self.seed.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    #[cfg(test)]
    pub fn tiny_for_tests(directory: &std::path::Path) -> Setting {
        Setting {
            scale: TINY_SCALE,
            time: Duration::from_millis(50),
            repeats: 1,
            clients: 2,
            seed: 3,
            directory: directory.to_owned(),
            is_tiny: true,
        }
    }
}
