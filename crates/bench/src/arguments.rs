//! Arguments of `terrace bench` and `peers compare`.

mod common;

use clap::{Args, Subcommand, ValueEnum};

pub use common::{Common, Memory, OwnOption, RunArguments, StoreArguments};

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
  terrace bench ycsb g --rate 50000
  terrace bench ycsb c --compress --compression-ratio 0.5
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
  terrace bench db-bench readwhilewriting --writer-rate 60000
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
    /// LinkBench: a social graph in four tables, changed by transactions
    #[command(after_help = "\
Loads the nodes with their links, and goes through the published mix: 69 % reads, most of them lists of
links, and 31 % writes. Adding and deleting a link changes the link, its index and its count in one
transaction. An audit follows each phase: nodes, links and their versions are as many as were acknowledged,
counts equal visible links, and the index equals the table. At full size there are 10,000,000 nodes, 10
loaders and 100 clients.

Examples:
  terrace bench linkbench
  terrace bench linkbench --nodes 100000 --operations 500000 --clients 4
  terrace bench linkbench --memory bounded --html linkbench.html")]
    Linkbench(Linkbench),
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
    /// How soon a store that was killed answers again, and that it has all it acknowledged
    #[command(after_help = "\
Each run is two processes. The first fills an empty store and dies of SIGKILL at the last
acknowledgement. The second opens what is left, reads a record, and then checks every one: a store
that lost one has no figures. Nothing is synced in between, and the page cache stays as warm as the
first process left it. By default three fifths of the write buffers are filled, so that most of the
records have not reached a table.

Examples:
  terrace bench reopen
  terrace bench reopen --stores terrace,terrace-log --repeats 5
  terrace bench reopen --records 1000000 --value-bytes 100 --json | jq '.runs[].open_us'
  terrace bench reopen --durable --tiny")]
    Reopen(Reopen),
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
    /// To what share of their bytes values can be compressed; 1: not at all
    #[arg(long, default_value_t = 1.0)]
    pub compression_ratio: f64,
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
    /// Rows that seekrandom reads behind the one it finds
    #[arg(long, default_value_t = 0, value_name = "ROWS")]
    pub seek_nexts: u64,
    /// Writes a second of the writer of readwhilewriting [default: as many as it can]
    #[arg(long, value_name = "RATE")]
    pub writer_rate: Option<f64>,
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
    /// To what share of their bytes values can be compressed; 1: not at all
    #[arg(long, default_value_t = 1.0)]
    pub compression_ratio: f64,
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
    /// To what share of their bytes values can be compressed
    #[arg(long, default_value_t = 0.5)]
    pub compression_ratio: f64,
    /// How it is run
    #[command(flatten)]
    pub common: Common,
}

/// `linkbench`
#[derive(Clone, Debug, Args)]
pub struct Linkbench {
    /// Nodes to load, each with 4.1 links on average
    #[arg(long, default_value_t = 500_000)]
    pub nodes: u64,
    /// Requests [default: twice as many as nodes]
    #[arg(long)]
    pub operations: Option<u64>,
    /// Client threads of the load [default: as many as --clients, 10 at most]
    #[arg(long)]
    pub loaders: Option<u32>,
    /// How it is run
    #[command(flatten)]
    pub common: Common,
}

/// `reopen`
#[derive(Clone, Debug, Args)]
pub struct Reopen {
    /// Records to write before the kill [default: three fifths of what the write buffers hold]
    #[arg(long)]
    pub records: Option<u64>,
    /// Bytes of a value
    #[arg(long, default_value_t = 1000)]
    pub value_bytes: u32,
    /// Which stores, and what they are told
    #[command(flatten)]
    pub stores: StoreArguments,
    /// How often, and where
    #[command(flatten)]
    pub runs: RunArguments,
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
