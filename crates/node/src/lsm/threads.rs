//! The threads that call the store, and the way of jobs to them and of replies back.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use terrace::{Db, Snapshot, WriteBatch, WriteOptions};

use super::head::Head;
use super::namespace::{Change, Namespace, NewValue, Opened, change_failed};
use crate::Key;
use crate::block::Buffer;
use crate::device::Readiness;
use crate::engine::{Answer, Condition, Failure};
use crate::thread_start;

/// The most changes of one group.
const MAX_GROUP: usize = 256;
/// The bytes of values after which a group is closed.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// A change of a key.
pub(super) struct KeyChange {
    pub(super) tag: u64,
    pub(super) namespace: Arc<Namespace>,
    pub(super) key: Key,
    pub(super) kind: ChangeKind,
}

/// The kinds of changes.
pub(super) enum ChangeKind {
    /// A value: the start of the buffer, and its size in bytes.
    Whole(Condition, Buffer, u32),
    /// A value of that many bytes, whose pieces were written under the version.
    InPieces(Condition, u32, u64),
    Delete,
}

/// Work, and the inbox of the event loop that gave it.
struct Job<W> {
    inbox: Arc<Inbox>,
    work: W,
}

/// Work for the thread of a key.
pub(super) enum Write {
    Change(KeyChange),
    /// A piece: the tag, and its version, place and size.
    Piece(u64, Arc<Namespace>, Buffer, (u64, u32, u32)),
    /// The pieces under a version are not wanted.
    Drop(Arc<Namespace>, u64),
}

/// Work for any reading thread, for a tag.
pub(super) struct Read {
    pub(super) tag: u64,
    pub(super) namespace: Arc<Namespace>,
    pub(super) what: ReadKind,
}

/// The kinds of reads.
pub(super) enum ReadKind {
    Exist(Key),
    Open(Key),
    /// A piece as a snapshot has it: version, place and size.
    Piece(Arc<Snapshot>, Buffer, (u64, u32, u32)),
    List(Option<Key>, usize),
    Flush,
}

/// The outcome of a job.
pub(super) enum Reply {
    Done(u64, Result<Answer, Failure>, Option<Buffer>),
    Opened(u64, Result<Opened, Failure>),
    PieceWritten(u64, Buffer, Result<(), Failure>),
    PieceRead(u64, Buffer, Result<(), Failure>),
}

/// Replies that the event loop has not seen yet.
pub(super) struct Inbox {
    state: Mutex<(Vec<Reply>, bool)>,
    /// Raised and cleared under the lock of the state.
    readiness: Readiness,
    filled: Condvar,
}

impl Inbox {
    /// Makes an empty inbox.
    ///
    /// # Errors
    /// A descriptor cannot be made.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Inbox {
            state: Mutex::default(),
            readiness: Readiness::new()?,
            filled: Condvar::new(),
        })
    }

    /// Returns the descriptor that is readable from a reply or a wake to the next take.
    pub(super) fn readiness(&self) -> BorrowedFd<'_> {
        self.readiness.descriptor()
    }

    fn send(&self, reply: Reply) {
        {
            let mut state = self.state.lock();
            state.0.push(reply);
            self.readiness.raise();
        }
        self.filled.notify_one();
    }

    /// Ends the present or the next wait.
    pub(super) fn wake(&self) {
        {
            let mut state = self.state.lock();
            state.1 = true;
            self.readiness.raise();
        }
        self.filled.notify_one();
    }

    pub(super) fn take(&self) -> Vec<Reply> {
        let mut state = self.state.lock();
        self.readiness.clear();
        std::mem::take(&mut state.0)
    }

    /// Waits for a reply or a wake, for so long at most.
    pub(super) fn wait(&self, limit: Option<Duration>) {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.state.lock();
        while state.0.is_empty() && !std::mem::take(&mut state.1) {
            match end {
                None => self.filled.wait(&mut state),
                Some(end) => {
                    if self.filled.wait_until(&mut state, end).timed_out() {
                        return;
                    }
                }
            }
        }
    }
}

