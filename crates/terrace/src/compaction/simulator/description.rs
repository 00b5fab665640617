//! What is simulated: a load, and a store that takes it.

use serde::{Deserialize, Serialize};

use crate::compaction::simulator::trie::TrieForm;
use crate::{Error, Options, Result};

/// A load and the store that takes it, in numbers.
///
/// ```
/// use terrace::simulate::{KeyDistribution, Simulation};
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
    /// Which key a write is of.
    pub distribution: KeyDistribution,
    /// Whether each key is written once, in random order, before `distribution` holds.
    pub fill_first: bool,
    /// The share of the writes that are deletions, from 0 to below 1; not of those that fill.
    pub delete_share: f64,
    /// What keeps the tables.
    pub tree: TreeKind,
    /// How fast writers and merges are. `None`: merges take no time, as with
    /// [`Background::Inline`](crate::Background::Inline).
    pub speeds: Option<Speeds>,
    /// The store's: policy, sizes and numbers of levels, workers. What does not concern merges is not
    /// looked at, and an arena may be larger than a store's.
    pub options: Options,
}

/// Which key a write is of. All are spread over the key space alike.
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

/// What keeps the tables.
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

/// How fast writers and merges are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// Bytes of keys and values that come in each second while nobody holds writers back.
    pub write_bytes_per_second: f64,
    /// Bytes of tables that one of the [`Options::compaction_threads`] writes each second.
    pub merge_bytes_per_second: f64,
}

impl Default for Simulation {
    /// A million records of 100 bytes, each updated nine times in random order, in a store with the default options.
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
    /// Bytes of a key and its value.
    pub fn record_bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes
    }

    /// Refuses what cannot be simulated, naming it.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::invalid(format!("a simulation's {what}")));
        if self.keys == 0 || self.keys > MOST_KEYS {
            return refused("keys must be from 1 to 10^15");
        }
        if self.writes == 0 || self.writes / self.keys > MOST_WRITES_A_KEY {
            return refused("writes must be from 1 to 10^6 for each key");
        }
        if !(1..=65_535).contains(&self.key_bytes) || self.value_bytes > 1 << 20 {
            return refused("key_bytes must be from 1 to 65535, its value_bytes at most 1 MiB");
        }
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
            && !(0.01..=3.0).contains(&exponent)
        {
            return refused("exponent must be from 0.01 to 3");
        }
        if !(0.0..=0.99).contains(&self.delete_share) {
            return refused("delete_share must be from 0 to 0.99");
        }
        if let Some(speeds) = self.speeds {
            let all = [speeds.write_bytes_per_second, speeds.merge_bytes_per_second];
            if all.iter().any(|speed| !speed.is_finite() || *speed <= 0.0) {
                return refused("speeds must be above 0");
            }
        }
        self.check_options()
    }

    fn check_options(&self) -> Result<()> {
        let options = &self.options;
        let counts = [
            ("level0_merge", options.level0_merge as u64),
            ("level_ratio", options.level_ratio.saturating_sub(1)),
            ("table_bytes", options.table_bytes),
            ("level1_bytes", options.level1_bytes),
            ("slice_bytes", options.slice_bytes),
            ("compaction_threads", options.compaction_threads as u64),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Error::invalid(format!("{name} is too small")));
        }
        if options.dedup_threshold.is_nan() || options.dedup_threshold <= 1.0 {
            return Err(Error::invalid("dedup_threshold must be above 1"));
        }
        if options.least_score.is_nan() || options.least_score <= 0.0 {
            return Err(Error::invalid("least_score must be above 0"));
        }
        Ok(())
    }
}

/// Sums of writes stay exact in a double.
const MOST_KEYS: u64 = 1_000_000_000_000_000;
const MOST_WRITES_A_KEY: u64 = 1_000_000;
