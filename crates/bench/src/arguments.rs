//! What can be typed behind `terrace bench` and `peers compare`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

/// A workload, and under what conditions it is run.
#[derive(Clone, Debug, Subcommand)]
pub enum Bench {
    /// The YCSB workloads A to H, F100, and uniform reads
    #[command(after_help = "\
Every run loads the records into an empty store (workload G is that load), waits until it has
settled, and goes through the workloads in the order in which they are named.

  a  half reads, half updates            e  scans of 1 to 100 rows, 5 % inserts
  b  95 % reads, 5 % updates             f  half reads, half read-modify-writes
  c  reads                               f100  read-modify-writes
  d  reads of the latest, 5 % inserts    h  half inserts, half reads
  uniform  reads, all records alike

Examples:
  terrace bench ycsb c a --stores terrace,terrace-blocks
  terrace bench ycsb a b c d f --records 2000000 --memory both --html ycsb.html
  terrace bench ycsb c --clients 4 --paced 70
  terrace bench ycsb a --update field --json | jq '.runs[].phases[].acknowledged_s'
  terrace bench ycsb c --set terrace.read_buffer.share_percent=25")]
    Ycsb(Ycsb),
    /// The workloads of db_bench, as LevelDB and RocksDB have it
    #[command(after_help = "\
Workloads: fillseq, fillrandom, overwrite, fillsync, readrandom, readseq, readreverse, readmissing,
seekrandom, readwhilewriting, deleterandom, in the order in which they are named; and kvbdev, by
itself: 15 clients that each write all keys of 4 bytes with values of 32 KiB.

Examples:
  terrace bench db-bench fillrandom readrandom
  terrace bench db-bench kvbdev --records 10000
  terrace bench db-bench readwhilewriting --clients 2
  terrace bench db-bench fillsync --durable
  terrace bench db-bench fillseq readseq readreverse --records 10000000")]
    DbBench(DbBench),
    /// Updates as in the PlexDB paper: each key is written about ten times, in random order
    #[command(after_help = "\
Examples:
  terrace bench updates
  terrace bench updates --scale 1 --repeats 1
  terrace bench updates --large --scale 0.05")]
    Updates(Updates),
    /// Gets, puts and seeks as published of a social graph (db_bench's mixgraph)
    #[command(after_help = "\
Examples:
  terrace bench mixgraph
  terrace bench mixgraph --records 50000000 --operations 10000000")]
    Mixgraph(Mixgraph),
    /// Where the time of a YCSB workload goes, stage by stage, on each path of the store
    #[command(after_help = "\
Of some operations, drawn at random, the store times each stage: index, copy, persist, filter, block
cache, system calls, checksum, decompression, waiting. Times are those of all threads together.
Stores that do not watch themselves show none.

Examples:
  terrace bench explain c
  terrace bench explain g a --clients 4 --repeats 1
  terrace bench explain c --stores terrace,terrace-blocks --memory bounded --json")]
    Explain(Ycsb),
    /// One run, told on standard input: how the others start their runs
    #[command(hide = true)]
    RunOne,
}

/// `ycsb`
#[derive(Clone, Debug, Args)]
pub struct Ycsb {
    /// Workloads, in this order
    #[arg(default_values = ["c", "a"])]
    pub workloads: Vec<String>,
    /// Records to load
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    /// Operations of each workload [default: as many as records]
    #[arg(long)]
    pub operations: Option<u64>,
    /// Bytes of a value, in ten fields
    #[arg(long, default_value_t = 1000)]
    pub value_bytes: u32,
    /// What an update writes: one field of ten, read before, or the whole value
    #[arg(long, value_enum, default_value_t = Update::Value)]
    pub update: Update,
    /// Which records are asked for [default: as the workload says]
    #[arg(long, value_enum)]
    pub distribution: Option<Distribution>,
    /// How it is run
    #[command(flatten)]
    pub common: Common,
}

/// `db-bench`
#[derive(Clone, Debug, Args)]
pub struct DbBench {
    /// Workloads, in this order
    #[arg(default_values = ["fillrandom", "readrandom"])]
    pub workloads: Vec<String>,
    /// Keys (`--num`)
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    /// Reads of each workload [default: as many as keys]
    #[arg(long)]
    pub operations: Option<u64>,
    /// Bytes of a value [default: 100, for kvbdev 32768]
    #[arg(long)]
    pub value_bytes: Option<u32>,
    /// To what share of their bytes values can be compressed
    #[arg(long, default_value_t = 0.5)]
    pub compression_ratio: f64,
    /// Each client of fillseq writes all keys, as in stock db_bench, not its part of them
    #[arg(long)]
    pub repeat_keys: bool,
    /// How it is run
    #[command(flatten)]
    pub common: Common,
}

/// `updates`
#[derive(Clone, Debug, Args)]
pub struct Updates {
    /// The paper's second run: 20 updates a key after the first write, not 9, and 100 GB
    #[arg(long)]
    pub large: bool,
    /// Of the paper's volume: 20 GB (or 100) at 1
    #[arg(long, default_value_t = 0.02)]
    pub scale: f64,
    /// How it is run
    #[command(flatten)]
    pub common: Common,
}

