//! The shell, and the commands on its lines.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use super::entries::{Counted, Listing, Removed, ShownKey};
use super::stores::{InKeyspace, WrittenStore};

#[derive(Debug, Args)]
pub struct Shell {
    #[command(flatten)]
    pub store: WrittenStore,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    /// Stop at the first line that fails
    #[arg(long)]
    pub bail: bool,
}

/// A line of the shell.
#[derive(Debug, Parser)]
#[command(
    multicall = true,
    max_term_width = 100,
    after_help = "\
Words are separated by spaces. Quotes and backslashes work as in a shell, and # begins a comment.
Each command tells its options with --help."
)]
pub struct ShellLine {
    #[command(subcommand)]
    pub command: ShellCommand,
}

#[derive(Debug, Subcommand)]
pub enum ShellCommand {
    /// Print a key's value
    Get(ShownKey),
    /// Set a key's value
    Put(ShellPut),
    /// Remove a key, or every key of a range
    Del(Removed),
    /// Print keys and values in order
    Scan(Listing),
    /// Count keys
    Count(Counted),
    /// Go on in another keyspace; the first put makes one that is not there
    Use {
        /// The keyspace
        name: String,
    },
    /// Print the names of the keyspaces
    Keyspaces,
    /// Return when all writes so far survive a power cut
    Sync,
    /// Write everything to tables
    Flush,
    /// Leave
    #[command(alias = "quit")]
    Exit,
}

#[derive(Debug, Args)]
pub struct ShellPut {
    /// The key
    pub key: OsString,
    /// The value
    pub value: OsString,
    /// Key and value are given in hexadecimal
    #[arg(long)]
    pub hex: bool,
    /// Return only when the write survives a power cut
    #[arg(long)]
    pub sync: bool,
}
