//! The bytes of a simulated disk, and its requests in flight.

use std::collections::VecDeque;
use std::mem;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{Completion, Kind, Part, Request};
use super::{Counters, SECTOR_BYTES};
use crate::block::Buffer;

pub(super) struct State {
    pub(super) random: StdRng,
    is_in_order: bool,
    /// With all completed writes.
    pub(super) image: Vec<u8>,
    /// With those that a completed flush covers.
    pub(super) durable: Vec<u8>,
    /// Those between the two, in the order of their completion.
    pub(super) unflushed: VecDeque<Written>,
    /// Number of writes completed so far.
    completed: u64,
    /// In the order of their begin.
    pub(super) in_flight: Vec<InFlight>,
    pub(super) steps: u64,
    pub(super) stop_after: Option<u64>,
    pub(super) counters: Counters,
    devices: u64,
}

/// A part of a completed write.
pub(super) struct Written {
    /// Number of the write, by completion.
    number: u64,
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
}

pub(super) struct InFlight {
    device: u64,
    tag: u64,
    step: u64,
    polls_left: u32,
    /// Number of writes that had completed when it began.
    covered: u64,
    pub(super) kind: Kind,
    buffer: Buffer,
    parts: Vec<Part>,
    /// The request is illegal.
    error: Option<std::io::Error>,
}

impl InFlight {
    /// Returns the bytes that a write brings, and their places.
    pub(super) fn writes(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let is_write = self.kind == Kind::Write && self.error.is_none();
        let parts = self.parts.iter().filter(move |_| is_write);
        parts.map(|part| {
            let bytes = &self.buffer[part.at..part.at + part.bytes];
            (part.offset as usize, bytes)
        })
    }
}

/// Splits bytes into sectors with their places.
pub(super) fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let sectors = bytes.chunks(SECTOR_BYTES).enumerate();
    sectors.map(move |(number, sector)| (offset + number * SECTOR_BYTES, sector))
}

