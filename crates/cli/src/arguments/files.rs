//! Arguments of commands that read or write files of rows.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::stores::{InKeyspace, KeyRange, ReadStore, WrittenStore};

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
    pub store: ReadStore,
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
