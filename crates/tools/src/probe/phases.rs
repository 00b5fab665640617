//! The requests of each phase, and their times.
//!
//! Only the calls of the storage are timed. Marks, checks and the caller's progress are not.

use std::time::{Duration, Instant};

use terrace_storage::{self as storage, Purpose};

use super::content::{Content, PAGE_BYTES, Pages};
use super::error::{Error, Result};
use super::figures::{Latency, Spread};
use super::file::ProbeFile;
use super::plan::{PIECE_BYTES, Plan, part_ends};
use super::readers;
use super::watch::{Phase, Watch};

/// Reads that are under way at once in the fourth phase.
pub(super) const DEPTH: usize = 32;
/// Requests of a round, at least: reads give a p99, syncs may take long.
pub(super) const MIN_READS: usize = 100;
const MIN_SYNCS: usize = 10;
/// The stream of pages that syncs go to. Readers have those from 0 on.
const STREAM_OF_SYNCS: u64 = u64::MAX;

/// The figures of all phases.
pub(super) struct Measured {
    pub(super) file_bytes: u64,
    pub(super) write_bytes_per_second: Spread,
    pub(super) read_bytes_per_second: Spread,
    pub(super) read: Latency,
    pub(super) queued_read: Latency,
    pub(super) sync: Latency,
}

/// Runs all phases on an empty file.
pub(super) fn all(file: &ProbeFile, plan: &Plan, watch: &mut Watch<'_>) -> Result<Measured> {
    let content = Content::new(plan.seed);
    let (file_bytes, write_bytes_per_second) = write(file, content, plan.file_bytes, watch)?;
    // The time may have ended before the file had its size.
    let written = Plan {
        file_bytes,
        ..plan.clone()
    };
    Ok(Measured {
        file_bytes,
        write_bytes_per_second,
        read_bytes_per_second: read(file, content, file_bytes, watch)?,
        read: readers::random_reads(file, 1, Phase::RandomRead, &written, watch)?,
        queued_read: readers::random_reads(file, DEPTH, Phase::QueuedRead, &written, watch)?,
        sync: sync(file, content, &written, watch)?,
    })
}

/// Returns the result of a call, and its time.
pub(super) fn timed<T>(call: impl FnOnce() -> storage::Result<T>) -> storage::Result<Duration> {
    let began = Instant::now();
    call()?;
    // A clock may be too coarse for the call.
    Ok(began.elapsed().max(Duration::from_nanos(1)))
}

/// Writes the file in order, with a sync behind each part. Returns the bytes written.
fn write(
    file: &ProbeFile,
    content: Content,
    file_bytes: u64,
    watch: &mut Watch<'_>,
) -> Result<(u64, Spread)> {
    let stage = watch.begin(Phase::Write)?;
    let mut piece = content.piece();
    let mut bandwidths = Bandwidths::default();
    let mut written = 0;
    for end in part_ends(file_bytes) {
        let (begin, mut took) = (written, Duration::ZERO);
        while written < end && !(stage.is_over() && written > 0) {
            content.mark(piece.bytes_mut(), written / PAGE_BYTES as u64);
            took += timed(|| file.file().write_at(piece.bytes(), written, Purpose::Other))?;
            written += PIECE_BYTES;
            watch.reach(&stage, written as f64 / file_bytes as f64)?;
        }
        if written == begin {
            break;
        }
        took += timed(|| file.file().sync(Purpose::Other))?;
        bandwidths.add(written - begin, end - begin, took);
    }
    Ok((written, bandwidths.spread(Phase::Write)?))
}

/// Reads the file in order.
pub(super) fn read(
    file: &ProbeFile,
    content: Content,
    file_bytes: u64,
    watch: &mut Watch<'_>,
) -> Result<Spread> {
    let stage = watch.begin(Phase::Read)?;
    let mut piece = content.piece();
    let mut bandwidths = Bandwidths::default();
    let mut offset = 0;
    for end in part_ends(file_bytes) {
        let (begin, mut took) = (offset, Duration::ZERO);
        while offset < end && !(stage.is_over() && offset > 0) {
            took += timed(|| {
                file.file()
                    .read_exact_at(piece.bytes_mut(), offset, Purpose::Other)
            })?;
            let first_page = offset / PAGE_BYTES as u64;
            file.check(content, piece.bytes(), first_page)?;
            offset += PIECE_BYTES;
            watch.reach(&stage, offset as f64 / file_bytes as f64)?;
        }
        if offset == begin {
            break;
        }
        bandwidths.add(offset - begin, end - begin, took);
    }
    bandwidths.spread(Phase::Read)
}

/// Writes random pages again, and times the sync after each.
fn sync(file: &ProbeFile, content: Content, plan: &Plan, watch: &mut Watch<'_>) -> Result<Latency> {
    let stage = watch.begin(Phase::Sync)?;
    let mut bytes = content.random(PAGE_BYTES);
    let page_count = plan.file_bytes / PAGE_BYTES as u64;
    let mut pages = Pages::new(plan.seed, STREAM_OF_SYNCS, page_count);
    let mut times = Vec::new();
    for _ in 0..plan.max_requests {
        let page = pages.next();
        content.mark(bytes.bytes_mut(), page);
        file.file()
            .write_at(bytes.bytes(), page * PAGE_BYTES as u64, Purpose::Other)?;
        times.push(timed(|| file.file().sync(Purpose::Other))?);
        watch.reach(&stage, 0.0)?;
        if stage.is_over() {
            break;
        }
    }
    let phase = Phase::Sync;
    Latency::of(&times, MIN_SYNCS).ok_or(Error::NothingMeasured { phase })
}

/// Bandwidths of the parts of a file.
#[derive(Default)]
struct Bandwidths(Vec<f64>);

impl Bandwidths {
    /// Adds a part, of which the time may have allowed only `bytes`. Less than half of a part says little,
    /// and counts only if there is nothing else.
    fn add(&mut self, bytes: u64, part_bytes: u64, took: Duration) {
        if self.0.is_empty() || bytes * 2 >= part_bytes {
            self.0.push(bytes as f64 / took.as_secs_f64());
        }
    }

    fn spread(self, phase: Phase) -> Result<Spread> {
        Spread::of(self.0).ok_or(Error::NothingMeasured { phase })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_cut_short_counts_only_alone() {
        let second = Duration::from_secs(1);
        let spread = |parts: &[(u64, u64)]| {
            let mut bandwidths = Bandwidths::default();
            for &(bytes, part_bytes) in parts {
                bandwidths.add(bytes, part_bytes, second);
            }
            bandwidths.spread(Phase::Read).map(|spread| spread.min)
        };
        assert_eq!(spread(&[(1, 100)]).unwrap(), 1.0);
        assert_eq!(spread(&[(100, 100), (49, 100)]).unwrap(), 100.0);
        assert_eq!(spread(&[(100, 100), (50, 100)]).unwrap(), 50.0);
        assert!(matches!(spread(&[]), Err(Error::NothingMeasured { .. })));
    }
}
