//! The commands of a client.

use std::fmt;
use std::sync::Arc;

use super::connection::{Done, Transfer};
use super::error::{Error, Result};
use crate::wire::command::{SubmissionEntry, block};
use crate::wire::kv;

/// A key: 1 to 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    bytes: [u8; kv::MAX_KEY_BYTES],
    len: u8,
}

impl Key {
    /// Makes a key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the key does not have 1 to 16 bytes.
    pub fn new(key: impl AsRef<[u8]>) -> Result<Self> {
        let key = key.as_ref();
        let mut bytes = [0; kv::MAX_KEY_BYTES];
        match bytes.get_mut(..key.len()) {
            Some(room) if !key.is_empty() => room.copy_from_slice(key),
            _ => return Err(Error::InvalidArgument("a key must have 1 to 16 bytes")),
        }
        let len = key.len() as u8;
        Ok(Key { bytes, len })
    }

    /// Returns the key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.as_bytes().escape_ascii())
    }
}

/// The condition of a Store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// None: the value replaces an earlier one.
    #[default]
    None,
    /// The key exists.
    IfExists,
    /// The key does not exist.
    IfAbsent,
}

impl Condition {
    fn option(self) -> u8 {
        match self {
            Condition::None => 0,
            Condition::IfExists => kv::STORE_IF_EXISTS,
            Condition::IfAbsent => kv::STORE_IF_ABSENT,
        }
    }
}

/// A command of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Stores a value.
    Store {
        /// The namespace.
        nsid: u32,
        /// The key.
        key: Key,
        /// The value.
        value: Arc<[u8]>,
        /// The condition.
        condition: Condition,
    },
    /// Retrieves a value, or its first bytes.
    Retrieve {
        /// The namespace.
        nsid: u32,
        /// The key.
        key: Key,
        /// The most bytes to get.
        max_bytes: u32,
    },
    /// Deletes a key and its value.
    Delete {
        /// The namespace.
        nsid: u32,
        /// The key.
        key: Key,
    },
    /// Asks for a key's existence: the answer is a status.
    Exists {
        /// The namespace.
        nsid: u32,
        /// The key.
        key: Key,
    },
    /// Lists keys.
    List {
        /// The namespace.
        nsid: u32,
        /// The place to begin at; none is the begin.
        from: Option<Key>,
        /// The most bytes of the list.
        max_bytes: u32,
    },
    /// Reads blocks.
    Read {
        /// The namespace.
        nsid: u32,
        /// The first block.
        block: u64,
        /// Number of blocks, 1 to 65536.
        blocks: u32,
        /// Bytes of a block.
        block_bytes: u32,
    },
    /// Writes blocks.
    Write {
        /// The namespace.
        nsid: u32,
        /// The first block.
        block: u64,
        /// The data: whole blocks.
        data: Arc<[u8]>,
        /// Bytes of a block.
        block_bytes: u32,
    },
    /// Makes earlier writes durable.
    Flush {
        /// The namespace.
        nsid: u32,
    },
    /// Any other command of an I/O queue.
    Other {
        /// The command. Its number and data pointer are set when it is sent.
        entry: SubmissionEntry,
        /// Its data.
        transfer: Transfer,
        /// Whether the command may be repeated after its connection broke.
        repeatable: bool,
    },
}

/// The answer to a successful command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The command's result. Of a Retrieve it is the length of the whole value.
    pub result: u64,
    /// Data from the controller.
    pub data: Vec<u8>,
}

