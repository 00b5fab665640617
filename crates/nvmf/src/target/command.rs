//! Commands of I/O queues: from an entry to a command of the backend.

use super::backend::{Command, Condition, Key};
use super::subsystem::{Kind, Namespace};
use crate::wire::command::block;
use crate::wire::kv::{self, KeyField};
use crate::wire::{Status, SubmissionEntry};

/// The direction of a command's data, and how many bytes move at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    None,
    FromHost(u32),
    ToHost(u32),
}

/// The most bytes of a List; a longer list is fetched in parts. A queue of Lists stays small that way.
const MAX_LIST_BYTES: u32 = 64 << 10;

/// Reads a command to a namespace.
///
/// # Errors
/// The status that the host gets.
pub(super) fn decode(
    entry: &SubmissionEntry,
    namespace: &Namespace,
) -> Result<(Command, Data), Status> {
    if entry.opcode == block::FLUSH {
        return Ok((Command::Flush, Data::None));
    }
    match namespace.kind {
        Kind::Keys {
            max_value_bytes, ..
        } => keys(entry, max_value_bytes),
        Kind::Blocks { block_shift } => blocks(entry, namespace.bytes >> block_shift, block_shift),
    }
}

fn keys(entry: &SubmissionEntry, max_value_bytes: u32) -> Result<(Command, Data), Status> {
    match entry.opcode {
        kv::STORE => store(entry, max_value_bytes),
        kv::RETRIEVE => {
            check_options(entry, kv::RETRIEVE_RAW)?;
            let key = key(entry)?;
            let max_bytes = data_bytes(entry)?;
            Ok((
                Command::Retrieve { key, max_bytes },
                Data::ToHost(max_bytes),
            ))
        }
        kv::DELETE => {
            check_options(entry, 0)?;
            Ok((Command::Delete { key: key(entry)? }, Data::None))
        }
        kv::EXIST => {
            check_options(entry, 0)?;
            Ok((Command::Exist { key: key(entry)? }, Data::None))
        }
        kv::LIST => list(entry),
        _ => Err(Status::INVALID_OPCODE),
    }
}

fn store(entry: &SubmissionEntry, max_value_bytes: u32) -> Result<(Command, Data), Status> {
    check_options(
        entry,
        kv::STORE_IF_EXISTS | kv::STORE_IF_ABSENT | kv::STORE_UNCOMPRESSED,
    )?;
    let options = kv::options(entry);
    let condition = match (
        options & kv::STORE_IF_EXISTS != 0,
        options & kv::STORE_IF_ABSENT != 0,
    ) {
        (true, true) => return Err(Status::INVALID_FIELD),
        (true, false) => Condition::IfExists,
        (false, true) => Condition::IfAbsent,
        (false, false) => Condition::Always,
    };
    let key = key(entry)?;
    let value_bytes = data_bytes(entry)?;
    if value_bytes > max_value_bytes {
        return Err(Status::INVALID_VALUE_SIZE);
    }
    let command = Command::Store {
        key,
        value_bytes,
        condition,
    };
    Ok((command, Data::FromHost(value_bytes)))
}

fn list(entry: &SubmissionEntry) -> Result<(Command, Data), Status> {
    check_options(entry, 0)?;
    let from = match KeyField::from_entry(entry).len {
        0 => None,
        _ => Some(key(entry)?),
    };
    let bytes = data_bytes(entry)?;
    // The count and one key of any length.
    if bytes < 4 {
        return Err(Status::INVALID_FIELD);
    }
    let bytes = bytes.min(MAX_LIST_BYTES);
    let max_keys = kv::most_keys(bytes as usize);
    Ok((Command::List { from, max_keys }, Data::ToHost(bytes)))
}

fn key(entry: &SubmissionEntry) -> Result<Key, Status> {
    let field = KeyField::from_entry(entry);
    let key = field.key().and_then(Key::new);
    key.ok_or(Status::INVALID_KEY_SIZE)
}

fn check_options(entry: &SubmissionEntry, known: u8) -> Result<(), Status> {
    match kv::options(entry) & !known {
        0 => Ok(()),
        _ => Err(Status::INVALID_FIELD),
    }
}

/// Returns dword 10, the size of the value or of the host's buffer, which lies within the descriptor.
fn data_bytes(entry: &SubmissionEntry) -> Result<u32, Status> {
    let bytes = entry.cdw10.get();
    match bytes <= entry.data.bytes.get() {
        true => Ok(bytes),
        false => Err(Status::SGL_LENGTH_INVALID),
    }
}

fn blocks(
    entry: &SubmissionEntry,
    blocks: u64,
    block_shift: u8,
) -> Result<(Command, Data), Status> {
    let first = u64::from(entry.cdw11.get()) << 32 | u64::from(entry.cdw10.get());
    let count = (entry.cdw12.get() & 0xffff) + 1;
    if !matches!(entry.opcode, block::READ | block::WRITE) {
        return Err(Status::INVALID_OPCODE);
    }
    let end = first.checked_add(u64::from(count));
    if end.is_none_or(|end| end > blocks) {
        return Err(Status::LBA_OUT_OF_RANGE);
    }
    let bytes = count
        .checked_shl(u32::from(block_shift))
        .filter(|bytes| bytes >> block_shift == count)
        .ok_or(Status::INVALID_FIELD)?;
    if bytes != entry.data.bytes.get() {
        return Err(Status::SGL_LENGTH_INVALID);
    }
    let blocks = count;
    Ok(match entry.opcode {
        block::READ => (Command::Read { first, blocks }, Data::ToHost(bytes)),
        _ => {
            let is_durable = entry.cdw12.get() & block::FORCE_UNIT_ACCESS != 0;
            let write = Command::Write {
                first,
                blocks,
                is_durable,
            };
            (write, Data::FromHost(bytes))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_by_force_unit_access_is_durable() {
        let namespace = Namespace {
            nsid: 3,
            kind: Kind::Blocks { block_shift: 12 },
            bytes: 1 << 20,
            uuid: [3; 16],
        };
        for (bit, durable) in [(0, false), (block::FORCE_UNIT_ACCESS, true)] {
            let mut entry = SubmissionEntry::new(block::WRITE, 3);
            entry.cdw12 = (bit | 1).into();
            entry.data.bytes = 8192.into();
            let Ok((Command::Write { is_durable, .. }, _)) = decode(&entry, &namespace) else {
                panic!("a write");
            };
            assert_eq!(is_durable, durable);
        }
    }
}
