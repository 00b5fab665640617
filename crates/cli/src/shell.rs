//! Many commands on one open store: lines from a terminal, or from a pipe.

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;

use clap::{CommandFactory, FromArgMatches};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use shlex::bytes::split;
use terrace::{Db, Keyspace, KeyspaceOptions};

use crate::arguments::{Shell, ShellCommand, ShellLine};
use crate::commands::entries::{remove, set, show};
use crate::commands::scan::{print, print_count, range};
use crate::failure::{Failure, Result};
use crate::output::{self, tell};
use crate::store;
use crate::text::{bytes_of, escape};

/// Maximum length of a line from a pipe.
const MAX_LINE_BYTES: u64 = 64 << 20;

pub fn run(arguments: &Shell) -> Result<()> {
    let db = store::open_or_create(&arguments.store)?;
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

/// What a line leads to.
enum Next {
    Line,
    End,
}

impl Session {
    /// Asks for lines at a terminal, and tells of their failures.
    fn talk(&mut self) -> Result<()> {
        let mut editor = DefaultEditor::new().map_err(no_terminal)?;
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
            match self.obey(line.as_bytes()) {
                Ok(Next::Line) => {}
                Ok(Next::End) => return Ok(()),
                Err(failure) => tell_failure("", &failure),
            }
        }
    }

    /// Runs the lines of a pipe, and tells which ones fail.
    fn obey_lines(&mut self, lines: &mut impl BufRead, bail: bool) -> Result<()> {
        let mut failed = None;
        let mut failures = 0;
        for number in 1_u64.. {
            let mut line = Vec::new();
            let mut limited = lines.take(MAX_LINE_BYTES);
            let bytes = limited
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::io("standard input", error))?;
            if bytes == 0 {
                break;
            }
            if bytes as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
                let what = format!("line {number} is longer than {MAX_LINE_BYTES} bytes");
                return Err(Failure::Usage(what));
            }
            match self.obey(line.trim_ascii_end()) {
                Ok(Next::Line) => {}
                Ok(Next::End) => break,
                Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
                Err(failure) => {
                    tell_failure(&format!("line {number}: "), &failure);
                    failures += 1;
                    failed.get_or_insert(failure.exit_code());
                    if bail {
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

    fn obey(&mut self, line: &[u8]) -> Result<Next> {
        let words =
            split(line).ok_or_else(|| Failure::Usage("a quote is not closed".to_owned()))?;
        if words.is_empty() {
            return Ok(Next::Line);
        }
        let words = words.into_iter().map(OsString::from_vec);
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
            Err(answer) => {
                let answer = answer.to_string();
                let what = answer.strip_prefix("error: ").unwrap_or(&answer);
                Err(Failure::Usage(what.trim_end().to_owned()))
            }
        }
    }

    fn run(&mut self, command: &ShellCommand) -> Result<Next> {
        match command {
            ShellCommand::Get(shown) => show(&self.keyspace()?, shown)?,
            ShellCommand::Put(put) => {
                let key = bytes_of(&put.key, put.hex)?;
                let value = bytes_of(&put.value, put.hex)?;
                let keyspace = self.keyspace_or_new()?;
                set(&self.db, &keyspace, (&key, &value), put.sync)?;
            }
            ShellCommand::Del(removed) => remove(&self.db, &self.keyspace()?, removed)?,
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

    fn keyspace_or_new(&self) -> Result<Keyspace> {
        let options = KeyspaceOptions::default();
        Ok(self.db.get_or_create_keyspace(&self.keyspace, options)?)
    }
}

fn tell_failure(place: &str, failure: &Failure) {
    tell(format!("terrace: {place}{failure}"));
    if let Some(hint) = failure.hint() {
        tell(format!("hint: {hint}"));
    }
}

fn no_terminal(error: ReadlineError) -> Failure {
    Failure::io("the terminal", io::Error::other(error))
}
