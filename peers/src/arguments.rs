//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use terrace::PersistMethod;

use crate::settings::Settings;
use crate::stores::StoreName;
use crate::workloads::{Scale, Workload};

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
The same workloads and options as `terrace bench`.

Examples:
  peers compare ycsb a b c d f --memory both --html ycsb.html
  peers compare ycsb c --stores terrace,rocksdb,lmdb --clients 4
  peers compare ycsb a --paced 70
  peers compare db-bench fillrandom readrandom --stores terrace,rocksdb,leveldb")]
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
    /// Run workloads on stores, each run in a process and a directory of its own, and compare
    Run(RunArguments),
    /// One phase of one run, as `run` starts it
    #[command(hide = true)]
    Measure { job: String },
}

#[derive(Args)]
pub struct RunArguments {
    /// The stores, in the order in which they take turns
    #[arg(long, value_enum, value_delimiter = ',')]
    stores: Vec<StoreName>,
    /// The workloads
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Rows to load
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(2..=1 << 40))]
    rows: u64,
    /// Bytes of a value; a key has 16
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    value_bytes: u32,
    /// Load no faster than this, to compare what stores need for the same work
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    rows_per_second: Option<u64>,
    /// Point reads of each kind; scans read as many rows
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    reads: u64,
    /// Durable writes for each number of threads
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(8..=1 << 40))]
    durable_writes: u64,
    /// Threads that flush and merge, of each store
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    background_threads: u32,
    /// How Terrace's new writes reach its arenas: auto, written, mapped or dax
    #[arg(long, default_value_t = PersistMethod::Auto)]
    terrace_method: PersistMethod,
    /// Seed of keys, values and orders
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of each workload on each store
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Where the stores' directories are made, and removed after each run [default: the system's
    /// temporary directory]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// The same for the workload `tmpfs`; a directory on a tmpfs
    #[arg(long, default_value = "/dev/shm")]
    tmpfs_directory: PathBuf,
    /// Print JSON: every run, and medians
    #[arg(long)]
    json: bool,
    /// Every workload once at a scale of seconds, with buffers so small that stores flush and
    /// merge; checks values, measures nothing worth quoting
    #[arg(long, conflicts_with_all = ["rows", "value_bytes", "reads", "durable_writes", "repeats"])]
    tiny: bool,
}

/// What to run, decided.
pub struct Plan {
    pub stores: Vec<StoreName>,
    pub workloads: Vec<Workload>,
    pub settings: Settings,
    pub scale: Scale,
    pub repeats: u32,
    pub directory: PathBuf,
    pub tmpfs_directory: PathBuf,
    pub json: bool,
}

impl RunArguments {
    pub fn plan(self) -> Plan {
        let mut plan = Plan {
            stores: or_all(self.stores),
            workloads: or_all(self.workload),
            settings: Settings {
                background_threads: self.background_threads,
                terrace_method: self.terrace_method.to_string(),
                ..Settings::default()
            },
            scale: Scale {
                rows: self.rows,
                rows_per_second: self.rows_per_second,
                value_bytes: self.value_bytes as usize,
                reads: self.reads,
                durable_writes: self.durable_writes,
                seed: self.seed,
            },
            repeats: self.repeats,
            directory: self.directory.unwrap_or_else(std::env::temp_dir),
            tmpfs_directory: self.tmpfs_directory,
            json: self.json,
        };
        if self.tiny {
            plan.repeats = 1;
            plan.settings.buffer_bytes = 256 << 10;
            plan.scale = Scale {
                rows: 5_000,
                rows_per_second: None,
                value_bytes: 200,
                reads: 2_000,
                durable_writes: 64,
                seed: self.seed,
            };
        }
        plan
    }
}

fn or_all<T: clap::ValueEnum>(chosen: Vec<T>) -> Vec<T> {
    if chosen.is_empty() {
        T::value_variants().to_vec()
    } else {
        chosen
    }
}
