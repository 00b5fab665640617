//! An io_uring with one request at a time, whose completion is watched for.
//!
//! The kernel writes to the caller's memory until the completion is there. So `wait` goes on
//! until then in any case: no error of a system call ends it.
#![expect(
    unsafe_code,
    reason = "a request carries a pointer to where the read goes"
)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};

/// Longest time between two looks at the queue, unless another thread or another machine ran.
const INTERRUPTION: Duration = Duration::from_micros(100);

/// Longer than a read of a solid-state device, shorter than one of a disk.
const PATIENCE: Duration = Duration::from_micros(200);

/// The kernel's answer: a count of bytes, or an error's number below zero.
pub(super) struct Answer {
    pub(super) result: i32,
    /// Another thread, or another machine, had the processor meanwhile.
    pub(super) was_interrupted: bool,
}

pub(super) struct Ring(IoUring);

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
        // By default the kernel interrupts the thread that is to put a completion into the queue.
        // Here it raises a flag instead, which the watch looks for.
        let mut builder = IoUring::builder();
        builder.setup_coop_taskrun().setup_taskrun_flag();
        builder.build(1).map(Ring)
    }

    /// Reads once, without a thread of the kernel's: a sleep for anything but the device becomes
    /// `EAGAIN`. None if the kernel did not take the request: then the ring is to be dropped.
    pub(super) fn read(
        &mut self,
        file: &fs::File,
        buffer: &mut [u8],
        offset: u64,
    ) -> Option<Answer> {
        let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let descriptor = types::Fd(file.as_raw_fd());
        let request = opcode::Read::new(descriptor, buffer.as_mut_ptr(), length)
            .offset(offset)
            .rw_flags(libc::RWF_NOWAIT)
            .build();
        // SAFETY: the descriptor is open while `file` is borrowed, and `buffer`, of `length` bytes or
        // more, is borrowed alone, both until this returns.
        unsafe { self.answer(&request) }
    }

    /// Puts a request into the queue and waits for its completion. None if the kernel did not take
    /// the request: then it stays in the queue, and goes when the ring is dropped.
    ///
    /// # Safety
    /// The memory that the request points to is valid, and used by nothing else, until this
    /// returns.
    unsafe fn answer(&mut self, request: &squeue::Entry) -> Option<Answer> {
        // SAFETY: the caller's; and if the kernel takes the request, `wait` does not return before its
        // completion. (If it does not, it never reads the queue again: that takes another `submit`.)
        unsafe { self.0.submission().push(request) }.ok()?;
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

    /// Watches the queue until the completion is there, and sleeps once that takes too long.
    fn wait(&mut self) -> Answer {
        let mut watch = Watch::begin(Instant::now());
        loop {
            // The clock first: when an interruption ends, the completion is often there.
            watch.look(Instant::now());
            if let Some(completion) = self.0.completion().next() {
                return Answer {
                    result: completion.result(),
                    was_interrupted: watch.was_interrupted,
                };
            }
            if watch.is_late() {
                let _ = self.0.submit_and_wait(1);
                watch.wake(Instant::now());
            } else if self.0.submission().taskrun() {
                let _ = self.0.submit_and_wait(0);
            }
            std::hint::spin_loop();
        }
    }
}

/// The times of a wait.
struct Watch {
    begun: Instant,
    looked: Instant,
    was_interrupted: bool,
}

impl Watch {
    fn begin(now: Instant) -> Self {
        Watch {
            begun: now,
            looked: now,
            was_interrupted: false,
        }
    }

    fn look(&mut self, now: Instant) {
        self.was_interrupted |= now - self.looked > INTERRUPTION;
        self.looked = now;
    }

    /// Notes the end of a sleep, which is no interruption.
    fn wake(&mut self, now: Instant) {
        self.looked = now;
    }

    fn is_late(&self) -> bool {
        self.looked - self.begun > PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread_time() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Returns a ring's answer to a timer, and the time it takes; None where there is no ring.
    fn wait_for_timer(duration: Duration) -> Option<(Answer, Duration)> {
        let mut ring = Ring::new().ok()?;
        let duration = types::Timespec::from(duration);
        let request = opcode::Timeout::new(&raw const duration).build();
        let begun = Instant::now();
        // SAFETY: the time that the request points to is borrowed until the answer is there.
        let answer = unsafe { ring.answer(&request) }.unwrap();
        Some((answer, begun.elapsed()))
    }

    #[test]
    fn an_answer_is_waited_for_however_long_it_takes() {
        for wanted_us in [10, 150, 20_000] {
            let wanted = Duration::from_micros(wanted_us);
            let busy_before = thread_time();
            let Some((answer, took)) = wait_for_timer(wanted) else {
                return;
            };
            let busy = thread_time() - busy_before;
            assert_eq!(answer.result, -libc::ETIME);
            assert!(took >= wanted, "{took:?}");
            assert!(
                busy < Duration::from_millis(10),
                "{busy:?}: asleep when late"
            );
        }
    }

    #[test]
    fn an_interruption_is_told_from_a_sleep() {
        let begun = Instant::now();
        let after = |micros| begun + Duration::from_micros(micros);
        let mut watch = Watch::begin(begun);
        for micros in [20, 70, 160, 240] {
            watch.look(after(micros));
        }
        assert!(watch.is_late() && !watch.was_interrupted);
        watch.wake(after(5_000));
        watch.look(after(5_001));
        assert!(!watch.was_interrupted, "asleep");
        watch.look(after(5_200));
        assert!(watch.was_interrupted);

        let mut watch = Watch::begin(begun);
        watch.look(after(150));
        assert!(
            watch.was_interrupted && !watch.is_late(),
            "before the first look"
        );
    }
}
