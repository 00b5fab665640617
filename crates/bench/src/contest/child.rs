//! A run in a process of its own: the job goes in as JSON on standard input, progress and outcome come
//! out as lines of JSON on standard output.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::contest::Program;
use crate::outcome::RunOutcome;
use crate::run::{self, Plan, Progress};
use crate::{Error, Result, memory_limit};

/// What a child process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The store's name.
    pub contestant: String,
    /// What to go through.
    pub plan: Plan,
    /// Which repeat this is.
    pub repeat: u32,
    /// An empty directory.
    pub directory: PathBuf,
    /// The cgroup to enter first.
    pub memory_group: Option<PathBuf>,
    /// The process that waits for the outcome.
    pub parent: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Progress(Progress),
    Outcome(Box<RunOutcome>),
    Failed(String),
}

/// Starts the program again with a job, and waits for its outcome.
pub fn start(program: &Program, job: &Job, progress: impl FnMut(Progress)) -> Result<RunOutcome> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(&program.child_arguments)
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
    match outcome {
        Ok(Some(outcome)) => Ok(outcome),
        Ok(None) => Err(format!(
            "its process ended without an outcome: {status}{}",
            if job.memory_group.is_some() {
                " (killed, if its memory was too little)"
            } else {
                ""
            }
        )
        .into()),
        Err(error) => Err(error),
    }
}

fn listen(output: impl BufRead, mut progress: impl FnMut(Progress)) -> Result<Option<RunOutcome>> {
    let mut result = Ok(None);
    for line in output.lines() {
        match serde_json::from_str(&line?)? {
            Message::Progress(now) => progress(now),
            Message::Outcome(outcome) => result = Ok(Some(*outcome)),
            Message::Failed(what) => result = Err(Error::from(what)),
        }
    }
    result
}

/// The child's side: reads a job from standard input and runs it. Standard output is for the parent.
///
/// # Errors
/// Only what prevents the parent from being told; a run that fails is told to it.
pub fn run_one(program: &Program) -> Result<()> {
    let told = Mutex::new(Instant::now());
    let tell = |message: &Message| -> Result<()> {
        let mut stdout = io::stdout().lock();
        serde_json::to_writer(&mut stdout, message)?;
        stdout.write_all(b"\n")?;
        Ok(stdout.flush()?)
    };
    let progress = |now: Progress| {
        const INTERVAL: Duration = Duration::from_millis(200);
        let Ok(mut last) = told.lock() else { return };
        if last.elapsed() >= INTERVAL {
            *last = Instant::now();
            // A parent that has gone will not miss it; the outcome is told or fails.
            let _ = tell(&Message::Progress(now));
        }
    };
    let outcome = job(program, &progress);
    tell(&match outcome {
        Ok(outcome) => Message::Outcome(Box::new(outcome)),
        Err(error) => Message::Failed(error.to_string()),
    })
}

fn job(program: &Program, progress: &(dyn Fn(Progress) + Sync)) -> Result<RunOutcome> {
    let job: Job = serde_json::from_reader(io::stdin().lock())?;
    end_with_parent(job.parent)?;
    if let Some(group) = &job.memory_group {
        memory_limit::enter(group)?;
    }
    // The default slack of 50 us would be most of what an open loop measures.
    rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN))?;
    let contestants = program.named(std::slice::from_ref(&job.contestant))?;
    let contestant = contestants.first().ok_or("no store was named")?;
    run::run(contestant, &job.plan, job.repeat, &job.directory, progress)
}

/// From now on this process is killed when its parent ends, however that ends: what goes on alone
/// would burden whatever is measured next, and leave its files behind.
fn end_with_parent(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before the call above.
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now != Some(parent) {
        return Err("the process that wanted this run is gone".into());
    }
    Ok(())
}
