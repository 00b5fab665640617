//! An event loop's part of the engine.
//!
//! A [`Worker`] has a device of its own and shares the namespaces with other workers. Commands are
//! small state machines in slots; requests to the device are operations in slots of their own. No
//! lock is held while a request is in flight.

mod blocks;
mod checkpoint;
mod clean;
mod commit;
mod defragment;
mod dispatch;
mod evict;
mod inbox;
mod lend;
mod retrieve;
mod slots;
mod space;
mod store;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) use self::inbox::Waiter;
use self::inbox::{Inbox, Message};
use self::slots::Slots;
use super::blocking::Blocking;
use super::buffers::{Buffers, MIN_BUFFER_BLOCKS};
use super::namespace::{Namespace, Node};
use super::{Answer, Engine, Event, Failure};
use crate::block::BLOCK_BYTES;
use crate::device::{Completion, Device, Request, Wait};
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
    /// Whether no duty is to begin any more, but a checkpoint that records wait for.
    is_closing: bool,
    /// Flushes, by block namespace.
    block_flushes: Vec<blocks::Flushes>,
}

/// How long an orderly end waits before it looks at its duties again.
const CLOSE_INTERVAL: Duration = Duration::from_millis(1);

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
    /// A command of a block namespace; its position is among those.
    Blocks(blocks::State),
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
    /// A piece at a place in a command's blocks.
    Blocks(u32, u32),
    /// A flush for these commands.
    BlockFlush(usize, Vec<u32>),
}

impl Active {
    fn is_eviction(&mut self) -> bool {
        matches!(&self.work, Work::Delete(state) if state.is_eviction)
    }
}

impl Worker {
    /// Makes the part of a loop that owns `device`, with a budget of `buffer_bytes` for values.
    ///
    /// # Errors
    /// The budget does not hold two of the largest pieces.
    pub fn new(node: &Arc<Node>, device: Box<dyn Device>, buffer_bytes: usize) -> Result<Self> {
        let budget = buffer_bytes / BLOCK_BYTES;
        if budget < MIN_BUFFER_BLOCKS {
            return Err(Error::InvalidArgument(
                "the budget of buffers is at least 2 MiB".to_owned(),
            ));
        }
        let (count, blocks) = (node.key_namespaces().len(), node.block_namespaces().len());
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
            is_closing: false,
            block_flushes: (0..blocks).map(|_| blocks::Flushes::default()).collect(),
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
        !self.has_duties() && self.events.is_empty()
    }

    /// Ends the loop in order: waits for its duties, makes everything durable, and says so in the
    /// journals. A recovery then takes every change as it is. Without it, as after a crash, a change
    /// behind the last flush mark counts only if its value is whole.
    ///
    /// # Errors
    /// Commands are under way, or the device fails.
    pub fn close(mut self) -> Result<()> {
        let closed = self.close_in_order();
        // Records that other loops handed over meanwhile waited for this one, and those loops sleep.
        for namespace in self.node.key_namespaces() {
            let journal = namespace.journal.lock();
            if let Some(waiter) = journal.open.iter().find_map(|each| each.waiter.as_ref()) {
                waiter.nudge();
            }
        }
        closed
    }

    fn close_in_order(&mut self) -> Result<()> {
        if !self.by_tag.is_empty() {
            let what = "commands are under way; poll until they have ended";
            return Err(Error::InvalidArgument(what.to_owned()));
        }
        self.is_closing = true;
        let mut events = Vec::new();
        while self.has_duties() {
            // A duty may wait for another loop.
            self.poll(Wait::AtMost(CLOSE_INTERVAL), &mut events)?;
        }
        let mut device = Blocking(&mut *self.device);
        if let Err(error) = device.flush() {
            self.node.poison(&format!("a flush failed: {error}"));
            return Err(error);
        }
        let marked = self.node.key_namespaces().iter();
        let marked = marked.map(|namespace| mark_as_durable(&mut device, namespace));
        // Each namespace has its turn, even if one before it failed.
        marked.collect::<Vec<_>>().into_iter().collect()
    }

    /// Returns true while a request, a move or a duty is under way that can end.
    fn has_duties(&self) -> bool {
        let namespaces = self.node.key_namespaces().iter().enumerate();
        let has_duty = |(at, namespace): (usize, &Arc<Namespace>)| {
            let has_any = self.checkpoints[at].is_some()
                || self.cleaners[at].is_some()
                || self.defragmenters[at].is_some();
            has_any && namespace.check_writable().is_ok()
        };
        self.operations.len() > 0 || self.commands.len() > 0 || namespaces.into_iter().any(has_duty)
    }

