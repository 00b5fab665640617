//! The options of a store, or one option.

use serde_json::json;
use terrace_tools::options::{DescribedOption, all, find, near, toml_within};

use crate::arguments::ShownOptions;
use crate::failure::{Failure, Result};
use crate::output::{print, print_json};

pub fn run(arguments: &ShownOptions) -> Result<()> {
    match (&arguments.name, arguments.json) {
        (None, false) => print(toml_within(arguments.memory)?),
        (None, true) => print_options(&all()?),
        (Some(name), true) => print_options(&known(name)?),
        (Some(name), false) => {
            let entries: Vec<String> = known(name)?.iter().map(ToString::to_string).collect();
            print(entries.join("\n"))
        }
    }
}

fn print_options(options: &[DescribedOption]) -> Result<()> {
    print_json(&json!({ "options": options }))
}

/// Returns the options with a name, or a failure with near names.
fn known(name: &str) -> Result<Vec<DescribedOption>> {
    let found = find(name)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let near = near(name)?.join(", ");
    let near = match near.as_str() {
        "" => String::new(),
        names => format!("; near names are {names}"),
    };
    Err(Failure::Usage(format!(
        "there is no option {name:?}{near}; `terrace options` lists all"
    )))
}
