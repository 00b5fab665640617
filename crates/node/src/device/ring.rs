//! A device behind an io_uring.
//!
//! The kernel moves bytes from and to memory of a [`Flight`], which keeps every buffer until the kernel
//! has answered for all of its pieces. A device that is dropped waits for these answers; if they
//! cannot be had, it gives up the memory instead of freeing it.
//!
//! The ring is not bound to the thread that made it: a device may be made by one thread and used by
//! another, and requests of a thread that ended are made again.
//!
//! The ring's descriptor is readable while answers wait. The kernel notes an answer in the thread that
//! made the request, once that thread enters the kernel or wakes there: a thread that sleeps on the
//! descriptor wakes for it. `poll(2)` sleeps on after that, `epoll_wait(2)` ends with `EINTR`.
#![expect(
    unsafe_code,
    reason = "entries of the queue carry pointers to where the bytes go"
)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::thread;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::EventfdFlags;

use super::flight::{Flight, Piece};
use super::limit::{Limit, Sleep};
use super::{Completion, Device, Kind, Medium, Request, Wait, Waker};

/// Key of the read that a waker ends: no piece has it.
const ALARM: u64 = u64::MAX;
const MOST_DEPTH: usize = 4096;
/// Requests that are handed to the kernel at once. A device that gets many together stands idle while
/// they are prepared.
const BATCH: usize = 4;
/// The kernel moves less than 2 GiB at once; the rest of a piece is asked for by its answer.
const MOST_BYTES: usize = 1 << 30;

/// A device behind an io_uring.
pub struct RingDevice {
    ring: IoUring,
    medium: Arc<Medium>,
    flight: Flight,
    /// Completions of requests that needed nothing of the kernel.
    ready: Vec<Completion>,
    alarm: Alarm,
    /// Pieces in the queue or with the kernel.
    asked: usize,
    /// The most of these.
    depth: usize,
    most_bytes: usize,
}

/// The counter that a waker raises, and the read of it that is always with the kernel.
struct Alarm {
    event: Arc<OwnedFd>,
    /// The counter's value goes here: never looked at, and never moved.
    value: Vec<u64>,
    address: usize,
    is_armed: bool,
    is_raised: bool,
}

impl RingDevice {
    /// Makes a device that has at most `depth` pieces with the kernel at once.
    ///
    /// # Errors
    /// The kernel has no io_uring with timeouts (5.11), or does not let this process have one.
    pub fn new(medium: Arc<Medium>, depth: usize) -> io::Result<Self> {
        let depth = depth.clamp(1, MOST_DEPTH);
        let ring = build(depth as u32 + 1)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        Ok(RingDevice {
            ring,
            medium,
            flight: Flight::new(),
            ready: Vec::new(),
            alarm: Alarm::new()?,
            asked: 0,
            depth,
            most_bytes: MOST_BYTES,
        })
    }

    /// Makes the kernel move at most `most_bytes` at once, as if it had stopped short.
    #[cfg(test)]
    pub(super) fn stopping_short(mut self, most_bytes: usize) -> Self {
        self.most_bytes = most_bytes;
        self
    }

    /// Puts entries into the queue while there is room.
    fn fill_queue(&mut self) {
        if !self.alarm.is_armed {
            let entry = self.alarm.entry();
            // SAFETY: the descriptor and the 8 bytes belong to `self.alarm`, which frees neither before
            // the answer has cleared `is_armed` (see `drop`), and nobody else uses the bytes.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            self.alarm.is_armed = pushed.is_ok();
        }
        while self.asked < self.depth {
            let Some((key, piece)) = self.flight.next() else {
                return;
            };
            let entry = self.entry(key, piece);
            // SAFETY: the descriptor is open while `self.medium` is there. A piece lies inside its
            // request's buffer (`Request::check`), and `self.flight` neither frees nor touches that
            // before `answer` was called for the piece, which happens when the kernel has answered.
            // Without these answers `drop` gives up `self.flight`.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                self.flight.put_back(key);
                return;
            }
            self.asked += 1;
        }
    }

    fn entry(&self, key: usize, piece: Piece) -> squeue::Entry {
        let file = types::Fd(self.medium.file.as_raw_fd());
        let pointer = ptr::with_exposed_provenance_mut::<u8>(piece.address);
        let bytes = piece.bytes.min(self.most_bytes) as u32;
        let entry = match piece.kind {
            Kind::Read => opcode::Read::new(file, pointer, bytes)
                .offset(piece.offset)
                .build(),
            Kind::Write => opcode::Write::new(file, pointer, bytes)
                .offset(piece.offset)
                .build(),
            Kind::Flush => opcode::Fsync::new(file)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
        };
        entry.user_data(key as u64)
    }

    /// Hands the queue to the kernel, and sleeps until there is an answer if that is wanted.
    fn enter(&mut self, sleep: Option<Sleep>) -> io::Result<()> {
        let entered = match sleep {
            None if !self.has_work_for_kernel() => return Ok(()),
            None => self.ring.submit(),
            Some(Sleep::Forever) => self.ring.submit_and_wait(1),
            Some(Sleep::For(time)) => {
                let time = types::Timespec::from(time);
                let arguments = types::SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
        };
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::EINTR | libc::ETIME), _)) => Ok(()),
            // The kernel lacks memory, or room for answers: they are taken, then it goes on.
            Err((Some(libc::EAGAIN | libc::EBUSY), _)) => {
                thread::yield_now();
                Ok(())
            }
            Err((_, error)) => Err(error),
        }
    }

    /// Returns true if the kernel has to be called for entries to begin or for answers to appear.
    fn has_work_for_kernel(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Takes the kernel's answers.
    fn reap(&mut self, completions: &mut Vec<Completion>) {
        for answer in self.ring.completion() {
            if answer.user_data() == ALARM {
                self.alarm.answer(answer.result());
                continue;
            }
            self.asked -= 1;
            let completion = self
                .flight
                .answer(answer.user_data() as usize, answer.result());
            completions.extend(completion);
        }
    }

    fn has_answers(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }
}

