//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Terrace beside other stores: the same operations, the same settings, the same machine.
#[derive(Parser)]
#[command(version, about)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a workload on Terrace and other stores in turn, and compare
    #[command(after_help = "\
The same workloads and options as `terrace bench`. README.md has a command for each question.

Examples:
  peers compare ycsb a b c d f --memory both --html ycsb.html
  peers compare ycsb c --stores terrace,rocksdb,lmdb --clients 4
  peers compare ycsb a --paced 70
  peers compare db-bench fillrandom readrandom --stores terrace,rocksdb,leveldb
  peers compare reopen --repeats 5")]
    Compare {
        /// The workload
        #[command(subcommand)]
        what: terrace_bench::arguments::Bench,
    },
    /// Measure all that docs/performance.md shows, and write its tables
    #[command(after_help = "\
Takes hours. What was measured is kept in --results, two files for each comparison: NAME.json, and NAME.html
with plots. It is not measured again, so that an interrupted command goes on where it was. Needs all of
--features rocksdb,lmdb,leveldb, and root for the memory cgroups of bounded runs.

Comparisons: fits-1k, fits-1k-h, fits-1k-uniform, fits-1k-e, fits-1k-clients, bounded-1k-cb, bounded-1k-d,
bounded-1k-af, bounded-1k-h, bounded-1k-ue, bounded-1k-others, durable, paced-fits, paced-bounded, fits-100,
fits-100-e, bounded-100-cb, bounded-100-d, bounded-100-af, bounded-100-h, bounded-100-ue.

Examples:
  peers performance --results r --directory /mnt/disk --document docs/performance.md
  peers performance --results r --directory /mnt/disk --only durable,fits-1k
  peers performance --results r --tables-only --document docs/performance.md")]
    Performance(Performance),
    /// Hold a published experiment again, with the other stores where it names them
    #[command(after_help = "\
The same experiments and options as `terrace reproduce`.

Examples:
  peers reproduce wbl --directory /mnt/disk --html wbl.html
  peers reproduce plexdb --directory /mnt/disk --html plexdb.html
  peers reproduce wbl --tiny")]
    Reproduce {
        /// The experiment
        #[command(subcommand)]
        what: terrace_bench::reproduce::arguments::Reproduce,
    },
    /// Count small transactions of Terrace and other stores: by one client, and by many on few keys
    #[command(after_help = "\
A transaction reads two rows and adds 1 to both, with keys of 16 B and values of 100 B. There are three
measures: one client over a million keys, the same reads and writes without a transaction, and eight
clients on a thousand keys, where transactions overtake each other and run again. The sum of all rows then
tells whether one was lost. Each run has an empty store, and stores take turns.

Examples:
  peers transactions
  peers transactions --stores terrace,rocksdb --directory /mnt/disk
  peers transactions --seconds 2 --repeats 1 --json | jq '.runs[].per_second'")]
    Transactions(Transactions),
}

#[derive(Args)]
pub struct Performance {
    /// Where results are kept
    #[arg(long)]
    pub results: PathBuf,
    /// Where stores are made: the medium to be measured
    #[arg(long, default_value = ".")]
    pub directory: PathBuf,
    /// Only these comparisons
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub only: Vec<String>,
    /// The document whose tables are written anew, as far as there are results for them
    #[arg(long, value_name = "FILE")]
    pub document: Option<PathBuf>,
    /// Measure nothing
    #[arg(long, requires = "document")]
    pub tables_only: bool,
    /// A few thousand operations of each, once: to see that it works
    #[arg(long)]
    pub tiny: bool,
}

#[derive(Args)]
pub struct Transactions {
    /// Stores to compare, of those that have transactions [default: terrace,rocksdb,fjall, as far as they
    /// were compiled in]
    #[arg(long = "stores", value_delimiter = ',', value_name = "STORES")]
    pub names: Vec<String>,
    /// Seconds of each run, after a quarter of them that is not counted
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Runs of each store and measure
    #[arg(long, default_value_t = 3)]
    pub repeats: u32,
    /// Where stores are made: the medium to be measured
    #[arg(long, default_value = ".")]
    pub directory: PathBuf,
    /// Print every run as JSON instead of a table
    #[arg(long)]
    pub json: bool,
}
