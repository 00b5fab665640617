//! How far a contest is: a bar on a terminal, a line a run in a pipe.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::outcome::{Failure, RunOutcome};
use crate::output::tell;
use crate::report::layout::line;
use crate::run::Progress;

/// Time between two lines of one run in a pipe.
const INTERVAL: Duration = Duration::from_secs(10);

pub struct Shown {
    bar: Option<ProgressBar>,
    runs: usize,
    begun: usize,
    run: String,
    start: Instant,
    next_line: Duration,
}

impl Shown {
    pub fn new(runs: usize) -> Self {
        let bar = io::stderr()
            .is_terminal()
            .then(|| ProgressBar::no_length().with_style(style(0, 0)));
        Shown {
            bar,
            runs,
            begun: 0,
            run: String::new(),
            start: Instant::now(),
            next_line: INTERVAL,
        }
    }

    pub fn begin(&mut self, store: &str, repeat: u32, label: &str) {
        self.begun += 1;
        self.run = format!(
            "run {}/{}: {store}{label}, repeat {}",
            self.begun,
            self.runs,
            repeat + 1
        );
        (self.start, self.next_line) = (Instant::now(), INTERVAL);
        match &self.bar {
            Some(bar) => {
                bar.set_style(style(0, 0));
                bar.set_message(self.run.clone());
            }
            None => tell(&self.run),
        }
    }

    /// Skips a run.
    pub fn skip(&mut self) {
        self.begun += 1;
    }

    pub fn progress(&mut self, now: &Progress) {
        let Progress {
            phase,
            operations,
            of,
        } = now;
        let settling = if operations >= of { ", settling" } else { "" };
        if let Some(bar) = &self.bar {
            bar.set_style(style(*operations, *of));
            bar.set_length(*of);
            bar.set_position(*operations);
            bar.set_message(format!("{}, {phase}{settling}", self.run));
        } else if self.start.elapsed() >= self.next_line {
            self.next_line = self.start.elapsed() + INTERVAL;
            tell(&format!(
                "{}, {phase}: {operations} of {of}{settling}",
                self.run
            ));
        }
    }

    pub fn end(&self, outcome: &RunOutcome) {
        for phase in &outcome.phases {
            let seconds = phase.settled_s.unwrap_or(phase.acknowledged_s);
            self.line(&format!(
                "  {} {}: {:.0} operations/s, {seconds:.1} s",
                outcome.store,
                phase.name,
                phase.completed_per_second(),
            ));
        }
    }

    pub fn failed(&self, failure: &Failure) {
        self.line(&format!("  {}", line(&failure.to_string())));
    }

    /// Writes a line of a run's outcome above the bar.
    pub fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => tell(line),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(operations: u64, of: u64) -> ProgressStyle {
    // The templates are constants; a wrong one would cost the looks only.
    ProgressStyle::with_template(template(operations, of))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Returns the bar's template. A bar needs a length, and an estimate of the time left needs
/// operations before it.
fn template(operations: u64, of: u64) -> &'static str {
    match (operations, of) {
        (_, 0) => "{spinner} {msg}",
        (0, _) => "{msg} {bar:30} {pos}/{len}",
        (operations, of) if operations >= of => "{msg} {bar:30} {pos}/{len}",
        _ => "{msg} {bar:30} {pos}/{len} {eta} left",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_without_a_bar_and_without_an_estimate() {
        assert!(!template(0, 0).contains("bar") && !template(0, 0).contains("left"));
        assert!(template(0, 10).contains("bar") && !template(0, 10).contains("left"));
        assert!(template(1, 10).contains("left"));
        // It settles for as long as it takes.
        assert!(!template(10, 10).contains("left"));
    }
}
