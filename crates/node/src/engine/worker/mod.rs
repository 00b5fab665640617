//! An event loop's part of the engine.
//!
//! A [`Worker`] has a device of its own and shares the namespaces with other workers. Commands are
//! small state machines in slots; requests to the device are operations in slots of their own. No
//! lock is held while a request is in flight.

mod checkpoint;
mod clean;
mod commit;
mod defragment;
mod inbox;
mod retrieve;
mod slots;
mod space;
mod store;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) use self::inbox::Waiter;
use self::inbox::{Inbox, Message};
use self::slots::Slots;
use super::buffers::Buffers;
use super::namespace::{Namespace, Node};
use super::{Answer, Command, Engine, Event, Failure};
use crate::block::{BLOCK_BYTES, Buffer};
use crate::device::{Completion, Device, Request, Wait, Waker};
use crate::{Error, Key, Result};

/// The default budget of buffers of one loop: 64 MiB.
pub const DEFAULT_BUFFER_BYTES: usize = 64 << 20;

/// The most pieces of one command that are under way: one moves while the next is fetched.
const MAX_PIECES: usize = 2;

/// An event loop's part of the engine. See the head of the file.
pub struct Worker {
    device: Box<dyn Device>,
    node: Arc<Node>,
    inbox: Arc<Inbox>,
    /// Messages to this loop's own commands.
    ready: VecDeque<Message>,
    commands: Slots<Active>,
    by_tag: HashMap<u64, u32>,
    operations: Slots<Operation>,
    buffers: Buffers,
    /// Commands that wait for a buffer, in turn.
    buffer_waiters: VecDeque<u32>,
    events: Vec<Event>,
    completions: Vec<Completion>,
    /// The duties that this loop has taken over, by namespace.
    checkpoints: Vec<Option<checkpoint::Job>>,
    cleaners: Vec<Option<clean::Job>>,
    defragmenters: Vec<Option<defragment::Job>>,
    /// Evictions under way, by namespace.
    evictions: Vec<usize>,
    /// Passes of the defragmenter since one helped, by namespace.
    passes: Vec<u64>,
    /// Whether a flush that sets space free is in flight, by namespace.
    settling: Vec<bool>,
}

/// A command under way.
struct Active {
    tag: u64,
    namespace: usize,
    key: Key,
    hash: u64,
    work: Work,
    /// Set once the command is bound to fail.
    failure: Option<Failure>,
}

enum Work {
    Store(store::State),
    Retrieve(retrieve::State),
    Delete(commit::DeleteState),
    Flush,
    /// A cell or a value that the cleaner moves.
    Move(clean::MoveState),
    /// A value that the defragmenter moves.
    Relocation,
}

/// A request to the device.
enum Operation {
    StoreWrite(u32),
    Read(u32, retrieve::ReadOf),
    Journal(usize, super::journal::Group),
    JournalFlush(usize, super::journal::Group),
    Segment(usize, u64),
    Checkpoint(usize),
    Clean(usize),
    Relocate(usize),
    Flush(u32, u64),
    /// A flush that sets quarantined places free: all blocks below the number become durable.
    Settle(usize, u64),
}

impl Worker {
    /// Makes the part of a loop that owns `device`, with a budget of `buffer_bytes` for values.
    ///
    /// # Errors
    /// The budget does not hold two of the largest pieces.
    pub fn new(node: &Arc<Node>, device: Box<dyn Device>, buffer_bytes: usize) -> Result<Self> {
        let budget = buffer_bytes / BLOCK_BYTES;
        if budget < 512 {
            return Err(Error::InvalidArgument(
                "the budget of buffers is at least 2 MiB".to_owned(),
            ));
        }
        let count = node.namespaces().len();
        Ok(Worker {
            inbox: Arc::new(Inbox::new(device.waker())),
            device,
            node: Arc::clone(node),
            ready: VecDeque::new(),
            commands: Slots::new(),
            by_tag: HashMap::new(),
            operations: Slots::new(),
            buffers: Buffers::new(budget),
            buffer_waiters: VecDeque::new(),
            events: Vec::new(),
            completions: Vec::new(),
            checkpoints: (0..count).map(|_| None).collect(),
            cleaners: (0..count).map(|_| None).collect(),
            defragmenters: (0..count).map(|_| None).collect(),
            evictions: vec![0; count],
            passes: vec![0; count],
            settling: vec![false; count],
        })
    }

    /// Returns the number of commands under way.
    pub fn in_flight(&self) -> usize {
        self.commands.len()
    }

