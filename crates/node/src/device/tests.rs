//! The behaviour that all devices have in common.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::*;
use crate::error::Error;

const BLOCKS: usize = 256;

/// A device and its name; the file that it stands on lives as long.
struct Subject {
    name: &'static str,
    device: Box<dyn Device>,
    /// Waits are real ones.
    blocks: bool,
    _file: Option<tempfile::NamedTempFile>,
}

fn medium() -> (Arc<Medium>, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![0; BLOCKS * BLOCK_BYTES]).unwrap();
    let medium = Medium::open(file.path(), Access::Write).unwrap();
    (Arc::new(medium), file)
}

/// A ring; none where the system has none.
fn ring(medium: &Arc<Medium>, depth: usize) -> Option<RingDevice> {
    match RingDevice::new(Arc::clone(medium), depth) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("no io_uring here: {error}");
            None
        }
    }
}

fn on_file(
    name: &'static str,
    make: impl Fn(&Arc<Medium>) -> Option<Box<dyn Device>>,
) -> Option<Subject> {
    let (medium, file) = medium();
    Some(Subject {
        name,
        device: make(&medium)?,
        blocks: true,
        _file: Some(file),
    })
}

fn in_memory(name: &'static str, device: impl Device + 'static) -> Option<Subject> {
    Some(Subject {
        name,
        device: Box::new(device),
        blocks: false,
        _file: None,
    })
}

/// All kinds of devices, of 256 blocks of zeros.
fn subjects() -> Vec<Subject> {
    let threads = |medium: &Arc<Medium>| ThreadDevice::new(Arc::clone(medium), 3).unwrap();
    let disk = Disk::new(BLOCKS as u64, 4);
    let faulty = FaultyDevice::new(Disk::new(BLOCKS as u64, 5).device(), Faults::new());
    let all = [
        on_file("ring", |medium| Some(Box::new(ring(medium, 8)?))),
        on_file("ring of one", |medium| Some(Box::new(ring(medium, 1)?))),
        on_file("short ring", |medium| {
            Some(Box::new(ring(medium, 8)?.stopping_short(BLOCK_BYTES)))
        }),
        on_file("threads", |medium| Some(Box::new(threads(medium)))),
        on_file("faulty threads", |medium| {
            Some(Box::new(FaultyDevice::new(threads(medium), Faults::new())))
        }),
        in_memory("memory", disk.device()),
        in_memory(
            "memory in order",
            Disk::new(BLOCKS as u64, 4).in_order().device(),
        ),
        in_memory("faulty memory", faulty),
    ];
    all.into_iter().flatten().collect()
}

fn part(at: usize, blocks: usize, block: usize) -> Part {
    Part {
        at: at * BLOCK_BYTES,
        bytes: blocks * BLOCK_BYTES,
        offset: (block * BLOCK_BYTES) as u64,
    }
}

/// A write of blocks with these values.
fn write(values: &[u8], parts: Vec<Part>) -> Request {
    let mut buffer = Buffer::zeroed(values.len());
    for (block, value) in buffer.chunks_mut(BLOCK_BYTES).zip(values) {
        block.fill(*value);
    }
    Request::Write { buffer, parts }
}

fn read(blocks: usize, parts: Vec<Part>) -> Request {
    let buffer = Buffer::zeroed(blocks);
    Request::Read { buffer, parts }
}

/// The values of a buffer's blocks.
fn values(buffer: &Buffer) -> Vec<u8> {
    let blocks = buffer.chunks(BLOCK_BYTES);
    blocks
        .map(|block| {
            assert!(block.iter().all(|&byte| byte == block[0]));
            block[0]
        })
        .collect()
}

/// Waits for `count` completions, by tag.
fn finish(device: &mut dyn Device, count: usize) -> BTreeMap<u64, Completion> {
    let mut completions = Vec::new();
    while completions.len() < count {
        device.poll(Wait::Yes, &mut completions).unwrap();
    }
    assert_eq!(completions.len(), count);
    completions
        .into_iter()
        .map(|done| (done.tag, done))
        .collect()
}

fn perform(device: &mut dyn Device, request: Request) -> Completion {
    device.submit(77, request);
    finish(device, 1).remove(&77).unwrap()
}

#[test]
fn parts_are_written_and_read_where_they_belong() {
    for Subject {
        name, mut device, ..
    } in subjects()
    {
        assert_eq!(device.bytes(), (BLOCKS * BLOCK_BYTES) as u64);
        let parts = vec![part(0, 1, 9), part(2, 3, 100), part(1, 1, BLOCKS - 1)];
        let done = perform(&mut *device, write(&[1, 2, 3, 4, 5], parts));
        done.result.unwrap();
        assert_eq!(values(&done.buffer), [1, 2, 3, 4, 5], "{name}");
        assert!(perform(&mut *device, Request::Flush).buffer.is_empty());
        let parts = vec![part(1, 4, 99), part(5, 1, 9), part(0, 1, BLOCKS - 1)];
        let done = perform(&mut *device, read(7, parts));
        done.result.unwrap();
        assert_eq!(values(&done.buffer), [2, 0, 3, 4, 5, 1, 0], "{name}");
    }
}

