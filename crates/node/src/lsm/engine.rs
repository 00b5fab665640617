//! The event loop's part: commands under way, buffers, and the trait.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use terrace::Db;

use super::LsmOptions;
use super::commands::{Retrieve, Store};
use super::namespace::Namespace;
use super::store::LsmStore;
use super::threads::{ChangeKind, Inbox, KeyChange, Read, ReadKind, Reply, Write};
use crate::block::{BLOCK_BYTES, Buffer};
use crate::device::{Wait, Waker};
use crate::engine::{
    Answer, Buffers, Command, Engine, Event, Failure, MIN_BUFFER_BLOCKS, NamespaceInfo,
};
use crate::{Error, Result};

/// The LSM store of [`terrace`] as an [`Engine`], on threads of its own.
///
/// ```
/// use terrace_node::Key;
/// use terrace_node::device::Wait;
/// use terrace_node::engine::{Command, Engine, Event, Failure};
/// use terrace_node::lsm::{LsmEngine, LsmNamespace, LsmOptions};
///
/// let directory = tempfile::tempdir().unwrap();
/// let options = LsmOptions::new(directory.path().join("store"), vec![LsmNamespace::new(1)]);
/// let mut engine = LsmEngine::open(options)?;
/// engine.submit(7, 1, Command::Exist { key: Key::new(b"absent").unwrap() });
/// let mut events = Vec::new();
/// while events.is_empty() {
///     engine.poll(Wait::Yes, &mut events)?;
/// }
/// assert!(matches!(events[0], Event::Done { tag: 7, result: Err(Failure::NotFound) }));
/// # Ok::<(), terrace_node::Error>(())
/// ```
pub struct LsmEngine {
    store: Arc<LsmStore>,
    inbox: Arc<Inbox>,
    pub(super) commands: HashMap<u64, Active>,
    /// Jobs whose replies are still to come.
    pub(super) jobs: usize,
    pub(super) buffers: Buffers,
    /// Commands that wait for a buffer, in turn.
    pub(super) buffer_waiters: VecDeque<u64>,
    pub(super) events: Vec<Event>,
}

/// A command under way.
pub(super) enum Active {
    Store(Store),
    Retrieve(Retrieve),
    /// A job that answers by itself.
    Job,
}

impl LsmEngine {
    /// Opens the store, or makes it, for a single event loop.
    ///
    /// # Errors
    /// Those of [`LsmStore::open`] and [`LsmEngine::new`].
    pub fn open(options: LsmOptions) -> Result<Self> {
        let budget = options.buffer_bytes;
        check_budget(budget)?;
        LsmEngine::new(&LsmStore::open(options)?, budget)
    }

    /// Makes the part of one event loop, with a budget of buffers of its own.
    ///
    /// # Errors
    /// The budget is below 2 MiB, or the process lacks a descriptor.
    pub fn new(store: &Arc<LsmStore>, buffer_bytes: usize) -> Result<Self> {
        check_budget(buffer_bytes)?;
        let inbox = Inbox::new().map_err(|error| Error::io("make a descriptor", error))?;
        Ok(LsmEngine {
            store: Arc::clone(store),
            inbox: Arc::new(inbox),
            commands: HashMap::new(),
            jobs: 0,
            buffers: Buffers::new(buffer_bytes / BLOCK_BYTES),
            buffer_waiters: VecDeque::new(),
            events: Vec::new(),
        })
    }

    /// Returns the store's handle, for its statistics and its upkeep.
    pub fn db(&self) -> &Db {
        self.store.db()
    }

