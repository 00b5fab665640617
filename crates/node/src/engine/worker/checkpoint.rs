//! A checkpoint: the whole index, written beside the one before, so that the journal can start
//! over.
//!
//! Commands go on meanwhile. The walk sees each key at some moment after the start, and the journal
//! holds every change since the start; each record replaces its key's state in full. So the
//! records give the same end from any of these states. The order: content, flush, header, flush;
//! only then is the journal before the start given up.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;

use super::super::content::{Content, Outgrown, first_of};
use super::super::segments::extent_of;
use super::{Operation, Waiter, Worker, count};
use crate::block::{Buffer, Extent, Extents};
use crate::device::{Request, parts_of};

/// Failures in a row after which the namespace takes no more changes: its journal cannot shrink.
const MAX_FAILURES: u32 = 8;

/// A checkpoint that this loop makes.
pub(super) struct Job {
    content: Content,
    slot: Extent,
    /// Segments that were full at the start: they are written before the journal drops them.
    segments: BTreeSet<u64>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Content,
    Segments,
    ContentFlush,
    Header,
    HeaderFlush,
}

impl Worker {
    /// Begins a checkpoint. `start` is the journal's next block, and the checksum of the one before:
    /// all records before it are in the index.
    pub(super) fn begin_checkpoint(&mut self, at: usize, start: (u64, u64)) {
        let namespace = self.namespace(at);
        if let Some(segment) = namespace.segments.seal() {
            self.write_segment(at, segment);
        }
        *namespace.duty_waiter.lock() = Some(Waiter::new(&self.inbox, u32::MAX));
        let generation = namespace.journal.lock().generation + 1;
        let slot = namespace.description.checkpoints[(generation % 2) as usize];
        self.checkpoints[at] = Some(Job {
            content: Content::new(namespace.description.secret, generation, start),
            slot,
            segments: namespace.segments.sealed(),
            stage: Stage::Content,
        });
        self.go_on_with_checkpoint(at);
    }

    /// Takes the answer to the checkpoint's last request.
    pub(super) fn checkpoint_step(&mut self, at: usize, _: Buffer, result: io::Result<()>) {
        let Some(job) = &mut self.checkpoints[at] else {
            debug_assert!(false, "requests are of a job");
            return;
        };
        if let Err(error) = result {
            let is_flush = matches!(job.stage, Stage::ContentFlush | Stage::HeaderFlush);
            return self.checkpoint_failed(at, is_flush, &error);
        }
        match job.stage {
            Stage::ContentFlush => job.stage = Stage::Header,
            Stage::Header => job.stage = Stage::HeaderFlush,
            Stage::HeaderFlush => return self.checkpoint_is_durable(at),
            Stage::Content | Stage::Segments => {}
        }
        self.go_on_with_checkpoint(at);
    }

    /// Sends the next request, if it need not wait for segments.
    pub(super) fn go_on_with_checkpoint(&mut self, at: usize) {
        let namespace = self.namespace(at);
        let Some(job) = &mut self.checkpoints[at] else {
            return;
        };
        if job.stage == Stage::Content {
            match job.content.next(&namespace.index, job.slot) {
                Err(Outgrown) => return self.checkpoint_outgrew(at),
                Ok(Some((buffer, place))) => {
                    let parts = parts_of(&[place]);
                    return self
                        .request(Operation::Checkpoint(at), Request::Write { buffer, parts });
                }
                Ok(None) => job.stage = Stage::Segments,
            }
        }
        if job.stage == Stage::Segments {
            let sealed = namespace.segments.sealed();
            if !job.segments.is_disjoint(&sealed) {
                return;
            }
            job.stage = Stage::ContentFlush;
        }
        let request = match job.stage {
            Stage::Header => {
                let header = job
                    .content
                    .header(namespace.sequence.load(Ordering::Relaxed));
                let mut buffer = Buffer::zeroed(1);
                header.encode(&mut buffer, namespace.description.secret, job.slot);
                let parts = parts_of(&[first_of(job.slot)]);
                Request::Write { buffer, parts }
            }
            _ => Request::Flush,
        };
        self.request(Operation::Checkpoint(at), request);
    }

    /// Looks whether the segments that a checkpoint waits for are written.
    pub(super) fn nudge_checkpoint(&mut self, at: usize) {
        let waits = |job: &Job| job.stage == Stage::Segments;
        if self.checkpoints[at].as_ref().is_some_and(waits) {
            self.go_on_with_checkpoint(at);
        }
    }

    fn checkpoint_is_durable(&mut self, at: usize) {
        let namespace = self.namespace(at);
        let Some(job) = self.checkpoints[at].take() else {
            return;
        };
        *namespace.duty_waiter.lock() = None;
        let mut journal = namespace.journal.lock();
        let header = job.content.header(0);
        journal.tail = header.journal_number;
        journal.generation = header.generation;
        journal.checkpoint_runs = false;
        journal.failed_checkpoints = 0;
        count(&namespace.counters.checkpoints);
    }

    /// Ends a checkpoint that its slot has no room for: its walk saw keys that went meanwhile, and others
    /// that came. The next one begins at once, and a full journal ends such changes at the latest.
    /// Without a change the next one has no more room, and begins only after one.
    fn checkpoint_outgrew(&mut self, at: usize) {
        let namespace = self.namespace(at);
        let Some(job) = self.checkpoints[at].take() else {
            return;
        };
        // Before another loop may begin one.
        *namespace.duty_waiter.lock() = None;
        let mut journal = namespace.journal.lock();
        journal.outgrown = Some(job.content.start());
        journal.checkpoint_runs = false;
    }

    fn checkpoint_failed(&mut self, at: usize, is_flush: bool, error: &io::Error) {
        let namespace = self.namespace(at);
        self.checkpoints[at] = None;
        *namespace.duty_waiter.lock() = None;
        let mut journal = namespace.journal.lock();
        journal.checkpoint_runs = false;
        journal.failed_checkpoints += 1;
        let gives_up = journal.failed_checkpoints >= MAX_FAILURES;
        drop(journal);
        if is_flush {
            self.node.poison(&format!("a flush failed: {error}"));
        } else if gives_up {
            namespace.poison(format!("no checkpoint could be written: {error}"));
        }
        namespace.wake_space_waiters();
    }

    /// Writes a segment that is full.
    pub(super) fn write_segment(&mut self, at: usize, segment: u64) {
        let namespace = self.namespace(at);
        let Some(buffer) = namespace.segments.image(segment) else {
            debug_assert!(false, "a full segment stays in memory until it is written");
            return;
        };
        let parts = parts_of(&[extent_of(segment)]);
        self.request(
            Operation::Segment(at, segment),
            Request::Write { buffer, parts },
        );
    }

    pub(super) fn segment_written(
        &mut self,
        at: usize,
        segment: u64,
        _: Buffer,
        result: io::Result<()>,
    ) {
        let namespace = self.namespace(at);
        if let Err(error) = result {
            // Its values are in the journal and in memory; they need a home before the journal ends.
            if namespace.segments.failed_again(segment) >= MAX_FAILURES {
                namespace.poison(format!("a segment could not be written: {error}"));
                return namespace.wake_space_waiters();
            }
            return self.write_segment(at, segment);
        }
        if let Some(extent) = namespace.segments.written(segment) {
            namespace.free_extents(Extents::one(extent));
        }
        let waiter = namespace.duty_waiter.lock().clone();
        if let Some(waiter) = waiter {
            waiter.nudge();
        }
    }
}
