//! The engine: commands go in, events come out, and nothing waits in between.
//!
//! A caller submits commands under tags of its own and polls for events. A value passes in pieces:
//! the engine asks for each piece of a store with a buffer to fill, and hands out each piece of a
//! retrieve in a buffer that the caller gives back. Buffers come out of one budget, so the memory in
//! use does not depend on the sizes of values.

mod block_namespace;
mod blocking;
mod buffers;
mod content;
mod create;
mod info;
mod journal;
mod key_locks;
mod namespace;
mod overlay;
mod pins;
mod poison;
mod rebuild;
mod recovery;
mod replay;
mod ring;
mod scan;
mod segments;
mod share;
mod values;
mod verify;
mod worker;

use std::fmt;
use std::os::fd::BorrowedFd;

pub(crate) use self::buffers::{Buffers, MIN_BUFFER_BLOCKS};
pub use self::create::create;
pub use self::info::NamespaceInfo;
pub use self::namespace::{Node, Statistics};
pub use self::overlay::inspect;
pub use self::recovery::superblock as read_superblock;
pub use self::scan::{ScanReport, scan};
pub use self::verify::{Damage, VerifyReport, verify};
pub use self::worker::{DEFAULT_BUFFER_BYTES, Worker};
use crate::block::Buffer;
use crate::device::{Wait, Waker};
use crate::{Key, Result};

/// The most bytes of a value that one buffer carries: 15 times 64 KiB, which leaves room for the
/// trailer in a buffer of 1 MiB.
pub const PIECE_BYTES: u32 = 15 << 16;

/// A command and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Stores a value of `value_bytes` bytes, which the engine then asks for piece by piece.
    Store {
        /// The key.
        key: Key,
        /// Size of the value.
        value_bytes: u32,
        /// When to store it.
        condition: Condition,
    },
    /// Reads a value, or its first `max_bytes` bytes.
    Retrieve {
        /// The key.
        key: Key,
        /// How much of the value the caller takes.
        max_bytes: u32,
    },
    /// Removes a key and its value.
    Delete {
        /// The key.
        key: Key,
    },
    /// Asks whether a key exists.
    Exist {
        /// The key.
        key: Key,
    },
    /// Lists keys in the order of their hashes, from the place of `from` on, which need not exist.
    List {
        /// Where to begin; none is the start.
        from: Option<Key>,
        /// The most keys to return.
        max_keys: usize,
    },
    /// Reads blocks of a block namespace. They are handed out as the pieces of a retrieve are.
    Read {
        /// Number of the first block in the namespace.
        first: u64,
        /// How many; 1 to 65,536.
        blocks: u32,
    },
    /// Writes blocks of a block namespace. They are asked for as the pieces of a store are. A write
    /// that fails leaves any mixture of old and new blocks; each block is whole unless power fails.
    Write {
        /// Number of the first block in the namespace.
        first: u64,
        /// How many; 1 to 65,536.
        blocks: u32,
        /// Whether a power cut leaves the blocks once the write has completed, in any domain of the
        /// namespace.
        is_durable: bool,
    },
    /// Makes all acknowledged changes durable.
    Flush,
}

/// When a store takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// Only if the key exists.
    IfExists,
    /// Only if the key does not exist.
    IfAbsent,
}

/// A message of the engine to its caller.
#[derive(Debug)]
pub enum Event {
    /// A store's next piece is wanted: `bytes` bytes of the value from `offset` on, at the start of
    /// `buffer`, which goes back by [`Engine::supply`]. Pieces of a command are wanted in order.
    Want {
        /// The store's tag.
        tag: u64,
        /// Place of the piece in the value.
        offset: u32,
        /// Size of the piece.
        bytes: u32,
        /// Where to put it.
        buffer: Buffer,
    },
    /// A retrieve's next piece: `buffer[at..at + bytes]`, from `offset` of the value on. The buffer
    /// goes back by [`Engine::give_back`]. Pieces of a command come in order.
    Piece {
        /// The retrieve's tag.
        tag: u64,
        /// Place of the piece in the value.
        offset: u32,
        /// Where it begins in the buffer.
        at: usize,
        /// Size of the piece.
        bytes: u32,
        /// Whether no other piece follows.
        is_last: bool,
        /// Memory that holds it.
        buffer: Buffer,
    },
    /// The command has ended; no other event of its tag follows.
    Done {
        /// The command's tag.
        tag: u64,
        /// How it ended.
        result: std::result::Result<Answer, Failure>,
    },
}

