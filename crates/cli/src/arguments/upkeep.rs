//! Arguments of commands that maintain a store.

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
pub struct Repair {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// Take in the tables that openings kept as `n.table.unlisted`
    #[arg(long)]
    pub take_unlisted: bool,
    /// Take the arenas of the store with this number (32 hexadecimal digits), where arenas of
    /// several stores lie and no manifest tells which is the right one
    #[arg(long = "arenas-of", value_name = "NUMBER", value_parser = store_number)]
    pub number: Option<u128>,
}

fn store_number(text: &str) -> Result<u128, String> {
    let is_number = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_number);
    number.ok_or_else(|| "a store's number has 32 hexadecimal digits".to_owned())
}

#[derive(Debug, Args)]
pub struct CheckpointTo {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// The new directory
    pub directory: PathBuf,
}
