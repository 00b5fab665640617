//! What is done to a store.

use std::path::PathBuf;

use clap::Args;

use super::stores::{InKeyspace, KeyRange, WrittenStore};

/// A command that puts a store in order.
#[derive(Debug, Args)]
pub struct Maintenance {
    #[command(flatten)]
    pub store: WrittenStore,
    /// Print the result as a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Repair {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// Take in the tables that openings kept as `n.table.unlisted`
    #[arg(long)]
    pub take_unlisted: bool,
}

#[derive(Debug, Args)]
pub struct Compact {
    #[command(flatten)]
    pub maintenance: Maintenance,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    #[command(flatten)]
    pub range: KeyRange,
    /// All keys of the keyspace
    #[arg(long, conflicts_with_all = ["from", "to", "prefix"])]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct CheckpointTo {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// The new directory
    pub directory: PathBuf,
}