/// The threads, for all event loops. They end when this is dropped.
pub(super) struct Threads {
    writers: Vec<Sender<Job<Write>>>,
    readers: Option<Sender<Job<Read>>>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system has no thread left; those that did start end.
    pub(super) fn start(db: &Db, writers: usize, readers: usize) -> io::Result<Self> {
        let mut threads = Threads {
            writers: Vec::new(),
            readers: None,
            handles: Vec::new(),
        };
        for _ in 0..writers.max(1) {
            let (sender, receiver) = channel();
            let db = db.clone();
            threads.writers.push(sender);
            let run = move || write_all(&db, &receiver);
            threads
                .handles
                .push(thread_start::start("node-write", run)?);
        }
        let (sender, receiver) = channel();
        threads.readers = Some(sender);
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..readers.max(1) {
            let receiver = Arc::clone(&receiver);
            let run = move || read_all(&receiver);
            threads.handles.push(thread_start::start("node-read", run)?);
        }
        Ok(threads)
    }

    /// Hands work to the thread of a key: its changes take effect in the order of these calls. The
    /// reply goes to `inbox`.
    pub(super) fn write(&self, inbox: &Arc<Inbox>, key: &Key, work: Write) {
        let hash = xxhash_rust::xxh3::xxh3_64(key.as_bytes());
        let at = (hash % self.writers.len() as u64) as usize;
        let inbox = Arc::clone(inbox);
        let sent = self.writers[at].send(Job { inbox, work });
        debug_assert!(sent.is_ok(), "a thread lives as long as its sender");
    }

    pub(super) fn read(&self, inbox: &Arc<Inbox>, work: Read) {
        let inbox = Arc::clone(inbox);
        let readers = self.readers.as_ref();
        let sent = readers.map(|readers| readers.send(Job { inbox, work }));
        debug_assert!(sent.is_some_and(|sent| sent.is_ok()));
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.writers.clear();
        self.readers = None;
        for handle in self.handles.drain(..) {
            // A panic of the thread was reported when it happened.
            let _ = handle.join();
        }
    }
}

