//! Arguments of commands that explain or simulate compaction policies.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::stores::Wait;

#[derive(Debug, Subcommand)]
pub enum Explain {
    /// What would be merged now, what else was weighed, and what is missing for the next merge
    #[command(after_help = "\
A store that another process has open is asked there, and explains itself by the options that it has
there. One that nobody has open does not know its policy: --options tells. Nothing is merged by this.

A description is a TOML file: [options] as in --options, the number of live `keys`, and one
[[sub_levels]] for each, from the youngest, with `level`, `bytes`, `entries` and `tombstones`.
--write-description makes one of a store, with each of its tables. It holds their first and last keys.

1.2 is the second sub-level of level 1, counted from the youngest.

Examples:
  terrace explain compaction -d ./cities
  terrace explain compaction -d ./cities --options store.toml --json | jq .keyspaces[0].choice
  terrace explain compaction -d ./cities --write-description levels.toml
  terrace explain compaction --description levels.toml")]
    Compaction(ExplainCompaction),
}

#[derive(Debug, Args)]
pub struct ExplainCompaction {
    /// The store's directory; not needed with --description, which goes first
    #[arg(short = 'd', long = "store", env = "TERRACE_STORE", value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// The directory of its arenas, if that is not the store's own
    #[arg(long, env = "TERRACE_REGION_DIR", value_name = "DIR")]
    pub region_dir: Option<PathBuf>,
    /// Open although unflushed writes are missing with their region; what tables hold is kept
    #[arg(long)]
    pub accept_region_loss: bool,
    /// Open although tables are missing with their tier; reads of keys that they may hold fail
    #[arg(long)]
    pub accept_tier_loss: bool,
    #[command(flatten)]
    pub wait: Wait,
    /// Options of the store, as TOML, if nobody has it open; see `terrace options`
    #[arg(long, env = "TERRACE_OPTIONS", value_name = "FILE")]
    pub options: Option<PathBuf>,
    /// Explain levels that are described in a file, instead of a store's
    #[arg(long, value_name = "FILE")]
    pub description: Option<PathBuf>,
    /// Only this keyspace
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Describe a keyspace of the store in a file, the default one if none is named; `-` is standard
    /// output
    #[arg(long, value_name = "FILE")]
    pub write_description: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Simulate {
    /// What compaction policies would write, and the space that they would take, for a load of any size
    #[command(after_help = "\
The policies are those of a store, and choose merges of tables of which only sizes are known: nothing is
read or written, and 1e12 records take as long as a few. A load fills a million write buffers at most.
Merges take no time unless --write-mb-s and --merge-mb-s are given. The figures are within a tenth of a
store's.

A policy is leveled, tiered, lazy, dedup, score, or trie (LSM-trie, of which there is no store); behind a
colon may follow dedup's threshold or the least score.

Sizes are those of --options; without, multiples of the write buffer: tables as large as one, level 0
merged at four, four in level 1, each level ten times the one above.

written   bytes of tables written for each byte that came in, until the last write
settled   the same until nothing is left to merge
space     bytes of tables for each of the distinct records: the mean over the second half of the writes, the
          most at any moment, and what is left when nothing is left to merge
runs      sub-levels, each of which a read may have to ask: the mean over the second half of the writes

Examples:
  terrace simulate compaction
  terrace simulate compaction --keys 1e12 --policies leveled,tiered,dedup:1.2,score:0.3,trie
  terrace simulate compaction --keys 1e8 --zipfian 0.99 --fill-first
  terrace simulate compaction --options store.toml --write-mb-s 50 --merge-mb-s 200
  terrace simulate compaction --json | jq '.[] | [.policy, .outcome.space.mean]'")]
    Compaction(SimulateCompaction),
}

#[derive(Debug, Args)]
pub struct SimulateCompaction {
    /// Distinct keys; 1e12 is a number, too
    #[arg(long, value_name = "N", default_value = "1e6", value_parser = number)]
    pub keys: u64,
    /// Writes of each key on average, the first one included
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub writes_per_key: f64,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub key_bytes: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub value_bytes: u64,
    /// Keys are chosen by Zipf's law with this exponent, not uniformly
    #[arg(long, value_name = "EXPONENT", conflicts_with = "shuffled")]
    pub zipfian: Option<f64>,
    /// Each key has from one write to twice as many as on average, all in random order (PlexDB's load)
    #[arg(long, conflicts_with = "fill_first")]
    pub shuffled: bool,
    /// Each key is written once before the rest
    #[arg(long)]
    pub fill_first: bool,
    /// The share of the writes that are deletions
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub deletes: f64,
    /// Bytes of a write buffer [default: a hundredth of the distinct records]
    #[arg(long, value_name = "BYTES", value_parser = number, conflicts_with = "options")]
    pub buffer: Option<u64>,
    /// Options of the store, as TOML; see `terrace options`
    #[arg(long, value_name = "FILE")]
    pub options: Option<PathBuf>,
    /// What is compared
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "leveled,tiered,lazy,dedup:1.2,dedup:1.8,score:0.3,trie"
    )]
    pub policies: Vec<String>,
    /// MB of keys and values that writers would write each second
    #[arg(long, value_name = "MB", requires = "merge_mb_s")]
    pub write_mb_s: Option<f64>,
    /// MB that each thread of merges writes each second
    #[arg(long, value_name = "MB", requires = "write_mb_s")]
    pub merge_mb_s: Option<f64>,
    /// Print everything as JSON, with the course of each load
    #[arg(long)]
    pub json: bool,
}

/// Parses a whole number, as digits or with an exponent.
pub(super) fn number(text: &str) -> Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1e18).contains(&number) && number.fract() == 0.0 => Ok(number as u64),
        _ => Err("a whole number is expected, such as 1000000 or 1e6".to_owned()),
    }
}
