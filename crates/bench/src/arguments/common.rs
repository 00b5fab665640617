//! Arguments that workloads have in common: the stores, their settings, and the conditions of runs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

/// What all contests have.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Which stores, and what they are told
    #[command(flatten)]
    pub stores: StoreArguments,

    /// Memory: as much as the data needs, or a memory cgroup that holds a third of it
    #[arg(long, value_enum, default_value_t = Memory::Fits, help_heading = "Conditions")]
    pub memory: Memory,
    /// The bound of a bounded run, page cache included, MiB [default: a third of the data]
    #[arg(long, value_name = "MIB", help_heading = "Conditions")]
    pub memory_mib: Option<u64>,
    /// Client threads [default: 1, for kvbdev 15]
    #[arg(long, help_heading = "Conditions")]
    pub clients: Option<u32>,
    /// Open loop: operations a second, all clients together; loads excepted, unless all is loading,
    /// and single scans of everything
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
    /// How often, and where
    #[command(flatten)]
    pub runs: RunArguments,

    /// Write a report with plots, one file that needs nothing else
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
}

/// Which stores take part, and what all of them are told.
#[derive(Clone, Debug, Args)]
pub struct StoreArguments {
    /// Stores to compare; the first is set against the best of the others
    #[arg(
        long = "stores",
        value_name = "STORES",
        value_delimiter = ',',
        help_heading = "Stores"
    )]
    pub names: Vec<String>,
    /// An option of one store, by its own name: terrace.arena_bytes=16777216
    #[arg(long, value_name = "STORE.OPTION=VALUE", help_heading = "Stores")]
    pub set: Vec<OwnOption>,
    /// Every write asks for a sync: what was acknowledged survives a power cut (on a tmpfs Terrace
    /// wants --set terrace.constants.emulate_power_safety=true)
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
    /// buffers leave; a store that is advised to read past the page cache has most of it, and smaller
    /// write buffers]
    #[arg(long, value_name = "MIB", help_heading = "Stores")]
    pub cache_mib: Option<u64>,
    /// Threads for flushes and compactions together
    #[arg(long, default_value_t = 2, help_heading = "Stores")]
    pub background_threads: u32,
    /// Bits of filter a key
    #[arg(long, default_value_t = 10, help_heading = "Stores")]
    pub filter_bits: u32,
}

/// How often, from which seed and where, and how it is shown.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
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
}

impl RunArguments {
    /// Returns how often each store is run.
    pub fn repeats(&self) -> u32 {
        if self.tiny { 1 } else { self.repeats.max(1) }
    }
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
    /// Its value.
    pub value: String,
}

impl FromStr for OwnOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("{text:?} is not STORE.OPTION=VALUE, as in terrace.arena_bytes=1048576");
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
