//! What can be typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the key was not found
  2  wrong usage, or a row that cannot be imported
  3  corruption found, a file of an unknown format, or unflushed writes lost
  4  the store is open elsewhere
  5  no space left
  6  reading or writing failed
  7  there is no store in the directory, or no such keyspace in the store

The store is a directory, given by --store or TERRACE_STORE. `put` and `import` make
it if there is none; `get`, `scan`, `stats`, `levels` and `verify` open it read-only.
While another process has it open, `stats`, `levels`, `explain` and `events` ask that
one, if it lets itself be asked.
A store whose arenas are in a directory of their own needs --region-dir, or
TERRACE_REGION_DIR, every time.";

/// An ordered key-value store that survives kill -9
#[derive(Debug, Parser)]
#[command(name = "terrace", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set a key's value
    #[command(after_help = "\
Examples:
  terrace put -d ./cities oslo Norway
  terrace put -d ./cities --sync map < map.png
  terrace put -d ./cities --hex 00ff cafe
  terrace put -d ./cities --keyspace rivers rhine 1233")]
    Put(Put),
    /// Print a key's value
    #[command(after_help = "\
Examples:
  terrace get -d ./cities oslo
  terrace get -d ./cities --raw map > map.png
  terrace get -d ./cities --json oslo | jq -r .value")]
    Get(Get),
    /// Remove a key; one that is absent is no error
    #[command(after_help = "\
Examples:
  terrace del -d ./cities oslo
  terrace del -d ./cities --hex 00ff")]
    Del(Del),
    /// Print keys and values in order
    #[command(after_help = "\