#[test]
fn many_requests_are_in_flight() {
    for Subject {
        name, mut device, ..
    } in subjects()
    {
        for block in 0..BLOCKS {
            device.submit(block as u64, write(&[block as u8], vec![part(0, 1, block)]));
        }
        let done = finish(&mut *device, BLOCKS);
        assert!(done.values().all(|done| done.result.is_ok()), "{name}");
        for block in (0..BLOCKS).step_by(2) {
            let parts = vec![part(1, 1, block), part(0, 1, block + 1)];
            device.submit(block as u64, read(2, parts));
        }
        device.submit(1, Request::Flush);
        for (tag, done) in finish(&mut *device, BLOCKS / 2 + 1) {
            done.result.unwrap();
            if tag != 1 {
                assert_eq!(values(&done.buffer), [tag as u8 + 1, tag as u8], "{name}");
            }
        }
    }
}

#[test]
fn illegal_parts_are_refused_and_the_buffer_comes_back() {
    let illegal = [
        Part {
            at: 0,
            bytes: 0,
            offset: 0,
        },
        Part {
            at: 512,
            bytes: 4096,
            offset: 0,
        },
        Part {
            at: 0,
            bytes: 512,
            offset: 0,
        },
        Part {
            at: 0,
            bytes: 4096,
            offset: 512,
        },
        Part {
            at: usize::MAX - 4095,
            bytes: 8192,
            offset: 0,
        },
        Part {
            at: 0,
            bytes: 4096,
            offset: u64::MAX - 4095,
        },
        part(2, 1, 0),
        part(0, 3, 0),
        part(0, 1, BLOCKS),
    ];
    for Subject {
        name, mut device, ..
    } in subjects()
    {
        for part in illegal {
            for request in [read(2, vec![part]), write(&[1, 2], vec![part])] {
                let done = perform(&mut *device, request);
                let error = done.result.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name} {part:?}");
                assert_eq!(done.buffer.blocks(), 2);
            }
        }
        perform(&mut *device, read(2, Vec::new())).result.unwrap();
    }
}

#[test]
fn a_poll_does_not_wait_for_nothing() {
    for Subject { mut device, .. } in subjects() {
        let mut completions = Vec::new();
        device.poll(Wait::No, &mut completions).unwrap();
        device.poll(Wait::Yes, &mut completions).unwrap();
        assert!(completions.is_empty());
    }
}

#[test]
fn a_wait_ends_by_time_or_by_a_waker() {
    let forever = Wait::AtMost(Duration::MAX);
    for Subject {
        name, mut device, ..
    } in subjects().into_iter().filter(|one| one.blocks)
    {
        let waker = device.waker();
        let mut poll = |wait| {
            let begun = Instant::now();
            device.poll(wait, &mut Vec::new()).unwrap();
            begun.elapsed()
        };
        let time = Duration::from_millis(20);
        assert!(poll(Wait::AtMost(time)) >= time, "{name}");
        waker.wake();
        poll(Wait::No);
        poll(forever);
        assert!(poll(Wait::AtMost(time)) >= time, "{name}: woken once");
        let waking = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        poll(forever);
        waking.join().unwrap();
    }
}

#[test]
fn a_wait_ends_by_a_completion() {
    for Subject { mut device, .. } in subjects() {
        let mut completions = Vec::new();
        device.submit(5, read(1, vec![part(0, 1, 3)]));
        device
            .poll(Wait::AtMost(Duration::MAX), &mut completions)
            .unwrap();
        assert_eq!(completions.len(), 1);
        assert_eq!(completions[0].tag, 5);
    }
}