    /// Returns the bytes of buffers that are handed out, and the most that were ever in memory.
    pub fn buffer_usage(&self) -> (usize, usize) {
        let (used, peak) = self.buffers.usage();
        (used * BLOCK_BYTES, peak * BLOCK_BYTES)
    }

    /// Returns true if nothing is under way: neither a command nor a request of the loop's duties.
    pub fn is_idle(&self) -> bool {
        self.commands.len() == 0 && self.operations.len() == 0 && self.events.is_empty()
    }

    fn namespace(&self, at: usize) -> Arc<Namespace> {
        Arc::clone(&self.node.namespaces()[at])
    }

    fn done(&mut self, tag: u64, result: std::result::Result<Answer, Failure>) {
        self.events.push(Event::Done { tag, result });
    }

    /// Ends a command.
    fn finish(&mut self, slot: u32, result: std::result::Result<Answer, Failure>) {
        let Some(active) = self.commands.remove(slot) else {
            debug_assert!(false, "a command ends once");
            return;
        };
        if matches!(active.work, Work::Move(_)) {
            return;
        }
        self.by_tag.remove(&active.tag);
        // Its number may be another command's soon.
        self.buffer_waiters.retain(|&waiting| waiting != slot);
        self.done(active.tag, result);
    }

    /// Gives up a key that the command `slot` owns; the next command of the key goes on.
    fn release_key(&mut self, slot: u32) {
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        let (at, hash, key) = (active.namespace, active.hash, active.key);
        if let Some(next) = self.node.namespaces()[at].keys.release(hash, &key) {
            next.own_key();
        }
    }

    fn request(&mut self, operation: Operation, request: Request) {
        let slot = self.operations.add(operation);
        self.device.submit(u64::from(slot), request);
    }

    fn begin_command(&mut self, tag: u64, at: usize, command: Command) {
        let namespace = self.namespace(at);
        let (key, work) = match command {
            Command::Exist { key } => {
                let hash = namespace.index.hash(&key);
                let exists = namespace
                    .index
                    .partition(hash)
                    .lock()
                    .get(hash, &key)
                    .is_some();
                let result = if exists {
                    Ok(Answer::Exists)
                } else {
                    Err(Failure::NotFound)
                };
                return self.done(tag, result);
            }
            Command::List { from, max_keys } => {
                let keys = list(&namespace, from.as_ref(), max_keys);
                return self.done(tag, Ok(Answer::Keys(keys)));
            }
            Command::Store {
                key,
                value_bytes,
                condition,
            } => (key, Work::Store(store::State::new(value_bytes, condition))),
            Command::Retrieve { key, max_bytes } => {
                (key, Work::Retrieve(retrieve::State::new(max_bytes)))
            }
            Command::Delete { key } => (key, Work::Delete(commit::DeleteState::default())),
            Command::Flush => (Key::new(b"-").expect("one byte"), Work::Flush),
        };
        let hash = namespace.index.hash(&key);
        let slot = self.commands.add(Active {
            tag,
            namespace: at,
            key,
            hash,
            work,
            failure: None,
        });
        self.by_tag.insert(tag, slot);
        match self.commands.get_mut(slot).map(|active| &active.work) {
            Some(Work::Retrieve(_)) => self.begin_retrieve(slot),
            Some(Work::Flush) => self.begin_flush(slot),
            _ => {
                let waiter = Waiter::new(&self.inbox, slot);
                if namespace.keys.acquire(hash, &key, waiter) {
                    self.key_is_owned(slot);
                }
            }
        }
    }

    fn key_is_owned(&mut self, slot: u32) {
        match self.commands.get_mut(slot).map(|active| &active.work) {
            Some(Work::Store(_)) => self.admit_store(slot),
            Some(Work::Delete(_)) => self.admit_delete(slot),
            _ => debug_assert!(false, "stores and deletes own keys"),
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::KeyIsYours(slot) => self.key_is_owned(slot),
            Message::Committed(slot, result, buffer) => {
                if let Some(buffer) = buffer {
                    self.buffers.put(buffer);
                }
                self.committed(slot, result);
            }
            Message::LookForSpace(slot) => self.look_for_space(slot),
            Message::GiveUp(slot) => self.give_up_on_space(slot),
            Message::Nudge => {
                (0..self.checkpoints.len()).for_each(|at| self.nudge_checkpoint(at));
            }
        }
    }

    /// Does everything that can be done without the device.
    fn work(&mut self) {
        loop {
            self.inbox.take(&mut self.ready);
            if let Some(message) = self.ready.pop_front() {
                self.handle(message);
                continue;
            }
            self.serve_buffer_waiters();
            for at in 0..self.node.namespaces().len() {
                self.pump(at);
                self.go_on_cleaning(at);
                self.go_on_defragmenting(at);
            }
            self.inbox.take(&mut self.ready);
            if self.ready.is_empty() {
                return;
            }
        }
    }

