//! Files that packages ship beside the binary, made from the definitions of its arguments.

use std::fs;

use clap::{Command, CommandFactory};

use super::manual;
use crate::arguments::{Arguments, Completions, Man};
use crate::failure::{Failure, Result};
use crate::output::print_bytes;

pub fn completions(arguments: &Completions) -> Result<()> {
    let mut command = visible(&Arguments::command());
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "terrace", &mut text);
    print_bytes(text)
}

pub fn man(arguments: &Man) -> Result<()> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory)
        .and_then(|()| manual::write(visible(&Arguments::command()), directory))
        .map_err(|error| Failure::file(directory, error))
}

/// Returns a command without the hidden ones below it: a command cannot give one back.
fn visible(command: &Command) -> Command {
    // The library keeps names for the life of the program.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut copy = Command::new(name)
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommand_required(command.is_subcommand_required_set())
        .subcommands(
            command
                .get_subcommands()
                .filter(|below| !below.is_hide_set())
                .map(visible),
        );
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        copy = copy.long_about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        copy = copy.after_help(after.clone());
    }
    match command.get_version() {
        Some(version) => copy.version(version.to_owned().leak() as &'static str),
        None => copy,
    }
}
