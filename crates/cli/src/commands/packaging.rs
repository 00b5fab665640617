//! What packages ship beside the binary, made from the definitions of its arguments.

use std::fs;

use clap::CommandFactory;

use crate::arguments::{Arguments, Completions, Man};
use crate::commands::print;
use crate::failure::{Failure, Result};

pub fn completions(arguments: &Completions) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Arguments::command(),
        "terrace",
        &mut text,
    );
    print(text)
}

pub fn man(arguments: &Man) -> Result<()> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), directory))
        .map_err(|error| Failure::file(directory, error))
}
