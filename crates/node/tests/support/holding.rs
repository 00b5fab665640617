//! A device that holds writes back.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_node::device::{Completion, Device, Kind, Part, Request, Wait, Waker};

/// A device that holds some writes back until a test releases them.
pub struct HoldingDevice<D> {
    pub below: D,
    pub is_held: Box<dyn Fn(&Part) -> bool + Send>,
    pub holds: Arc<AtomicBool>,
    pub held: Vec<(u64, Request)>,
}

impl<D: Device> Device for HoldingDevice<D> {
    fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    fn submit(&mut self, tag: u64, request: Request) {
        let is_held = request.parts().iter().any(&self.is_held);
        if request.kind() == Kind::Write && is_held && self.holds.load(Ordering::Relaxed) {
            self.held.push((tag, request));
        } else {
            self.below.submit(tag, request);
        }
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> std::io::Result<()> {
        if !self.holds.load(Ordering::Relaxed) {
            for (tag, request) in self.held.drain(..) {
                self.below.submit(tag, request);
            }
        }
        self.below.poll(wait, completions)
    }

    fn start(&mut self) -> std::io::Result<()> {
        self.below.start()
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.below.readiness()
    }

    fn waker(&self) -> Waker {
        self.below.waker()
    }
}
