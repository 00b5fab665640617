//! Which store, and which keys of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

#[derive(Debug, Args)]
pub struct StoreDirectory {
    /// The store's directory
    #[arg(short = 'd', long = "store", env = "TERRACE_STORE", value_name = "DIR")]
    pub path: PathBuf,
    /// The directory of its arenas, if that is not the store's own
    #[arg(long, env = "TERRACE_REGION_DIR", value_name = "DIR")]
    pub region_dir: Option<PathBuf>,
    /// Open although unflushed writes are missing with their region; what tables hold is kept
    #[arg(long)]
    pub accept_region_loss: bool,
    /// Open although tables are missing with their tier; reads of keys that they may hold fail
    #[arg(long)]
    pub accept_tier_loss: bool,
}

/// The keys of a store that are meant.
#[derive(Debug, Args)]
pub struct InKeyspace {
    /// The keyspace; `put`, `import` and `shell` make it if there is none
    #[arg(
        long = "keyspace",
        value_name = "NAME",
        default_value = "default",
        hide_default_value = true
    )]
    pub name: String,
}

/// The patience with an owner of the store.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Wait {
    /// Wait for the store while another process has it open, 10 seconds or this number
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        value_parser = wait_seconds
    )]
    pub wait: Option<Duration>,
}

fn wait_seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds from 0 to 86400 is expected, as in --wait=0.5".to_owned()),
    }
}

/// A store that is opened to read.
#[derive(Debug, Args)]
pub struct ReadStore {
    #[command(flatten)]
    pub directory: StoreDirectory,
    #[command(flatten)]
    pub wait: Wait,
}

/// A store that is opened to write.
#[derive(Debug, Args)]
pub struct WrittenStore {
    #[command(flatten)]
    pub directory: StoreDirectory,
    #[command(flatten)]
    pub wait: Wait,
    /// Options of the store, as TOML; see `terrace options`
    #[arg(long, env = "TERRACE_OPTIONS", value_name = "FILE")]
    pub options: Option<PathBuf>,
}

/// Which keys.
#[derive(Debug, Args)]
pub struct KeyRange {
    /// The first key
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// End of the range, excluded
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub prefix: Option<OsString>,
    /// Keys are given in hexadecimal; keys and values are printed so
    #[arg(long)]
    pub hex: bool,
}