/// The answer to a command that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value is stored.
    Stored,
    /// The value was handed out; this is its whole size in bytes.
    Retrieved(u32),
    /// The key is removed.
    Deleted,
    /// The key exists.
    Exists,
    /// Keys, in the order of their hashes.
    Keys(Vec<Key>),
    /// The blocks were handed out.
    Read,
    /// The blocks are written.
    Written,
    /// Everything acknowledged is durable.
    Flushed,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no such namespace, or it is of another kind.
    NoNamespace,
    /// The key does not exist.
    NotFound,
    /// The key exists.
    KeyExists,
    /// The value is larger than the namespace allows.
    InvalidValueSize,
    /// No space is left for the value, or no more keys are allowed.
    CapacityExceeded,
    /// The blocks are not within the namespace, or too many for one command.
    OutOfRange,
    /// The value on the device is damaged or cannot be read; other keys are served.
    Unrecovered(String),
    /// The device refused to write the value; the key is as it was.
    WriteFailed(String),
    /// A journal write or a flush failed: the namespace refuses changes until it is opened again.
    Poisoned(String),
    /// The caller took the command back.
    Aborted,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoNamespace => f.write_str("no such namespace"),
            Failure::NotFound => f.write_str("the key does not exist"),
            Failure::KeyExists => f.write_str("the key exists"),
            Failure::InvalidValueSize => f.write_str("the value is too large for the namespace"),
            Failure::CapacityExceeded => f.write_str("no space is left in the namespace"),
            Failure::OutOfRange => f.write_str("the blocks are not within the namespace"),
            Failure::Unrecovered(why) => write!(f, "the value cannot be read: {why}"),
            Failure::WriteFailed(why) => write!(f, "the value cannot be written: {why}"),
            Failure::Poisoned(why) => write!(f, "the namespace takes no changes since {why}"),
            Failure::Aborted => f.write_str("the command was taken back"),
        }
    }
}

/// A key-value engine as an event loop sees it.
pub trait Engine: Send {
    /// Begins a command in the namespace `nsid`. Its events carry `tag`, which is not to be used
    /// again before the command is done.
    fn submit(&mut self, tag: u64, nsid: u32, command: Command);

    /// Supplies the oldest piece that was wanted for `tag`.
    fn supply(&mut self, tag: u64, buffer: Buffer);

    /// Gives back the buffer of a piece.
    fn give_back(&mut self, tag: u64, buffer: Buffer);

    /// Takes a command back. It ends by a `Done` like any other; a durable change stays.
    /// Buffers that its caller holds are to be supplied or given back first.
    fn abort(&mut self, tag: u64);

    /// Goes on with everything that can, and appends events.
    ///
    /// # Errors
    /// The device's queue is broken; the engine is to be dropped.
    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<()>;

    /// Returns a descriptor that is readable while a poll has something to do, for a loop that sleeps
    /// on other descriptors too.
    ///
    /// The descriptor is level-triggered, and belongs to the engine. A sleep on it is safe after a
    /// [`poll`](Engine::poll) with [`Wait::No`], if no other call of this trait was made since:
    ///
    /// - That poll hands all requests to the system, and all events to the caller. Commands, buffers
    ///   and aborts after it count from the next poll on: the descriptor does not tell of them.
    /// - The descriptor becomes readable once anything can go on: by the device, by another loop of
    ///   the node, or by a thread of the engine. It stays so until the next poll.
    /// - A [`Waker`] makes it readable until the next poll.
    /// - Nothing goes on by time alone: no engine has timers, so a sleep needs no limit.
    /// - It may be readable in vain: a poll need not bring an event.
    ///
    /// A sleep may end with `EINTR`, without a signal, when the system notes a completion in the
    /// thread that sleeps: `epoll_wait(2)` does.
    ///
    /// ```
    /// # use terrace_node::Key;
    /// # use terrace_node::device::Wait;
    /// # use terrace_node::engine::{Command, Engine};
    /// # use terrace_node::lsm::{LsmEngine, LsmNamespace, LsmOptions};
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let options = LsmOptions::new(directory.path().join("store"), vec![LsmNamespace::new(1)]);
    /// # let mut engine = LsmEngine::open(options)?;
    /// # engine.submit(7, 1, Command::Exist { key: Key::new(b"absent").unwrap() });
    /// let mut events = Vec::new();
    /// loop {
    ///     engine.poll(Wait::No, &mut events)?;
    ///     if !events.is_empty() {
    ///         // Handle the events. Calls of the engine here need another poll before the sleep.
    ///         break;
    ///     }
    ///     // Sockets go beside it.
    ///     let _ = poll(&mut [PollFd::from_borrowed_fd(engine.readiness(), PollFlags::IN)], None);
    /// }
    /// # Ok::<(), terrace_node::Error>(())
    /// ```
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Returns the handle that ends a wait of `poll` from another thread.
    fn waker(&self) -> Waker;

    /// Returns the budget of buffers for values, in bytes.
    fn buffer_bytes(&self) -> usize;

    /// Returns whether commands wait for a buffer.
    fn is_short_of_buffers(&self) -> bool;
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn submit(&mut self, tag: u64, nsid: u32, command: Command) {
        (**self).submit(tag, nsid, command);
    }

    fn supply(&mut self, tag: u64, buffer: Buffer) {
        (**self).supply(tag, buffer);
    }

    fn give_back(&mut self, tag: u64, buffer: Buffer) {
        (**self).give_back(tag, buffer);
    }

    fn abort(&mut self, tag: u64) {
        (**self).abort(tag);
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<()> {
        (**self).poll(wait, events)
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        (**self).readiness()
    }

    fn waker(&self) -> Waker {
        (**self).waker()
    }

    fn buffer_bytes(&self) -> usize {
        (**self).buffer_bytes()
    }

    fn is_short_of_buffers(&self) -> bool {
        (**self).is_short_of_buffers()
    }
}
