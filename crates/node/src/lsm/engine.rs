//! The event loop's part: commands under way, buffers, and the trait.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use terrace::Db;

use super::LsmOptions;
use super::commands::{Retrieve, Store};
use super::identifiers::{nguid_of, uuid_of};
use super::namespace::Namespace;
use super::threads::{ChangeKind, Inbox, KeyChange, Read, ReadKind, Reply, Threads, Write};
use crate::block::{BLOCK_BYTES, Buffer};
use crate::device::{Wait, Waker};
use crate::engine::{
    Answer, Buffers, Command, Engine, Event, Failure, MIN_BUFFER_BLOCKS, NamespaceInfo,
};
use crate::format::namespace::Kind;
use crate::format::value::MAX_VALUE_BYTES;
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
    db: Db,
    path: PathBuf,
    namespaces: Vec<Arc<Namespace>>,
    threads: Threads,
    inbox: Arc<Inbox>,
    pub(super) commands: HashMap<u64, Active>,
    /// Jobs whose replies are still to come.
    pub(super) jobs: usize,
    pub(super) buffers: Buffers,
    /// Commands that wait for a buffer, in turn.
    pub(super) buffer_waiters: VecDeque<u64>,
    pub(super) events: Vec<Event>,
}

/// The least limit of a batch: a group of changes, or a piece, fits.
const MIN_BATCH_BYTES: u64 = 4 << 20;

/// A command under way.
pub(super) enum Active {
    Store(Store),
    Retrieve(Retrieve),
    /// A job that answers by itself.
    Job,
}

impl LsmEngine {
    /// Opens the store, or makes it, and its namespaces.
    ///
    /// # Errors
    /// The store cannot be opened ([`Error::Store`] says why), two namespaces have one number, a
    /// largest value is 0 or above 256 MiB, the budget is below 2 MiB, or the store's
    /// `max_batch_bytes` below 4 MiB. The process may also lack a descriptor.
    pub fn open(options: LsmOptions) -> Result<Self> {
        let budget = options.buffer_bytes / BLOCK_BYTES;
        if budget < MIN_BUFFER_BLOCKS {
            let what = "the budget of buffers is at least 2 MiB";
            return Err(Error::InvalidArgument(what.to_owned()));
        }
        if options.store.max_batch_bytes < MIN_BATCH_BYTES {
            let what = "`max_batch_bytes` is at least 4 MiB in the store of a node";
            return Err(Error::InvalidArgument(what.to_owned()));
        }
        let mut numbers: Vec<u32> = options.namespaces.iter().map(|each| each.nsid).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|two| two[0] == two[1]) {
            let what = "two namespaces have one number";
            return Err(Error::InvalidArgument(what.to_owned()));
        }
        let is_legal = |bytes: u32| (1..=MAX_VALUE_BYTES).contains(&bytes);
        if let Some(wrong) = options
            .namespaces
            .iter()
            .find(|each| !is_legal(each.max_value_bytes))
        {
            let what = format!(
                "namespace {}: the largest value is 1 byte to 256 MiB",
                wrong.nsid
            );
            return Err(Error::InvalidArgument(what));
        }
        let db = Db::open(&options.path, options.store)?;
        let mut namespaces = Vec::new();
        for settings in options.namespaces {
            namespaces.push(Arc::new(Namespace::open(&db, settings)?));
        }
        let inbox = Inbox::new().map_err(|error| Error::io("make a descriptor", error))?;
        let inbox = Arc::new(inbox);
        let (writers, readers) = (options.write_threads, options.read_threads);
        Ok(LsmEngine {
            namespaces,
            threads: Threads::start(&db, &inbox, writers, readers),
            db,
            path: options.path,
            inbox,
            commands: HashMap::new(),
            jobs: 0,
            buffers: Buffers::new(budget),
            buffer_waiters: VecDeque::new(),
            events: Vec::new(),
        })
    }

    /// Returns the store, for its statistics and its upkeep.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns all namespaces, in the order of the options. They share the free space of the store's
    /// file system, so that it counts in the size of each. The bytes in use are those of tables,
    /// estimated; a namespace is named after its keyspaces.
    ///
    /// # Errors
    /// The store's tables or its file system cannot be read.
    pub fn namespaces(&self) -> Result<Vec<NamespaceInfo>> {
        let store = self.db.store_id()?;
        let status = rustix::fs::statvfs(&self.path)
            .map_err(|error| Error::io("look for free space", error.into()))?;
        let free_bytes = status.f_bavail.saturating_mul(status.f_frsize);
        let mut all = Vec::with_capacity(self.namespaces.len());
        for namespace in &self.namespaces {
            let settings = &namespace.settings;
            let used_bytes = namespace.used_bytes()?;
            all.push(NamespaceInfo {
                nsid: settings.nsid,
                kind: Kind::Keys,
                domain: settings.domain,
                name: format!("node-{}", settings.nsid),
                size_bytes: used_bytes.saturating_add(free_bytes),
                used_bytes,
                max_value_bytes: settings.max_value_bytes,
                max_keys: None,
                uuid: uuid_of(store, settings.nsid),
                nguid: nguid_of(store, settings.nsid),
            });
        }
        Ok(all)
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
        self.threads.write(key, write);
    }

    pub(super) fn read(&mut self, tag: u64, namespace: &Arc<Namespace>, what: ReadKind) {
        self.jobs += 1;
        let namespace = Arc::clone(namespace);
        self.threads.read(Read {
            tag,
            namespace,
            what,
        });
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

impl Engine for LsmEngine {
    fn submit(&mut self, tag: u64, nsid: u32, command: Command) {
        let mut all = self.namespaces.iter();
        match all.find(|namespace| namespace.settings.nsid == nsid) {
            Some(namespace) => {
                let namespace = Arc::clone(namespace);
                self.begin(tag, &namespace, command);
            }
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