Formats:
  utf8  key, tab, value; control characters, backslashes and bytes that are not UTF-8
        are written as \\t, \\n, \\r, \\\\ or \\xNN
  hex   the same, with both in hexadecimal
  json  an object a line: {\"key\":...,\"value\":...}; what is not UTF-8 appears as
        \"key_hex\" or \"value_hex\"

Examples:
  terrace scan -d ./cities
  terrace scan -d ./cities --prefix os --limit 10
  terrace scan -d ./cities --from a --to n --reverse --format json")]
    Scan(Scan),
    /// Import a CSV, TSV or JSON Lines file
    #[command(after_help = "\
The value of a row is the whole row as a JSON object, or one column with --value. Rows are
written in batches; each batch is there as a whole or not at all.

With --resume each batch holds the position behind it, too (in the keyspace terrace.imports,
under the file's whole path), so that both are there or neither. An import that was killed goes
on there when it is run again, and one that had ended takes the rows that were appended since. The
input is read from its start and must begin with the rows that were read before. An import without
--resume removes the position.

Examples:
  terrace import -d ./people people.csv --key id
  terrace import -d ./people people.jsonl --key id --value name
  zcat log.tsv.gz | terrace import -d ./log - --format tsv --key time --skip-bad
  terrace import -d ./people people.csv --key id --resume
  terrace import -d ./people people.csv --key id --events --json 2> events.jsonl
  terrace import -d ./unicode data/UnicodeData.txt --format csv --delimiter ';' --no-header \\
      --columns code,name,category --key code")]
    Import(Import),
    /// Export entries to a CSV, TSV or JSON Lines file
    #[command(after_help = "\
A row has two columns, key and value, and the entries are in the order of their keys, as the
store is at one moment. CSV holds any bytes. TSV has no quotes: tabs and ends of lines in an
entry are an error. In JSON Lines what is not UTF-8 appears as \"key_hex\" or \"value_hex\". With
--hex all keys and values are in hexadecimal, in each of the formats, and the columns are called
key_hex and value_hex.

An export that was cut short goes on behind its last whole row with --resume; the rows that
follow are then of the store's present state.

Examples:
  terrace export -d ./cities cities.csv
  terrace export -d ./cities cities.csv --resume
  terrace export -d ./cities - --prefix os | gzip > os.jsonl.gz
  terrace export -d ./cities cities.tsv --hex
  terrace import -d ./copy cities.tsv --hex --key key_hex --value value_hex")]
    Export(Export),
    /// Merge until no level is over its target, or merge a range of keys into one level
    #[command(after_help = "\
A range of keys, or all of a keyspace's with --all, is merged although no level is over its
target: one version of each key is left, and what was deleted takes no space.

Examples:
  terrace compact -d ./cities
  terrace compact -d ./cities --prefix os
  terrace compact -d ./cities --all --json | jq .written_bytes")]
    Compact(Compact),
    /// Copy a store into a new directory, as it is at one moment
    #[command(after_help = "\
Tables are linked where the new directory is on the same file system, so that a copy takes little
time and space; it shares no file that is written to.

Examples:
  terrace checkpoint -d ./cities ./cities-monday")]
    Checkpoint(CheckpointTo),
    /// Write what is in arenas to tables
    #[command(after_help = "\
Afterwards the arenas may be moved to another --region-dir, or lost.

Examples:
  terrace flush -d ./cities")]
    Flush(Maintenance),
    /// Show what a store holds and how it was recovered
    #[command(after_help = "\
Examples:
  terrace stats -d ./cities
  terrace stats -d ./cities --json | jq .sequences
  terrace stats -d ./cities --prometheus
  terrace stats -d ./cities --follow")]
    Stats(Stats),
    /// Draw the levels of a store
    #[command(after_help = "\
Each line is a sub-level, the youngest first; its bar shows which part of the keys its tables
cover. Its age is that of the oldest flush in it, counted from 1: the larger the younger; `base`
is what the leveled policy keeps in a level, older than all else. Below a level stands how many
versions it has for each of its keys, estimated from the sketches in its tables, and what merges
still have to do.

Only the process that has the store open knows what it merged: --history asks it. `predicted` are
the entries that a merge was to drop, if that was why it was chosen.

Examples:
  terrace levels -d ./cities
  terrace levels -d ./cities --history
  terrace levels -d ./cities --json | jq .keyspaces[0].duplicates")]
    Levels(Levels),
    /// Tell what the process that has a store open does in the background
    #[command(after_help = "\
The process is asked through the file `inspect` in the store's directory: `terrace import` and
`terrace compact` open it, and programs with Options::inspect.

Examples:
  terrace events -d ./cities
  terrace events -d ./cities --follow --json | jq .event")]
    Events(Events),
    /// Explain what a store would do, and why
    #[command(after_help = "\
Examples:
  terrace explain compaction -d ./cities
  terrace explain compaction --help")]
    Explain {
        /// What is to be explained
        #[command(subcommand)]
        what: Explain,
    },
    /// Find out what a store would cost, without one
    #[command(after_help = "\
Examples:
  terrace simulate compaction --keys 1e9
  terrace simulate compaction --help")]
    Simulate {
        /// What is to be simulated
        #[command(subcommand)]
        what: Simulate,
    },
    /// Check every checksum and every age rule
    #[command(after_help = "\
Nothing is changed. The exit code is 3 if anything is wrong.

Examples:
  terrace verify -d ./cities
  terrace verify -d ./cities --json")]
    Verify(Report),
    /// Make a damaged store openable again, with everything that can still be read
    #[command(after_help = "\
What is damaged is kept beside the store, with .damaged behind its name. A store without damage is
left as it is. If the manifest is lost, a new one is made from the tables and the arenas.

KEYS THAT WERE DELETED MAY BE THERE AGAIN: what deleted them may have been in a table or a block
that no longer exists. Keep a copy of the directory until the result has been looked at. A device
that fails to read is to be copied first, and the copy repaired.

Examples:
  terrace repair -d ./cities
  terrace repair -d ./cities --region-dir /mnt/fast/cities
  terrace repair -d ./cities --json | jq .deleted_keys_may_be_back")]
    Repair(Maintenance),
    /// Print the options of a store with their defaults, as --options reads them
    #[command(after_help = "\
The text is TOML; sizes are in bytes. What the file leaves out has its default. Options without
a default are not printed: durability (\"CrashSafe\", \"PowerSafe\" or \"Volatile\"),
persist_every_seconds, region_dir and background_bytes_per_second.

Examples:
  terrace options > store.toml
  terrace import -d ./people people.csv --key id --options store.toml")]
    Options,
    /// Show what is in a table, an arena or a manifest
    #[command(after_help = "\
The kind of file is told by its name: N.table, arena-N or MANIFEST-N.

Examples:
  terrace dump ./cities/MANIFEST-000001
  terrace dump ./cities/7.table --json | head")]
    Dump(Dump),
    /// Run a workload on Terrace in one or several configurations, and show what it costs
    #[command(after_help = "\
Stores of other makers take part in `peers compare`, in the directory peers/ of the sources, with the
same workloads and options.

Examples:
  terrace bench ycsb c a
  terrace bench reopen
  terrace bench ycsb --help")]
    Bench {
        /// The workload
        #[command(subcommand)]
        what: terrace_bench::arguments::Bench,
    },
    /// Hold a published experiment again, and show its numbers beside those found here
    #[command(after_help = "\
Examples:
  terrace reproduce wbl
  terrace reproduce plexdb --html plexdb.html
  terrace reproduce wbl --help")]
    Reproduce {
        /// The experiment
        #[command(subcommand)]
        what: terrace_bench::reproduce::arguments::Reproduce,
    },
    /// Print a shell's completions of these commands
    #[command(after_help = "\
Examples:
  terrace completions bash > ~/.local/share/bash-completion/completions/terrace
  terrace completions fish > ~/.config/fish/completions/terrace.fish")]
    Completions(Completions),
    /// Write the manual's pages, one for each command, into a directory
    #[command(after_help = "\
Examples:
  terrace man ~/.local/share/man/man1")]
    Man(Man),
    /// Import a real data set, query it, kill the process in mid-import, and check what survived
    #[command(after_help = "\
Examples:
  terrace demo
  terrace demo --directory ./demo --keep")]
    Demo(Demo),
    /// The demo's child, which is killed
    #[command(hide = true)]
    DemoChild(DemoChild),
}

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
}

/// The keys of a store that are meant.
#[derive(Debug, Args)]
pub struct InKeyspace {
    /// The keyspace; `put` and `import` make it if there is none
    #[arg(
        long = "keyspace",
        value_name = "NAME",
        default_value = "default",
        hide_default_value = true
    )]
    pub name: String,
}

