//! The store behind a target.

use std::fmt;
use std::io;
use std::ops::DerefMut;
use std::os::fd::BorrowedFd;

use crate::wire::Status;
use crate::wire::kv::MAX_KEY_BYTES;

/// A key of 1 to 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Zeros behind the key's own bytes.
    bytes: [u8; MAX_KEY_BYTES],
    len: u8,
}

impl Key {
    /// Makes a key; none if `bytes` is empty or longer than 16 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if !(1..=MAX_KEY_BYTES).contains(&bytes.len()) {
            return None;
        }
        let mut key = [0; MAX_KEY_BYTES];
        key[..bytes.len()].copy_from_slice(bytes);
        Some(Key {
            bytes: key,
            len: bytes.len() as u8,
        })
    }

    /// Returns the key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
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

/// A command to the backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Stores a value of `value_bytes` bytes, which the backend asks for piece by piece.
    Store {
        /// The key.
        key: Key,
        /// Size of the value.
        value_bytes: u32,
        /// When to store it.
        condition: Condition,
    },
    /// Reads the first `max_bytes` bytes of a value, piece by piece.
    Retrieve {
        /// The key.
        key: Key,
        /// The most bytes that the host takes.
        max_bytes: u32,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: Key,
    },
    /// Asks whether a key exists.
    Exist {
        /// The key.
        key: Key,
    },
    /// Lists keys in the backend's order.
    List {
        /// The first key, or the place where it would be; none is the start.
        from: Option<Key>,
        /// The most keys to return.
        max_keys: usize,
    },
    /// Reads blocks, piece by piece.
    Read {
        /// Number of the first block.
        first: u64,
        /// How many.
        blocks: u32,
    },
    /// Writes blocks, which the backend asks for piece by piece.
    Write {
        /// Number of the first block.
        first: u64,
        /// How many.
        blocks: u32,
        /// Whether the blocks are durable when the write completes (FUA).
        is_durable: bool,
    },
    /// Makes all acknowledged changes durable.
    Flush,
}

/// The answer to a command that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The command is done.
    Done,
    /// The value was handed out; this is its whole size in bytes.
    Retrieved(u32),
    /// The keys of a List.
    Keys(Vec<Key>),
}

/// A message of the backend.
#[derive(Debug)]
pub enum Event<B> {
    /// The next piece of a store or a write is wanted, at the start of `buffer`.
    Want {
        /// The command's tag.
        tag: u64,
        /// Place of the piece in the command's data.
        offset: u32,
        /// Size of the piece.
        bytes: u32,
        /// Where to put it.
        buffer: B,
    },
    /// The next piece of a retrieve or a read: `buffer[at..at + bytes]`.
    Piece {
        /// The command's tag.
        tag: u64,
        /// Place of the piece in the command's data.
        offset: u32,
        /// Where it begins in the buffer.
        at: usize,
        /// Size of the piece.
        bytes: u32,
        /// Whether no other piece follows.
        is_last: bool,
        /// Memory that holds it.
        buffer: B,
    },
    /// The command has ended; no other event of its tag follows.
    Done {
        /// The command's tag.
        tag: u64,
        /// How it ended.
        result: Result<Answer, Status>,
    },
}

/// A store as an event loop sees it: commands go in, events come out, nothing waits in between.
pub trait Backend {
    /// Memory of pieces.
    type Buffer: DerefMut<Target = [u8]>;

    /// Begins a command under a tag that is not in use.
    fn submit(&mut self, tag: u64, nsid: u32, command: Command);

    /// Supplies the oldest piece that was wanted for `tag`.
    fn supply(&mut self, tag: u64, buffer: Self::Buffer);

    /// Gives back the buffer of a piece. If that is the oldest one wanted, it lacks its data: the
    /// command fails without an effect.
    fn give_back(&mut self, tag: u64, buffer: Self::Buffer);

    /// Takes a command back. It ends by a `Done` like any other.
    fn abort(&mut self, tag: u64);

    /// Goes on with everything that can, and appends events.
    ///
    /// # Errors
    /// The backend is broken and serves no longer.
    fn poll(&mut self, events: &mut Vec<Event<Self::Buffer>>) -> io::Result<()>;

    /// Returns a descriptor that becomes readable when a poll has something to do.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Returns the most bytes of buffers that it hands out at a time.
    fn buffer_bytes(&self) -> usize;

    /// Returns whether commands wait for a buffer.
    fn is_short_of_buffers(&self) -> bool;

    /// Returns the bytes in use of a namespace.
    fn used_bytes(&self, nsid: u32) -> u64;
}
