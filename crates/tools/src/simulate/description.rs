//! Input of a simulation: a load, and a store that takes it.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use terrace::{Error, Options, Result};
use terrace_lsm::option_table::check_ranges;
use terrace_lsm::table::MAX_BLOCK_BYTES;

use crate::simulate::form::writes_per_arena;
use crate::simulate::trie::TrieForm;

/// A load and the store that takes it, in numbers.
///
/// ```
/// use terrace_tools::simulate::{KeyDistribution, Simulation};
/// use terrace::{CompactionPolicy, Options};
///
/// let simulation = Simulation {
///     keys: 1_000_000,
///     writes: 10_000_000,
///     distribution: KeyDistribution::Zipfian { exponent: 0.99 },
///     options: Options {
///         compaction_policy: CompactionPolicy::Tiered,
///         arena_bytes: 1 << 20,
///         ..Options::default()
///     },
///     ..Simulation::default()
/// };
/// let outcome = simulation.run(&mut |_| ())?;
/// assert!(outcome.write_amplification < 5.0 && outcome.space.mean > 1.0);
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Simulation {
    /// Distinct keys.
    pub keys: u64,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// Bytes of a value. Values are taken for ones that do not compress.
    pub value_bytes: u64,
    /// Writes of all keys together, the first ones included.
    pub writes: u64,
    /// Distribution of the keys that are written.
    pub distribution: KeyDistribution,
    /// Whether each key is written once, in random order, before `distribution` holds.
    pub fill_first: bool,
    /// The share of the writes that are deletions, from 0 to below 1; not of those that fill.
    pub delete_share: f64,
    /// Structure that keeps the tables.
    pub tree: TreeKind,
    /// Speeds of writers and merges. `None`: merges take no time, as with
    /// [`Background::Inline`](terrace::Background::Inline).
    pub speeds: Option<Speeds>,
    /// Options of the store: policy, sizes and numbers of levels, workers. Options that do not
    /// concern merges are ignored, and an arena may be larger than a store's.
    pub options: Options,
}

/// Distribution of the keys that are written. All are spread over the key space alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeyDistribution {
    /// Each is as likely as any other.
    #[default]
    Uniform,
    /// The i-th most frequent key is written i^`exponent` times less often than the first.
    Zipfian {
        /// 0.99 in YCSB.
        exponent: f64,
    },
    /// PlexDB's update load: each key has a number of writes, from 1 to twice the mean less 1 and each as
    /// often, and all writes come in random order.
    Shuffled,
}

/// Structure that keeps the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TreeKind {
    /// The levels of a store, as [`Options::compaction_policy`] has them.
    #[default]
    Levels,
    /// LSM-trie: tables in the order of hashes, which allow no scans. There is no such store here.
    Trie(TrieForm),
}

/// Speeds of writers and merges.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// Bytes of keys and values that come in each second while writers are not held back.
    pub write_bytes_per_second: f64,
    /// Bytes of tables that one of the [`Options::compaction_threads`] writes each second.
    pub merge_bytes_per_second: f64,
}

impl Default for Simulation {
    /// A million records of 100 bytes, each updated nine times in random order, in a store with the
    /// default options.
    fn default() -> Self {
        Simulation {
            keys: 1_000_000,
            key_bytes: 16,
            value_bytes: 84,
            writes: 10_000_000,
            distribution: KeyDistribution::Uniform,
            fill_first: false,
            delete_share: 0.0,
            tree: TreeKind::Levels,
            speeds: None,
            options: Options::default(),
        }
    }
}

impl Simulation {
    /// Returns the bytes of a key and its value.
    pub fn record_bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes
    }

    /// Refuses fields that cannot be simulated, naming them.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::invalid(format!("a simulation's {what}")));
        check_ranges(&[
            ("a simulation's keys", self.keys, 1, MAX_KEYS),
            ("a simulation's key_bytes", self.key_bytes, 1, MAX_KEY_BYTES),
            (
                "a simulation's value_bytes",
                self.value_bytes,
                0,
                MAX_VALUE_BYTES,
            ),
        ])?;
        let needed = match (self.distribution, self.fill_first) {
            (KeyDistribution::Shuffled, true) => {
                return refused(
                    "distribution is Shuffled, which writes each key already: without fill_first",
                );
            }
            (KeyDistribution::Shuffled, _) | (_, true) => self.keys,
            _ => 0,
        };
        if self.writes < needed {
            return refused("writes must be as many as its keys: each is to be written once");
        }
        if let KeyDistribution::Zipfian { exponent } = self.distribution
            && !EXPONENTS.contains(&exponent)
        {
            return refused("exponent must be from 0.01 to 3");
        }
        if !DELETE_SHARES.contains(&self.delete_share) {
            return refused("delete_share must be from 0 to 0.99");
        }
        if let Some(speeds) = self.speeds {
            let all = [speeds.write_bytes_per_second, speeds.merge_bytes_per_second];
            if all.iter().any(|speed| !speed.is_finite() || *speed <= 0.0) {
                return refused("speeds must be above 0");
            }
        }
        self.check_options()?;
        check_ranges(&[("a simulation's writes", self.writes, 1, self.max_writes()?)])
    }

    /// Returns the largest number of writes that can be simulated with these keys, sizes and options: more
    /// would take hours, or numbers beyond those of a computer.
    ///
    /// # Errors
    /// Records that no store takes.
    pub fn max_writes(&self) -> Result<u64> {
        check_ranges(&[
            ("a simulation's key_bytes", self.key_bytes, 1, MAX_KEY_BYTES),
            (
                "a simulation's value_bytes",
                self.value_bytes,
                0,
                MAX_VALUE_BYTES,
            ),
        ])?;
        let of_a_key = match self.distribution {
            KeyDistribution::Shuffled => MAX_SHUFFLED_WRITES_A_KEY,
            _ => MAX_WRITES_A_KEY,
        };
        let bounds = [
            writes_per_arena(self)?.saturating_mul(MAX_FLUSHES),
            self.keys.saturating_mul(of_a_key),
            MAX_BYTES / (self.record_bytes() + OVERHEAD_BYTES),
            MAX_EXACT,
        ];
        Ok(bounds.into_iter().min().unwrap_or(MAX_EXACT))
    }

    /// A store's own limits, but for its arenas, which may be larger here.
    fn check_options(&self) -> Result<()> {
        let options = &self.options;
        let keyspace = &options.default_keyspace;
        check_ranges(&[
            ("level0_merge", options.level0_merge as u64, 1, u64::MAX),
            (
                "default_keyspace.level_ratio",
                keyspace.level_ratio,
                2,
                u64::MAX,
            ),
            (
                "default_keyspace.table_bytes",
                keyspace.table_bytes,
                1,
                u64::MAX,
            ),
            (
                "default_keyspace.level1_bytes",
                keyspace.level1_bytes,
                1,
                u64::MAX,
            ),
            (
                "constants.slice_bytes",
                options.constants.slice_bytes,
                1,
                u64::MAX,
            ),
            (
                "default_keyspace.block_bytes",
                keyspace.block_bytes as u64,
                64,
                MAX_BLOCK_BYTES,
            ),
            (
                "arena_bytes",
                options.arena_bytes,
                MIN_ARENA_BYTES,
                MAX_BYTES,
            ),
            (
                "constants.arena_index_bytes",
                options.arena_index_bytes(),
                1,
                MAX_BYTES,
            ),
            (
                "compaction_threads",
                options.compaction_threads as u64,
                1,
                1024,
            ),
        ])?;
        if options.dedup_threshold.is_nan() || options.dedup_threshold <= 1.0 {
            return Err(Error::invalid("dedup_threshold must be above 1"));
        }
        if options.min_score.is_nan() || options.min_score <= 0.0 {
            return Err(Error::invalid("min_score must be above 0"));
        }
        Ok(())
    }
}