/// A store that is opened to write.
#[derive(Debug, Args)]
pub struct WrittenStore {
    #[command(flatten)]
    pub directory: StoreDirectory,
    /// Options of the store, as TOML; see `terrace options`
    #[arg(long, env = "TERRACE_OPTIONS", value_name = "FILE")]
    pub options: Option<PathBuf>,
}

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
    pub store: StoreDirectory,
    #[command(flatten)]
    pub keyspace: InKeyspace,
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
    /// The key
    pub key: OsString,
    /// The key is given in hexadecimal
    #[arg(long)]
    pub hex: bool,
    /// Return only when the removal survives a power cut
    #[arg(long)]
    pub sync: bool,
}

/// Which keys.
#[derive(Debug, Args)]
pub struct KeyRange {
    /// The first key
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// The key before which to end
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub prefix: Option<OsString>,
    /// Keys are given, and entries written, in hexadecimal
    #[arg(long)]
    pub hex: bool,
}

#[derive(Debug, Args)]
pub struct Scan {
    #[command(flatten)]
    pub store: StoreDirectory,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    #[command(flatten)]
    pub range: KeyRange,
    /// At most so many entries
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,
    /// How entries are printed [default: utf8, or hex with --hex]
    #[arg(long)]
    pub format: Option<EntryFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EntryFormat {
    Utf8,
    Hex,
    Json,
}

#[derive(Debug, Args)]
pub struct Import {
    #[command(flatten)]
    pub store: WrittenStore,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    /// The file; `-` is standard input
    pub file: PathBuf,
    /// The column that is the key
    #[arg(long, value_name = "COLUMN")]
    pub key: String,
    /// The column that is the value
    #[arg(long, value_name = "COLUMN", conflicts_with = "value_json")]
    pub value: Option<String>,
    /// Keys and values are in hexadecimal in the file
    #[arg(long, requires = "value")]
    pub hex: bool,
    /// The row as a JSON object is the value (the default)
    #[arg(long)]
    pub value_json: bool,
    /// The file's format [default: by its extension: .csv, .tsv or .tab, .jsonl or .ndjson]
    #[arg(long)]
    pub format: Option<FileFormat>,
    /// What stands between two fields [default: a comma, or a tab in TSV]
    #[arg(long, value_name = "CHARACTER")]
    pub delimiter: Option<String>,
    /// The first row is data; columns are called 1, 2, 3, ... unless --columns names them
    #[arg(long)]
    pub no_header: bool,
    /// The columns' names, in order, instead of the first row's
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Rows in a batch
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch_rows: u32,
    /// Go on only when each batch survives a power cut
    #[arg(long)]
    pub sync: bool,
    /// Go on behind the rows that an earlier import of this file with --resume has written
    #[arg(long)]
    pub resume: bool,
    /// Skip rows that cannot be used, and count them
    #[arg(long)]
    pub skip_bad: bool,
    /// Tell on standard error what the store does in the background: flushes, merges, deletions,
    /// and where writers had to wait
    #[arg(long)]
    pub events: bool,
    /// Print the result, and events, as JSON objects
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    Csv,
    Tsv,
    Jsonl,
}

#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    pub store: StoreDirectory,
    #[command(flatten)]
    pub keyspace: InKeyspace,
    /// The file, which must not be there yet; `-` is standard output
    pub file: PathBuf,
    #[command(flatten)]
    pub range: KeyRange,
    /// The file's format [default: by its extension: .csv, .tsv or .tab, .jsonl or .ndjson; jsonl on
    /// standard output]
    #[arg(long)]
    pub format: Option<FileFormat>,
    /// Go on behind the last whole row that the file has, if it is there
    #[arg(long)]
    pub resume: bool,
    /// Print the result as a JSON object
    #[arg(long)]
    pub json: bool,
}

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
pub struct CheckpointTo {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// The new directory
    pub directory: PathBuf,
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The directory, which is made if it is missing
    pub directory: PathBuf,
}