    fn serve_buffer_waiters(&mut self) {
        for _ in 0..self.buffer_waiters.len() {
            let Some(slot) = self.buffer_waiters.pop_front() else {
                return;
            };
            let before = self.buffer_waiters.len();
            match self.commands.get_mut(slot).map(|active| &mut active.work) {
                Some(Work::Store(state)) => {
                    state.waits_for_buffer = false;
                    self.want_pieces(slot);
                }
                Some(Work::Retrieve(state)) => {
                    state.waits_for_buffer = false;
                    self.read_pieces(slot);
                }
                _ => {}
            }
            if self.buffer_waiters.len() > before {
                // Still no buffer: whoever waited longest keeps its turn.
                self.buffer_waiters.rotate_right(1);
                return;
            }
        }
    }

    fn completed(&mut self, completion: Completion) {
        let Some(operation) = self.operations.remove(completion.tag as u32) else {
            debug_assert!(false, "a request completes once");
            return;
        };
        let Completion { buffer, result, .. } = completion;
        match operation {
            Operation::StoreWrite(slot) => self.store_written(slot, buffer, result),
            Operation::Read(slot, what) => self.read_done(slot, what, buffer, result),
            Operation::Journal(at, group) => self.journal_written(at, group, result),
            Operation::JournalFlush(at, group) => self.group_flushed(at, group, result),
            Operation::Segment(at, segment) => self.segment_written(at, segment, buffer, result),
            Operation::Checkpoint(at) => self.checkpoint_step(at, buffer, result),
            Operation::Clean(at) => self.clean_step(at, buffer, result),
            Operation::Relocate(at) => self.relocation_step(at, buffer, result),
            Operation::Flush(slot, end) => self.flush_done(slot, end, result),
            Operation::Settle(at, end) => {
                self.settling[at] = false;
                self.settled(at, end, result);
            }
        }
    }
}

impl Engine for Worker {
    fn submit(&mut self, tag: u64, nsid: u32, command: Command) {
        match self.node.position(nsid) {
            Some(at) => self.begin_command(tag, at, command),
            None => self.done(tag, Err(Failure::NoNamespace)),
        }
    }

    fn supply(&mut self, tag: u64, buffer: Buffer) {
        match self.by_tag.get(&tag) {
            Some(&slot) => self.piece_supplied(slot, buffer),
            None => self.buffers.put(buffer),
        }
    }

    fn give_back(&mut self, tag: u64, buffer: Buffer) {
        self.buffers.put(buffer);
        let Some(&slot) = self.by_tag.get(&tag) else {
            return;
        };
        match self.commands.get_mut(slot).map(|active| &mut active.work) {
            Some(Work::Store(state)) => {
                // The caller will not fill it.
                state.wanted.pop_front();
                self.fail_store(slot, Failure::Aborted);
            }
            Some(Work::Retrieve(state)) => {
                state.with_caller = state.with_caller.saturating_sub(1);
                self.read_pieces(slot);
            }
            _ => {}
        }
    }

    fn abort(&mut self, tag: u64) {
        let Some(&slot) = self.by_tag.get(&tag) else {
            return;
        };
        match self.commands.get_mut(slot).map(|active| &active.work) {
            Some(Work::Store(_)) => self.fail_store(slot, Failure::Aborted),
            Some(Work::Retrieve(_)) => self.fail_retrieve(slot, Failure::Aborted),
            _ => {}
        }
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<()> {
        self.work();
        let wait = if self.events.is_empty() {
            wait
        } else {
            Wait::No
        };
        let mut completions = std::mem::take(&mut self.completions);
        let polled = self.device.poll(wait, &mut completions);
        for completion in completions.drain(..) {
            self.completed(completion);
        }
        self.completions = completions;
        self.work();
        events.append(&mut self.events);
        polled.map_err(|error| Error::io("wait for the device", error))
    }

    fn waker(&self) -> Waker {
        self.device.waker()
    }
}

/// Returns keys in the order of their hashes.
fn list(namespace: &Namespace, from: Option<&Key>, max_keys: usize) -> Vec<Key> {
    let mut keys = Vec::new();
    if max_keys > 0 {
        namespace.index.list(from, |key| {
            keys.push(*key);
            if keys.len() == max_keys {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        });
    }
    keys
}

/// Counts one more.
fn count(counter: &std::sync::atomic::AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
