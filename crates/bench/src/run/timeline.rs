//! A phase over time: samples at an interval, ten times a second by default, and the store's
//! background work meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::measure::space::{self, Space};
use crate::measure::usage::{self, Io};
use crate::outcome::{Mark, MarkKind, Sample};
use crate::run::client::Count;
use crate::run::start::Start;
use crate::store::{Activity, Store};

/// The usual one between samples.
pub const INTERVAL_MS: u64 = 100;

/// Pause between two looks at all files, as a multiple of a look's time. A look takes the processor
/// from the store, with thousands of files for milliseconds.
const SPACE_PAUSE: u32 = 100;

/// When there are more samples, every other one goes and the interval doubles.
const MOST_SAMPLES: usize = 600;

/// The sampled parts of a run.
pub struct Watched<'a> {
    pub store: &'a dyn Store,
    pub directory: &'a Path,
    /// Counts of those clients whose operations count.
    pub counts: &'a [&'a Count],
    pub start: &'a Start,
    /// Time between samples, to begin with.
    pub interval: Duration,
    /// Called at each sample with the operations so far.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// The samples and marks of a phase.
#[derive(Debug, Default)]
pub struct Timeline {
    pub samples: Vec<Sample>,
    pub marks: Vec<Mark>,
    /// The most bytes of tables, those of samples that are gone included.
    pub peak_table_space_bytes: u64,
}

/// Samples until `done` is set, by a thread that is then unparked.
pub fn record(watched: &Watched<'_>, done: &AtomicBool) -> Result<Timeline> {
    let mut timeline = Timeline::default();
    let mut open = OpenMarks::new(watched.store.activity());
    let before = Baseline::now();
    // Even after an error, the clients must not wait for this thread in vain.
    let start = watched.start.wait();
    let before = before?;
    let mut space = LastLook::default();
    let mut interval = watched.interval;
    let mut due = Duration::ZERO;
    loop {
        let last = done.load(Ordering::Acquire);
        let sample = before.sample(watched, start, &mut space, last)?;
        (watched.progress)(sample.operations);
        open.observe(watched.store.activity(), sample.at_s, &mut timeline.marks);
        timeline.peak_table_space_bytes =
            (timeline.peak_table_space_bytes).max(sample.table_space_bytes);
        timeline.samples.push(sample);
        if timeline.samples.len() >= MOST_SAMPLES {
            halve(&mut timeline.samples);
            interval *= 2;
        }
        if last {
            open.close(sample.at_s, &mut timeline.marks);
            return Ok(timeline);
        }
        due = (due + interval).max(start.elapsed());
        wait(start, due, done);
    }
}

fn wait(start: Instant, due: Duration, done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        let ahead = due.saturating_sub(start.elapsed());
        if ahead.is_zero() {
            return;
        }
        std::thread::park_timeout(ahead);
    }
}

fn halve(samples: &mut Vec<Sample>) {
    let mut index = 0;
    samples.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

struct Baseline {
    io: Io,
    processor: Duration,
}

impl Baseline {
    fn now() -> Result<Self> {
        Ok(Baseline {
            io: Io::now()?,
            processor: usage::processor_time()?,
        })
    }

    fn sample(
        &self,
        watched: &Watched<'_>,
        start: Instant,
        look: &mut LastLook,
        is_last: bool,
    ) -> Result<Sample> {
        let space = look.space(watched, is_last)?;
        let io = Io::now()?;
        let operations = watched
            .counts
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .sum();
        Ok(Sample {
            at_s: start.elapsed().as_secs_f64(),
            operations,
            write_bytes: io.write_bytes.saturating_sub(self.io.write_bytes),
            read_bytes: io.read_bytes.saturating_sub(self.io.read_bytes),
            space_bytes: space.bytes,
            table_space_bytes: space.table_bytes,
            resident_bytes: usage::resident_bytes()?,
            processor_s: (usage::processor_time()?.saturating_sub(self.processor)).as_secs_f64(),
        })
    }
}

/// Space of the files, as of the last look.
#[derive(Default)]
struct LastLook {
    space: Space,
    next: Option<Instant>,
}

impl LastLook {
    fn space(&mut self, watched: &Watched<'_>, is_last: bool) -> Result<Space> {
        let now = Instant::now();
        if is_last || self.next.is_none_or(|next| next <= now) {
            let beside = |file: &Path| watched.store.is_beside_tables(file);
            self.space = space::allocated(watched.directory, &beside)?;
            self.next = Some(now + now.elapsed() * (SPACE_PAUSE + 1));
        }
        Ok(self.space)
    }
}

/// Spans that have begun and not ended. A span that ended between two samples, or was going on at a
/// sample, is marked from the sample before on.
struct OpenMarks {
    last: Activity,
    last_s: f64,
    open: [(MarkKind, Option<f64>); 3],
}

impl OpenMarks {
    fn new(now: Activity) -> Self {
        OpenMarks {
            last: now,
            last_s: 0.0,
            open: [MarkKind::Flush, MarkKind::Compaction, MarkKind::Stall].map(|kind| (kind, None)),
        }
    }

    fn observe(&mut self, now: Activity, at_s: f64, marks: &mut Vec<Mark>) {
        let ended = [
            now.flushes > self.last.flushes,
            now.compactions > self.last.compactions,
            false,
        ];
        let goes_on = [now.flushing, now.compacting, now.stalled == Some(true)];
        for (((kind, open), ended), goes_on) in self.open.iter_mut().zip(ended).zip(goes_on) {
            if ended || goes_on {
                open.get_or_insert(self.last_s);
            }
            if !goes_on && let Some(from_s) = open.take() {
                marks.push(Mark {
                    kind: *kind,
                    from_s,
                    to_s: at_s,
                });
            }
        }
        (self.last, self.last_s) = (now, at_s);
    }

    fn close(&mut self, at_s: f64, marks: &mut Vec<Mark>) {
        for (kind, open) in &mut self.open {
            if let Some(from_s) = open.take() {
                marks.push(Mark {
                    kind: *kind,
                    from_s,
                    to_s: at_s,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
