//! The same device without the engine.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_node::block::{BLOCK_BYTES, Buffer};
use terrace_node::device::{Device, Kind, Part, Request, Wait};
use terrace_node::engine::PIECE_BYTES;

use super::engine::{device, open_medium};
use super::report::Sample;

/// A part of the file, and requests for it.
#[derive(Clone, Copy)]
pub struct Load {
    pub kind: Kind,
    /// Whether requests go to random places; else one after another.
    pub is_random: bool,
    /// Bytes of a request.
    pub bytes: usize,
    pub depth: usize,
    pub count: u64,
    /// Offset of the part.
    pub offset: u64,
}

impl Load {
    /// Returns the offset of a request, within as many bytes as all requests have.
    fn place(&self, number: u64, rng: &mut SmallRng) -> u64 {
        let number = match self.is_random {
            true => rng.random_range(0..self.count),
            false => number,
        };
        self.offset + number * self.bytes as u64
    }

    fn request(&self, number: u64, buffer: Buffer, rng: &mut SmallRng) -> Request {
        let parts = vec![Part {
            at: 0,
            bytes: self.bytes,
            offset: self.place(number, rng),
        }];
        match self.kind {
            Kind::Write => Request::Write { buffer, parts },
            _ => Request::Read { buffer, parts },
        }
    }

    /// Returns the bytes of the part.
    pub fn span(&self) -> u64 {
        self.count * self.bytes as u64
    }

    /// Returns the same requests for the part before the last block of a file.
    pub fn at_end_of(mut self, file_bytes: u64) -> Self {
        self.offset = file_bytes - self.span() - BLOCK_BYTES as u64;
        self
    }

    /// Moves the bytes and measures.
    pub fn run(&self, path: &Path) -> Sample {
        self.run_on(&mut *device(&open_medium(path)), None)
    }

    /// Does the same beside a stream of large writes to `stream`, as the engine has them for a store.
    pub fn run_beside(&self, path: &Path, stream: Stream) -> Sample {
        self.run_on(&mut *device(&open_medium(path)), Some(stream))
    }

    fn run_on(&self, device: &mut dyn Device, mut stream: Option<Stream>) -> Sample {
        let blocks = self.bytes / BLOCK_BYTES;
        let mut buffers: Vec<Buffer> = (0..self.depth).map(|_| Buffer::zeroed(blocks)).collect();
        let mut rng = SmallRng::seed_from_u64(3);
        let mut begun = vec![Instant::now(); self.depth];
        let mut free: Vec<usize> = (0..self.depth).collect();
        let mut latencies = Vec::with_capacity(self.count as usize);
        let (mut next, mut completions) = (0, Vec::new());
        let start = Instant::now();
        for tag in STREAM..STREAM + STREAM_DEPTH {
            if let Some(stream) = &mut stream {
                device.submit(tag, stream.next(Buffer::zeroed(STREAM_BYTES / BLOCK_BYTES)));
            }
        }
        while latencies.len() < self.count as usize {
            while next < self.count
                && let Some(slot) = free.pop()
            {
                let buffer = std::mem::take(&mut buffers[slot]);
                begun[slot] = Instant::now();
                device.submit(slot as u64, self.request(next, buffer, &mut rng));
                next += 1;
            }
            device
                .poll(Wait::Yes, &mut completions)
                .expect("the device's queue works");
            for completion in completions.drain(..) {
                completion.result.expect("no request fails");
                if let Some(stream) = stream.as_mut().filter(|_| completion.tag >= STREAM) {
                    device.submit(completion.tag, stream.next(completion.buffer));
                    continue;
                }
                let slot = completion.tag as usize;
                latencies.push(begun[slot].elapsed());
                buffers[slot] = completion.buffer;
                free.push(slot);
            }
        }
        Sample::new(latencies, self.span(), start.elapsed().as_secs_f64())
    }
}

/// Tags of the stream, and its requests in flight: the engine moves two pieces of a store at a time.
const STREAM: u64 = 1 << 32;
const STREAM_DEPTH: u64 = 2;
const STREAM_BYTES: usize = PIECE_BYTES as usize;

/// A part of the file that is written again and again.
#[derive(Clone, Copy)]
pub struct Stream {
    pub offset: u64,
    pub bytes: u64,
    pub written: u64,
}

impl Stream {
    fn next(&mut self, buffer: Buffer) -> Request {
        let places = self.bytes / STREAM_BYTES as u64;
        let parts = vec![Part {
            at: 0,
            bytes: STREAM_BYTES,
            offset: self.offset + self.written % places * STREAM_BYTES as u64,
        }];
        self.written += 1;
        Request::Write { buffer, parts }
    }
}

/// Writes values one after another into the file, each made durable by an `fdatasync` of its own.
pub fn synced_writes(path: &Path, count: u64, value_bytes: usize) -> Sample {
    let file = File::options().write(true).open(path).expect("it opens");
    let value = vec![7; value_bytes];
    let start = Instant::now();
    let mut latencies = Vec::new();
    for number in 0..count {
        let begun = Instant::now();
        file.write_all_at(&value, number * value_bytes as u64)
            .expect("it is written");
        file.sync_data().expect("it is durable");
        latencies.push(begun.elapsed());
    }
    let bytes = count * value_bytes as u64;
    Sample::new(latencies, bytes, start.elapsed().as_secs_f64())
}
