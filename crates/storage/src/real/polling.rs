//! Reads of a device that are waited for on the processor.
//!
//! A thread that sleeps until a device answers pays for it twice: its processor goes idle, which under
//! a hypervisor is an exit and an interrupt to come back, and then the thread has to be woken. Of a
//! read of 4 KiB from a virtual disk that was 25 of 62 us. Here the request goes to the kernel through
//! an io_uring, and the queue of completions is watched until the answer is there, or has been so long
//! in coming that sleeping adds little.
//!
//! Whoever watches keeps a processor from others, so
//! - there are half as many rings as processors (none where there is one, 16 at most); who finds them
//!   taken sleeps as ever. They belong to the process, as the processors do;
//! - a watch that was interrupted for long shows that others want the processor: for a while all sleep;
//! - a file whose reads take long, as those of a disk do, is not watched.
//!
//! The kernel writes to the caller's memory until the completion is there. So that is waited for
//! whatever happens, and what goes wrong is left to a plain read after it.
#![expect(
    unsafe_code,
    reason = "a request to io_uring carries a pointer to where the read goes"
)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

/// Longer than a read of a solid-state device, shorter than one of a disk.
const PATIENCE: Duration = Duration::from_micros(200);
/// Between two looks at the queue nothing takes as long but another thread, or another machine.
const INTERRUPTION: Duration = Duration::from_micros(100);
/// How long everybody sleeps after an interruption.
const RETREAT: Duration = Duration::from_millis(10);
/// Each takes a descriptor.
const MOST_RINGS: usize = 16;
/// More keeps the device busy for long enough to sleep.
const LONGEST_BYTES: usize = 64 << 10;
/// The weight of a read in what reads of its file usually take is one in so many.
const LEARNING: u32 = 8;

/// What is known of a file's device.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// What a read usually takes, slept for or watched; 0 before the first one.
    usual_us: AtomicU32,
}

impl Pace {
    /// Reads once, as `pread` does, on the processor if that is worth it; else as `sleeping` does.
    pub(super) fn read(
        &self,
        file: &fs::File,
        buffer: &mut [u8],
        offset: u64,
        sleeping: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let begun = Instant::now();
        let is_quick = self.usual_us.load(Ordering::Relaxed) < PATIENCE.as_micros() as u32;
        let watched = (is_quick && buffer.len() <= LONGEST_BYTES)
            .then(|| rings().read(file, buffer, offset))
            .flatten();
        let count = match watched {
            Some(count) => count,
            None => sleeping(buffer)?,
        };
        self.learn(begun.elapsed());
        Ok(count)
    }

    /// Of two readers that learn at once one may be forgotten.
    fn learn(&self, took: Duration) {
        let took_us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let usual_us = self.usual_us.load(Ordering::Relaxed);
        let learned = usual_us - usual_us / LEARNING + took_us / LEARNING;
        self.usual_us.store(learned, Ordering::Relaxed);
    }
}

/// Whether this process may wait for reads so: there is more than one processor, and the kernel knows
/// how (5.19) and lets it, which not every container does.
pub(super) fn is_possible() -> bool {
    !rings().slots.is_empty()
}

fn rings() -> &'static Rings {
    static RINGS: OnceLock<Rings> = OnceLock::new();
    RINGS.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Rings::new((processors / 2).min(MOST_RINGS))
    })
}

/// The rings of this process, and when they may be watched again.
struct Rings {
    /// None in the place of a ring that the kernel did not serve.
    slots: Vec<Mutex<Option<Ring>>>,
    epoch: Instant,
    retreat_ends_us: AtomicU64,
}

impl Rings {
    /// So many, or none.
    fn new(count: usize) -> Self {
        let slots = (0..count).map(|_| Ring::new().map(|ring| Mutex::new(Some(ring))));
        Rings {
            slots: slots.collect::<io::Result<_>>().unwrap_or_default(),
            epoch: Instant::now(),
            retreat_ends_us: AtomicU64::new(0),
        }
    }

    fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }

    /// How much was read; none if it was not, for whatever reason.
    fn read(&self, file: &fs::File, buffer: &mut [u8], offset: u64) -> Option<usize> {
        if self.now_us() < self.retreat_ends_us.load(Ordering::Relaxed) {
            return None;
        }
        let mut slot = self.slots.iter().find_map(|slot| slot.try_lock())?;
        let Some(answer) = slot.as_mut()?.read(file, buffer, offset) else {
            *slot = None;
            return None;
        };
        drop(slot);
        if answer.was_interrupted {
            let end_us = self.now_us() + RETREAT.as_micros() as u64;
            self.retreat_ends_us.store(end_us, Ordering::Relaxed);
        }
        usize::try_from(answer.result).ok()
    }
}

/// What the kernel says: a count of bytes, or an error's number below zero.
struct Answer {
    result: i32,
    was_interrupted: bool,
}

/// A ring with one request at a time.
struct Ring(IoUring);

impl Ring {
    fn new() -> io::Result<Self> {
        // By default the kernel interrupts whoever is to put a completion into the queue. So it raises a
        // flag instead, for which the watch looks out.
        let mut builder = IoUring::builder();
        builder.setup_coop_taskrun().setup_taskrun_flag();
        builder.build(1).map(Ring)
    }