    /// Returns true if the command is bound to fail, or is not there any more.
    fn has_failed(&mut self, slot: u32) -> bool {
        let command = self.commands.get_mut(slot);
        command.is_none_or(|active| active.failure.is_some())
    }

    fn namespace(&self, at: usize) -> Arc<Namespace> {
        Arc::clone(&self.node.key_namespaces()[at])
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
        if let Some(next) = self.node.key_namespaces()[at].keys.release(hash, &key) {
            next.own_key();
        }
    }

    /// Takes a command out of those that wait for its key. Returns false if it does not wait.
    fn stop_waiting_for_key(&mut self, slot: u32) -> bool {
        let Some(active) = self.commands.get_mut(slot) else {
            return false;
        };
        let may_wait = match &active.work {
            // An owner whose key is borrowed waits, too, and must get it back.
            Work::Store(state) => !state.owns_key(),
            Work::Delete(_) => true,
            _ => false,
        };
        let (at, hash, key) = (active.namespace, active.hash, active.key);
        let waiter = Waiter::new(&self.inbox, slot);
        may_wait
            && self.node.key_namespaces()[at]
                .keys
                .cancel(hash, &key, &waiter)
    }

    fn request(&mut self, operation: Operation, request: Request) {
        let slot = self.operations.add(operation);
        self.device.submit(u64::from(slot), request);
    }

    fn key_is_owned(&mut self, slot: u32) {
        match self.commands.get_mut(slot).map(|active| &active.work) {
            Some(Work::Store(_)) => self.store_owns_key(slot),
            Some(Work::Delete(_)) => self.admit_delete(slot),
            // The command has ended, since the owner of its key is gone.
            None => {}
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
            for at in 0..self.node.key_namespaces().len() {
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
                Some(Work::Blocks(state)) => {
                    state.waits_for_buffer = false;
                    self.fetch_blocks(slot);
                }
                _ => {}
            }
            if self.buffer_waiters.len() > before {
                // Still no buffer: the longest wait keeps its turn.
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
            Operation::Blocks(slot, offset) => self.blocks_moved(slot, offset, buffer, result),
            Operation::BlockFlush(at, served) => self.blocks_flushed(at, served, result),
            Operation::Settle(at, end) => {
                self.settling[at] = false;
                self.settled(at, end, result);
            }
        }
    }
}

impl Drop for Worker {
    /// Ends the waits of other loops for this one: keys, a group of the journal, a
    /// checkpoint. An orderly end leaves nothing.
    fn drop(&mut self) {
        if self.by_tag.is_empty() && !self.has_duties() {
            return;
        }
        let why = "an event loop ended with commands under way";
        self.node.poison(why);
        for namespace in self.node.key_namespaces() {
            namespace.keys.abandon();
            // Another loop refuses the records that wait for a group of this one.
            let open = &namespace.journal.lock().open;
            open.iter()
                .filter_map(|each| each.waiter.as_ref())
                .for_each(Waiter::nudge);
        }
    }
}

/// Makes a namespace durable, and says so in its journal, unless it takes no changes.
fn mark_as_durable(device: &mut Blocking<'_>, namespace: &Namespace) -> Result<()> {
    let written = namespace.journal.lock().written;
    device.flush()?;
    let mark = {
        let mut journal = namespace.journal.lock();
        if namespace.check_writable().is_err() {
            return Ok(());
        }
        journal.durable = journal.durable.max(written);
        journal.close_mark()
    };
    let Some((group, buffer, parts)) = mark else {
        return Ok(());
    };
    let marked = device
        .write_parts(buffer, parts)
        .and_then(|()| device.flush());
    if let Err(error) = &marked {
        // Before the journal is given free: no block may follow one that is not there.
        namespace.poison(format!("the mark of an orderly end failed: {error}"));
    }
    {
        let mut journal = namespace.journal.lock();
        journal.is_writing = false;
        if marked.is_ok() {
            (journal.written, journal.durable) = (group.end, group.end);
        }
    }
    namespace.wake_space_waiters();
    marked
}

/// Counts one more.
fn count(counter: &std::sync::atomic::AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
