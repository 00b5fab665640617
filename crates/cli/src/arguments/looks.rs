//! Arguments of commands that show a store.

use std::path::PathBuf;

use clap::Args;

use super::stores::{ReadStore, StoreDirectory};

#[derive(Debug, Args)]
pub struct Levels {
    #[command(flatten)]
    pub report: Report,
    /// List the last merges and moves instead, with what each read, wrote and dropped
    #[arg(long)]
    pub history: bool,
}

/// A command that shows a store.
#[derive(Debug, Args)]
pub struct Report {
    #[command(flatten)]
    pub store: ReadStore,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Stats {
    #[command(flatten)]
    pub store: ReadStore,
    /// Print a JSON object, with --follow one a line
    #[arg(long)]
    pub json: bool,
    /// Print metrics in the text format of Prometheus
    #[arg(long, conflicts_with_all = ["json", "follow"])]
    pub prometheus: bool,
    /// Ask the process that has the store open again and again, until it closes it
    #[arg(long, conflicts_with = "wait")]
    pub follow: bool,
    /// Seconds between two lines of --follow
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1.0,
        requires = "follow"
    )]
    #[arg(value_parser = seconds)]
    pub interval: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 86400 is expected".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct Events {
    #[command(flatten)]
    pub store: StoreDirectory,
    /// Go on with the events to come, until the store is closed
    #[arg(long)]
    pub follow: bool,
    /// Print a JSON object for each event
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Dump {
    /// The file
    pub file: PathBuf,
    /// Print a JSON object for each line
    #[arg(long)]
    pub json: bool,
}
