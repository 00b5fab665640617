//! Random reads by as many threads as there are reads at a time.
//!
//! A thread has one read under way, so the depth needs no interface for requests that complete later, and
//! the reads take the same calls as those of a store.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, Builder};
use std::time::Duration;

use terrace_storage::{NoThread, Purpose};

use super::content::{Aligned, Content, PAGE_BYTES, Pages};
use super::error::{Error, Result};
use super::figures::Latency;
use super::file::ProbeFile;
use super::phases::{MIN_READS, timed};
use super::plan::Plan;
use super::watch::{Phase, Stage, Watch};

/// Pause between two looks at the caller's wishes.
const PAUSE: Duration = Duration::from_millis(50);
const THREAD: &str = "terrace-probe";

/// State that all readers share.
struct Readers<'a> {
    file: &'a ProbeFile,
    plan: &'a Plan,
    stage: Stage,
    /// Reads that were begun, or given up for the limit.
    begun: AtomicU64,
    is_stopped: AtomicBool,
}

/// A read: its end since the start of the phase, and its time.
struct Sample {
    end: Duration,
    took: Duration,
}

/// Reads random pages of the file, `depth` at a time.
pub(super) fn random_reads(
    file: &ProbeFile,
    depth: usize,
    phase: Phase,
    plan: &Plan,
    watch: &mut Watch<'_>,
) -> Result<Latency> {
    let readers = Readers {
        file,
        plan,
        stage: watch.begin(phase)?,
        begun: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
    };
    let mut samples = readers.run(depth, watch)?;
    samples.sort_by_key(|sample| sample.end);
    let times: Vec<Duration> = samples.iter().map(|sample| sample.took).collect();
    Latency::of(&times, MIN_READS).ok_or(Error::NothingMeasured { phase })
}

impl Readers<'_> {
    /// Runs the threads until the time or the reads are used up, or the caller breaks off.
    fn run(&self, depth: usize, watch: &mut Watch<'_>) -> Result<Vec<Sample>> {
        // Nothing is sent. The channel closes when the last reader ends.
        let (sender, ends) = mpsc::channel();
        thread::scope(|scope| {
            let mut started = Vec::new();
            let mut outcome = Ok(());
            for stream in 0..depth {
                let sender = sender.clone();
                let reader = move || {
                    let _sender = sender;
                    self.read(stream as u64)
                };
                match Builder::new()
                    .name(THREAD.into())
                    .spawn_scoped(scope, reader)
                {
                    Ok(thread) => started.push(thread),
                    Err(error) => {
                        outcome = Err(Error::NoThread(NoThread::new(THREAD, error)));
                        break;
                    }
                }
            }
            drop(sender);
            let outcome = outcome.and_then(|()| self.wait(&ends, watch));
            if outcome.is_err() {
                self.stop();
            }
            let mut samples = Vec::new();
            let mut failed = Ok(());
            for thread in started {
                match thread.join() {
                    Ok(Ok(read)) => samples.extend(read),
                    Ok(Err(error)) => failed = failed.and(Err(error)),
                    Err(panicked) => {
                        self.stop();
                        panic::resume_unwind(panicked);
                    }
                }
            }
            outcome.and(failed).map(|()| samples)
        })
    }

    /// Waits for the end of all readers, and tells the caller of the progress meanwhile.
    fn wait(&self, ends: &Receiver<()>, watch: &mut Watch<'_>) -> Result<()> {
        while ends.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            watch.reach(&self.stage, 0.0)?;
        }
        Ok(())
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Reads pages one after the other. An error stops all readers.
    fn read(&self, stream: u64) -> Result<Vec<Sample>> {
        let read = self.read_pages(stream);
        if read.is_err() {
            self.stop();
        }
        read
    }

    fn read_pages(&self, stream: u64) -> Result<Vec<Sample>> {
        let content = Content::new(self.plan.seed);
        let page_count = self.plan.file_bytes / PAGE_BYTES as u64;
        let mut pages = Pages::new(self.plan.seed, stream, page_count);
        let mut bytes = Aligned::new(PAGE_BYTES);
        let mut samples = Vec::new();
        while !self.is_stopped.load(Ordering::Relaxed) {
            let is_enough = self.stage.is_over() && !samples.is_empty();
            if is_enough || self.begun.fetch_add(1, Ordering::Relaxed) >= self.plan.max_requests {
                break;
            }
            let page = pages.next();
            let offset = page * PAGE_BYTES as u64;
            let read = || {
                let bytes = bytes.bytes_mut();
                self.file
                    .file()
                    .read_exact_at(bytes, offset, Purpose::Other)
            };
            let took = timed(read)?;
            samples.push(Sample {
                end: self.stage.elapsed(),
                took,
            });
            self.file.check(content, bytes.bytes(), page)?;
        }
        Ok(samples)
    }
}