#[test]
fn a_device_moves_to_another_thread() {
    for Subject { name, device, .. } in subjects() {
        let mut device = device;
        device = thread::spawn(move || {
            for tag in 0..32 {
                device.submit(tag, write(&[9; 4], vec![part(0, 4, 4 * tag as usize)]));
            }
            device.poll(Wait::No, &mut Vec::new()).unwrap();
            device
        })
        .join()
        .unwrap();
        // The first completions went with the thread: the last one is waited for.
        let mut completions = Vec::new();
        device.submit(99, read(4, vec![part(0, 4, 0)]));
        while !completions.iter().any(|done: &Completion| done.tag == 99) {
            device.poll(Wait::Yes, &mut completions).unwrap();
        }
        for done in completions {
            done.result
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

/// Whether a device's readiness comes within a time.
fn is_ready(device: &dyn Device, limit: Duration) -> bool {
    let limit = rustix::event::Timespec::try_from(limit).unwrap();
    let readiness = device.readiness();
    let mut polled = [PollFd::from_borrowed_fd(readiness, PollFlags::IN)];
    rustix::event::poll(&mut polled, Some(&limit)).unwrap() == 1
}

#[test]
fn readiness_tells_of_completions() {
    let patience = Duration::from_secs(10);
    for Subject {
        name, mut device, ..
    } in subjects()
    {
        let mut completions = Vec::new();
        device.poll(Wait::No, &mut completions).unwrap();
        assert!(!is_ready(&*device, Duration::ZERO), "{name}: idle");
        for round in 1..200 {
            let count = round % 13 + 1;
            for tag in 0..count {
                let request = match (tag + round) % 4 {
                    0 => write(&[7; 4], vec![part(0, 3, round), part(3, 1, tag)]),
                    1 => Request::Flush,
                    // Requests that need nothing of the system.
                    2 => read(1, vec![part(0, 1, BLOCKS)]),
                    _ => read(2, vec![part(1, 1, tag), part(0, 1, round)]),
                };
                device.submit(tag as u64, request);
            }
            device.start().unwrap();
            while completions.len() < count {
                assert!(is_ready(&*device, patience), "{name}: {round}");
                device.poll(Wait::No, &mut completions).unwrap();
            }
            assert_eq!(completions.drain(..).count(), count, "{name}");
            // The wake for requests that the system never saw is one more answer.
            for _ in 0..2 {
                device.poll(Wait::No, &mut completions).unwrap();
            }
            assert!(!is_ready(&*device, Duration::ZERO), "{name}: {round}");
        }
    }
}

#[test]
fn a_waker_makes_a_device_ready_once() {
    let patience = Duration::from_secs(10);
    for Subject {
        name, mut device, ..
    } in subjects()
    {
        device.poll(Wait::No, &mut Vec::new()).unwrap();
        let waker = device.waker();
        for round in 0..100 {
            waker.wake();
            waker.wake();
            assert!(is_ready(&*device, patience), "{name}: {round}");
            // The ring may have taken the first wake before the second came.
            device.poll(Wait::No, &mut Vec::new()).unwrap();
            device.poll(Wait::No, &mut Vec::new()).unwrap();
            assert!(!is_ready(&*device, Duration::ZERO), "{name}: {round}");
        }
        let waking = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        assert!(is_ready(&*device, patience), "{name}: woken asleep");
        waking.join().unwrap();
    }
}

/// Devices over one medium, ring and threads.
fn real(medium: &Arc<Medium>) -> Vec<Box<dyn Device>> {
    let threads = ThreadDevice::new(Arc::clone(medium), 2).unwrap();
    let mut all: Vec<Box<dyn Device>> = vec![Box::new(threads)];
    if let Some(ring) = ring(medium, 4) {
        all.push(Box::new(ring));
    }
    all
}

#[test]
fn a_drop_with_requests_in_flight_leaves_whole_requests() {
    for round in 0..20_u8 {
        let (medium, file) = medium();
        for mut device in real(&medium) {
            for tag in 0..16 {
                let begin = 16 * tag as usize;
                device.submit(tag, write(&[round + 1; 16], vec![part(0, 16, begin)]));
                device.submit(100 + tag, read(16, vec![part(0, 16, begin)]));
            }
            device.submit(200, Request::Flush);
            let waker = device.waker();
            if round % 2 == 0 {
                device.poll(Wait::No, &mut Vec::new()).unwrap();
            }
            drop(device);
            waker.wake();
            // No write of the dropped device disturbs the next reader.
            let after = std::fs::read(file.path()).unwrap();
            thread::sleep(Duration::from_millis(1));
            assert_eq!(std::fs::read(file.path()).unwrap(), after);
            for write in after.chunks(16 * BLOCK_BYTES) {
                assert!(write.iter().all(|&byte| byte == write[0]));
            }
        }
    }
}

#[test]
fn a_file_that_became_shorter_ends_a_read() {
    let (medium, file) = medium();
    let shortened = std::fs::File::options()
        .write(true)
        .open(file.path())
        .unwrap();
    shortened.set_len(3 * BLOCK_BYTES as u64).unwrap();
    for mut device in real(&medium) {
        let done = perform(&mut *device, read(4, vec![part(0, 4, 0)]));
        let error = done.result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        perform(&mut *device, read(3, vec![part(0, 3, 0)]))
            .result
            .unwrap();
    }
}

#[test]
fn a_medium_for_reading_refuses_writes() {
    let (writer, file) = medium();
    drop(writer);
    let medium = Arc::new(Medium::open(file.path(), Access::Read).unwrap());
    for mut device in real(&medium) {
        let done = perform(&mut *device, write(&[1], vec![part(0, 1, 0)]));
        assert_eq!(done.result.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}

#[test]
fn each_backend_can_be_asked_for() {
    let (medium, _file) = medium();
    for backend in [Backend::Auto, Backend::Threads, Backend::Ring] {
        match open_device(Arc::clone(&medium), backend, 4) {
            Ok(mut device) => perform(&mut *device, Request::Flush).result.unwrap(),
            Err(error) => assert!(
                backend == Backend::Ring && matches!(error, Error::Io { .. }),
                "{error}"
            ),
        }
    }
}