fn write_all(db: &Db, jobs: &Receiver<Job<Write>>) {
    while let Ok(first) = jobs.recv() {
        let (mut group, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(Job { inbox, work }) = next.take() {
            match work {
                Write::Change(change) => {
                    bytes += change.kind.value_bytes();
                    group.push((inbox, change));
                }
                other => {
                    // It must not overtake the changes before it.
                    commit(db, std::mem::take(&mut group));
                    bytes = 0;
                    carry_out(other, &inbox);
                }
            }
            if group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES {
                next = jobs.try_recv().ok();
            }
        }
        commit(db, group);
    }
}

fn carry_out(job: Write, inbox: &Inbox) {
    match job {
        Write::Piece(tag, namespace, buffer, (version, offset, bytes)) => {
            let result = namespace.write_piece(version, offset, &buffer[..bytes as usize]);
            inbox.send(Reply::PieceWritten(tag, buffer, result));
        }
        Write::Drop(namespace, version) => {
            // If this fails, the next opening finds the mark and tries again.
            let _ = namespace.drop_version(version);
        }
        Write::Change(_) => debug_assert!(false, "changes go in groups"),
    }
}

/// Judges changes in their order and writes all that pass in one batch. No caller hears of any
/// before the batch is as durable as its namespaces ask.
fn commit(db: &Db, group: Vec<(Arc<Inbox>, KeyChange)>) {
    if group.is_empty() {
        return;
    }
    let mut batch = WriteBatch::new();
    let mut heads: HashMap<(u32, Key), Option<Head>> = HashMap::new();
    let syncs = group.iter().any(|(_, change)| change.namespace.syncs());
    let mut judged = Vec::with_capacity(group.len());
    for (_, change) in &group {
        let namespace = &change.namespace;
        let at = (namespace.settings.nsid, change.key);
        let now = match heads.get(&at) {
            Some(head) => Ok(*head),
            None => change.head(),
        };
        let applied = now.and_then(|now| {
            let change_of = change.kind.as_change();
            namespace.apply(&mut batch, &change.key, now, &change_of)
        });
        judged.push(applied.map(|head| {
            heads.insert(at, head);
        }));
    }
    let written = match batch.is_empty() {
        true => Ok(()),
        false => db.write(batch, WriteOptions::with_sync(syncs)),
    };
    let failure = written.err().map(|error| change_failed(&error));
    for ((inbox, change), judged) in group.into_iter().zip(judged) {
        let result = match &failure {
            Some(failure) => Err(failure.clone()),
            None => judged,
        };
        let (answer, buffer) = match change.kind {
            ChangeKind::Whole(_, buffer, _) => (Answer::Stored, Some(buffer)),
            ChangeKind::InPieces(_, _, version) => {
                if result.is_err() {
                    let _ = change.namespace.drop_version(version);
                }
                (Answer::Stored, None)
            }
            ChangeKind::Delete => (Answer::Deleted, None),
        };
        inbox.send(Reply::Done(change.tag, result.map(|()| answer), buffer));
    }
}

impl KeyChange {
    /// Returns the record of the key. One that cannot be read does not keep its key from being replaced.
    fn head(&self) -> Result<Option<Head>, Failure> {
        let found = self.namespace.head(&self.key);
        let replaces = match &self.kind {
            ChangeKind::Whole(condition, ..) | ChangeKind::InPieces(condition, ..) => {
                *condition == Condition::Always
            }
            ChangeKind::Delete => true,
        };
        match found {
            Err(Failure::Unrecovered(_)) if replaces => Ok(Some(Head::UNKNOWN)),
            found => found,
        }
    }
}

impl ChangeKind {
    /// Returns the bytes of the value that the change brings with it.
    fn value_bytes(&self) -> usize {
        match self {
            ChangeKind::Whole(_, _, bytes) => *bytes as usize,
            ChangeKind::InPieces(..) | ChangeKind::Delete => 0,
        }
    }

    fn as_change(&self) -> Change<'_> {
        match self {
            ChangeKind::Whole(condition, buffer, bytes) => {
                Change::Store(*condition, NewValue::Whole(&buffer[..*bytes as usize]))
            }
            ChangeKind::InPieces(condition, bytes, version) => {
                Change::Store(*condition, NewValue::InPieces(*bytes, *version))
            }
            ChangeKind::Delete => Change::Delete,
        }
    }
}

fn read_all(jobs: &Mutex<Receiver<Job<Read>>>) {
    loop {
        let received = jobs.lock().recv();
        let Ok(Job { inbox, work }) = received else {
            return;
        };
        let Read {
            tag,
            namespace,
            what,
        } = work;
        let reply = match what {
            ReadKind::Exist(key) => {
                let found = namespace.head(&key);
                let exists = found.and_then(|head| head.ok_or(Failure::NotFound));
                Reply::Done(tag, exists.map(|_| Answer::Exists), None)
            }
            ReadKind::Open(key) => Reply::Opened(tag, namespace.open_value(&key)),
            ReadKind::Piece(snapshot, mut buffer, (version, offset, bytes)) => {
                let to = &mut buffer[..bytes as usize];
                let result = namespace.read_piece(&snapshot, version, offset, to);
                Reply::PieceRead(tag, buffer, result)
            }
            ReadKind::List(from, max_keys) => {
                let listed = namespace.list(from.as_ref(), max_keys);
                Reply::Done(tag, listed.map(Answer::Keys), None)
            }
            ReadKind::Flush => Reply::Done(tag, namespace.flush().map(|()| Answer::Flushed), None),
        };
        inbox.send(reply);
    }
}
