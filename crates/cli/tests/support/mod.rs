//! A store in a temporary directory, and the command run on it.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod node;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub struct Shell {
    directory: TempDir,
}

/// Outcome of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Shell {
    pub fn new() -> Self {
        Shell {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.path("store")
    }

    /// Writes a file and returns its path as an argument.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    }

    /// Returns `terrace` with the store in `TERRACE_STORE`, not started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(arguments).env("TERRACE_STORE", self.store());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    /// Runs a command with something on standard input.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that refuses its arguments reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command that must succeed in silence on stderr, and returns its stdout.
    #[track_caller]
    pub fn out(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
        ran.stdout
    }

    /// Returns the same, as JSON.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.out(arguments)).unwrap()
    }

    /// Returns options by which each flush leaves a table: with larger arenas the next takes it
    /// along.
    pub fn options() -> terrace::Options {
        terrace::Options {
            arena_bytes: 1 << 20,
            ..terrace::Options::default()
        }
    }

    /// Returns a store with tables on disk: some cities, twice.
    pub fn with_tables() -> Self {
        let shell = Shell::new();
        let db = terrace::Db::open(shell.store(), Shell::options()).unwrap();
        for _ in 0..2 {
            for (city, country) in [
                ("lisbon", "Portugal"),
                ("oslo", "Norway"),
                ("rome", "Italy"),
            ] {
                db.put(city.as_bytes(), country.as_bytes()).unwrap();
            }
            db.flush().unwrap();
        }
        db.close().unwrap();
        shell
    }

    /// Returns the first file of the store whose name passes.
    pub fn store_file(&self, passes: impl Fn(&str) -> bool) -> PathBuf {
        let mut names: Vec<_> = std::fs::read_dir(self.store())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| passes(name))
            .collect();
        names.sort();
        self.store().join(names.first().expect("no such file"))
    }
}

/// Turns one byte of a file over.
pub fn damage(file: &Path, offset: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[offset] ^= 0xff;
    std::fs::write(file, bytes).unwrap();
}
