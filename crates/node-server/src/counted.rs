//! A device whose requests are counted.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use terrace_node::device::{Completion, Device, Kind, Request, Wait, Waker};

/// Requests of all loops to their device.
#[derive(Default)]
pub(crate) struct DeviceCounts {
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// Counts the requests to the device below.
pub(crate) struct CountedDevice {
    below: Box<dyn Device>,
    counts: Arc<DeviceCounts>,
}

impl CountedDevice {
    pub(crate) fn new(below: Box<dyn Device>, counts: &Arc<DeviceCounts>) -> Self {
        CountedDevice {
            below,
            counts: Arc::clone(counts),
        }
    }
}

impl Device for CountedDevice {
    fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    fn submit(&mut self, tag: u64, request: Request) {
        let bytes = request.parts().iter().map(|part| part.bytes as u64).sum();
        let counts = &*self.counts;
        let (requests, moved) = match request.kind() {
            Kind::Read => (&counts.reads, Some(&counts.read_bytes)),
            Kind::Write => (&counts.writes, Some(&counts.written_bytes)),
            Kind::Flush => (&counts.syncs, None),
        };
        requests.fetch_add(1, Relaxed);
        if let Some(moved) = moved {
            moved.fetch_add(bytes, Relaxed);
        }
        self.below.submit(tag, request);
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let known = completions.len();
        self.below.poll(wait, completions)?;
        let new = completions.iter().skip(known);
        let failed = new.filter(|completion| completion.result.is_err()).count();
        if failed > 0 {
            self.counts.failures.fetch_add(failed as u64, Relaxed);
        }
        Ok(())
    }

    fn start(&mut self) -> io::Result<()> {
        self.below.start()
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.below.readiness()
    }

    fn waker(&self) -> Waker {
        self.below.waker()
    }
}
