//! A device that fails on demand.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Completion, Device, Kind, Part, Request, Wait, Waker};

/// Which requests fail, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Only this kind.
    pub kind: Option<Kind>,
    /// Only requests with a part in this range of the device, in bytes. A flush has no part.
    pub range: Option<Range<u64>>,
    /// Number of matching requests that succeed before.
    pub skip: u64,
    /// Number of requests that fail; none stands for all.
    pub times: Option<u64>,
    /// The error's number, as in `libc::EIO`.
    pub errno: i32,
}

/// The controls of one or several [`FaultyDevice`]s.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Default)]
struct Plan {
    faults: Vec<Fault>,
    /// Bytes of the device, and the bits that are read wrongly.
    flips: HashMap<u64, u8>,
    operations: u64,
}

impl Faults {
    /// Makes controls of devices that do not fail.
    pub fn new() -> Self {
        Faults::default()
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.0.lock().faults.push(fault);
    }

    /// Lets the n-th request from now on fail, counted from 0.
    pub fn fail_nth(&self, n: u64, errno: i32) {
        self.add(Fault {
            skip: n,
            times: Some(1),
            errno,
            ..Fault::default()
        });
    }

    /// Lets all requests of a kind fail.
    pub fn fail_kind(&self, kind: Kind, errno: i32) {
        self.add(Fault {
            kind: Some(kind),
            errno,
            ..Fault::default()
        });
    }

    /// Lets all reads and writes with a part in a range of the device fail.
    pub fn fail_range(&self, range: Range<u64>, errno: i32) {
        self.add(Fault {
            range: Some(range),
            errno,
            ..Fault::default()
        });
    }

    /// Lets a byte of the device be read with these bits flipped.
    pub fn flip(&self, offset: u64, bits: u8) {
        *self.0.lock().flips.entry(offset).or_default() ^= bits;
    }

    /// Ends all faults and flips.
    pub fn clear(&self) {
        let mut plan = self.0.lock();
        plan.faults.clear();
        plan.flips.clear();
    }

    /// Returns the number of requests so far.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }
}

impl Plan {
    /// Counts a request; returns the number of its error if it fails.
    fn judge(&mut self, request: &Request) -> Option<i32> {
        self.operations += 1;
        let mut judged = None;
        // Every fault counts the request, also behind the one that it fails by.
        for fault in self.faults.iter_mut().filter(|fault| fault.is_for(request)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if judged.is_none() && fault.times != Some(0) {
                fault.times = fault.times.map(|times| times - 1);
                judged = Some(fault.errno);
            }
        }
        judged
    }

    fn flip(&self, buffer: &mut [u8], parts: &[Part]) {
        for (&offset, bits) in &self.flips {
            for part in parts {
                let at = offset.checked_sub(part.offset);
                if let Some(at) = at.filter(|&at| at < part.bytes as u64) {
                    buffer[part.at + at as usize] ^= bits;
                }
            }
        }
    }
}

impl Fault {
    fn is_for(&self, request: &Request) -> bool {
        let is_in = |range: &Range<u64>| {
            request.parts().iter().any(|part| {
                let end = part.offset.saturating_add(part.bytes as u64);
                part.offset < range.end && range.start < end
            })
        };
        self.kind.is_none_or(|kind| kind == request.kind()) && self.range.as_ref().is_none_or(is_in)
    }
}

/// A device that fails when its [`Faults`] say so. A failed request does not reach the device below.
pub struct FaultyDevice<D> {
    below: D,
    faults: Faults,
    failed: Vec<Completion>,
    /// Tags and parts of the requests below, under the tags that they have there.
    below_tags: HashMap<u64, (u64, Vec<Part>)>,
    next_tag: u64,
}

impl<D: Device> FaultyDevice<D> {
    /// Puts the faults before a device.
    pub fn new(below: D, faults: Faults) -> Self {
        FaultyDevice {
            below,
            faults,
            failed: Vec::new(),
            below_tags: HashMap::new(),
            next_tag: 0,
        }
    }
}

