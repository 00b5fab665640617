//! Commands with the kernel, by either way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use terrace_nvmf::wire::Status;

use crate::command::Command;
use crate::data::Data;
use crate::node::Node;
use crate::ring::Ring;
use crate::threads::Threads;

/// The way of commands to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// io_uring where the kernel has it and allows it, else `ioctl(2)`.
    #[default]
    Auto,
    /// io_uring.
    Ring,
    /// `ioctl(2)` by threads, which have one command each.
    Threads,
}

/// The end of a command that the controller or the kernel completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub status: Status,
    pub result: u64,
}

/// A command that is with the kernel no more.
#[derive(Debug)]
pub struct Outcome {
    pub tag: u64,
    pub end: io::Result<End>,
    pub data: Data,
}

/// Commands with the kernel, or with a test's stand-in.
pub trait Commands {
    /// Hands a command over; gives the data back if it cannot be done now.
    fn submit(&mut self, tag: u64, command: Command, data: Data) -> Result<(), Data>;

    /// Waits for `timeout` until a command ends, and takes those that have.
    ///
    /// # Errors
    /// The queue is of no use any more.
    fn wait(&mut self, timeout: Duration, outcomes: &mut Vec<Outcome>) -> io::Result<()>;
}

/// Commands with the kernel.
pub enum Queue {
    Ring(Box<Ring>),
    Threads(Threads),
}

impl Queue {
    /// Makes a queue for `depth` commands.
    pub fn new(node: &Arc<Node>, backend: Backend, depth: usize) -> io::Result<Self> {
        match backend {
            Backend::Threads => Ok(Queue::Threads(Threads::new(node, depth))),
            Backend::Ring => Ok(Queue::Ring(Box::new(Ring::new(node, depth)?))),
            Backend::Auto => Ok(match Ring::new(node, depth) {
                Ok(ring) => Queue::Ring(Box::new(ring)),
                Err(_) => Queue::Threads(Threads::new(node, depth)),
            }),
        }
    }
}

impl Commands for Queue {
    fn submit(&mut self, tag: u64, command: Command, data: Data) -> Result<(), Data> {
        match self {
            Queue::Ring(ring) => ring.submit(tag, command, data),
            Queue::Threads(threads) => threads.submit(tag, command, data),
        }
    }

    fn wait(&mut self, timeout: Duration, outcomes: &mut Vec<Outcome>) -> io::Result<()> {
        match self {
            Queue::Ring(ring) => ring.wait(timeout, outcomes),
            Queue::Threads(threads) => {
                threads.wait(timeout, outcomes);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
