//! The paper's setting at a scale, and the choices that it leaves open.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::paper;
use crate::Result;
use crate::reproduce::arguments::Plexdb;
use crate::settings::Settings;
use crate::told::mib;
use crate::workload::Dataset;
use crate::workload::updates::{self, Updates};

/// A write buffer is this part of the distinct data.
const BUFFER_PART: u64 = 100;
/// With less no store works; a multiple of the step by which Terrace's arenas grow.
const LEAST_BUFFER_BYTES: u64 = 64 << 10;
const BUFFER_STEP_BYTES: u64 = 4096;
/// The least with which a store caches anything.
const LEAST_CACHE_BYTES: u64 = 1 << 20;
/// Scale of `--tiny`.
const TINY_SCALE: f64 = 0.0003;
/// Records for each record that is read; existing and absent ones.
const READ_PART: u64 = 10;
/// Fewer take no time that could be measured.
const LEAST_READS: u64 = 10_000;

/// Of the writes, after the first, of each record on average.
pub const UPDATES: Updates = Updates::USUAL;
/// Accepted values: with no filter every lookup asks every run.
const FILTER_BITS: RangeInclusive<u32> = 1..=32;
/// One that is filled, and one that is written to tables, as in LevelDB.
const WRITE_BUFFERS: u32 = 2;

/// Settings that all points share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Share of the paper's volume.
    pub scale: f64,
    /// Distinct.
    pub records: u64,
    /// Bytes of one write buffer.
    pub buffer_bytes: u64,
    /// For reads.
    pub cache_bytes: u64,
    /// Reads of records that are there, and of as many that are not.
    pub reads: u64,
    /// Bits of filter a key.
    pub filter_bits: u32,
    /// Writes a second that come in; `None`: as many as a store takes.
    pub rate: Option<f64>,
    /// Runs of each point.
    pub repeats: u32,
    /// Seed from which streams are made.
    pub seed: u64,
    /// Where stores are made.
    pub directory: PathBuf,
}

impl Setting {
    /// As it was asked for.
    ///
    /// # Errors
    /// Numbers that make no sense.
    pub fn of(asked: &Plexdb) -> Result<Self> {
        if !asked.scale.is_finite() || asked.scale <= 0.0 || asked.scale > 1.0 {
            return Err("--scale must be above 0 and at most 1".into());
        }
        if asked
            .rate
            .is_some_and(|rate| !rate.is_finite() || rate <= 0.0)
        {
            return Err("--rate must be above 0".into());
        }
        if !FILTER_BITS.contains(&asked.filter_bits) {
            let (least, most) = (FILTER_BITS.start(), FILTER_BITS.end());
            return Err(format!("--filter-bits must be from {least} to {most}").into());
        }
        if asked.repeats == 0 {
            return Err("there must be at least one repeat".into());
        }
        let scale = if asked.tiny { TINY_SCALE } else { asked.scale };
        // Of whole groups the number of writes is exact.
        let records = UPDATES.whole_groups(updates::dataset(UPDATES, scale).records);
        let data_bytes = of_records(records).expected_bytes();
        let buffer_bytes = data_bytes / BUFFER_PART / BUFFER_STEP_BYTES * BUFFER_STEP_BYTES;
        let cache_bytes = (scale * paper::METADATA_BYTES) as u64;
        Ok(Setting {
            scale,
            records,
            buffer_bytes: buffer_bytes.max(LEAST_BUFFER_BYTES),
            cache_bytes: cache_bytes.max(LEAST_CACHE_BYTES),
            reads: match asked.tiny {
                true => records,
                false => (records / READ_PART).max(LEAST_READS),
            },
            filter_bits: asked.filter_bits,
            rate: asked.rate,
            repeats: asked.repeats,
            seed: asked.seed,
            directory: asked.directory.clone(),
        })
    }

    /// Returns the paper's volume, for work that takes no time.
    pub fn at_full_scale(updates: Updates) -> Self {
        let records = updates.whole_groups(updates::dataset(updates, 1.0).records);
        let data_bytes = of_records(records).expected_bytes();
        Setting {
            scale: 1.0,
            records,
            buffer_bytes: data_bytes / BUFFER_PART / BUFFER_STEP_BYTES * BUFFER_STEP_BYTES,
            cache_bytes: paper::METADATA_BYTES as u64,
            reads: 0,
            filter_bits: paper::FILTER_BITS,
            rate: None,
            repeats: 1,
            seed: 0,
            directory: PathBuf::new(),
        }
    }