#[derive(Debug, Args)]
pub struct Levels {
    #[command(flatten)]
    pub report: Report,
    /// List the last merges and moves instead, with what each read, wrote and dropped
    #[arg(long)]
    pub history: bool,
}

#[derive(Debug, Subcommand)]
pub enum Explain {
    /// What would be merged now, what else was weighed, and what is missing for the next merge
    #[command(after_help = "\
A store that another process has open is asked there, and explains itself by the options that it has
there. One that nobody has open does not know its policy: --options tells. Nothing is merged by this.

A description is a TOML file: [options] as in --options, the number of live `keys`, and one
[[sub_levels]] for each, from the youngest, with `level`, `bytes`, `entries` and `tombstones`.
--write-description makes one of a store, with each of its tables. It holds their first and last keys.

1.2 is the second sub-level of level 1, counted from the youngest.

Examples:
  terrace explain compaction -d ./cities
  terrace explain compaction -d ./cities --options store.toml --json | jq .keyspaces[0].choice
  terrace explain compaction -d ./cities --write-description levels.toml
  terrace explain compaction --description levels.toml")]
    Compaction(ExplainCompaction),
}

#[derive(Debug, Args)]
pub struct ExplainCompaction {
    /// The store's directory; not needed with --description, which goes first
    #[arg(short = 'd', long = "store", env = "TERRACE_STORE", value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// The directory of its arenas, if that is not the store's own
    #[arg(long, env = "TERRACE_REGION_DIR", value_name = "DIR")]
    pub region_dir: Option<PathBuf>,
    /// Open although unflushed writes are missing with their region; what tables hold is kept
    #[arg(long)]
    pub accept_region_loss: bool,
    /// Options of the store, as TOML, if nobody has it open; see `terrace options`
    #[arg(long, env = "TERRACE_OPTIONS", value_name = "FILE")]
    pub options: Option<PathBuf>,
    /// Explain levels that are described in a file, instead of a store's
    #[arg(long, value_name = "FILE")]
    pub description: Option<PathBuf>,
    /// Only this keyspace
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Describe a keyspace of the store in a file, the default one if none is named; `-` is standard
    /// output
    #[arg(long, value_name = "FILE")]
    pub write_description: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Simulate {
    /// What compaction policies would write, and the space that they would take, for a load of any size
    #[command(after_help = "\
The policies are those of a store, and choose merges of tables of which only sizes are known: nothing is
read or written, and 1e12 records take as long as a few. Merges take no time unless --write-mb-s and
--merge-mb-s are given. What is shown is within a tenth of what a store does.

A policy is leveled, tiered, lazy, dedup, score, or trie (LSM-trie, of which there is no store); behind a
colon may follow dedup's threshold or the least score.

Sizes are those of --options; without, multiples of the write buffer: tables as large as one, level 0
merged at four, four in level 1, each level ten times the one above.

written   bytes of tables written for each byte that came in, until the last write
settled   the same until nothing is left to merge
space     bytes of tables for each of the distinct records: the mean over the second half of the writes, the
          most at any moment, and what is left when nothing is left to merge
runs      sub-levels, each of which a read may have to ask: the mean over the second half of the writes

Examples:
  terrace simulate compaction
  terrace simulate compaction --keys 1e12 --policies leveled,tiered,dedup:1.2,score:0.3,trie
  terrace simulate compaction --keys 1e8 --zipfian 0.99 --fill-first
  terrace simulate compaction --options store.toml --write-mb-s 50 --merge-mb-s 200
  terrace simulate compaction --json | jq '.[] | [.policy, .outcome.space.mean]'")]
    Compaction(SimulateCompaction),
}

#[derive(Debug, Args)]
pub struct SimulateCompaction {
    /// Distinct keys; 1e12 is a number, too
    #[arg(long, value_name = "N", default_value = "1e6", value_parser = number)]
    pub keys: u64,
    /// Writes of each key on average, the first one included
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub writes_per_key: f64,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub key_bytes: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub value_bytes: u64,
    /// Keys are chosen by Zipf's law with this exponent, not uniformly
    #[arg(long, value_name = "EXPONENT", conflicts_with = "shuffled")]
    pub zipfian: Option<f64>,
    /// Each key has from one write to twice as many as on average, all in random order (PlexDB's load)
    #[arg(long, conflicts_with = "fill_first")]
    pub shuffled: bool,
    /// Each key is written once before the rest
    #[arg(long)]
    pub fill_first: bool,
    /// The share of the writes that are deletions
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub deletes: f64,
    /// Bytes of a write buffer [default: a hundredth of the distinct records]
    #[arg(long, value_name = "BYTES", value_parser = number, conflicts_with = "options")]
    pub buffer: Option<u64>,
    /// Options of the store, as TOML; see `terrace options`
    #[arg(long, value_name = "FILE")]
    pub options: Option<PathBuf>,
    /// What is compared
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "leveled,tiered,lazy,dedup:1.2,dedup:1.8,score:0.3,trie"
    )]
    pub policies: Vec<String>,
    /// MB of keys and values that writers would write each second
    #[arg(long, value_name = "MB", requires = "merge_mb_s")]
    pub write_mb_s: Option<f64>,
    /// MB that each thread of merges writes each second
    #[arg(long, value_name = "MB", requires = "write_mb_s")]
    pub merge_mb_s: Option<f64>,
    /// Print everything as JSON, with the course of each load
    #[arg(long)]
    pub json: bool,
}

/// A whole number, as digits or with an exponent.
fn number(text: &str) -> Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1e18).contains(&number) && number.fract() == 0.0 => Ok(number as u64),
        _ => Err("a whole number is expected, such as 1000000 or 1e6".to_owned()),
    }
}

/// A command that shows a store.
#[derive(Debug, Args)]
pub struct Report {
    #[command(flatten)]
    pub store: StoreDirectory,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Stats {
    #[command(flatten)]
    pub store: StoreDirectory,
    /// Print a JSON object, with --follow one a line
    #[arg(long)]
    pub json: bool,
    /// Print metrics in the text format of Prometheus
    #[arg(long, conflicts_with_all = ["json", "follow"])]
    pub prometheus: bool,
    /// Ask the process that has the store open again and again, until it closes it
    #[arg(long)]
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

#[derive(Debug, Args)]
pub struct Demo {
    /// Where to make the two stores [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Leave the stores there, to look at
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
pub struct DemoChild {
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_agree_with_each_other() {
        Arguments::command().debug_assert();
    }
}