impl Device for RingDevice {
    fn bytes(&self) -> u64 {
        self.medium.bytes
    }

    fn submit(&mut self, tag: u64, request: Request) {
        let completion = self.flight.begin(tag, request, self.medium.bytes);
        self.ready.extend(completion);
        if self.flight.waiting() >= BATCH && self.asked < self.depth {
            self.fill_queue();
            // The next poll meets an error again, and returns it.
            let _ = self.enter(None);
        }
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let limit = Limit::new(wait);
        let first = completions.len();
        completions.append(&mut self.ready);
        let mut sleep = None;
        loop {
            self.fill_queue();
            self.enter(sleep)?;
            self.reap(completions);
            let is_over = completions.len() > first || (self.alarm.is_raised && limit.is_wait());
            sleep = limit.left(self.flight.is_empty());
            if is_over || sleep.is_none() {
                break;
            }
        }
        if limit.is_wait() {
            self.alarm.is_raised = false;
        }
        // Requests that found no room must not wait for the next poll, nor the rest of a piece.
        self.fill_queue();
        self.enter(None)
    }

    fn start(&mut self) -> io::Result<()> {
        if !self.ready.is_empty() {
            // No answer of the kernel makes the ring readable for these.
            raise(&self.alarm.event);
        }
        loop {
            self.fill_queue();
            self.enter(None)?;
            // The kernel may have had no memory for some; with an answer the ring is readable.
            if self.ring.submission().is_empty() || self.has_answers() {
                return Ok(());
            }
        }
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the ring's, which is open while `self` is there.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    fn waker(&self) -> Waker {
        let event = Arc::clone(&self.alarm.event);
        Waker::new(move || raise(&event))
    }
}

impl Drop for RingDevice {
    fn drop(&mut self) {
        self.flight.forget_waiting();
        raise(&self.alarm.event);
        let mut completions = Vec::new();
        while self.asked > 0 || self.alarm.is_armed {
            let is_broken = !self.has_answers() && self.enter(Some(Sleep::Forever)).is_err();
            if is_broken {
                // The kernel may still write there.
                mem::forget(mem::replace(&mut self.flight, Flight::new()));
                mem::forget(mem::take(&mut self.alarm.value));
                return;
            }
            self.reap(&mut completions);
            // Rests of pieces, which are never asked for.
            self.flight.forget_waiting();
            completions.clear();
        }
    }
}

impl Alarm {
    fn new() -> io::Result<Self> {
        let mut value = vec![0];
        // Not a non-blocking one: the ring would answer at once that there is nothing to read.
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Alarm {
            event: Arc::new(event),
            address: value.as_mut_ptr().expose_provenance(),
            value,
            is_armed: false,
            is_raised: false,
        })
    }

    fn entry(&self) -> squeue::Entry {
        let pointer = ptr::with_exposed_provenance_mut::<u8>(self.address);
        opcode::Read::new(types::Fd(self.event.as_raw_fd()), pointer, 8)
            .build()
            .user_data(ALARM)
    }

    fn answer(&mut self, answer: i32) {
        self.is_armed = false;
        // A thread that ends takes back its read, which is no alarm.
        self.is_raised |= !matches!(-answer, libc::ECANCELED | libc::EINTR | libc::EAGAIN);
    }
}

fn raise(event: &OwnedFd) {
    // It fails for a counter that is raised already only.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// Makes a ring which does not interrupt the thread to note a completion (5.19), else a plain one.
fn build(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder
        .dontfork()
        .setup_clamp()
        .setup_submit_all()
        .setup_coop_taskrun()
        .setup_taskrun_flag();
    match builder.build(entries) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        result => result,
    }
}
