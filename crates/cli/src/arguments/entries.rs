//! Entries, one by one and in order.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::stores::{InKeyspace, KeyRange, ReadStore, WrittenStore};

#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    pub store: WrittenStore,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    /// The key
    pub key: OsString,
    /// The value; read from standard input if it is not given
    pub value: Option<OsString>,
    /// Key and value are given in hexadecimal
    #[arg(long)]
    pub hex: bool,
    /// Return only when the write survives a power cut
    #[arg(long)]
    pub sync: bool,
}

#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    pub store: ReadStore,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    #[command(flatten)]
    pub shown: ShownKey,
}

/// A key, and how its value is printed.
#[derive(Debug, Args)]
pub struct ShownKey {
    /// The key
    pub key: OsString,
    /// The key is given, and the value printed, in hexadecimal
    #[arg(long)]
    pub hex: bool,
    /// Print the value's bytes and nothing else, not even a newline
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Print key and value as a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Del {
    #[command(flatten)]
    pub store: WrittenStore,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    #[command(flatten)]
    pub removed: Removed,
}

/// The key or the range to remove.
#[derive(Debug, Args)]
pub struct Removed {
    /// The key
    #[arg(
        required_unless_present_any = ["from", "to", "prefix"],
        conflicts_with_all = ["from", "to", "prefix"]
    )]
    pub key: Option<OsString>,
    #[command(flatten)]
    pub range: KeyRange,
    /// Return only when the removal survives a power cut
    #[arg(long)]
    pub sync: bool,
}

#[derive(Debug, Args)]
pub struct Scan {
    #[command(flatten)]
    pub store: ReadStore,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    #[command(flatten)]
    pub listing: Listing,
}

/// The entries to print, and how.
#[derive(Debug, Args)]
pub struct Listing {
    #[command(flatten)]
    pub range: KeyRange,
    /// Maximum number of entries
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,
    /// Print keys without their values
    #[arg(long)]
    pub keys_only: bool,
    /// How entries are printed [default: utf8, or hex with --hex]
    #[arg(long)]
    pub format: Option<EntryFormat>,
}

#[derive(Debug, Args)]
pub struct Count {
    #[command(flatten)]
    pub store: ReadStore,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    #[command(flatten)]
    pub counted: Counted,
}

/// The keys to count.
#[derive(Debug, Args)]
pub struct Counted {
    #[command(flatten)]
    pub range: KeyRange,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EntryFormat {
    Utf8,
    Hex,
    Json,
}
