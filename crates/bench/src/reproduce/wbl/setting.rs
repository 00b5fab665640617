//! The thesis' setting at a scale, and the choices that it leaves open.

use std::path::PathBuf;

use super::paper;
use crate::Result;
use crate::keys::KeyForm;
use crate::reproduce::arguments::Wbl;
use crate::reproduce::region_model::RegionModel;
use crate::settings::Settings;
use crate::told::mib;
use crate::values::Sizes;
use crate::workload::Dataset;

/// Fewer take no time that could be measured.
const LEAST_OPERATIONS: u64 = 100_000;
/// Fewer fill no MemTable.
const LEAST_RECORDS: u64 = 50_000;
/// Records and operations of `--tiny`.
const TINY: u64 = 3000;
const TINY_MEMTABLE_BYTES: u64 = 1 << 20;
/// The least with which a store caches anything.
const LEAST_CACHE_BYTES: u64 = 1 << 20;
/// Least number of MemTables filled against NoveLSM's policy, so that they stall.
const LEAST_MEMTABLES: u64 = 16;

/// Of a phase's operations, run before it is measured: a load leaves caches in a state that users
/// never find.
pub const WARM_UP: f64 = 0.25;

/// Settings that all figures share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Loaded.
    pub records: u64,
    /// Operations of each workload.
    pub operations: u64,
    /// Bytes of one MemTable.
    pub memtable_bytes: u64,
    /// Client threads.
    pub clients: u32,
    /// Runs of each store.
    pub repeats: u32,
    /// Seed from which streams are made.
    pub seed: u64,
    /// Where stores are made.
    pub directory: PathBuf,
    /// Stands in for persistent memory.
    pub model: Option<RegionModel>,
    /// Everything as small as it can be.
    pub tiny: bool,
}

impl Setting {
    /// As it was asked for.
    ///
    /// # Errors
    /// Numbers that make no sense.
    pub fn of(asked: &Wbl) -> Result<Self> {
        if !asked.scale.is_finite() || asked.scale <= 0.0 || asked.scale > 1.0 {
            return Err("--scale must be above 0 and at most 1".into());
        }
        if asked.clients == 0 || asked.repeats == 0 {
            return Err("there must be at least one client and one repeat".into());
        }
        let scaled = |full: u64, least: u64| match asked.tiny {
            true => TINY,
            false => ((full as f64 * asked.scale) as u64).max(least),
        };
        Ok(Setting {
            records: scaled(paper::RECORDS, LEAST_RECORDS),
            operations: scaled(paper::OPERATIONS, LEAST_OPERATIONS),
            memtable_bytes: match asked.tiny {
                true => TINY_MEMTABLE_BYTES,
                false => paper::MEMTABLE_BYTES,
            },
            clients: asked.clients,
            repeats: if asked.tiny { 1 } else { asked.repeats },
            seed: asked.seed,
            directory: asked.directory.clone(),
            model: asked.region_model,
            tiny: asked.tiny,
        })
    }

    /// Returns the records of figure 4.5. The thesis' LevelDB variant wrote 1 to 10 GB; this is 4
    /// GB at full scale.
    pub fn records_against_novelsm(&self) -> u64 {
        match self.tiny {
            true => self.records,
            false => (self.records / 10).max(LEAST_MEMTABLES * self.memtable_bytes / 1024),
        }
    }

    /// Returns the records.
    pub fn dataset(&self) -> Dataset {
        Dataset {
            records: self.records,
            key_form: KeyForm::Ycsb,
            sizes: Sizes::YCSB,
            compression_ratio: 1.0,
        }
    }

    /// Returns the settings of all stores.
    pub fn settings(&self) -> Settings {
        let data_bytes = self.dataset().expected_bytes();
        Settings {
            cache_bytes: (data_bytes / 4).max(LEAST_CACHE_BYTES),
            write_buffer_bytes: self.memtable_bytes,
            write_buffers: paper::MEMTABLES,
            expected_data_bytes: data_bytes,
            ..Settings::default()
        }
    }

    /// Returns the conditions that a reader must know.
    pub fn conditions(&self, asked: &Wbl) -> Vec<(String, String)> {
        let settings = self.settings();
        let scale = match self.tiny {
            true => "--tiny".into(),
            false => format!("{} asked", asked.scale),
        };
        let full = self.records as f64 / paper::RECORDS as f64;
        [
            ("scale", format!("{scale}, {full:.5} of the records")),
            (
                "data",
                format!(
                    "{} records of 1 KB, {}; in figure 4.5 {} records",
                    self.records,
                    mib(settings.expected_data_bytes),
                    self.records_against_novelsm()
                ),
            ),
            (
                "operations of a workload",
                format!(
                    "{}; without --tiny at least {LEAST_OPERATIONS}, to take a time that tells",
                    self.operations
                ),
            ),
            (
                "warm-up",
                format!(
                    "{:.0} % of a workload's operations in figures 4.2 and 4.3, loads none; elsewhere none",
                    WARM_UP * 100.0
                ),
            ),
            (
                "MemTables",
                format!("{} x {}", paper::MEMTABLES, mib(self.memtable_bytes)),
            ),
            (
                "memory for reads",
                format!(
                    "{}: a quarter of the data, at least {}; the same in figure 4.5; the thesis names none",
                    mib(settings.cache_bytes),
                    mib(LEAST_CACHE_BYTES)
                ),
            ),
            ("clients", self.clients.to_string()),
            (
                "repeats",
                format!(
                    "{} in figures 4.2, 4.3 and 4.5 and for stalls, elsewhere one run",
                    self.repeats
                ),
            ),
            ("updates", "write the whole value".into()),
            (
                "durability",
                "an acknowledged write survives the death of the process, in all stores".into(),
            ),
            ("seed", self.seed.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }
}