    /// Returns the records.
    pub fn dataset(&self) -> Dataset {
        of_records(self.records)
    }

    /// Returns the bytes of keys and values of all records, once each.
    pub fn data_bytes(&self) -> u64 {
        self.dataset().expected_bytes()
    }

    /// Returns the writes of all records together, the first ones included.
    pub fn writes(&self) -> u64 {
        self.records * u64::from(1 + UPDATES.mean)
    }

    /// Returns whether a tree grows as deep as claims are about: else a write buffer and the data
    /// merged at a time are too much of the whole.
    pub fn tells(&self) -> bool {
        self.data_bytes() >= self.buffer_bytes * BUFFER_PART / 2
    }

    /// Returns the settings of all stores.
    pub fn settings(&self) -> Settings {
        Settings {
            cache_bytes: self.cache_bytes,
            direct_cache_bytes: self.cache_bytes,
            write_buffer_bytes: self.buffer_bytes,
            direct_write_buffer_bytes: self.buffer_bytes,
            write_buffers: WRITE_BUFFERS,
            filter_bits_per_key: self.filter_bits,
            direct_io: true,
            expected_data_bytes: self.data_bytes(),
            expected_records: self.records,
            ..Settings::default()
        }
    }

    /// Returns the conditions that a reader must know.
    pub fn conditions(&self) -> Vec<(String, String)> {
        let part = self.data_bytes() as f64 / self.buffer_bytes as f64;
        let data = format!(
            "{} records of a key of 10 B and a value of 200 B, {} of distinct data; {} writes, {} in \
             all, {:.5} of the paper's 20 GB",
            self.records,
            mib(self.data_bytes()),
            self.writes(),
            mib(self.writes() * self.record_bytes()),
            self.scale
        );
        [
            ("data", data),
            (
                "write buffer",
                format!(
                    "{} KiB, 1/{part:.0} of the distinct data: the one that is filled; another may be \
                     on its way into tables, in fjall up to four",
                    self.buffer_bytes >> 10
                ),
            ),
            (
                "shape",
                "tables of one write buffer (LevelDB: of 1 MiB at least), level 0 is merged at four, \
                 level 1 holds four (LevelDB: 10 MiB, whatever the buffer), each level ten times the \
                 one above; tiered levels hold twelve sorted runs; RocksDB's universal style as it comes"
                    .into(),
            ),
            (
                "memory for reads",
                format!(
                    "{}, as the paper's 1 GB of metadata is to 20 GB; here it holds blocks of data, \
                     too, in all stores",
                    mib(self.cache_bytes)
                ),
            ),
            (
                "filters",
                format!(
                    "{} bits a key; Terrace has more in the small upper levels, on average as many",
                    self.filter_bits
                ),
            ),
            (
                "reads of tables",
                "past the page cache in Terrace and RocksDB, through it in LevelDB and fjall, which \
                 cannot do otherwise: all their data is in memory then"
                    .into(),
            ),
            (
                "reads",
                format!(
                    "{} uniform over all records, as many of keys that are not there, and a tenth as \
                     many scans, each after as many that are not measured",
                    self.reads
                ),
            ),
            (
                "pace of writes",
                match self.rate {
                    Some(rate) => format!("{rate} a second"),
                    None => "as many as a store takes; its merges may lag behind".into(),
                },
            ),
            ("clients, repeats", format!("1, {}", self.repeats)),
            ("values", "do not compress, and nothing is compressed".into()),
            (
                "durability",
                "an acknowledged write survives the death of the process, in all stores".into(),
            ),
            ("seed", self.seed.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn record_bytes(&self) -> u64 {
        self.data_bytes() / self.records.max(1)
    }

    #[cfg(test)]
    pub fn tiny_for_tests() -> Setting {
        Setting {
            scale: TINY_SCALE,
            records: 19 * 100,
            buffer_bytes: LEAST_BUFFER_BYTES,
            cache_bytes: LEAST_CACHE_BYTES,
            reads: 100,
            filter_bits: paper::FILTER_BITS,
            rate: None,
            repeats: 1,
            seed: 3,
            directory: PathBuf::from("."),
        }
    }
}

fn of_records(records: u64) -> Dataset {
    Dataset {
        records,
        ..updates::dataset(UPDATES, 1.0)
    }
}

#[cfg(test)]
mod tests;
