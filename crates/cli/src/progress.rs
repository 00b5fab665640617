//! How far a command is: a bar on a terminal, a line now and then in a pipe.

use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use terrace::EventListener;

use crate::events::Teller;
use crate::failure::Failure;
use crate::import::Observer;
use crate::output::tell;
use crate::report::{bytes, count, rate, things};
use crate::text::shown;

/// Between two lines in a pipe.
const INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of skipped rows that are shown; all are counted.
const SHOWN_BAD_ROWS: u64 = 10;

pub struct Progress {
    /// Hidden in a pipe; it counts all the same.
    bar: ProgressBar,
    file: String,
    start: Instant,
    next_line: Duration,
    skipped: u64,
}

impl Progress {
    /// Makes a bar for a file; `length_bytes` is the file's, if it is known.
    pub fn new(file: &Path, length_bytes: Option<u64>) -> Self {
        let bar = match length_bytes {
            _ if !io::stderr().is_terminal() => ProgressBar::hidden(),
            _ => bar(length_bytes),
        };
        Progress {
            bar,
            file: shown(file),
            start: Instant::now(),
            next_line: INTERVAL,
            skipped: 0,
        }
    }

    /// Counts the bytes read.
    pub fn watch<R: Read>(&self, input: R) -> impl Read + use<R> {
        self.bar.wrap_read(input)
    }

    /// Tells a store's events beside the bar.
    pub fn teller(&self, json: bool) -> Arc<dyn EventListener> {
        let bar = self.bar.clone();
        Arc::new(Teller { bar, json })
    }

    /// Removes the bar and returns the time that has passed.
    pub fn finish(self) -> Duration {
        self.bar.finish_and_clear();
        self.start.elapsed()
    }
}

/// Returns a bar of one line, also on a narrow terminal: the message takes the rest of it.
fn bar(length_bytes: Option<u64>) -> ProgressBar {
    match length_bytes {
        Some(length) => ProgressBar::new(length).with_style(style(
            "{bar:12} {bytes}/{total_bytes}  {wide_msg}  {eta} left",
        )),
        None => ProgressBar::new_spinner().with_style(style("{spinner} {bytes}  {wide_msg}")),
    }
}

/// How far a walk over a device is.
pub struct Steps {
    bar: ProgressBar,
    what: String,
    shown: Box<dyn Fn(u64) -> String>,
    start: Instant,
    next_line: Duration,
}

impl Steps {
    /// Counts bytes.
    pub fn of_bytes(what: String) -> Self {
        Steps::new(what, Box::new(bytes))
    }

    /// Counts things with a name in the singular.
    pub fn of_things(what: String, thing: &'static str) -> Self {
        Steps::new(what, Box::new(move |number| things(number, thing)))
    }

    /// Counts seconds.
    pub fn of_seconds(what: String) -> Self {
        Steps::new(what, Box::new(|seconds| format!("{seconds} s")))
    }

    /// Gives the steps that follow another name.
    pub fn call(&mut self, what: String) {
        self.what = what;
    }

    fn new(what: String, shown: Box<dyn Fn(u64) -> String>) -> Self {
        let bar = match io::stderr().is_terminal() {
            true => ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}")),
            false => ProgressBar::hidden(),
        };
        Steps {
            bar,
            what,
            shown,
            start: Instant::now(),
            next_line: INTERVAL,
        }
    }

    /// Shows that `done` of `all`, if that is known, are behind us.
    pub fn reach(&mut self, done: u64, all: Option<u64>) {
        let message = || {
            let done = (self.shown)(done);
            match all {
                Some(all) => format!("{} {done} of {}", self.what, (self.shown)(all)),
                None => format!("{} {done}", self.what),
            }
        };
        let elapsed = self.start.elapsed();
        if !self.bar.is_hidden() {
            if let Some(all) = all {
                if self.bar.length().is_none() {
                    self.bar.set_style(style("{bar:12} {wide_msg}  {eta} left"));
                }
                self.bar.set_length(all);
            }
            self.bar.set_position(done);
            self.bar.set_message(message());
        } else if elapsed >= self.next_line {
            tell(message());
            self.next_line = elapsed + INTERVAL;
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; a wrong one would cost the looks, not the import.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Observer for Progress {
    fn acknowledged(&mut self, rows: u64, _last: &[u8]) -> Result<(), Failure> {
        let elapsed = self.start.elapsed();
        let message = || format!("{} rows, {} rows/s", count(rows), rate(rows, elapsed));
        if !self.bar.is_hidden() {
            self.bar.set_message(message());
        } else if elapsed >= self.next_line {
            self.next_line = elapsed + INTERVAL;
            tell(format!("{}: {}", self.file, message()));
        }
        Ok(())
    }

    fn skipped(&mut self, line: u64, what: &str) {
        self.skipped += 1;
        let shown = match self.skipped {
            ..=SHOWN_BAD_ROWS => format!("{}, line {line}: {what}; skipped", self.file),
            n if n == SHOWN_BAD_ROWS + 1 => "further bad rows are counted, not shown".to_string(),
            _ => return,
        };
        self.bar.suspend(|| tell(shown));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    /// A terminal of 80 columns that keeps its lines.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _lines: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _lines: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _characters: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _characters: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(&format!("{text}\n"))
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.write_str("\n")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_has_one_line_on_a_terminal_of_80_columns() {
        let screens = [Screen::default(), Screen::default()];
        let [of_import, of_steps] = screens
            .each_ref()
            .map(|screen| ProgressDrawTarget::term_like(Box::new(screen.clone())));
        let mut import = Progress::new(Path::new("rows.csv"), Some(0));
        import.bar = bar(Some(1023 << 20));
        import.bar.set_draw_target(of_import);
        import.bar.set_position(1001 << 20);
        import.acknowledged(103_557_000, b"").unwrap();
        import.bar.force_draw();
        let mut steps = Steps::of_bytes("/a/long/path/of/a/device/".repeat(5));
        steps.bar.set_draw_target(of_steps);
        steps.reach(1 << 30, Some(4 << 30));
        steps.bar.force_draw();
        for (screen, part) in screens.iter().zip(["103,557,000 rows, ", "/a/long/path/"]) {
            let shown = screen.0.lock().unwrap();
            let widths = shown.lines().map(|line| line.chars().count());
            assert_eq!(widths.max(), Some(80), "{shown}");
            assert!(shown.contains(part) && shown.contains(" left"), "{shown}");
        }
    }
}
