//! Commands by `ioctl(2)`, each in a thread that waits for it.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::command::Command;
use crate::data::Data;
use crate::ioctl;
use crate::node::Node;
use crate::queue::Outcome;

/// The most threads.
const MAX_THREADS: usize = 32;

struct Job {
    tag: u64,
    command: Command,
    data: Data,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        // No job runs under the lock, so no panic leaves the jobs half changed.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads that do commands. Those are started that are needed.
pub struct Threads {
    node: Arc<Node>,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    max_workers: usize,
    sender: Sender<Outcome>,
    outcomes: Receiver<Outcome>,
}

impl Threads {
    /// Makes threads for `depth` commands at once.
    pub fn new(node: &Arc<Node>, depth: usize) -> Self {
        let (sender, outcomes) = mpsc::channel();
        Threads {
            node: Arc::clone(node),
            shared: Arc::default(),
            workers: Vec::new(),
            max_workers: depth.clamp(1, MAX_THREADS),
            sender,
            outcomes,
        }
    }

    /// Takes a command; gives the data back if no thread can be had.
    pub fn submit(&mut self, tag: u64, command: Command, data: Data) -> Result<(), Data> {
        let mut jobs = self.shared.jobs();
        let is_short = jobs.idle <= jobs.waiting.len() && self.workers.len() < self.max_workers;
        if is_short {
            match self.start() {
                Ok(worker) => self.workers.push(worker),
                Err(_) if self.workers.is_empty() => return Err(data),
                // The threads that there are come to it.
                Err(_) => {}
            }
        }
        jobs.waiting.push_back(Job { tag, command, data });
        self.shared.changed.notify_one();
        Ok(())
    }

    fn start(&self) -> std::io::Result<JoinHandle<()>> {
        let (node, shared) = (Arc::clone(&self.node), Arc::clone(&self.shared));
        let sender = self.sender.clone();
        let builder = thread::Builder::new().name("nvme command".into());
        builder.spawn(move || work(&node, &shared, &sender))
    }

    /// Waits for `timeout` until a command ends, and takes those that have.
    pub fn wait(&mut self, timeout: Duration, outcomes: &mut Vec<Outcome>) {
        if let Ok(outcome) = self.outcomes.recv_timeout(timeout) {
            outcomes.push(outcome);
        }
        outcomes.extend(self.outcomes.try_iter());
    }
}

fn work(node: &Node, shared: &Shared, sender: &Sender<Outcome>) {
    let mut jobs = shared.jobs();
    loop {
        if let Some(job) = jobs.waiting.pop_front() {
            drop(jobs);
            let Job {
                tag,
                command,
                mut data,
            } = job;
            let end = ioctl::execute(&node.file, command, &mut data);
            // Nobody is left to hear of it once the client is gone.
            let _ = sender.send(Outcome { tag, end, data });
            jobs = shared.jobs();
        } else if jobs.is_closed {
            return;
        } else {
            jobs.idle += 1;
            jobs = shared
                .changed
                .wait(jobs)
                .unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }
}

impl Drop for Threads {
    /// Waits for commands with the kernel, which end within their time.
    fn drop(&mut self) {
        let mut jobs = self.shared.jobs();
        jobs.waiting.clear();
        jobs.is_closed = true;
        drop(jobs);
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}
