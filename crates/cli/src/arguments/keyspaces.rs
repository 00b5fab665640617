//! The keyspaces of a store.

use clap::{Args, Subcommand};

use super::looks::Report;
use super::upkeep::Maintenance;

#[derive(Debug, Subcommand)]
pub enum Keyspaces {
    /// List the keyspaces with their tables and bytes
    #[command(after_help = "\
Each line has the tables of a keyspace, the bytes of these tables, and its name. Control characters
and backslashes in a name are written as \\n, \\\\ or \\xNN. Writes that are not in tables yet do not
count.

Examples:
  terrace keyspaces list -d ./cities
  terrace keyspaces list -d ./cities --json | jq -r '.keyspaces[].name'")]
    List(Report),
    /// Give a keyspace another name
    #[command(after_help = "\
The new name is durable when the command ends, and keys, values and options stay. The keyspace
`default` keeps its name. A store with a keyspace that was renamed is refused by releases that do
not know this.

If another process has the store open and lets itself be asked, that process does it, and goes on.

Examples:
  terrace keyspaces rename -d ./cities rivers streams
  terrace keyspaces rename -d ./cities recovered-2 rivers")]
    Rename(RenameKeyspace),
    /// Drop a keyspace with all that is in it
    #[command(after_help = "\
The keyspace is gone when the command ends; nothing brings it back. The keyspace `default` cannot
be dropped. The exit code is 7 if there is no such keyspace, unless --if-exists is given.

If another process has the store open and lets itself be asked, that process does it, and its own
reads and writes of the keyspace fail from then on.

Examples:
  terrace checkpoint -d ./cities ./cities-before
  terrace keyspaces drop -d ./cities rivers
  terrace keyspaces drop -d ./cities --if-exists rivers --json")]
    Drop(DropKeyspace),
}

#[derive(Debug, Args)]
pub struct RenameKeyspace {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// The present name
    pub old: String,
    /// The new name, of 1 to 255 bytes
    pub new: String,
}

#[derive(Debug, Args)]
pub struct DropKeyspace {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// The name
    pub name: String,
    /// Do nothing if there is no such keyspace
    #[arg(long)]
    pub if_exists: bool,
}
