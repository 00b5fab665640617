//! A process of its own for each measured job. The job goes in as JSON on standard input; progress
//! and outcome come out as lines of JSON on standard output.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::contest::Program;
use crate::contest::hang::Hang;
use crate::reopen::{self, Rows};
use crate::run::{self, Plan, Progress};
use crate::{Error, Result, memory_limit};

/// Input of a child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The store's name.
    pub contestant: String,
    /// Where its files are, or will be.
    pub directory: PathBuf,
    /// The cgroup to enter first.
    pub memory_group: Option<PathBuf>,
    /// The process that waits for the outcome.
    pub parent: u32,
    /// The task.
    pub task: Task,
}

/// A task of a child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Go through phases that follow each other on one store.
    Run {
        /// The phases: a part of a plan that begins with an empty store.
        plan: Plan,
        /// Number of the repeat.
        repeat: u32,
    },
    /// Fill an empty store, tell it, and die of SIGKILL.
    Fill(Rows),
    /// Open the store that is left of it.
    Reopen(Rows),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message<Outcome> {
    Progress(Progress),
    Outcome(Outcome),
    Failed(String),
}

/// Starts the program again with a job, and waits for its outcome.
pub fn start<Outcome: DeserializeOwned>(
    program: &Program,
    job: &Job,
    progress: impl FnMut(Progress),
) -> Result<Outcome> {
    let (outcome, status) = ended(program, job, progress)?;
    outcome.ok_or_else(|| {
        format!(
            "its process ended without an outcome: {status}{}",
            if job.memory_group.is_some() {
                " (killed, if its memory was too little)"
            } else {
                ""
            }
        )
        .into()
    })
}

/// Starts the program again with a job at whose end it dies of SIGKILL, and waits for its last
/// message.
pub fn start_to_be_killed<Outcome: DeserializeOwned>(
    program: &Program,
    job: &Job,
    progress: impl FnMut(Progress),
) -> Result<Outcome> {
    let (outcome, status) = ended(program, job, progress)?;
    killed(outcome, status)
}

/// Checks that the child died of SIGKILL, and not before its outcome: the last message says that
/// all is acknowledged.
fn killed<Outcome>(outcome: Option<Outcome>, status: ExitStatus) -> Result<Outcome> {
    if status.signal() != Some(Signal::KILL.as_raw()) {
        return Err(format!("its process should have been killed, but: {status}").into());
    }
    outcome.ok_or_else(|| "its process was killed before everything was acknowledged".into())
}

/// Runs a child to its end, however that comes.
fn ended<Outcome: DeserializeOwned>(
    program: &Program,
    job: &Job,
    progress: impl FnMut(Progress),
) -> Result<(Option<Outcome>, ExitStatus)> {
    let bounded = job.memory_group.is_some();
    let mut child = Command::new(std::env::current_exe()?)
        .args(&program.child_arguments)
        .envs(bounded.then(memory_limit::allocator_arenas))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(job)?)?;
    }
    let outcome = match child.stdout.take() {
        Some(stdout) => listen(BufReader::new(stdout), progress),
        None => Err("the child has no standard output".into()),
    };
    let status = child.wait()?;
    Ok((outcome?, status))
}

fn listen<Outcome: DeserializeOwned>(
    output: impl BufRead,
    mut progress: impl FnMut(Progress),
) -> Result<Option<Outcome>> {
    let mut result = Ok(None);
    for line in output.lines() {
        match serde_json::from_str(&line?)? {
            Message::Progress(now) => progress(now),
            Message::Outcome(outcome) => result = Ok(Some(outcome)),
            Message::Failed(what) => result = Err(Error::from(what)),
        }
    }
    result
}

/// Reads a job from standard input and does it: the child's side. Standard output is for the
/// parent.
///
/// # Errors
/// Only failures that prevent messages to the parent. The failure of a job is such a message.
pub fn run_one(program: &Program) -> Result<()> {
    let told = Mutex::new(Instant::now());
    let hang = Mutex::new(Hang::default());
    let progress = |now: Progress| {
        const INTERVAL: Duration = Duration::from_millis(200);
        if let Ok(mut hang) = hang.lock()
            && hang.lasts(&now, Instant::now())
        {
            // Its clients cannot be called back from a store that never answers.
            let _ = tell(&Message::<()>::Failed(Hang::told(&now)));
            std::process::exit(1);
        }
        let Ok(mut last) = told.lock() else { return };
        if last.elapsed() >= INTERVAL {
            *last = Instant::now();
            // A parent that has gone will not miss it; the outcome is sent or fails.
            let _ = tell(&Message::<()>::Progress(now));
        }
    };
    match perform(program, &progress) {
        Ok(()) => Ok(()),
        Err(error) => tell(&Message::<()>::Failed(error.to_string())),
    }
}

fn tell<Outcome: Serialize>(message: &Message<Outcome>) -> Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, message)?;
    stdout.write_all(b"\n")?;
    Ok(stdout.flush()?)
}

fn perform(program: &Program, progress: &(dyn Fn(Progress) + Sync)) -> Result<()> {
    let job: Job = serde_json::from_reader(io::stdin().lock())?;
    end_with_parent(job.parent)?;
    if let Some(group) = &job.memory_group {
        memory_limit::enter(group)?;
    }
    // The default slack of 50 us would be most of the latency in an open loop.
    rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN))?;
    let contestants = program.named(std::slice::from_ref(&job.contestant))?;
    let contestant = contestants.first().ok_or("no store was named")?;
    let directory = &job.directory;
    match &job.task {
        Task::Run { plan, repeat } => tell(&Message::Outcome(run::run(
            contestant, plan, *repeat, directory, progress,
        )?)),
        Task::Fill(rows) => reopen::fill_and_die(contestant, rows, directory, progress, |filled| {
            tell(&Message::Outcome(filled))
        }),
        Task::Reopen(rows) => tell(&Message::Outcome(reopen::reopen(
            contestant, rows, directory, progress,
        )?)),
    }
}

/// Makes this process die when its parent ends, however that ends. A process that goes on alone
/// would burden the next measurement, and leave its files behind.
fn end_with_parent(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before the call above.
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now != Some(parent) {
        return Err("the process that wanted this run is gone".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `wait` gives it.
    fn by_signal(signal: i32) -> ExitStatus {
        ExitStatus::from_raw(signal)
    }

    #[test]
    fn only_a_kill_after_the_last_acknowledgement_is_one() {
        assert_eq!(killed(Some(7), by_signal(9)).unwrap(), 7);
        for (told, status, expected) in [
            (None, by_signal(9), "before everything was acknowledged"),
            (Some(7), ExitStatus::from_raw(0), "exit status: 0"),
            (Some(7), by_signal(6), "signal: 6"),
        ] {
            let error = killed(told, status).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_last_thing_told_counts() {
        let lines =
            "{\"progress\":{\"phase\":\"fill\",\"operations\":1,\"of\":2}}\n{\"outcome\":5}\n";
        let mut seen = 0;
        let outcome = listen::<u64>(lines.as_bytes(), |_| seen += 1).unwrap();
        assert_eq!((outcome, seen), (Some(5), 1));
        let failed = listen::<u64>(&b"{\"failed\":\"no\"}\n"[..], |_| {});
        assert_eq!(failed.unwrap_err().to_string(), "no");
    }
}