impl Request {
    /// Returns whether the command may be repeated after its connection broke. A second Delete or
    /// conditional Store would answer for another state. A Flush that is repeated after a restart
    /// would answer for writes that the restart lost.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Request::Store { condition, .. } => *condition == Condition::None,
            Request::Retrieve { .. } | Request::Exists { .. } | Request::List { .. } => true,
            Request::Read { .. } | Request::Write { .. } => true,
            Request::Delete { .. } | Request::Flush { .. } => false,
            Request::Other { repeatable, .. } => *repeatable,
        }
    }

    /// Makes the command. Its number and data pointer are for the transport to set.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if no command can do the request.
    pub fn command(&self) -> Result<(SubmissionEntry, Transfer)> {
        let of_key = |opcode, nsid, key: &Key, options| {
            let mut entry = SubmissionEntry::new(opcode, nsid);
            kv::set_key(&mut entry, key.as_bytes(), options);
            entry
        };
        Ok(match self {
            Request::Store {
                nsid,
                key,
                value,
                condition,
            } => {
                let mut entry = of_key(kv::STORE, *nsid, key, condition.option());
                entry.cdw10 = length(value)?.into();
                (entry, Transfer::Write(value.clone()))
            }
            Request::Retrieve {
                nsid,
                key,
                max_bytes,
            } => {
                let mut entry = of_key(kv::RETRIEVE, *nsid, key, 0);
                entry.cdw10 = (*max_bytes).into();
                (entry, Transfer::Read(*max_bytes))
            }
            Request::Delete { nsid, key } => (of_key(kv::DELETE, *nsid, key, 0), Transfer::None),
            Request::Exists { nsid, key } => (of_key(kv::EXIST, *nsid, key, 0), Transfer::None),
            Request::List {
                nsid,
                from,
                max_bytes,
            } => {
                let mut entry = SubmissionEntry::new(kv::LIST, *nsid);
                kv::set_key(&mut entry, from.as_ref().map_or(&[], Key::as_bytes), 0);
                entry.cdw10 = (*max_bytes).into();
                (entry, Transfer::Read(*max_bytes))
            }
            Request::Read {
                nsid,
                block,
                blocks,
                block_bytes,
            } => {
                let entry = of_blocks(block::READ, *nsid, *block, *blocks)?;
                let bytes = blocks.checked_mul(*block_bytes);
                (entry, Transfer::Read(bytes.ok_or(TOO_LONG)?))
            }
            Request::Write {
                nsid,
                block,
                data,
                block_bytes,
            } => {
                let bytes = length(data)?;
                if *block_bytes == 0 || !bytes.is_multiple_of(*block_bytes) {
                    return Err(Error::InvalidArgument("data must be whole blocks"));
                }
                let entry = of_blocks(block::WRITE, *nsid, *block, bytes / *block_bytes)?;
                (entry, Transfer::Write(data.clone()))
            }
            Request::Flush { nsid } => (SubmissionEntry::new(block::FLUSH, *nsid), Transfer::None),
            Request::Other {
                entry, transfer, ..
            } => (*entry, transfer.clone()),
        })
    }

    /// Returns the result of a completed command. Checks that the data are there.
    ///
    /// # Errors
    /// [`Error::Status`] if the command failed, and [`Error::Malformed`] if data are missing.
    pub fn answer(&self, done: Done) -> Result<Answer> {
        let status = done.completion.status();
        if !status.is_success() {
            return Err(Error::Status(status));
        }
        let mut answer = Answer {
            result: done.completion.result(),
            data: done.data,
        };
        match self {
            Request::Retrieve { max_bytes, .. } => {
                // Data that bring success with them have no result: they are the whole value.
                let value_bytes = match done.completion.dw0.get() {
                    0 => answer.data.len() as u32,
                    bytes => bytes,
                };
                let due = value_bytes.min(*max_bytes) as usize;
                if answer.data.len() < due {
                    return Err(Error::Malformed("value"));
                }
                answer.data.truncate(due);
                answer.result = u64::from(value_bytes);
            }
            Request::Read {
                blocks,
                block_bytes,
                ..
            } if answer.data.len() as u64 != u64::from(*blocks) * u64::from(*block_bytes) => {
                return Err(Error::Malformed("data of blocks"));
            }
            _ => {}
        }
        Ok(answer)
    }
}

const TOO_LONG: Error = Error::InvalidArgument("data are longer than 4 GiB");

fn length(data: &[u8]) -> Result<u32> {
    u32::try_from(data.len()).map_err(|_| TOO_LONG)
}

fn of_blocks(opcode: u8, nsid: u32, first: u64, blocks: u32) -> Result<SubmissionEntry> {
    let blocks = match blocks.checked_sub(1).map(u16::try_from) {
        Some(Ok(blocks)) => blocks,
        _ => return Err(Error::InvalidArgument("a command has 1 to 65536 blocks")),
    };
    let mut entry = SubmissionEntry::new(opcode, nsid);
    entry.cdw10 = (first as u32).into();
    entry.cdw11 = ((first >> 32) as u32).into();
    entry.cdw12 = u32::from(blocks).into();
    Ok(entry)
}