/// Distinct keys, at most.
pub const MAX_KEYS: u64 = 1_000_000_000_000_000;
/// Bytes of a key, at most.
pub const MAX_KEY_BYTES: u64 = 65_535;
/// Bytes of a value, at most.
pub const MAX_VALUE_BYTES: u64 = 1 << 20;
/// Exponents of [`KeyDistribution::Zipfian`].
pub const EXPONENTS: RangeInclusive<f64> = 0.01..=3.0;
/// Values of [`Simulation::delete_share`].
pub const DELETE_SHARES: RangeInclusive<f64> = 0.0..=0.99;
/// Bytes of an arena, at least.
pub const MIN_ARENA_BYTES: u64 = 8 << 10;
/// Write buffers that a load fills, at most. A simulation takes its time for each of them.
pub const MAX_FLUSHES: u64 = 1_000_000;

const MAX_WRITES_A_KEY: u64 = 1_000_000;
/// Each number of writes is a class of keys, which every count goes through.
const MAX_SHUFFLED_WRITES_A_KEY: u64 = 1_000;
/// Sums of writes stay exact in a double.
const MAX_EXACT: u64 = 1 << 53;
/// Sums of bytes stay below the end of their numbers.
const MAX_BYTES: u64 = 1 << 62;
/// Bytes of a table for an entry beside its record, more than any has.
const OVERHEAD_BYTES: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with buffers of a hundredth, as the command line makes it.
    fn simulation() -> Simulation {
        Simulation {
            options: Options {
                arena_bytes: 1 << 20,
                ..Options::default()
            },
            ..Simulation::default()
        }
    }

    #[test]
    fn the_largest_load_is_the_last_one_that_is_accepted() {
        type Change = fn(&mut Simulation);
        let changes: [Change; 5] = [
            |_| (),
            |s| s.keys = 3,
            |s| s.distribution = KeyDistribution::Shuffled,
            |s| s.options.arena_bytes = 1 << 50,
            |s| {
                s.options.arena_bytes = 1 << 60;
                s.options.constants.arena_index_bytes = Some(1 << 60);
                (s.keys, s.value_bytes) = (MAX_KEYS, MAX_VALUE_BYTES);
            },
        ];
        for change in changes {
            let mut simulation = simulation();
            change(&mut simulation);
            simulation.writes = simulation.max_writes().unwrap();
            assert!(simulation.check().is_ok(), "{simulation:?}");
            simulation.writes += 1;
            let error = simulation.check().unwrap_err().to_string();
            let largest = (simulation.writes - 1).to_string();
            assert!(error.ends_with(&format!("to {largest}")), "{error}");
        }
    }

    #[test]
    fn a_load_of_too_many_flushes_is_refused() {
        let mut simulation = simulation();
        let of_one = writes_per_arena(&simulation).unwrap();
        assert_eq!(simulation.max_writes().unwrap(), of_one * MAX_FLUSHES);
        simulation.keys = MAX_KEYS;
        simulation.writes = of_one * MAX_FLUSHES + 1;
        assert!(simulation.check().is_err());
    }

    #[test]
    fn sizes_of_zero_are_refused_by_name() {
        type Change = fn(&mut Options);
        let changes: [(&str, Change); 3] = [
            ("arena_bytes", |o| o.arena_bytes = 0),
            ("arena_index_bytes", |o| {
                o.constants.arena_index_bytes = Some(0);
            }),
            ("block_bytes", |o| o.default_keyspace.block_bytes = 0),
        ];
        for (name, change) in changes {
            let mut simulation = simulation();
            change(&mut simulation.options);
            let error = simulation.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