pub(super) fn put(image: &mut [u8], offset: usize, bytes: &[u8]) {
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl State {
    pub(super) fn new(image: Vec<u8>, seed: u64) -> Self {
        State {
            random: StdRng::seed_from_u64(seed),
            is_in_order: false,
            durable: image.clone(),
            image,
            unflushed: VecDeque::new(),
            completed: 0,
            in_flight: Vec::new(),
            steps: 0,
            stop_after: None,
            counters: Counters::default(),
            devices: 0,
        }
    }

    pub(super) fn set_in_order(&mut self) {
        self.is_in_order = true;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.image.len() as u64
    }

    pub(super) fn next_device(&mut self) -> u64 {
        self.devices += 1;
        self.devices
    }

    pub(super) fn is_beyond_stop(&self, step: u64) -> bool {
        self.stop_after.is_some_and(|stop| step > stop)
    }

    pub(super) fn begin(&mut self, device: u64, tag: u64, request: Request) {
        let error = request.check(self.bytes()).err();
        let (kind, buffer, parts) = request.dismantle();
        self.steps += 1;
        self.count(kind, &parts);
        let polls_left = self.delay();
        self.in_flight.push(InFlight {
            device,
            tag,
            step: self.steps,
            polls_left,
            covered: self.completed,
            kind,
            buffer,
            parts,
            error,
        });
    }

    fn count(&mut self, kind: Kind, parts: &[Part]) {
        let bytes: u64 = parts.iter().map(|part| part.bytes as u64).sum();
        let counters = &mut self.counters;
        match kind {
            Kind::Read => {
                counters.reads += 1;
                counters.read_bytes += bytes;
            }
            Kind::Write => {
                counters.writes += 1;
                counters.written_bytes += bytes;
            }
            Kind::Flush => counters.flushes += 1,
        }
    }

    /// Returns the number of polls until a request completes: now and then a large one.
    fn delay(&mut self) -> u32 {
        match self.random.random_range(0..8) {
            _ if self.is_in_order => 1,
            0 => self.random.random_range(1..32),
            _ => self.random.random_range(1..4),
        }
    }

    /// Returns true if a device has a request in flight that a poll completes some time.
    pub(super) fn is_busy(&self, device: u64) -> bool {
        let able =
            |request: &InFlight| request.device == device && !self.is_beyond_stop(request.step);
        self.in_flight.iter().any(able)
    }

    /// Completes requests of a device that are due, at least one if it has any and `must_progress`.
    pub(super) fn poll(
        &mut self,
        device: u64,
        must_progress: bool,
        completions: &mut Vec<Completion>,
    ) {
        let stop = self.stop_after.unwrap_or(u64::MAX);
        let able = |request: &InFlight| request.device == device && request.step <= stop;
        for request in self.in_flight.iter_mut().filter(|request| able(request)) {
            request.polls_left = request.polls_left.saturating_sub(1);
        }
        let candidates = self.in_flight.iter().filter(|request| able(request));
        let soonest = candidates.map(|request| request.polls_left).min();
        let due = match soonest {
            Some(soonest) if must_progress => soonest,
            Some(0) => 0,
            _ => return,
        };
        let (mut ready, left) = mem::take(&mut self.in_flight)
            .into_iter()
            .partition::<Vec<_>, _>(|request| able(request) && request.polls_left <= due);
        self.in_flight = left;
        while !ready.is_empty() {
            let next = match self.is_in_order {
                true => 0,
                false => self.random.random_range(0..ready.len()),
            };
            let request = ready.remove(next);
            let completion = self.complete(request, &ready);
            completions.push(completion);
        }
    }

    /// Does a request. `ready` are those that the same poll does later.
    fn complete(&mut self, mut request: InFlight, ready: &[InFlight]) -> Completion {
        let result = match request.error.take() {
            Some(error) => Err(error),
            None => {
                match request.kind {
                    Kind::Read => self.read(&mut request, ready),
                    Kind::Write => self.write(&request),
                    Kind::Flush => self.make_durable(request.covered),
                }
                Ok(())
            }
        };
        Completion {
            tag: request.tag,
            buffer: request.buffer,
            result,
        }
    }

    /// Reads. Of a write that is still in flight any sectors may show already.
    fn read(&mut self, request: &mut InFlight, ready: &[InFlight]) {
        for part in &request.parts {
            let offset = part.offset as usize;
            let to = &mut request.buffer[part.at..part.at + part.bytes];
            to.copy_from_slice(&self.image[offset..offset + part.bytes]);
            let writes = self
                .in_flight
                .iter()
                .chain(ready)
                .flat_map(InFlight::writes);
            for (place, sector) in writes.flat_map(|(place, bytes)| sectors(place, bytes)) {
                let at = place.checked_sub(offset).filter(|&at| at < part.bytes);
                if let Some(at) = at.filter(|_| self.random.random()) {
                    put(to, at, sector);
                }
            }
        }
    }

    fn write(&mut self, request: &InFlight) {
        for (offset, bytes) in request.writes() {
            put(&mut self.image, offset, bytes);
            self.unflushed.push_back(Written {
                number: self.completed,
                offset,
                bytes: bytes.to_vec(),
            });
        }
        self.completed += 1;
    }

    /// Makes the first `covered` writes durable, in the order of their completions.
    fn make_durable(&mut self, covered: u64) {
        while let Some(written) = self.unflushed.pop_front_if(|next| next.number < covered) {
            put(&mut self.durable, written.offset, &written.bytes);
        }
    }

    /// Ends a device: its writes in flight are done or not, but those beyond the stop stay.
    pub(super) fn abandon(&mut self, device: u64) {
        let stop = self.stop_after.unwrap_or(u64::MAX);
        let (ended, left) = mem::take(&mut self.in_flight)
            .into_iter()
            .partition::<Vec<_>, _>(|request| request.device == device && request.step <= stop);
        self.in_flight = left;
        for request in ended {
            if self.random.random() {
                self.write(&request);
            }
        }
    }
}
