//! The output of `cargo test --no-fail-fast`, read for the programs and tests that failed.

/// A test program, or a build, that failed.
#[derive(Debug, PartialEq)]
pub struct Failed {
    /// The arguments that make `cargo test` run it again, or the error of the compiler.
    pub program: String,
    /// Its tests, each with the panic that ended it.
    pub tests: Vec<(String, Option<String>)>,
    /// How it ended, if not with the exit status of failed tests.
    pub end: Option<String>,
}

/// Both streams in one, as they come.
#[derive(Default)]
pub struct TestLog {
    line: Vec<u8>,
    /// The last list of failed tests, of which the program is not known yet.
    tests: Vec<String>,
    in_list: bool,
    /// Panics of the program that runs: thread, then place and message.
    panics: Vec<(String, String)>,
    /// The last line began a panic: the next one is its message.
    in_panic: bool,
    failed: Vec<Failed>,
}

impl TestLog {
    pub fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                // Cargo's progress returns to the start of its line.
                b'\n' | b'\r' => self.end_line(),
                _ => self.line.push(*byte),
            }
        }
    }

    /// Returns the panics since the last program that failed, one a line. A test program that cargo
    /// did not start names no failure of its own.
    pub fn panics(&mut self) -> String {
        self.end_line();
        let panics = std::mem::take(&mut self.panics);
        let lines = panics
            .iter()
            .map(|(thread, panic)| format!("\n    {thread}: {panic}"));
        lines.collect()
    }

    /// Programs in the order of their ends.
    pub fn failed(mut self) -> Vec<Failed> {
        self.end_line();
        self.failed
    }

    fn end_line(&mut self) {
        let line = without_colours(&String::from_utf8_lossy(&self.line));
        self.line.clear();
        self.see(&line);
    }

    fn see(&mut self, line: &str) {
        self.see_panic(line);
        if line == "failures:" {
            // It comes twice: before the output of the tests, and before their names.
            self.tests.clear();
            self.in_list = true;
        } else if let (true, Some(name)) = (self.in_list, line.strip_prefix("    ")) {
            self.tests.push(name.to_string());
        } else if !line.is_empty() || !self.tests.is_empty() {
            self.in_list = false;
        }
        if line.starts_with("test result: ok") {
            self.tests.clear();
            self.panics.clear();
        } else if let Some(program) = rerun(line) {
            let tests = self.tests_with_panics();
            self.failed.push(Failed {
                program: program.to_string(),
                tests,
                end: None,
            });
        } else if line.starts_with("error: could not compile") {
            self.failed.push(Failed {
                program: line.to_string(),
                tests: Vec::new(),
                end: None,
            });
        } else if let (Some(end), Some(last)) = (end(line), self.failed.last_mut())
            && last.tests.is_empty()
        {
            last.end = Some(end.to_string());
        }
    }

    fn see_panic(&mut self, line: &str) {
        if self.in_panic && !line.is_empty() {
            self.in_panic = false;
            if let Some((_, panic)) = self.panics.last_mut() {
                panic.push_str(line.trim_start());
            }
        } else if let Some((thread, place)) = panic(line) {
            self.in_panic = true;
            self.panics.push((thread.into(), format!("{place}: ")));
        }
    }

    /// Takes the failed tests. A panic belongs to the test that its thread is named after.
    fn tests_with_panics(&mut self) -> Vec<(String, Option<String>)> {
        let mut panics = std::mem::take(&mut self.panics);
        let tests = std::mem::take(&mut self.tests).into_iter().map(|test| {
            let own = panics.iter().position(|(thread, _)| *thread == test);
            (test, own.map(|at| panics.remove(at).1))
        });
        tests.collect()
    }
}

/// Returns thread and place of "thread 'a::fails' (17) panicked at src/lib.rs:1:5:".
fn panic(line: &str) -> Option<(&str, &str)> {
    let (thread, place) = line.split_once(" panicked at ")?;
    let (_, thread) = thread.split_once("thread '")?;
    let (thread, _) = thread.rsplit_once('\'')?;
    Some((thread, place.strip_suffix(':')?))
}

/// Returns the arguments in cargo's "error: test failed, to rerun pass `-p terrace --lib`".
fn rerun(line: &str) -> Option<&str> {
    let (kind, rest) = line
        .strip_prefix("error: ")?
        .split_once(" failed, to rerun pass `")?;
    let arguments = rest.strip_suffix('`')?;
    matches!(kind, "test" | "doctest" | "bench").then_some(arguments)
}

