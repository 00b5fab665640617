//! Arguments of `terrace reproduce` and `peers reproduce`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::region_model::RegionModel;

/// A published experiment.
#[derive(Clone, Debug, Subcommand)]
pub enum Reproduce {
    /// WBL: write-behind logging in persistent memory (a thesis of 2022)
    #[command(after_help = "\
Figures 2.1 (bandwidth of the region), 4.2 and 4.3 (gains over a store with a write-ahead log), 4.4
(hits in DRAM), 4.5 (against NoveLSM's policy), and what the thesis claims without a figure: that
more MemTables end stalls. Each stands beside the published numbers, and the report ends with every
claim and what is left of it here.

Options, and the figures that they reach:
  --directory, --region-model  all
  --scale    4.2 to 4.5; of stalls only the MemTables, which are smaller below 1
  --clients  4.2, 4.3, 4.5 and stalls; 4.4 always has 4, and 2.1 up to 4, one a processor
  --repeats  4.2, 4.3, 4.5 and stalls; the others are run once
  --seed     all but 2.1
  --tiny     all, in place of --scale and --repeats

The region is a mapped file: in the directory's page cache, or in the DRAM of a tmpfs. That is not
persistent memory; --region-model makes it as slow as some, and marks what it touched.

Examples:
  terrace reproduce wbl --directory /mnt/disk
  terrace reproduce wbl --scale 0.1 --repeats 5 --html wbl.html
  terrace reproduce wbl --directory /dev/shm --region-model optane
  terrace reproduce wbl --region-model 300:2.0:6.6 --json | jq '.claims[]'
  terrace reproduce wbl --tiny")]
    Wbl(Wbl),
    /// PlexDB: deduplication compaction in a tiered LSM-tree (a paper of 2020)
    #[command(after_help = "\
Every key is written ten times, in random order; then keys that are there and keys that are not are
read, and rows in order. Measured are the space that tables take while that goes on, what is written for
each byte that comes in, and throughput: of Terrace leveled, tiered, lazy, and deduplicating at each of
the paper's thresholds, and of the other stores that the program has (`peers reproduce plexdb`: RocksDB leveled and
universal, LevelDB, fjall). The paper's numbers stand beside ours, and the report ends with its claims
and what is left of each.

All stores have the same memory, in the paper's proportion: a write buffer of a hundredth of the distinct
data, 16 bits of filter a key (--filter-bits), 1 GB for metadata beside 20 GB that are written. Files and
levels are the same multiples of a write buffer in all. Tables are read past the page cache where a store can.

Where writes come as fast as a store takes them its merges may lag behind, and space during the load is
then that of what is still to be merged, too. With --rate all have the same time for the same work.

Examples:
  terrace reproduce plexdb --directory /mnt/disk --html plexdb.html --plots plots
  terrace reproduce plexdb --scale 0.02 --points terrace-leveled,terrace-dedup-1.4
  terrace reproduce plexdb --repeats 3 --zipfian
  terrace reproduce plexdb --rate 60000
  terrace reproduce plexdb --json | jq '.figures.updates.points[] | [.name, .space.mean.median]'
  terrace reproduce plexdb --tiny")]
    Plexdb(Plexdb),
    /// KVBDEV: a key-value store on the storage node (a paper of 2022)
    #[command(after_help = "\
db_bench's fillsequential with 15 client threads, keys of 4 B and values of 32 KB: the storage node's keys over
NVMe/TCP, beside an LSM tree on the host whose files are on the same node's blocks (Terrace; the paper has
RocksDB). Without the network, as upper bounds: Terrace and RocksDB on the file system itself (RocksDB is in
`peers reproduce kvbdev`). Once each write is durable, and once none is synced, as the paper presumably ran it.

Then what the paper leaves open: reads, overwrites, values of 100 B, 1 to 15 clients, memory of the node's index,
and how soon a killed system answers again. Each value that is read is compared; a system that loses a pair is
an error.

The node has a file of three times the data in the directory, filled beforehand, and serves on loopback: host and
node share the processors, which the paper's do not.

Examples:
  terrace reproduce kvbdev --directory /mnt/disk --html kvbdev.html
  terrace reproduce kvbdev --scale 0.01 --repeats 5
  terrace reproduce kvbdev --json | jq '.claims[]'
  terrace reproduce kvbdev --json | jq '.figures.measured[] | [.system, .phase, .p99_us.median]'
  terrace reproduce kvbdev --tiny")]
    Kvbdev(Kvbdev),
    /// RocksDB on tiered storage: levels on a hard disk, SATA flash and NVMe flash (2018)
    #[command(after_help = "\
LinkBench on a leveled tree whose levels lie on a hard disk (WD10EZEX), SATA flash (850 PRO) and NVMe flash
(960 PRO). Table 2 has four sizes of data on NVMe flash before SATA flash, by capacity; tables 3 and 4 have nine
placements of 42 GB. Each number stands beside the published one and the one that the cost model predicts.

Then what the paper leaves open: memory that holds all data, and memory for an eighth of them; traffic of each
level and device; a fifth level; latencies; the price of a million requests; and which of the published
differences are noise.

The devices are emulated by their data sheets, and all figures are labelled so. Their files lie in the directory,
which should be in memory. A store is loaded once. Each run has a copy of it, whose tables move to the tiers of
their levels before; repeats begin with other placements.

