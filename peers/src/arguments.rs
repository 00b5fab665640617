//! The command line.

use clap::{Parser, Subcommand};

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
    /// Hold a published experiment again, with the other stores where it names them
    #[command(after_help = "\
The same experiments and options as `terrace reproduce`.

Examples:
  peers reproduce wbl --directory /mnt/disk --html wbl.html
  peers reproduce wbl --tiny")]
    Reproduce {
        /// The experiment
        #[command(subcommand)]
        what: terrace_bench::reproduce::arguments::Reproduce,
    },
}
