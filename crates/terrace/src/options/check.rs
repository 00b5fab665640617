//! What each option accepts.

use terrace_lsm::keyspace_options::check_ranges;
use terrace_lsm::table::MAX_VALUE_BYTES;
use terrace_region::CAPACITY_STEP_BYTES;

use crate::options::{Background, Durability, Options};
use crate::{Error, Result};

/// The largest arena and batch: places in an arena are 32-bit.
const MAX_ARENA_BYTES: u64 = 1 << 31;
/// The least rate: below it a single write of a merge would wait for seconds.
const LEAST_BYTES_PER_SECOND: u64 = 64 << 10;
/// No larger than the largest value that a table takes.
const MAX_BATCH_BYTES: u64 = MAX_VALUE_BYTES;

impl Options {
    /// Refuses values that no store can work with, naming the option and what it accepts.
    pub(crate) fn check(&self) -> Result<()> {
        self.keyspace_form().check()?;
        self.check_numbers()?;
        self.check_ratios()?;
        self.check_background()?;
        self.check_arenas()
    }

    /// Checks the numbers that have a least and a largest value alone.
    fn check_numbers(&self) -> Result<()> {
        check_ranges(&[
            ("arena_bytes", self.arena_bytes, 8 << 10, MAX_ARENA_BYTES),
            (
                "arena_index_bytes",
                self.arena_index_bytes,
                4 << 10,
                8 << 30,
            ),
            ("max_arenas", self.max_arenas as u64, 2, 64),
            (
                "max_batch_bytes",
                self.max_batch_bytes,
                1 << 10,
                MAX_BATCH_BYTES,
            ),
            (
                "read_buffer.share_percent",
                u64::from(self.read_buffer.share_percent),
                0,
                90,
            ),
            (
                "read_buffer.usual_record_bytes",
                u64::from(self.read_buffer.usual_record_bytes),
                100,
                8 << 10,
            ),
            (
                "tombstone_percent",
                u64::from(self.tombstone_percent),
                0,
                100,
            ),
            (
                "tombstone_age_seconds",
                self.tombstone_age_seconds,
                0,
                1 << 40,
            ),
            ("level0_merge", self.level0_merge as u64, 1, 1000),
            (
                "level0_slowdown",
                self.level0_slowdown as u64,
                self.level0_merge as u64,
                10_000,
            ),
            (
                "level0_stop",
                self.level0_stop as u64,
                self.level0_slowdown as u64 + 1,
                100_000,
            ),
            ("debt_slowdown_bytes", self.debt_slowdown_bytes, 1, 1 << 50),
            (
                "debt_stop_bytes",
                self.debt_stop_bytes,
                self.debt_slowdown_bytes.saturating_add(1),
                1 << 60,
            ),
            ("compaction_threads", self.compaction_threads as u64, 1, 64),
            ("slice_bytes", self.slice_bytes, 1 << 10, 1 << 50),
            (
                "max_open_tables",
                self.max_open_tables.unwrap_or(1) as u64,
                1,
                1 << 20,
            ),
            // Tables of their own size are made for them: no more than a machine may have.
            ("cache_bytes", self.cache_bytes, 0, 1 << 44),
            ("pinned_bytes", self.pinned_bytes, 0, 1 << 44),
            ("manifest_bytes", self.manifest_bytes, 1 << 10, 1 << 30),
        ])
    }

    fn check_ratios(&self) -> Result<()> {
        if !(1.01..=100.0).contains(&self.dedup_threshold) {
            return Err(Error::invalid(format!(
                "dedup_threshold is {}; it must be from 1.01 to 100",
                self.dedup_threshold
            )));
        }
        if !(0.01..=100.0).contains(&self.least_score) {
            return Err(Error::invalid(format!(
                "least_score is {}; it must be from 0.01 to 100",
                self.least_score
            )));
        }
        Ok(())
    }

    /// Checks the rate of background work, and the interval of its persists.
    fn check_background(&self) -> Result<()> {
        if let Some(rate) = self.background_bytes_per_second
            && rate < LEAST_BYTES_PER_SECOND
        {
            return Err(Error::invalid(format!(
                "background_bytes_per_second is {rate}; it must be at least \
                 {LEAST_BYTES_PER_SECOND}, or unset for no limit"
            )));
        }
        if let Some(interval) = self.persist_every
            && (interval.is_zero() || self.background == Background::Inline)
        {
            return Err(Error::invalid(
                "persist_every must be longer than nothing, and needs Background::Threads",
            ));
        }
        Ok(())
    }

    /// Checks the place and the size of arenas beyond their ranges.
    fn check_arenas(&self) -> Result<()> {
        if self.region_dir.is_some()
            && (self.region.is_some() || self.durability == Some(Durability::Volatile))
        {
            return Err(Error::invalid(
                "region_dir is for arenas in files; leave it unset for a region of another kind \
                 or a Volatile store",
            ));
        }
        if !self.arena_bytes.is_multiple_of(CAPACITY_STEP_BYTES) {
            return Err(Error::invalid(format!(
                "arena_bytes is {}; it must be a multiple of {CAPACITY_STEP_BYTES}",
                self.arena_bytes
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_out_of_range_is_named_with_what_it_accepts() {
        Options::default().check().unwrap();
        let error = Options {
            level_ratio: 1,
            ..Options::default()
        }
        .check()
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid argument: level_ratio is 1; it must be from 2 to 1000"
        );
    }

    #[test]
    fn a_rate_of_nothing_is_refused_with_advice() {
        let with_rate = |rate| Options {
            background_bytes_per_second: Some(rate),
            ..Options::default()
        };
        with_rate(64 << 10).check().unwrap();
        with_rate(u64::MAX).check().unwrap();
        assert_eq!(
            with_rate(0).check().unwrap_err().to_string(),
            "invalid argument: background_bytes_per_second is 0; it must be at least 65536, or \
             unset for no limit"
        );
    }
}