The default takes a quarter of an hour. --full is the paper's size, with runs of ten minutes: its directory must
hold 500 GB at the speed of memory.

Examples:
  terrace reproduce tiers --html tiers.html
  terrace reproduce tiers --scale 0.01 --seconds 20 --repeats 5
  terrace reproduce tiers --json | jq '.claims[]'
  terrace reproduce tiers --json | jq '.figures.measured[] | [.case, .memory, .per_second.median]'
  terrace reproduce tiers --tiny")]
    Tiers(Tiers),
    /// One run, told on standard input: how the others start their runs
    #[command(hide = true)]
    RunOne,
}

/// `wbl`
#[derive(Clone, Debug, Args)]
pub struct Wbl {
    /// Of the thesis' 40 GB of records and 4 million operations a workload
    #[arg(long, default_value_t = 0.0025)]
    pub scale: f64,
    /// Where stores are made: the medium to be measured
    #[arg(long, default_value = ".")]
    pub directory: PathBuf,
    /// Runs of each store, in turn
    #[arg(long, default_value_t = 3)]
    pub repeats: u32,
    /// Client threads
    #[arg(long, default_value_t = 1)]
    pub clients: u32,
    /// All streams of operations are made from it
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Make the region as slow as persistent memory: `optane`, or
    /// LATENCY_NS:WRITE_GBPS:READ_GBPS
    #[arg(long, value_name = "MODEL")]
    pub region_model: Option<RegionModel>,
    /// A few thousand records, small buffers, one run: to see that it works
    #[arg(long, conflicts_with_all = ["scale", "repeats"])]
    pub tiny: bool,
    /// Print everything as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the report as a page too, one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `plexdb`
#[derive(Clone, Debug, Args)]
pub struct Plexdb {
    /// Of the paper's 20 GB that are written, a tenth of it distinct
    #[arg(long, default_value_t = 0.1)]
    pub scale: f64,
    /// Where stores are made: the medium to be measured
    #[arg(long, default_value = ".")]
    pub directory: PathBuf,
    /// Runs of each point, in turn
    #[arg(long, default_value_t = 1)]
    pub repeats: u32,
    /// Writes a second [default: as many as each store takes, with merges that may lag behind]
    #[arg(long)]
    pub rate: Option<f64>,
    /// Only these points [default: all whose store is there]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub points: Vec<String>,
    /// The same number of writes once more, of keys that are chosen zipfian (0.99): Terrace's points only
    #[arg(long)]
    pub zipfian: bool,
    /// Bits of filter a key, on average
    #[arg(long, value_name = "BITS", default_value_t = super::plexdb::FILTER_BITS)]
    pub filter_bits: u32,
    /// All streams of operations are made from it
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// A few thousand records, small buffers, one run: to see that it works
    #[arg(long, conflicts_with_all = ["scale", "repeats"])]
    pub tiny: bool,
    /// Print everything as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the report as a page too, one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write each plot into this directory too, as an image of its own (SVG)
    #[arg(long, value_name = "DIRECTORY")]
    pub plots: Option<PathBuf>,
}

/// `kvbdev`
#[derive(Clone, Debug, Args)]
pub struct Kvbdev {
    /// Of the paper's 15 million pairs, 491 GB
    #[arg(long, default_value_t = 0.0005)]
    pub scale: f64,
    /// Directory of the node's file and of the stores: the medium to be measured
    #[arg(long, default_value = ".")]
    pub directory: PathBuf,
    /// Runs of each system, in turn
    #[arg(long, default_value_t = 3)]
    pub repeats: u32,
    /// All streams of operations are made from it
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// A few hundred pairs, small buffers, one run: to see that it works
    #[arg(long, conflicts_with_all = ["scale", "repeats"])]
    pub tiny: bool,
    /// Print everything as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the report as a page too, one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write each plot into this directory too, as an image of its own (SVG)
    #[arg(long, value_name = "DIRECTORY")]
    pub plots: Option<PathBuf>,
}

/// `tiers`
#[derive(Clone, Debug, Args)]
pub struct Tiers {
    /// Of the paper's 14 to 56 GB of data
    #[arg(long, default_value_t = 0.004)]
    pub scale: f64,
    /// Time of each run
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub seconds: f64,
    /// Directory of the devices' files: one in memory
    #[arg(long, default_value = "/dev/shm")]
    pub directory: PathBuf,
    /// Runs of each placement, in turn
    #[arg(long, default_value_t = 3)]
    pub repeats: u32,
    /// Client threads, each with one request at a time
    #[arg(long, default_value_t = 16)]
    pub clients: u32,
    /// Seed of the graph and of all requests
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// A few thousand nodes, one run of a moment: to see that it works
    #[arg(long, conflicts_with_all = ["scale", "seconds", "repeats", "full"])]
    pub tiny: bool,
    /// The paper's size of data, in runs of ten minutes
    #[arg(long, conflicts_with_all = ["scale", "seconds"])]
    pub full: bool,
    /// Print everything as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the report as a page too, one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write each plot into this directory too, as an image of its own (SVG)
    #[arg(long, value_name = "DIRECTORY")]
    pub plots: Option<PathBuf>,
}
