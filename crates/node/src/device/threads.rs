//! A device whose requests are done by threads, for systems that have or allow no io_uring.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::limit::{Limit, Sleep};
use super::{Completion, Device, Kind, Medium, Readiness, Request, Wait, Waker, transfer};
use crate::thread_start;

/// A device whose requests are done by threads.
pub struct ThreadDevice {
    medium: Arc<Medium>,
    shared: Arc<Shared>,
    in_flight: usize,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Raised and cleared under the lock of the state.
    readiness: Readiness,
    /// There is work, or the end has come.
    work: Condvar,
    /// There is a completion, or a waker was used.
    news: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(u64, Request)>,
    done: Vec<Completion>,
    is_woken: bool,
    is_ending: bool,
}

impl ThreadDevice {
    /// Makes a device with `threads` threads, at least one.
    ///
    /// # Errors
    /// A thread or a descriptor cannot be made.
    pub fn new(medium: Arc<Medium>, threads: usize) -> io::Result<Self> {
        let mut device = ThreadDevice {
            medium,
            shared: Arc::new(Shared {
                state: Mutex::default(),
                readiness: Readiness::new()?,
                work: Condvar::new(),
                news: Condvar::new(),
            }),
            in_flight: 0,
            threads: Vec::new(),
        };
        for _ in 0..threads.max(1) {
            let shared = Arc::clone(&device.shared);
            let medium = Arc::clone(&device.medium);
            let work = move || shared.work(&medium);
            let thread = thread_start::start("node-device", work)?;
            device.threads.push(thread);
        }
        Ok(device)
    }
}

impl Device for ThreadDevice {
    fn bytes(&self) -> u64 {
        self.medium.bytes
    }

    fn submit(&mut self, tag: u64, request: Request) {
        self.in_flight += 1;
        self.shared.state.lock().waiting.push_back((tag, request));
        self.shared.work.notify_one();
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let limit = Limit::new(wait);
        let mut state = self.shared.state.lock();
        while state.done.is_empty() && !(state.is_woken && limit.is_wait()) {
            match limit.left(self.in_flight == 0) {
                None => break,
                Some(Sleep::Forever) => self.shared.news.wait(&mut state),
                Some(Sleep::For(time)) => {
                    self.shared.news.wait_for(&mut state, time);
                }
            }
        }
        self.in_flight -= state.done.len();
        completions.append(&mut state.done);
        self.shared.readiness.clear();
        if limit.is_wait() {
            state.is_woken = false;
        }
        Ok(())
    }

    fn start(&mut self) -> io::Result<()> {
        // The threads know of every request.
        Ok(())
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.shared.readiness.descriptor()
    }

    fn waker(&self) -> Waker {
        let shared = Arc::clone(&self.shared);
        Waker::new(move || {
            {
                let mut state = shared.state.lock();
                state.is_woken = true;
                shared.readiness.raise();
            }
            shared.news.notify_one();
        })
    }
}

impl Drop for ThreadDevice {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.shared.state.lock();
            state.is_ending = true;
            std::mem::take(&mut state.waiting)
        };
        self.shared.work.notify_all();
        drop(waiting);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Does requests until the end.
    fn work(&self, medium: &Medium) {
        while let Some((tag, request)) = self.next() {
            let completion = perform(medium, tag, request);
            {
                let mut state = self.state.lock();
                state.done.push(completion);
                self.readiness.raise();
            }
            self.news.notify_one();
        }
    }

    fn next(&self) -> Option<(u64, Request)> {
        let mut state = self.state.lock();
        loop {
            if state.is_ending {
                return None;
            }
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            self.work.wait(&mut state);
        }
    }
}

fn perform(medium: &Medium, tag: u64, request: Request) -> Completion {
    let checked = request.check(medium.bytes);
    let (kind, mut buffer, parts) = request.dismantle();
    let move_parts = |()| match kind {
        Kind::Flush => transfer::flush(&medium.file),
        Kind::Read | Kind::Write => parts.iter().try_for_each(|part| {
            let bytes = &mut buffer[part.at..part.at + part.bytes];
            move_bytes(&medium.file, kind, bytes, part.offset)
        }),
    };
    Completion {
        tag,
        result: checked.and_then(move_parts),
        buffer,
    }
}

fn move_bytes(file: &File, kind: Kind, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    match kind {
        Kind::Read => transfer::read_full(file, bytes, offset),
        _ => transfer::write_full(file, bytes, offset),
    }
}