/// Returns the end in cargo's "process didn't exit successfully: `...` (signal: 6, SIGABRT: ...)".
fn end(line: &str) -> Option<&str> {
    let (_, end) = line
        .trim_start()
        .strip_prefix("process didn't exit successfully: `")?
        .rsplit_once("` (")?;
    end.strip_suffix(')')
}

/// Drops escape sequences: `ESC [`, parameters, a letter.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\x1b[");
    let mut text = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let rest = piece.split_once(|c: char| c.is_ascii_alphabetic());
        text.push_str(rest.map_or("", |(_, rest)| rest));
    }
    text
}

/// Returns the failures as lines of a summary, each test under its program.
pub fn summary(failed: &[Failed]) -> String {
    let mut text = String::new();
    for one in failed {
        text += &format!("\n  {}", one.program);
        if let Some(end) = &one.end {
            text += &format!(" ({end})");
        }
        for (test, panic) in &one.tests {
            text += &format!("\n    {test}");
            if let Some(panic) = panic {
                text += &format!(": {panic}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two programs with failed tests, one that aborts, one that passes, and the tests of a page.
    const OUTPUT: &str = "\
   Compiling terrace v0.1.0
     Running unittests src/lib.rs (target/debug/deps/terrace-1)

running 3 tests
test a::passes ... ok
test a::fails ... FAILED
test b::fails_too ... FAILED

failures:

---- a::fails stdout ----
failures:
    not a test
thread 'a worker' (18) panicked at src/lib.rs:2:5:
no test

thread 'a::fails' (17) panicked at src/lib.rs:1:5:
    indented

---- b::fails_too stdout ----
no

failures:
    a::fails
    b::fails_too

test result: FAILED. 1 passed; 2 failed; 0 ignored

error: test failed, to rerun pass `-p terrace --lib`
     Running tests/kill.rs (target/debug/deps/kill-1)

running 1 test
error: test failed, to rerun pass `-p terrace --test kill`

Caused by:
  process didn't exit successfully: `/target/debug/deps/kill-1` (signal: 6, SIGABRT: process abort signal)
     Running tests/model.rs (target/debug/deps/model-1)

running 1 test
test model ... ok

test result: ok. 1 passed; 0 failed

   Doc-tests terrace

running 1 test
test crates/terrace/src/lib.rs - Db (line 3) ... FAILED

failures:

---- crates/terrace/src/lib.rs - Db (line 3) stdout ----
no


failures:
    crates/terrace/src/lib.rs - Db (line 3)

test result: FAILED. 0 passed; 1 failed

error: doctest failed, to rerun pass `-p terrace --doc`
error: 3 targets failed:
    `-p terrace --lib`
    `-p terrace --test kill`
    `-p terrace --doc`
";

    fn failed(output: &str) -> Vec<Failed> {
        let mut log = TestLog::default();
        // However the pieces come.
        for piece in output.as_bytes().chunks(7) {
            log.read(piece);
        }
        log.failed()
    }

    #[test]
    fn each_failed_test_is_named_under_its_program() {
        assert_eq!(
            summary(&failed(OUTPUT)),
            "
  -p terrace --lib
    a::fails: src/lib.rs:1:5: indented
    b::fails_too
  -p terrace --test kill (signal: 6, SIGABRT: process abort signal)
  -p terrace --doc
    crates/terrace/src/lib.rs - Db (line 3)"
        );
    }

    #[test]
    fn panics_of_a_program_without_cargo_are_read_off() {
        let mut log = TestLog::default();
        log.read(b"\rthread 'fills' (7) panicked at full.rs:9:1:\r\nno room\r\nstack backtrace:\n");
        assert_eq!(log.panics(), "\n    fills: full.rs:9:1: no room");
        assert_eq!(log.panics(), "");
    }

    #[test]
    fn colours_and_progress_hide_no_failure() {
        let coloured = OUTPUT
            .replace("error:", "\x1b[1m\x1b[91merror\x1b[0m\x1b[1m:\x1b[0m")
            .replace("FAILED.", "\x1b[31mFAILED\x1b[m.")
            .replace(
                "   Compiling",
                "    Building [==>  ] 3/9\r\x1b[K   Compiling",
            );
        assert_eq!(failed(&coloured), failed(OUTPUT));
    }

    #[test]
    fn a_crate_that_does_not_compile_is_named() {
        let line = "error: could not compile `terrace` (lib test) due to 1 previous error";
        let output = format!("error[E0308]: mismatched types\n\n{line}; 1 warning emitted\n");
        assert_eq!(
            summary(&failed(&output)),
            format!("\n  {line}; 1 warning emitted")
        );
    }

    #[test]
    fn passed_tests_are_no_failures() {
        assert_eq!(failed("test a ... ok\n\ntest result: ok. 1 passed\n"), []);
    }
}
