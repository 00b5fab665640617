//! Many commands on one open store: lines from a terminal, or from a pipe.

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use shlex::bytes::split;
use terrace::{Db, Keyspace, KeyspaceOptions};

use crate::arguments::{Shell, ShellCommand, ShellLine};
use crate::commands::entries::{Goal, set, show};
use crate::commands::scan::{print, print_count, range};
use crate::failure::{Failure, Result};
use crate::output::{self, tell};
use crate::store;
use crate::text::{asks_for_json, bytes_of, escape};

/// Maximum length of a line from a pipe.
const MAX_LINE_BYTES: u64 = 64 << 20;

pub fn run(arguments: &Shell) -> Result<()> {
    // Others may look on meanwhile.
    let db = store::open_or_create_heard(&arguments.store, None)?;
    let mut session = Session {
        keyspace: arguments.keyspace.name.clone(),
        parser: ShellLine::command(),
        db,
    };
    let ran = match io::stdin().is_terminal() {
        true => session.talk(),
        false => session.obey_lines(&mut io::stdin().lock(), arguments.bail),
    };
    session.db.close()?;
    ran
}

struct Session {
    db: Db,
    /// The name: it may be one that the first put makes.
    keyspace: String,
    /// Made once, as it costs more than most commands.
    parser: clap::Command,
}

/// The step that follows a line.
enum Next {
    Line,
    End,
}

impl Session {
    /// Asks for lines at a terminal, and tells of their failures.
    fn talk(&mut self) -> Result<()> {
        // Lines that are pasted are lines that are typed.
        let config = Config::builder().bracketed_paste(false).build();
        let mut editor = DefaultEditor::with_config(config).map_err(no_terminal)?;
        tell("`help` lists the commands; `exit` or ctrl-d leaves");
        loop {
            let line = match editor.readline(&format!("{}> ", escape(self.keyspace.as_bytes()))) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(no_terminal(error)),
            };
            // The history is in memory alone. A line that does not fit in is no failure.
            let _ = editor.add_history_entry(&line);
            if let Next::End = self.obey(line.as_bytes(), None).unwrap_or(Next::Line) {
                return Ok(());
            }
        }
    }

    /// Runs the lines of a pipe, and tells which ones fail.
    fn obey_lines(&mut self, lines: &mut impl BufRead, bail: bool) -> Result<()> {
        let mut failed = None;
        let mut failures = 0;
        for number in 1_u64.. {
            let (ran, goes_on) = match next_line(lines) {
                Ok(None) => break,
                Ok(Some(line)) => (self.obey(&line, Some(number)), !bail),
                Err(failure) => (Err(told(&failure, Some(number), false)), false),
            };
            match ran {
                Ok(Next::Line) => {}
                Ok(Next::End) => break,
                Err(code) => {
                    failures += 1;
                    failed.get_or_insert(code);
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        match failed {
            None => Ok(()),
            Some(code) => Err(Failure::Lines { failures, code }),
        }
    }

    /// Runs a line. Tells why it failed, and returns the exit code that stands for it.
    fn obey(&mut self, line: &[u8], number: Option<u64>) -> std::result::Result<Next, u8> {
        let Some(words) = split(line) else {
            let reason = "a quote is not closed, or nothing follows a backslash";
            return Err(told(&Failure::Usage(reason.to_owned()), number, false));
        };
        let words: Vec<_> = words.into_iter().map(OsString::from_vec).collect();
        match self.run_words(&words) {
            // The output has no reader any more. The next lines may write.
            Err(Failure::BrokenPipe) => Ok(Next::Line),
            Err(failure) => Err(told(&failure, number, asks_for_json(&words))),
            Ok(next) => Ok(next),
        }
    }

    fn run_words(&mut self, words: &[OsString]) -> Result<Next> {
        let Some(first) = words.first() else {
            return Ok(Next::Line);
        };
        // The parser would take `del` out of a path, as it does of a program's.
        if Path::new(first).file_stem() != Some(first) {
            let shown = first.to_string_lossy();
            return Err(Failure::Usage(format!("there is no command {shown:?}")));
        }
        let parsed = self
            .parser
            .try_get_matches_from_mut(words)
            .and_then(|matches| ShellLine::from_arg_matches(&matches));
        match parsed {
            Ok(line) => self.run(&line.command),
            Err(answer) if answer.exit_code() == 0 => {
                output::show(&answer)?;
                Ok(Next::Line)
            }
            Err(answer) => Err(Failure::of_arguments(&answer)),
        }
    }

    fn run(&mut self, command: &ShellCommand) -> Result<Next> {
        match command {
            ShellCommand::Get(shown) => {
                let key = bytes_of(&shown.key, shown.hex)?;
                show(&self.keyspace()?, &key, shown)?;
            }
            ShellCommand::Put(put) => {
                let key = bytes_of(&put.key, put.hex)?;
                let value = bytes_of(&put.value, put.hex)?;
                let options = KeyspaceOptions::default();
                let keyspace = self.db.get_or_create_keyspace(&self.keyspace, options)?;
                set(&self.db, &keyspace, (&key, &value), put.sync)?;
            }
            ShellCommand::Del(removed) => {
                let goal = Goal::of(removed)?;
                goal.remove(&self.db, &self.keyspace()?, removed.sync)?;
            }
            ShellCommand::Scan(listing) => {
                let options = range(&listing.range)?;
                print(&mut self.keyspace()?.iter(options)?, listing)?;
            }
            ShellCommand::Count(counted) => {
                let options = range(&counted.range)?;
                print_count(&mut self.keyspace()?.iter(options)?, counted.json)?;
            }
            ShellCommand::Use { name } => self.keyspace.clone_from(name),
            ShellCommand::Keyspaces => {
                let names = self.db.keyspaces().into_iter();
                let lines = names.map(|keyspace| escape(keyspace.name().as_bytes()) + "\n");
                output::print(lines.collect::<String>())?;
            }
            ShellCommand::Sync => self.db.persist()?,
            ShellCommand::Flush => self.db.flush()?,
            ShellCommand::Exit => return Ok(Next::End),
        }
        Ok(Next::Line)
    }

    fn keyspace(&self) -> Result<Keyspace> {
        Ok(self.db.keyspace(&self.keyspace)?)
    }
}

/// Tells of a failure, and returns its exit code.
fn told(failure: &Failure, line: Option<u64>, json: bool) -> u8 {
    failure.tell(line, json);
    failure.exit_code()
}

/// Reads a line without its end. There is none at the end of the input.
fn next_line(lines: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut limited = lines.take(MAX_LINE_BYTES + 1);
    let read = limited.read_until(b'\n', &mut line);
    let bytes = read.map_err(|error| Failure::io("standard input", error))?;
    if bytes as u64 > MAX_LINE_BYTES {
        let reason = format!("a line has at most {MAX_LINE_BYTES} bytes");
        return Err(Failure::Usage(reason));
    }
    // A blank before the end may be a part of a value.
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        line.pop_if(|byte| *byte == b'\r');
    }
    Ok((bytes > 0).then_some(line))
}

fn no_terminal(error: ReadlineError) -> Failure {
    Failure::io("the terminal", io::Error::other(error))
}
