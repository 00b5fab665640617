//! Checks of options: ranges out of the table, and conditions between several options.

use terrace_lsm::option_table::{check_number_from, check_numbers, entry};

use crate::options::table::{LEAST_BYTES_PER_SECOND, READ_BUFFER, STORE};
use crate::options::{Background, Durability, Options};
use crate::{Error, Result};

impl Options {
    /// Refuses values that no store can work with, naming the option and its accepted values.
    pub(crate) fn check(&self) -> Result<()> {
        self.default_keyspace.check().map_err(|error| match error {
            Error::InvalidArgument(what) => Error::invalid(format!("default_keyspace.{what}")),
            error => error,
        })?;
        self.check_numbers()?;
        self.check_constants()?;
        let (merge, slowdown) = (self.level0_merge as u64, self.level0_slowdown as u64);
        check_number_from(STORE, "level0_slowdown", slowdown, merge)?;
        self.check_ratios()?;
        self.check_background()?;
        self.check_arenas()?;
        self.check_tiers()?;
        self.resolved().map(drop)
    }

    /// Checks the numbers against their ranges in the table.
    fn check_numbers(&self) -> Result<()> {
        let share_percent = u64::from(self.read_buffer.share_percent);
        check_numbers(READ_BUFFER, &[("read_buffer.share_percent", share_percent)])?;
        check_numbers(
            STORE,
            &[
                ("memory_bytes", self.memory_bytes.unwrap_or(1 << 30)),
                ("arena_bytes", self.arena_bytes),
                ("max_arenas", self.max_arenas as u64),
                ("tombstone_percent", self.tombstone_percent.into()),
                ("tombstone_age_seconds", self.tombstone_age_seconds),
                ("level0_merge", self.level0_merge as u64),
                ("compaction_threads", self.compaction_threads as u64),
                ("max_open_tables", self.max_open_tables.unwrap_or(1) as u64),
                ("cache_bytes", self.cache_bytes),
            ],
        )
    }

    fn check_ratios(&self) -> Result<()> {
        let check =
            |name, ratio| entry(STORE, name).map_or(Ok(()), |entry| entry.check_decimal(ratio));
        check("dedup_threshold", self.dedup_threshold)?;
        check("min_score", self.min_score)
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

    /// Checks the place of arenas.
    fn check_arenas(&self) -> Result<()> {
        if self.region_dir.is_some()
            && (self.region.is_some() || self.durability == Some(Durability::Volatile))
        {
            return Err(Error::invalid(
                "region_dir is for arenas in files; leave it unset for a region of another kind \
                 or a Volatile store",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyspaceOptions;

    #[test]
    fn an_option_out_of_range_is_named_with_what_it_accepts() {
        Options::default().check().unwrap();
        let error = Options {
            default_keyspace: KeyspaceOptions {
                level_ratio: 1,
                ..KeyspaceOptions::default()
            },
            ..Options::default()
        }
        .check()
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid argument: default_keyspace.level_ratio is 1; it must be from 2 to 1000"
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