    /// None if the kernel did not take the request: then the ring still holds it, and is to be dropped.
    fn read(&mut self, file: &fs::File, buffer: &mut [u8], offset: u64) -> Option<Answer> {
        let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let descriptor = types::Fd(file.as_raw_fd());
        let request = opcode::Read::new(descriptor, buffer.as_mut_ptr(), length);
        let request = request.offset(offset).build();
        // SAFETY: the descriptor is open while `file` is borrowed, and `buffer`, of `length` bytes or
        // more, is borrowed alone. Both borrows outlast the request: if the kernel took it, `wait` does not
        // return before its completion; if not, the caller drops the queue that it is in.
        unsafe { self.0.submission().push(&request) }.ok()?;
        loop {
            let submitted = self.0.submit();
            if self.0.submission().is_empty() {
                return Some(self.wait());
            }
            match submitted {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return None,
            }
        }
    }

    /// Watches the queue until the completion is there.
    fn wait(&mut self) -> Answer {
        let begun = Instant::now();
        let mut looked = begun;
        let mut was_interrupted = false;
        loop {
            if let Some(completion) = self.0.completion().next() {
                let result = completion.result();
                return Answer {
                    result,
                    was_interrupted,
                };
            }
            let now = Instant::now();
            was_interrupted |= now - looked > INTERRUPTION;
            looked = now;
            let is_late = now - begun > PATIENCE;
            if is_late || self.0.submission().taskrun() {
                // An error here changes nothing: the completion is to come, and is looked for again.
                let _ = self.0.submitter().submit_and_wait(usize::from(is_late));
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const PAGE: usize = 4096;

    /// A file of pages, each filled with its number.
    fn numbered_pages(count: u8) -> fs::File {
        let file = tempfile::tempfile().unwrap();
        for page in 0..count {
            let offset = u64::from(page) * PAGE as u64;
            file.write_all_at(&[page; PAGE], offset).unwrap();
        }
        file
    }

    /// Rings, or none where the kernel or a container does not give any.
    fn some_rings(count: usize) -> Option<Rings> {
        let rings = Rings::new(count);
        (!rings.slots.is_empty()).then_some(rings)
    }

    #[test]
    fn a_ring_reads_what_is_there_and_no_more() {
        let Some(rings) = some_rings(1) else { return };
        let file = numbered_pages(200);
        for page in (0..200).rev() {
            let mut buffer = [0xEE; PAGE];
            let count = rings.read(&file, &mut buffer, page * PAGE as u64);
            assert_eq!(count, Some(PAGE));
            assert_eq!(buffer, [page as u8; PAGE]);
            rings.retreat_ends_us.store(0, Ordering::Relaxed);
        }
        let mut buffer = [0xEE; PAGE];
        assert_eq!(
            rings.read(&file, &mut buffer, 200 * PAGE as u64 - 10),
            Some(10)
        );
        assert_eq!(buffer[..10], [199; 10]);
        assert_eq!(buffer[10..], [0xEE; PAGE - 10]);
    }

    #[test]
    fn what_a_ring_cannot_read_is_left_to_a_plain_read() {
        let Some(rings) = some_rings(1) else { return };
        let directory = fs::File::open("/").unwrap();
        let mut buffer = [0; PAGE];
        assert_eq!(rings.read(&directory, &mut buffer, 0), None);
        rings.retreat_ends_us.store(0, Ordering::Relaxed);
        let file = numbered_pages(1);
        assert_eq!(
            rings.read(&file, &mut buffer, 0),
            Some(PAGE),
            "the ring is free again"
        );
    }

    #[test]
    fn who_finds_no_ring_or_a_processor_that_others_want_sleeps() {
        let Some(rings) = some_rings(1) else { return };
        let file = numbered_pages(1);
        let read = |rings: &Rings| rings.read(&file, &mut [0; PAGE], 0);
        assert_eq!(read(&Rings::new(0)), None);
        let taken = rings.slots[0].lock();
        assert_eq!(read(&rings), None);
        drop(taken);
        assert_eq!(read(&rings), Some(PAGE));
        let end_us = rings.now_us() + 3_600_000_000;
        rings.retreat_ends_us.store(end_us, Ordering::Relaxed);
        assert_eq!(read(&rings), None);
        rings.retreat_ends_us.store(0, Ordering::Relaxed);
        *rings.slots[0].lock() = None;
        assert_eq!(read(&rings), None, "not served");
    }

    #[test]
    fn many_threads_read_their_own() {
        let Some(rings) = some_rings(2) else { return };
        let file = numbered_pages(100);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (rings, file) = (&rings, &file);
                scope.spawn(move || {
                    for turn in 0..2000 {
                        let page = (turn * 7 + thread * 31) % 100;
                        let mut buffer = [0; PAGE];
                        match rings.read(file, &mut buffer, page * PAGE as u64) {
                            Some(count) => assert_eq!(buffer[..count], [page as u8; PAGE]),
                            None => rings.retreat_ends_us.store(0, Ordering::Relaxed),
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_slow_device_is_slept_for() {
        let pace = Pace::default();
        let file = numbered_pages(1);
        let slept = |pace: &Pace| {
            let mut has_slept = false;
            let count = pace.read(&file, &mut [0; PAGE], 0, |buffer| {
                has_slept = true;
                file.read_at(buffer, 0)
            });
            assert_eq!(count.unwrap(), PAGE);
            has_slept
        };
        pace.learn(Duration::from_millis(8));
        assert!(slept(&pace), "a disk");
        for _ in 0..50 {
            pace.learn(Duration::from_micros(60));
        }
        assert!(pace.usual_us.load(Ordering::Relaxed) < 100);
        pace.learn(Duration::MAX);
        pace.learn(Duration::MAX);
        assert!(slept(&pace), "for ever");
    }
}
