//! Commands to a storage node, through the network or the kernel.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Kv {
    /// Set a key's value
    #[command(after_help = "\
The value is durable when the command ends, in the domain of its namespace.

Examples:
  terrace kv put hello world
  terrace kv put -a 192.0.2.7:4420 model-0001 < cache.bin
  terrace kv put --if-absent --hex 00ff cafe
  terrace kv put --local --namespace 2 hello world")]
    Put(KvPut),
    /// Print a key's value
    #[command(after_help = "\
Examples:
  terrace kv get hello
  terrace kv get --raw model-0001 > cache.bin
  terrace kv get --device /dev/ng0n1 hello")]
    Get(KvGet),
    /// Remove a key
    #[command(after_help = "\
A missing key is no error.

Examples:
  terrace kv del hello")]
    Del(KvKey),
    /// Ask whether a key exists
    #[command(after_help = "\
The exit code is 0 if it exists and 1 if not.

Examples:
  terrace kv exists hello && echo it is there")]
    Exists(KvKey),
    /// Print the keys of a namespace
    #[command(after_help = "\
The keys are in the order of the node's index, which is the same each time: by hash, or by their
bytes where an LSM-tree serves the namespace.

Examples:
  terrace kv list --limit 10
  terrace kv list --from hello")]
    List(KvList),
}

/// The node and the namespace.
#[derive(Debug, Args)]
pub struct KvNode {
    /// The node's address
    #[arg(
        short,
        long,
        env = "TERRACE_NODE",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:4420"
    )]
    pub address: String,
    /// The subsystem; may be left out if the node has one only
    #[arg(long, env = "TERRACE_SUBSYSTEM", value_name = "NQN")]
    pub subsystem: Option<String>,
    /// The namespace's number
    #[arg(short, long, default_value_t = 1)]
    pub namespace: u32,
    /// The name of this host
    #[arg(
        long,
        env = "TERRACE_HOST_NQN",
        value_name = "NQN",
        default_value = "nqn.2026-11.org.terrace:command-line"
    )]
    pub host_nqn: String,
    /// A file of secrets as `terrace node serve` has it, with a line of this host
    #[arg(long, env = "TERRACE_SECRETS", value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    /// Check headers and data by CRC32C
    #[arg(long)]
    pub digests: bool,
    /// Go through this device of Linux, /dev/ngXnY, in place of the address; it must be of the
    /// namespace
    #[arg(long, value_name = "PATH", conflicts_with = "digests")]
    pub device: Option<PathBuf>,
    /// Go through the device of Linux that is of the namespace
    #[arg(long, conflicts_with_all = ["device", "digests"])]
    pub local: bool,
}

#[derive(Debug, Args)]
pub struct KvPut {
    #[command(flatten)]
    pub node: KvNode,
    /// The key, 1 to 16 bytes
    pub key: OsString,
    /// The value; read from standard input if it is not given
    pub value: Option<OsString>,
    /// Key and value are given in hexadecimal
    #[arg(long)]
    pub hex: bool,
    /// Only if the key exists
    #[arg(long, conflicts_with = "if_absent")]
    pub if_exists: bool,
    /// Only if the key does not exist
    #[arg(long)]
    pub if_absent: bool,
}

#[derive(Debug, Args)]
pub struct KvGet {
    #[command(flatten)]
    pub node: KvNode,
    /// The key, 1 to 16 bytes
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
pub struct KvKey {
    #[command(flatten)]
    pub node: KvNode,
    /// The key, 1 to 16 bytes
    pub key: OsString,
    /// The key is given in hexadecimal
    #[arg(long)]
    pub hex: bool,
}

#[derive(Debug, Args)]
pub struct KvList {
    #[command(flatten)]
    pub node: KvNode,
    /// The first key, or the place where it would be
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// Maximum number of keys
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Keys are given and printed in hexadecimal
    #[arg(long)]
    pub hex: bool,
}
