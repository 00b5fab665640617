//! Commands that ask no store of the user's.

use std::path::PathBuf;

use clap::Args;

fn memory(text: &str) -> Result<u64, String> {
    let bytes = terrace_tools::options::size(text);
    bytes.ok_or_else(|| "a size is expected, such as 536870912, 512MiB or 2GiB".to_owned())
}

#[derive(Debug, Args)]
pub struct ShownOptions {
    /// Option to show alone, such as level_ratio or read_buffer.policy
    pub name: Option<String>,
    /// Show the sizes that follow from a bound on the store's memory, such as 512MiB
    #[arg(long, value_name = "SIZE", value_parser = memory, conflicts_with_all = ["name", "json"])]
    pub memory: Option<u64>,
    /// Print a JSON object, with the options of keyspaces, too
    #[arg(long)]
    pub json: bool,
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
