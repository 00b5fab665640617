//! The engine under load.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_node::Key;
use terrace_node::block::Extent;
use terrace_node::device::{Access, Backend, Device, Medium, Wait, create_file, open_device};
use terrace_node::engine::{
    Command, Condition, DEFAULT_BUFFER_BYTES, Engine, Event, Node, Worker, create,
};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::superblock::Superblock;

use super::report::Sample;

/// Requests that a device takes at one time.
const DEVICE_DEPTH: usize = 256;

/// Returns the key of a number.
pub fn key(number: u64) -> Key {
    Key::new(&(number as u32).to_be_bytes()).expect("four bytes")
}

/// Returns a store that takes place whatever is there.
pub fn store(number: u64, value_bytes: usize) -> Command {
    Command::Store {
        key: key(number),
        value_bytes: value_bytes as u32,
        condition: Condition::Always,
    }
}

/// Returns a retrieve of a whole value.
pub fn retrieve(number: u64) -> Command {
    Command::Retrieve {
        key: key(number),
        max_bytes: u32::MAX,
    }
}

/// Makes the file if it is not there with that size.
pub fn make_file(path: &Path, bytes: u64) {
    if path.metadata().is_ok_and(|file| file.len() == bytes) {
        return;
    }
    let _ = std::fs::remove_file(path);
    create_file(path, bytes, false, &mut |_| ()).expect("the file can be made");
}

/// Opens the file for one owner.
pub fn open_medium(path: &Path) -> Arc<Medium> {
    Arc::new(Medium::open(path, Access::Write).expect("the file opens"))
}

/// Makes a device for one loop.
pub fn device(medium: &Arc<Medium>) -> Box<dyn Device> {
    open_device(Arc::clone(medium), Backend::Auto, DEVICE_DEPTH).expect("a device")
}

/// A node on a file, and one event loop.
pub struct Load {
    pub node: Arc<Node>,
    pub worker: Worker,
    medium: Arc<Medium>,
}

impl Load {
    /// Makes an empty node for at most `max_keys` keys on a file of `bytes` bytes.
    pub fn new(path: &Path, bytes: u64, max_keys: u64) -> Self {
        Load::beside(path, bytes, max_keys, 0)
    }

    /// Makes an empty node that leaves `spare_bytes` before the last block of the file alone.
    pub fn beside(path: &Path, bytes: u64, max_keys: u64, spare_bytes: u64) -> Self {
        make_file(path, bytes);
        {
            let medium = open_medium(path);
            let request = NamespaceRequest {
                bytes: Some(bytes - spare_bytes - 2 * 4096),
                max_keys: Some(max_keys),
                ..NamespaceRequest::new("load")
            };
            let superblock = Superblock::new(bytes / 4096, &[request], &mut rand::rng());
            create(
                &mut *device(&medium),
                &superblock.expect("it is large enough"),
            )
            .expect("it is written");
        }
        Load::open(path)
    }

    /// Opens the node that is on the file.
    pub fn open(path: &Path) -> Self {
        let medium = open_medium(path);
        let node = Node::open(&mut *device(&medium)).expect("it opens");
        let worker = worker(&node, &medium);
        Load {
            node,
            worker,
            medium,
        }
    }

    /// Makes another event loop.
    pub fn another_worker(&self) -> Worker {
        worker(&self.node, &self.medium)
    }

    /// Returns the part of the file that holds values.
    pub fn data(&self) -> Extent {
        self.node.superblock.namespaces[0].data
    }

    /// Stores values of one size.
    pub fn stores(
        &mut self,
        depth: usize,
        count: u64,
        value_bytes: usize,
        mut number: impl FnMut(u64) -> u64,
    ) -> Sample {
        self.run(depth, count, |at| store(number(at), value_bytes))
    }

    /// Runs `count` commands, `depth` of them in flight.
    pub fn run(
        &mut self,
        depth: usize,
        count: u64,
        mut command: impl FnMut(u64) -> Command,
    ) -> Sample {
        let mut flight = Flight::default();
        let mut next = 0;
        let start = Instant::now();
        while flight.latencies.len() < count as usize {
            while next < count && flight.begun.len() < depth {
                flight.begin(&mut self.worker, next, command(next));
                next += 1;
            }
            flight.poll(&mut self.worker);
        }
        let seconds = start.elapsed().as_secs_f64();
        Sample::new(flight.latencies, flight.bytes, seconds)
    }
}

fn worker(node: &Arc<Node>, medium: &Arc<Medium>) -> Worker {
    Worker::new(node, device(medium), DEFAULT_BUFFER_BYTES).expect("a legal budget")
}

/// Commands in flight, and how long those took that have ended.
#[derive(Default)]
pub struct Flight {
    pub begun: HashMap<u64, Instant>,
    pub latencies: Vec<Duration>,
    /// Bytes of values moved.
    pub bytes: u64,
    events: Vec<Event>,
    /// Tags whose commands are a load for others, and are not measured.
    pub unmeasured: Vec<u64>,
}

impl Flight {
    /// Submits a command.
    pub fn begin(&mut self, worker: &mut Worker, tag: u64, command: Command) {
        self.begun.insert(tag, Instant::now());
        worker.submit(tag, 1, command);
    }

    /// Waits for events and answers them.
    pub fn poll(&mut self, worker: &mut Worker) {
        let mut events = std::mem::take(&mut self.events);
        worker
            .poll(Wait::Yes, &mut events)
            .expect("the device's queue works");
        for event in events.drain(..) {
            match event {
                Event::Want {
                    tag,
                    bytes,
                    mut buffer,
                    ..
                } => {
                    buffer[..8].copy_from_slice(&tag.to_le_bytes());
                    self.count(tag, bytes);
                    worker.supply(tag, buffer);
                }
                Event::Piece {
                    tag, bytes, buffer, ..
                } => {
                    self.count(tag, bytes);
                    worker.give_back(tag, buffer);
                }
                Event::Done { tag, result } => {
                    result.expect("no command fails");
                    let begun = self.begun.remove(&tag).expect("it was begun");
                    match self.unmeasured.iter().position(|other| *other == tag) {
                        Some(at) => drop(self.unmeasured.swap_remove(at)),
                        None => self.latencies.push(begun.elapsed()),
                    }
                }
            }
        }
        self.events = events;
    }

    fn count(&mut self, tag: u64, bytes: u32) {
        if !self.unmeasured.contains(&tag) {
            self.bytes += u64::from(bytes);
        }
    }
}