    /// Returns all namespaces, as [`LsmStore::namespaces`] does.
    ///
    /// # Errors
    /// Those of [`LsmStore::namespaces`].
    pub fn namespaces(&self) -> Result<Vec<NamespaceInfo>> {
        self.store.namespaces()
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

    pub(super) fn done(&mut self, tag: u64, result: std::result::Result<Answer, Failure>) {
        self.commands.remove(&tag);
        // Its tag may be another command's soon.
        self.buffer_waiters.retain(|&waiting| waiting != tag);
        self.events.push(Event::Done { tag, result });
    }

    pub(super) fn write(&mut self, key: &crate::Key, write: Write) {
        self.jobs += usize::from(!matches!(write, Write::Drop(..)));
        self.store.threads().write(&self.inbox, key, write);
    }

    pub(super) fn read(&mut self, tag: u64, namespace: &Arc<Namespace>, what: ReadKind) {
        self.jobs += 1;
        let namespace = Arc::clone(namespace);
        let read = Read {
            tag,
            namespace,
            what,
        };
        self.store.threads().read(&self.inbox, read);
    }

    fn begin(&mut self, tag: u64, namespace: &Arc<Namespace>, command: Command) {
        let active = match command {
            Command::Store {
                key,
                value_bytes,
                condition,
            } => {
                if value_bytes > namespace.settings.max_value_bytes {
                    return self.done(tag, Err(Failure::InvalidValueSize));
                }
                Active::Store(Store::new(namespace, key, value_bytes, condition))
            }
            Command::Retrieve { max_bytes, .. } => {
                Active::Retrieve(Retrieve::new(namespace, max_bytes))
            }
            Command::Read { .. } | Command::Write { .. } => {
                return self.done(tag, Err(Failure::NoNamespace));
            }
            _ => Active::Job,
        };
        self.commands.insert(tag, active);
        match command {
            Command::Store { .. } => self.want_pieces(tag),
            Command::Retrieve { key, .. } => self.read(tag, namespace, ReadKind::Open(key)),
            Command::Exist { key } => self.read(tag, namespace, ReadKind::Exist(key)),
            Command::List { from, max_keys } => {
                self.read(tag, namespace, ReadKind::List(from, max_keys));
            }
            Command::Flush => self.read(tag, namespace, ReadKind::Flush),
            Command::Delete { key } => {
                let namespace = Arc::clone(namespace);
                let kind = ChangeKind::Delete;
                let change = KeyChange {
                    tag,
                    namespace,
                    key,
                    kind,
                };
                self.write(&key, Write::Change(change));
            }
            Command::Read { .. } | Command::Write { .. } => {}
        }
    }

    fn handle(&mut self, reply: Reply) {
        self.jobs -= 1;
        match reply {
            Reply::Done(tag, result, buffer) => {
                if let Some(buffer) = buffer {
                    self.buffers.put(buffer);
                }
                self.done(tag, result);
            }
            Reply::Opened(tag, result) => self.value_opened(tag, result),
            Reply::PieceWritten(tag, buffer, result) => self.piece_written(tag, buffer, result),
            Reply::PieceRead(tag, buffer, result) => self.piece_read(tag, buffer, result),
        }
    }

    /// Does everything that needs no wait.
    fn work(&mut self) {
        loop {
            let replies = self.inbox.take();
            let is_idle = replies.is_empty();
            for reply in replies {
                self.handle(reply);
            }
            self.serve_buffer_waiters();
            if is_idle {
                return;
            }
        }
    }

    fn serve_buffer_waiters(&mut self) {
        for _ in 0..self.buffer_waiters.len() {
            let Some(tag) = self.buffer_waiters.pop_front() else {
                return;
            };
            let before = self.buffer_waiters.len();
            match self.commands.get_mut(&tag) {
                Some(Active::Store(store)) => {
                    store.waits_for_buffer = false;
                    self.want_pieces(tag);
                }
                Some(Active::Retrieve(retrieve)) => {
                    retrieve.waits_for_buffer = false;
                    self.read_pieces(tag);
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
}

fn check_budget(buffer_bytes: usize) -> Result<()> {
    if buffer_bytes / BLOCK_BYTES < MIN_BUFFER_BLOCKS {
        let what = "the budget of buffers is at least 2 MiB";
        return Err(Error::InvalidArgument(what.to_owned()));
    }
    Ok(())
}

impl Engine for LsmEngine {
    fn submit(&mut self, tag: u64, nsid: u32, command: Command) {
        match self.store.namespace(nsid).map(Arc::clone) {
            Some(namespace) => self.begin(tag, &namespace, command),
            None => self.done(tag, Err(Failure::NoNamespace)),
        }
    }

    fn supply(&mut self, tag: u64, buffer: Buffer) {
        match self.commands.get(&tag) {
            Some(Active::Store(_)) => self.piece_supplied(tag, buffer),
            _ => self.buffers.put(buffer),
        }
    }

    fn give_back(&mut self, tag: u64, buffer: Buffer) {
        self.buffers.put(buffer);
        match self.commands.get_mut(&tag) {
            Some(Active::Store(store)) => {
                // The caller will not fill it.
                store.wanted.pop_front();
                self.fail_store(tag, Failure::Aborted);
            }
            Some(Active::Retrieve(retrieve)) => {
                retrieve.with_caller = retrieve.with_caller.saturating_sub(1);
                self.read_pieces(tag);
            }
            _ => {}
        }
    }

    fn abort(&mut self, tag: u64) {
        match self.commands.get(&tag) {
            Some(Active::Store(_)) => self.fail_store(tag, Failure::Aborted),
            Some(Active::Retrieve(_)) => self.fail_retrieve(tag, Failure::Aborted),
            _ => {}
        }
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<()> {
        self.work();
        if self.events.is_empty() {
            match wait {
                Wait::No => {}
                Wait::Yes if self.jobs == 0 => {}
                Wait::Yes => self.inbox.wait(None),
                Wait::AtMost(limit) => self.inbox.wait(Some(limit)),
            }
            self.work();
        }
        events.append(&mut self.events);
        Ok(())
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.inbox.readiness()
    }

    fn waker(&self) -> Waker {
        let inbox = Arc::clone(&self.inbox);
        Waker::new(move || inbox.wake())
    }

    fn buffer_bytes(&self) -> usize {
        self.buffers.budget() * BLOCK_BYTES
    }

    fn is_short_of_buffers(&self) -> bool {
        !self.buffer_waiters.is_empty()
    }
}