impl<D: Device> Device for FaultyDevice<D> {
    fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    fn submit(&mut self, tag: u64, request: Request) {
        if let Some(errno) = self.faults.0.lock().judge(&request) {
            let (_, buffer, _) = request.dismantle();
            let result = Err(io::Error::from_raw_os_error(errno));
            let completion = Completion {
                tag,
                buffer,
                result,
            };
            self.failed.push(completion);
            return;
        }
        let parts = match &request {
            Request::Read { parts, .. } => parts.clone(),
            _ => Vec::new(),
        };
        self.below_tags.insert(self.next_tag, (tag, parts));
        self.below.submit(self.next_tag, request);
        self.next_tag += 1;
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let wait = if self.failed.is_empty() {
            wait
        } else {
            Wait::No
        };
        completions.append(&mut self.failed);
        let first = completions.len();
        self.below.poll(wait, completions)?;
        let plan = self.faults.0.lock();
        for completion in &mut completions[first..] {
            let Some((tag, parts)) = self.below_tags.remove(&completion.tag) else {
                continue;
            };
            completion.tag = tag;
            if completion.result.is_ok() {
                plan.flip(&mut completion.buffer, &parts);
            }
        }
        Ok(())
    }

    fn start(&mut self) -> io::Result<()> {
        if !self.failed.is_empty() {
            self.below.waker().wake();
        }
        self.below.start()
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.below.readiness()
    }

    fn waker(&self) -> Waker {
        self.below.waker()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Disk;
    use super::*;
    use crate::block::{BLOCK_BYTES, Buffer};

    fn read(block: u64) -> Request {
        let offset = block * BLOCK_BYTES as u64;
        Request::Read {
            buffer: Buffer::zeroed(1),
            parts: vec![Part {
                at: 0,
                bytes: BLOCK_BYTES,
                offset,
            }],
        }
    }

    /// The answers to requests, one after the other.
    fn errors(device: &mut impl Device, requests: Vec<Request>) -> Vec<Option<i32>> {
        let mut answers = Vec::new();
        for (tag, request) in requests.into_iter().enumerate() {
            let mut completions = Vec::new();
            device.submit(tag as u64, request);
            device.poll(Wait::Yes, &mut completions).unwrap();
            assert_eq!(completions.len(), 1);
            assert_eq!(completions[0].tag, tag as u64);
            let error = completions.remove(0).result.err();
            answers.push(error.map(|error| error.raw_os_error().unwrap()));
        }
        answers
    }

    #[test]
    fn requests_fail_by_number_kind_and_place() {
        let faults = Faults::new();
        let mut device = FaultyDevice::new(Disk::new(16, 1).device(), faults.clone());
        faults.fail_nth(1, libc::EIO);
        let found = errors(&mut device, vec![read(0), read(0), read(0)]);
        assert_eq!(found, [None, Some(libc::EIO), None]);
        faults.fail_kind(Kind::Flush, libc::ENOSPC);
        let found = errors(&mut device, vec![read(0), Request::Flush, Request::Flush]);
        assert_eq!(found, [None, Some(libc::ENOSPC), Some(libc::ENOSPC)]);
        faults.clear();
        faults.fail_range(5 * 4096..5 * 4096 + 1, libc::ENXIO);
        let requests = vec![read(4), read(5), read(6), Request::Flush];
        assert_eq!(
            errors(&mut device, requests),
            [None, Some(libc::ENXIO), None, None]
        );
        assert_eq!(faults.operations(), 10);
    }

    #[test]
    fn a_byte_is_read_wrongly() {
        let faults = Faults::new();
        let mut device = FaultyDevice::new(Disk::new(16, 1).device(), faults.clone());
        faults.flip(2 * 4096 + 5, 0x10);
        for (block, byte) in [(1, 0), (2, 0x10), (3, 0)] {
            let mut completions = Vec::new();
            device.submit(9, read(block));
            device.poll(Wait::Yes, &mut completions).unwrap();
            assert_eq!(completions[0].buffer[5], byte);
        }
    }
}