/// `mixgraph`
#[derive(Clone, Debug, Args)]
pub struct Mixgraph {
    /// Keys
    #[arg(long, default_value_t = 5_000_000)]
    pub records: u64,
    /// Operations
    #[arg(long, default_value_t = 1_000_000)]
    pub operations: u64,
    /// How it is run
    #[command(flatten)]
    pub common: Common,
}

/// What all workloads have.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Stores to compare; the first is set against the best of the others
    #[arg(long, value_delimiter = ',', help_heading = "Stores")]
    pub stores: Vec<String>,
    /// An option of one store, by its own name: terrace.arena_bytes=16777216
    #[arg(long, value_name = "STORE.OPTION=VALUE", help_heading = "Stores")]
    pub set: Vec<OwnOption>,
    /// Every write asks for a sync: what was acknowledged survives a power cut
    #[arg(long, help_heading = "Stores")]
    pub durable: bool,
    /// Compress blocks with LZ4 below the first levels
    #[arg(long, help_heading = "Stores")]
    pub compress: bool,
    /// Tables are read past the page cache, where a store can
    #[arg(long, help_heading = "Stores")]
    pub direct: bool,
    /// Memory of one write buffer, MiB
    #[arg(
        long,
        default_value_t = 64,
        value_name = "MIB",
        help_heading = "Stores"
    )]
    pub write_buffer_mib: u64,
    /// Write buffers
    #[arg(long, default_value_t = 3, help_heading = "Stores")]
    pub write_buffers: u32,
    /// Memory for what is read, MiB [default: all data where it fits, else half of what the write
    /// buffers leave]
    #[arg(long, value_name = "MIB", help_heading = "Stores")]
    pub cache_mib: Option<u64>,
    /// Threads for flushes and compactions together
    #[arg(long, default_value_t = 2, help_heading = "Stores")]
    pub background_threads: u32,
    /// Bits of filter a key
    #[arg(long, default_value_t = 10, help_heading = "Stores")]
    pub filter_bits: u32,

    /// Memory: as much as the data needs, or a memory cgroup that holds a third of it
    #[arg(long, value_enum, default_value_t = Memory::Fits, help_heading = "Conditions")]
    pub memory: Memory,
    /// The bound of a bounded run, page cache included, MiB [default: a third of the data]
    #[arg(long, value_name = "MIB", help_heading = "Conditions")]
    pub memory_mib: Option<u64>,
    /// Client threads [default: 1, for kvbdev 15]
    #[arg(long, help_heading = "Conditions")]
    pub clients: Option<u32>,
    /// Open loop: operations a second, all clients together, loads excepted
    #[arg(long, help_heading = "Conditions")]
    pub rate: Option<f64>,
    /// Each workload once more in an open loop, at this percentage of what the best store but the
    /// first reached in the closed one
    #[arg(long, value_name = "PERCENT", help_heading = "Conditions")]
    pub paced: Option<f64>,
    /// Operations beforehand that are not measured, so that caches are as they are after a while:
    /// percent of a workload's; loads have none
    #[arg(
        long,
        default_value_t = 25.0,
        value_name = "PERCENT",
        help_heading = "Conditions"
    )]
    pub warm_up: f64,
    /// Runs of each store
    #[arg(long, default_value_t = 3, help_heading = "Conditions")]
    pub repeats: u32,
    /// All streams of operations are made from it
    #[arg(long, default_value_t = 42, help_heading = "Conditions")]
    pub seed: u64,
    /// Where stores are made: the medium to be measured
    #[arg(long, default_value = ".", help_heading = "Conditions")]
    pub directory: PathBuf,
    /// A few thousand records and operations, small buffers, one run: to see that it works
    #[arg(long, help_heading = "Conditions")]
    pub tiny: bool,

    /// Print everything as JSON instead of tables
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write a report with plots, one file that needs nothing else
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
}

/// What an update writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Update {
    /// One field of ten.
    Field,
    /// The whole value.
    Value,
}

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// YCSB's scrambled zipfian.
    Zipfian,
    /// All alike.
    Uniform,
    /// The newest most.
    Latest,
    /// Zipfian over ranges of neighbouring keys.
    Clustered,
}

/// Regimes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Memory {
    /// All data may be in memory.
    Fits,
    /// A third of it.
    Bounded,
    /// One after the other.
    Both,
}

/// `STORE.OPTION=VALUE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnOption {
    /// The store.
    pub store: String,
    /// The option, by its own name.
    pub name: String,
    /// What it is set to.
    pub value: String,
}

impl FromStr for OwnOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("{text:?} is not STORE.OPTION=VALUE, as in terrace.table_bytes=1048576");
        let (path, value) = text.split_once('=').ok_or_else(wrong)?;
        let (store, name) = path.split_once('.').ok_or_else(wrong)?;
        if store.is_empty() || name.is_empty() {
            return Err(wrong());
        }
        Ok(OwnOption {
            store: store.into(),
            name: name.into(),
            value: value.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_a_store_has_three_parts() {
        let parsed: OwnOption = "terrace.read_buffer.share_percent=25".parse().unwrap();
        assert_eq!(
            (
                parsed.store.as_str(),
                parsed.name.as_str(),
                parsed.value.as_str()
            ),
            ("terrace", "read_buffer.share_percent", "25")
        );
        for wrong in ["terrace", "terrace=1", ".x=1", "terrace.=1"] {
            assert!(wrong.parse::<OwnOption>().is_err(), "{wrong}");
        }
    }
}
