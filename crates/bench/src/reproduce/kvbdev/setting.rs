//! The paper's setting at a scale, and our choices where it is silent.

use std::path::PathBuf;

use super::paper;
use crate::Result;
use crate::keys::KeyForm;
use crate::reproduce::arguments::Kvbdev;
use crate::settings::{DurabilityClass, Settings};
use crate::told::mib;
use crate::values::Sizes;
use crate::workload::Dataset;

/// Fewer take no time that could be measured.
const LEAST_PAIRS: u64 = 1500;
/// Pairs of `--tiny`.
const TINY_PAIRS: u64 = 300;
const TINY_BUFFER_BYTES: u64 = 1 << 20;
/// Small values for each pair.
const SMALL_FOR_EACH: u64 = 4;
/// Keys in the index whose memory is measured, for each pair.
const INDEXED_FOR_EACH: u64 = 30;
/// RocksDB's default.
const BUFFERS: u32 = 2;
/// The part of the data that memory for reads holds: few reads are to be answered from memory.
const CACHE_PART: u64 = 16;
const LEAST_CACHE_BYTES: u64 = 4 << 20;

/// Bytes of a small value.
pub const SMALL_BYTES: u32 = 100;

/// The settings that all figures share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Share of the paper's pairs.
    pub scale: f64,
    /// Pairs that all clients write together.
    pub pairs: u64,
    /// Bytes of a write buffer.
    pub buffer_bytes: u64,
    /// Runs of each system.
    pub repeats: u32,
    /// Seed from which streams are made.
    pub seed: u64,
    /// Where stores are made.
    pub directory: PathBuf,
    /// Everything as small as it can be.
    pub tiny: bool,
}

impl Setting {
    /// As it was asked for.
    ///
    /// # Errors
    /// Numbers that make no sense.
    pub fn of(asked: &Kvbdev) -> Result<Self> {
        if !asked.scale.is_finite() || asked.scale <= 0.0 || asked.scale > 1.0 {
            return Err("--scale must be above 0 and at most 1".into());
        }
        if asked.repeats == 0 {
            return Err("there must be at least one repeat".into());
        }
        let all = paper::PAIRS_EACH * u64::from(paper::CLIENTS);
        let pairs = match asked.tiny {
            true => TINY_PAIRS,
            false => ((all as f64 * asked.scale) as u64).max(LEAST_PAIRS),
        };
        Ok(Setting {
            scale: pairs as f64 / all as f64,
            pairs,
            buffer_bytes: match asked.tiny {
                true => TINY_BUFFER_BYTES,
                false => paper::BUFFER_BYTES,
            },
            repeats: if asked.tiny { 1 } else { asked.repeats },
            seed: asked.seed,
            directory: asked.directory.clone(),
            tiny: asked.tiny,
        })
    }

    /// Returns the paper's pairs: keys of 4 bytes, values of 32 KB, half of which db_bench makes
    /// compressible.
    pub fn dataset(&self) -> Dataset {
        Dataset {
            records: self.pairs,
            key_form: KeyForm::FOUR_BYTES,
            sizes: Sizes::Fixed {
                bytes: paper::VALUE_BYTES,
            },
            compression_ratio: 0.5,
        }
    }

    /// Pairs with small values.
    pub fn small_dataset(&self) -> Dataset {
        Dataset {
            records: self.pairs * SMALL_FOR_EACH,
            sizes: Sizes::Fixed { bytes: SMALL_BYTES },
            ..self.dataset()
        }
    }

    /// Pairs of the index whose memory is measured.
    pub fn indexed_dataset(&self) -> Dataset {
        Dataset {
            records: self.pairs * INDEXED_FOR_EACH,
            ..self.small_dataset()
        }
    }

    /// Returns the settings of all systems.
    pub fn settings(&self, durability: DurabilityClass, dataset: &Dataset) -> Settings {
        let cache_bytes = (dataset.expected_bytes() / CACHE_PART).max(LEAST_CACHE_BYTES);
        Settings {
            durability,
            cache_bytes,
            direct_cache_bytes: cache_bytes,
            write_buffer_bytes: self.buffer_bytes,
            direct_write_buffer_bytes: self.buffer_bytes,
            write_buffers: BUFFERS,
            direct_io: true,
            expected_data_bytes: dataset.expected_bytes(),
            expected_records: dataset.records,
            ..Settings::default()
        }
    }

    /// Notes for a reader.
    pub fn conditions(&self) -> Vec<(String, String)> {
        let told = self.settings(DurabilityClass::PowerCut, &self.dataset());
        [
            (
                "scale",
                format!(
                    "{:.6}: {} of {} pairs, {}",
                    self.scale,
                    self.pairs,
                    paper::PAIRS_EACH * u64::from(paper::CLIENTS),
                    mib(told.expected_data_bytes)
                ),
            ),
            (
                "pairs",
                "keys of 4 B, values of 32 KiB, each client its own part in order; stock db_bench has all \
                 clients write the same pairs, and the paper does not say"
                    .into(),
            ),
            (
                "clients",
                format!("{}, each with one operation at a time", paper::CLIENTS),
            ),
            (
                "write buffers",
                format!(
                    "{BUFFERS} x {}; the paper's RocksDB has {}",
                    mib(self.buffer_bytes),
                    mib(paper::BUFFER_BYTES)
                ),
            ),
            (
                "reads",
                format!(
                    "past the page cache in all systems; memory for reads of an LSM {}, the node has none",
                    mib(told.cache_bytes)
                ),
            ),
            (
                "network",
                "NVMe/TCP on loopback, host and node on the same processors; the paper has 10 GbE between \
                 two machines"
                    .into(),
            ),
            ("node", "one event loop; the paper has 19 threads".into()),
            ("repeats", self.repeats.to_string()),
            ("seed", self.seed.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    #[cfg(test)]
    pub fn tiny_for_tests(directory: &std::path::Path) -> Setting {
        Setting {
            scale: 0.00002,
            pairs: TINY_PAIRS,
            buffer_bytes: TINY_BUFFER_BYTES,
            repeats: 1,
            seed: 3,
            directory: directory.to_owned(),
            tiny: true,
        }
    }
}
