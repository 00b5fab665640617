//! The manual's pages, made from the definitions of the arguments.
//!
//! The library writes the options. Its synopsis has no values, and it puts all that follows the help
//! under one heading, so both are written here.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Arg, Command};
use clap_mangen::Man;

/// Writes a page for a command and for each one below it.
pub fn write(mut command: Command, directory: &Path) -> io::Result<()> {
    command = command.disable_help_subcommand(true);
    command.build();
    write_pages(&command, directory)
}

fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for below in command.get_subcommands() {
        write_pages(below, directory)?;
    }
    let man = Man::new(command.clone());
    fs::write(directory.join(man.get_filename()), page(&man, command)?)
}

fn page(man: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.extend_from_slice(synopsis(command).as_bytes());
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_help();
    let after = after.map_or_else(String::new, ToString::to_string);
    page.extend_from_slice(sections(&after).as_bytes());
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Returns the arguments in brief, options with their values.
fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mut text = format!(".SH SYNOPSIS\n\\fB{}\\fR", of_roff(name));
    let is_shown =
        |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let (last, first): (Vec<_>, Vec<_>) = command
        .get_arguments()
        .filter(is_shown)
        .partition(|arg| arg.is_positional());
    for argument in first.into_iter().chain(last) {
        let shown = argument.to_string();
        let shown = match argument.is_required_set() || argument.is_positional() {
            true => shown,
            false => format!("[{shown}]"),
        };
        // An option and its value stay on one line.
        text.push(' ');
        text.push_str(&of_roff(&shown).replace(' ', "\\ "));
    }
    if command.has_subcommands() {
        text.push_str(" <COMMAND>");
    }
    text + "\n"
}

/// Returns the text after a command's help: sentences as notes, and a section for each list with a
/// heading.
fn sections(after: &str) -> String {
    let (mut notes, mut lists) = (String::new(), String::new());
    for paragraph in after.split("\n\n") {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        match first.strip_suffix(':') {
            Some(heading) if rest.starts_with("  ") => {
                let heading = match heading {
                    "Exit codes" => "EXIT STATUS".to_owned(),
                    other => other.to_uppercase(),
                };
                lists.push_str(&format!(".SH {heading}\n{}", as_typed(rest)));
            }
            // A table.
            _ if paragraph.contains("   ") => {
                notes.push_str(&format!(".PP\n{}", as_typed(paragraph)))
            }
            _ => notes.push_str(&format!(".PP\n{}\n", of_roff(paragraph))),
        }
    }
    match after.is_empty() || notes.is_empty() {
        true => lists,
        false => format!(".SH NOTES\n{notes}{lists}"),
    }
}

/// Returns lines that keep their breaks.
fn as_typed(lines: &str) -> String {
    format!(".nf\n{}\n.fi\n", of_roff(lines))
}

/// Returns text in which nothing is a command of the formatter.
fn of_roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let line = |line: &str| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_headings_and_sentences_are_notes() {
        let after = "One -a.\n'Two.\n\nExamples:\n  x \\\n      y\n  .z\n\nExit codes:\n  0  done\n\nname   what";
        assert_eq!(
            sections(after),
            ".SH NOTES\n.PP\nOne \\-a.\n\\&'Two.\n.PP\n.nf\nname   what\n.fi\n.SH EXAMPLES\n.nf\n  x \\e\n      \
             y\n  .z\n.fi\n.SH EXIT STATUS\n.nf\n  0  done\n.fi\n"
        );
        assert_eq!(sections(""), "");
    }
}
